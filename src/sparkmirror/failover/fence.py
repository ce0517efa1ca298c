"""Keeps producers from a source: a rule that denies writing to the topics of a flow, recorded before it is made.

Invariants: only rules that were not there before are made, and only those are taken away again; a cluster without an
authorizer cannot be fenced, which is said before anything is done.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from sparkmirror.errors import SparkmirrorError
from sparkmirror.kafka.acls import (
    EVERYTHING,
    AclBinding,
    Operation,
    PatternType,
    Permission,
    ResourceType,
    create_acls,
    delete_acls,
    describe_acls,
)
from sparkmirror.kafka.cluster import Cluster

Rows = Sequence[Sequence[str]]
"""Bindings as they are kept on record: the words of each."""

EVERYBODY = "User:*"


def missing(source: Cluster, topics: Iterable[str], timeout_ms: int) -> tuple[AclBinding, ...]:
    """The rules that would keep everybody from writing to these topics, but for those that are there.

    Raises:
        SparkmirrorError: the cluster has no authorizer, or does not tell this user.
    """
    known = describe_acls(source, [ResourceType.TOPIC], timeout_ms)
    if known is None:
        raise SparkmirrorError(
            f"cluster {source.alias} has no authorizer, so producers cannot be kept from it by ACLs: stop them, and "
            "leave out --fence-by-acl"
        )
    return tuple(rule for rule in map(_denial, sorted(set(topics))) if rule not in known)


def put_up(source: Cluster, rules: Sequence[AclBinding], timeout_ms: int) -> None:
    """Makes the rules.

    Raises:
        SparkmirrorError: the cluster refuses one.
    """
    create_acls(source, rules, timeout_ms).complete()


def take_down(source: Cluster, rules: Sequence[AclBinding], timeout_ms: int) -> None:
    """Takes the rules away.

    Raises:
        SparkmirrorError: the cluster refuses.
    """
    delete_acls(source, rules, timeout_ms).complete()


def rows_of(rules: Iterable[AclBinding]) -> list[list[str]]:
    """For the record."""
    return [
        [rule.kind.name, rule.name, rule.pattern.name, rule.principal, rule.host, rule.operation.name] for rule in rules
    ]


def rules_of(rows: Rows) -> tuple[AclBinding, ...]:
    """From the record."""
    return tuple(
        AclBinding(
            ResourceType[kind], name, PatternType[pattern], principal, host, Operation[operation], Permission.DENY
        )
        for kind, name, pattern, principal, host, operation in rows
    )


def _denial(topic: str) -> AclBinding:
    return AclBinding(
        ResourceType.TOPIC,
        topic,
        PatternType.LITERAL,
        EVERYBODY,
        EVERYTHING,
        Operation.WRITE,
        Permission.DENY,
    )
