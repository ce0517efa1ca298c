"""Whether the source still has what it answers of groups from: a cluster that has lost their offsets forgets no group.

A cluster that is set up again under the same address, or whose disks are lost, lists no group. What is on record of the
groups is all there is then, on the very day on which a failover needs it. A cluster that has lost the end of the topic
with their offsets, by an unclean election or a power failure with replication factor 1, lists older offsets of some
groups, and others not at all.

Invariants: a group is taken for deleted only where the cluster and its topic of group offsets are those that were asked
before; where that topic may not be seen, the topic that the group has read has to exist. Brokers leave out the offsets
in topics that this user may not see: nothing is known of these. What is kept counts until the group has committed in
that topic again. How far each partition of the topic went is asked when the groups have answered, so what they have
answered lies before it; an offset that is another one, or none, in the round in which its partition has lost its end is
lost, and not set by its owner. Of a group whose partition does not say how far it goes nothing is known: there are no
`Merged` offsets of it. Where the topic may not be seen, that cannot be seen either; where the same cluster has shown it
before, a gap in an answer is no loss and no whole topic, and nothing is known of any group. Where an operation of the
flow back has put a group since, it stands by that, and has lost nothing. What was seen of a group counts no further
than the source's log is still the one that it was. What a group has left behind, where it goes on and what is on record
of it is decided by `Merged` offsets, which only this module makes, and never by raw answers.

References: ``GroupMetadataManager.partitionFor``, OffsetForLeaderEpoch (KIP-101, KIP-320).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

from sparkmirror.errors import LinkError
from sparkmirror.events import Event, Kind
from sparkmirror.kafka import admin
from sparkmirror.kafka.cluster import Cluster
from sparkmirror.kafka.epochs import believed_ends, newest_epochs
from sparkmirror.kafka.groups import OFFSETS_TOPIC, Committed, Offsets
from sparkmirror.kafka.leaders import OffsetSpec
from sparkmirror.kafka.topic_ids import ids_of_topics, in_hexadecimal
from sparkmirror.model import NO_OFFSET, TopicPartition
from sparkmirror.offsets.group_commits import NO_COMMITS, Commits
from sparkmirror.offsets.group_records import UNKNOWN_ORIGIN, GroupSeen, GroupsSeen, LogEnd, Origin, UpstreamOffset
from sparkmirror.offsets.left_offsets import KnownOffsets, Moved
from sparkmirror.offsets.state import JournalState
from sparkmirror.offsets.track import FAR
from sparkmirror.offsets.translation import Reason

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetsLog:
    """How far ``__consumer_offsets`` of the source goes.

    Attributes:
        ends: by partition; as before for those that are silent.
        torn: the partitions that have lost something since.
        silent: those that have no leader, or whose leader does not say how far they go: whether they have lost
            something is not known.
        partitions: how many it has; 0 where this user does not see it.
        hidden: whether the same cluster has shown it before and does not now: nothing is known of any group.
    """

    ends: Mapping[int, LogEnd] = field(default_factory=dict)
    torn: frozenset[int] = frozenset()
    silent: frozenset[int] = frozenset()
    partitions: int = 0
    hidden: bool = False

    def has_torn(self, group: str) -> bool:
        """Whether the partition of a group has lost something."""
        return bool(self.torn) and partition_of(group, self.partitions) in self.torn

    def is_silent(self, group: str) -> bool:
        """Whether the partition of a group does not say how far it goes."""
        return self.hidden or (bool(self.silent) and partition_of(group, self.partitions) in self.silent)

    def then(self, again: OffsetsLog, before: Mapping[int, LogEnd]) -> OffsetsLog:
        """The same, asked once more since it has lost something. What is silent then is compared anew later.

        Args:
            again: what has become of `ends`.
            before: how far it went before that.
        """
        if again.hidden:
            return replace(again, ends=before)
        ends = {**again.ends, **{number: before[number] for number in again.silent & before.keys()}}
        torn = (self.torn | again.torn) - again.silent
        return replace(again, ends=ends, torn=torn, partitions=self.partitions)


NOT_SEEN = OffsetsLog()

UNTOLD = NO_OFFSET - 1
"""In the place of an answer: the group could not be read in the round in which its partition had lost its end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What the source has said of itself.

    Attributes:
        origin: which cluster it is, and which topic it keeps the offsets of groups in.
        topics: those that this user may see, of the topics on record in which groups have nothing any more.
        absent: those that do not exist.
        log: how far the topic of group offsets goes.
    """

    origin: Origin = UNKNOWN_ORIGIN
    topics: frozenset[str] = frozenset()
    absent: frozenset[str] = frozenset()
    log: OffsetsLog = NOT_SEEN


NOT_ASKED = Asked()


def ask(source: Cluster, topics: Iterable[str], timeout_ms: int) -> Asked:
    """Asks the source.

    Args:
        source: the cluster.
        topics: on record in which groups have nothing any more.
        timeout_ms: of each question.

    Raises:
        SparkmirrorError: it does not answer.
    """
    wanted = set(topics)
    ids = ids_of_topics(source, {OFFSETS_TOPIC, *wanted}, timeout_ms)
    unseen = [TopicPartition(name, 0) for name in sorted(wanted - ids.keys())]
    absent = admin.absent(source, unseen, timeout_ms) if unseen else ()
    return Asked(
        origin=Origin(cluster_id=admin.cluster_id(source, timeout_ms), offsets_id=ids.get(OFFSETS_TOPIC, "")),
        topics=frozenset(ids),
        absent=frozenset(place.topic for place in absent),
    )


def partition_of(group: str, partitions: int) -> int:
    """The partition of ``__consumer_offsets`` that has a group's offsets: by Java's hash of the name."""
    code = 0
    units = group.encode("utf-16-be", "surrogatepass")
    for high, low in zip(units[::2], units[1::2], strict=True):
        code = (31 * code + (high << 8 | low)) & 0xFFFFFFFF
    signed = code - (1 << 32) if code >> 31 else code
    return (0 if signed == -(1 << 31) else abs(signed)) % partitions


def offsets_log(
    source: Cluster, before: Mapping[int, LogEnd], timeout_ms: int, origin: Origin = UNKNOWN_ORIGIN
) -> OffsetsLog:
    """Looks how far ``__consumer_offsets`` goes, and whether it still has what it had.

    Args:
        source: the cluster.
        before: how far it went, by partition.
        timeout_ms: of each question.
        origin: the cluster and the topic then; another one of the name has lost nothing of it.

    Raises:
        SparkmirrorError: it does not answer.
    """
    topic = admin.list_topics(source, [OFFSETS_TOPIC], timeout_ms).get(OFFSETS_TOPIC)
    if topic is None:
        hidden = bool(before) and origin.cluster_id == admin.cluster_id(source, timeout_ms)  # a gap is no whole topic
        return OffsetsLog(ends=before, hidden=hidden)
    if origin.offsets_id not in ("", in_hexadecimal(topic.topic_id)):
        before = {}
    led = [TopicPartition(OFFSETS_TOPIC, number) for number, leader in topic.partitions.items() if leader.node >= 0]
    asked = {place: before[place.partition].epoch for place in led if place.partition in before}
    now = believed_ends(source, asked, timeout_ms).found if asked else {}
    ends = admin.find_offsets(source, led, OffsetSpec.LATEST, timeout_ms=timeout_ms).found
    epochs = newest_epochs(source, ends, timeout_ms)  # afterwards, so none below that of the last record
    return compared(
        before,
        topic.partitions,
        {place.partition: end.end for place, end in now.items()},
        {place.partition: LogEnd(epoch, ends[place]) for place, epoch in epochs.items()},
    )


def compared(
    before: Mapping[int, LogEnd], partitions: Collection[int], still: Mapping[int, int], ends: Mapping[int, LogEnd]
) -> OffsetsLog:
    """How far the topic goes, and what has become of what it had. Pure.

    Args:
        before: how far it went, by partition.
        partitions: all that it has.
        still: where the leader epochs of ``before`` end now, of those whose leader has said so.
        ends: how far partitions go now, likewise.
    """
    found = {number: end for number, end in ends.items() if number in still or number not in before}
    return OffsetsLog(
        ends={**before, **found},
        torn=frozenset(number for number in still.keys() & found.keys() if still[number] < before[number].end),
        silent=frozenset(partitions) - found.keys(),
        partitions=len(partitions),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Placed:
    """Where operations of the flow back have put groups on the source since these were put on record.

    Attributes:
        groups: that they have put there.
        commits: what the flow back has committed there last.
    """

    groups: frozenset[str] = frozenset()
    commits: Commits = field(default_factory=lambda: NO_COMMITS)

    def has(self, group: str, place: TopicPartition, offset: int) -> bool:
        """Whether a group stands where they have put it."""
        commit = self.commits.get(group, {}).get(place) if group in self.groups else None
        return commit is not None and commit.downstream == offset


NOT_PLACED = Placed()


def placed_since(commits: Commits, moved: Moved, since_ms: int) -> Placed:
    """Where the flow back has put groups since groups were put on record.

    Args:
        commits: what it has committed on the source last.
        moved: when operations have moved groups there, by their order.
        since_ms: the order of the newest one that had moved all its groups by then.
    """
    return Placed(groups=frozenset(group for group, at in moved.items() if at > since_ms), commits=commits)


UNREADABLE = UpstreamOffset(NO_OFFSET, Reason.BACK_UNREADABLE.name, exact=False)

CLOCKS_MS = 10_000
"""An event that is by so little older than what was seen of a group may have come while groups were asked."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Parted:
    """Where logs of the source part from what they were.

    Attributes:
        events: that tell it, by partition, each with its number in the order of the record; 0 where it has none yet.
        order: the same number of what is on record of groups, by key.
    """

    events: Mapping[TopicPartition, Sequence[tuple[Event, int]]] = field(default_factory=dict)
    order: Mapping[str, int] = field(default_factory=dict)

    def until(self, known: GroupSeen, number: int) -> int:
        """Up to which offset of a partition that counts which was seen of a group.

        An event that came on record after it counts, whatever the clocks of lanes and drivers say.

        Args:
            known: what is on record of the group and the topic.
            number: the partition.
        """
        seen = self.order.get(known.key)
        return min(
            (
                event.first if event.kind is Kind.SOURCE_TAIL_LOST else 0
                for event, order in self.events.get(TopicPartition(known.topic, number), ())
                if event.time_ms + CLOCKS_MS >= known.time_ms or (seen is not None and order > seen)
            ),
            default=FAR,
        )


NOT_PARTED = Parted()


def parted_in(state: JournalState) -> Parted:
    """The events that are on record of logs of the source that have lost their end, or were created again."""
    found: dict[TopicPartition, list[tuple[Event, int]]] = {}
    told = [(place, event, 0) for place, one in state.progress.items() for event in one.events]
    told += [(one.partition, one.event, state.order.get(key, 0)) for key, one in state.events.items()]
    for place, event, order in told:
        if event.kind in (Kind.SOURCE_TAIL_LOST, Kind.SOURCE_RECREATED) and event.first != NO_OFFSET:
            found.setdefault(place, []).append((event, order))
    return Parted(events=found, order={key: state.order[key] for key in state.groups.keys() & state.order.keys()})


def _kept(known: GroupSeen, number: int, parted: Parted) -> tuple[int, str]:
    """What a group had, but not behind where the log has lost its end since: other records lie there."""
    offset, metadata = known.offsets[number]
    return min(offset, parted.until(known, number)), metadata


def _lost_of(known: GroupSeen, answered: Mapping[int, int], *, torn: bool, placed: Placed) -> dict[int, int]:
    """By partition what the source answers in the place of what it has lost; the arguments are of `seen_before`."""
    lost = {}
    for number, (offset, _) in known.offsets.items():
        found, before = answered.get(number, NO_OFFSET), known.lost.get(number)
        again = before is not None and found == before
        other = (torn or before == UNTOLD) and found != offset
        if (again or other) and not placed.has(known.group, TopicPartition(known.topic, number), found):
            lost[number] = found
    return lost


def unanswered(known: GroupSeen) -> GroupSeen:
    """The same of a group that did not answer when its partition had lost its end: what it answers next shows it."""
    return replace(known, lost=dict.fromkeys(known.offsets, UNTOLD))


def seen_before(
    known: GroupSeen,
    now: GroupSeen | None,
    *,
    torn: bool,
    placed: Placed = NOT_PLACED,
    parted: Parted = NOT_PARTED,
) -> GroupSeen | None:
    """What a group has committed, with what it had before the source lost that; None where nothing was lost. Pure.

    Args:
        known: what is on record of the group and the topic.
        now: what the source answers.
        torn: whether the partition with the group's offsets has lost its end since.
        placed: where operations of the flow back have put groups since.
        parted: where logs of the source have lost their end: what a group had read there is other records by now.
    """
    answered = {} if now is None else {number: offset for number, (offset, _) in now.offsets.items()}
    lost = _lost_of(known, answered, torn=torn, placed=placed)
    if not lost:
        return None
    now = now or replace(known, offsets={}, upstream={}, targets={})
    kept = {number: _kept(known, number, parted) for number in lost}
    same = {number for number, each in kept.items() if each == known.offsets[number]}
    return replace(
        now,
        offsets={**now.offsets, **kept},
        upstream=dict.fromkeys(known.upstream.keys() & kept.keys(), UNREADABLE)  # where nobody has asked for the place
        | {n: one for n, one in now.upstream.items() if n not in same}
        | {n: one for n, one in known.upstream.items() if n in same},
        time_ms=known.time_ms,
        lost=lost,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Merged:
    """What groups have committed on the source, with what they had where it has lost that.

    Attributes:
        offsets: by group. One that is not named has not answered, or is unknown.
        lost: the groups and partitions of which it has lost that.
        unknown: the groups that have answered, and whose partition does not say whether it has lost its end.
    """

    offsets: Mapping[str, Offsets]
    lost: frozenset[tuple[str, TopicPartition]] = frozenset()
    unknown: frozenset[str] = frozenset()

    @property
    def known(self) -> KnownOffsets:
        """The same, for what is decided by it elsewhere."""
        return KnownOffsets(self.offsets)


def with_lost(
    groups: Iterable[GroupSeen],
    found: Mapping[str, Offsets],
    log: OffsetsLog,
    placed: Placed = NOT_PLACED,
    parted: Parted = NOT_PARTED,
) -> Merged:
    """What groups have committed, with what they had where the source has lost that. Pure.

    Args:
        groups: what is on record of them.
        found: what the source answers.
        log: how far the topic with their offsets went when they had answered, by what was on record before.
        placed: where operations of the flow back have put groups since.
        parted: as for `seen_before`.
    """
    unknown = frozenset(group for group in found if log.is_silent(group))
    merged, lost = {group: dict(own) for group, own in found.items() if group not in unknown}, set()
    for seen in groups:
        if log.is_silent(seen.group):
            continue
        own = found.get(seen.group, {})
        answered = {place.partition: each.offset for place, each in own.items() if place.topic == seen.topic}
        for number in _lost_of(seen, answered, torn=log.has_torn(seen.group), placed=placed):
            place = TopicPartition(seen.topic, number)
            merged.setdefault(seen.group, {})[place] = Committed(*_kept(seen, number, parted))
            lost.add((seen.group, place))
    return Merged(offsets=dict(merged), lost=frozenset(lost), unknown=unknown)


def ask_with_lost(
    source: Cluster,
    fetch: Callable[[], T],
    before: GroupsSeen | None,
    timeout_ms: int,
) -> tuple[T, OffsetsLog]:
    """What groups answer, and how far the topic with their offsets went after that.

    Args:
        source: the cluster.
        fetch: asks the groups; once more where the topic has lost something, since they may have answered before.
        before: when groups were put on record.
        timeout_ms: of each question.

    Raises:
        SparkmirrorError: it does not answer.
    """
    before, found = before or GroupsSeen(time_ms=0), fetch()
    log = offsets_log(source, before.log, timeout_ms, before.origin)
    if not log.torn:
        return found, log
    found = fetch()
    same = before.origin._replace(offsets_id="")
    return found, log.then(offsets_log(source, log.ends, timeout_ms, same), before.log)


def not_known(source: Cluster, group: str, log: OffsetsLog) -> LinkError:
    """Why nothing is known of what a group has committed, though it has answered."""
    if log.hidden:
        return LinkError(
            cluster=source.alias,
            address=source.address,
            reason=f"topic {OFFSETS_TOPIC}, which holds the offsets of group {group}, is not shown any more, as it was "
            "before: whether these are the newest offsets is not known",
            hint=f"allow DESCRIBE on Topic {OFFSETS_TOPIC} to this user, if that was taken away",
        )
    return LinkError(
        cluster=source.alias,
        address=source.address,
        reason=f"partition {partition_of(group, log.partitions)} of {OFFSETS_TOPIC}, which holds the offsets of group "
        f"{group}, does not say whether it has lost its end: whether these are the newest offsets is not known",
        hint="it says so as soon as it has a leader that answers",
    )


def is_another(before: Origin, now: Origin) -> bool:
    """Whether what is on record of groups was read from another cluster, or from another topic of group offsets."""
    if before == UNKNOWN_ORIGIN:
        return False
    return before.cluster_id != now.cluster_id or before.offsets_id not in ("", now.offsets_id)


def is_hidden(before: Origin, now: Origin) -> bool:
    """Whether the same cluster does not show its topic of group offsets, which it has shown before."""
    return before.cluster_id == now.cluster_id and before.offsets_id != "" == now.offsets_id


def kept(known: Mapping[str, GroupSeen], gone: Iterable[str], before: Origin, asked: Asked) -> frozenset[str]:
    """The keys of what stays on record, of what the source has nothing of any more.

    Args:
        known: what is on record, by key.
        gone: the keys of what the source has not answered with, though it could be asked.
        before: where what is on record was read.
        asked: what the source has said of itself.
    """
    if is_another(before, asked.origin):
        return frozenset(gone)
    certain = asked.topics | (asked.absent if asked.origin.offsets_id else frozenset())
    return frozenset(key for key in gone if known[key].topic not in certain)
