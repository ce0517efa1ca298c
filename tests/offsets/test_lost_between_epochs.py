"""An internal topic that has lost the begin of a writer epoch, or all of it: nothing is skipped, or wrong and exact."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sparkmirror.model import (
    NO_OFFSET,
    NO_RECORD,
    NOTHING_BEFORE,
    WENT_ON,
    Began,
    CopiedBefore,
    LastRecord,
    TopicPartition,
    Writer,
)
from sparkmirror.offsets.bounds import Starts, bound
from sparkmirror.offsets.inherited import Inherited
from sparkmirror.offsets.map import OffsetMap
from sparkmirror.offsets.records import Progress, Record, parse
from sparkmirror.offsets.segments import Bounded, Opening, Segments, Targets, segments_of, targets_of
from sparkmirror.offsets.state import JournalState
from sparkmirror.offsets.translation import NotYet, Place, Reason, Translated, translate, translate_back

PLACE = TopicPartition("orders", 0)
IDS = (7,)


def read(journal: Sequence[Record | str]) -> JournalState:
    """What a reader knows of records and tombstones; both go through their text."""
    state = JournalState()
    for entry in journal:
        if isinstance(entry, str):
            state.forget(entry)
        else:
            record = parse(entry.key, entry.value())
            assert record is not None
            state.take(record)
    return state


@dataclass(slots=True)
class Flow:
    """One partition that is copied by one epoch after the other, among what others write, with its internal topic.

    Attributes:
        lies: source and target offset of each copied record.
        anew: whether the epoch began anew.
    """

    chance: Random
    journal: list[Record | str] = field(default_factory=list)
    lies: list[tuple[int, int]] = field(default_factory=list)
    writer: Writer = field(default_factory=lambda: Writer(producer_id=7, epoch=0))
    last: LastRecord = NO_RECORD
    source: int = 0
    target: int = 0
    sequence: int = 0
    anew: bool = False
    began: Began = WENT_ON

    def begin(self) -> None:
        """A run begins: what only old progress tells is put on record, and a marker is written to the copy."""
        state = read(self.journal)
        self.journal += [*state.endings(), *sorted(state.outdated)]
        self.writer = replace(self.writer, epoch=self.writer.epoch + 1)
        self.anew = self.anew and self.last.sequence < 0
        self.last, self.sequence, self.began = self.last.only_before(), 0, WENT_ON
        self.target += 1
        if self.chance.random() < 0.3:
            self.publish()

    def answer(self) -> None:
        """Some batches with holes before them, and others' records."""
        openings, settled = list[Opening](), list[Opening]()
        for _ in range(self.chance.randint(1, 3)):
            count = self.next_records()
            self.target += self.chance.choice((0, 0, 0, 1, 3))
            behind = self.last.before[1:] if self.last.sequence < 0 else (self.last.source, self.last.target)
            if self.last.sequence < 0 or self.source != behind[0] + 1:
                openings.append(Opening(self.sequence, self.source, behind[0]))
            if self.last.sequence < 0 or self.target != behind[1] + 1:
                settled.append(Opening(self.sequence, self.target, behind[1]))
            first = self.last.first if self.last.sequence >= 0 else (self.source, self.target)
            self.lies += [(self.source + number, self.target + number) for number in range(count)]
            self.source, self.target = self.source + count, self.target + count
            self.sequence += count
            self.last = LastRecord(self.sequence - 1, *self.lies[-1], *first, *self.last.before)
        if openings:
            self.journal.append(segments_of(PLACE, self.writer, openings, unguarded=False, anew=self.anew))
        if settled:
            self.journal.append(targets_of(PLACE, self.writer, settled))
        if self.chance.random() < 0.8:
            self.publish()

    def next_records(self) -> int:
        """Goes on to the next records of the source; gives how many lie side by side there."""
        self.source += self.chance.choice((0, 0, 1, 2))
        return self.chance.randint(1, 6)

    def publish(self, inherited: CopiedBefore = NOTHING_BEFORE, *, settled: bool = True) -> None:
        last = self.last
        self.journal.append(
            Progress(
                partition=PLACE,
                writer=self.writer,
                generation=self.writer.epoch,
                position=self.source,
                next_sequence=self.sequence,
                sequence=last.sequence,
                source=last.source,
                target=last.target,
                first=last.first,
                before=last.before,
                inherited=inherited,
                began=self.began,
                settled=settled,
                anew=self.anew,
                topic_id="s",
                target_id="t",
            )
        )

    def run(self, answers: int) -> None:
        self.begin()
        for _ in range(answers):
            self.answer()
        self.publish()

    def map(self) -> OffsetMap:
        state = read(self.journal)
        return state.map_of(PLACE).offsets(state.progress[PLACE], IDS)


def check(flow: Flow) -> int:
    """Nothing leads too far, what is called exact is, and gives how many translations are none or not called exact."""
    mapped, unsure = flow.map(), 0
    for source, target in flow.lies:
        for found, right in ((translate(mapped, source), target), (translate_back(mapped, target), source)):
            if isinstance(found, NotYet):
                unsure += 1
                continue
            assert found.offset <= right
            assert found.offset == right or not found.place.exact
            unsure += not found.place.exact
    return unsure


@settings(max_examples=150, deadline=None)
@given(st.randoms(use_true_random=False), st.integers(1, 4), st.integers(1, 12))
def test_no_loss_leads_a_group_too_far_or_is_called_exact(chance: Random, epochs: int, at: int):
    """The topic loses its end once, and the flow goes on: within an epoch, or after a later one has begun."""
    flow = Flow(chance)
    for _ in range(epochs):
        flow.begin()
        for _ in range(chance.randint(1, 5)):
            flow.answer()
            at -= 1
            if at == 0:
                del flow.journal[chance.randint(1, len(flow.journal)) :]
        flow.publish()
        check(flow)
    if at > 0:
        assert check(flow) == 0, "nothing was lost"


def test_the_first_records_of_an_epoch_are_lost():
    flow = Flow(Random(5))
    flow.run(2)
    before, copied = len(flow.journal), len(flow.lies)
    flow.run(3)
    del flow.journal[before:]
    flow.answer()
    flow.publish()
    mapped = flow.map()
    source, target = flow.lies[copied + 2]
    found = translate(mapped, source)
    assert isinstance(found, Translated)
    assert flow.lies[copied - 1][1] < found.offset <= target
    assert not found.place.exact
    assert translate(mapped, flow.lies[copied - 1][0]) == Translated(flow.lies[copied - 1][1], Place.RECORD)
    assert translate(mapped, flow.lies[-1][0]) == Translated(flow.lies[-1][1], Place.RECORD)
    flow.run(1)  # which has nothing but the records of the one before, and what its progress had told
    assert translate(flow.map(), source) == found


def test_all_of_an_epoch_is_lost_and_the_next_one_has_sent_nothing():
    flow = Flow(Random(6))
    flow.run(2)
    before, copied = len(flow.journal), len(flow.lies)
    flow.run(2)
    del flow.journal[before:]
    flow.begin()
    flow.publish()
    mapped = flow.map()
    for source, _ in flow.lies[copied:]:
        assert translate(mapped, source) == Translated(flow.lies[copied - 1][1] + 1, Place.THINNED)
    assert check(flow) > 0


def test_progress_that_is_older_than_the_map_does_not_end_its_epoch():
    flow = Flow(Random(6))
    flow.run(1)
    old = flow.journal[-1]
    flow.answer()
    flow.target += 1
    flow.answer()
    flow.journal = [*(one for one in flow.journal if not isinstance(one, Progress)), old]
    flow.run(2)
    flow.run(1)
    ends = [one for one in flow.journal if isinstance(one, Targets) and one.target < 0 and one.writer.epoch == 1]
    assert not ends
    check(flow)


@pytest.mark.parametrize("seed", range(20))
def test_progress_of_a_lane_that_was_at_work_is_no_end_of_its_epoch(seed: int):
    """It is the newest of the epoch that is left; the next one goes on."""
    flow = Flow(Random(seed))
    flow.begin()
    flow.answer()
    flow.answer()
    flow.publish(settled=False)
    kept = len(flow.journal)
    flow.answer()
    flow.answer()
    flow.publish()
    flow.run(1)
    del flow.journal[kept:]
    flow.answer()
    flow.publish()
    check(flow)
    flow.run(1)
    check(flow)


def test_an_epoch_whose_lane_died_before_its_first_progress_names_what_it_came_after():
    """Its segments, which are written ahead, say so; the takeover has put its places on record."""
    flow = Flow(Random(5))
    flow.run(2)
    kept = len(flow.journal)
    flow.answer()
    flow.answer()
    flow.publish()
    flow.begin()
    del flow.journal[kept:]
    flow.answer()
    written = [one for one in flow.journal[kept:] if isinstance(one, Segments | Targets)]
    placed = [replace(one, after=NO_OFFSET) if isinstance(one, Targets) else one for one in written]
    end = Targets(partition=PLACE, writer=flow.writer, sequence=flow.sequence, target=NO_OFFSET)
    flow.journal = [*flow.journal[:kept], *placed, end]
    flow.run(2)
    check(flow)


def test_the_only_epoch_before_is_lost():
    flow = Flow(Random(7))
    flow.run(2)
    flow.journal.clear()
    flow.run(2)
    assert translate(flow.map(), flow.lies[0][0]) == Translated(0, Place.THINNED)
    assert translate_back(flow.map(), flow.lies[0][1]) == Translated(0, Place.THINNED)
    check(flow)


@pytest.mark.parametrize("epochs", [1, 2, 5])
def test_what_both_logs_have_lost_is_not_lost_from_the_map(epochs: int):
    flow = Flow(Random(8))
    for _ in range(epochs):
        flow.run(12)
    start, copy = flow.lies[-3]
    keys = bound(read(flow.journal), {PLACE: Starts(start, copy)}, IDS)
    assert keys
    flow.journal = [Bounded(partition=PLACE, source=start, target=copy), *flow.journal, *keys]
    flow.journal = [one for one in flow.journal if isinstance(one, str) or one.key not in keys]
    flow.lies = flow.lies[-3:]
    assert check(flow) == 0
    mapped = flow.map()
    assert not mapped.lacks_begin
    assert not read(flow.journal).map_of(PLACE).lost(IDS)


INHERITED = Inherited(
    partition=PLACE, spans=((0, 90),), end=95, points=((40, 45),), time_ms=1, source_id="s", target_id="t"
)


def copied_after_mirror_maker(*, lost: bool) -> JournalState:
    flow = Flow(Random(9), source=92, target=96)
    flow.begin()
    flow.answer()
    flow.journal = [one for one in flow.journal if isinstance(one, Segments | Targets)]
    flow.publish(INHERITED.bounds)
    return read(flow.journal if lost else [INHERITED, *flow.journal])


@pytest.mark.parametrize("committed", [0, 39, 60, 89])
def test_a_group_in_what_mirror_maker_had_copied_is_not_put_behind_it_when_the_record_of_that_is_lost(committed: int):
    whole, lost = (copied_after_mirror_maker(lost=lost) for lost in (False, True))
    assert whole.inherited == {PLACE: INHERITED}
    mapped = lost.map_of(PLACE).offsets(lost.progress[PLACE], IDS)
    assert translate(mapped, committed, lost.inherited[PLACE]) == NotYet(Reason.BEFORE_SYNCS)
    back = translate_back(mapped, committed + 5, lost.inherited[PLACE])
    assert back == Translated(0, Place.APPROXIMATE)


def test_the_end_of_what_mirror_maker_had_copied_is_known_when_the_record_of_that_is_lost():
    lost = copied_after_mirror_maker(lost=True)
    empty = JournalState().map_of(PLACE).offsets(None, IDS)
    assert translate(empty, 90, lost.inherited[PLACE]) == Translated(95, Place.TAKEN_OVER)


def test_a_later_time_of_mirror_maker_that_is_lost_leaves_the_points_of_an_earlier_one():
    lost = copied_after_mirror_maker(lost=True)
    earlier = replace(INHERITED, spans=((0, 50),), end=55)
    lost.take(earlier)
    found = lost.inherited[PLACE]
    assert (found.bounds, found.points) == (INHERITED.bounds, earlier.points)
    assert found.translate(60) == 46
