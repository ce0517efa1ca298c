"""What must be true before a flow copies its first batch: clusters told apart, its topics there, its record its own.

Reference: design of the internal topic in ``offsets.records``.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace

from sparkmirror.config import FlowConfig
from sparkmirror.copy.control import Announced
from sparkmirror.copy.origins import read_registry
from sparkmirror.copy.registrations import carried_into
from sparkmirror.duties.internal_topics import ensure_internal_topics
from sparkmirror.errors import ConfigError, HeldError, SparkmirrorError
from sparkmirror.events import Event, Kind, now_ms, wall_time
from sparkmirror.flow import lost_start
from sparkmirror.flow.facts import Facts
from sparkmirror.flow.flow_record import naming_of, record_of
from sparkmirror.flow.handed_over import check_handed_over
from sparkmirror.flow.identities import Identities, to_itself
from sparkmirror.flow.on_record import Run
from sparkmirror.flow.signs import Signs
from sparkmirror.flow.writers import Writers
from sparkmirror.kafka import admin
from sparkmirror.kafka.cluster import Cluster
from sparkmirror.kafka.journal import Journal
from sparkmirror.kafka.memory import memories_ms
from sparkmirror.kafka.store import Store
from sparkmirror.model import Writer
from sparkmirror.naming import WRITERS_TOPIC, control_topic, internal_topic
from sparkmirror.offsets.inherited import ELSEWHERE_KEY
from sparkmirror.offsets.orders import HoldOrder
from sparkmirror.offsets.records import FLOW, STOPPED_KEY, FlowRecord, Happened, Progress, Stopped, event_key
from sparkmirror.offsets.state import JournalState
from sparkmirror.offsets.writers import last_before, runs_between


@dataclass(slots=True, kw_only=True)
class Opened:
    """A flow that may begin.

    Attributes:
        generation: counts the starts of this flow and its changes of producer ids; what has a greater one is newer.
        first_generation: of this run.
        source_id, target_id: cluster ids.
        store: the internal topic, read to its end.
        control: the control topic.
        control_offset: where this run's lanes begin to read it.
        writers: hands out producer ids; ``first`` are those of this start.
        clean: whether the run before ended cleanly, or there was none.
        exact_after: the newest generation that may have copied more than its progress says; 0 if there is none. What an
            older or the same one has on record holds only once the target's log has been read.
        lost_runs: whether runs had the flow of which the internal topic has not even the start, or may have had: it has
            lost its end, or the coordinator's log has, which would tell. No position holds then, and partitions that
            it does not know may have been copied.
        before: as in the flow's record.
        signs: what lanes and other runs say on the control topic.
        driver: by what this run owned the internal topic when it took the flow.
        facts: what the target asks of batches, and how long its brokers remember who wrote them.
        tells_writers: whether what mirrors brought from the target is told, and left out, by who wrote it; then
            others may write the target topics too.
    """

    generation: int
    first_generation: int
    source_id: str
    target_id: str
    store: Store
    control: Store
    control_offset: int
    writers: Writers
    first: tuple[Writer, ...]
    clean: bool
    exact_after: int
    lost_runs: bool
    before: tuple[Writer, ...]
    signs: Signs
    driver: Writer
    facts: Facts
    tells_writers: bool

    def stopped(self) -> Stopped:
        """The record of a clean end of this run; what was in doubt before and was not put on record since stays so."""
        return Stopped(
            generation=self.generation,
            time_ms=now_ms(),
            exact_after=self.exact_after,
            writers=self.writers.newest,
        )

    def raise_generation(self) -> None:
        """Says that what comes is newer than all before, which the epochs of another producer id do not tell.

        Raises:
            BrokerError: the internal topic cannot be written.
            LinkError: the target does not answer.
        """
        flow = self.store.state.flow
        assert flow is not None  # the opening wrote it
        self.store.write([replace(flow, generation=self.generation + 1)])
        self.generation += 1

    def declare(self, config: FlowConfig, source: Cluster) -> None:
        """Puts on record what the flow carries on by now, for the writer epochs that come.

        Raises:
            BrokerError: a registry of writers cannot be read or written.
            LinkError: a cluster does not answer.
        """
        self.writers.declare(carried_on(config, source, self.source_id, self.target_id))

    @property
    def run(self) -> Run:
        """Who writes, as of now."""
        return Run(ids=self.writers.ids, generation=self.generation, first_generation=self.first_generation)

    def is_mine(self, progress: Progress) -> bool:
        """Whether this run wrote it."""
        return self.run.is_mine(progress)


def _nowhere(_known: JournalState) -> bool:
    return False


def open_flow(
    config: FlowConfig,
    source: Cluster,
    target: Cluster,
    file: str,
    run: str,
    identities: Identities,
    *,
    elsewhere: Callable[[JournalState], bool] = _nowhere,
) -> Opened:
    """Checks both clusters, creates the flow's topics, takes the flow from whoever had it, and puts that on record.

    Args:
        config: of the flow.
        source: to ask.
        target: to ask and to write to.
        file: the configuration file, for messages.
        run: the run that takes the flow.
        identities: knows which cluster each alias of the run is.
        elsewhere: says, of what is on record, whether the positions there need not hold, since the caller writes
            others. Asked before the flow is taken, so that what it raises leaves whoever has the flow alone.

    Raises:
        ConfigError: source and target are one cluster, the internal topic belongs to another pair of clusters, or the
            flow was handed over to MirrorMaker 2, which has copied since.
        HeldError: the flow is held.
        BrokerError: a cluster refuses.
        LinkError: a cluster does not answer.
    """
    timeout_ms = config.admin_timeout_ms
    source_id, target_id = admin.cluster_id(source, timeout_ms), admin.cluster_id(target, timeout_ms)
    if source_id == target_id:
        raise to_itself(file, config.name, source_id)
    identities.claim(config.source.alias, source_id)
    identities.claim(config.target.alias, target_id)
    ensure_internal_topics(config, target, source)
    store = Store(target, internal_topic(config.name), timeout_ms)
    store.follow()
    record = _flow_record(config, source_id, target_id, store, file)  # whoever may not have the flow disturbs nobody
    _tell_while_held(record, store)
    check_held(config, store.state)
    others = elsewhere(store.state)
    if not others:
        check_handed_over(config, source, target, store.state, file)
    return _take(config, source_id, target, target_id, store, file, run, elsewhere=others)


def _anybody(_known: JournalState) -> None:
    pass


def open_without_source(
    config: FlowConfig,
    target: Cluster,
    file: str,
    run: str,
    *,
    check: Callable[[JournalState], None] = _anybody,
) -> Opened:
    """Takes a flow whose source cannot be asked from whoever had it; for its positions and its map, not for copying.

    Args:
        config: of the flow.
        target: to ask and to write to.
        file: the configuration file, for messages.
        run: the run that takes the flow.
        check: raises where, by what is on record, the caller may not take it. Asked right before it is taken: from then
            on whoever had it copies nothing more.

    Raises:
        ConfigError: it was never started, or its internal topic belongs to another pair of clusters.
        BrokerError: the target refuses.
        LinkError: it does not answer.
    """
    store = Store(target, internal_topic(config.name), config.admin_timeout_ms)
    store.follow()
    known = known_flow(config, target, store.state)
    if known is None:
        raise never_started(config, store.state, file)
    target_id = admin.cluster_id(target, config.admin_timeout_ms)
    _flow_record(config, known.source_id, target_id, store, file)
    store.follow()
    check(store.state)
    return _take(config, known.source_id, target, target_id, store, file, run, elsewhere=True, copies=False)


def known_flow(config: FlowConfig, target: Cluster, state: JournalState) -> FlowRecord | None:
    """The flow's record, also where its internal topic has lost it and other records tell what it had said.

    Such a one is put into ``state``, where the topic replaces it when there is one again.

    Raises:
        SparkmirrorError: the target cannot be asked.
    """
    if state.flow is None and state.lacks_start:
        state.flow = lost_start.find(config, target, state)
    return state.flow


def never_started(config: FlowConfig, known: JournalState | None, file: str) -> ConfigError:
    """The error of whoever asks about a flow that has no record of a start, or whose internal topic has lost it."""
    if known is not None and known.lacks_start:
        return ConfigError(
            file=file,
            key=str(config.name),
            reason=f"{internal_topic(config.name)} has lost the end of its log, with the record of the flow's start, "
            "and nothing else tells surely which cluster it copies from and how copies are named",
            remedy="if the flow runs, try again in a minute, when its driver has put that there again; else start it, "
            "which needs its source",
        )
    return ConfigError(
        file=file,
        key=str(config.name),
        reason="it was never started, so nothing is known of it",
        remedy="sparkmirror run starts it",
    )


def check_naming(config: FlowConfig, known: FlowRecord, file: str) -> None:
    """Sees that a file names copies as the flow on record does.

    Raises:
        ConfigError: it is the file of another flow, or an older one.
    """
    naming = naming_of(config)
    if known.naming != naming:
        raise ConfigError(
            file=file,
            key=str(config.name),
            reason=f"the flow has copied with {known.naming}, and this file has {naming}",
            remedy="give the file that the flow runs with; nothing was done",
        )


def _take(
    config: FlowConfig,
    source_id: str,
    target: Cluster,
    target_id: str,
    store: Store,
    file: str,
    run: str,
    *,
    elsewhere: bool,
    copies: bool = True,
) -> Opened:
    """Says on the control topic who has the flow now, and gets its producer ids.

    One that copies nothing leaves on record what the newest run copies and translates: its file may be another one.
    """
    timeout_ms = config.admin_timeout_ms
    signs = Signs(target, control_topic(config.name), run, timeout_ms)
    # In this order: whoever had the flow writes nothing more here, however late it wakes; it is refused where it reads
    # the announcement and looks whether it still has the flow; its lanes end before they begin more; and all that it
    # and they have written is read.
    store.own(f"sparkmirror.{config.name}.driver")
    driver, generation = store.owner, store.state.newest_generation + 1
    control_offset = signs.announce(Announced(run=run, generation=generation, driver=driver))
    store.follow()
    store.remembers = True
    record = _flow_record(config, source_id, target_id, store, file)
    record = record if copies else _configured_as(record, store.state.flow)
    clean, exact_after = store.state.ended_cleanly, store.state.exact_after
    writers = Writers(
        target,
        flow=str(config.name),
        target_id=target_id,
        origin=(source_id,),
        headers=config.provenance_header,
        timeout_ms=timeout_ms,
        on_record=store.state.writers(),
    )
    first = _acquire(writers, store)
    if store.state.flow is None and not store.state.lacks_start:
        record = replace(record, before=last_before(writers.ids, first))
    happened: list[Happened] = []
    if store.state.lacks_start or (clean and _may_lack_runs(store.state, writers)):
        clean, exact_after = False, record.generation - 1
        record = replace(record, exact_after=exact_after)
        happened = [Happened(partition=FLOW, event=_lost_runs(internal_topic(config.name), store.state, writers))]
    lost_runs = bool(happened)
    happened += _lost_segments(internal_topic(config.name), store.state, writers.ids)
    mark = [ELSEWHERE_KEY] if store.state.elsewhere is not None and not elsewhere else []
    store.write(
        [record, *happened, *store.state.endings()], tombstones=[STOPPED_KEY, *mark, *sorted(store.state.outdated)]
    )
    return Opened(
        generation=record.generation,
        first_generation=record.generation,
        source_id=source_id,
        target_id=target_id,
        store=store,
        control=Store(target, control_topic(config.name), timeout_ms),
        control_offset=control_offset,
        writers=writers,
        first=first,
        clean=clean,
        exact_after=exact_after,
        lost_runs=lost_runs,
        before=record.before,
        signs=signs,
        driver=driver,
        facts=Facts(memories_ms(target, timeout_ms)),
        tells_writers=bool(record.tells_since_ms),
    )


def _acquire(writers: Writers, store: Store) -> tuple[Writer, ...]:
    """Gets the flow's producer ids. A clean end stays one if that fails: it learns which epochs were given out."""
    try:
        first = writers.acquire_all()
        for group in writers.unfenceable:
            writers.confirm(group)  # a takeover waits for those who still write with the id before
        return first
    except SparkmirrorError:
        ended = store.state.stopped
        if ended is not None and store.state.ended_cleanly and not _may_lack_runs(store.state, writers):
            newest = {one.producer_id: one for one in (*ended.writers, *writers.newest)}
            store.write([replace(ended, writers=tuple(newest.values()))])
        raise


def _may_lack_runs(state: JournalState, writers: Writers) -> bool:
    """Whether runs may have come after the clean end on record; a coordinator that has forgotten epochs hides them."""
    ended = state.stopped
    return ended is not None and (bool(writers.forgot) or runs_between(writers.newest, ended.writers))


def _lost_runs(topic: str, state: JournalState, writers: Writers) -> Event:
    """The event of an internal topic that has lost what the newest runs wrote, or the record of the newest start.

    Or of a coordinator that may hide it.
    """
    since = wall_time(0 if state.stopped is None else state.stopped.time_ms)
    if state.lacks_start:
        lost = f"{topic} has records of a run and not that of its start: the topic has lost its end while the flow ran"
    elif writers.forgot:
        lost = (
            "the target's transaction coordinator has forgotten producer epochs that the flow has had: "
            "__transaction_state has lost its end, and does not tell whether the flow was started after the clean end "
            f"of {since}, the newest in {topic}"
        )
    else:
        lost = (
            f"the flow was started after the clean end of {since}, the newest in {topic}, which has nothing "
            "of that start: the topic has lost its end, or the start failed at once"
        )
    text = f"{lost}; no position on record is believed, and all partitions are taken over, from what the target has"
    return Event(kind=Kind.NOTE, text=text)


def _lost_segments(topic: str, state: JournalState, ids: Sequence[int]) -> Iterator[Happened]:
    """Of each partition of which the topic has lost a part of the offset map; not once more of the same part."""
    for partition, known in state.maps.items():
        lost = known.lost(ids)
        if not lost:
            continue
        first, last = min(piece.offset for piece in lost), max(piece.stop for piece in lost) - 1
        text = (
            f"{topic} has lost entries of the offset map: source offsets {first} to {last} lead to target offsets that "
            "are not beyond the right ones, and are not called exact; groups that stand there read some records again"
        )
        event = Event(kind=Kind.NOTE, text=text, first=first, last=last)
        told = state.events.get(event_key(partition, event.kind))
        if told is None or told.event.text != text:
            yield Happened(partition=partition, event=event)


def _tell_while_held(record: FlowRecord, store: Store) -> None:
    """Puts on record that the flow will tell writers: going back may need that before the flow is released."""
    known = store.state.flow
    if store.state.held is None or known is None or known.tells_since_ms or not record.tells_since_ms:
        return
    if store.state.ended_cleanly and not store.state.in_doubt():  # else a lane of the run before may still copy
        store.write([replace(known, tells_since_ms=record.tells_since_ms)])


def check_held(config: FlowConfig, state: JournalState) -> None:
    """Refuses a flow that is to copy nothing now.

    Raises:
        HeldError: it is.
    """
    if state.held is not None:
        raise HeldError(f"{config.name} {held_text(state.held)}")


def check_still_held(config: FlowConfig, state: JournalState, operations: Collection[str]) -> None:
    """Refuses to take a flow that was released since: its driver may copy, and nothing would copy after it.

    Args:
        config: of the flow.
        state: what is on record of it.
        operations: whose hold is the caller's.

    Raises:
        SparkmirrorError: none of them holds it.
    """
    if state.held is None or state.held.operation not in operations:
        by = "it has been released" if state.held is None else f"it {held_text(state.held)}"
        raise SparkmirrorError(
            f"this operation does not hold {config.name} any more: {by}. It is not taken from its driver"
        )


def held_text(order: HoldOrder) -> str:
    """What a hold means, for people."""
    return (
        f"is held since {wall_time(order.time_ms)} by {order.by} and copies nothing: {order.reason} "
        "(sparkmirror failback goes back, sparkmirror release lets the flow copy again)"
    )


def carried_on(config: FlowConfig, source: Cluster, source_id: str, target_id: str) -> frozenset[str]:
    """The clusters whose records the flow carries on under identity naming, by the mirrors that write its source now.

    Raises:
        BrokerError: the source's registry of writers cannot be read.
        LinkError: the source does not answer.
    """
    if not config.policy.keeps_names:
        return frozenset()
    entries = source.run(read_registry, Journal(source, WRITERS_TOPIC))
    return carried_into(entries, source_id, target_id)


def _configured_as(record: FlowRecord, known: FlowRecord | None) -> FlowRecord:
    assert known is not None  # a flow that was never started is not taken without its source
    return replace(
        record,
        topics=known.topics,
        topics_exclude=known.topics_exclude,
        homeward=known.homeward,
        groups=known.groups,
        groups_exclude=known.groups_exclude,
    )


def _flow_record(config: FlowConfig, source_id: str, target_id: str, store: Store, file: str) -> FlowRecord:
    naming, known = naming_of(config), store.state.flow
    if store.state.later:
        key, version = next(iter(store.state.later.items()))
        raise ConfigError(
            file=file,
            key=str(config.name),
            reason=f"{internal_topic(config.name)} holds records of a later release: {key} with version {version}",
            remedy="run this flow with that release, which knows its positions",
        )
    if known is not None and (known.source_id, known.target_id, known.naming) != (source_id, target_id, naming):
        raise ConfigError(
            file=file,
            key=str(config.name),
            reason=(
                f"the topic {internal_topic(config.name)} belongs to a flow from cluster {known.source_id} to "
                f"{known.target_id} with {known.naming}, but this one is from {source_id} to {target_id} with {naming}"
            ),
            remedy="use other aliases; or, to begin anew without the old positions, delete that topic",
        )
    since = known.tells_since_ms if known is not None else 0
    return replace(
        record_of(config, source_id, target_id),
        generation=store.state.newest_generation + 1,
        tells_since_ms=since or (now_ms() if config.tells_writers else 0),
        exact_after=store.state.exact_after,
        topics=config.topics,
        topics_exclude=config.topics_exclude,
        homeward=config.homeward,
        groups=config.groups.include,
        groups_exclude=config.groups.exclude,
        home_since_ms=known.home_since_ms if known is not None else 0,
        home_generation=known.home_generation if known is not None else 0,
        before=known.before if known is not None else (),
    )
