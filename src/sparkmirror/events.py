"""What an operator must know of: the kinds of events, and one event with its exact offsets.

An event travels from where it happens (a lane, or the driver's decisions) in receipts and progress to the driver, which
puts it on record and tells it once. ``docs/operations.md`` has a row for each kind: what it means, what was done, what
to do.

Invariant: two events are equal if they say the same, whenever that was; so what happens again is known as told.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import Enum
from typing import Any

from sparkmirror.model import NO_OFFSET


class Kind(Enum):
    """What an event is about; the value is what status, JSON and the internal topic call it."""

    NOTE = "note"
    SOURCE_RETENTION = "source-retention"
    SOURCE_TAIL_LOST = "source-tail-lost"
    SOURCE_DELETED = "source-deleted"
    SOURCE_RECREATED = "source-recreated"
    SOURCE_SHRANK = "source-shrank"
    TARGET_DELETED = "target-deleted"
    TARGET_RECREATED = "target-recreated"
    TARGET_TAIL_LOST = "target-tail-lost"
    TARGET_CHANGED = "target-changed"
    TARGET_NOT_EMPTY = "target-not-empty"
    FOREIGN_WRITER = "foreign-writer"
    RELAYED = "relayed"
    LOOP = "loop"
    UNCONFIRMED_WRITER = "unconfirmed-writer"
    LATE_WRITER = "late-writer"
    RECORD_TOO_LARGE = "record-too-large"
    DEAD_LETTER = "dead-letter"
    UNAUTHORIZED = "unauthorized"
    THROTTLED = "throttled"
    TAKEN_OVER = "taken-over"
    MAY_REPEAT = "may-repeat"
    FORGED_BATCH = "forged-batch"
    STOPPED = "stopped"
    GOES_ON = "goes-on"
    MOVED = "moved"
    FOREIGN_RECORD = "foreign-record"
    RPO_PASSED = "rpo-passed"
    RPO_WITHIN = "rpo-within"


ANEW = frozenset(
    {
        Kind.SOURCE_TAIL_LOST,
        Kind.SOURCE_DELETED,
        Kind.SOURCE_RECREATED,
        Kind.SOURCE_SHRANK,
        Kind.TARGET_DELETED,
        Kind.TARGET_RECREATED,
        Kind.TARGET_NOT_EMPTY,
        Kind.MOVED,
        Kind.RELAYED,
    }
)
"""A partition that stopped for one of these may go on elsewhere than where it stood, or with other batches: its
writer's epoch is raised first, and both clusters are looked at anew."""


DEPARTED = frozenset({Kind.SOURCE_DELETED, Kind.SOURCE_SHRANK})
"""A partition that the source does not have any more leaves the flow, and stands still no longer."""


def kind_of_stop(events: Sequence[Event], error: str) -> Kind:
    """What a partition stopped for, given what its lane told."""
    return next((event.kind for event in reversed(events) if event.text == error), Kind.STOPPED)


def now_ms() -> int:
    """The wall clock, in milliseconds since 1970."""
    return int(time.time() * 1000)


def wall_time(time_ms: int) -> str:
    """A moment, milliseconds since 1970, as the clock on this machine's wall shows it."""
    return f"{datetime.fromtimestamp(time_ms / 1000).astimezone():%Y-%m-%d %H:%M:%S}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """Something that happened to one partition, or to a flow.

    Attributes:
        kind: what it is about.
        text: for people; without the partition's name.
        first, last: the offsets concerned, both included, or `NO_OFFSET`; of the source, but for the kinds that
            concern the target's log, whose offsets they are then.
        time_ms: when, milliseconds since 1970.
    """

    kind: Kind
    text: str
    first: int = NO_OFFSET
    last: int = NO_OFFSET
    time_ms: int = field(default_factory=now_ms, compare=False)

    def __str__(self) -> str:
        return self.text

    def as_json(self) -> dict[str, Any]:
        """As it stands on record."""
        return {
            "kind": self.kind.value,
            "text": self.text,
            "first": self.first,
            "last": self.last,
            "time_ms": self.time_ms,
        }


def event_of(data: Mapping[str, Any] | str) -> Event:
    """Reads `Event.as_json`; a plain text, as earlier versions wrote, or a kind of a later one is a note.

    Raises:
        KeyError: a field is missing.
    """
    if isinstance(data, str):
        return Event(kind=Kind.NOTE, text=data, time_ms=0)
    kinds = {kind.value: kind for kind in Kind}
    return Event(
        kind=kinds.get(data["kind"], Kind.NOTE),
        text=data["text"],
        first=data["first"],
        last=data["last"],
        time_ms=data["time_ms"],
    )
