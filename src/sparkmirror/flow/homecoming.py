"""What a flow may bring home of what others wrote to copies of its target's topics, while it runs.

The record of the flow forth is looked at with the topics, and again every few seconds: should forth be handed over to
MirrorMaker 2, its copies come from a writer that nobody can tell, and nothing more may go home.

Invariants: a partition begins, and goes on, only where `duties.forth` allows it; what was allowed and is not any more
ends the run's copying, which then begins anew under what holds by then.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from sparkmirror.config import FlowConfig
from sparkmirror.duties import topics
from sparkmirror.duties.duty import Sides
from sparkmirror.duties.forth import AT_END, Forth, Pair, Verdict
from sparkmirror.duties.missing_topics import Observed
from sparkmirror.errors import SparkmirrorError
from sparkmirror.flow.extra_partitions import said, without_original
from sparkmirror.flow.flow_record import naming_of
from sparkmirror.flow.opening import Opened
from sparkmirror.flow.planner import Pairs
from sparkmirror.kafka import admin
from sparkmirror.kafka.cluster import Cluster
from sparkmirror.model import TopicPartition
from sparkmirror.offsets.records import FlowRecord, Progress

WATCH_SECONDS, AGAIN_SECONDS = 2.0, 15.0
ASK_MS = 3_000
"""The flow waits meanwhile."""


class Homecoming:
    """Decides for one flow.

    Args:
        config: of the flow.
        opened: what its opening gave.
        source: where the copies are, and the record of the flow that makes them.

    Attributes:
        problem: why nothing is brought home, or "".
    """

    def __init__(self, config: FlowConfig, opened: Opened, source: Cluster) -> None:
        pair = Pair(source_id=opened.source_id, target_id=opened.target_id, naming=naming_of(config))
        self._wanted = config.brings_home
        self._store, self._progress = opened.store, opened.store.state.progress
        self._before = Before(opened.store.state.flow, opened.generation)
        self._forth = Forth(config, source, pair, min(ASK_MS, config.admin_timeout_ms))
        self._seen = Verdict()
        self._admitted: set[TopicPartition] = set()
        self._pending: set[TopicPartition] = set()
        self._stale = False
        self._looked = 0.0
        self.problem = ""

    @property
    def verdict(self) -> Verdict:
        """What holds for partitions that are planned now."""
        return adjusted(self._seen, self._progress, self._before)

    def admit(self, pairs: Pairs) -> Pairs:
        """Those of the pairs that may be copied now.

        Args:
            pairs: partitions of copies, and of their originals.
        """
        self.problem = ""
        if not self._wanted or not (pairs or self._admitted):
            self._pending = set()
            return ()
        self._looked = time.monotonic()
        try:
            seen = self._forth.look([here for here, _ in pairs])
        except SparkmirrorError as failure:
            seen = self._seen if self._admitted else Verdict(doubt=str(failure))
        self._stale, before = self._stale or self._contradicts(seen), self._seen
        self._seen, self.problem = seen, seen.doubt
        known = self._admitted if seen is before else self.verdict.begins
        self._admitted = {here for here, _ in pairs if here in known}
        self._pending = {here for here, _ in pairs} - self._admitted
        self._remember()
        return tuple(pair for pair in pairs if pair[0] in self._admitted)

    @property
    def passing(self) -> bool:
        """Whether the problem passes by itself."""
        return self._seen.passing

    def watch(self) -> tuple[bool, bool]:
        """Looks again when it is time.

        Returns:
            whether something that was admitted may not go on as it does; and whether more may be admitted.
        """
        now = time.monotonic()
        if self._stale or now - self._looked < WATCH_SECONDS or not (self._admitted or self._pending):
            return self._stale, False
        self._looked = now
        try:
            seen = self._forth.look(self._pending)
        except SparkmirrorError:  # where the record cannot be read, the lanes beside it cannot read as a rule
            self._looked = now + AGAIN_SECONDS
            return False, False
        self._stale = self._contradicts(seen)
        return self._stale, not self._pending.isdisjoint(adjusted(seen, self._progress, self._before).begins)

    def _remember(self) -> None:
        """Puts on record under which record of forth something goes home, from which generation on."""
        known = self._store.state.flow
        if known is None or not self._admitted or self._stale or known.home_since_ms == self._seen.since_ms:
            return
        told = self._before.under(self._seen.since_ms)
        self._store.write([replace(known, home_since_ms=self._seen.since_ms, home_generation=told)])

    def _contradicts(self, seen: Verdict) -> bool:
        before = self._seen
        if not self._admitted:
            return False
        moved = any(seen.floors.get(here) != before.floors.get(here) for here in self._admitted)
        return moved or bool(seen.doubt) or seen.since_ms != before.since_ms


def left_there(sides: Sides, observed: Observed, topic: str = "") -> str:
    """Why what others wrote to copies, or to one of them, does not go home, for people; "" where it does.

    Raises:
        SparkmirrorError: a cluster cannot be asked.
    """
    copies = [here for here, _ in observed.homeward_pairs if topic in ("", here.topic)]
    if not copies:
        return ""
    verdict = verdict_of(sides, copies)
    lacking = [here for here in copies if here not in verdict.begins]
    if verdict.doubt or not topic or not lacking:
        return verdict.doubt
    return _nothing_of(sides.flow, lacking[0])


def verdict_of(sides: Sides, copies: Sequence[TopicPartition]) -> Verdict:
    """What of these copies may go home, for whoever asks beside the flow's driver.

    Raises:
        SparkmirrorError: a cluster cannot be asked.
    """
    return _forth(sides).look(copies)


def _forth(sides: Sides) -> Forth:
    flow, timeout_ms = sides.flow, sides.flow.admin_timeout_ms
    pair = Pair(
        source_id=admin.cluster_id(sides.source, timeout_ms),
        target_id=admin.cluster_id(sides.target, timeout_ms),
        naming=naming_of(flow),
    )
    return Forth(flow, sides.source, pair, timeout_ms)


class Obstacles:
    """Says why what others wrote to copies does not go home, to whoever waits for it beside the flow's driver.

    Args:
        sides: the flow and its clusters.
    """

    def __init__(self, sides: Sides) -> None:
        self._sides = sides
        self._forth: Forth | None = None

    def look(self, places: Iterable[TopicPartition], *, lasting: bool = False) -> dict[TopicPartition, str]:
        """Of which of the flow's partitions nothing goes home, and why, for people.

        Args:
            places: partitions of the source; those that are no such copies are left out.
            lasting: whether what may pass by itself is left out too.

        Raises:
            SparkmirrorError: a cluster cannot be asked.
        """
        flow = self._sides.flow
        copies = [place for place in places if topics.is_homeward(flow, place.topic)]
        if not copies:
            return {}
        if self._forth is None:
            self._forth = _forth(self._sides)
        verdict = self._forth.look(copies)
        extra = without_original(self._sides, copies)
        return obstacles(flow, copies, verdict, extra, lasting=lasting)


def obstacles(
    flow: FlowConfig,
    copies: Iterable[TopicPartition],
    verdict: Verdict,
    extra: Collection[TopicPartition],
    *,
    lasting: bool = False,
) -> dict[TopicPartition, str]:
    """The same by what is known. Pure.

    Args:
        flow: that brings home what others wrote to copies.
        copies: their partitions.
        verdict: what of them may go home.
        extra: those whose original has no such partition.
        lasting: as in `Obstacles.look`.
    """
    remedy = (
        f"start {flow.name} with {flow.name}.homeward.enabled = false if nobody is to wait for these records: they "
        f"stay on {flow.source.alias} then"
    )
    found = {}
    for copy in copies:
        if copy in extra:
            found[copy] = said(flow, copy)
        elif verdict.doubt and not verdict.passing:
            found[copy] = f"{verdict.doubt} ({remedy})"
        elif not lasting and (why := verdict.doubt or ("" if copy in verdict.begins else _nothing_of(flow, copy))):
            found[copy] = why
    return found


def _nothing_of(flow: FlowConfig, copy: TopicPartition) -> str:
    return f"the record of {flow.name.back} has nothing of {copy} yet, so nothing tells who wrote it"


def due(sides: Sides, copies: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
    """Those of these copies that the flow begins with as soon as it has looked for topics, and at which offset.

    Not where there is no original. The offset is 0 where that is not known yet, and may be `AT_END`.

    Raises:
        SparkmirrorError: a cluster cannot be asked.
    """
    if not copies:
        return {}
    flow, verdict = sides.flow, verdict_of(sides, copies)
    begins = {here: verdict.begins.get(here, 0) for here in copies if verdict.passing or here in verdict.begins}
    originals = {here: TopicPartition(topics.remote_topic(flow, here.topic), here.partition) for here in begins}
    absent = admin.absent(sides.target, originals.values(), flow.admin_timeout_ms)
    return {here: at for here, at in begins.items() if originals[here] not in absent}


@dataclass(frozen=True, slots=True)
class Before:
    """What the flow had on record of what goes home, when this run began.

    Attributes:
        record: of the flow.
        generation: of this run.
    """

    record: FlowRecord | None
    generation: int

    def under(self, since_ms: int) -> int:
        """The first generation whose positions are of that record of forth; 0 where a release before has not told it.

        Args:
            since_ms: what the record says of itself.
        """
        known = self.record
        if known is None or not known.home_since_ms:
            return 0
        return known.home_generation if known.home_since_ms == since_ms else self.generation

    def is_older(self, one: Progress, since_ms: int) -> bool:
        """Whether a position is of another record of forth: by the order of starts, or by clocks where none is told.

        Args:
            one: the position.
            since_ms: as for `under`.
        """
        first = self.under(since_ms)
        return one.generation < first if first else self._is_untold and one.time_ms < since_ms

    @property
    def _is_untold(self) -> bool:
        return self.record is None or not self.record.home_since_ms


def adjusted(verdict: Verdict, progress: Mapping[TopicPartition, Progress], before: Before) -> Verdict:
    """What is on record from before the record of forth began is of another record of that flow: it begins anew."""
    older = {here for here in verdict.begins if here in progress and before.is_older(progress[here], verdict.since_ms)}
    anew = {here: verdict.begins[here] for here in older if verdict.begins[here] != AT_END}
    begins = {here: at for here, at in verdict.begins.items() if here not in older or here in anew}
    return replace(verdict, begins=begins, floors={**verdict.floors, **anew})
