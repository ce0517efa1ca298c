"""A model of one partition over its whole life: what `tests.offsets.world` has, and what a driver and operators do.

Drivers start, die and take over; operators order positions; source and target topics are created again; the target
loses its tail; retention and condensing pass over the offset map. What goes on record comes from the product's own pure
functions (`decide`, `decide_start`, `taken_over`, `going_on`), so a story needs no brokers and takes a millisecond.

What is promised is checked against plain lists of what lies where: see `Story.problems`.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import pairwise, takewhile
from random import Random
from typing import NamedTuple

from sparkmirror.config import Policies
from sparkmirror.copy.plan import PartitionPlan
from sparkmirror.copy.target_facts import TargetFacts
from sparkmirror.events import Event, Kind
from sparkmirror.flow.left_out import LeftOut, not_on_record
from sparkmirror.flow.on_record import Run, behind_records, first_begins, going_on, taken_over
from sparkmirror.flow.planner import copied_log
from sparkmirror.flow.positions import Known, Resumed, Stand, Start, decide_start
from sparkmirror.flow.trust import Seen, distrust
from sparkmirror.model import NO_OFFSET, UNKNOWN, LastRecord, Reached
from sparkmirror.offsets.condensing import condense
from sparkmirror.offsets.map import OffsetMap
from sparkmirror.offsets.orders import MoveOrder
from sparkmirror.offsets.records import Progress, SourceEpoch
from sparkmirror.offsets.segments import Parted
from sparkmirror.offsets.source_history import (
    NOBODY_KNOWS,
    UNDEFINED,
    Alike,
    Ask,
    Begun,
    Compared,
    EpochEnd,
    Look,
    Looked,
    compare,
)
from sparkmirror.offsets.takeover import Begin, ReadFrom, Resume, Stuck, last_before
from tests.offsets.world import PLACE, Entry, World, clean

_FACTS = TargetFacts(max_message_bytes=1 << 20, log_append_time=False)


class Step(NamedTuple):
    """Something that happens, and the seed of its chances."""

    name: str
    seed: int


class Replica(NamedTuple):
    """What a former leader of the target has, which is away since.

    Attributes:
        log: its batches, those too that retention has removed.
        start: of what retention has left of it.
        rolled: before which target offset its log cleaner may remove records of the flow.
        resets: how often the copy had begun elsewhere by an order, or in another topic or log of the source.
    """

    log: list[Entry]
    start: int
    rolled: int
    resets: int


class Lost(NamedTuple):
    """A record that the target had acknowledged, as was on record, and lost.

    Attributes:
        topic_id, source: of the source topic, and the offset there.
        target, target_id: the offset in the target topic, and which one that was.
        events: so many there were before.
    """

    topic_id: str
    source: int
    target: int
    target_id: str
    events: int


@dataclass(slots=True)
class Story(World):
    """One partition and all that happens to it.

    Attributes:
        running: whether a lane has the partition.
        rest: where it came to rest within a run, or None.
        in_order: whether it rests since a run ended in order.
        fresh: whether no driver has ever planned the partition.
        runs, first_run: of drivers, and the generation with which the present one began.
        on: what is done where topics were created again.
        events: all so far.
        skipped: source offsets of the present source that an order or a setting left out.
        again: those that an order or a setting had copied once more.
        hidden: those that an order left out behind a loss: groups there skip them, older copies or not.
        left_out: those that an order ever left out: where one lies that another order had copied then is not promised
            to the record.
        lost: acknowledged records that the target lost.
        thinned: whether the offset map was.
        born: the leader epoch in which the source got what it has at each offset, and which record that is.
        births: of records so far.
        source_epoch: of the source's leader.
        read_epoch, epoch_met: what the lane has read last, and the newest leader epoch that is on record.
        passed_epoch: the newest leader epoch of what the last start left out, or -1.
        leaders_return: whether former leaders of the target may come back; then each takeover leaves its marker.
        away: they, with what each has: the log cleaner and retention run on one replica and not on another.
        reduced: whether retention or the log cleaner has removed something from a log of the target.
        resets: how often the copy has begun elsewhere by an order, or in another topic or log of the source.
        mixed: whether a former leader has come back that was away then: what only it has may be copied again, see
            docs/guarantees.md.
        outlived: numbers of records that retention took from the log of a leader: another one need not have had them.
        overtaken: numbers of records that the source had deleted before a lane came to them, with an event of its own.
        every: each offset of the source that is a multiple of it has a marker; 0 where holes lie by chance.
    """

    running: bool = False
    rest: Resumed | None = None
    in_order: bool = True
    fresh: bool = True
    runs: int = 1
    first_run: int = 1
    on: Policies = field(default_factory=Policies)
    events: list[Event] = field(default_factory=list)
    skipped: set[int] = field(default_factory=set)
    again: set[int] = field(default_factory=set)
    hidden: set[int] = field(default_factory=set)
    left_out: set[int] = field(default_factory=set)
    lost: list[Lost] = field(default_factory=list)
    thinned: bool = False
    born: list[tuple[int, int]] = field(default_factory=list)
    births: int = 0
    source_epoch: int = 0
    read_epoch: int = -1
    epoch_met: int = -1
    passed_epoch: int = -1
    every: int = 0
    leaders_return: bool = False
    away: list[Replica] = field(default_factory=list)
    resets: int = 0
    mixed: bool = False
    reduced: bool = False
    outlived: set[int] = field(default_factory=set)
    overtaken: set[int] = field(default_factory=set)

    def __post_init__(self) -> None:
        self._bear()

    @property
    def generation(self) -> int:
        return len(self.ids) + self.runs

    @property
    def leader_epoch_left(self) -> int:
        return self.read_epoch

    @property
    def run(self) -> Run:
        return Run(ids=tuple(self.ids), generation=self.generation, first_generation=self.first_run)

    # ------------------------------------------------------------------------------------------------------ the source

    def _bear(self) -> None:
        """Gives each offset that is new the source's leader epoch, and its record a number of its own."""
        while len(self.born) < len(self.kept):
            self.births += 1
            self.born.append((self.source_epoch, self.births))

    def births_of(self, sources: list[int]) -> list[int]:
        return [self.born[source][1] for source in sources]

    def begun_up_to(self, stop: int) -> list[SourceEpoch]:
        gone = range(self.position, min(stop, self.source_start))
        self.overtaken |= {self.born[offset][1] for offset in gone if self.kept[offset]}
        begun = []
        for offset in range(self.position, stop):
            epoch = self.born[offset][0]
            if epoch > self.epoch_met:
                self.epoch_met = epoch
                begun.append(SourceEpoch(partition=PLACE, epoch=epoch, offset=offset, topic_id=self.topic_id))
        if stop > self.position:
            self.read_epoch = self.born[stop - 1][0]
        return begun

    def _sources_answer(self, epoch: int) -> EpochEnd:
        """Where a leader epoch ends in the source's log, as its leader says."""
        starts: dict[int, int] = {}
        for offset in range(self.source_start, len(self.born)):
            starts.setdefault(self.born[offset][0], offset)
        starts.setdefault(self.source_epoch, len(self.born))
        if epoch > max(starts):
            return NOBODY_KNOWS
        if epoch < min(starts):
            return EpochEnd(epoch, starts[min(starts)])
        at_most = max(each for each in starts if each <= epoch)
        return EpochEnd(at_most, min([starts[each] for each in starts if each > at_most], default=len(self.born)))

    def _parts(self, known: Progress, position: int) -> EpochEnd:
        """Up to where the source's log is what was copied of it: what `meeting_points` finds out."""
        copied = copied_log(known, position, self.state.source_epoch(PLACE, position), self.state.history)
        if copied.epoch < 0:
            return EpochEnd(UNDEFINED, UNDEFINED)
        answers: dict[int, EpochEnd] = {}
        looked: dict[int, Looked] = {}
        for _ in range(64):
            found = compare(
                Compared(
                    history=copied.history,
                    epoch=copied.epoch,
                    position=position,
                    certain=copied.certain,
                    restored=copied.restored or bool(self.state.moves),
                    newest=self.source_epoch,
                    answers=answers,
                    looked=looked,
                )
            )
            match found:
                case EpochEnd():
                    return found
                case Ask(epoch):
                    answers[epoch] = self._sources_answer(epoch)
                case Look(epoch, first, end):
                    looked[epoch] = self._looked(first, end)
        raise AssertionError("the comparison does not end")

    def _looked(self, first: int, end: int) -> Looked:
        there = {birth for entry in self._mine() for birth in entry.births}
        known = {source for entry in self._mine() for source in entry.sources}
        alike = Alike.UNKNOWN
        for offset in range(max(first, self.source_start), min(end, len(self.kept))):
            if not self.kept[offset] or offset not in known:
                continue
            if self.born[offset][1] not in there:
                return Looked(Alike.OTHER if alike is Alike.UNKNOWN else Alike.SAME, offset, differs=True)
            alike = Alike.SAME
        return Looked(alike, end)

    def do_lose_source(self) -> None:
        """An unclean election on the source: its last records are gone, and others come in their place."""
        left = max(self.source_start, len(self.kept) - self.chance.randint(1, 8))
        self.kept, self.born = self.kept[:left], self.born[:left]
        self.source_epoch += 1
        for some in (self.skipped, self.again, self.hidden, self.left_out):
            some -= set(range(left, 1 << 10))
        if self.chance.random() < 0.7:
            self.do_grow()

    def do_elect_source(self) -> None:
        """A clean election on the source."""
        self.source_epoch += 1

    def _sees_the_source(self) -> bool:
        """Whether the source's log is the one that the lane has read; each Fetch tells."""
        if self.read_epoch < 0:
            return self.position <= len(self.kept)
        answer = self._sources_answer(self.read_epoch)
        return answer.end >= self.position or answer.end == UNDEFINED

    # ------------------------------------------------------------------------------------------------------- the steps

    def do(self, step: Step) -> None:
        """Has a step happen."""
        self.chance = Random(step.seed)
        getattr(self, f"do_{step.name}")()

    def do_copy(self) -> None:
        self._start_if_at_rest()
        if self.running and not self.copy_some(self.chance.randint(0, 3)):
            self._die()

    def do_finish(self) -> None:
        self._start_if_at_rest()
        if self.running and self.torn and (self.asks or self.position == len(self.kept)):
            self.ask_again()
            self._die()
        elif self.running and not self.copy(-1):
            self._die()

    def do_crash(self) -> None:
        """The lane dies somewhere."""
        self._start_if_at_rest()
        if self.running and self.torn and self.asks:
            self.ask_again()
            self._die()
        elif self.running:
            self.copy(self.chance.randint(0, 25))
            self._die()

    def do_kill(self) -> None:
        """Driver and lane die, at rest or not."""
        if self.running:
            self._die()
        self._begin_run()
        self.in_order = False

    def do_drain(self) -> None:
        """The lane gives the partition back."""
        if self.running:
            self._drain()

    def do_restart(self) -> None:
        """A clean end, where it is one, and another run."""
        if self.running:
            self._drain()
        if self.rest is not None:
            self.in_order = True
        if self.in_order:
            self.rest = None
        self._begin_run()

    def do_order(self) -> None:
        """An operator orders a position; a flow that runs obeys it within seconds."""
        to = self.chance.choice(
            [self.source_start, len(self.kept), self.chance.randint(self.source_start, len(self.kept)), self.position]
        )
        to = min(max(to, self.source_start), len(self.kept))
        self.state.take(
            MoveOrder(
                partition=PLACE, to=to, topic_id=self.topic_id, time_ms=1, by="me", leader_epoch=self.source_epoch
            )
        )
        if self.running and self.chance.random() < 0.8:
            self._drain()

    def do_order_stopped(self) -> None:
        """The same of a flow that was stopped, which the command carries out itself."""
        self.do_restart()
        self.do_order()
        if self.in_order:
            self._plan(begin=False)
            self._begin_run()

    def do_grow(self) -> None:
        self.kept += [*holes(self.chance, self.chance.randint(1, 15), len(self.kept), self.every), True]
        self._bear()

    def do_recreate_source(self) -> None:
        if self.running:
            self._drain()
        self.topic_id = f"s{int(self.topic_id[1:]) + 1}"
        self.kept = [*holes(self.chance, self.chance.randint(0, 30), 0, self.every), True]
        self.source_start = 0
        self.born, self.source_epoch = [], 0
        self._bear()
        self.skipped, self.again, self.hidden, self.left_out = set(), set(), set(), set()

    def do_recreate_target(self) -> None:
        if self.running:
            self._drain()
        self.target_id = f"t{int(self.target_id[1:]) + 1}"
        self.log, self.start, self.leader_epoch, self.away = [], 0, 0, []
        self.reached, self.reached_in, self.torn, self.cut = NO_OFFSET, UNKNOWN.leader_epoch, False, NO_OFFSET

    def do_lose_tail(self) -> None:
        """An unclean election: the new leader lacks what only the one before had."""
        self._elect(partial(self.lose_tail, self.chance.randint(1, 8)))

    def do_come_back(self) -> None:
        """An unclean election brings a former leader of the target back, with what it had."""
        former = [each for each in self.away if each.log]
        if former and not self.torn:
            self._elect(partial(self._come_back, self.chance.choice(former)))

    def _come_back(self, former: Replica) -> None:
        self.come_back([replace(entry) for entry in former.log])
        self.start = former.start
        self.mixed = self.mixed or former.resets < self.resets

    def _elect(self, happens: Callable[[], None]) -> None:
        """The leader goes away with what it has, and another one comes."""
        left = Replica(self.log, self.start, self._rolled, self.resets)
        self.away.append(left)
        self.log = [replace(entry) for entry in left.log]
        progress, torn = self.state.progress.get(PLACE), self.torn
        happens()
        alike = sum(
            1 for _ in takewhile(lambda pair: pair[0].header == pair[1].header, zip(left.log, self.log, strict=False))
        )
        end = left.log[alike - 1].header.last_offset + 1 if alike else 0
        if end < self.reached:
            self.torn, self.cut = True, end if self.cut == NO_OFFSET else min(self.cut, end)
        there = {birth for entry in self.log for birth in entry.births}
        known = NO_OFFSET
        if progress is not None and progress.target_id == self.target_id:
            known = max(progress.target + 1, progress.reached.end)
        for entry in left.log[alike:]:
            if entry.cleaned or entry.header.base_offset < left.start:
                continue
            for number, source in enumerate(entry.sources):
                target = entry.header.base_offset + number
                one = Lost(entry.topic_id, source, target, self.target_id, len(self.events))
                told = entry.births[number] in self.overtaken or self._is_told(one)
                if target < known and not torn and entry.births[number] not in there and not told:
                    self.lost.append(one)
        if self.running and self.torn and (self.shared or self.chance.random() < 0.5):
            self.ask_again()
            self._die()

    def _is_told(self, lost: Lost) -> bool:
        """Whether an event has named the loss already, before a former leader brought the record back for a while.

        No event says that it came back. What the source still has, and no order leaves out, is copied again each time.
        """
        ordered_out = lost.source in self.skipped | self.left_out
        gone = lost.topic_id == self.topic_id and (lost.source < self.source_start or ordered_out)
        return gone and any(_names(event, lost) and lost.target <= event.last for event in self.events)

    def do_retain(self) -> None:
        """Not where a lane has written over a loss that no takeover has seen: nobody can tell what lay there."""
        if not self.torn:
            self.retain(self.chance.choice([0.0, 0.3, 0.7, 1.0]))
            gone = (entry for entry in self.log if entry.header.base_offset < self.start)
            self.outlived |= {birth for entry in gone for birth in entry.births}
            self.reduced = self.reduced or self.start > 0

    def do_retain_away(self) -> None:
        """A former leader's retention removes records when it starts again, before it leads."""
        if self.away:
            number = self.chance.randrange(len(self.away))
            former = self.away[number]
            left = [entry.header for entry in former.log if entry.header.base_offset >= former.start]
            count = int(self.chance.choice([0.3, 0.7]) * len(left))
            if count:
                self.away[number] = former._replace(start=left[count - 1].last_offset + 1)
                self.reduced = True

    @property
    def _rolled(self) -> int:
        progress = self.state.progress.get(PLACE)
        return NO_OFFSET if progress is None else progress.reached.end

    def do_clean(self) -> None:
        """The log cleaner of the leader runs."""
        self._clean(self.log, self._rolled)

    def do_clean_away(self) -> None:
        """The log cleaner of a former leader has removed what the others still have."""
        if self.away:
            former = self.chance.choice(self.away)
            self._clean(former.log, former.rolled)

    def _clean(self, log: list[Entry], rolled: int) -> None:
        """Where a record lies twice, the log cleaner removes the first copy first."""
        before = {entry.header.base_offset for entry in log if entry.cleaned}
        clean(log, rolled, self.chance.choice([0.2, 0.5, 1.0]), self.chance)
        left: set[int] = set()
        for entry in log:
            if not left.isdisjoint(entry.births):
                entry.cleaned = entry.header.base_offset in before
            if not entry.cleaned:
                left.update(entry.births)
        self.reduced = self.reduced or any(entry.cleaned for entry in log)

    def do_source_retention(self) -> None:
        most = min(self.position, len(self.kept))
        self.source_start = self.chance.randint(self.source_start, max(self.source_start, most))

    def do_bound(self) -> None:
        self.bound_map()

    def do_thin(self) -> None:
        thin = condense(self.state, self.ids, 0, least=1)
        self.thinned = self.thinned or bool(thin.records)
        for record in thin.records:
            self.state.take(record)
        for key in thin.void:
            self.state.forget(key)

    def do_others(self) -> None:
        if self.shared:
            self.others_write(self.chance.randint(1, 4))

    def do_late(self) -> None:
        """What a dead writer had sent to the internal topic arrives, if a fence does not keep it out."""
        self.speak_late()

    # ------------------------------------------------------------------------------------------------------ the driver

    def _begin_run(self) -> None:
        self.runs += 1
        self.first_run = self.generation
        self.writer = replace(self.writer, epoch=self.writer.epoch + 1)
        self.fenced = None
        outdated = sorted(self.state.outdated)
        for end in self.state.endings():
            self.state.take(end)
        for key in outdated:
            self.state.forget(key)

    def _die(self) -> None:
        self.running, self.rest, self.in_order = False, None, False

    def _drain(self) -> None:
        """Everything is acknowledged and published."""
        self.budget = -1
        if self.torn and self.end < self.reached:
            self.ask_again()
            self._die()
            return
        self._publish(settled=True)
        self.running = False
        self.rest = Resumed(
            position=self.position,
            writer=self.writer,
            sequence=self.sequence,
            opened=self.continues_at != NO_OFFSET,
            anew=self.anew,
            reached=UNKNOWN if self.reached == NO_OFFSET else Reached(self.reached_in, self.reached),
            last=LastRecord(*self.last, *self.first, *self.behind.before),
        )

    def _start_if_at_rest(self) -> None:
        if self.running and not self._sees_the_source():
            self._drain()
        if not self.running:
            self._plan(begin=True)

    def _must_be_taken_over(self) -> bool:
        if self.rest is not None:
            return False
        if self.fresh and self.in_order:
            return False
        progress = self.state.progress.get(PLACE)
        seen = Seen(
            progress=progress,
            mapped=len(self.state.map_of(PLACE)) > 0,
            exact_after=0 if self.in_order or progress is None else progress.generation,
            end=self.end,
            target_id=self.target_id,
            sole_writer=not self.shared,
        )
        return bool(distrust(seen))

    def _plan(self, *, begin: bool) -> None:
        """What `Planning.plan` does for one partition."""
        taken = None
        if self._must_be_taken_over():
            taken = self._take_over()
            if taken is None:
                return
        resumed = taken or self.rest
        known, order = self.state.progress.get(PLACE), next(iter(self.state.moves.values()), None)
        at = NO_OFFSET if known is None else known.position if resumed is None else resumed.position
        facts = self._facts(known, at, resumed, order)
        start = decide_start(PLACE, PLACE, facts)
        assert not isinstance(start, Stand)
        plan = start.plan
        if self.rest is not None and self.rest.opened and not plan.opened:
            self.writer = replace(self.writer, epoch=self.writer.epoch + 1)
            plan = plan.with_writer(self.writer)
        (plan,) = behind_records(self.state, self.run, [start], [plan])
        if start.event is not None and start.event not in self.events[-1:]:
            self.events.append(start.event)
        for record in first_begins(self.run, [start], [plan]):
            self.state.take(record)
        going = going_on(
            self.state,
            self.run,
            starts=[start],
            plans=[plan],
            orders={} if order is None else {PLACE: order},
            took_over=[] if taken is None else [PLACE],
            passed={PLACE: self._passed_over(known, start)},
        )
        for going_record in going.records:
            self.state.take(going_record)
        for key in going.tombstones:
            self.state.forget(key)
        left_out = start.moved and not self.state.map_of(PLACE).going_back(self.ids)
        parted = next((one.source for one in going.records if isinstance(one, Parted)), NO_OFFSET)
        parted = start.instead_of if left_out and parted == NO_OFFSET else parted
        lossless = start.only_moved and not self.lost and {each.kind for each in self.events} <= {Kind.MOVED}
        self.resets += start.anew and (taken is None or not taken.anew)
        self._account(plan, NO_OFFSET if lossless else parted, anew=start.anew)
        self.position = plan.position
        if begin:
            self._begin(plan)
        else:
            self.rest = None
            self.in_order, self.fresh = True, False

    def _facts(self, known: Progress | None, at: int, resumed: Resumed | None, order: MoveOrder | None) -> Known:
        """What is asked for before positions are decided; ``at`` is the position so far."""
        return Known(
            progress={} if known is None else {PLACE: known},
            topic_ids={PLACE.topic: self.topic_id},
            target_ids={PLACE.topic: self.target_id},
            starts={PLACE: self.source_start},
            oldest={PLACE: self.source_start},
            ends={},
            targets={PLACE.topic: _FACTS},
            writers=[self.writer],
            copied={},
            resumed={} if resumed is None else {PLACE: resumed},
            left_of={} if known is None else {PLACE: self.state.source_epoch(PLACE, at)},
            histories={PLACE: self.state.history(PLACE, self.topic_id)},
            epochs={} if known is None or known.topic_id != self.topic_id else {PLACE: self._parts(known, at)},
            log_ends={PLACE: len(self.kept)},
            newest={PLACE: self.source_epoch},
            ordered={} if order is None else {PLACE: self._sources_answer(order.leader_epoch)},
            on=self.on,
            moves={} if order is None else {PLACE: order},
        )

    def _passed_over(self, known: Progress | None, start: Start) -> tuple[SourceEpoch, ...]:
        """What `Planning._passed_over` puts on record."""
        plan, self.passed_epoch = start.plan, -1
        if known is None or not start.anew or known.topic_id not in ("", plan.topic_id):
            return ()
        one = LeftOut(
            kept=min(known.position, start.kept),
            to=plan.position,
            leader_epoch=plan.leader_epoch,
            topic_id=plan.topic_id,
        )
        if not NO_OFFSET < one.kept < one.to:
            return ()
        begun: dict[int, int] = {}
        for offset in range(max(one.kept, self.source_start), min(one.to, len(self.born))):
            begun.setdefault(self.born[offset][0], max(one.kept, offset))
        found = not_on_record(
            PLACE, one, [Begun(*each) for each in begun.items()], self.state.history(PLACE, one.topic_id)
        )
        self.passed_epoch = max([-1, *(each.epoch for each in found)])
        return found

    def _account(self, plan: PartitionPlan, parted: int, *, anew: bool) -> None:
        """What is not to be copied, and what once more, by an order or a setting."""
        self.hidden -= set(range(plan.position, len(self.kept)))
        if parted != NO_OFFSET:
            self.hidden |= set(range(parted, plan.position))
        if anew:
            self.left_out |= set(range(self.position, plan.position))
            there = set(self.copies())
            self.skipped |= {each for each in range(plan.position) if each not in there}
            self.again |= {each for each in there if each >= plan.position}
        self.skipped -= set(range(plan.position, len(self.kept)))

    def _begin(self, plan: PartitionPlan) -> None:
        goes_on = plan.opened and self.rest is not None
        self.running, self.rest, self.in_order, self.fresh = True, None, False, False
        self.writer, self.anew = plan.writer, plan.anew
        self.read_epoch = plan.leader_epoch
        self.epoch_met = max(plan.epoch_on_record, self.passed_epoch)
        if not goes_on:
            self.begin(plan.position, anew=plan.anew, behind=plan.last)
            self.sequence = 0 if plan.anew else self.first_sequence
        self.reached_in, self.reached = plan.reached

    def _take_over(self) -> Resumed | None:
        """What `Takeover.take_over` does for one partition; None where its driver dies over it."""
        self.fence(other_id=self.chance.random() < 0.1 and not self.leaders_return)
        decision, tail = self.decided()
        assert not isinstance(decision, Stuck | ReadFrom), decision
        progress = self.state.progress.get(PLACE)
        position, event = decision.position, decision.event
        if isinstance(decision, Begin) and progress is not None and progress.target_id not in ("", self.target_id):
            position, event = progress.position, None
        resumed = Resumed(
            position=position,
            writer=self.writer,
            event=event,
            anew=decision.anew,
            reached=tail.reached,
            last=last_before(decision),
        )
        dies = self.chance.random()
        written = taken_over(self.state, self.run, {PLACE: resumed}, [decision] if isinstance(decision, Resume) else [])
        self.in_order = self.in_order and dies >= 0.15
        if dies < 0.07:
            return None
        for record in written.records:
            self.state.take(record)
        for key in written.tombstones:
            self.state.forget(key)
        self.events += [event] if event is not None else []
        if dies < 0.15:
            return None
        self.writer = resumed.writer
        self.torn, self.cut = False, NO_OFFSET
        return resumed

    # ------------------------------------------------------------------------------------------------ what is promised

    def _mine(self) -> Iterable[Entry]:
        return (entry for entry in self.log if entry.topic_id == self.topic_id)

    def _is_there(self, entry: Entry, number: int) -> bool:
        """Whether the source still has what was copied."""
        source = entry.sources[number]
        return source < len(self.born) and entry.births[number] == self.born[source][1]

    def copies(self, since: int = 0, *, cleaned: bool = True) -> dict[int, list[int]]:
        """Target offsets of the records of the present source topic, by source offset.

        Args:
            since: the first target offset that counts.
            cleaned: whether those count that the log cleaner has removed.
        """
        found: dict[int, list[int]] = defaultdict(list)
        for entry in self._mine():
            if entry.header.base_offset < since or (entry.cleaned and not cleaned):
                continue
            for number, source in enumerate(entry.sources):
                if self._is_there(entry, number):
                    found[source].append(entry.header.base_offset + number)
        return dict(found)

    def problems(self, *, ended: bool) -> list[str]:
        """What is not as promised.

        Args:
            ended: whether everything that the source has is to be on the target by now.
        """
        copies = self.copies()
        found = list(self._translations())
        said_twice = any("there twice" in event.text for event in self.events)
        left = self.copies(cleaned=False)
        twice = sorted(source for source, targets in left.items() if len(targets) > 1)
        unordered = [source for source in twice if source not in self.again]
        if unordered and not said_twice:
            found.append(f"source offsets {unordered} are there twice")
        if ended:
            counted = {*copies, *self.skipped, *self.hidden}
            missing = [
                source
                for source in range(self.source_start, len(self.kept))
                if self.kept[source] and source not in counted and self.born[source][1] not in self.outlived
            ]
            if missing:
                found.append(f"source offsets {missing} are missing")
            found += [*self._untold(), *self._disorder(left)]
        return found

    def _disorder(self, left: dict[int, list[int]]) -> Iterable[str]:
        """What comes last of each record is in the order of the source, unless orders went to and fro.

        Where the target has lost the last copy of what the source has deleted, an earlier one may be left.
        """
        if any(event.kind is Kind.MOVED for event in self.events):
            return
        last = sorted((max(targets), source) for source, targets in left.items() if source >= self.source_start)
        for (before, one), (target, other) in pairwise(last):
            if other < one:
                yield f"source offset {other} lies at {target}, behind source offset {one} at {before}"

    def _untold(self) -> list[str]:
        untold = []
        for lost in self.lost:
            known = any(event.kind is Kind.TARGET_TAIL_LOST for event in self.events[: lost.events])
            if lost.target_id != self.target_id or (known and self.topic_id != lost.topic_id):
                continue  # what came in the place of a loss is superseded already
            if known and self.copies().get(lost.source):
                continue  # it was to be copied again anyway
            later = self.events[lost.events :]
            if not any(_names(event, lost) or _leaves_out(event, lost) for event in later):
                untold.append(f"the loss of source offset {lost.source} of {lost.topic_id} is not reported: {lost}")
        return untold

    def _translations(self) -> Iterable[str]:
        """A group at a source offset must find, from where it is put, all behind that; and no other record first.

        A place that is called not exact may lie before the right one, as where points are gone with what they were of.
        One that the cleaner has emptied counts as its record's, of which a newer copy may be further on.
        """
        progress = self.state.progress.get(PLACE)
        if progress is None or progress.topic_id != self.topic_id or progress.target_id != self.target_id:
            return
        offsets = self.state.map_of(PLACE).offsets(progress, self.ids)
        lost = any(event.kind is Kind.TARGET_TAIL_LOST for event in self.events)
        left_out = self.hidden | self.left_out if lost else self.hidden
        places, copies = self.copies(self.start), self.copies(self.start, cleaned=False)
        copies = {source: targets for source, targets in copies.items() if source not in left_out}
        newest = {source: max(targets) for source, targets in copies.items()}
        least, behind = 1 << 60, {}
        for source in sorted(newest, reverse=True):
            least = min(least, newest[source])
            behind[source] = least
        # Where places were gone from the log before anybody knew them, what lies there is not known exactly.
        following, gone = None, self.reduced or any(entry.cleaned for entry in self.log)
        # Nothing says how far an epoch got in a target topic that was deleted, so what an order leaves is not exact.
        another = self.target_id != "t1" and self.resets > 1
        for source in range(max(len(self.kept), 1), -1, -1):
            following = behind.get(source, following)
            if source < self.source_start:
                continue
            target = offsets.source_to_target(source)
            if target is None:
                continue
            if following is not None and target > following:
                yield f"a group at source offset {source} is put to {target} and misses what lies at {following}"
            exact = source not in self.left_out and offsets.is_exact(source)
            if not self.thinned and not gone and not another and not offsets.is_exact(source):
                yield f"a group at source offset {source} is not put to {target} exactly"
            if exact and source in copies and target >= self.start and target not in places[source]:
                yield f"a group at source offset {source} is put to {target}, and its record is at {copies[source]}"
        yield from self._claims(offsets)

    def _claims(self, offsets: OffsetMap) -> Iterable[str]:
        """What the map says that the flow has put somewhere must be there, and lead back to itself."""
        there = {
            entry.header.base_offset + number: (entry, number)
            for entry in self.log
            for number in range(entry.header.last_offset - entry.header.base_offset + 1)
        }
        for target in range(self.start, self.end):
            if not offsets.has(target, target) or not offsets.is_exact_back(target):
                continue
            entry, number = there[target]
            if not entry.sources:
                yield f"the map has a record at target offset {target}, where somebody else's lies"
            elif (
                entry.topic_id == self.topic_id
                and self._is_there(entry, number)
                and offsets.target_to_source(target) != entry.sources[number]
            ):
                yield f"target offset {target} leads to {offsets.target_to_source(target)}, not {entry.sources[number]}"


def _names(event: Event, lost: Lost) -> bool:
    """Whether a loss is reported by target offsets, or by source offsets where a former leader's log has others."""
    if event.kind is not Kind.TARGET_TAIL_LOST:
        return False
    named = re.search(r"source offsets (\d+) to (\d+)", event.text)
    return event.first <= lost.target or (named is not None and int(named[1]) <= lost.source <= int(named[2]))


def _leaves_out(event: Event, lost: Lost) -> bool:
    """Whether the event of an order names the record among those that are not copied."""
    return event.kind is Kind.MOVED and event.first <= lost.source <= event.last


def holes(chance: Random, count: int, first: int, every: int) -> list[bool]:
    """Which offsets have records: those but each n-th, as with transactions of one size, or some by chance."""
    if every:
        return [(first + number) % every > 0 for number in range(count)]
    return [chance.random() < 0.8 for _ in range(count)]


def steps(chance: Random, count: int, weights: dict[str, float]) -> list[Step]:
    """A story of chance."""
    names = chance.choices(list(weights), list(weights.values()), k=count)
    return [Step(name, chance.randrange(1 << 32)) for name in names]


def tell(story: Story, plot: Iterable[Step]) -> list[str]:
    """Has a story happen, to its end; gives what is not as promised, with the step after which that was seen."""
    for number, step in enumerate(plot):
        story.do(step)
        if story.running and story.budget == -1:
            problems = story.problems(ended=False)
            if problems:
                return [f"after step {number}, {step}: {problems[0]}"]
    for seed in range(20):
        story.do(Step("finish", seed))
        if story.running and story.position == len(story.kept) and not story.torn:
            break
    else:
        return ["the copy does not come to its end"]
    return story.problems(ended=True)
