"""Fewer and smaller records of the offset map, against the plain list of where each record lies."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from random import Random

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from sparkmirror.model import NO_OFFSET, TopicPartition, Writer
from sparkmirror.offsets.condensing import LARGEST, NEIGHBOURS, committed, condense, size_of
from sparkmirror.offsets.group_records import ExactTarget, GroupSeen
from sparkmirror.offsets.map import OffsetMap
from sparkmirror.offsets.records import Progress
from sparkmirror.offsets.segments import MapRecord, Opening, Targets, segments_of, targets_of
from sparkmirror.offsets.state import JournalState
from sparkmirror.offsets.translation import Place, Translated, exact, translate, translate_back

PLACE = TopicPartition("orders", 0)
WRITER = Writer(producer_id=7, epoch=1)
IDS = (7,)
BIG = 1 << 40


@dataclass
class Copy:
    """A partition that is copied answer by answer: a record of the map for each.

    Attributes:
        lies: source and target offset of each record, in order.
    """

    chance: Random
    state: JournalState = field(default_factory=JournalState)
    lies: list[tuple[int, int]] = field(default_factory=list)
    source: int = 0
    target: int = 0

    def go_on(self, answers: int, *, others: bool = False, shape: tuple[int, int] = (20, 3)) -> None:
        for _ in range(answers):
            for record in self.answer(others=others, shape=shape):
                self.state.take(record)
        self.acknowledge(len(self.lies))

    def answer(self, *, others: bool = False, shape: tuple[int, int] = (20, 3)) -> list[MapRecord]:
        """What a lane writes of one answer that was copied."""
        openings, begin = [], len(self.lies)
        if others or not begin:
            self.target += 3
        there, before = self.target, self.lies[-1][1] if self.lies else NO_OFFSET
        for _ in range(self.chance.randint(1, 5)):
            self.source += self.chance.randint(1, shape[1])
            after = self.lies[-1][0] if self.lies else NO_OFFSET
            openings.append(Opening(len(self.lies), self.source, after))
            for _ in range(self.chance.randint(1, shape[0])):
                self.lies.append((self.source, self.target))
                self.source, self.target = self.source + 1, self.target + 1
        segments = segments_of(PLACE, WRITER, openings, unguarded=False, anew=False)
        targets = [targets_of(PLACE, WRITER, [Opening(begin, there, before)])] if others or not begin else []
        return [segments, *targets]

    def acknowledge(self, records: int) -> None:
        self.state.take(self.progress(records))

    def progress(self, records: int) -> Progress:
        """So many records are acknowledged."""
        source, target = self.lies[records - 1]
        return Progress(
            partition=PLACE,
            writer=WRITER,
            generation=1,
            position=source + 1,
            next_sequence=records,
            sequence=records - 1,
            source=source,
            target=target,
        )

    def condense(self, budget: int = BIG, **how: int) -> int:
        """Does what is to be done until nothing is; gives how many records were written."""
        written = 0
        while (found := condense(self.state, IDS, budget, **how)) != ((), ()):
            for record in found.records:
                self.state.take(record)
            for key in found.void:
                self.state.forget(key)
            written += len(found.records)
        return written

    def map(self, points: dict[int, int] | None = None, writer: Writer = WRITER) -> OffsetMap:
        kept = {(source, writer): target for source, target in (points or {}).items()}
        return self.state.map_of(PLACE).offsets(self.state.progress[PLACE], IDS, kept)

    def check(self, *, most: int = 300) -> None:
        """All is exact, both ways, at so many places."""
        mapped, following = self.map(), (self.lies[-1][1] + 1)
        by_source = dict(self.lies)
        some = set(self.chance.sample(range(self.source), min(most, self.source)))
        for source in range(self.lies[-1][0], self.lies[0][0] - 1, -1):
            following = by_source.get(source, following)
            if source in some:
                assert mapped.source_to_target(source) == following
                assert mapped.is_exact(source)
                assert mapped.mirrored(source) == (source in by_source)
        for source, target in self.chance.sample(self.lies, min(most, len(self.lies))):
            assert mapped.target_to_source(target) == source


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**32).map(Random), st.booleans(), st.integers(2, 8))
def test_joined_records_say_what_each_of_them_said(chance, others, neighbours):
    copy = Copy(chance)
    for answers in (chance.randint(1, 30), chance.randint(0, 30), chance.randint(0, 3)):
        copy.go_on(answers, others=others)
        copy.condense(neighbours=neighbours)
        copy.check()
    assert len(copy.state.map_of(PLACE)) < 6 * neighbours


def test_a_record_behind_which_points_are_missing_is_joined_with_no_other():
    """The line would lead straight on over what the log cleaner has removed, or nothing before it would be exact."""
    copy = Copy(Random(0), lies=[(source, source + 2 * (source > 9)) for source in range(11)])
    copy.state.take(segments_of(PLACE, WRITER, [Opening(0, 0)], unguarded=False, anew=False))
    for sequence, target, torn in ((0, 0, False), (5, 5, False), (10, 12, True), (20, 30, False)):
        copy.state.take(Targets(partition=PLACE, writer=WRITER, sequence=sequence, target=target, torn=torn))
    copy.lies += [(source, source + 10) for source in range(20, 30)]
    copy.state.take(replace(copy.progress(len(copy.lies)), sequence=29))
    before = copy.map()
    assert copy.condense(neighbours=2)
    after = copy.map()
    assert [after.source_to_target(source) for source in range(30)] == [
        before.source_to_target(source) for source in range(30)
    ]
    assert [source for source in range(30) if not after.is_exact(source)] == [*range(11, 20)]


def test_what_is_not_acknowledged_yet_is_left_to_the_lane():
    copy = Copy(Random(1))
    copy.go_on(40)
    copy.acknowledge(5)
    assert condense(copy.state, IDS, BIG) == ((), ())
    copy.state.progress.clear()
    assert condense(copy.state, IDS, 0) == ((), ()), "nothing is known of it"


def test_ten_thousand_answers_are_few_records_of_bounded_size():
    copy = Copy(Random(2))
    for _ in range(10):
        copy.go_on(1_000, shape=(20, 40))
        copy.condense()
    pieces = copy.state.map_of(PLACE).pieces(WRITER)
    assert pieces is not None
    blocks = [block for _, block in pieces.sources.blocks()]
    assert len(blocks) < 5 * NEIGHBOURS
    assert all(len(block.holes.packed) <= LARGEST for block in blocks)
    copy.check()


def test_regular_holes_are_one_small_record_however_many():
    copy = Copy(Random(3))
    copy.go_on(5_000, shape=(1, 1))
    copy.condense()
    assert size_of(copy.state) < 200
    assert len(copy.state.map_of(PLACE)) < 2 * NEIGHBOURS
    copy.check()


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**32).map(Random), st.integers(10, 150), st.booleans())
@example(Random(1402), 10, True)  # both lines are thinned where a group was seen
def test_where_the_map_was_thinned_nothing_is_skipped_and_little_read_again(chance, budget, others):
    copy = Copy(chance)
    copy.go_on(chance.randint(20, 60), others=others)
    copy.condense(neighbours=4)
    seen = {source: target for source, target in copy.lies if chance.random() < 0.1}
    full, before = size_of(copy.state), copy.map()
    found = condense(copy.state, IDS, budget, least=8)
    for record in found.records:
        copy.state.take(record)
    assert size_of(copy.state) <= full
    mapped, following = copy.map(seen), copy.lies[-1][1] + 1
    by_source = dict(copy.lies)
    for source in range(copy.lies[-1][0], copy.lies[0][0] - 1, -1):
        following = by_source.get(source, following)
        told = translate(mapped, source)
        assert isinstance(told, Translated)
        assert told.offset <= following, "nothing is skipped"
        assert told.offset == following or told.place is Place.THINNED
        assert source not in seen or told.offset == following, "what a group was seen at stays exact"
    for source, target in copy.lies:
        back = translate_back(mapped, target)
        assert isinstance(back, Translated)
        assert back.offset <= source
        assert back.offset == source or back.place is Place.THINNED
    assert {stretch[:2] for stretch in mapped.settled()} <= {(source, target) for source, target in copy.lies}, (
        "what is told to others is exact"
    )
    assert mapped.end() == before.end()
    assert mapped.count(0, copy.source) == len(copy.lies)


def test_thinning_begins_below_what_groups_need_and_spares_what_a_takeover_needs():
    copy = Copy(Random(4))
    for _ in range(16):
        copy.go_on(500, shape=(10, 40))
        copy.condense()
    half = copy.lies[len(copy.lies) // 2][0]
    copy.state.take(GroupSeen(group="g", topic=PLACE.topic, offsets={0: (half, "")}, time_ms=1))
    full = size_of(copy.state)
    copy.condense(int(0.95 * full))
    assert 0.4 * full < size_of(copy.state) <= 0.95 * full
    mapped = copy.map()
    some = [source for source, _ in copy.chance.sample(copy.lies, 2_000)]
    assert all(mapped.is_exact(source) for source in some if source >= half)
    assert not all(mapped.is_exact(source) for source in some if source < half)
    condensed = copy.condense(1)
    assert condensed, "all the rest, again and again"
    pieces = copy.state.map_of(PLACE).pieces(WRITER)
    assert pieces is not None
    assert size_of(copy.state) < 0.1 * full


def test_the_record_of_the_map_that_ends_with_the_last_acknowledged_one_stays_exact():
    copy = Copy(Random(8))
    copy.go_on(200, shape=(10, 40))
    copy.condense()
    copy.condense(1, least=1)
    pieces = copy.state.map_of(PLACE).pieces(WRITER)
    assert pieces is not None
    *_, (begin, _) = pieces.sources.blocks()
    assert begin < len(copy.lies) - 2
    assert all(pieces.is_exact(count) for count in range(begin, len(copy.lies)))
    assert not pieces.is_exact(begin // 2)


def test_where_groups_stand_at_the_beginning_target_offsets_are_thinned_first():
    copy = Copy(Random(7))
    copy.go_on(500, others=True, shape=(10, 40))
    copy.condense()
    copy.state.take(GroupSeen(group="g", topic=PLACE.topic, offsets={0: (copy.lies[0][0], "")}, time_ms=1))
    pieces = copy.state.map_of(PLACE).pieces(WRITER)
    assert pieces is not None
    sources, targets = pieces.sources.size, pieces.targets.size
    copy.condense(sources + targets - 1, least=1)
    assert pieces.sources.size == sources
    assert pieces.targets.size < targets


def test_a_point_that_a_thinned_map_contradicts_does_not_count():
    """The target lost its tail, and the record lies elsewhere now."""
    copy = Copy(Random(5))
    copy.go_on(200, shape=(10, 40))
    copy.condense()
    copy.condense(1, least=1)
    source, target = next(each for each in copy.lies[100:] if not copy.map().is_exact(each[0]))
    assert copy.map({source: target}).source_to_target(source) == target
    for wrong in (0, copy.lies[-1][1]):
        told = copy.map({source: wrong}).source_to_target(source)
        assert told is not None
        assert told <= target


def test_a_point_of_another_writer_epoch_does_not_count():
    """The target lost its tail, and the record was copied again: it may lie where the thinned map allows it, or not."""
    copy = Copy(Random(5))
    copy.go_on(200, shape=(10, 40))
    copy.condense()
    before = {source: exact(copy.map(), source) for source, _ in copy.lies[:200]}
    copy.condense(1, least=1)
    source, target = next(each for each in copy.lies[100:200] if not copy.map().is_exact(each[0]))
    assert before[source] == ExactTarget(target, WRITER)
    plain, kept = (translate(copy.map(points), source) for points in ({}, {source: target}))
    assert kept == Translated(target, Place.RECORD)
    assert isinstance(plain, Translated)
    assert (plain.place, plain.offset < target) == (Place.THINNED, True)
    torn = copy.map({source: target}, writer=Writer(producer_id=7, epoch=0))
    assert translate(torn, source) == plain
    assert exact(torn, source) is None


def test_a_target_offset_on_record_counts_for_the_epoch_that_it_was_seen_under():
    older = Writer(producer_id=7, epoch=0)
    rows = {0: (5, ""), 1: (5, ""), 2: (9, "")}
    targets = {0: ExactTarget(50, WRITER), 1: ExactTarget(60, older)}
    seen = GroupSeen(group="g", topic=PLACE.topic, offsets=rows, time_ms=1, targets=targets)
    other = replace(seen, group="h", targets={0: ExactTarget(40, older)})
    state = JournalState(groups={one.key: one for one in (seen, other)})
    assert committed(state, {PLACE: None}) == {PLACE: {(5, WRITER): 50, (5, older): 40}}


@pytest.mark.parametrize("answers", [0, 1, 7])
def test_few_records_are_left_as_they_are(answers):
    copy = Copy(Random(6))
    if answers:
        copy.go_on(answers)
    assert copy.condense() == 0
