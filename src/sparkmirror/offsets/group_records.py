"""What groups had committed on the source when it was seen last; part of ``offsets.records``.

    ["group", name, topic]   what a group has committed for the partitions of a topic
    ["groups"]               when the source was asked last

A source that is gone cannot be asked, and a group that was ahead of the mirror is in no checkpoint: so a failover reads
these.

Invariant: a record says what the source answered at its time, and it still did so at the time of the newest
``["groups"]``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from sparkmirror.offsets import json_text


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupSeen:
    """What a group has committed for one topic.

    Attributes:
        group: its name.
        topic: of the source.
        offsets: by partition the offset of the next record to read, and the metadata that was committed with it.
        time_ms: when that was seen first, milliseconds since 1970.
    """

    group: str
    topic: str
    offsets: Mapping[int, tuple[int, str]]
    time_ms: int

    @property
    def key(self) -> str:
        """The record's key."""
        return json_text.write(["group", self.group, self.topic])

    def value(self) -> str:
        """The record's value."""
        rows = [[number, *self.offsets[number]] for number in sorted(self.offsets)]
        return json_text.write({"v": json_text.VERSION, "time_ms": self.time_ms, "offsets": rows})


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
    offsets = {int(number): (int(offset), str(metadata)) for number, offset, metadata in data["offsets"]}
    return GroupSeen(group=str(group), topic=str(topic), offsets=offsets, time_ms=int(data["time_ms"]))


def _groups(_name: list[Any], data: dict[str, Any]) -> GroupsSeen:
    return GroupsSeen(time_ms=int(data["time_ms"]))


READERS: dict[str, Callable[[list[Any], dict[str, Any]], GroupRecord]] = {"group": _group, "groups": _groups}
"""The readers of these kinds, for ``records.parse``."""
