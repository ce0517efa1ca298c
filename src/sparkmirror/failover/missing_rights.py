"""Rights that a flow needs and its user has not, as far as brokers tell them of topics and of the cluster. Pure.

Rights on groups are not told here: a group that may not be read is found when it is read.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from sparkmirror.duties.reach import ALL, Reach
from sparkmirror.duties.rights import Right
from sparkmirror.kafka.acls import Operation, PatternType, ResourceType
from sparkmirror.model import Alias

_VITAL = frozenset({"copying", "sparkmirror's own topics", "checkpoints"})
"""Parts of a flow that a failover goes by; the others come to their own once it is over."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Lack:
    """A right that is missing.

    Attributes:
        cluster: where.
        operation: what is not allowed.
        names: with which topics; none for the cluster itself.
        reason: which part of the flow needs it.
    """

    cluster: Alias
    operation: Operation
    names: tuple[str, ...]
    reason: str

    @property
    def vital(self) -> bool:
        """Whether a failover goes by it."""
        return self.reason in _VITAL

    @property
    def text(self) -> str:
        """In words."""
        what = f"Topic {self.names[0]}" if self.names else "the Cluster"
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


def _by_cluster(right: Right, on_cluster: Collection[str] | None) -> bool:
    """Whether a right on the cluster does as well."""
    return right.operation is Operation.CREATE and "CREATE" in (on_cluster or ())


def _covered(right: Right, topics: Mapping[str, frozenset[Operation]], names: Collection[str]) -> Iterable[str]:
    reach = Reach(right.name, right.pattern)
    single = right.pattern is PatternType.LITERAL and reach != ALL
    wanted = [right.name] if single else names
    return (name for name in wanted if name in topics and reach.covers(Reach(name, PatternType.LITERAL)))
