"""Back to the cluster that was left, when it is there again: what its flow and the flow back to it have to do with it.

Two flows take part: *forth*, which copied from the cluster that came back and has been stopped since, and *back*, which
brings there what was written meanwhile and has to run. The operation is on forth's record, which lies where
applications are now.

Invariants: what only the cluster that came back has is known, and put aside, before a group is moved; groups go by the
maps of both flows; forth goes on only at the end, behind what was put aside.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from sparkmirror.copy.origins import brought_from
from sparkmirror.duties import topics
from sparkmirror.duties.duty import Sides
from sparkmirror.duties.empty_partitions import ends_of_empty
from sparkmirror.duties.known_maps import KnownMaps
from sparkmirror.errors import SparkmirrorError
from sparkmirror.events import now_ms
from sparkmirror.failover import divergence, fence, homeward, look
from sparkmirror.failover.divergence import Divergent
from sparkmirror.failover.homeward import HomewardSight, Way
from sparkmirror.failover.moves import GroupMove
from sparkmirror.failover.operator import Operator
from sparkmirror.failover.procedure import Procedure, moved_by
from sparkmirror.failover.states import COMMITTING, Keep, Step
from sparkmirror.flow.planner import ids_of_topics
from sparkmirror.kafka import admin
from sparkmirror.kafka.leaders import OffsetSpec
from sparkmirror.kafka.reading import Span
from sparkmirror.kafka.store import Store
from sparkmirror.model import NO_OFFSET, TopicPartition
from sparkmirror.naming import policy_for
from sparkmirror.offsets.group_records import commits_of
from sparkmirror.offsets.ledger import Operation
from sparkmirror.offsets.map import OffsetMap
from sparkmirror.offsets.orders import HOLD_KEY, MoveOrder

SHOWN = 10


class Failback:
    """One operation.

    Args:
        forth: the flow from the cluster that came back, and its clusters.
        back: the flow to it, and its clusters.
        file: the configuration file, for messages.
        operator: who has the operation.
        tell: is given what is being done.
    """

    def __init__(self, forth: Sides, back: Sides, file: str, operator: Operator, tell: Callable[[str], None]) -> None:
        assert forth.store is not None  # a flow that was never started has no operation
        self._forth, self._back = forth, back
        self._store: Store = forth.store
        self._operator = operator
        self._tell = tell
        self._procedure = Procedure(back, file, operator, tell, homeward=True)
        self._own: dict[Step, Callable[[Operation], None]] = {
            Step.COMPARING: self._compare,
            Step.SAVING: self._save,
            Step.MOVING: self._move,
            Step.VERIFYING: self._verify,
            Step.RELEASING: self._release,
        }

    def do(self, step: Step, operation: Operation) -> None:
        """Does one step, which may have been done before.

        Raises:
            SparkmirrorError: it could not be done.
        """
        if step in self._own:
            self._own[step](operation)
        else:
            self._procedure.do(step, operation)

    def _compare(self, operation: Operation) -> None:
        """Finds what only the cluster that came back has."""
        ids = topic_ids(self._forth)
        recreated = recreated_topics(self._forth, ids)
        for name in recreated:
            self._tell(said_of_recreated(name, operation.source))
        found = divergent(self._forth, self._back, recreated)
        self._tell_of(found, operation)
        self._operator.note(
            divergent=[one.row for one in found],
            recreated=list(recreated),
            ids=_ids_of(found, ids),
            kept=_kept_as(found, operation),
            names=names(self._forth, self._back),
        )
        if _writes_originals(self._forth, self._back):
            self._let_in(operation)  # the flow back writes to the very topics

    def _tell_of(self, found: Sequence[Divergent], operation: Operation) -> None:
        for one in found[:SHOWN]:
            self._tell(f"{one.partition}: offsets {one.first} to {one.end - 1} are on {operation.source} only")
        if len(found) > SHOWN:
            self._tell(f"… and {len(found) - SHOWN} more; the report has all")

    def _save(self, operation: Operation) -> None:
        """Puts it aside, as it was asked for."""
        self._operator.note(saved=self._put_aside(_found(operation), operation))

    def _save_more(self, operation: Operation) -> Operation:
        """Puts aside what applications have written meanwhile to the cluster that came back."""
        ids, before = topic_ids(self._forth), operation.facts["ids"]
        recreated = recreated_topics(self._forth, ids)
        again = {name for name in recreated if before.get(name, ids[name]) != ids[name]}
        again |= set(recreated) - set(_recreated(operation))
        known = tuple(one for one in _found(operation) if one.partition.topic not in again)
        more = divergence.added(divergent(self._forth, self._back, recreated), known)
        if not more and not again:
            return operation
        for name in sorted(again):
            self._tell(said_of_recreated(name, operation.source))
        self._tell_of(more, operation)
        saved = self._put_aside(more, operation, add=True)
        return self._operator.note(
            divergent=[one.row for one in sorted([*known, *more])],
            recreated=list(recreated),
            ids={**before, **_ids_of(more, ids)},
            kept={**operation.facts["kept"], **_kept_as(more, operation)},
            saved=operation.facts.get("saved", 0) + saved,
        )

    def _put_aside(self, found: Sequence[Divergent], operation: Operation, *, add: bool = False) -> int:
        """Keeps records of which only the cluster that came back has any; gives how many there are."""
        facts = operation.facts
        keep = Keep(facts["divergent_as"])
        if not found or keep is Keep.DISCARD:
            return 0
        reading, without = self._forth.source, _brought(self._forth, self._back)
        if keep is Keep.TOPIC:
            kept, flow = _kept_as(found, operation), self._back.flow
            saved = divergence.keep_in_topics(reading, self._back.target, flow, found, kept, without, add=add)
            where = ", ".join(sorted(kept.values()))
        else:
            directory = Path(facts["directory"])
            saved = divergence.export(reading, self._forth.flow, found, directory, operation.id, without, add=add)
            where = str(directory)
        self._tell(f"{saved} records that only {operation.source} has are kept in {where}")
        return saved

    def _move(self, operation: Operation) -> None:
        if not operation.facts.get(COMMITTING):
            self._procedure.check_members()
        # What came while groups were waited for has to be there too, or who has read it here reads it again there.
        self._procedure.do(Step.CATCHING_UP, operation)
        operation = self._save_more(operation)
        self._procedure.commit(self._decided(operation))

    def _verify(self, operation: Operation) -> None:
        here, there = self._back.flow.source.alias, operation.source
        active = sorted(name for name, each in look.chosen_groups(self._back).items() if each.active)
        self._procedure.look_after(
            self._decided(operation),
            (
                *(said_of_recreated(name, there) for name in _recreated(operation)),
                *(
                    f"group {name} has members on {here}: stop them, what they read there is read again"
                    for name in active
                ),
            ),
        )

    def _decided(self, operation: Operation) -> tuple[GroupMove, ...]:
        known = _found(operation), _recreated(operation), moved_by(operation)
        return decided(self._forth, self._back, *known)

    def _release(self, operation: Operation) -> None:
        """Lets the flow from the cluster that came back go on, and applications write there."""
        last = {one.partition: one for one in _found(operation)}
        found, now = self._not_behind(tuple(last.values())), now_ms()
        ids = operation.facts["ids"]  # of the topics that were looked at: an order is about no other ones
        orders = [
            MoveOrder(
                partition=one.partition,
                to=one.end,
                topic_id=ids.get(one.partition.topic, ""),
                time_ms=now,
                by=operation.by,
            )
            for one in found
        ]
        self._let_in(operation)
        self._procedure.allow(operation)
        self._store.write(orders, tombstones=[HOLD_KEY])
        self._tell(f"{self._forth.flow.name} is released")

    def _not_behind(self, found: Sequence[Divergent]) -> tuple[Divergent, ...]:
        """Those that the flow has not gone on behind yet, nor been told to: a second order would have it copy again."""
        self._store.follow()
        state = self._store.state
        told = {order.partition: order.to for order in state.moves.values()}
        recreated = recreated_topics(self._forth, topic_ids(self._forth))
        at = {p: progress.position for p, progress in state.progress.items() if p.topic not in recreated}
        return tuple(one for one in found if at.get(one.partition, 0) < one.end and told.get(one.partition) != one.end)

    def _let_in(self, operation: Operation) -> None:
        """Takes away what an operation before has denied on the cluster that came back."""
        rows = operation.facts.get("home_fence", [])
        if rows:
            flow = self._forth.flow
            fence.take_down(self._forth.source, fence.rules_of(rows), flow.admin_timeout_ms)
            self._operator.note(home_fence=[])
            self._tell(f"writing to {len(rows)} topics is no longer denied on {flow.source.alias}")


def topic_ids(forth: Sides) -> dict[str, str]:
    """The ids that copied topics have now on the cluster that came back, by name; "" before Kafka 2.8.

    Raises:
        SparkmirrorError: it cannot be asked.
    """
    assert forth.store is not None
    forth.store.follow()
    return ids_of_topics(forth.source, {place.topic for place in forth.store.state.progress})


def recreated_topics(forth: Sides, ids: Mapping[str, str]) -> tuple[str, ...]:
    """The copied topics that were deleted and created again on the cluster that came back: nothing there was copied.

    Args:
        forth: the flow from that cluster.
        ids: the topics' ids now.
    """
    assert forth.store is not None
    known = {place.topic: one.topic_id for place, one in forth.store.state.progress.items() if one.topic_id}
    return tuple(sorted(name for name, topic_id in known.items() if ids.get(name, "") not in ("", topic_id)))


def said_of_recreated(name: str, there: str) -> str:
    """What is said of a topic that was deleted and made anew on the cluster that came back."""
    return (
        f"topic {name} was deleted and created again on {there} since it was copied: all it has is on {there} only, "
        "and no group has an exact place in it"
    )


def divergent(forth: Sides, back: Sides, recreated: Collection[str]) -> tuple[Divergent, ...]:
    """What only the cluster that came back has.

    Args:
        forth: the flow from the cluster that came back, and its clusters.
        back: the flow to it, and its clusters.
        recreated: topics of which nothing was copied, as `recreated_topics` gives them.

    Raises:
        SparkmirrorError: a cluster cannot be asked.
    """
    assert forth.store is not None
    forth.store.follow()
    ends = look.source_ends(forth, committed=True)
    policy = policy_for(forth.flow.policy, forth.flow.source.alias)
    positions = {
        place: 0 if place.topic in recreated else max(0, one.position)
        for place, one in forth.store.state.progress.items()
        if not policy.is_heartbeats_topic(place.topic)
    }
    if not _writes_originals(forth, back):
        return divergence.find(positions, ends, {})
    found = divergence.find(positions, ends, _mirrored(forth, back, positions))
    return divergence.with_records(forth.source, found, _brought(forth, back), forth.flow.admin_timeout_ms)


def decided(
    forth: Sides,
    back: Sides,
    found: Sequence[Divergent],
    recreated: Collection[str],
    moved: frozenset[str] = frozenset(),
) -> tuple[GroupMove, ...]:
    """Where every group goes on.

    Args:
        forth: the flow from the cluster that came back, and its clusters.
        back: the flow to it, and its clusters.
        found: what only that cluster has, in order.
        recreated: topics there of which nothing was copied.
        moved: the groups that the operation has moved already.

    Raises:
        SparkmirrorError: a cluster cannot be asked.
    """
    at = now_ms()
    offsets = look.offsets_now(back)
    here = {place for own in offsets.values() for place in own}
    copies = _copies(forth)
    assert back.store is not None
    back.store.follow()
    begun = back.store.state.progress
    local = {
        name: topics.remote_topic(back.flow, name) for name in topics.read(back.flow, {p.topic for p in here}, begun)
    }
    from_there = {TopicPartition(copies[place.topic], place.partition) for place in here if place.topic in copies}
    from_here = {place for place in here if place.topic in local}
    there = sorted(from_there | {TopicPartition(local[place.topic], place.partition) for place in from_here})
    timeout_ms = back.flow.admin_timeout_ms
    oldest = admin.find_offsets(
        back.target, there, OffsetSpec.EARLIEST, timeout_ms=min(timeout_ms, look.OLDEST_MS)
    ).found
    ways = _way(forth, copies, from_there), _way(back, local, from_here)
    mirrored = {place for place, own in ways[0].maps.items() if len(own)}
    mirrored |= {TopicPartition(local[here.topic], here.partition) for here, own in ways[1].maps.items() if len(own)}
    unmirrored = [place for place in there if place not in mirrored]
    return homeward.decide(
        HomewardSight(
            offsets=offsets,
            seen_ms=at,
            copies=ways[0],
            local=ways[1],
            beyond={one.partition: one.end for one in found},
            recreated=frozenset(recreated),
            oldest=oldest,
            empty=ends_of_empty(back.target, unmirrored, timeout_ms),
            there=look.standing_there(back.target, offsets, timeout_ms),
            moved=moved,
            commits=commits_of(back.store.state.committed.values()),
        )
    )


def names(forth: Sides, back: Sides) -> dict[str, str]:
    """The topics where applications are now, and what they are called on the cluster that came back."""
    assert back.store is not None
    back.store.follow()
    there = {place.topic for place in back.store.state.progress}
    return {name: topics.remote_topic(back.flow, name) for name in there} | _copies(forth)


def foreign(forth: Sides, back: Sides) -> tuple[str, ...]:
    """Copies that others have written to, under names that tell the source, and that the flow back has not begun with.

    Raises:
        SparkmirrorError: the target cannot be asked.
    """
    assert forth.store is not None
    assert back.store is not None
    if forth.flow.policy.keeps_names:
        return ()
    begun = back.store.state.progress if back.flow.brings_home else {}
    reached = {
        TopicPartition(topics.remote_topic(forth.flow, place.topic), place.partition): progress.reached.end
        for place, progress in forth.store.state.progress.items()
        if progress.reached.end != NO_OFFSET
    }
    ends = admin.find_offsets(
        forth.target, sorted(reached), OffsetSpec.LATEST, timeout_ms=forth.flow.admin_timeout_ms
    ).found
    return tuple(str(place) for place, end in sorted(ends.items()) if end > reached[place] and place not in begun)


def _way(sides: Sides, known: Mapping[str, str], places: set[TopicPartition]) -> Way:
    maps = KnownMaps(sides).of(places)
    assert sides.store is not None
    return Way(names=known, maps=maps, inherited=dict(sides.store.state.inherited))


def _copies(forth: Sides) -> dict[str, str]:
    """The copies that the flow has made, by name, and what they are copies of."""
    assert forth.store is not None
    state = forth.store.state
    known = {place.topic for place in (*state.maps, *state.progress, *state.inherited)}
    return {topics.remote_topic(forth.flow, name): name for name in known}


def _writes_originals(forth: Sides, back: Sides) -> bool:
    """Whether the flow back writes to the topics that the flow forth copies."""
    return forth.flow.policy.keeps_names or back.flow.brings_home


def _mirrored(forth: Sides, back: Sides, positions: Mapping[TopicPartition, int]) -> dict[TopicPartition, list[Span]]:
    """The offsets of what was mirrored back into the very topics behind these positions."""
    copies = {
        TopicPartition(topics.remote_topic(forth.flow, place.topic), place.partition): place for place in positions
    }
    return {
        copies[copy]: list(_behind(offsets, positions[copies[copy]]))
        for copy, offsets in KnownMaps(back).of(set(copies)).items()
    }


def _behind(offsets: OffsetMap, position: int) -> Iterator[Span]:
    """Where the records of a map lie at or behind a target offset."""
    source = offsets.target_to_source(position)
    for each in offsets.settled(NO_OFFSET if source is None else source - 1):
        yield Span(each.target, each.target + each.length)


def _brought(forth: Sides, back: Sides) -> frozenset[int]:
    """The producers that have mirrored records back into the very topics."""
    if not _writes_originals(forth, back):
        return frozenset()
    assert forth.store is not None
    known = forth.store.state.flow
    return frozenset() if known is None else brought_from(forth.source, known.source_id, known.target_id)


def _recreated(operation: Operation) -> list[str]:
    return list(operation.facts.get("recreated", ()))


def _kept_as(found: Sequence[Divergent], operation: Operation) -> dict[str, str]:
    """The topics that keep it, by topic."""
    return {one.partition.topic: divergence.kept_as(one.partition.topic, operation.began_ms) for one in found}


def _ids_of(found: Sequence[Divergent], ids: Mapping[str, str]) -> dict[str, str]:
    return {one.partition.topic: ids.get(one.partition.topic, "") for one in found}


def _found(operation: Operation) -> tuple[Divergent, ...]:
    rows: Sequence[Sequence[Any]] = operation.facts.get("divergent", [])
    return tuple(map(Divergent.of, rows))


class AnotherClusterError(SparkmirrorError):
    """What answers under the address of the cluster that was left is another cluster: waiting does not help."""


def check_same(forth: Sides) -> None:
    """Sees that the cluster that came back is the one that was left.

    Raises:
        AnotherClusterError: it is another one.
        SparkmirrorError: it does not answer.
    """
    assert forth.store is not None
    known = forth.store.state.flow
    found = admin.cluster_id(forth.source, look.REACH_MS)
    if known is not None and found != known.source_id:
        raise AnotherClusterError(
            f"cluster {forth.flow.source.alias} is {found} now, and {known.source_id} is on record: it is another "
            "cluster, to which nothing can be brought back"
        )
