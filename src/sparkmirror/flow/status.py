"""What the flows of a configuration do, told by their internal topics and the names on their targets, from any machine.

Invariants: nothing is written, and no process of a flow is asked; `told` is pure. A cluster that cannot be read makes
its own flows unreadable and no other.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

from sparkmirror.config import FlowConfig, MirrorConfig
from sparkmirror.duties.topics import remote_topic
from sparkmirror.errors import SparkmirrorError
from sparkmirror.events import Event, Kind, now_ms, wall_time
from sparkmirror.flow.opening import held_text
from sparkmirror.flow.recovery_limit import is_passed
from sparkmirror.flow.sides import REACH_MS
from sparkmirror.flow.telling import of_others
from sparkmirror.flow.view import EventStatus, FlowStatus, PartitionStatus
from sparkmirror.kafka import admin
from sparkmirror.kafka.cluster import Cluster
from sparkmirror.kafka.liveness import HEARTBEAT_SECONDS, OVER, SILENT_SECONDS, is_alive
from sparkmirror.kafka.store import Store
from sparkmirror.model import TopicPartition
from sparkmirror.naming import internal_topic, lineage, policy_for
from sparkmirror.offsets.records import FLOW, Progress
from sparkmirror.offsets.recovery import UNKNOWN_MS, age_ms
from sparkmirror.offsets.state import JournalState

CLOCKS_MS = 2_000
"""Clocks that are no further apart are right."""

FRESH_MS = 5_000
"""Rates older than this say nothing about now."""

ANSWERED_MS = 30_000
"""Lag that the source has confirmed within this is as good as of now."""

ASK_MS = 15_000
AT_ONCE = 16

NEVER_STARTED, SILENT, STOPPED, HELD, UNREADABLE = "never started", "silent", "stopped", "held", "unreadable"
"""States that are told from outside; the others are the driver's own (`flow.states`)."""

WORKING = ("running", "starting", "draining")


def read(config: MirrorConfig) -> tuple[FlowStatus, ...]:
    """Reads the internal topic of every flow, side by side.

    Args:
        config: names the flows and their targets.

    Returns:
        One status per flow, in the order of the configuration; that of a flow whose target cannot be read says why.
    """
    with ThreadPoolExecutor(min(AT_ONCE, max(1, len(config.flows)))) as pool:
        return tuple(pool.map(_read_flow, config.flows))


def _read_flow(flow: FlowConfig) -> FlowStatus:
    timeout_ms = min(flow.admin_timeout_ms, ASK_MS)
    topic = internal_topic(flow.name)
    cluster = None
    try:
        cluster = Cluster(flow.target.alias, flow.target.admin, role="status")
        admin.cluster_id(cluster, min(timeout_ms, REACH_MS))
        there = admin.list_topics(cluster, timeout_ms=timeout_ms)
        names = [name for name, described in there.items() if not described.internal]
        target = lineage(policy_for(flow.policy, flow.source.alias), names)
        if topic not in there:
            return FlowStatus(name=str(flow.name), state=NEVER_STARTED, target=target)
        store = Store(cluster, topic, timeout_ms)
        store.remembers = True  # what can be read is shown
        store.follow()
        seems = seen_to_live(store)
        shown = told(flow, store.state, now_ms=now_ms(), alive=seems.alive)
        others = tuple(_event(FLOW, event) for event in of_others(store.state, store.place))
        notes = (*others, *map(_note, seems.notes))
        return replace(shown, target=target, events=(*_without(shown.events, others), *notes))
    except SparkmirrorError as failure:
        return FlowStatus(name=str(flow.name), state=UNREADABLE, events=(_note(str(failure)),))
    finally:
        if cluster is not None:
            cluster.close()


@dataclass(frozen=True, slots=True, kw_only=True)
class Seems:
    """Whether a driver seems to live, for people, and what is to be said of clocks."""

    alive: bool
    notes: tuple[str, ...] = ()


def seen_to_live(store: Store) -> Seems:
    """Whether a driver runs a flow, for people: by the time of its last sign, or where that says no, by the next one.

    Raises:
        SparkmirrorError: the topic cannot be read.
    """
    life = store.state.life
    if life is None or life.state in OVER or is_recent(life.time_ms, now_ms()):
        return Seems(alive=life is not None)
    alive, life = is_alive(store, HEARTBEAT_SECONDS), store.state.life
    apart_ms = 0 if life is None else now_ms() - life.time_ms
    return Seems(alive=alive, notes=(_said_of_clocks(apart_ms),) if alive and _are_apart(apart_ms) else ())


def is_recent(time_ms: int, now_ms: int) -> bool:
    """Whether a sign of life shows a driver that lives, if the clocks of both machines are right. Pure."""
    return -CLOCKS_MS <= now_ms - time_ms <= SILENT_SECONDS * 1000


def _are_apart(apart_ms: int) -> bool:
    return not is_recent(0, apart_ms)


def _said_of_clocks(apart_ms: int) -> str:
    way = "ahead of" if apart_ms > 0 else "behind"
    return (
        f"the clock of this machine is about {abs(apart_ms) // 1000} s {way} that of the flow's driver: ages and rates "
        "shown here are wrong by that; set the clocks by NTP"
    )


def observed(store: Store, seconds: float = SILENT_SECONDS) -> str:
    """The state of a flow, for decisions: whether a driver lives is seen by its signs of life, and no clock.

    Args:
        store: the flow's internal topic, which is read on, and waited for where no sign was heard just now.
        seconds: without a sign, after which the driver is silent.

    Raises:
        SparkmirrorError: the topic cannot be read.
    """
    alive = is_alive(store, seconds)
    return state_of(store.state, alive=alive)


def told(flow: FlowConfig, known: JournalState, *, now_ms: int, alive: bool | None = None) -> FlowStatus:
    """What an internal topic says of its flow, for people.

    Args:
        flow: names the topics on the target.
        known: the topic, read to its end.
        now_ms: this moment, milliseconds since 1970.
        alive: whether a driver lives; None where the time of its last sign tells.
    """
    partitions = tuple(
        _partition(progress, remote_topic(flow, place.topic), now_ms)
        for place, progress in sorted(known.progress.items())
    )
    unbegun = any(
        one.event.kind is Kind.TARGET_NOT_EMPTY and one.partition not in known.progress for one in known.events.values()
    )
    life = known.life
    if alive is None:
        alive = life is not None and now_ms - life.time_ms <= SILENT_SECONDS * 1000
    age = age_ms(UNKNOWN_MS if life is None else life.recovery_ms, now_ms)
    moments = [progress.time_ms for progress in known.progress.values()]
    if life is not None:
        moments.append(life.time_ms)
    return FlowStatus(
        name=str(flow.name),
        state=state_of(known, alive=alive),
        records_per_s=sum(one.records_per_s or 0.0 for one in partitions),
        bytes_per_s=sum(one.bytes_per_s or 0.0 for one in partitions),
        lag_records=None if unbegun else _sum([one.lag_records for one in partitions]),
        lag_ms=None if unbegun else max((one.lag_ms for one in partitions if one.lag_ms is not None), default=None),
        rpo_ms=age,
        rpo_records=None if life is None or life.waiting < 0 else life.waiting,
        rpo_partition="" if life is None else life.behind,
        rpo_limit_ms=flow.rpo_limit_ms,
        rpo_passed=_is_passed(flow.rpo_limit_ms, age, known),
        updated_ms=max(moments, default=None),
        dead_letters=_sum([one.dead_letters for one in partitions]),
        loop_filtered=_sum([one.loop_filtered for one in partitions]),
        partitions=partitions,
        events=(*_events(known), *(_unanswered(flow, known, age, now_ms) if alive else ())),
        duties=tuple(known.duties[key] for key in sorted(known.duties)),
    )


def _is_passed(limit_ms: int | None, age: int | None, known: JournalState) -> bool | None:
    """Where the age is not known, what the driver told last holds."""
    if limit_ms is None:
        return None
    return is_passed(known.events) if age is None else age > limit_ms


def _unanswered(flow: FlowConfig, known: JournalState, age_ms: int | None, now_ms: int) -> tuple[EventStatus, ...]:
    """Says that a lag of nothing is not one of now, where the source has not said for long where its log ends.

    A copy that is level is as old as the last answer of the source, see ``offsets.recovery``. A driver that has just
    begun, as after a release, has had no time to ask.
    """
    life = known.life
    if life is None or life.state in OVER or age_ms is None or age_ms <= ANSWERED_MS:
        return ()
    if now_ms - life.began_ms <= ANSWERED_MS:
        return ()
    paused = {order.topic for order in known.paused.values()}
    level = (
        place
        for place, progress in known.progress.items()
        if str(place) == life.behind and progress.position >= progress.end >= 0
        if not progress.error and place.topic not in paused
    )
    return tuple(
        _note(
            f"cluster {flow.source.alias} has not said for {age_ms // 1000} s where {place} ends: the lag shown is as "
            f"of then. See whether cluster {flow.source.alias} answers, and what the log of the flow's driver says"
        )
        for place in level
    )


def state_of(known: JournalState, *, alive: bool) -> str:
    """The state of a flow. Pure.

    Args:
        known: its internal topic, read to its end.
        alive: whether a driver lives.
    """
    if known.is_stopped:
        return STOPPED if known.held is None else HELD
    if known.life is None:
        return SILENT if known.flow is not None or known.lacks_start else NEVER_STARTED
    return known.life.state if alive or known.life.state in OVER else SILENT


def _partition(progress: Progress, target_topic: str, now_ms: int) -> PartitionStatus:
    known = progress.end >= 0
    lag = max(0, progress.end - progress.position) if known else None
    waits_since = progress.newest_ms if progress.newest_ms >= 0 else None
    fresh = now_ms - progress.time_ms <= FRESH_MS
    return PartitionStatus(
        topic=progress.partition.topic,
        partition=progress.partition.partition,
        target_topic=target_topic,
        position=progress.position,
        target_offset=progress.target if progress.target >= 0 else None,
        source_end=progress.end if known else None,
        lag_records=lag,
        lag_ms=0 if lag == 0 else None if lag is None or waits_since is None else max(0, now_ms - waits_since),
        records_per_s=progress.rate[0] if fresh else 0.0,
        bytes_per_s=progress.rate[1] if fresh else 0.0,
        updated_ms=progress.time_ms,
        dead_letters=progress.dead_letters,
        loop_filtered=progress.loop_filtered,
        event=progress.error or (progress.events[-1].text if progress.events else ""),
    )


def _events(known: JournalState) -> tuple[EventStatus, ...]:
    """Those on record, those that lanes have just told, and why partitions stand still, each once; the newest last."""
    found = {(happened.partition, happened.event): happened.event for happened in known.events.values()}
    for place, progress in sorted(known.progress.items()):
        for event in progress.events:
            found.setdefault((place, event), event)
    rows = [_event(place, event) for (place, _), event in sorted(found.items(), key=lambda item: item[1].time_ms)]
    told = {f"{row.place}: {row.text}" for row in rows}
    standing = [text for text in (known.life.events if known.life else ()) if text not in told]
    return (*rows, *map(_note, [*_orders(known), *standing]))


def _without(rows: Sequence[EventStatus], newer: Sequence[EventStatus]) -> Iterator[EventStatus]:
    """Events on record that what was read just now does not tell once more."""
    told = {row.text for row in newer}
    kinds = {row.kind for row in newer} & {Kind.FOREIGN_RECORD.value}
    return (row for row in rows if row.text not in told and row.kind not in kinds)


def _orders(known: JournalState) -> list[str]:
    """What an operator has ordered, as long as it holds."""
    found = [
        f"{order.topic} is paused since {wall_time(order.time_ms)} by {order.by}: sparkmirror resume copies it again"
        for order in sorted(known.paused.values(), key=lambda order: order.topic)
    ]
    if known.held is not None:
        found.append(held_text(known.held))
    if known.rate is not None:
        most = "no limit" if known.rate.bytes_per_s is None else f"at most {known.rate.bytes_per_s} bytes per second"
        found.append(f"{most} since {wall_time(known.rate.time_ms)} by {known.rate.by}")
    return found


def _event(place: TopicPartition, event: Event) -> EventStatus:
    return EventStatus(
        kind=event.kind.value,
        text=event.text,
        topic=place.topic,
        partition=None if place == FLOW else place.partition,
        first=event.first if event.first >= 0 else None,
        last=event.last if event.last >= 0 else None,
        time_ms=event.time_ms or None,
    )


def _note(text: str) -> EventStatus:
    """What is known of the flow alone."""
    return EventStatus(kind=Kind.NOTE.value, text=text)


def _sum(numbers: Sequence[int | None]) -> int | None:
    """``None`` if one is not known, or there is none."""
    known = [number for number in numbers if number is not None]
    return sum(known) if known and len(known) == len(numbers) else None
