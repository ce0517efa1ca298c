"""What an internal topic says as a whole: the flow, the newest progress of each partition, the map's segments."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from sparkmirror.model import TopicPartition
from sparkmirror.offsets.map import PartitionMap
from sparkmirror.offsets.records import (
    STOPPED_KEY,
    FlowRecord,
    Happened,
    Later,
    Life,
    Progress,
    ProgressKey,
    Record,
    Segment,
    SegmentKey,
    Stopped,
    part_of,
)


@dataclass(slots=True)
class JournalState:
    """The newest state, built record by record.

    Attributes:
        flow: the flow record, if there is one.
        progress: the newest of each partition.
        outdated: keys of progress records that a newer one replaces.
        maps: the segments of each partition.
        events: the newest of each kind in each partition, by key.
        life: the driver's newest sign.
        stopped: whether the last run ended cleanly.
        later: keys of records that a later release wrote, with their version: a driver must not go on over them.
    """

    flow: FlowRecord | None = None
    progress: dict[TopicPartition, Progress] = field(default_factory=dict)
    outdated: set[str] = field(default_factory=set)
    maps: dict[TopicPartition, PartitionMap] = field(default_factory=dict)
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
                self.map_of(record.partition).take(record)
            case Progress():
                self._take_progress(record)

    def forget(self, key: str) -> None:
        """Takes a tombstone."""
        self.outdated.discard(key)
        self.events.pop(key, None)
        self.later.pop(key, None)
        if key == STOPPED_KEY:
            self.stopped = None
        part = part_of(key)
        if isinstance(part, SegmentKey) and part.partition in self.maps:
            self.maps[part.partition].forget(part.writer, part.sequence)
        elif isinstance(part, ProgressKey):
            known = self.progress.get(part.partition)
            if known is not None and known.writer == part.writer:
                del self.progress[part.partition]

    def map_of(self, partition: TopicPartition) -> PartitionMap:
        """The segments of a partition; an empty map where there are none yet."""
        found = self.maps.get(partition)
        if found is None:
            found = self.maps[partition] = PartitionMap()
        return found

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
