"""What an internal topic says as a whole: the flow, the newest progress of each partition, the map's segments."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from sparkmirror.model import NO_OFFSET, TopicPartition, Writer
from sparkmirror.offsets.duty_records import AclRecord, DutyRound, OccupiedTopic
from sparkmirror.offsets.foreign import Broken, Foreign
from sparkmirror.offsets.group_records import GroupCommitted, GroupLeft, GroupSeen, GroupsSeen
from sparkmirror.offsets.inherited import ELSEWHERE_KEY, Elsewhere, Inherited, as_told
from sparkmirror.offsets.ledger import Claim, Ledger, Operation
from sparkmirror.offsets.map import PartitionMap
from sparkmirror.offsets.orders import (
    DISCOVER_KEY,
    HOLD_KEY,
    RATE_KEY,
    DiscoverOrder,
    HoldOrder,
    MoveOrder,
    RateOrder,
    TopicOrder,
)
from sparkmirror.offsets.records import (
    STOPPED_KEY,
    FlowRecord,
    Happened,
    Later,
    Life,
    Progress,
    ProgressKey,
    Record,
    SourceEpoch,
    SourceEpochKey,
    Stopped,
    part_of,
)
from sparkmirror.offsets.segments import Bounded, MapKey, MapRecord, Moved, Ordered, Parted, Segments, Targets
from sparkmirror.offsets.source_history import Begun

_ONE: Mapping[type, str] = {
    FlowRecord: "flow",
    Stopped: "stopped",
    Life: "life",
    RateOrder: "rate",
    Elsewhere: "elsewhere",
    HoldOrder: "held",
    DiscoverOrder: "discover",
    GroupsSeen: "groups_seen",
}
_MANY: Mapping[type, str] = {
    Happened: "events",
    DutyRound: "duties",
    AclRecord: "acls",
    OccupiedTopic: "occupied",
    TopicOrder: "paused",
    MoveOrder: "moves",
    GroupSeen: "groups",
    GroupCommitted: "committed",
    GroupLeft: "left",
}
"""Where the newest record is kept: one of the kind, or one for each key."""

_SINGLE: Mapping[str, str] = {
    STOPPED_KEY: "stopped",
    RATE_KEY: "rate",
    ELSEWHERE_KEY: "elsewhere",
    HOLD_KEY: "held",
    DISCOVER_KEY: "discover",
}
"""What a tombstone takes away, of those that there is one of."""


@dataclass(slots=True)
class JournalState:
    """The newest state, built record by record.

    Attributes:
        flow: the flow record, if there is one.
        progress: the newest of each partition. Where its writer epoch has nothing acknowledged yet, it has the source
            and target offset of the last record of an earlier epoch; its sequence number stays -1.
        acknowledged: the progress from which these come.
        outdated: keys of progress records that nothing is needed of any more, but for what `endings` tells.
        maps: the segments of each partition.
        source_epochs: where the leader epochs of the source begin of which something may have been copied.
        events: the newest of each kind in each partition, by key.
        duties: the newest round of each duty, by key.
        acls: the ACL bindings that the flow created on the target, by key.
        occupied: target topics that held records of others when the flow began, by key.
        paused: the topics that are not to be copied now, by the key of the order.
        moves: partitions that are to go on elsewhere, by the key of the order.
        inherited: what MirrorMaker 2 copied of partitions before the flow took over, while the topics are the same.
        taken_over: the same as it is on record, whatever the topics are.
        elsewhere: whether the positions were handed over to MirrorMaker 2.
        rate: how fast the flow may copy, where somebody has ordered it.
        held: the order that the flow copies nothing, where there is one.
        discover: the newest order to look for topics at once, obeyed or not.
        groups: what groups had committed on the source when it was seen last, by key.
        groups_seen: when that was.
        order: of events and of what was seen of groups, by key: what has the greater number came on record later.
        committed: what the flow itself has committed for groups on the target, by key.
        left: what groups have left behind on the source, since operations have moved them to the target, by key.
        ledger: who switches the clusters over, and how far that has come.
        life: the driver's newest sign.
        stopped: whether the last run ended cleanly.
        later: keys of records that a later release wrote, with their version: a driver must not go on over them.
        foreign: records of others, passed over.
        broken: keys of our own records that somebody has overwritten with what cannot be read: who has not read before
            what they said must not go on over them.
    """

    flow: FlowRecord | None = None
    progress: dict[TopicPartition, Progress] = field(default_factory=dict)
    acknowledged: dict[TopicPartition, Progress] = field(default_factory=dict)
    outdated: set[str] = field(default_factory=set)
    maps: dict[TopicPartition, PartitionMap] = field(default_factory=dict)
    source_epochs: dict[TopicPartition, dict[int, SourceEpoch]] = field(default_factory=dict)
    events: dict[str, Happened] = field(default_factory=dict)
    duties: dict[str, DutyRound] = field(default_factory=dict)
    acls: dict[str, AclRecord] = field(default_factory=dict)
    occupied: dict[str, OccupiedTopic] = field(default_factory=dict)
    paused: dict[str, TopicOrder] = field(default_factory=dict)
    moves: dict[str, MoveOrder] = field(default_factory=dict)
    inherited: dict[TopicPartition, Inherited] = field(default_factory=dict)
    elsewhere: Elsewhere | None = None
    rate: RateOrder | None = None
    held: HoldOrder | None = None
    discover: DiscoverOrder | None = None
    groups: dict[str, GroupSeen] = field(default_factory=dict)
    groups_seen: GroupsSeen | None = None
    committed: dict[str, GroupCommitted] = field(default_factory=dict)
    left: dict[str, GroupLeft] = field(default_factory=dict)
    ledger: Ledger = field(default_factory=Ledger)
    life: Life | None = None
    stopped: Stopped | None = None
    later: dict[str, int] = field(default_factory=dict)
    foreign: Foreign = field(default_factory=Foreign)
    broken: dict[str, Broken] = field(default_factory=dict)
    taken_over: dict[TopicPartition, Inherited] = field(default_factory=dict)
    order: dict[str, int] = field(default_factory=dict)
    _numbered: int = 0

    @property
    def newest_generation(self) -> int:
        """The greatest that any record names; 0 if none does. The topic may have lost the record of a start."""
        single = (self.flow, self.life, self.stopped)
        return max(
            (one.generation for one in (*single, *self.progress.values(), *self.acknowledged.values()) if one),
            default=0,
        )

    @property
    def lacks_start(self) -> bool:
        """Whether records of a run are there, and not that of its start: the topic has lost its end meanwhile."""
        return self.newest_generation > (0 if self.flow is None else self.flow.generation)

    @property
    def lacks_all_starts(self) -> bool:
        """The same where no earlier start is on record either."""
        return self.lacks_start and (self.flow is None or not self.flow.generation)

    @property
    def ended_cleanly(self) -> bool:
        """Whether the newest run on record drained, or none ever copied. An earlier one's word may come late."""
        if self.lacks_start:
            return False
        if self.stopped is None or self.flow is None:
            return not self.progress and not self.maps
        return self.stopped.generation == self.flow.generation

    @property
    def is_stopped(self) -> bool:
        """Whether the newest run on record has put its clean end there."""
        return self.stopped is not None and self.ended_cleanly

    @property
    def exact_after(self) -> int:
        """The newest generation that may have copied more than its progress says, once its run has ended; 0 if none."""
        if not self.ended_cleanly:
            return self.newest_generation
        return 0 if self.stopped is None else self.stopped.exact_after

    def writers(self) -> list[Writer]:
        """Every writer epoch that is on record, in no order; some more than once."""
        ended = [part.writer for key in self.outdated if isinstance(part := part_of(key), ProgressKey)]
        return [
            *ended,
            *(one.writer for records in (self.progress, self.acknowledged) for one in records.values()),
            *(writer for known in self.maps.values() for writer in known.writers(())),
            *(() if self.stopped is None else self.stopped.writers),
        ]

    def in_doubt(self) -> list[TopicPartition]:
        """The partitions of which more may have been copied than is on record, though no run has them."""
        newest = self.exact_after
        return [place for place, one in self.progress.items() if one.generation <= newest]

    def left_in_doubt(self) -> list[TopicPartition]:
        """The same of a flow that runs: those that its run has not put on record.

        Where the record of its start is lost, that is all that an earlier generation has put there.
        """
        before = 0 if self.flow is None else self.flow.exact_after
        if self.lacks_start:
            before = self.newest_generation - 1
        return [place for place, one in self.progress.items() if one.generation <= before]

    def endings(self) -> list[MapRecord]:
        """The ends of epochs that only outdated progress tells, and what of the offset map only progress tells."""
        ended = [part for key in sorted(self.outdated) if isinstance(part := part_of(key), ProgressKey)]
        newest = [last for place in self.progress if (last := self.last(place)) is not None]
        return [
            *(end for part in ended for end in self.map_of(part.partition).ending(part.partition, part.writer)),
            *(one for last in newest for one in self.map_of(last.partition).unrecorded(last.partition, last.writer)),
        ]

    def take(self, record: Record | Later) -> None:
        """Adds one record."""
        match record:
            case Later():
                self.later[record.key] = record.version
            case Segments() | Targets() | Parted() | Moved() | Ordered() | Bounded():
                self.map_of(record.partition).take(record)
            case Progress():
                self._take_progress(record)
                self._settle_inherited(record.partition)
            case Claim() | Operation():
                self.ledger.take(record)
            case SourceEpoch():
                self.source_epochs.setdefault(record.partition, {})[record.epoch] = record
            case Inherited():
                self.taken_over[record.partition] = record
                self._settle_inherited(record.partition)
            case FlowRecord() | Stopped() | Life() | Elsewhere() | GroupsSeen():
                setattr(self, _ONE[type(record)], record)
            case RateOrder() | HoldOrder() | DiscoverOrder():
                setattr(self, _ONE[type(record)], record)
            case (Happened() | DutyRound() | AclRecord() | OccupiedTopic() | TopicOrder() | MoveOrder()) | (
                GroupSeen() | GroupCommitted() | GroupLeft()
            ):
                getattr(self, _MANY[type(record)])[record.key] = record
                self._number(record)

    def _number(self, record: Record) -> None:
        if isinstance(record, Happened | GroupSeen):
            self._numbered += 1
            self.order[record.key] = self._numbered

    def forget(self, key: str) -> None:
        """Takes a tombstone.

        That of a broken progress takes older ones with it, which are none to go on from: the target's log tells then.
        """
        self.foreign.forget(key)
        broken = self.broken.pop(key, None) is not None
        self.outdated.discard(key)
        self.ledger.forget(key)
        orders: tuple[dict[str, Any], ...] = (self.paused, self.moves)
        groups: tuple[dict[str, Any], ...] = (self.groups, self.committed, self.left)
        others: tuple[dict[str, Any], ...] = (self.events, self.acls, self.occupied, self.later, self.order)
        for known in (*orders, *groups, *others):
            known.pop(key, None)
        if key in _SINGLE:
            setattr(self, _SINGLE[key], None)
        part = part_of(key)
        if isinstance(part, MapKey) and part.partition in self.maps:
            self.maps[part.partition].forget(part)
        elif isinstance(part, SourceEpochKey):
            self.source_epochs.get(part.partition, {}).pop(part.epoch, None)
        elif isinstance(part, ProgressKey):
            for records in (self.progress, self.acknowledged):
                progress = records.get(part.partition)
                if progress is not None and _goes_with(progress, part, all_before=broken):
                    del records[part.partition]

    def lacks_ahead(self, partition: TopicPartition) -> bool:
        """Whether segments are not on record that the newest progress of a partition says were written ahead."""
        progress = self.progress.get(partition)
        if progress is None or progress.ahead == NO_OFFSET:
            return False
        return progress.ahead not in self.map_of(partition).half(progress.writer, is_source=True)

    def map_of(self, partition: TopicPartition) -> PartitionMap:
        """The segments of a partition; an empty map where there are none yet."""
        found = self.maps.get(partition)
        if found is None:
            found = self.maps[partition] = PartitionMap()
        return found

    def source_epoch(self, partition: TopicPartition, position: int) -> int:
        """The leader epoch of the source's batch left of a position, or of a later one; -1 if nothing tells.

        Of a position further on than the one on record it is the newest epoch that is on record, which may be an older
        one where this topic has lost its end.

        Args:
            partition: of the source.
            position: the one on record, or, as a takeover found it, one further on or back.
        """
        progress = self.progress.get(partition)
        if progress is None:
            return -1
        if position <= progress.position:
            return progress.leader_epoch
        return max([progress.leader_epoch, *(one.epoch for one in self.history(partition, progress.topic_id))])

    def history(self, partition: TopicPartition, topic_id: str) -> tuple[Begun, ...]:
        """The leader epochs of the source that were copied, or may have been, in order.

        Args:
            partition: of the source.
            topic_id: of its topic; what was copied of another one of the name does not count.
        """
        known = self.source_epochs.get(partition, {}).values()
        return tuple(sorted(Begun(one.epoch, one.offset) for one in known if topic_id in ("", one.topic_id)))

    def last(self, partition: TopicPartition) -> Progress | None:
        """The newest progress of the epoch that has the partition's last acknowledged record, if there is one."""
        newest = self.progress.get(partition)
        return newest if newest is not None and newest.sequence != NO_OFFSET else self.acknowledged.get(partition)

    def _settle_inherited(self, partition: TopicPartition) -> None:
        """What was taken over counts while progress is of the same topics, in whatever order the two are read.

        Where progress tells of more than is on record, the record of that is lost.
        """
        known, progress = self.taken_over.get(partition), self.progress.get(partition)
        if progress is not None:
            ids = progress.topic_id, progress.target_id
            known = known if known is None or known.is_of(*ids) else None
            known = as_told(known, progress.inherited, partition, *ids)
        if known is not None:
            self.inherited[partition] = known
        else:
            self.inherited.pop(partition, None)

    def _take_progress(self, record: Progress) -> None:
        if record.sequence != NO_OFFSET:
            self.map_of(record.partition).acknowledge(record)
        known = self.progress.get(record.partition)
        if known is None or (known.writer == record.writer and record.partition not in self.acknowledged):
            self.progress[record.partition] = record
            return
        before = self.acknowledged.pop(record.partition, None)
        others = [other for other in (known, before) if other is not None and other.writer != record.writer]
        newest, *rest = sorted([record, *others], key=lambda progress: progress.order, reverse=True)
        if newest.sequence == NO_OFFSET:
            newest = replace(newest, source=NO_OFFSET, target=NO_OFFSET)
            last = next((progress for progress in rest if progress.sequence != NO_OFFSET), None)
            if last is not None and _goes_on_behind(newest, last):
                newest = replace(newest, source=last.source, target=last.target)
                self.acknowledged[record.partition] = last
                rest.remove(last)
        self.progress[record.partition] = newest
        self.outdated.update(progress.key for progress in rest)
        for outdated in rest:
            self.map_of(outdated.partition).outdate(outdated.writer)
        for progress in (*rest, self.acknowledged.get(record.partition)):
            if progress is not None:
                self.map_of(progress.partition).end(progress)


def _goes_with(progress: Progress, key: ProgressKey, *, all_before: bool) -> bool:
    """Whether the tombstone of a key takes a progress away: its own, or all but those of epochs that are newer."""
    if progress.writer == key.writer:
        return True
    newer = progress.writer.producer_id == key.writer.producer_id and progress.writer.epoch > key.writer.epoch
    return all_before and not newer


def _goes_on_behind(newest: Progress, last: Progress) -> bool:
    """Whether ``last`` is still the last record that was acknowledged, though it was of an earlier writer epoch."""
    same = all(
        there in ("", here) or not here
        for here, there in ((newest.topic_id, last.topic_id), (newest.target_id, last.target_id))
    )
    return same and newest.position > last.source and not _comes_after_another(newest, last)


def _comes_after_another(newest: Progress, last: Progress) -> bool:
    """Whether an epoch that has sent nothing came after another record: a former leader of the target has come back.

    Then the target has not what ``last`` tells of, which may have been on its way for long.
    """
    sequence, source, target = newest.before
    if newest.anew or NO_OFFSET in (sequence, source, target) or last.source < source:
        return False
    return (last.sequence, last.source, last.target) != (sequence, source, target)


def state_of(records: Iterable[Record]) -> JournalState:
    """Builds the state from all records of a topic, in log order."""
    state = JournalState()
    for record in records:
        state.take(record)
    return state
