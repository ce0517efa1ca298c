"""What an internal topic says as a whole: the flow, the newest progress of each partition, the map's segments."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from sparkmirror.model import TopicPartition
from sparkmirror.offsets.records import (
    STOPPED_KEY,
    FlowRecord,
    Happened,
    Later,
    Life,
    Progress,
    Record,
    Segment,
    Stopped,
)


@dataclass(slots=True)
class JournalState:
    """The newest state, built record by record.

    Attributes:
        flow: the flow record, if there is one.
        progress: the newest of each partition.
        outdated: keys of progress records that a newer one replaces.
        segments: how many segments there are.
        events: the newest of each kind in each partition, by key.
        life: the driver's newest sign.
        stopped: whether the last run ended cleanly.
        later: keys of records that a later release wrote, with their version: a driver must not go on over them.
    """

    flow: FlowRecord | None = None
    progress: dict[TopicPartition, Progress] = field(default_factory=dict)
    outdated: set[str] = field(default_factory=set)
    segments: int = 0
    events: dict[str, Happened] = field(default_factory=dict)
    life: Life | None = None
    stopped: Stopped | None = None
    later: dict[str, int] = field(default_factory=dict)

    def take(self, record: Record | Later) -> None:
        """Adds one record."""
        match record:
            case Later():
                self.later[record.key] = record.version
            case FlowRecord():
                self.flow = record
            case Stopped():
                self.stopped = record
            case Happened():
                self.events[record.key] = record
            case Life():
                self.life = record
            case Segment():
                self.segments += 1
            case Progress():
                self._take_progress(record)

    def forget(self, key: str) -> None:
        """Takes a tombstone."""
        self.outdated.discard(key)
        self.events.pop(key, None)
        self.later.pop(key, None)
        if key == STOPPED_KEY:
            self.stopped = None

    def _take_progress(self, record: Progress) -> None:
        known = self.progress.get(record.partition)
        if known is None or known.writer == record.writer:
            self.progress[record.partition] = record
        elif record.order >= known.order:
            self.progress[record.partition] = record
            self.outdated.add(known.key)
        else:
            self.outdated.add(record.key)


def state_of(records: Iterable[Record]) -> JournalState:
    """Builds the state from all records of a topic, in log order."""
    state = JournalState()
    for record in records:
        state.take(record)
    return state
