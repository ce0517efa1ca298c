"""What the flow back has on record: which records it has put into the source's topics, where it has placed groups.

The flow the other way writes to the source, and its internal topic lies there. Its configuration may be in another
file: that topic alone tells.

Invariants: a topic that is hidden from this user is not taken for one that is absent, where records depend on it; a
record that is about other clusters, since an alias names another one now, says nothing. The record says what the logs
of the source had, which may have lost it: their leaders are asked each time, since the flow back sees that only once it
runs and looks again; a partition whose leader does not answer is not taken for whole. What was decided about groups
before a failback began to place them is never committed after: the record is read again right before each request, and
a failback places no group before that of every earlier reading has come or is given up. Where the flow back has
committed for a group while its offsets were read, these are nobody's for that round.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from sparkmirror.config import FlowConfig
from sparkmirror.duties.duty import Sides
from sparkmirror.duties.known_maps import KnownMaps
from sparkmirror.duties.lost_copies import lost_copies, lost_sources
from sparkmirror.duties.lost_groups import NOT_PLACED, Placed, placed_since
from sparkmirror.duties.rings import NOWHERE, Rings
from sparkmirror.duties.topics import as_told, homeward, original_of, remote_topic, wanted
from sparkmirror.duties.under_way import Level, is_level, on_record, under_way
from sparkmirror.errors import BrokerError, LinkError, SparkmirrorError
from sparkmirror.kafka import admin
from sparkmirror.kafka.codes import GONE
from sparkmirror.kafka.groups import ATTEMPT_MS
from sparkmirror.kafka.liveness import is_alive
from sparkmirror.kafka.ownership import NEVER, this_moment
from sparkmirror.kafka.rounds import Results
from sparkmirror.kafka.store import AT_ONCE_SECONDS, Store
from sparkmirror.model import NO_OFFSET, TopicPartition
from sparkmirror.naming import internal_topic
from sparkmirror.offsets.group_commits import NO_COMMITS, Commits
from sparkmirror.offsets.group_records import FlowCommit, GroupCommitted, GroupLeft, commits_of, tried_of
from sparkmirror.offsets.interleaved import FlowBack
from sparkmirror.offsets.ledger import Operation
from sparkmirror.offsets.left_offsets import Moved, left_of, moved_at, moved_here
from sparkmirror.offsets.map import OffsetMap
from sparkmirror.offsets.records import FlowRecord, Progress
from sparkmirror.offsets.state import JournalState


@dataclass(frozen=True, slots=True, kw_only=True)
class Back:
    """What is on record of the flow back.

    Attributes:
        copies: by partition of the source, what it has put there.
        commits: what it has committed for groups of the source last.
        tried: commits of its that were about to be made.
        changing: groups and topics of the source for which it has committed while groups were looked at: whose offsets
            were seen there is not known.
        unchecked: partitions of the source of which it is not known whether they have lost what it had put there, or
            the other cluster's logs what it has copied.
        placing: whether an operation of the flow back is placing groups, and has not ended.
        ring: partitions of the source to which records of the target come through other clusters.
        unreadable: why nothing is known, though it may have put records into the topics that the flow copies; or "".
    """

    copies: Mapping[TopicPartition, FlowBack] = field(default_factory=dict)
    commits: Commits = field(default_factory=lambda: NO_COMMITS)
    tried: Commits = field(default_factory=lambda: NO_COMMITS)
    changing: frozenset[tuple[str, str]] = frozenset()
    unchecked: frozenset[TopicPartition] = frozenset()
    placing: bool = False
    ring: frozenset[TopicPartition] = NOWHERE
    unreadable: str = ""

    def commit(self, group: str, place: TopicPartition, committed: int) -> FlowCommit | None:
        """What it has committed last for a group in a partition of the source.

        Args:
            group: the group.
            place: the partition.
            committed: what the group has there now: where it was about to commit that, it has; where it has committed
                that before, the source has lost what came after.
        """
        tried = self.tried.get(group, {}).get(place)
        if tried is not None and tried.downstream == committed:
            return tried
        commit = self.commits.get(group, {}).get(place)
        return None if commit is None else commit.at(committed) or commit


NO_BACK = Back()

LOST_MS = 3_000
"""A partition without a leader has no readers either: its groups wait for the next round, and no others for it."""

PLACING = frozenset(
    (kind, step)
    for kind, steps in {
        "failback": ("MOVING", "VERIFYING", "RELEASING"),
        "failover": ("MOVING", "VERIFYING"),
        "switchover": ("MOVING", "VERIFYING"),
    }.items()
    for step in steps
)
"""Kinds and steps of an operation, as it has them on record, in which groups are where it puts them."""

READ_SECONDS = 2.0
"""So long ago the record may have been read when a request with offsets is made."""

LANDED_SECONDS = READ_SECONDS + ATTEMPT_MS / 1000
"""So long after the reading the request is answered or given up."""


STALLED_MS = 600_000
"""An operation that has put nothing on record for so long is not being carried out any more, or waits for somebody."""


class LastOperation(NamedTuple):
    """The newest operation on record of the flow back.

    Attributes:
        id: of the operation; "" where there is none.
        number: of its newest record.
        placing: whether it is placing groups, and has not ended.
        written_ms: when that record was written, milliseconds since 1970.
        unreadable: why it is not known, or "".
    """

    id: str = ""
    number: int = 0
    placing: bool = False
    written_ms: int = 0
    unreadable: str = ""

    def stalls(self, now_ms: int) -> bool:
        """Whether it is placing groups, and has put nothing on record for long."""
        return self.placing and now_ms - self.written_ms > STALLED_MS


NO_OPERATION = LastOperation()


class OutdatedError(LinkError):
    """An operation has gone on since groups were looked at: where they are to be may be another place by now."""


NOTHING_BROUGHT = OffsetMap((), 0)
"""Of a partition that the flow back is about to copy: nobody here has read what the other cluster has of it."""


class FlowBackRecord:
    """Reads the record of the flow back on, again and again.

    Args:
        sides: the flow and its clusters.
        timeout_ms: of each question; as the flow is configured without.
    """

    def __init__(self, sides: Sides, timeout_ms: int | None = None) -> None:
        flow = replace(sides.flow, admin_timeout_ms=timeout_ms or sides.flow.admin_timeout_ms)
        self._flow, self._cluster, self._store = flow, sides.source, sides.store
        self._rings = Rings(sides, timeout_ms)
        self._topic_id: object = None
        self._asked = NEVER
        # The flow back is known by its record only: its configuration may be in another file. Maps need its name alone.
        back = replace(flow, name=flow.name.back, source=flow.target, target=flow.source)
        self._back = Sides(flow=back, source=sides.target, target=sides.source, store=None)
        self._maps = KnownMaps(self._back)

    @property
    def shares_topics(self) -> bool:
        """Whether the flow back may write to the very topics that the flow copies, as configured or on record."""
        own = None if self._store is None else self._store.state.flow
        told = own is not None and own.tells_since_ms > 0
        return self._flow.policy.keeps_names or self._flow.homeward_back or told

    def read(self, places: Collection[TopicPartition]) -> Back:
        """What is on record now.

        Args:
            places: partitions of the source.

        Raises:
            SparkmirrorError: the source cannot be asked, or a record there is not one of ours.
        """
        if not places or self._store is None:
            return NO_BACK
        return replace(self._read(places), ring=self._rings.of(places))

    def _read(self, places: Collection[TopicPartition]) -> Back:
        if not self._is_recorded():
            return NO_BACK
        there = {place: other_side(self._flow, place) for place in places}
        maps = self._maps.of(set(there.values()))
        assert self._back.store is not None  # it is recorded
        state = self._back.store.state
        if not self._is_of_these_clusters(state):
            return NO_BACK
        lost = self._lost(state, set(there.values()))
        maps |= dict.fromkeys(self._about_to_begin(state, set(there.values()) - maps.keys()), NOTHING_BROUGHT)
        parted = self._parted(state, maps.keys())
        copies = {
            place: brought(state, maps[other], other, lost.found.get(other), parted.found.get(other))
            for place, other in there.items()
            if other in maps
        }
        return Back(
            copies=copies,
            commits=commits_of(state.committed.values()),
            tried=tried_of(state.committed.values()),
            unchecked=frozenset(
                place for place, other in there.items() if _is_open(lost, other) or _is_open(parted, other)
            ),
            placing=newest(state.ledger.operation).placing,
        )

    def _lost(self, state: JournalState, places: Collection[TopicPartition]) -> Results[TopicPartition, int]:
        """Where logs of the source have lost what the flow back had put there."""
        progress = {place: one for place, one in state.progress.items() if place in places}
        timeout_ms = min(self._flow.admin_timeout_ms, LOST_MS)
        return lost_copies(self._back.flow, self._cluster, progress, timeout_ms)

    def _about_to_begin(self, state: JournalState, places: Collection[TopicPartition]) -> list[TopicPartition]:
        """Those of partitions without a record that there are on the target, and that the flow back copies."""
        assert state.flow is not None  # it is of these clusters
        chosen = about_to_begin(self._back.flow, state.flow, places)
        names = sorted({place.topic for place in chosen})
        known = admin.list_topics(self._back.source, names, self._flow.admin_timeout_ms) if names else {}
        return [place for place in chosen if place.topic in known and place.partition in known[place.topic].partitions]

    def _parted(self, state: JournalState, places: Collection[TopicPartition]) -> Results[TopicPartition, int]:
        """Where logs of the target are not those any more that the flow back has copied: it goes back to there."""
        progress = {place: one for place, one in state.progress.items() if place in places}
        return lost_sources(self._back.source, progress, min(self._flow.admin_timeout_ms, LOST_MS))

    def operation(self) -> LastOperation:
        """The newest operation on record now.

        Raises:
            SparkmirrorError: the source cannot be asked, or a record there is not one of ours.
        """
        state = self.state()
        return NO_OPERATION if state is None else newest(state.ledger.operation)

    def order(self) -> int:
        """The order of the newest operation on record now, see `Operation.order_ms`; 0 where there is none.

        Also of a failback, which is not on this record: of one that has moved groups to the source.

        Raises:
            SparkmirrorError: as `operation`.
        """
        state = self.state()
        if state is None:
            return 0
        last = state.ledger.operation
        return max(0 if last is None else last.order, *moved_at(state.left.values()).values(), 0)

    def placed(self, since_ms: int) -> Placed:
        """Where operations have put groups on the source, also one that has not ended.

        Args:
            since_ms: the order of the newest one that does not count.

        Raises:
            SparkmirrorError: as `operation`.
        """
        state = self.state()
        return NOT_PLACED if state is None else placed_in(state, since_ms)

    def moved(self) -> Moved:
        """When operations of the flow back have moved groups to the source last; one that has not ended does not count.

        Until it has, it may be given up, and what groups have left behind here is what it was before.

        Raises:
            SparkmirrorError: as `operation`.
        """
        state = self.state()
        return {} if state is None else moved_by_ended(state)

    def state(self) -> JournalState | None:
        """The record as it is now; None where the flow back has none.

        Raises:
            SparkmirrorError: as `operation`.
        """
        if self._store is None or not self._is_recorded():
            return None
        if self._store.state.flow is None:
            self._store.follow()
        assert self._back.store is not None  # it is recorded
        self._back.store.follow()
        state = self._back.store.state
        return state if self._is_of_these_clusters(state) else None

    def sides(self) -> Sides | None:
        """The flow back with its record, as it is now; None where it has none.

        Raises:
            SparkmirrorError: as `operation`.
        """
        return None if self.state() is None else self._back

    def prove(self, seen: LastOperation, prove: Callable[[], None]) -> None:
        """Sees that no operation has gone on since groups were looked at; right before offsets are committed.

        Args:
            seen: the newest operation, as it was before the look.
            prove: that this process may commit at all.

        Raises:
            OutdatedError: one has.
            LinkError: the source or the target does not answer, or too slowly.
            SparkmirrorError: as `operation`, or what ``prove`` raises.
        """
        began = this_moment()
        if began.seconds_since(self._asked) > AT_ONCE_SECONDS:
            if self.operation() != seen:
                raise OutdatedError(
                    cluster=self._cluster.alias,
                    address=self._cluster.address,
                    reason=f"an operation of {self._back.flow.name} has gone on since groups were looked at",
                    lasting=True,
                )
            self._asked = began
        prove()
        if this_moment().seconds_since(self._asked) > READ_SECONDS:
            raise LinkError(
                cluster=self._cluster.alias,
                address=self._cluster.address,
                reason=f"reading the record of {self._back.flow.name} took more than {READ_SECONDS:g} s",
            )

    def under_way(
        self,
        offsets: Mapping[TopicPartition, int],
        copies: Mapping[TopicPartition, FlowBack],
        met: Mapping[TopicPartition, int],
    ) -> frozenset[TopicPartition]:
        """The partitions of the source of which it may have more copies of the flow back than are on the map.

        Args:
            offsets: of the partitions, as they are to be translated to the target.
            copies: what `read` has given of them.
            met: by partition, the offset behind the last of these copies that the flow has met there.

        Raises:
            SparkmirrorError: the source cannot be asked.
        """
        if self._back.store is None:
            return frozenset()
        level = {
            other_side(self._flow, place): Level(place, copies[place].offsets, met.get(place, NO_OFFSET))
            for place, offset in offsets.items()
            if is_level(copies[place].offsets, offset)
        }
        store = self._back.store
        known, timeout_ms = on_record(store.state), self._flow.admin_timeout_ms
        found = under_way(self._cluster, level, known, timeout_ms, lambda: is_alive(store))
        return frozenset(level[other].copy for other in found)

    def commits_on_record(self) -> Mapping[str, GroupCommitted]:
        """What it has committed, as it is on record now, by key; before offsets of groups are read.

        Raises:
            SparkmirrorError: as `operation`.
        """
        state = self.state() if self.shares_topics else None
        return {} if state is None else dict(state.committed)

    def shared(self, places: Collection[TopicPartition], before: Mapping[str, GroupCommitted] | None = None) -> Back:
        """The same for topics that both flows may write to; where it cannot be read, that is what is known.

        Args:
            places: partitions of the source that the flow copies.
            before: what it had committed before the offsets of groups were read, where that matters.
        """
        if not self.shares_topics:
            return NO_BACK
        try:
            back = self.read(places)
        except SparkmirrorError as failure:
            return Back(unreadable=str(failure))
        if before is None or self._back.store is None:
            return back
        return replace(back, changing=changed_between(before, self._back.store.state.committed))

    def _is_recorded(self) -> bool:
        """Whether the flow back has an internal topic on the source; one that was made anew is read anew."""
        name, timeout_ms = internal_topic(self._back.flow.name), self._flow.admin_timeout_ms
        if self.shares_topics:
            known = admin.visible_topics(self._cluster, [name], timeout_ms, right="READ").get(name)
        else:
            known = admin.list_topics(self._cluster, [name], timeout_ms).get(name)
        if known is None:
            self._topic_id = None
            return False
        if known.topic_id != self._topic_id:
            self._topic_id = known.topic_id
            self._back.store = Store(self._cluster, name, timeout_ms)
            self._maps = KnownMaps(self._back)
        return True

    def _is_of_these_clusters(self, back: JournalState) -> bool:
        """Whether the record found is that of the flow back; one from another cluster that had the alias is not."""
        own = None if self._store is None else self._store.state.flow
        if own is None or back.flow is None:
            return False
        return (back.flow.source_id, back.flow.target_id) == (own.target_id, own.source_id)


def placed_in(back: JournalState, since_ms: int) -> Placed:
    """Where operations have put groups since, by the record of the flow that brings records there. Pure.

    Args:
        back: the record.
        since_ms: the order of the newest operation that does not count.
    """
    return placed_since(commits_of(back.committed.values()), moved_at(back.left.values()), since_ms)


def changed_between(
    before: Mapping[str, GroupCommitted], now: Mapping[str, GroupCommitted]
) -> frozenset[tuple[str, str]]:
    """The groups and topics of which the records differ. Pure."""
    keys = [key for key in before.keys() | now.keys() if before.get(key) != now.get(key)]
    return frozenset((one.group, one.topic) for key in keys for one in (now.get(key) or before[key],))


def _is_open(lost: Results[TopicPartition, int], place: TopicPartition) -> bool:
    """Whether it is not known if a log has lost something; in a topic that does not exist nobody reads."""
    why = lost.failed.get(place)
    return why is not None and not (isinstance(why, BrokerError) and why.code in GONE)


def newest(operation: Operation | None) -> LastOperation:
    """What matters of an operation to who commits offsets. Pure."""
    if operation is None:
        return NO_OPERATION
    placing = (operation.kind, operation.step) in PLACING
    return LastOperation(id=operation.id, number=operation.number, placing=placing, written_ms=operation.time_ms)


def taken_from_target(
    flow: FlowConfig, back: JournalState, own: JournalState
) -> dict[str, dict[TopicPartition, FlowCommit]]:
    """Where groups stood on the target when operations of the flow back took them from there to the source. Pure.

    Their consumers had come to there, and have gone on on the source from where the operation has put them. So where a
    group stands there still, that offset holds it no more than a commit of the flow's.

    Args:
        flow: the flow.
        back: the record of the flow back.
        own: that of the flow.

    Returns:
        by group and partition of the target, what such a commit would be.
    """
    here = moved_here(own.left.values(), moved_by_ended(back))
    left, found = left_of(back.left, {}).offsets, dict[str, dict[TopicPartition, FlowCommit]]()
    for group, commits in commits_of(back.committed.values()).items():
        for place, commit in commits.items() if group in here else ():
            there = other_side(flow, place)
            if left.get(group, {}).get(there) == commit.upstream:
                found.setdefault(group, {})[there] = FlowCommit(commit.upstream, commit.downstream)
    return found


def moved_by_ended(state: JournalState) -> Moved:
    """When operations that have ended have moved groups last. Pure."""
    return moved_at(left_by_ended(state))


def left_by_ended(state: JournalState) -> tuple[GroupLeft, ...]:
    """What groups have left behind by operations that have ended, and not by one that is placing groups. Pure."""
    last = state.ledger.operation
    until = last.order if last is not None and newest(last).placing else math.inf
    return tuple(one for one in state.left.values() if one.time_ms < until)


def other_side(flow: FlowConfig, place: TopicPartition) -> TopicPartition:
    """The partition of the target whose records the flow back writes to a partition of the source."""
    return TopicPartition(original_of(flow, place.topic) or remote_topic(flow, place.topic), place.partition)


def about_to_begin(back: FlowConfig, told: FlowRecord, places: Collection[TopicPartition]) -> list[TopicPartition]:
    """Those of partitions without a record that the flow back copies, as its newest run was told. Pure.

    Args:
        back: the flow back; which topics it copies may be written in another file.
        told: its record.
        places: partitions of the target.
    """
    if not places:
        return []
    back = as_told(back, told)
    names = {place.topic for place in places}
    chosen = {*wanted(back, names), *homeward(back, names)}
    return [place for place in places if place.topic in chosen]


def brought(
    state: JournalState,
    offsets: OffsetMap,
    there: TopicPartition,
    lost: int | None = None,
    parted: int | None = None,
) -> FlowBack:
    """What the flow back has put there; where it is to go on further on, it brings nothing that lies before that.

    Args:
        state: its record.
        offsets: its map of the partition.
        there: the partition of the other cluster.
        lost: as in `FlowBack`.
        parted: from which offset on the other cluster's log is another one than was copied, or None.
    """
    progress: Progress | None = state.progress.get(there)
    order = next((order for order in state.moves.values() if order.partition == there), None)
    read = NO_OFFSET
    if parted is not None:
        offsets = offsets.below(parted)
    elif order is not None and NO_OFFSET < offsets.position < order.to:
        read, offsets = offsets.position, offsets.going_on_at(order.to)
    reached, copies_end = (NO_OFFSET, NO_OFFSET) if progress is None else (progress.reached.end, progress.copies_end)
    inherited = state.inherited.get(there)
    if parted is not None:
        copies_end = min(copies_end, parted)
        inherited = None if inherited is not None and parted < inherited.until else inherited
    if not len(offsets) and offsets.position == NO_OFFSET and inherited is None:
        offsets = NOTHING_BROUGHT
    topic_id = "" if progress is None else progress.topic_id
    return FlowBack(
        offsets=offsets,
        reached=reached,
        copies_end=copies_end,
        inherited=inherited,
        lost=lost,
        topic_id=topic_id,
        epochs=state.history(there, topic_id),
        leader_epoch=-1 if progress is None or parted is not None else progress.leader_epoch,
        read=read,
    )
