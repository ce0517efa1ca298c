"""What groups had committed on the source when it was seen last; part of ``offsets.records``.

    ["group", name, topic]   what a group has committed for the partitions of a topic
    ["groups"]               when the source was asked last

A source that is gone cannot be asked, and a group that was ahead of the mirror is in no checkpoint: so a failover reads
these.

Invariants: a record says what the source answered at its time, and it still did so at the time of the newest
``["groups"]``. A target offset in it was exact at that time; it outlives what the offset map knew then.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from sparkmirror.offsets import json_text


@dataclass(frozen=True, slots=True)
class UpstreamOffset:
    """Where a committed offset leads to on the target, by the map of the flow the other way.

    A record that the flow back wrote to the source came from the target. That flow's map lies on the source, so it has
    to be asked while the source is there.

    Attributes:
        offset: on the target, or `NO_OFFSET`.
        name: of the ``translation.Place`` that lies there, or of the ``translation.Reason`` why there is no offset.
        exact: whether the map reached as far as the group had read; otherwise the group reads some records again.
    """

    offset: int
    name: str
    exact: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupSeen:
    """What a group has committed for one topic.

    Attributes:
        group: its name.
        topic: of the source.
        offsets: by partition the offset of the next record to read, and the metadata that was committed with it.
        targets: by partition what that offset is on the target, where the offset map is large enough to be thinned
            soon and told it exactly.
        time_ms: when that was seen first, milliseconds since 1970.
        upstream: by partition where the offset leads to on the target, of what the flow the other way has copied from
            there.
    """

    group: str
    topic: str
    offsets: Mapping[int, tuple[int, str]]
    time_ms: int
    upstream: Mapping[int, UpstreamOffset] = field(default_factory=dict)
    targets: Mapping[int, int] = field(default_factory=dict)

    @property
    def key(self) -> str:
        """The record's key."""
        return json_text.write(["group", self.group, self.topic])

    def value(self) -> str:
        """The record's value."""
        targets = {number: (target,) for number, target in self.targets.items()}
        rows = [[number, *self.offsets[number], *targets.get(number, ())] for number in sorted(self.offsets)]
        said: dict[str, Any] = {"v": json_text.VERSION, "time_ms": self.time_ms, "offsets": rows}
        if self.upstream:
            known = sorted(self.upstream.items())
            said["upstream"] = [[number, one.offset, one.name, one.exact] for number, one in known]
        return json_text.write(said)


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupsSeen:
    """When all groups of the source were seen last, milliseconds since 1970."""

    time_ms: int

    @property
    def key(self) -> str:
        """The record's key."""
        return json_text.write(["groups"])

    def value(self) -> str:
        """The record's value."""
        return json_text.write({"v": json_text.VERSION, "time_ms": self.time_ms})


GroupRecord = GroupSeen | GroupsSeen


def _group(name: list[Any], data: dict[str, Any]) -> GroupSeen:
    _, group, topic = name
    offsets = {int(number): (int(offset), str(metadata)) for number, offset, metadata, *_ in data["offsets"]}
    targets = {int(number): int(target) for number, _, _, *rest in data["offsets"] for target in rest[:1]}
    upstream = {int(row[0]): UpstreamOffset(int(row[1]), str(row[2]), bool(row[3])) for row in data.get("upstream", [])}
    return GroupSeen(
        group=str(group),
        topic=str(topic),
        offsets=offsets,
        time_ms=int(data["time_ms"]),
        upstream=upstream,
        targets=targets,
    )


def _groups(_name: list[Any], data: dict[str, Any]) -> GroupsSeen:
    return GroupsSeen(time_ms=int(data["time_ms"]))


READERS: dict[str, Callable[[list[Any], dict[str, Any]], GroupRecord]] = {"group": _group, "groups": _groups}
"""The readers of these kinds, for ``records.parse``."""
