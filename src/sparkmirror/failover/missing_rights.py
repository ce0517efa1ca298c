"""Rights that a flow needs and its user has not, as far as brokers tell them of topics, groups and the cluster. Pure.

Of groups only those on the target are asked for: one of the source that may not be read is found when it is read.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from sparkmirror.duties.reach import ALL, Reach
from sparkmirror.duties.rights import OPERATIONS, Right
from sparkmirror.kafka.acls import Operation, PatternType, ResourceType
from sparkmirror.model import Alias

_VITAL = frozenset({"copying", "sparkmirror's own topics", "checkpoints", OPERATIONS})
"""Parts of a flow that a failover goes by; the others come to their own once it is over."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Lack:
    """A right that is missing.

    Attributes:
        cluster: where.
        operation: what is not allowed.
        names: with which topics, or groups; none for the cluster itself.
        reason: which part of the flow needs it.
        kind: what the names are of.
    """

    cluster: Alias
    operation: Operation
    names: tuple[str, ...]
    reason: str
    kind: ResourceType = ResourceType.TOPIC

    @property
    def vital(self) -> bool:
        """Whether a failover goes by it."""
        return self.reason in _VITAL

    @property
    def text(self) -> str:
        """In words."""
        what = f"{self.kind.name.capitalize()} {self.names[0]}" if self.names else "the Cluster"
        more = f" and {len(self.names) - 1} more" if len(self.names) > 1 else ""
        return f"cluster {self.cluster}: this user is not allowed to {self.operation.name} {what}{more} ({self.reason})"


def lacking(
    cluster: Alias,
    needed: Iterable[Right],
    topics: Mapping[str, frozenset[Operation]],
    on_cluster: Collection[str] | None,
    names: Collection[str],
) -> tuple[Lack, ...]:
    """What is missing on one cluster, each operation for one purpose once.

    Args:
        cluster: which one.
        needed: by the flow's configuration.
        topics: what the user may do with the topics that it sees.
        on_cluster: the names of what it may do with the cluster; None where the broker does not tell.
        names: the topics that the flow copies, or their copies; rights may cover more.
    """
    found: dict[tuple[Operation, str], set[str]] = {}
    for right in needed:
        key = (right.operation, right.reason)
        if right.kind is ResourceType.CLUSTER and on_cluster is not None and right.operation.name not in on_cluster:
            found.setdefault(key, set())
        elif right.kind is ResourceType.TOPIC and not _by_cluster(right, on_cluster):
            without = {name for name in _covered(right, topics, names) if right.operation not in topics[name]}
            if without:
                found.setdefault(key, set()).update(without)
    return tuple(
        Lack(cluster=cluster, operation=operation, names=tuple(sorted(found[operation, reason])), reason=reason)
        for operation, reason in sorted(found)
    )


def lacking_of_groups(
    cluster: Alias, needed: Iterable[Right], groups: Mapping[str, frozenset[Operation]]
) -> tuple[Lack, ...]:
    """What is missing with groups, each operation for one purpose once.

    Args:
        cluster: which one.
        needed: by the flow's configuration.
        groups: what the user may do with those that the flow is about.
    """
    found: dict[tuple[Operation, str], set[str]] = {}
    for right in needed:
        if right.kind is ResourceType.GROUP:
            without = {name for name in _covered(right, groups, groups.keys()) if right.operation not in groups[name]}
            if without:
                found.setdefault((right.operation, right.reason), set()).update(without)
    return tuple(
        Lack(cluster=cluster, operation=operation, names=tuple(sorted(names)), reason=reason, kind=ResourceType.GROUP)
        for (operation, reason), names in sorted(found.items())
    )


def _by_cluster(right: Right, on_cluster: Collection[str] | None) -> bool:
    """Whether a right on the cluster does as well."""
    return right.operation is Operation.CREATE and "CREATE" in (on_cluster or ())


def _covered(right: Right, known: Mapping[str, frozenset[Operation]], names: Collection[str]) -> Iterable[str]:
    reach = Reach(right.name, right.pattern)
    single = right.pattern is PatternType.LITERAL and reach != ALL
    wanted = [right.name] if single else names
    return (name for name in wanted if name in known and reach.covers(Reach(name, PatternType.LITERAL)))
