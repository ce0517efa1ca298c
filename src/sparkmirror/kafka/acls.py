"""ACL bindings of a cluster: which there are, creating and deleting them; and the names of its SCRAM users.

Invariants: a cluster without an authorizer is a value (None), not an error, since nothing is wrong with it; a binding
that fails does not stop the others (`Results`); bindings of resources or operations that a later release added are left
out; creating one that is there, and deleting one that is not, does nothing.

Reference: the DescribeAcls, CreateAcls and DeleteAcls APIs (KIP-140, KIP-290), DescribeUserScramCredentials (KIP-554).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

from kafka.protocol.admin import (
    CreateAclsRequest,
    DeleteAclsRequest,
    DescribeAclsRequest,
    DescribeUserScramCredentialsRequest,
)

from sparkmirror.errors import BrokerError, LinkError
from sparkmirror.kafka.cluster import Cluster
from sparkmirror.kafka.rounds import ADMIN_MS, Answer, Deadline, Results, chunks, explained, out_of_time, repeat

CLUSTER_AUTHORIZATION_FAILED = 31
SECURITY_DISABLED = 54

CLUSTER_NAME = "kafka-cluster"
"""What the only resource of the type CLUSTER is called."""

EVERYTHING = "*"
"""As a literal name: every resource of the type."""

EVERYBODY = "User:*"
"""As a principal: all of them."""

CHANGED_BINDINGS = 500
"""Per request. A KRaft controller refuses to create more than 10,000 at once."""

_ANY = 1


class ResourceType(IntEnum):
    """What a binding is about."""

    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    USER = 7


class PatternType(IntEnum):
    """How the name in a binding is meant."""

    LITERAL = 3
    PREFIXED = 4


class Operation(IntEnum):
    """What is allowed or denied."""

    ALL = 2
    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12
    CREATE_TOKENS = 13
    DESCRIBE_TOKENS = 14
    TWO_PHASE_COMMIT = 15


class Permission(IntEnum):
    """Whether a binding gives or takes."""

    DENY = 2
    ALLOW = 3


@dataclass(frozen=True, slots=True, order=True)
class AclBinding:
    """One rule: who may, or may not, do what with which resource, and from where."""

    kind: ResourceType
    name: str
    pattern: PatternType
    principal: str
    host: str
    operation: Operation
    permission: Permission

    @property
    def resource(self) -> str:
        """What it is about, such as ``topic orders`` or ``topic orders*`` for a prefix."""
        star = "*" if self.pattern is PatternType.PREFIXED else ""
        return f"{self.kind.name.lower().replace('_', ' ')} {self.name}{star}"

    @property
    def rule(self) -> str:
        """The rest, such as ``ALLOW READ to User:alice from any host``."""
        host = "any host" if self.host == EVERYTHING else self.host
        return f"{self.permission.name} {self.operation.name} to {self.principal} from {host}"


def describe_acls(
    cluster: Cluster, kinds: Sequence[ResourceType], timeout_ms: int = ADMIN_MS
) -> frozenset[AclBinding] | None:
    """All bindings about resources of these types; None where the cluster has no authorizer.

    Raises:
        BrokerError: this user may not see them.
        LinkError: no broker could be asked.
    """

    def ask(wanted: Sequence[ResourceType], deadline: Deadline) -> Iterable[Answer[ResourceType, Any]]:
        for kind in wanted:
            request = DescribeAclsRequest(
                resource_type_filter=int(kind),
                resource_name_filter=None,
                pattern_type_filter=_ANY,
                principal_filter=None,
                host_filter=None,
                operation=_ANY,
                permission_type=_ANY,
            )
            response = cluster.call(request, timeout_ms=deadline.attempt_ms)
            disabled = response.error_code == SECURITY_DISABLED
            yield Answer(
                key=kind,
                value=None if disabled else frozenset(_bindings(response.resources)),
                code=0 if disabled else response.error_code,
                message=cluster.told(response.error_message),
            )

    explain = _explaining(cluster, "DESCRIBE")
    found = repeat(kinds, ask, lambda _, code, said: explain("", code, said), timeout_ms, cluster.backoff).complete()
    if any(bindings is None for bindings in found.values()):
        return None
    return frozenset().union(*found.values())


def create_acls(
    cluster: Cluster,
    bindings: Sequence[AclBinding],
    timeout_ms: int = ADMIN_MS,
    prove: Callable[[], None] = lambda: None,
) -> Results[AclBinding, None]:
    """Creates bindings; one that is there already is fine.

    Args:
        cluster: where.
        bindings: which.
        timeout_ms: milliseconds until those without an answer count as failed.
        prove: sees right before each request, also one that is repeated, that it may be sent; raises where it may not.
    """

    def request(some: Sequence[AclBinding]) -> Any:
        creation = CreateAclsRequest.AclCreation
        wanted = [
            creation(
                resource_type=int(each.kind),
                resource_name=each.name,
                resource_pattern_type=int(each.pattern),
                principal=each.principal,
                host=each.host,
                operation=int(each.operation),
                permission_type=int(each.permission),
            )
            for each in some
        ]
        return CreateAclsRequest(creations=wanted)

    return _change(cluster, bindings, request, lambda response: response.results, timeout_ms, prove)


def delete_acls(
    cluster: Cluster, bindings: Sequence[AclBinding], timeout_ms: int = ADMIN_MS
) -> Results[AclBinding, None]:
    """Deletes exactly these bindings; one that is not there is fine."""

    def request(some: Sequence[AclBinding]) -> Any:
        exactly = DeleteAclsRequest.DeleteAclsFilter
        wanted = [
            exactly(
                resource_type_filter=int(each.kind),
                resource_name_filter=each.name,
                pattern_type_filter=int(each.pattern),
                principal_filter=each.principal,
                host_filter=each.host,
                operation=int(each.operation),
                permission_type=int(each.permission),
            )
            for each in some
        ]
        return DeleteAclsRequest(filters=wanted)

    def results(response: Any) -> list[Any]:
        return [_worst(result) for result in response.filter_results]

    return _change(cluster, bindings, request, results, timeout_ms)


def scram_users(cluster: Cluster, users: Collection[str], timeout_ms: int = ADMIN_MS) -> frozenset[str] | None:
    """Which of the users the cluster knows as SCRAM users; None where it does not tell this user.

    They are named one by one, since brokers do not answer at all when all are asked for without the right to.

    Raises:
        LinkError: no broker could be asked, or none knows the question.
    """
    user = DescribeUserScramCredentialsRequest.UserName
    request = DescribeUserScramCredentialsRequest(users=[user(name=name) for name in sorted(users)])
    response = cluster.call(request, timeout_ms=timeout_ms)
    if response.error_code or any(result.error_code == CLUSTER_AUTHORIZATION_FAILED for result in response.results):
        return None
    return frozenset(result.user for result in response.results if not result.error_code)


def _change(
    cluster: Cluster,
    bindings: Sequence[AclBinding],
    request: Callable[[Sequence[AclBinding]], Any],
    results: Callable[[Any], Sequence[Any]],
    timeout_ms: int,
    prove: Callable[[], None] = lambda: None,
) -> Results[AclBinding, None]:
    """Sends a change in pieces, to any broker (it forwards them); results come in the order of the request."""

    def ask(wanted: Sequence[AclBinding], deadline: Deadline) -> Iterable[Answer[AclBinding, None]]:
        last: LinkError | None = None
        for piece in chunks(wanted, CHANGED_BINDINGS):
            if late := out_of_time(deadline, last, cluster.alias, cluster.address):
                yield from (Answer(key=binding, link=late) for binding in piece)
                continue
            prove()
            attempt_ms = deadline.attempt_ms
            try:
                found = results(cluster.call(request(piece), None, attempt_ms, attempt_ms))
                _check_count(cluster, len(found), len(piece))
            except LinkError as failure:
                last = failure
                yield from (Answer(key=binding, link=failure) for binding in piece)
                continue
            last = None
            for binding, result in zip(piece, found, strict=True):
                yield Answer(key=binding, code=result.error_code, message=cluster.told(result.error_message))

    explain = _explaining(cluster, "ALTER")
    return repeat(
        bindings, ask, lambda binding, code, said: explain(binding.name, code, said), timeout_ms, cluster.backoff
    )


def _check_count(cluster: Cluster, results: int, bindings: int) -> None:
    """Refuses an answer with another number of results: which of them is whose is not known."""
    if results != bindings:
        reason = f"a broker answered with {results} results for {bindings} ACLs"
        raise cluster.link_error(ConnectionError(reason))


def _worst(result: Any) -> Any:
    """The filter's own error, or that of a binding that it met."""
    failed = (matching for matching in result.matching_acls or () if matching.error_code)
    return result if result.error_code else next(failed, result)


def _bindings(resources: Sequence[Any]) -> Iterable[AclBinding]:
    for resource in resources:
        for acl in resource.acls:
            try:
                yield AclBinding(
                    ResourceType(resource.resource_type),
                    resource.resource_name,
                    PatternType(resource.pattern_type),
                    acl.principal,
                    acl.host,
                    Operation(acl.operation),
                    Permission(acl.permission_type),
                )
            except ValueError:  # a resource or an operation of a later release
                continue


def _explaining(cluster: Cluster, operation: str) -> Callable[[str, int, str], BrokerError]:
    remedies = {
        CLUSTER_AUTHORIZATION_FAILED: f"allow {operation} on the Cluster to this user",
        SECURITY_DISABLED: "the cluster has no authorizer",
        42: "the cluster does not take the binding",
    }

    def explain(name: str, code: int, said: str) -> BrokerError:
        # What brokers say of a missing right names the request's connection, and so is another text each time.
        message = "" if code == CLUSTER_AUTHORIZATION_FAILED else said
        return explained(code, cluster.alias, topic=name, remedy=remedies.get(code, ""), message=message)

    return explain
