"""What the record of the flow forth says of its copies, for the flow back that brings home what others wrote to them.

*Forth* copied the topics of the cluster that the flow *back* writes to. Its record lies on the cluster that back reads.
Batches of forth are told by their producer ids. What MirrorMaker 2 wrote in its place is nobody's registration: only
forth's record says where that ends.

Invariants: where the record is not there, or leaves a doubt, nothing of the copies goes home; what lies before the
first copy that the record knows never does; a partition that back has begun with goes on from its own position, but
never from below what MirrorMaker 2 wrote.

Reference: ``offsets.inherited``, ``copy.registrations``.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

from sparkmirror.config import FlowConfig
from sparkmirror.copy.origins import read_registry
from sparkmirror.copy.registrations import ids_of_flow
from sparkmirror.duties.topics import copy_of, remote_topic
from sparkmirror.kafka import admin
from sparkmirror.kafka.cluster import Cluster
from sparkmirror.kafka.journal import Journal
from sparkmirror.kafka.store import Store
from sparkmirror.model import NO_OFFSET, TopicPartition
from sparkmirror.naming import WRITERS_TOPIC, internal_topic
from sparkmirror.offsets.records import FlowRecord, Progress
from sparkmirror.offsets.state import JournalState

SETTLED_SECONDS = 15.0
"""A lane of a run before, which does not tell writers, has surely ended by then, whatever became of it."""

AT_END = -2
"""Instead of an offset: where the partition ends when the flow begins with it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """Both clusters of the flow back, by their ids, and how it names topics."""

    source_id: str
    target_id: str
    naming: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What may go home.

    Attributes:
        doubt: why nothing may, or "".
        passing: whether that passes by itself.
        begins: by partition of a copy, from which offset on what others wrote may go home, where nothing has yet.
            Copies that are not here may not be begun with.
        floors: below these offsets nothing may go home, whatever is on record.
        since_ms: since when forth tells writers.
    """

    doubt: str = ""
    passing: bool = False
    begins: Mapping[TopicPartition, int] = field(default_factory=dict)
    floors: Mapping[TopicPartition, int] = field(default_factory=dict)
    since_ms: int = 0


NO_WAY_HOME = Verdict()


def judge(
    back: FlowConfig,
    pair: Pair,
    state: JournalState | None,
    registered: Collection[int],
    copies: Iterable[TopicPartition],
    *,
    seen_s: float,
) -> Verdict:
    """Decides what may go home. Pure.

    Args:
        back: the flow back.
        pair: its clusters.
        state: of forth's internal topic, or None where there is none.
        registered: the producer ids that forth has registered.
        copies: the partitions that are asked about.
        seen_s: for how long this process has seen that forth tells writers.
    """
    doubt = _doubt(back, pair, state, registered)
    if doubt or state is None or state.flow is None:
        return Verdict(doubt=doubt)
    if seen_s < SETTLED_SECONDS and not _has_told_for_long(state):
        said = f"{back.name.back} has just begun to register producers: write-back starts within {SETTLED_SECONDS:g} s"
        return Verdict(doubt=said, passing=True)
    begins = {}
    for copy in copies:
        begin = _begin(state, TopicPartition(remote_topic(back, copy.topic), copy.partition), tuple(registered))
        if begin is not None:
            begins[copy] = begin
    floors = {
        TopicPartition(copy_of(back, here.topic), here.partition): inherited.end
        for here, inherited in state.inherited.items()
    }
    return Verdict(begins=begins, floors=floors, since_ms=state.flow.tells_since_ms)


def _has_told_for_long(state: JournalState) -> bool:
    """Whether the driver of the other flow has, by its own clock, by which it has put on record since when."""
    life, record = state.life, state.flow
    if life is None or record is None or life.generation != record.generation:
        return False
    return life.time_ms >= record.tells_since_ms + int(SETTLED_SECONDS * 1000)


def _doubt(back: FlowConfig, pair: Pair, state: JournalState | None, registered: Collection[int]) -> str:
    record = None if state is None else state.flow
    if state is None or record is None:
        return (
            f"there is no record of {back.name.back} on cluster {back.source.alias}; what another mirror has written "
            "to them, such as MirrorMaker 2, cannot be told from what others wrote"
        )
    if state.later:
        return f"{internal_topic(back.name.back)} holds records of a later release"
    if state.elsewhere is not None:
        return f"{back.name.back} was handed over to MirrorMaker 2, whose copies nothing tells from what others wrote"
    return _of_another(back, pair, record) or _untold(back, record) or _unregistered(state, registered)


def _of_another(back: FlowConfig, pair: Pair, record: FlowRecord) -> str:
    if (record.source_id, record.target_id, record.naming) == (pair.target_id, pair.source_id, pair.naming):
        return ""
    return (
        f"its record is about a flow from cluster {record.source_id} to {record.target_id} with {record.naming}, and "
        f"{back.name} goes from {pair.source_id} to {pair.target_id} with {pair.naming}"
    )


def _untold(back: FlowConfig, record: FlowRecord) -> str:
    """Forth would copy once more what came home, and has to say first that it does not."""
    if record.tells_since_ms:
        return ""
    return (
        f"{back.name.back} would copy it once more: start that flow from a file that has "
        f"{back.name}.homeward.enabled = true, or homeward.enabled = true for both flows"
    )


def _unregistered(state: JournalState, registered: Collection[int]) -> str:
    wrote = {writer.producer_id for own in state.maps.values() for writer in own.writers(())}
    wrote |= {one.writer.producer_id for one in state.progress.values()}
    lacking = wrote - set(registered)
    return f"its producer id {min(lacking)} is missing in {WRITERS_TOPIC}" if lacking else ""


def _begin(state: JournalState, here: TopicPartition, ids: tuple[int, ...]) -> int | None:
    """From which offset of the copy on whatever forth did not write was written by others; None: not known yet."""
    progress, inherited = state.progress.get(here), state.inherited.get(here)
    offsets = state.maps[here].offsets(progress, ids, parted=False) if here in state.maps else None
    first = None if offsets is None else next(offsets.settled(), None)
    floor = 0 if inherited is None else inherited.end
    if first is not None or inherited is not None:
        return floor if first is None else max(first.target, floor)
    if progress is None or offsets or progress.end == NO_OFFSET or progress.position < progress.end:
        return None
    return 0 if _never_had(progress) else AT_END


def _never_had(progress: Progress) -> bool:
    """Whether the original has never had a record, so that nobody can have copied one."""
    return progress.position == 0 and progress.end == 0


class Forth:
    """Reads the record of the flow forth on, where the flow back reads its copies.

    Args:
        back: the flow back.
        source: its source.
        pair: both clusters.
        timeout_ms: of each exchange.
    """

    def __init__(self, back: FlowConfig, source: Cluster, pair: Pair, timeout_ms: int) -> None:
        self._back = back
        self._source = source
        self._pair = pair
        self._timeout_ms = timeout_ms
        self._store: Store | None = None
        self._topic_id: object = None
        self._registered: dict[int, int | None] = {}
        self._since_ms, self._seen_at = 0, 0.0

    def look(self, copies: Iterable[TopicPartition]) -> Verdict:
        """What may go home now of these partitions.

        Raises:
            SparkmirrorError: the cluster cannot be asked, or its records not be read.
        """
        name = internal_topic(self._back.name.back)
        known = admin.list_topics(self._source, [name], self._timeout_ms).get(name)
        if known is None:
            self._store = None
            return judge(self._back, self._pair, None, (), (), seen_s=0.0)
        if self._store is None or known.topic_id != self._topic_id:
            self._store, self._topic_id = Store(self._source, name, self._timeout_ms), known.topic_id
        self._store.follow()
        state = self._store.state
        if _unregistered(state, self._registered):
            entries = self._source.run(read_registry, Journal(self._source, WRITERS_TOPIC))
            flow, origin = str(self._back.name.back), (self._pair.target_id,)
            self._registered = ids_of_flow(entries, flow, self._pair.source_id, origin)
        return judge(self._back, self._pair, state, self._registered, copies, seen_s=self._seen_for(state))

    def _seen_for(self, state: JournalState) -> float:
        since_ms = 0 if state.flow is None else state.flow.tells_since_ms
        if since_ms != self._since_ms:
            self._since_ms, self._seen_at = since_ms, time.monotonic()
        return time.monotonic() - self._seen_at
