"""What groups had committed on the source when it was seen last; part of ``offsets.records``.

    ["group", name, topic]   what a group has committed for the partitions of a topic
    ["groups"]               when the source was asked last

A source that is gone cannot be asked, and a group that was ahead of the mirror is in no checkpoint: so a failover reads
these.

    ["committed", name, topic]   what the flow itself has committed last for a group on the target

This tells the flow's own commits from those of consumers that have used the group on the target: only the former may
go back there (`group_commits`). Some earlier ones are kept with it, since a target can lose the last.

    ["left", name, topic]   what a group had committed on the source when an operation took it to the target

Its consumers have gone on at the target from there, so that very offset says nothing any more (`left_offsets`).

Invariants: a record says what the source answered at its time, and it still did so at the time of the newest
``["groups"]``. A target offset in it was exact at that time; it outlives what the offset map knew then, but only as
long as the record lies there under the same writer epoch. A commit is on record after the target has taken it, never
before: a commit that the record does not know counts as a consumer's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, NamedTuple

from sparkmirror.model import NO_OFFSET, TopicPartition, Writer
from sparkmirror.offsets import json_text
from sparkmirror.offsets.json_text import INT32, count, flag, integer, moment, rows, signed, text, texts
from sparkmirror.offsets.source_history import Begun

_WITH_WRITER = 3
"""Words of a row behind partition, offset and metadata: a target offset counts only with its producer id and epoch."""


class LogBefore(NamedTuple):
    """Of which log of the target the records before an offset are: by this its leader tells whether it has them still.

    Attributes:
        topic_id: of the topic; "" where that is not known.
        epochs: leader epochs of the log in order, at most `MOST_EPOCHS`. The last one is that of the record before the
            offset, or a later one. An offset of `NO_OFFSET` says that it is not known where the epoch begins.
        read: up to which offset the flow back has read the log, where that lies before the offset, else `NO_OFFSET`.
            What lies between are copies of the flow itself and markers, in leader epochs that it need not have met.
    """

    topic_id: str = ""
    epochs: tuple[Begun, ...] = ()
    read: int = NO_OFFSET


UNKNOWN_LOG = LogBefore()

MOST_EPOCHS = 4
"""Where a log has lost the records of so many leader epochs, the oldest of them says where the loss begins at most."""


@dataclass(frozen=True, slots=True)
class UpstreamOffset:
    """Where a committed offset leads to on the target, by the map of the flow the other way.

    A record that the flow back wrote to the source came from the target. That flow's map lies on the source, so it has
    to be asked while the source is there.

    Attributes:
        offset: on the target, or `NO_OFFSET`.
        name: of the ``translation.Place`` that lies there, or of the ``translation.Reason`` why there is no offset.
        exact: whether the map reached as far as the group had read; otherwise the group reads some records again.
        left_out: offsets, at most, from the committed one up to the first that either flow has copied.
        placed: whether the flow back has put the group there as it stands on the target, and nobody has used it since.
        log: of the target, before the offset, as the flow back has seen it.
    """

    offset: int
    name: str
    exact: bool = True
    left_out: int = 0
    placed: bool = False
    log: LogBefore = UNKNOWN_LOG


class ExactTarget(NamedTuple):
    """What an offset of the source is on the target, as long as its record has this writer epoch there."""

    offset: int
    writer: Writer


class Origin(NamedTuple):
    """Where the offsets of groups were read.

    Attributes:
        cluster_id: of the cluster.
        offsets_id: the id of its topic ``__consumer_offsets``; "" where this user may not see it, or brokers are too
            old to have one.
    """

    cluster_id: str = ""
    offsets_id: str = ""


UNKNOWN_ORIGIN = Origin()


class LogEnd(NamedTuple):
    """How far a partition of ``__consumer_offsets`` went when the groups had been asked.

    Attributes:
        epoch: the newest leader epoch.
        end: the high watermark.
    """

    epoch: int
    end: int


EARLIER = 8
"""Commits that stay on record behind the last: 40 s of a group that reads all the time, at an interval of 5 s.

Brokers do not wait for the disk, and Linux writes what is 30 s old: a power failure takes about as much.
"""


class FlowCommit(NamedTuple):
    """What the flow has committed on the target, and the offset of the source that it is the translation of.

    Attributes:
        downstream: on the target.
        upstream: on the source.
        earlier: what it has committed before, the highest first. All lie below: a consumer that reads on from where
            the flow has put the group comes to none of them, so one of them is there again only if the target has
            lost what came after, or somebody has set the group to it.
    """

    downstream: int
    upstream: int
    earlier: tuple[FlowCommit, ...] = ()

    def at(self, offset: int) -> FlowCommit | None:
        """The flow's commit of an offset that the target has: this, or an earlier one; None for one of others."""
        if offset == self.downstream:
            return self
        return next((one for one in self.earlier if one.downstream == offset), None)

    def after(self, before: FlowCommit | None) -> FlowCommit:
        """The same commit, made where the flow had made another before, or the same."""
        if before is None:
            return self
        all_of = (*before.earlier, FlowCommit(before.downstream, before.upstream), *self.earlier)
        lower = {one.downstream: one for one in all_of if one.downstream < self.downstream}
        return self._replace(earlier=tuple(sorted(lower.values(), reverse=True)[:EARLIER]))


NO_COMMIT = FlowCommit(NO_OFFSET, NO_OFFSET)
_WITHOUT_TRIED = 3


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
        topic_id: of the topic then; "" where that is not known.
        lost: by partition what the source has answered since it lost the end of ``__consumer_offsets``, `NO_OFFSET`
            for nothing. While it still does so, what was seen before is in `offsets`.
    """

    group: str
    topic: str
    offsets: Mapping[int, tuple[int, str]]
    time_ms: int
    upstream: Mapping[int, UpstreamOffset] = field(default_factory=dict)
    targets: Mapping[int, ExactTarget] = field(default_factory=dict)
    topic_id: str = ""
    lost: Mapping[int, int] = field(default_factory=dict)

    @property
    def key(self) -> str:
        """The record's key."""
        return json_text.write(["group", self.group, self.topic])

    def value(self) -> str:
        """The record's value."""
        targets = {
            number: (target.offset, target.writer.producer_id, target.writer.epoch)
            for number, target in self.targets.items()
        }
        rows = [[number, *self.offsets[number], *targets.get(number, ())] for number in sorted(self.offsets)]
        said: dict[str, Any] = {"v": json_text.VERSION, "time_ms": self.time_ms, "offsets": rows}
        if self.topic_id:
            said["topic_id"] = self.topic_id
        if self.lost:
            said["lost"] = sorted(map(list, self.lost.items()))
        if self.upstream:
            known = sorted(self.upstream.items())
            said["upstream"] = [[number, one.offset, one.name, one.exact, *_more_of(one)] for number, one in known]
            if logs := _logs_of(self.upstream):
                said["upstream_logs"] = logs
            if read := [[number, one.log.read] for number, one in known if one.log.read != NO_OFFSET]:
                said["upstream_read"] = read
        return json_text.write(said)


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupsSeen:
    """When the groups of the source were asked last.

    Attributes:
        time_ms: that moment, milliseconds since 1970.
        unread: groups whose offsets could not be read then, and when they were read last; 0 for never.
        origin: which cluster that was, and which topic it keeps the offsets of groups in.
        log: how far that topic went, by partition; none where this user may not see it.
        back_ms: the order of the newest operation of the flow back that was seen; see ``offsets.ledger``.
        moved_ms: that of the newest one whose groups had all been moved, and are on record as they stood after that.
            One that is seen under way may move groups later.
    """

    time_ms: int
    unread: Mapping[str, int] = field(default_factory=dict)
    origin: Origin = UNKNOWN_ORIGIN
    log: Mapping[int, LogEnd] = field(default_factory=dict)
    back_ms: int = 0
    moved_ms: int = 0

    @property
    def key(self) -> str:
        """The record's key."""
        return json_text.write(["groups"])

    def value(self) -> str:
        """The record's value."""
        said: dict[str, Any] = {"v": json_text.VERSION, "time_ms": self.time_ms}
        if self.unread:
            said["unread"] = dict(sorted(self.unread.items()))
        if self.origin != UNKNOWN_ORIGIN:
            said["origin"] = list(self.origin)
        if self.log:
            said["log"] = [[number, *self.log[number]] for number in sorted(self.log)]
        if self.back_ms:
            said["back_ms"] = self.back_ms
        if self.moved_ms != self.back_ms:
            said["moved_ms"] = self.moved_ms
        return json_text.write(said)

    def read_ms(self, group: str) -> int:
        """When the offsets of a group were read last."""
        return self.unread.get(group, self.time_ms)


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupCommitted:
    """What the flow has committed for a group on the target, as far as the target still has it.

    Attributes:
        group: its name.
        topic: of the target.
        commits: by partition the last one, with those before it.
        tried: commits that were about to be made: the target may have taken them.
    """

    group: str
    topic: str
    commits: Mapping[int, FlowCommit]
    tried: Mapping[int, FlowCommit] = field(default_factory=dict)

    @property
    def key(self) -> str:
        """The record's key."""
        return json_text.write(["committed", self.group, self.topic])

    def value(self) -> str:
        """The record's value."""
        rows = [
            [number, *self.commits.get(number, NO_COMMIT)[:2], *self.tried.get(number, ())[:2]]
            for number in sorted({*self.commits, *self.tried})
        ]
        said: dict[str, Any] = {"v": json_text.VERSION, "offsets": rows}
        if earlier := [[number, *_steps_down(one)] for number, one in sorted(self.commits.items()) if one.earlier]:
            said["earlier"] = earlier
        return json_text.write(said)


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupLeft:
    """What a group has left behind on the source, since an operation has moved it to the target.

    Attributes:
        group: its name.
        topic: of the source; "" for all that the group has there, which is not known yet.
        offsets: by partition. None are left once the group has committed others, and the record still says when the
            group was moved.
        time_ms: the order of the operation that moved it, see ``offsets.ledger``.
    """

    group: str
    topic: str
    offsets: Mapping[int, int]
    time_ms: int

    @property
    def key(self) -> str:
        """The record's key."""
        return json_text.write(["left", self.group, self.topic])

    @property
    def is_open(self) -> bool:
        """Whether all that the source answers next of the group is left behind."""
        return not self.topic

    def value(self) -> str:
        """The record's value."""
        rows = [[number, self.offsets[number]] for number in sorted(self.offsets)]
        return json_text.write({"v": json_text.VERSION, "offsets": rows, "time_ms": self.time_ms})


GroupRecord = GroupSeen | GroupsSeen | GroupCommitted | GroupLeft


def tried_of(records: Iterable[GroupCommitted]) -> dict[str, dict[TopicPartition, FlowCommit]]:
    """The commits that were about to be made, by group and partition of the target."""
    found: dict[str, dict[TopicPartition, FlowCommit]] = {}
    for one in records:
        for number, commit in one.tried.items():
            found.setdefault(one.group, {})[TopicPartition(one.topic, number)] = commit
    return found


def commits_of(records: Iterable[GroupCommitted]) -> dict[str, dict[TopicPartition, FlowCommit]]:
    """What the flow has committed, by group and partition of the target."""
    found: dict[str, dict[TopicPartition, FlowCommit]] = {}
    for one in records:
        own = found.setdefault(one.group, {})
        own |= {TopicPartition(one.topic, number): commit for number, commit in one.commits.items()}
    return found


def _group(name: list[Any], data: dict[str, Any]) -> GroupSeen:
    _, group, topic = name
    found = [
        (integer(number, INT32), signed(offset), text(metadata), rest)
        for number, offset, metadata, *rest in rows(data["offsets"])
    ]
    read = {integer(number, INT32): integer(end) for number, end in rows(data.get("upstream_read", []))}
    logs = dict(_logs_from(data.get("upstream_logs", {}), read))
    upstream = {
        integer(number, INT32): UpstreamOffset(
            integer(offset), text(name), flag(exact), *_more_from(more), log=logs.get(number, UNKNOWN_LOG)
        )
        for number, offset, name, exact, *more in rows(data.get("upstream", []))
    }
    return GroupSeen(
        group=group,
        topic=topic,
        offsets={number: (offset, metadata) for number, offset, metadata, _ in found},
        time_ms=moment(data["time_ms"]),
        upstream=upstream,
        targets={number: _target(*rest[:3]) for number, _, _, rest in found if len(rest) >= _WITH_WRITER},
        topic_id=text(data.get("topic_id", "")),
        lost={integer(number, INT32): signed(found) for number, found in rows(data.get("lost", []))},
    )


def _target(offset: Any, producer_id: Any, epoch: Any) -> ExactTarget:
    return ExactTarget(integer(offset), json_text.writer(integer(producer_id), integer(epoch, INT32)))


def _more_of(one: UpstreamOffset) -> tuple[int, ...]:
    """What a row has more where there is something to say."""
    if one.placed:
        return one.left_out, 1
    return (one.left_out,) if one.left_out else ()


def _more_from(more: Sequence[Any]) -> tuple[int, bool]:
    left_out, placed, *_ = [*map(count, more), 0, 0]
    return left_out, bool(placed)


def _logs_of(upstream: Mapping[int, UpstreamOffset]) -> dict[str, list[list[int]]]:
    """By topic id a row for each partition: most have the same."""
    found: dict[str, list[list[int]]] = {}
    for number, one in sorted(upstream.items()):
        if one.log != UNKNOWN_LOG:
            row = [number, *(part for begun in one.log.epochs for part in begun)]
            found.setdefault(one.log.topic_id, []).append(row)
    return found


def _logs_from(data: Mapping[str, Any], read: Mapping[int, int]) -> Iterator[tuple[int, LogBefore]]:
    for topic_id, found in data.items():
        for number, *epochs in rows(found):
            begun = zip(epochs[::2], epochs[1::2], strict=True)
            known = tuple(Begun(integer(epoch, INT32), integer(offset)) for epoch, offset in begun)
            yield integer(number, INT32), LogBefore(text(topic_id), known, read.get(number, NO_OFFSET))


def _steps_down(commit: FlowCommit) -> Iterator[int]:
    """By how much each earlier commit lies below the one after it, on the target and on the source: short numbers."""
    for after, one in pairwise((commit, *commit.earlier)):
        yield after.downstream - one.downstream
        yield after.upstream - one.upstream


def _with_earlier(commit: FlowCommit, steps: Sequence[int]) -> FlowCommit:
    earlier, (downstream, upstream, _) = [], commit
    for down, up in zip(steps[::2], steps[1::2], strict=True):
        downstream, upstream = downstream - down, upstream - up
        earlier.append(FlowCommit(downstream, upstream))
    return commit._replace(earlier=tuple(earlier))


def _committed(name: list[Any], data: dict[str, Any]) -> GroupCommitted:
    _, group, topic = name
    found = [(integer(number, INT32), *map(signed, more)) for number, *more in rows(data["offsets"])]
    steps = {number: tuple(map(signed, more)) for number, *more in rows(data.get("earlier", []))}
    commits = {
        row[0]: _with_earlier(FlowCommit(row[1], row[2]), steps.get(row[0], ())) for row in found if row[1] != NO_OFFSET
    }
    tried = {row[0]: FlowCommit(row[3], row[4]) for row in found if len(row) > _WITHOUT_TRIED}
    return GroupCommitted(group=group, topic=topic, commits=commits, tried=tried)


def _left(name: list[Any], data: dict[str, Any]) -> GroupLeft:
    _, group, topic = name
    offsets = {integer(number, INT32): signed(offset) for number, offset in rows(data["offsets"])}
    return GroupLeft(group=group, topic=topic, offsets=offsets, time_ms=moment(data.get("time_ms", 0)))


def _groups(_name: list[Any], data: dict[str, Any]) -> GroupsSeen:
    unread = {text(group): moment(at) for group, at in data.get("unread", {}).items()}
    origin = Origin(*texts(data.get("origin", [])))
    log = {
        integer(number, INT32): LogEnd(integer(epoch, INT32), integer(end))
        for number, epoch, end in rows(data.get("log", []))
    }
    back_ms = moment(data.get("back_ms", 0))
    return GroupsSeen(
        time_ms=moment(data["time_ms"]),
        unread=unread,
        origin=origin,
        log=log,
        back_ms=back_ms,
        moved_ms=moment(data.get("moved_ms", back_ms)),
    )


READERS: dict[str, Callable[[list[Any], dict[str, Any]], GroupRecord]] = {
    "group": _group,
    "groups": _groups,
    "committed": _committed,
    "left": _left,
}
"""The readers of these kinds, for ``records.parse``."""
