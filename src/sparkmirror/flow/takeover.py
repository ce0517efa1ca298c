"""Takes partitions over: fences whoever had them, reads the target's own logs, and finds where each goes on.

The executor of `offsets.takeover`, in bulk: one fence for each group of producer ids, one reading for each leader.

Invariants: the map is read after the fence, since a lane that lived until then may have written segments; nothing is
handed out before its fence holds, or, where the producer id cannot be fenced any more, before the lanes that had it
have surely ended and the log has stood still meanwhile. A position that lies before the one on record, since the target
lost something, is put on record with the event before what was lost leaves it: the next driver may be another one, and
finds nothing lost any more. A partition that waits after this run has fenced it is fenced again only where that is not
the last that its log has of the flow, or leaders may forget it soon: each fence leaves a record in the target, and uses
up an epoch. A long log is read in turns of `TURN_MS`, since the other partitions of the flow wait meanwhile.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence, Set
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from sparkmirror.config import FlowConfig
from sparkmirror.copy.plan import PartitionPlan, group_of
from sparkmirror.duties.copied_records import NEAR, CopiedRecords, Copy, Held, HeldRecords
from sparkmirror.errors import BrokerError, FencedError, LinkError, SparkmirrorError
from sparkmirror.events import Event
from sparkmirror.flow.on_record import taken_over
from sparkmirror.flow.opening import Opened
from sparkmirror.flow.planner import changed_ids, copied_log, patience_ms
from sparkmirror.flow.positions import Resumed
from sparkmirror.flow.writers import GROUPS, Fenced
from sparkmirror.kafka import admin
from sparkmirror.kafka.cluster import Cluster
from sparkmirror.kafka.epochs import believed_ends, meeting_points, newest_epochs
from sparkmirror.kafka.leaders import OffsetSpec
from sparkmirror.kafka.reading import CORRUPT_MESSAGE
from sparkmirror.kafka.rounds import Results
from sparkmirror.kafka.tails import OFFSET_NOT_AVAILABLE, LogCache, Mark, last_batches, read_headers
from sparkmirror.kafka.topic_ids import ids_of_topics
from sparkmirror.model import NO_OFFSET, NO_RECORD, UNKNOWN, UNKNOWN_RECORD, TopicPartition, Writer
from sparkmirror.offsets.map import OffsetMap
from sparkmirror.offsets.source_history import EpochEnd
from sparkmirror.offsets.tail import Tail
from sparkmirror.offsets.takeover import (
    Begin,
    Observed,
    ReadFrom,
    Resume,
    Stuck,
    before_the_last,
    behind_the_forged,
    behind_the_record,
    decide,
    last_before,
    not_on_record,
)
from sparkmirror.offsets.writers import Unfenceable, WayToFence

HELD = 1_000
"""So many records behind the one on record are held against the source at most, and the last one."""

LEASE_SECONDS = 9.0
"""A lane sends nothing when its last sign of life is older, whatever happened to it; one second is for the clocks."""

TURN_MS, BETWEEN_TURNS_SECONDS = 4_000, 2.0
"""For reading logs back in one takeover, and until the next one: the driver looks after all else then."""

Pairs = Sequence[tuple[TopicPartition, TopicPartition]]


class Waiting(NamedTuple):
    """Why a partition cannot be handed out now, and how many seconds it waits at least.

    ``goes_on``: whether each try comes nearer, so that the pause need not grow.
    """

    reason: str
    seconds: float = 1.0
    goes_on: bool = False


READ_IN_TURNS = Waiting(
    "the log of its target is read back for what the flow has written there, some seconds at a time: it goes on by "
    "itself",
    BETWEEN_TURNS_SECONDS,
    goes_on=True,
)
FENCED_AGAIN = Waiting("the flow has written to its target behind the fence: it is fenced again")


class _Fence(NamedTuple):
    """What this run has left in a target partition, which was read back, and when, in seconds."""

    there: TopicPartition
    target_id: str
    mark: Mark
    at: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Resumption:
    """Where partitions go on.

    Attributes:
        resumed: those that were handed out before, and where each goes on.
        waiting: those that cannot be handed out now.
    """

    resumed: Mapping[TopicPartition, Resumed]
    waiting: Mapping[TopicPartition, Waiting]


@dataclass(slots=True)
class _Taking:
    """Partitions while they are taken over.

    Attributes:
        changed_ids: whether a group has got another producer id.
        writers: with whom each goes on.
        marks: what the fence left in the target partitions.
        waiting: those that are not taken over.
    """

    changed_ids: bool = False
    writers: dict[TopicPartition, Writer] = field(default_factory=dict)
    marks: dict[TopicPartition, Mark] = field(default_factory=dict)
    waiting: dict[TopicPartition, Waiting] = field(default_factory=dict)

    def take(self, here: TopicPartition, there: TopicPartition, outcome: Fenced | SparkmirrorError) -> None:
        """Takes what became of the fence of one partition."""
        if isinstance(outcome, SparkmirrorError):
            self.waiting[here] = Waiting(str(outcome))
        elif there in outcome.marks.found:
            self.writers[here] = outcome.writer
            self.marks[there] = outcome.marks.found[there]
        else:
            self.waiting[here] = Waiting(str(outcome.marks.failed[there]))


class Takeover:
    """Takes partitions of one flow over.

    Args:
        config: of the flow.
        target: where the copies are.
        opened: what its opening gave: the internal topic, and who hands out epochs.
        source: where the records are; None where that cannot be asked.
    """

    def __init__(self, config: FlowConfig, target: Cluster, opened: Opened, source: Cluster | None = None) -> None:
        self._source = source
        self._target = target
        self._opened = opened
        self._store = opened.store
        self._writers = opened.writers
        self._config = config
        self._sole_writer = not opened.tells_writers
        self._still: dict[TopicPartition, int] = {}
        self._fences: dict[TopicPartition, _Fence] = {}
        self._cache = LogCache()

    def take_over(self, pairs: Pairs, target_ids: Mapping[str, str]) -> Resumption:
        """Takes ``pairs`` over. A partition of which the target has nothing gets no position: the start decides.

        Args:
            pairs: source and target partitions; those that lanes of this run have are not to be among them.
            target_ids: of the target topics.

        Raises:
            FencedError: another driver raised an epoch in between.
            BrokerError: the target refuses.
            LinkError: it does not answer.
        """
        began = time.monotonic()
        kept = self._kept_fences(pairs, target_ids, began)
        taking = self._fence([pair for pair in pairs if pair[0] not in kept])
        for here, fence in kept.items():
            taking.take(here, fence.there, self._fenced(here, fence))
        if taking.changed_ids:
            self._opened.raise_generation()
        self._store.follow()
        self._cache.begin({*self._writers.ids, *(one.producer_id for one in self._store.state.writers())})
        there = {here: place for here, place in pairs if here in taking.writers}
        tails = self._read(taking, there, kept)
        self._keep_fences(kept, tails, there, taking, target_ids, began)
        self._cache.limit(TURN_MS)
        logs = self._leader_epochs(taking, there, target_ids)
        inherited = self._inherited_epochs(taking, there, target_ids)
        resumed: dict[TopicPartition, Resumed] = {}
        found: dict[TopicPartition, Resume] = {}
        observed: dict[TopicPartition, Observed] = {}
        while tails:
            further: dict[TopicPartition, int] = {}
            for here, tail in tails.items():
                if here in taking.waiting:
                    continue
                seen = self._observed(here, there[here], tail, taking, target_ids)
                observed[here] = replace(seen, log=logs.get(here), inherited_log=inherited.get(here))
                decision = decide(observed[here])
                if isinstance(decision, ReadFrom):
                    further[there[here]] = decision.offset
                elif isinstance(decision, Stuck):
                    taking.waiting[here] = Waiting(decision.error)
                else:
                    found |= {here: decision} if isinstance(decision, Resume) else {}
                    position, event = self._place(here, decision, target_ids.get(there[here].topic))
                    resumed[here] = Resumed(
                        position=position,
                        writer=taking.writers[here],
                        event=event,
                        anew=decision.anew,
                        reached=tail.reached,
                        last=last_before(decision),
                    )
            tails = self._read_further(further, taking, there)
        self._hold_against_the_source(found, resumed, observed, there, taking)
        changed = changed_ids(target_ids, ids_of_topics(self._target, target_ids))
        for here in [here for here in resumed if there[here].topic in changed]:
            del resumed[here]
            taking.waiting[here] = Waiting("its target topic was made anew while its log was read")
        known = [decision for here, decision in found.items() if here in resumed]
        for here in [here for here, where in resumed.items() if self._must_stand_still(here, where)]:
            del resumed[here]
            taking.waiting[here] = Waiting(
                "its producer id cannot be fenced any more: it waits for old lanes to end", LEASE_SECONDS
            )
        written = taken_over(self._store.state, self._opened.run, resumed, known, lacks=self._store.lacks)
        self._store.write_by_partition(written.records, written.tombstones)
        return Resumption(resumed=resumed, waiting=taking.waiting)

    def planned(self, plans: Iterable[PartitionPlan]) -> None:
        """Lanes may write from now on: no fence of these partitions holds for another takeover."""
        for plan in plans:
            self._fences.pop(plan.source, None)
            self._cache.forget(plan.target)

    def _kept_fences(self, pairs: Pairs, target_ids: Mapping[str, str], now: float) -> dict[TopicPartition, _Fence]:
        """The fences of this run behind which no lane of it has written, and that leaders surely remember."""
        most = self._opened.facts.guarded_ms / 2_000
        return {
            here: fence
            for here, there in pairs
            if (fence := self._fences.get(here)) is not None
            and (fence.there, fence.target_id) == (there, target_ids.get(there.topic, ""))
            and now - fence.at < most
            and self._writers.way_to_fence(group_of(here, GROUPS)) is WayToFence.RAISE
            and self._writers.newest[group_of(here, GROUPS)].producer_id == fence.mark.producer_id
        }

    def _fenced(self, here: TopicPartition, fence: _Fence) -> Fenced:
        """What a fence is worth that was made before: nobody has written here with the epochs since."""
        writer = self._writers.newest[group_of(here, GROUPS)]
        return Fenced(writer=writer, marks=Results(found={fence.there: fence.mark}, failed={}))

    def _keep_fences(
        self,
        kept: Mapping[TopicPartition, _Fence],
        tails: Mapping[TopicPartition, Tail],
        there: Mapping[TopicPartition, TopicPartition],
        taking: _Taking,
        target_ids: Mapping[str, str],
        now: float,
    ) -> None:
        """Keeps fences that were read back as the last that logs have of the flow; without one a partition waits."""
        for here, tail in tails.items():
            place, mark = there[here], taking.marks[there[here]]
            last = tail.last_of(self._cache.own)
            if last is not None and last.control and (last.producer_id, last.epoch) == (mark.producer_id, mark.epoch):
                fence = _Fence(place, target_ids.get(place.topic, ""), mark, now)
                self._fences[here] = kept.get(here, fence)
                continue
            self._fences.pop(here, None)
            if here in kept:
                taking.waiting[here] = FENCED_AGAIN

    def _hold_against_the_source(
        self,
        found: dict[TopicPartition, Resume],
        resumed: dict[TopicPartition, Resumed],
        observed: Mapping[TopicPartition, Observed],
        there: Mapping[TopicPartition, TopicPartition],
        taking: _Taking,
    ) -> None:
        """Sees that the logs have those records last, of which they alone tell, to which the map leads.

        Whoever may write to a copy can forge batches of the flow. And where the internal topic may lack its end, the
        map leads elsewhere: a progress that came after a loss vouches for no segments but those up to its last record.
        What the source has lost since is no copy of what it has now: the start finds that, and goes back to there.
        """
        lacking = self._lacking(found)
        places = {
            here: Copy(there[here], last.source, last.target, before_the_last(observed[here], last, NEAR), alone_tells)
            for here, decision in found.items()
            if (last := decision.last) is not None
            and ((alone_tells := not_on_record(observed[here], last, HELD)) or here in lacking)
        }
        if self._source is None or not places:
            return
        places = self._without_lost(self._source, places, found, lacking)
        compared = self._compared(self._source, places)
        verdicts = dict(compared.found)
        for here, failure in compared.failed.items():
            if here not in lacking and _is(failure, self._target, CORRUPT_MESSAGE):
                verdicts[here] = Held.OTHER
            elif here in lacking or not _is(failure, self._source, CORRUPT_MESSAGE, OFFSET_NOT_AVAILABLE):
                del resumed[here]
                taking.waiting[here] = Waiting(str(failure))
        doubted = {here for here, held in verdicts.items() if here in lacking and held is not Held.SAME}
        starts = self._log_starts(self._source, doubted)
        for here, failure in starts.failed.items():
            del verdicts[here], resumed[here]
            taking.waiting[here] = Waiting(str(failure))
        for here, held in verdicts.items():
            start = starts.found.get(here, NO_OFFSET)
            decision = _behind_others(observed[here], found[here], held, lacks=here in lacking, start=start)
            if decision is not None:
                found[here] = decision
                resumed[here] = _from_there(resumed[here], decision, start)

    def _without_lost(
        self,
        source: Cluster,
        places: Mapping[TopicPartition, Copy],
        found: Mapping[TopicPartition, Resume],
        lacking: Set[TopicPartition],
    ) -> dict[TopicPartition, Copy]:
        """The same up to where the source's logs are what was copied of them, by their leader epochs.

        A log that has lost records has another leader epoch since; behind the end of one that has not there were
        never any. Where the map may lack entries, and all of this is lost, nothing is left out: what is behind the
        record on record is not believed.
        """
        state, timeout_ms = self._store.state, patience_ms(self._config, len(places))
        copied = {
            here: copied_log(state.progress[here], at, state.source_epoch(here, at), state.history)
            for here, at in ((here, found[here].position) for here in places)
            if state.source_epoch(here, at) >= 0
        }
        records = CopiedRecords(self._config, source, self._target, self._maps, timeout_ms)
        try:
            newest = newest_epochs(source, set(copied), timeout_ms)
            ended = {here: one for here, one in copied.items() if newest.get(here, one.epoch) != one.epoch}
            points = meeting_points(source, ended, records.compare, timeout_ms).found
        except (BrokerError, LinkError):
            points = {}  # the comparison says so too
        left = {here: one.below(points[here].end) if here in points else one for here, one in places.items()}
        return {
            here: held
            for here, one in left.items()
            if (held := one if one is not None or here not in lacking else places[here]) is not None
        }

    def _maps(self, places: Set[TopicPartition]) -> dict[TopicPartition, OffsetMap]:
        state, ids = self._store.state, self._writers.ids
        return {here: state.map_of(here).offsets(state.progress.get(here), ids) for here in places}

    def _lacking(self, found: Mapping[TopicPartition, Resume]) -> set[TopicPartition]:
        """Partitions of whose map the newest entries may be lost, on which the last record of the log depends."""
        state, lacking = self._store.state, set[TopicPartition]()
        for here, decision in found.items():
            known = state.progress[here].source if here in state.progress else NO_OFFSET
            beyond = decision.last is not None and decision.last.source > known
            if beyond and (self._store.elected_since(here) or state.lacks_ahead(here)):
                lacking.add(here)
        return lacking

    def _log_starts(self, source: Cluster, partitions: Set[TopicPartition]) -> Results[TopicPartition, int]:
        """Where the source's logs begin."""
        if not partitions:
            return Results(found={}, failed={})
        timeout_ms = patience_ms(self._config, len(partitions))
        return admin.find_offsets(source, sorted(partitions), OffsetSpec.EARLIEST, timeout_ms=timeout_ms)

    def _compared(self, source: Cluster, places: Mapping[TopicPartition, Copy]) -> Results[TopicPartition, Held]:
        """Whether records of the source lie where they are to lie; a topic that is another one by now says nothing."""
        try:
            ids = ids_of_topics(source, {here.topic for here in places})
        except (BrokerError, LinkError) as failure:
            return Results(found={}, failed=dict.fromkeys(places, failure))
        left = {here: place for here, place in places.items() if self._is_of(here, ids)}
        if not left:
            return Results(found={}, failed={})
        return HeldRecords(self._config, source, self._target, patience_ms(self._config, len(left))).hold(left)

    def _is_of(self, here: TopicPartition, ids: Mapping[str, str]) -> bool:
        """Whether the source's topic is the one that was copied, as far as that is known."""
        progress = self._store.state.progress.get(here)
        known = "" if progress is None else progress.topic_id
        return known in ("", ids.get(here.topic, ""))

    def _fence(self, pairs: Pairs) -> _Taking:
        """Fences group by group, all at the same time; a group that cannot be fenced now waits."""
        by_group: dict[int, list[tuple[TopicPartition, TopicPartition]]] = {}
        for here, there in pairs:
            by_group.setdefault(group_of(here, GROUPS), []).append((here, there))
        ids = set(self._writers.ids)
        taking = _Taking()
        with ThreadPoolExecutor(GROUPS) as pool:
            outcomes = pool.map(
                lambda item: self._fence_group(item[0], [there for _, there in item[1]]), by_group.items()
            )
            for some, outcome in zip(by_group.values(), outcomes, strict=True):
                for here, there in some:
                    taking.take(here, there, outcome)
        taking.changed_ids = not ids.issuperset(self._writers.ids)
        return taking

    def _fence_group(self, group: int, partitions: Sequence[TopicPartition]) -> Fenced | SparkmirrorError:
        timeout_ms = patience_ms(self._config, len(partitions))
        try:
            outcome = self._writers.take_over(group, partitions, timeout_ms)
            if isinstance(outcome, Unfenceable):
                # Whoever still writes with the old id is waited for, partition by partition; the new one can be fenced.
                self._writers.confirm(group)
                outcome = self._writers.take_over(group, partitions, timeout_ms)
        except FencedError:
            raise
        except SparkmirrorError as failure:
            return failure
        if isinstance(outcome, Unfenceable):
            return SparkmirrorError(f"the coordinator changes the producer id of group {group} each time it is asked")
        return outcome

    def _read(
        self,
        taking: _Taking,
        there: Mapping[TopicPartition, TopicPartition],
        kept: Mapping[TopicPartition, _Fence],
    ) -> dict[TopicPartition, Tail]:
        """The ends of the logs; a leader that does not show a fence that was there before has another log now."""
        wanted = [there[here] for here in taking.writers]
        patience = patience_ms(self._config, len(wanted))
        found = last_batches(self._target, wanted, patience, fenced=taking.marks, cache=self._cache)
        for here, fence in kept.items():
            failure = found.failed.get(fence.there)
            if failure is not None and _is(failure, self._target, OFFSET_NOT_AVAILABLE):
                self._fences.pop(here, None)
        return self._taken(found, taking, there)

    def _leader_epochs(
        self, taking: _Taking, there: Mapping[TopicPartition, TopicPartition], target_ids: Mapping[str, str]
    ) -> dict[TopicPartition, EpochEnd]:
        """Where the leader epochs end that the target's logs were known to go to; asked after the logs were read."""
        epochs = {here: known.reached.leader_epoch for here, known in self._store.state.progress.items()}
        return self._ask_of_epochs(epochs, taking, there, target_ids)

    def _inherited_epochs(
        self, taking: _Taking, there: Mapping[TopicPartition, TopicPartition], target_ids: Mapping[str, str]
    ) -> dict[TopicPartition, EpochEnd]:
        """Where the leader epochs end that the target's logs had when the flow took over from MirrorMaker 2."""
        epochs = {here: known.leader_epoch for here, known in self._store.state.inherited.items()}
        return self._ask_of_epochs(epochs, taking, there, target_ids)

    def _ask_of_epochs(
        self,
        epochs: Mapping[TopicPartition, int],
        taking: _Taking,
        there: Mapping[TopicPartition, TopicPartition],
        target_ids: Mapping[str, str],
    ) -> dict[TopicPartition, EpochEnd]:
        """Where leader epochs end, of partitions whose target topic is still the one that the progress is of."""
        progress = self._store.state.progress
        known = {
            here: epochs[here]
            for here, place in there.items()
            if here in progress
            and epochs.get(here, UNKNOWN.leader_epoch) != UNKNOWN.leader_epoch
            and progress[here].target_id in ("", target_ids.get(place.topic, ""))
        }
        asked = {there[here]: epoch for here, epoch in known.items()}
        answers = believed_ends(self._target, asked, patience_ms(self._config, len(asked)))
        for here in known:
            if there[here] in answers.failed:
                taking.waiting[here] = Waiting(str(answers.failed[there[here]]))
        return {here: answers.found[there[here]] for here in known if there[here] in answers.found}

    def _read_further(
        self, offsets: Mapping[TopicPartition, int], taking: _Taking, there: Mapping[TopicPartition, TopicPartition]
    ) -> dict[TopicPartition, Tail]:
        if not offsets:
            return {}
        timeout_ms = self._config.admin_timeout_ms
        found = read_headers(self._target, offsets, timeout_ms, fenced=taking.marks, cache=self._cache)
        return self._taken(found, taking, {here: place for here, place in there.items() if place in offsets})

    def _taken(
        self,
        found: Results[TopicPartition, Tail],
        taking: _Taking,
        there: Mapping[TopicPartition, TopicPartition],
    ) -> dict[TopicPartition, Tail]:
        for here, place in there.items():
            if place in found.failed:
                goes_on = place in self._cache.unfinished
                taking.waiting[here] = READ_IN_TURNS if goes_on else Waiting(str(found.failed[place]))
        return {here: found.found[place] for here, place in there.items() if place in found.found}

    def _observed(
        self,
        here: TopicPartition,
        there: TopicPartition,
        tail: Tail,
        taking: _Taking,
        target_ids: Mapping[str, str],
    ) -> Observed:
        state, mark = self._store.state, taking.marks.get(there)
        return Observed(
            partition=here,
            progress=state.progress.get(here),
            map=state.map_of(here),
            inherited=state.inherited.get(here),
            ids=self._writers.ids,
            tail=tail,
            start=NO_OFFSET,
            target_id=target_ids.get(there.topic, ""),
            sole_writer=self._sole_writer,
            fence=Writer(producer_id=mark.producer_id, epoch=mark.epoch) if mark is not None else None,
            before=self._opened.before,
        )

    def _must_stand_still(self, here: TopicPartition, where: Resumed) -> bool:
        """Whether an id that the fence does not concern may still write; its log is looked at twice, a lease apart."""
        state = self._store.state
        wrote = state.map_of(here).writers(self._writers.ids)
        last = wrote[-1] if wrote else state.progress[here].writer if here in state.progress else where.writer
        if last.producer_id == where.writer.producer_id or self._still.get(here) == where.position:
            self._still.pop(here, None)
            return False
        self._still[here] = where.position
        return True

    def _place(self, here: TopicPartition, decision: Resume | Begin, target_id: str | None) -> tuple[int, Event | None]:
        """Where it goes on, and what to tell; what a target topic made anew gets is for the start to decide."""
        progress = self._store.state.progress.get(here)
        known = progress.target_id if progress is not None else ""
        if isinstance(decision, Begin) and progress is not None and target_id and known not in ("", target_id):
            return progress.position, None
        return decision.position, decision.event


def _behind_others(
    observed: Observed, decision: Resume, held: Held, *, lacks: bool, start: int = NO_OFFSET
) -> Resume | None:
    """Where to go on where the log does not have the records that the map leads to; None where it has them.

    Where the map ``lacks`` entries, and the source's log begins at ``start``, behind the last of these records, nothing
    tells.
    """
    assert decision.last is not None  # or nothing was compared
    deleted = held is Held.GONE and decision.last.source < start
    if lacks and (deleted or held in (Held.OTHER, Held.CLEANED)):
        return behind_the_record(observed, decision.last, cleaned=held is Held.CLEANED, start=start)
    return behind_the_forged(observed, decision.last) if held is Held.OTHER else None


def _from_there(resumed: Resumed, decision: Resume, start: int) -> Resumed:
    """The same by a decision to copy again; behind a record that nobody knows where the source's log begins there.

    What it has deleted behind the record on record may be on the target: no group there is led over it.
    """
    last = UNKNOWN_RECORD if decision.position == start else NO_RECORD
    return replace(resumed, position=decision.position, event=decision.event, anew=True, last=last)


def _is(failure: BrokerError | LinkError, cluster: Cluster, *codes: int) -> bool:
    """Whether a cluster has answered one of these codes.

    Batches of the source that cannot be opened are copied as they are, and not compared; nor is what lies behind a
    transaction that was open when its leader was elected.
    """
    return isinstance(failure, BrokerError) and failure.cluster == cluster.alias and failure.code in codes
