"""Looks at flows as a failover would, and changes nothing: connections, rights, the flow, what waits, groups, records.

Invariants: nothing is written to any cluster; flows are looked at side by side, and one that fails hides no other; a
source that is away leaves what the target tells; every exchange has a deadline, and all together end by the clock.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

from sparkmirror.config import FlowConfig, MirrorConfig, Side
from sparkmirror.duties import topics
from sparkmirror.duties.duty import Sides
from sparkmirror.duties.group_look import GroupLook
from sparkmirror.duties.groups import Observed, copies_of
from sparkmirror.duties.rights import rights
from sparkmirror.errors import BrokerError, SparkmirrorError
from sparkmirror.events import now_ms
from sparkmirror.failover.clock import LEAST_MS, STEP_MS, Clock
from sparkmirror.failover.group_outcomes import moves_yet, names_of, outcomes, questions, unlisted
from sparkmirror.failover.missing_rights import lacking, lacking_of_groups
from sparkmirror.failover.readings import extents, verify
from sparkmirror.failover.recovery_point import behind, recovery_point
from sparkmirror.failover.verdict import RUNNING, Look
from sparkmirror.flow.connections import Connection, connect
from sparkmirror.flow.sides import connected, record
from sparkmirror.flow.status import NEVER_STARTED, seen_to_live, state_of
from sparkmirror.kafka import admin
from sparkmirror.kafka.acls import Operation
from sparkmirror.kafka.cluster import Cluster
from sparkmirror.kafka.codes import UNAUTHORIZED
from sparkmirror.kafka.groups import group_rights
from sparkmirror.kafka.spots import Spot, read_spots
from sparkmirror.kafka.survey import topic_rights
from sparkmirror.model import Alias, TopicPartition

AT_ONCE = 16
CONNECTING = 3
"""A cluster that does not answer has this part of the time, so that there is some left for what the other one tells."""
LOOKS, BETWEEN_SECONDS = 4, 1.0
"""Groups that are ahead of a mirror that runs are looked at so often: lanes say every second how far they are."""
TIMED = 200
"""Of so many partitions, those furthest behind, the record that waits is read for its time."""


def rehearse(config: MirrorConfig, groups: Sequence[str] = (), timeout_s: float = 120.0) -> tuple[Look, ...]:
    """Looks at every flow.

    Args:
        config: names the flows and their clusters.
        groups: only these; all that a flow chooses when empty.
        timeout_s: seconds for all of it.

    Returns:
        one look for each flow, in the order of the configuration; `failover.verdict` decides on it.
    """
    clock = Clock(timeout_s)
    tried = connect(config, max(LEAST_MS, min(STEP_MS, int(timeout_s * 1000) // CONNECTING)))
    with ThreadPoolExecutor(max(1, min(AT_ONCE, len(config.flows)))) as pool:
        return tuple(pool.map(lambda flow: _Rehearsal(flow, tried, tuple(groups), clock).look(), config.flows))


class _Rehearsal:
    """One flow."""

    def __init__(self, flow: FlowConfig, tried: Sequence[Connection], groups: tuple[str, ...], clock: Clock) -> None:
        self._flow = replace(flow, admin_timeout_ms=min(flow.admin_timeout_ms, STEP_MS))
        self._wanted = groups
        self._clock = clock.again()
        self._found = Look(flow=flow, connections=tuple(one for one in tried if str(flow.name) in one.flows))

    def look(self) -> Look:
        """Looks as far as it gets."""
        found, flow = self._found, self._flow
        away = {one.alias for one in found.connections if one.found is None and "admin" in one.roles}
        if flow.target.alias not in away:
            with connected(flow, role="rehearse") as sides:
                steps: list[Callable[[Sides], None]] = [self._record]
                if flow.source.alias not in away:
                    steps += [self._topics, self._rights, self._groups]
                self._do(steps, sides)
        found.took_ms = dict(self._clock.took_ms)
        return found

    def _do(self, steps: Sequence[Callable[[Sides], None]], sides: Sides) -> None:
        found = self._found
        for step in steps:
            if self._clock.over:
                found.late = True
                return
            try:
                step(sides)
            except SparkmirrorError as failure:
                found.failures = (*found.failures, str(failure))

    def _record(self, sides: Sides) -> None:
        found = self._found
        with self._clock.step("record"):
            found.known = record(sides)
        known = found.known
        if known is None or sides.store is None:
            found.state, sides.store = NEVER_STARTED, None
        else:
            found.state = state_of(known, alive=seen_to_live(sides.store).alive)
            kept = {p: one for p, one in known.progress.items() if not topics.is_heartbeats(sides.flow, p.topic)}
            ends = {place: (0, one.end) for place, one in kept.items()}
            found.point = recovery_point(behind(ends, known.progress), {}, now_ms=now_ms())

    def _topics(self, sides: Sides) -> None:
        """What both sides have, and what waits. The positions on record are older than the ends that are asked here."""
        found, flow, clock = self._found, sides.flow, self._clock
        progress = {} if found.known is None else dict(found.known.progress)
        listed = admin.list_topics(sides.source, timeout_ms=clock.step_ms)
        # Heartbeats are no group's records, and their topic may be younger than the flow's last look for topics.
        here = {name: one for name, one in topics.choose(flow, listed).items() if not topics.is_heartbeats(flow, name)}
        there = admin.list_topics(sides.target, timeout_ms=clock.step_ms)
        places = [TopicPartition(name, number) for name, topic in here.items() for number in topic.partitions]
        logs = extents(sides.source, places, clock, flow.isolation)
        starts, ends = logs.starts.found, logs.ends.found
        found.ranges = {place: (starts[place], ends[place]) for place in places if place in starts and place in ends}
        found.failures += _summed([failure for place in places if (failure := logs.failure(place)) is not None])
        found.asked = True
        found.copies = {name: topics.remote_topic(flow, name) for name in here}
        held = {place.topic for place, (start, end) in found.ranges.items() if end > start}
        found.absent = tuple(sorted(found.copies[name] for name in held if found.copies[name] not in there))
        found.leaderless = tuple(
            TopicPartition(name, number)
            for name in sorted(found.copies.values())
            if name in there
            for number, leader in sorted(there[name].partitions.items())
            if leader.node < 0
        )
        waiting = behind(found.ranges, progress)
        found.point = recovery_point(
            waiting, self._oldest(sides, {one.partition: one.position for one in waiting[:TIMED]}), now_ms=now_ms()
        )

    def _oldest(self, sides: Sides, positions: dict[TopicPartition, int]) -> dict[TopicPartition, int | None]:
        """The time of the first record at each position; None where none is visible."""
        spots = [Spot(place, position) for place, position in positions.items()]
        read = read_spots(sides.source, spots, lambda row: row.timestamp, self._clock.step_ms, sides.flow.isolation)
        return {spot.partition: time_ms for spot, time_ms in read.found.items()}

    def _rights(self, sides: Sides) -> None:
        found = self._found
        for side, cluster, names in (
            (Side.SOURCE, sides.source, set(found.copies)),
            (Side.TARGET, sides.target, set(found.copies.values())),
        ):
            allowed = topic_rights(cluster, None, self._clock.step_ms)
            needed = rights(sides.flow, side)
            found.lacks += lacking(Alias(cluster.alias), needed, allowed, self._on_cluster(cluster), names)

    def _on_cluster(self, cluster: Cluster) -> tuple[str, ...] | None:
        """What the client that administrates may do with a cluster itself."""
        told_by = (one.found for one in self._found.connections if one.alias == cluster.alias and "admin" in one.roles)
        return next((said.rights for said in told_by if said is not None), None)

    def _groups(self, sides: Sides) -> None:
        found = self._found
        observed = self._observed(sides)
        names = names_of(observed, self._wanted)
        asked = questions(observed, names)
        with self._clock.step("verifying"):
            source_id = found.cluster_id(sides.flow.source.alias)
            findings = verify(sides, asked.values(), observed.maps, source_id, self._clock)
        found.groups = outcomes(observed, names, findings, found.ranges)
        found.failures += unlisted(observed, self._wanted)
        self._rights_on_groups(sides, names)

    def _rights_on_groups(self, sides: Sides, names: Sequence[str]) -> None:
        """Whether operations may commit the offsets of these groups on the target, where they need not be yet."""
        asked = group_rights(sides.target, sorted(names), self._clock.step_ms)
        nothing = frozenset[Operation]()
        refused = {
            name: nothing
            for name, failure in asked.failed.items()
            if isinstance(failure, BrokerError) and failure.code in UNAUTHORIZED
        }
        self._found.failures += _summed([one for name, one in asked.failed.items() if name not in refused])
        needed = rights(sides.flow, Side.TARGET)
        self._found.lacks += lacking_of_groups(Alias(sides.target.alias), needed, {**asked.found, **refused})

    def _observed(self, sides: Sides) -> Observed:
        """Looks at the groups, and again while a mirror that runs may come to where they are.

        The target's side is that of the first look: compared with what the source says later, it is never further for
        the reason alone that it was asked later.
        """
        look = GroupLook(sides, patience_s=0)
        with self._clock.step("groups"):
            seen = look.look(target=True)
            copies = copies_of(seen, names_of(seen, self._wanted))
            first = observed = look.with_log_starts(seen, copies)
        for _ in range(LOOKS - 1):
            names = names_of(observed, self._wanted)
            if self._found.state != RUNNING or self._clock.over or not moves_yet(observed, names):
                break
            time.sleep(BETWEEN_SECONDS)
            later = look.look(target=False)
            observed = replace(
                later,
                target=first.target,
                there=first.there,
                unreadable_there=first.unreadable_there,
                log_starts=first.log_starts,
            )
        return observed


def _summed(failures: Sequence[SparkmirrorError]) -> tuple[str, ...]:
    """The first of them, for all."""
    more = f" (and {len(failures) - 1} more of this kind)" if len(failures) > 1 else ""
    return (f"{failures[0]}{more}",) if failures else ()
