"""What an operation sees of both sides: whether the source answers and takes records, how far the flow is, the groups.

Invariants: nothing is changed; a source that does not answer is a value, not an error; the target has to answer. A
source is gone where nothing of it answers: one broker that hangs does not stand for all.
Heartbeats are left out: mirrors write them without end, and nobody misses one.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Container, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field, replace

from sparkmirror.config import FlowConfig, Isolation
from sparkmirror.duties import topics
from sparkmirror.duties.chosen_groups import chooser
from sparkmirror.duties.duty import Sides
from sparkmirror.duties.empty_partitions import ends_of_empty, never_mirrored
from sparkmirror.duties.groups import untranslatable
from sparkmirror.duties.known_maps import KnownMaps
from sparkmirror.duties.lost_copies import recreated_copies
from sparkmirror.duties.past_markers import at_last
from sparkmirror.duties.upstream_offsets import upstream_on_record
from sparkmirror.duties.written_by_others import Written, written
from sparkmirror.errors import LinkError, SparkmirrorError
from sparkmirror.events import now_ms
from sparkmirror.failover import own_logs
from sparkmirror.failover.brought_back import latest, order_of, returned_in, rows_of
from sparkmirror.failover.changes import Changes
from sparkmirror.failover.earlier import earlier_in
from sparkmirror.failover.moves import Sight, Standing
from sparkmirror.failover.others import brought, homeward_ends, position_of
from sparkmirror.failover.states import (
    LOST_START,
    MOVED,
    MOVED_BEFORE,
    NOT_TAKEN,
    TORN,
    UNASKED,
    UNBROUGHT,
    UNSETTLED,
    Kind,
)
from sparkmirror.failover.tried import places_in, unsure_in
from sparkmirror.failover.unfollowed import Since, not_asked_since, since_in
from sparkmirror.kafka import admin
from sparkmirror.kafka.cluster import Cluster
from sparkmirror.kafka.codes import TOPIC_AUTHORIZATION_FAILED, name_of
from sparkmirror.kafka.groups import (
    Committed,
    GroupKind,
    GroupList,
    GroupListing,
    Offsets,
    fetch_known,
    fetch_offsets,
    list_groups,
)
from sparkmirror.kafka.leaders import OffsetSpec
from sparkmirror.kafka.reading import Span
from sparkmirror.kafka.rounds import Results
from sparkmirror.model import NO_OFFSET, TopicPartition
from sparkmirror.naming import policy_for
from sparkmirror.offsets.group_commits import landed, merged
from sparkmirror.offsets.group_records import UpstreamOffset, commits_of, tried_of
from sparkmirror.offsets.ledger import Operation
from sparkmirror.offsets.left_offsets import Moved, left_of, moved_at
from sparkmirror.offsets.map import OffsetMap
from sparkmirror.offsets.records import Progress
from sparkmirror.offsets.recovery import UNKNOWN_MS
from sparkmirror.offsets.state import JournalState
from sparkmirror.offsets.translation import Place

REACH_MS = 3_000
"""A cluster of which no broker answers anything for so long is taken for gone, as far as a plan is concerned."""

SLOW_MS = 20_000
"""For one that is far away: TLS and a login take some ten round trips before the first question is answered."""

ASK_MS = 10_000
"""For each further question to a source that has answered: one that is half dead must not hold a failover up."""

PRODUCING_SECONDS = 2.0
"""Between the two looks that tell whether a source still takes records."""

OLDEST_MS = 10_000
"""A partition without a leader has no readers either, and is not waited for longer."""


CLOCKS_MS = 10_000
"""Clocks of driver and lanes may differ by so much."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionState:
    """One partition of the flow.

    Attributes:
        partition: of the source.
        target: the same on the target.
        position: up to this source offset everything is on the target, or was left out on purpose.
        end: the end of the source as it was seen last, or `NO_OFFSET`.
        seen_ms: what the source had taken by then is known, milliseconds since 1970; 0 where nothing is.
        standing: why it stands still, or "". One of a topic that the flow does not copy any more waits for nothing.
        found: whether the flow has found it. One that it has not is copied from `position`, its oldest record.
        absent: whether something of it was copied, and the copy does not exist any more.
        doubtful: whether more may have been copied than the position says, see ``doubt``.
        of_others: of a copy of which only what others wrote goes home, how many such records lie before `end`, as far
            as that was asked.
    """

    partition: TopicPartition
    target: TopicPartition
    position: int
    end: int
    seen_ms: int
    standing: str = ""
    found: bool = True
    absent: bool = False
    doubtful: bool = False
    of_others: int | None = None

    @property
    def missing(self) -> int:
        """Source offsets that are known to be missing on the target; records, where only those of others count."""
        if self.end == NO_OFFSET or self.doubtful:
            return 0
        offsets = max(0, self.end - self.position)
        return offsets if self.of_others is None else min(offsets, self.of_others)


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceState:
    """The source, if it answers.

    Attributes:
        failure: why it does not, or "".
        ends: of the partitions that the flow copies: what a reader may get to.
        starts: of the same, the oldest offset.
        produced: records that it took between two looks.
        listed: the groups that the flow translates.
        untranslated: those that it chooses, and whose kind has no offsets to translate.
        leaderless: partitions of ``__consumer_offsets`` without a leader, whose groups are not listed.
        silent: of the partitions that the flow copies those whose leader does not answer, or that have none, and why.
        unlisted: why its groups are not known, or whether they are all, or "".
        of_others: of those partitions that are copies what others wrote to them, and the flow had not brought home.
    """

    failure: str = ""
    ends: Mapping[TopicPartition, int] = field(default_factory=dict)
    starts: Mapping[TopicPartition, int] = field(default_factory=dict)
    produced: int = 0
    listed: tuple[GroupListing, ...] = ()
    untranslated: tuple[GroupListing, ...] = ()
    leaderless: int = 0
    silent: Mapping[TopicPartition, str] = field(default_factory=dict)
    unlisted: str = ""
    of_others: Mapping[TopicPartition, Written] = field(default_factory=dict)

    @property
    def answers(self) -> bool:
        """Whether it does, be it in part: some of its brokers may hang or be away while others take records."""
        return not self.failure


def partitions(
    flow: FlowConfig, state: JournalState, source: SourceState, *, caught_up: bool = False
) -> tuple[PartitionState, ...]:
    """Every partition of the flow, in order: those on record, and those of a source that answers.

    Args:
        flow: the flow.
        state: its internal topic, read to its end.
        source: asked now.
        caught_up: whether an operation has seen that the target has all. Without, groups that have read beyond the end
            that the flow has seen tell of a further one. With, copies lack nothing: what lies behind the position there
            was written by the flow that makes them.
    """
    ends = {**source.ends, **{place: one.end for place, one in source.of_others.items()}}
    now, policy = now_ms(), policy_for(flow.policy, flow.source.alias)
    point_ms = UNKNOWN_MS if state.life is None else state.life.recovery_ms
    committed = {} if caught_up else _read_since(state, point_ms)
    without = set(topics.left_out(flow, state.progress))
    known = [
        _partition(flow, progress, ends.get(place, NO_OFFSET), committed.get(place, NO_OFFSET), now, point_ms)
        for place, progress in state.progress.items()
        if not policy.is_heartbeats_topic(place.topic)
    ]
    known = [replace(one, standing="") if one.partition.topic in without else one for one in known]
    known = [_of_others(flow, one, source.of_others.get(one.partition), caught_up=caught_up) for one in known]
    known += [
        PartitionState(
            partition=place,
            target=TopicPartition(topics.remote_topic(flow, place.topic), place.partition),
            position=source.starts.get(place, 0),
            end=end,
            seen_ms=now,
            found=False,
        )
        for place, end in ends.items()
        if place not in state.progress
    ]
    return tuple(sorted(known, key=lambda each: each.partition))


def _of_others(flow: FlowConfig, one: PartitionState, found: Written | None, *, caught_up: bool) -> PartitionState:
    """The same of a copy of which only what others wrote goes home, as far as that is known."""
    if found is not None:
        return replace(one, of_others=found.records)
    return replace(one, of_others=0) if caught_up and topics.is_homeward(flow, one.partition.topic) else one


def paused(flow: FlowConfig, state: JournalState) -> list[str]:
    """The topics that the flow copies and that somebody has paused, in order: nobody resumes one that it leaves out."""
    return topics.read(flow, {order.topic for order in state.paused.values()}, state.progress)


def with_absent(sides: Sides, known: tuple[PartitionState, ...]) -> tuple[PartitionState, ...]:
    """The same, told which copies do not exist any more, of topics that the flow copies.

    Raises:
        SparkmirrorError: the target cannot be asked.
    """
    assert sides.store is not None
    state, flow = sides.store.state, sides.flow
    copied = set(topics.read(flow, {one.partition.topic for one in known}, state.progress))
    some = [one.target for one in known if one.partition.topic in copied and len(state.map_of(one.partition))]
    absent = admin.absent(sides.target, some, flow.admin_timeout_ms)
    return tuple(replace(one, absent=one.target in absent) for one in known)


def with_doubt(known: tuple[PartitionState, ...], places: Container[TopicPartition]) -> tuple[PartitionState, ...]:
    """The same, told of which partitions more may have been copied than is on record. Pure."""
    return tuple(replace(one, doubtful=True) if one.partition in places else one for one in known)


def waiting_for_no_rights(
    known: tuple[PartitionState, ...], cluster: str, denied: Container[str]
) -> tuple[PartitionState, ...]:
    """The same; partitions that stand still only since writing to their target topic is denied do so no more. Pure.

    Args:
        known: of a flow.
        cluster: its target.
        denied: topics of the target where the operation that is planned takes the denial away when it begins.
    """

    def is_let_in(one: PartitionState) -> bool:
        refused = f"cluster {cluster}, {one.target}: {name_of(TOPIC_AUTHORIZATION_FAILED)} "
        return one.target.topic in denied and refused in one.standing

    return tuple(replace(one, standing="") if is_let_in(one) else one for one in known)


def _read_since(state: JournalState, point_ms: int) -> dict[TopicPartition, int]:
    """What groups have committed, by partition the most, where the flow has not seen the source's end since.

    An offset that was committed before, and that is beyond the end, is one of no record: somebody has set it there, or
    the log has lost its end.
    """
    found: dict[TopicPartition, int] = {}
    for seen in state.groups.values():
        for number, (offset, _) in seen.offsets.items():
            place = TopicPartition(seen.topic, number)
            progress = state.progress.get(place)
            end_ms = point_ms if progress is None else max(point_ms, progress.recovery_ms)
            if seen.time_ms + CLOCKS_MS > end_ms:
                found[place] = max(offset, found.get(place, NO_OFFSET))
    return found


def _partition(
    flow: FlowConfig, progress: Progress, asked: int, committed: int, now: int, point_ms: int
) -> PartitionState:
    """One partition; a record that was written while the source was away already does not say that it was seen."""
    place = progress.partition
    seen = max(progress.end, committed)
    known = max(seen, progress.position) if seen != NO_OFFSET else NO_OFFSET
    return PartitionState(
        partition=place,
        target=TopicPartition(topics.remote_topic(flow, place.topic), place.partition),
        position=progress.position,
        end=asked if asked != NO_OFFSET else known,
        seen_ms=now if asked != NO_OFFSET else max(0, progress.recovery_ms, point_ms),
        standing=progress.error,
    )


def source(sides: Sides) -> SourceState:
    """Asks the source, twice, to see whether it takes records; each question has a short deadline.

    It is gone where no broker answers, or no leader of a partition that the flow copies.
    """
    try:
        check_source(sides)
    except LinkError as failure:
        with _by_another_broker(sides) as asked:
            return SourceState(failure=str(failure)) if asked is None else _source(asked)
    except SparkmirrorError as failure:
        return SourceState(failure=str(failure))
    return _source(sides)


def _source(sides: Sides) -> SourceState:
    timeout_ms = min(ASK_MS, sides.flow.admin_timeout_ms)

    def ends(places: Collection[TopicPartition], isolation: Isolation) -> Results[TopicPartition, int]:
        spec = OffsetSpec.LATEST
        return admin.find_offsets(sides.source, list(places), spec, isolation=isolation, timeout_ms=timeout_ms)

    try:
        check_source(sides)
        asked = ends(_copied(sides, timeout_ms), sides.flow.isolation)
    except SparkmirrorError as failure:
        return SourceState(failure=str(failure))
    if asked.failed and not asked.found:
        return SourceState(failure=str(next(iter(asked.failed.values()))))
    high = ends(asked.found, Isolation.READ_UNCOMMITTED).found
    starts = admin.find_offsets(sides.source, list(high), OffsetSpec.EARLIEST, timeout_ms=timeout_ms).found
    listed, others, unlisted = GroupList({}), tuple[GroupListing, ...](), ""
    try:
        groups = list_groups(sides.source, REACH_MS if asked.failed else timeout_ms)
        listed, others = _chosen(sides, groups), untranslated(sides.flow, groups, _state(sides))
        unlisted = groups.hidden
    except SparkmirrorError as failure:
        unlisted = str(failure)
    time.sleep(PRODUCING_SECONDS)
    later = ends(high, Isolation.READ_UNCOMMITTED).found
    known = {place: end for place, end in asked.found.items() if place in starts}
    return SourceState(
        ends=known,
        starts=starts,
        produced=sum(_grown(sides, high, later).values()),
        of_others=_others_to_bring(sides, starts, known),
        listed=tuple(listed.values()),
        untranslated=others,
        leaderless=len(listed.leaderless),
        silent={place: str(why) for place, why in asked.failed.items()},
        unlisted=unlisted,
    )


def _grown(
    sides: Sides, high: Mapping[TopicPartition, int], later: Mapping[TopicPartition, int]
) -> dict[TopicPartition, int]:
    """By how much logs have grown; of copies that are brought home only what others wrote counts."""
    grown = {place: max(0, end - high[place]) for place, end in later.items()}
    spans = {place: Span(high[place], end) for place, end in homeward_ends(sides.flow, later).items() if grown[place]}
    return grown | {place: one.records for place, one in _written(sides, spans, Isolation.READ_UNCOMMITTED).items()}


def _others_to_bring(
    sides: Sides, starts: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int]
) -> dict[TopicPartition, Written]:
    """What others wrote to copies behind the flow's positions, as readers see it."""
    spans = {
        place: Span(min(end, max(starts[place], position_of(sides, place))), end)
        for place, end in homeward_ends(sides.flow, ends).items()
    }
    return _written(sides, spans, sides.flow.isolation)


def _written(sides: Sides, spans: Mapping[TopicPartition, Span], isolation: Isolation) -> dict[TopicPartition, Written]:
    """What others wrote; counted by offsets where that cannot be read, so that nothing of it seems not to be there."""
    if not spans:
        return {}
    state, timeout_ms = _state(sides), min(ASK_MS, sides.flow.admin_timeout_ms)
    try:
        without = brought(sides.source, None if state is None else state.flow)
        return written(sides.source, spans, without, timeout_ms, isolation=isolation, seconds=ASK_MS / 1000)
    except SparkmirrorError:
        return {place: Written(span.end, span.end - span.first) for place, span in spans.items()}


@contextmanager
def answering(sides: Sides) -> Iterator[Sides | None]:
    """The same, connected by way of a broker of the source that answers; None where it is gone or another cluster."""
    try:
        check_source(sides)
    except LinkError:
        with _by_another_broker(sides) as found:
            yield found
    except SparkmirrorError:
        yield None
    else:
        yield sides


@contextmanager
def _by_another_broker(sides: Sides) -> Iterator[Sides | None]:
    """The same, connected by way of one of several bootstrap servers alone that answers; None where none does.

    A broker that hangs takes connections, and all the time that there is for the first answer.
    """
    settings, alias = sides.source.settings, sides.source.alias
    addresses = settings.bootstrap_servers if len(settings.bootstrap_servers) > 1 else ()
    with ExitStack() as opened:
        each = [
            opened.enter_context(
                closing(Cluster(alias, replace(settings, bootstrap_servers=(address,)), role="operator"))
            )
            for address in addresses
        ]
        with ThreadPoolExecutor(max(1, len(each))) as beside:
            answers = list(beside.map(_answers, each))
        found = next((cluster for cluster, answer in zip(each, answers, strict=True) if answer), None)
        yield None if found is None else replace(sides, source=found)


def _answers(cluster: Cluster) -> bool:
    try:
        reach(cluster)
    except SparkmirrorError:
        return False
    return True


def reach(cluster: Cluster) -> str:
    """The identity of a cluster, if it answers: soon where it is gone, and with patience where it says anything.

    Raises:
        LinkError: it does not.
    """
    cluster.connections.heard = False
    try:
        return admin.cluster_id(cluster, REACH_MS)
    except LinkError as failure:
        if failure.lasting or not cluster.connections.heard:
            raise
    return admin.cluster_id(cluster, SLOW_MS)


def check_source(sides: Sides) -> None:
    """Sees that the source answers, and is the cluster that the flow has copied from.

    Raises:
        SparkmirrorError: it does not, or is not.
    """
    known = None if sides.store is None else sides.store.state.flow
    found = reach(sides.source)
    if known is not None and found != known.source_id:
        raise SparkmirrorError(
            f"cluster {sides.flow.source.alias} is {found} now, and {known.source_id} is on record: it is another "
            "cluster, and says nothing of what was copied"
        )


def source_ends(sides: Sides, *, committed: bool, timeout_ms: int | None = None) -> dict[TopicPartition, int]:
    """The ends of all partitions that the flow copies, and of copies that it has begun with for what others wrote.

    Only when the flow forth is stopped do the latter come to rest, see ``others``.

    Args:
        sides: the flow and its clusters.
        committed: as the flow's readers see them; else with what open transactions have written.
        timeout_ms: of each question; as the flow is configured without.

    Raises:
        SparkmirrorError: the source cannot be asked.
    """
    timeout_ms = sides.flow.admin_timeout_ms if timeout_ms is None else timeout_ms
    places = _copied(sides, timeout_ms)
    isolation = sides.flow.isolation if committed else Isolation.READ_UNCOMMITTED
    return admin.list_offsets(sides.source, places, OffsetSpec.LATEST, isolation=isolation, timeout_ms=timeout_ms)


def found_ends(sides: Sides, timeout_ms: int) -> Results[TopicPartition, int]:
    """The same with what open transactions have written, as far as leaders answer; the arguments are the same.

    Raises:
        SparkmirrorError: the source cannot be asked at all.
    """
    places, isolation = _copied(sides, timeout_ms), Isolation.READ_UNCOMMITTED
    return admin.find_offsets(sides.source, places, OffsetSpec.LATEST, isolation=isolation, timeout_ms=timeout_ms)


def _copied(sides: Sides, timeout_ms: int) -> list[TopicPartition]:
    """The partitions that the flow copies; the arguments are those of `source_ends`."""
    flow, listed = sides.flow, admin.list_topics(sides.source, timeout_ms=timeout_ms)
    places = topics.places(flow, listed, sides.progress)
    return [place for place in places if not topics.is_heartbeats(flow, place.topic)]


def chosen_groups(sides: Sides, timeout_ms: int | None = None, *, complete: bool = False) -> GroupList:
    """The source's groups that an operation of the flow deals with.

    Args:
        sides: the flow and its clusters.
        timeout_ms: as the flow is configured without.
        complete: whether groups without a coordinator, which no broker lists, are a failure.

    Raises:
        SparkmirrorError: the source cannot be asked, or the list is not complete.
    """
    timeout_ms = sides.flow.admin_timeout_ms if timeout_ms is None else timeout_ms
    return _chosen(sides, list_groups(sides.source, timeout_ms, complete=complete))


def chooser_of(sides: Sides) -> Callable[[str], bool]:
    """Says of a group's name whether an operation of the flow deals with it.

    Raises:
        ConfigError: an expression of the flow cannot be used.
    """
    return chooser(sides.flow, _state(sides))


def _state(sides: Sides) -> JournalState | None:
    return None if sides.store is None else sides.store.state


def _chosen(sides: Sides, listed: GroupList) -> GroupList:
    named = chooser_of(sides)
    chosen = {name: each for name, each in listed.items() if named(name) and untranslatable(each) is None}
    return GroupList(chosen, listed.leaderless, listed.hidden)


def untranslated(
    flow: FlowConfig, listed: Mapping[str, GroupListing], state: JournalState | None = None
) -> tuple[GroupListing, ...]:
    """The groups that the flow chooses by their names, and whose kind has no offsets to translate."""
    kinds = (GroupKind.SHARE, GroupKind.STREAMS)
    named = chooser(flow, state)
    return tuple(each for name, each in sorted(listed.items()) if each.kind in kinds and named(name))


def offsets_now(
    sides: Sides, timeout_ms: int | None = None, *, stable: bool = False, known: Collection[str] = ()
) -> dict[str, Offsets]:
    """What the source's groups that an operation of the flow deals with have committed.

    Args:
        sides: the flow and its clusters.
        timeout_ms: of each question; as the flow is configured without.
        stable: whether transactions that commit offsets are waited for.
        known: groups that are asked for by name too: while their coordinator is away no broker lists them.

    Raises:
        SparkmirrorError: the source cannot be asked, a group's offsets cannot be read, or not all groups can be listed.
    """
    timeout_ms = sides.flow.admin_timeout_ms if timeout_ms is None else timeout_ms
    listed, named = list_groups(sides.source, timeout_ms, complete=True), chooser_of(sides)
    chosen = sorted(_chosen(sides, listed))
    hidden = sorted(name for name in known if name not in listed and named(name))
    found = fetch_offsets(sides.source, chosen, timeout_ms, stable=stable).complete()
    others = fetch_offsets(sides.source, hidden, min(timeout_ms, ASK_MS), stable=stable).complete()
    return {**found, **{name: own for name, own in others.items() if own}}


def standing_there(target: Cluster, groups: Iterable[str], timeout_ms: int) -> Standing:
    """How groups stand on the cluster that they are to be moved to.

    Raises:
        SparkmirrorError: it cannot be asked; one group that cannot be read keeps no other from being moved.
    """
    listed = list_groups(target, timeout_ms)
    fetched = fetch_known(target, set(groups), listed, timeout_ms)
    unreadable = {group: str(failure) for group, failure in fetched.failed.items()}
    return Standing(listed=listed, offsets=fetched.found, unreadable=unreadable)


def what_is_left(
    cluster: Cluster, places: Iterable[TopicPartition], timeout_ms: int
) -> tuple[frozenset[TopicPartition], dict[TopicPartition, int]]:
    """Those of the partitions that do not exist, and the first offset that each of the others has, if it answers.

    Raises:
        SparkmirrorError: the cluster cannot be asked at all.
    """
    absent = admin.absent(cluster, places, timeout_ms)
    there, timeout_ms = sorted(set(places) - absent), min(timeout_ms, OLDEST_MS)
    return absent, dict(admin.find_offsets(cluster, there, OffsetSpec.EARLIEST, timeout_ms=timeout_ms).found)


def sight(
    sides: Sides,
    maps: KnownMaps,
    operation: Operation | None = None,
    back: Moved | None = None,
    *,
    kind: Kind | None = None,
    returned: Mapping[str, str] | None = None,
    since: Since = (),
    unbrought: Collection[TopicPartition] = (),
) -> Sight:
    """What is on record of the source's groups, and how they stand on the target.

    Args:
        sides: the flow and its clusters; the source is not asked.
        maps: of the flow.
        operation: that moves them, or has moved them.
        back: when operations of the flow back have moved groups to the source, as far as it is not on record here.
        kind: of an operation that is planned.
        returned: groups that operations of the flow back have brought to the source since the flow is held, by what is
            known when it is planned.
        since: since when the flow has not followed groups, by what is known when it is planned.
        unbrought: copies of which it is known when it is planned that nothing brings what others wrote to them.

    Raises:
        SparkmirrorError: the target cannot be asked.
    """
    flow, target, timeout_ms = sides.flow, sides.target, sides.flow.admin_timeout_ms
    assert sides.store is not None  # a flow that was never started has no operation
    sides.store.follow()
    state = sides.store.state
    recorded, seen_ms = on_record(state)
    named = chooser_of(sides)
    offsets = {group: own for group, own in recorded.items() if named(group)}
    places = {place for own in offsets.values() for place in own}
    names = {place.topic for place in places}
    renamed = {name: topics.remote_topic(flow, name) for name in topics.read(flow, names, state.progress)}
    originals = {name: original for name in names if (original := topics.original_of(flow, name)) is not None}
    copied = {place for place in places if place.topic in renamed}
    known = originals | renamed
    there = {TopicPartition(known[place.topic], place.partition) for place in places if place.topic in known}
    found = maps.of(copied)
    unmirrored = {place for place in copied if place not in found} | never_mirrored(found)
    changed = Changes.of({} if operation is None else operation.facts)
    absent, oldest = what_is_left(target, there, timeout_ms)
    copies = {TopicPartition(renamed[place.topic], place.partition) for place in unmirrored}
    standing = standing_there(target, offsets, timeout_ms)
    committed = state.committed.values()
    upstream = before_what_was_lost(upstream_on_record(state.groups, offsets), operation)
    own = _in_own_logs(target, upstream, known, absent, min(timeout_ms, OLDEST_MS))
    returned = returned_in(operation) if operation is not None else dict(returned or {})
    return Sight(
        offsets=offsets,
        seen_ms=seen_ms,
        renamed=renamed,
        maps=found,
        inherited=dict(state.inherited),
        oldest=oldest,
        absent=absent,
        there=standing,
        empty=ends_of_empty(target, copies - absent, timeout_ms),
        originals=originals,
        upstream=_passed(sides, found, own.upstream),
        own_lost=own.lost,
        unproven=own.unproven,
        back=str(flow.name.back),
        commits=merged(commits_of(committed), landed(tried_of(committed), standing.offsets)),
        left=left_of(state.left, back or {}),
        moved=moved_while_held(state, operation, back),
        returned=returned,
        unfollowed=not_asked_since(since_in(operation) or since, state.groups_seen, offsets.keys() - returned.keys()),
        recreated=changed.recreated,
        copy_recreated=recreated_copies(flow, target, _of_topics(state, renamed), timeout_ms),
        parted={place: one.offset for place, one in changed.parted.items()},
        outdated=_outdated(state),
        unsettled=unsettled_in(operation),
        unbrought=frozenset(unbrought) | unbrought_in(operation),
        homeward=frozenset(_homeward(sides, places)) if _goes_by_the_record(kind, operation) else frozenset(),
        unsure=unsure_in(operation),
        tried=places_in(operation),
        earlier=earlier_in(operation),
        lost_start=state.lacks_all_starts if operation is None else bool(operation.facts.get(LOST_START)),
        unasked=frozenset(() if operation is None else operation.facts.get(UNASKED, ())),
        lost=_lost(state),
    )


def _lost(state: JournalState) -> frozenset[tuple[str, TopicPartition]]:
    """Where the source has lost what groups had committed."""
    return frozenset(
        (seen.group, TopicPartition(seen.topic, number)) for seen in state.groups.values() for number in seen.lost
    )


def _homeward(sides: Sides, places: Iterable[TopicPartition]) -> Iterator[TopicPartition]:
    return (place for place in places if topics.is_homeward(sides.flow, place.topic))


def _goes_by_the_record(kind: Kind | None, operation: Operation | None) -> bool:
    """Whether nobody waits until the target has all; where no operation is named, groups are only looked at."""
    return kind is Kind.FAILOVER if operation is None else operation.kind == Kind.FAILOVER.value


def _in_own_logs(
    target: Cluster,
    upstream: Mapping[str, Mapping[TopicPartition, UpstreamOffset]],
    names: Mapping[str, str],
    absent: Collection[TopicPartition],
    timeout_ms: int,
) -> own_logs.OwnLogs:
    """What is on record of where groups lead to by the flow back, held against the logs; none where there is none."""
    there = {
        group: {
            place: one
            for place, one in own.items()
            if place.topic not in names or TopicPartition(names[place.topic], place.partition) not in absent
        }
        for group, own in upstream.items()
    }
    found = own_logs.look(target, there, names, timeout_ms)
    return replace(found, upstream={group: {**own, **found.upstream[group]} for group, own in upstream.items()})


def _passed(
    sides: Sides,
    maps: Mapping[TopicPartition, OffsetMap],
    upstream: Mapping[str, Mapping[TopicPartition, UpstreamOffset]],
) -> dict[str, dict[TopicPartition, UpstreamOffset]]:
    """The same, but behind the markers and copies that lie behind the position of the flow back, which brings none."""
    ends = {
        (place, one.offset)
        for own in upstream.values()
        for place, one in own.items()
        if one.name == Place.END.name and one.offset != NO_OFFSET
    }
    passed = at_last(sides, maps, ends) if ends else {}
    return {
        group: {
            place: replace(one, offset=passed.get((place, one.offset), one.offset))
            if one.name == Place.END.name
            else one
            for place, one in own.items()
        }
        for group, own in upstream.items()
    }


def _of_topics(state: JournalState, names: Collection[str]) -> dict[TopicPartition, Progress]:
    return {place: one for place, one in state.progress.items() if place.topic in names}


def _outdated(state: JournalState) -> frozenset[tuple[str, str]]:
    """Groups and topics of the source where what was committed was seen in an older topic of the name."""
    ids = {place.topic: progress.topic_id for place, progress in state.progress.items() if progress.topic_id}
    return frozenset(
        (seen.group, seen.topic)
        for seen in state.groups.values()
        if seen.topic_id and ids.get(seen.topic, seen.topic_id) != seen.topic_id
    )


def moved_by(operation: Operation | None) -> frozenset[str]:
    """The groups that an operation has moved; what they have on the target then is theirs."""
    return frozenset(() if operation is None else operation.facts.get(MOVED, ()))


def not_taken(operation: Operation | None) -> dict[str, str]:
    """The groups whose offsets the cluster that they are moved to does not take, and why."""
    return {} if operation is None else dict(operation.facts.get(NOT_TAKEN, ()))


def not_moved(operation: Operation) -> frozenset[str]:
    """The groups that an operation has left where they were, since others use them or they are not taken."""
    facts = operation.facts
    return frozenset([*facts.get("active", ()), *facts.get("changing", ()), *not_taken(operation)])


def torn_in(operation: Operation | None) -> dict[TopicPartition, int]:
    """From which target offset on copies were lost since the flow was stopped, by partition of the source."""
    rows = () if operation is None else operation.facts.get(TORN, ())
    return {TopicPartition(topic, number): at for topic, number, at in rows}


def before_what_was_lost(
    upstream: Mapping[str, Mapping[TopicPartition, UpstreamOffset]], operation: Operation | None
) -> dict[str, dict[TopicPartition, UpstreamOffset]]:
    """What is on record of where groups lead to by the flow back, but not beyond where the target has lost its log.

    What lies there now was written since, and the flow back may have passed what lay there before.
    """
    torn = torn_in(operation)
    return {
        group: {
            place: replace(one, offset=torn[place], exact=False) if one.offset > torn.get(place, one.offset) else one
            for place, one in own.items()
        }
        for group, own in upstream.items()
    }


def unsettled_in(operation: Operation | None) -> frozenset[TopicPartition]:
    """The partitions of the source of which an operation could not find out how far they are copied."""
    rows = () if operation is None else operation.facts.get(UNSETTLED, ())
    return frozenset(TopicPartition(topic, number) for topic, number, _ in rows)


def unbrought_in(operation: Operation | None) -> frozenset[TopicPartition]:
    """The copies that others have written to, and of which an operation has seen that nothing brings that."""
    rows = () if operation is None else operation.facts.get(UNBROUGHT, ())
    return frozenset(TopicPartition(topic, number) for topic, number, *_ in rows)


def moved_while_held(
    state: JournalState, operation: Operation | None = None, back: Moved | None = None
) -> frozenset[str]:
    """The groups that were moved to the target since the flow is held: where they stand there, their owners want them.

    A failback that has not come to its end leaves them so, but for those that it has moved itself.

    Args:
        state: of the flow's internal topic.
        operation: that is looked at; the newest on record, if the flow is held, without.
        back: as in `sight`; what was moved to the source since, its owners want there, as what is on record as such.
    """
    if operation is None:
        back = latest(back or {}, order_of(rows_of(state)))
        operation = state.ledger.operation if state.held is not None else None
    if operation is None:
        return frozenset()
    moved, at = moved_by(operation).union(operation.facts.get(MOVED_BEFORE, ())), moved_at(state.left.values())
    until = operation.order - 1 if operation.kind == Kind.FAILBACK.value else operation.order
    return frozenset(name for name in moved if (back or {}).get(name, -1) <= at.get(name, until))


def on_record(state: JournalState) -> tuple[dict[str, Offsets], dict[str, int]]:
    """What groups had committed on the source when it was seen last, and when that was."""
    offsets: dict[str, dict[TopicPartition, Committed]] = {}
    seen_ms: dict[str, int] = {}
    for seen in state.groups.values():
        own = offsets.setdefault(seen.group, {})
        own |= {TopicPartition(seen.topic, number): Committed(*each) for number, each in seen.offsets.items()}
        asked = state.groups_seen.read_ms(seen.group) if state.groups_seen is not None else 0
        seen_ms[seen.group] = max(seen.time_ms, asked, seen_ms.get(seen.group, 0))
    return dict(offsets), seen_ms
