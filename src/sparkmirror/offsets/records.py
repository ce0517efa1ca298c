"""The records of a flow's internal topic: what is known of every partition, as JSON keys and values.

The topic is compacted, so the key says which older record a new one replaces. Keys are JSON arrays whose first element
is the kind; values are JSON objects with a version ``v``.

    ["flow"]                                                        which clusters and naming the topic belongs to
    ["segments", topic, partition, producer id, epoch, sequence]   the offset map's half of the source, see ``segments``
    ["targets", topic, partition, producer id, epoch, sequence]    the offset map's half of the target
    ["parted", topic, partition, producer id, epoch]               where the source's log parts from older epochs'
    ["moved", topic, partition, producer id, epoch]                that an epoch began by an order alone
    ["ordered", topic, partition, producer id, epoch]              where an order had an epoch begin, and the copy stood
    ["bounded", topic, partition]                                   up to where the map has been removed with both logs
    ["progress", topic, partition, producer id, epoch]             how far the copy of a partition got
    ["source-epoch", topic, partition, epoch]                       where a leader epoch of the source begins
    ["event", topic, partition, kind]                               what its operator must know of a partition
    ["life"]                                                        the driver lives, and what it does
    ["duty", name]                                                  a duty's newest round, see ``duty_records``
    ["acl", ...], ["occupied", topic]                               what duties go by, see ``duty_records``
    ["paused", topic], ["rate"], ["move", ...], ["held"], ["discover"]   what an operator has ordered, see ``orders``
    ["group", name, topic], ["groups"], ["committed", name, topic]   what groups had committed, see ``group_records``
    ["operator", token], ["operation"]                              who switches clusters over, see ``ledger``
    ["stopped"]                                                     the last run ended cleanly
    ["inherited", ...], ["elsewhere"]                               of MirrorMaker 2's part, see ``inherited``

Invariants:
    * Topic and partition are those of the source; sequences count records, modulo 2**31, see ``segments``.
    * A progress never covers a record that the target has not acknowledged.
    * Records of a later version are neither read nor replaced nor removed: `parse` gives `Later` for them.
    * What `parse` gives has the types and ranges that its fields say, whoever wrote it. What no release has written is
      told apart by its key: under one of ours it is a record that somebody has overwritten, and what it said is lost.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar, cast

from sparkmirror.events import Event, Kind, event_of
from sparkmirror.model import (
    NO_OFFSET,
    NO_RECORD,
    NOTHING_BEFORE,
    UNKNOWN,
    WENT_ON,
    Began,
    Copied,
    CopiedBefore,
    LastRecord,
    Reached,
    TopicPartition,
    Writer,
)
from sparkmirror.offsets import group_records, inherited, json_text, ledger, orders, segments
from sparkmirror.offsets.duty_records import ACL_WORDS, READERS, DutyRecord
from sparkmirror.offsets.json_text import count, flag, integer, moment, number, rows, signed, text, texts
from sparkmirror.offsets.recovery import UNKNOWN_MS
from sparkmirror.offsets.segments import (
    BoundedKey,
    MapKey,
    MovedKey,
    OrderedKey,
    PartedKey,
    SegmentsKey,
    Targets,
    TargetsKey,
)

VERSION = json_text.VERSION

OffsetsT = TypeVar("OffsetsT", bound=tuple[int, ...])


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowRecord:
    """Whose topic it is. A flow that finds another pair of clusters here is refused.

    Attributes:
        source_alias, source_id, target_alias, target_id: the clusters.
        naming: the replication policy.
        generation: counts the starts of the driver, and its changes of a producer id. 0 where the record is lost, and
            others tell what it had said (``flow.lost_start``): such a one is never written.
        tells_since_ms: since when lanes leave out by its writer what came from the target; 0: never. It stays so.
        exact_after: as in `Stopped`, when this run began; what it has put on record since is not in doubt.
        topics, topics_exclude: which topics this run copies, as it is configured.
        homeward: whether it also brings home what others wrote to copies.
        groups, groups_exclude: which groups this run translates, as it is configured.
        home_since_ms: what the record of the flow the other way had as its `tells_since_ms` when this flow brought home
            last: it tells that record from another one, and is compared with nothing else. 0: never.
        home_generation: the first generation under that record: positions of older ones in its copies are of another.
        before: the newest writer of each producer id that the flow had before its first start on record, as where its
            internal topic was deleted. What others of its writers have copied is on record, or the topic has lost it.
    """

    source_alias: str
    source_id: str
    target_alias: str
    target_id: str
    naming: str
    generation: int
    tells_since_ms: int = 0
    exact_after: int = 0
    topics: tuple[str, ...] = ()
    topics_exclude: tuple[str, ...] = ()
    homeward: bool = False
    groups: tuple[str, ...] = ()
    groups_exclude: tuple[str, ...] = ()
    home_since_ms: int = 0
    home_generation: int = 0
    before: tuple[Writer, ...] = ()

    @property
    def key(self) -> str:
        """The record's key."""
        return FLOW_KEY

    def value(self) -> str:
        """The record's value."""
        source = {"alias": self.source_alias, "cluster": self.source_id}
        target = {"alias": self.target_alias, "cluster": self.target_id}
        tells = {"tells_since_ms": self.tells_since_ms} if self.tells_since_ms else {}
        doubt = {"exact_after": self.exact_after} if self.exact_after else {}
        own = {"home_since_ms": self.home_since_ms, "home_generation": self.home_generation}
        home = own if self.home_since_ms else {}
        before = {"before": [[one.producer_id, one.epoch] for one in self.before]} if self.before else {}
        return json_text.write(
            {
                "v": VERSION,
                "source": source,
                "target": target,
                "naming": self.naming,
                "generation": self.generation,
                "topics": list(self.topics),
                "topics_exclude": list(self.topics_exclude),
                "homeward": self.homeward,
                "groups": list(self.groups),
                "groups_exclude": list(self.groups_exclude),
                **tells,
                **doubt,
                **home,
                **before,
            }
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """How far the copy of one partition got, as of ``time_ms``.

    Attributes:
        generation: of the flow record when the driver handed the partition out; a greater one is newer.
        position: the next source offset to copy; all below it is on the target or was dropped on purpose.
        next_sequence: the sequence number of the next record in this writer epoch.
        sequence, source, target: of the last acknowledged record, or `NO_OFFSET`.
        ahead: the sequence number of the newest segments that were written, or are being written, for records that are
            not acknowledged; `NO_OFFSET` where there are none. Where they are not on record the topic has lost them.
        first: the source and target offset of the first record of the epoch, or `NO_OFFSET`.
        before: the sequence number, the source and the target offset of the last record that an older epoch had put on
            the target when this one began; `NO_OFFSET` where that is not known, or nothing was.
        inherited: what MirrorMaker 2 had copied when the partition was handed out.
        began: why the epoch began where it did, where `Moved` and `Parted` said so when the partition was handed out.
        end: the source's end as the lane saw it last (the last stable offset under read_committed).
        copies_end: the source offset behind the last copy of the flow the other way that the lane has met, or
            `NO_OFFSET` where it has met none yet.
        leader_epoch: of the source's batch at the position's left, or -1.
        topic_id: of the source topic, or "".
        target_id: of the target topic, or "".
        settled: whether nothing was unacknowledged: ``position`` and ``next_sequence`` are exact.
        released: whether the lane that wrote it gave the partition back to the driver hereby, and writes no more of it.
        restored: whether a driver has put it on record again after the topic had lost it: it vouches for no segments
            but those that it told of before the loss.
        anew: as for `Segments`.
        reached: how far the target's log went when the last record was acknowledged, or when it was taken over.
        cut: the target offset at which a leader's log seemed to have been cut off below that, or `NO_OFFSET`.
        records, bytes: copied since this run first took the partition.
        dead_letters: records put aside since then, because the target topic cannot hold them.
        loop_filtered: records left out since then, since the registry of writers says that they came from the target.
        rate: (records, bytes) per second over the second before.
        newest_ms: the newest record timestamp copied, or -1.
        recovery_ms: the recovery point, see ``recovery``; of an idle partition it may be as old as its shift.
        error: why the partition stands still, or "".
        events: what happened, newest last.
    """

    partition: TopicPartition
    writer: Writer
    generation: int
    position: int
    next_sequence: int
    sequence: int = NO_OFFSET
    source: int = NO_OFFSET
    target: int = NO_OFFSET
    ahead: int = NO_OFFSET
    first: tuple[int, int] = NO_RECORD.first
    before: tuple[int, int, int] = NO_RECORD.before
    inherited: CopiedBefore = NOTHING_BEFORE
    began: Began = WENT_ON
    end: int = NO_OFFSET
    copies_end: int = NO_OFFSET
    leader_epoch: int = -1
    topic_id: str = ""
    target_id: str = ""
    settled: bool = False
    released: bool = False
    restored: bool = False
    anew: bool = False
    reached: Reached = UNKNOWN
    cut: int = NO_OFFSET
    records: int = 0
    bytes: int = 0
    dead_letters: int = 0
    loop_filtered: int = 0
    rate: tuple[float, float] = (0.0, 0.0)
    newest_ms: int = -1
    recovery_ms: int = UNKNOWN_MS
    time_ms: int = 0
    lane: str = ""
    error: str = ""
    events: tuple[Event, ...] = ()

    @property
    def last(self) -> LastRecord:
        """The last acknowledged record, and what is known before it; `source` and `target` may be of an older epoch."""
        if self.sequence == NO_OFFSET:
            return LastRecord(NO_OFFSET, NO_OFFSET, NO_OFFSET, *self.first, *self.before)
        return LastRecord(self.sequence, self.source, self.target, *self.first, *self.before)

    @property
    def copied(self) -> Copied:
        """What the run did with the partition so far."""
        return Copied(self.records, self.bytes, self.dead_letters, self.loop_filtered)

    @property
    def key(self) -> str:
        """The record's key."""
        return json_text.write(["progress", *self.partition, self.writer.producer_id, self.writer.epoch])

    def value(self) -> str:
        """The record's value."""
        ahead = {} if self.ahead == NO_OFFSET else {"ahead": self.ahead}
        restored = {"restored": True} if self.restored else {}
        rows = {"first": self.first, "before": self.before, "inherited": self.inherited, "began": self.began}
        return json_text.write(
            {
                "v": VERSION,
                "generation": self.generation,
                "position": self.position,
                "next": self.next_sequence,
                "last": [self.sequence, self.source, self.target],
                **ahead,
                **{name: list(row) for name, row in rows.items() if max(row) > NO_OFFSET},
                "end": self.end,
                "copies_end": self.copies_end,
                "leader_epoch": self.leader_epoch,
                "topic_id": self.topic_id,
                "target_id": self.target_id,
                "settled": self.settled,
                "released": self.released,
                **restored,
                "anew": self.anew,
                "reached": list(self.reached),
                "cut": self.cut,
                "records": self.records,
                "bytes": self.bytes,
                "dead_letters": self.dead_letters,
                "loop_filtered": self.loop_filtered,
                "rate": [round(self.rate[0], 1), round(self.rate[1], 1)],
                "newest_ms": self.newest_ms,
                "recovery_ms": self.recovery_ms,
                "time_ms": self.time_ms,
                "lane": self.lane,
                "error": self.error,
                "events": [event.as_json() for event in self.events],
            }
        )

    @property
    def order(self) -> tuple[int, int]:
        """Orders the progress records of different writers, the greatest is the newest; of one writer, the last is."""
        return (self.generation, self.writer.epoch)


def closing(progress: Progress) -> tuple[Targets, ...]:
    """What ends a writer epoch with its last record, where another one will not go on right behind it.

    Empty where something is unacknowledged, so that only a takeover can tell, where the epoch has no record, and where
    its sequence numbers have just begun again.
    """
    if not progress.settled or progress.sequence == NO_OFFSET or progress.next_sequence == 0:
        return ()
    end = Targets(
        partition=progress.partition, writer=progress.writer, sequence=progress.next_sequence, target=NO_OFFSET
    )
    return (end,)


FLOW = TopicPartition("", -1)
"""Where an event happened that concerns the whole flow."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Happened:
    """The newest event of one kind in one partition, or in all of the flow (`FLOW`).

    It is kept for a week, so that ``status`` shows it from any machine.
    """

    partition: TopicPartition
    event: Event

    @property
    def key(self) -> str:
        """The record's key."""
        return event_key(self.partition, self.event.kind)

    def value(self) -> str:
        """The record's value."""
        said = self.event.as_json()
        del said["kind"]
        return json_text.write({"v": VERSION} | said)


@dataclass(frozen=True, slots=True, kw_only=True)
class Life:
    """The driver's sign of life: which state the flow is in, and how many lanes run.

    Attributes:
        events: what is not copied, and why.
        recovery_ms: the flow's recovery point, see ``recovery``: the earliest of its partitions.
        behind: the partition whose that is, or "".
        waiting: records that the source had and the target had not, or -1 where that is not known of a partition.
        began_ms: since when the driver copies, milliseconds since 1970; 0 in records of earlier releases.
    """

    generation: int
    time_ms: int
    state: str
    lanes: int
    events: tuple[str, ...] = ()
    recovery_ms: int = UNKNOWN_MS
    behind: str = ""
    waiting: int = -1
    began_ms: int = 0

    @property
    def key(self) -> str:
        """The record's key."""
        return json_text.write(["life"])

    def value(self) -> str:
        """The record's value."""
        return json_text.write(
            {
                "v": VERSION,
                "generation": self.generation,
                "time_ms": self.time_ms,
                "state": self.state,
                "lanes": self.lanes,
                "events": list(self.events),
                "recovery_ms": self.recovery_ms,
                "behind": self.behind,
                "waiting": self.waiting,
                "began_ms": self.began_ms,
            }
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Stopped:
    """The last run ended cleanly: what is on record is exact, but for what an earlier one left in doubt.

    Attributes:
        generation: of the run that ended.
        time_ms: when.
        exact_after: the newest generation that did not end cleanly, 0 if all did. Progress of that one, or of one
            before, may lie behind what was copied: nobody has put it on record again since.
        writers: the newest of each group of partitions that the run had; empty in records of earlier releases. The next
            start gets the next epochs, or the coordinator knows of runs that this topic has lost.
    """

    generation: int
    time_ms: int
    exact_after: int = 0
    writers: tuple[Writer, ...] = ()

    @property
    def key(self) -> str:
        """The record's key."""
        return STOPPED_KEY

    def value(self) -> str:
        """The record's value."""
        return json_text.write(
            {
                "v": VERSION,
                "generation": self.generation,
                "time_ms": self.time_ms,
                "exact_after": self.exact_after,
                "writers": [[writer.producer_id, writer.epoch] for writer in self.writers],
            }
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceEpoch:
    """Where a leader epoch of the source begins in what was copied; on record before a batch of it is sent.

    Progress is behind what a lane has sent. Whoever takes the partition over knows by this which epoch to ask the
    source about (KIP-320), and where the source parts from the copy (``source_history``).

    Attributes:
        partition: of the source.
        epoch: of its batches.
        offset: that after the batch before the first one of that epoch which was seen.
        topic_id: of the source topic, or "".
    """

    partition: TopicPartition
    epoch: int
    offset: int
    topic_id: str = ""

    @property
    def key(self) -> str:
        """The record's key."""
        return json_text.write(["source-epoch", *self.partition, self.epoch])

    def value(self) -> str:
        """The record's value."""
        return json_text.write({"v": VERSION, "offset": self.offset, "topic_id": self.topic_id})


Record = (
    FlowRecord
    | segments.MapRecord
    | Progress
    | Happened
    | Life
    | DutyRecord
    | orders.Order
    | inherited.MovingRecord
    | group_records.GroupRecord
    | ledger.LedgerRecord
    | SourceEpoch
    | Stopped
)


@dataclass(frozen=True, slots=True)
class Later:
    """A record of a kind that we know, in a version of a later release: not ours to read, replace or remove."""

    key: str
    version: int


FLOW_KEY = json_text.write(["flow"])
STOPPED_KEY = json_text.write(["stopped"])


class SourceEpochKey(NamedTuple):
    """Of a `SourceEpoch`."""

    partition: TopicPartition
    epoch: int


class ProgressKey(NamedTuple):
    """What the key of a `Progress` names."""

    partition: TopicPartition
    writer: Writer


INT32, INT64 = json_text.INT32, json_text.INT64
_PLACE: tuple[type | int, ...] = (str, INT32)
_EPOCH = (*_PLACE, INT64, INT32)
_KEYS: dict[str, tuple[type | int, ...]] = {
    "flow": (),
    "segments": (*_EPOCH, INT32),
    "targets": (*_EPOCH, INT32),
    "parted": _EPOCH,
    "moved": _EPOCH,
    "ordered": _EPOCH,
    "bounded": _PLACE,
    "progress": _EPOCH,
    "source-epoch": (*_PLACE, INT32),
    "event": (*_PLACE, str),
    "life": (),
    "duty": (str,),
    "acl": (str,) * ACL_WORDS,
    "occupied": (str,),
    "paused": (str,),
    "rate": (),
    "move": _PLACE,
    "held": (),
    "discover": (),
    "group": (str, str),
    "groups": (),
    "committed": (str, str),
    "left": (str, str),
    "operator": (str,),
    "operation": (),
    "stopped": (),
    "inherited": _PLACE,
    "elsewhere": (),
}
"""What follows the kind in a key: texts, and numbers up to which bound."""

RENEWED = frozenset({"life", "event", "duty", "discover"})
"""Kinds on which nothing depends but what people see: a driver writes them again and again."""


def is_renewed(key: str) -> bool:
    """Whether nothing depends on the record with this key, which is one of ours."""
    return json_text.read(key)[0] in RENEWED


class NotOursError(ValueError):
    """No release writes a record with such a key."""


def part_of(key: str) -> MapKey | ProgressKey | SourceEpochKey | None:
    """What a key names, if it is that of a record of the offset map, of a progress or of a source epoch."""
    try:
        match json_text.read(key):
            case ["segments", str(topic), int(partition), int(producer_id), int(epoch), int(sequence)]:
                writer = Writer(producer_id=producer_id, epoch=epoch)
                return SegmentsKey(TopicPartition(topic, partition), writer, sequence)
            case ["targets", str(topic), int(partition), int(producer_id), int(epoch), int(sequence)]:
                writer = Writer(producer_id=producer_id, epoch=epoch)
                return TargetsKey(TopicPartition(topic, partition), writer, sequence)
            case ["parted", str(topic), int(partition), int(producer_id), int(epoch)]:
                return PartedKey(TopicPartition(topic, partition), Writer(producer_id=producer_id, epoch=epoch))
            case ["moved", str(topic), int(partition), int(producer_id), int(epoch)]:
                return MovedKey(TopicPartition(topic, partition), Writer(producer_id=producer_id, epoch=epoch))
            case ["ordered", str(topic), int(partition), int(producer_id), int(epoch)]:
                return OrderedKey(TopicPartition(topic, partition), Writer(producer_id=producer_id, epoch=epoch))
            case ["bounded", str(topic), int(partition)]:
                return BoundedKey(TopicPartition(topic, partition))
            case ["progress", str(topic), int(partition), int(producer_id), int(epoch)]:
                return ProgressKey(TopicPartition(topic, partition), Writer(producer_id=producer_id, epoch=epoch))
            case ["source-epoch", str(topic), int(partition), int(epoch)]:
                return SourceEpochKey(TopicPartition(topic, partition), epoch)
    except ValueError:
        pass
    return None


def partition_of(key: str | bytes) -> TopicPartition | None:
    """The partition that a record with this key is about, if it is about one."""
    try:
        match json_text.read(key.decode() if isinstance(key, bytes) else key):
            case [str(), str(topic), int(partition), *_]:
                return TopicPartition(topic, partition)
    except ValueError:
        pass
    return None


def event_key(partition: TopicPartition, kind: Kind) -> str:
    """The key of a `Happened`."""
    return json_text.write(["event", *partition, kind.value])


def parse(key: str, value: str) -> Record | Later | None:
    """Reads one record; None for a kind that a later release added, which does no harm to those we know.

    Raises:
        NotOursError: it is no record of ours, by its key.
        ValueError: its key is one of ours, and its value is not what a release has written under it.
    """
    name = _name_of(key)
    try:
        data = json_text.read(value)
        reader, version = _READERS.get(name[0]), data["v"]
        if reader is None:
            return None
        if version != VERSION:
            return Later(key, _later(version))
        return reader(name, data)
    except json_text.UNREADABLE as failure:
        kind = ValueError if name[0] in _KEYS else NotOursError
        raise kind(f"{_NOT_A_RECORD}: key {key[:200]}: {_reason(failure)}") from failure


_NOT_A_RECORD = "not a record of an internal topic of sparkmirror"


def _name_of(key: str) -> list[Any]:
    """The parts of a key.

    Raises:
        NotOursError: no release writes such a key.
    """
    try:
        name = json_text.read(key)
        if type(name) is not list or not name or type(name[0]) is not str:
            raise ValueError("no list that begins with a kind")
        wanted = _KEYS.get(name[0])
        if wanted is not None and (len(name) != 1 + len(wanted) or not all(map(_fits, name[1:], wanted))):
            raise ValueError(f"not such parts as of {name[0]}")
        if wanted is not None and json_text.write(name) != key:
            raise ValueError("not written as a mirror does, so that its own records do not replace it")
    except ValueError as failure:
        raise NotOursError(f"{_NOT_A_RECORD}: key {key[:200]}: {_reason(failure)}") from failure
    return name


def _fits(part: Any, wanted: type | int) -> bool:
    if wanted is str:
        return type(part) is str and (part.isascii() or bool(part.encode()))
    return type(part) is int and -1 <= part <= wanted  # type: ignore[operator]  # a bound, if it is no type


def _reason(failure: Exception) -> str:
    """In words: what a library says of a value may hold all of it."""
    missing = isinstance(failure, (KeyError, IndexError))
    return f"{failure} is missing" if missing else str(failure)[:200]


def _later(version: object) -> int:
    if type(version) is not int or not VERSION < version <= INT32:
        raise ValueError("no release wrote this version")
    return version


def _flow(_name: list[Any], data: dict[str, Any]) -> FlowRecord:
    source, target = data["source"], data["target"]
    return FlowRecord(
        source_alias=text(source["alias"]),
        source_id=text(source["cluster"]),
        target_alias=text(target["alias"]),
        target_id=text(target["cluster"]),
        naming=text(data["naming"]),
        generation=count(data["generation"]),
        tells_since_ms=moment(data.get("tells_since_ms", 0)),
        exact_after=count(data.get("exact_after", 0)),
        topics=texts(data.get("topics", [])),
        topics_exclude=texts(data.get("topics_exclude", [])),
        homeward=flag(data.get("homeward", False)),
        groups=texts(data.get("groups", [])),
        groups_exclude=texts(data.get("groups_exclude", [])),
        home_since_ms=moment(data.get("home_since_ms", 0)),
        home_generation=count(data.get("home_generation", 0)),
        before=tuple(_writer(*row) for row in rows(data.get("before", []))),
    )


def _progress(name: list[Any], data: dict[str, Any]) -> Progress:
    _, topic, partition, producer_id, epoch = name
    sequence, source, target = data["last"]
    records, per_s = data["rate"]
    return Progress(
        partition=json_text.place(topic, partition),
        writer=json_text.writer(producer_id, epoch),
        generation=count(data["generation"]),
        position=integer(data["position"]),
        next_sequence=integer(data["next"]),
        sequence=integer(sequence),
        source=integer(source),
        target=integer(target),
        ahead=integer(data.get("ahead", NO_OFFSET)),
        first=_offsets(data, "first", NO_RECORD.first),
        before=_offsets(data, "before", NO_RECORD.before),
        inherited=CopiedBefore(*_offsets(data, "inherited", NOTHING_BEFORE)) if "inherited" in data else NOTHING_BEFORE,
        began=Began(*_offsets(data, "began", WENT_ON)) if "began" in data else WENT_ON,
        end=integer(data["end"]),
        copies_end=integer(data.get("copies_end", NO_OFFSET)),
        leader_epoch=integer(data["leader_epoch"], INT32),
        topic_id=sys.intern(text(data["topic_id"])),
        target_id=sys.intern(text(data.get("target_id", ""))),
        settled=flag(data.get("settled", False)),
        released=flag(data["released"]),
        restored=flag(data.get("restored", False)),
        anew=flag(data.get("anew", False)),
        reached=_reached(data["reached"]) if "reached" in data else UNKNOWN,
        cut=integer(data.get("cut", NO_OFFSET)),
        records=signed(data["records"]),
        bytes=signed(data["bytes"]),
        dead_letters=signed(data.get("dead_letters", 0)),
        loop_filtered=signed(data.get("loop_filtered", 0)),
        rate=(number(records), number(per_s)),
        newest_ms=signed(data["newest_ms"]),
        recovery_ms=signed(data.get("recovery_ms", UNKNOWN_MS)),
        time_ms=moment(data["time_ms"]),
        lane=sys.intern(text(data["lane"])),
        error=text(data["error"]),
        events=tuple(map(_event, rows(data["events"]))),
    )


def _offsets(data: dict[str, Any], name: str, unknown: OffsetsT) -> OffsetsT:
    """As many offsets as are in ``unknown``, which stands for those of older releases."""
    row = tuple(map(integer, rows(data[name]))) if name in data else unknown
    if len(row) != len(unknown):
        raise ValueError(f"{len(row)} offsets for {name}, and not {len(unknown)}")
    return cast("OffsetsT", row)


def _reached(row: Any) -> Reached:
    leader_epoch, end = row
    return Reached(integer(leader_epoch, INT32), integer(end))


def _event(data: Any) -> Event:
    event = event_of(data)
    text(event.text)
    for offset in (event.first, event.last):
        signed(offset)
    moment(event.time_ms)
    return event


def _happened(name: list[Any], data: dict[str, Any]) -> Happened:
    _, topic, partition, kind = name
    return Happened(partition=json_text.place(topic, partition), event=_event(data | {"kind": kind}))


def _source_epoch(name: list[Any], data: dict[str, Any]) -> SourceEpoch:
    _, topic, partition, epoch = name
    offset, topic_id = integer(data["offset"]), text(data["topic_id"])
    return SourceEpoch(partition=json_text.place(topic, partition), epoch=epoch, offset=offset, topic_id=topic_id)


def _stopped(_name: list[Any], data: dict[str, Any]) -> Stopped:
    return Stopped(
        generation=count(data["generation"]),
        time_ms=moment(data["time_ms"]),
        exact_after=count(data.get("exact_after", 0)),
        writers=tuple(_writer(*row) for row in rows(data.get("writers", []))),
    )


def _writer(producer_id: Any, epoch: Any) -> Writer:
    return Writer(producer_id=integer(producer_id), epoch=integer(epoch, INT32))


def _life(_name: list[Any], data: dict[str, Any]) -> Life:
    return Life(
        generation=count(data["generation"]),
        time_ms=moment(data["time_ms"]),
        state=text(data["state"]),
        lanes=signed(data["lanes"]),
        events=texts(data["events"]),
        recovery_ms=signed(data.get("recovery_ms", UNKNOWN_MS)),
        behind=text(data.get("behind", "")),
        waiting=integer(data.get("waiting", -1)),
        began_ms=moment(data.get("began_ms", 0)),
    )


_READERS: dict[str, Callable[[list[Any], dict[str, Any]], Record]] = {
    "flow": _flow,
    **segments.READERS,
    "progress": _progress,
    "event": _happened,
    "life": _life,
    "source-epoch": _source_epoch,
    "stopped": _stopped,
    **READERS,
    **orders.READERS,
    **inherited.READERS,
    **group_records.READERS,
    **ledger.READERS,
}
