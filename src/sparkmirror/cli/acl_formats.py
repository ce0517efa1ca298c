"""Rights as text that can be handed out: commands, a KafkaUser of Strimzi, resources of Terraform.

Invariants: what is printed can be pasted as it is, whatever characters a name has; the order is that of the rights.

Reference: ``kafka.admin.AclCommand``; Strimzi's ``KafkaUserAuthorizationSimple`` and ``AclRule``; the provider
``Mongey/kafka`` of Terraform, which takes one operation per resource.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from sparkmirror.kafka.acls import Operation, PatternType, ResourceType

_CLUSTER = ResourceType.CLUSTER
_OPTION = {
    ResourceType.TOPIC: "--topic",
    ResourceType.GROUP: "--group",
    ResourceType.TRANSACTIONAL_ID: "--transactional-id",
}
_STRIMZI_TYPE = {
    ResourceType.TOPIC: "topic",
    ResourceType.GROUP: "group",
    ResourceType.CLUSTER: "cluster",
    ResourceType.TRANSACTIONAL_ID: "transactionalId",
}
_TERRAFORM_TYPE = {
    ResourceType.TOPIC: "Topic",
    ResourceType.GROUP: "Group",
    ResourceType.CLUSTER: "Cluster",
    ResourceType.TRANSACTIONAL_ID: "TransactionalID",
}
_USER_NAME = re.compile(r"User:(?:CN=)?([a-z0-9](?:[a-z0-9.-]*[a-z0-9])?)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Grant:
    """All that is allowed with one resource, and what for."""

    kind: ResourceType
    name: str
    pattern: PatternType
    operations: tuple[Operation, ...]
    reasons: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterRights:
    """What the flows need on one cluster."""

    alias: str
    bootstrap_servers: tuple[str, ...]
    flows: tuple[str, ...]
    grants: tuple[Grant, ...]

    @property
    def title(self) -> str:
        """Which cluster this is, and for whom."""
        return f"cluster {self.alias}, for {', '.join(self.flows)}"


def kafka_acls(clusters: Sequence[ClusterRights], principal: str) -> str:
    """Commands for a shell, one for each resource."""
    lines = ["# Add --command-config FILE where a cluster asks its administrators to log in."]
    for cluster in clusters:
        lines += ["", f"# {cluster.title}"]
        for grant in cluster.grants:
            lines += [f"# {'; '.join(grant.reasons)}", _command(cluster, grant, principal)]
    return "\n".join(lines) + "\n"


def strimzi(clusters: Sequence[ClusterRights], principal: str) -> str:
    """A KafkaUser for each cluster; only for a principal that has a `user_name`."""
    return "---\n".join("\n".join(_kafka_user(cluster, principal)) + "\n" for cluster in clusters)


def terraform(clusters: Sequence[ClusterRights], principal: str) -> str:
    """Resources ``kafka_acl``, one for each operation; of several clusters each has a provider of its own."""
    blocks = []
    for cluster in clusters:
        known: set[str] = set()
        blocks.append(f"# {cluster.title}\n")
        for grant in cluster.grants:
            for number, operation in enumerate(grant.operations):
                because = f"# {'; '.join(grant.reasons)}\n" if number == 0 else ""
                label = _label(cluster.alias, grant, operation, known)
                provider = _identifier(cluster.alias) if len(clusters) > 1 else ""
                blocks.append(because + _resource(label, grant, operation, principal, provider))
    return "\n".join(blocks)


def user_name(principal: str) -> str | None:
    """What a KafkaUser with this principal is called; None where none can have it."""
    found = _USER_NAME.fullmatch(principal)
    return found[1] if found else None


def _camel(operation: Operation) -> str:
    """As all three write it, such as ``DescribeConfigs``."""
    return "".join(word.capitalize() for word in operation.name.split("_"))


def _command(cluster: ClusterRights, grant: Grant, principal: str) -> str:
    words = ["kafka-acls.sh", "--bootstrap-server", ",".join(cluster.bootstrap_servers), "--add"]
    words += ["--allow-principal", principal]
    for operation in grant.operations:
        words += ["--operation", _camel(operation)]
    if grant.kind is _CLUSTER:
        words.append("--cluster")
    else:
        words += [_OPTION[grant.kind], grant.name, "--resource-pattern-type", grant.pattern.name.lower()]
    return shlex.join(words)


def _kafka_user(cluster: ClusterRights, principal: str) -> Iterator[str]:
    yield f"# {cluster.title}"
    yield "apiVersion: kafka.strimzi.io/v1  # before Strimzi 0.49: kafka.strimzi.io/v1beta2"
    yield "kind: KafkaUser"
    yield "metadata:"
    yield f"  name: {json.dumps(user_name(principal))}"
    yield "  labels:"
    yield f"    strimzi.io/cluster: {json.dumps(cluster.alias)}  # what the Kafka resource is called"
    yield "spec:"
    yield "  authorization:"
    yield "    type: simple"
    yield "    acls:"
    for grant in cluster.grants:
        yield f"      # {'; '.join(grant.reasons)}"
        yield "      - resource:"
        yield f"          type: {_STRIMZI_TYPE[grant.kind]}"
        if grant.kind is not _CLUSTER:
            yield f"          name: {json.dumps(grant.name, ensure_ascii=False)}"
            yield f"          patternType: {'prefix' if grant.pattern is PatternType.PREFIXED else 'literal'}"
        yield "        operations:"
        for operation in grant.operations:
            yield f"          - {_camel(operation)}"


def _resource(label: str, grant: Grant, operation: Operation, principal: str, provider: str) -> str:
    rows = {
        "resource_name": grant.name,
        "resource_type": _TERRAFORM_TYPE[grant.kind],
        "resource_pattern_type_filter": grant.pattern.name.capitalize(),
        "acl_principal": principal,
        "acl_host": "*",
        "acl_operation": _camel(operation),
        "acl_permission_type": "Allow",
    }
    lines = [f"  {name:<28} = {_quoted(value)}" for name, value in rows.items()]
    if provider:
        lines.insert(0, f"  {'provider':<28} = kafka.{provider}")
    return "\n".join([f'resource "kafka_acl" "{label}" {{', *lines, "}", ""])


def _quoted(text: str) -> str:
    """A string of Terraform's language, where ``${`` and ``%{`` begin templates."""
    return json.dumps(text, ensure_ascii=False).replace("${", "$${").replace("%{", "%%{")


def _label(alias: str, grant: Grant, operation: Operation, known: set[str]) -> str:
    """A name for a resource that no other one has."""
    what = "all" if grant.name == "*" else grant.name
    stem = _identifier(f"{alias}_{grant.kind.name.lower()}_{what}_{operation.name.lower()}")
    label, number = stem, 2
    while label in known:
        label, number = f"{stem}_{number}", number + 1
    known.add(label)
    return label


def _identifier(text: str) -> str:
    """Letters, digits, underscores and hyphens, and no digit at the beginning."""
    plain = re.sub(r"[^A-Za-z0-9_-]+", "_", text).strip("_") or "x"
    return plain if plain[0].isalpha() else f"x_{plain}"
