"""What records of both sides say of a translated offset: by cases, and by logs that are made at random."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparkmirror.batches import HEADER_NAME
from sparkmirror.failover.verifying import Aim, Finding, Question, Seen, Verdict, difference, judge
from sparkmirror.model import NO_OFFSET
from sparkmirror.offsets.map import OffsetMap
from sparkmirror.offsets.translation import Place, Translated, translate
from tests.failover.logs import HERE, SOURCE_ID, THERE, Side, answer, copied, record
from tests.offsets.segments import offset_map

MAP = offset_map([(100, 10, 5), (110, 15, 5), (120, 25, 5)], 130)
"""Source 100-104 lies at 10-14, 110-114 at 15-19, 120-124 at 25-29: others wrote 20-24. Nothing lies behind 124."""

RECORDS = {offset: record(offset) for start in (100, 110, 120) for offset in range(start, start + 5)}


def question(committed: int, shift: int = 0, offsets: OffsetMap = MAP) -> Question:
    result = translate(offsets, committed)
    assert isinstance(result, Translated)
    return Question(HERE, THERE, committed, result.offset + shift, result.place)


def both(
    without: tuple[int, ...] = (), lost: tuple[int, ...] = (), more: Mapping[int, Seen] | None = None
) -> tuple[Side, Side]:
    """The logs, without some records of the source, and of the target, and with more of the source."""
    _, there = copied(MAP, RECORDS)
    alien = {offset: record(offset, b"somebody else's") for offset in range(20, 25)}
    source = {offset: seen for offset, seen in (RECORDS | dict(more or {})).items() if offset not in without}
    target = {offset: seen for offset, seen in (dict(there.records) | alien).items() if offset not in lost}
    return Side(source, 90, 130), Side(target, 0, there.end)


@pytest.mark.parametrize(
    ("committed", "without", "lost", "compared"),
    [
        pytest.param(102, (), (), (102, 12), id="the record itself"),
        pytest.param(106, (), (), (110, 15), id="in a hole: the next that exists"),
        pytest.param(115, (), (), (120, 25), id="before others' records: the next of the mirror"),
        pytest.param(90, (), (), (100, 10), id="before all that was mirrored"),
        pytest.param(102, (102, 103), (), (104, 14), id="compacted at the source since"),
        pytest.param(104, (104,), (), (110, 15), id="compacted at the source up to the next stretch"),
        pytest.param(102, (), (12, 13), (104, 14), id="compacted on the target since"),
        pytest.param(102, (103,), (12,), (104, 14), id="compacted on both sides, differently"),
        pytest.param(113, (113, 114), (18, 19), (120, 25), id="compacted, and others' records follow"),
    ],
)
def test_the_next_record_that_is_there_on_both_sides_is_compared(committed, without, lost, compared):
    found = answer(question(committed), MAP, *both(without, lost))
    assert (found.verdict, found.source, found.target) == (Verdict.VERIFIED, *compared), found
    assert not found.before
    assert found.left_out == NO_OFFSET


@pytest.mark.parametrize("committed", [125, 127, 130])
def test_of_a_group_that_has_read_everything_the_last_mirrored_record_is_compared(committed):
    found = answer(question(committed), MAP, *both())
    assert (found.verdict, found.source, found.target, found.before) == (Verdict.VERIFIED, 124, 29, True)


@pytest.mark.parametrize("shift", [-1, 1, 3])
@pytest.mark.parametrize("committed", [101, 106, 111, 124, 127])
def test_a_translation_that_is_beside_the_record_is_wrong(committed, shift):
    found = answer(question(committed, shift), MAP, *both())
    assert found.verdict is Verdict.WRONG, found
    assert found.detail


@pytest.mark.parametrize("shift", [-1, 1])
@pytest.mark.parametrize("committed", [101, 111, 125])
def test_a_map_that_is_beside_the_records_is_wrong(committed, shift):
    shifted = offset_map([(100, 10 + shift, 5), (110, 15 + shift, 5), (120, 25 + shift, 5)], 130)
    found = answer(question(committed, offsets=shifted), shifted, *both())
    assert found.verdict is Verdict.WRONG, found


@pytest.mark.parametrize(
    ("committed", "begins", "text"),
    [
        (102, (103, 0), "orders-0 begins at 103"),
        (80, (90, 0), "orders-0 begins at 90"),
        (102, (0, 13), "A.orders-0 begins at 13"),
        (125, (125, 0), "orders-0 begins at 125"),
        (125, (0, 30), "A.orders-0 begins at 30"),
    ],
)
def test_what_retention_took_cannot_be_verified(committed, begins, text):
    here, there = both()
    end = max(there.end, begins[1] + 1)
    found = answer(question(committed), MAP, replace(here, start=begins[0]), replace(there, start=begins[1], end=end))
    assert (found.verdict, found.detail) == (Verdict.GONE, text)


@pytest.mark.parametrize(
    ("committed", "without", "lost"),
    [
        (124, (124,), ()),
        (124, (), (29,)),
        (125, (124,), ()),
        (125, (), (29,)),
        (101, tuple(range(101, 125)), ()),
    ],
)
def test_what_compaction_took_up_to_the_end_cannot_be_verified(committed, without, lost):
    assert answer(question(committed), MAP, *both(without, lost)).verdict is Verdict.GONE


def test_a_target_that_ends_before_what_it_acknowledged_is_wrong():
    here, there = both()
    for committed in (124, 125):
        found = answer(question(committed), MAP, here, replace(there, end=29))
        assert found.verdict is Verdict.WRONG
        assert "A.orders-0 ends at 29" in found.detail


def test_a_record_that_was_never_copied_is_named_and_the_next_one_compared():
    never = {offset: record(offset) for offset in (106, 107)}
    found = answer(question(105), MAP, *both(more=never))
    assert (found.verdict, found.source, found.left_out) == (Verdict.VERIFIED, 110, 106)


def test_a_record_that_comes_yet_is_not_one_that_was_left_out():
    found = answer(question(124), MAP, *both(without=(124,), more={129: record(129)}))
    assert (found.verdict, found.left_out) == (Verdict.GONE, NO_OFFSET)


BROUGHT = offset_map([(20, 106, 2)], 40)
"""The flow back has put target offsets 20 and 21 at 106 and 107 of the source."""


@pytest.mark.parametrize(
    ("committed", "translated", "place", "verdict", "compared"),
    [
        pytest.param(
            105, 20, Place.NEXT, Verdict.VERIFIED, (106, 20), id="the next record was brought from the target"
        ),
        pytest.param(107, 21, Place.RECORD, Verdict.VERIFIED, (107, 21), id="likewise"),
        pytest.param(105, 15, Place.INTERLEAVED, Verdict.VERIFIED, (106, 20), id="some are read again before it"),
        pytest.param(105, 25, Place.NEXT, Verdict.WRONG, (106, 20), id="behind it, at the next that was copied"),
        pytest.param(125, 33, Place.END, Verdict.VERIFIED, (124, 29), id="at the end of both"),
    ],
)
def test_a_record_that_the_flow_back_has_brought_is_compared_with_where_it_came_from(
    committed, translated, place, verdict, compared
):
    brought = {106: record(106, b"somebody else's"), 107: record(107, b"somebody else's")}
    here, there = both(more=brought)
    alike = {20: replace(brought[106], offset=20), 21: replace(brought[107], offset=21)}
    target = replace(there, records=dict(there.records) | alike, end=40)
    found = answer(Question(HERE, THERE, committed, translated, place, BROUGHT), MAP, here, target)
    assert (found.verdict, found.source, found.target) == (verdict, *compared), found
    assert found.left_out == NO_OFFSET


@pytest.mark.parametrize(
    ("committed", "translated", "end", "verdict", "compared"),
    [
        pytest.param(130, 30, 30, Verdict.VERIFIED, (124, 29), id="at the very end of both logs"),
        pytest.param(130, 33, 33, Verdict.VERIFIED, (124, 29), id="behind what others wrote to the target"),
        pytest.param(130, 30, 29, Verdict.WRONG, (124, 29), id="the target has lost the last copy"),
        pytest.param(130, 33, 32, Verdict.WRONG, (124, 29), id="the target has lost what others wrote"),
        pytest.param(113, 18, 30, Verdict.VERIFIED, (113, 18), id="a copy follows"),
    ],
)
def test_at_the_end_no_record_need_lie_where_the_flow_back_is_on_record(committed, translated, end, verdict, compared):
    here, there = both()
    asked = Question(HERE, THERE, committed, translated, Place.BACK_BEHIND, BROUGHT)
    found = answer(asked, MAP, here, replace(there, end=end))
    assert (found.verdict, found.source, found.target) == (verdict, *compared), found


@pytest.mark.parametrize(
    ("source", "target", "skipped"), [(0, 13, 1), (102, 14, 2), (0, 16, 4), (103, 16, 0), (0, 12, 0)]
)
def test_what_the_target_has_no_more_and_the_source_has_is_counted_as_skipped(source, target, skipped):
    here, there = both()
    found = answer(question(102), MAP, replace(here, start=source), replace(there, start=target))
    assert found.skipped == skipped


def test_what_mirror_maker_2_copied_is_not_exact_and_not_read():
    for place in (Place.APPROXIMATE, Place.TAKEN_OVER):
        found = answer(Question(HERE, THERE, 7, 3, place), MAP, Side({}, 0, 0), Side({}, 0, 0))
        assert found == Finding(Verdict.INEXACT)


def test_a_record_that_the_target_has_not_acknowledged_says_nothing_yet():
    settled = offset_map([(100, 10, 2), (110, NO_OFFSET, 5)], 110)
    found = judge(question(101, offsets=settled), Aim(101, 11), record(112), record(11), settled, SOURCE_ID)
    assert isinstance(found, Finding)
    assert found.verdict is Verdict.GONE


WAY = HEADER_NAME.encode()


@pytest.mark.parametrize(
    ("here", "there", "parts"),
    [
        ({}, {}, ()),
        ({"key": None}, {"key": None}, ()),
        ({"key": None}, {"key": b""}, ("key",)),
        ({"value": b"a"}, {"value": b"b"}, ("value",)),
        ({"time": 1}, {"time": 2}, ("timestamp",)),
        ({"time": 1}, {"time": 2, "stamped": True}, ()),
        ({"time": 1, "stamped": True}, {"time": 1}, ()),
        ({"time": 1, "stamped": True}, {"time": 2}, ("timestamp",)),
        ({"headers": ((b"h", b"1"),)}, {"headers": ((b"h", b"1"),)}, ()),
        ({"headers": ((b"h", b"1"),)}, {"headers": ((b"h", None),)}, ("headers",)),
        ({"headers": ((b"h", b"1"), (b"i", b"1"))}, {"headers": ((b"i", b"1"), (b"h", b"1"))}, ("headers",)),
        ({}, {"headers": ((WAY, b"the-source"),)}, ()),
        ({"headers": ((WAY, b"born"),)}, {"headers": ((WAY, b"born,the-source"),)}, ()),
        ({"headers": ((WAY, b"born"),)}, {"headers": ((WAY, b"born"),)}, ()),
        ({}, {"headers": ((WAY, b"not-the-source"),)}, ("headers",)),
        ({"headers": ((b"h", b"1"),)}, {"headers": ((WAY, b"the-source"),)}, ("headers",)),
        ({"key": b"a", "value": b"a"}, {"key": b"b", "value": b"b", "time": 3}, ("key", "value", "timestamp")),
    ],
)
def test_what_differs_is_named(here, there, parts):
    assert (
        difference(
            record(1, b"v", **here) if "value" not in here else record(1, **here),
            record(2, b"v", **there) if "value" not in there else record(2, **there),
            SOURCE_ID,
        )
        == parts
    )


def made(dice: random.Random) -> tuple[OffsetMap, Side, Side]:
    """Logs with holes, others' records on the target, and what compaction took later on either side."""
    stretches, source, target = [], dice.randint(0, 5), dice.randint(0, 5)
    for _ in range(dice.randint(1, 6)):
        length = dice.randint(1, 5)
        stretches.append((source, target, length))
        source += length + dice.randint(1, 3)
        target += length + dice.choice((0, 0, 1, 3))
    offsets = offset_map(stretches, source)
    known = {at + step: record(at + step) for at, _, length in stretches for step in range(length)}
    here, there = copied(offsets, known)
    free = set(range(there.end)) - set(there.records)
    alien = {at: record(at, b"somebody else's") for at in free if dice.random() < 0.5}
    kept = {at: seen for at, seen in here.records.items() if dice.random() < 0.8}
    left = {at: seen for at, seen in (dict(there.records) | alien).items() if dice.random() < 0.8}
    return offsets, Side(kept, 0, source), Side(left, 0, there.end)


@given(st.integers(0, 2**32))
def test_a_right_translation_is_never_called_wrong_and_one_beside_it_never_verified(seed):
    dice = random.Random(seed)
    offsets, here, there = made(dice)
    first, last = next(iter(offsets)).source, offsets.end()
    assert last is not None
    committed = dice.randint(first, offsets.position)
    right = answer(question(committed, offsets=offsets), offsets, here, there)
    assert right.verdict in (Verdict.VERIFIED, Verdict.GONE), right
    shift = dice.choice((-2, -1, 1, 2))
    wrong = answer(question(committed, shift, offsets), offsets, here, there)
    if wrong.verdict is Verdict.VERIFIED:
        # No record that would be skipped is left at the source, nor is what is read again the record right there.
        exact = question(committed, offsets=offsets).translated
        partners = {offsets.source_to_target(at) for at in here.records if offsets.mirrored(at)}
        assert not partners & set(there.records) & set(range(exact, exact + shift)), wrong
        again = there.first(exact + shift)
        assert again is not None
        assert shift > 0 or again.offset >= exact or again.value == b"somebody else's", wrong
