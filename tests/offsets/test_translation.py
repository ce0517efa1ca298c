"""A group's committed offset on the target, against a plain list of where each record lies."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sparkmirror.model import NO_OFFSET, TopicPartition, Writer
from sparkmirror.offsets.inherited import Inherited
from sparkmirror.offsets.map import OffsetMap, PartitionMap
from sparkmirror.offsets.records import Progress
from sparkmirror.offsets.translation import (
    NotYet,
    Place,
    Reason,
    Translated,
    Translation,
    back_to_what_is_left,
    in_what_is_left,
    still_there,
    translate,
    translate_back,
)
from tests.offsets.segments import Segment, records_of

PLACE = TopicPartition("orders", 0)
WRITER = Writer(producer_id=7, epoch=1)


def mapped(segments: list[tuple[int, int, int]], last: tuple[int, int, int], position: int) -> OffsetMap:
    """A map of segments (sequence, source, target) whose last acknowledged record is ``last``."""
    made = PartitionMap()
    for sequence, source, target in segments:
        for record in records_of(
            [Segment(partition=PLACE, writer=WRITER, sequence=sequence, source=source, target=target)]
        ):
            made.take(record)
    progress = Progress(
        partition=PLACE,
        writer=WRITER,
        generation=1,
        position=position,
        next_sequence=last[0] + 1,
        sequence=last[0],
        source=last[1],
        target=last[2],
    )
    return made.offsets(progress, (7,))


TWO_PIECES = mapped([(0, 100, 10), (5, 110, 17)], (9, 114, 21), 120)
"""Source 100 to 104 and 110 to 114; others have written at target 0 to 9, 15 and 16; the position is 120."""


@pytest.mark.parametrize(
    ("committed", "found"),
    [
        (0, Translated(10, Place.FIRST)),
        (99, Translated(10, Place.FIRST)),
        (100, Translated(10, Place.RECORD)),
        (104, Translated(14, Place.RECORD)),
        (105, Translated(17, Place.NEXT)),
        (109, Translated(17, Place.NEXT)),
        (114, Translated(21, Place.RECORD)),
        (115, Translated(22, Place.END)),
        (120, Translated(22, Place.END)),
        (121, NotYet(Reason.AHEAD)),
    ],
)
def test_a_committed_offset_leads_to_the_first_record_that_the_group_has_not_read(committed, found):
    assert translate(TWO_PIECES, committed) == found


@pytest.mark.parametrize(
    ("committed", "found"),
    [
        (0, Translated(100, Place.FIRST)),
        (9, Translated(100, Place.FIRST)),
        (10, Translated(100, Place.RECORD)),
        (14, Translated(104, Place.RECORD)),
        (15, Translated(110, Place.NEXT)),
        (16, Translated(110, Place.NEXT)),
        (17, Translated(110, Place.RECORD)),
        (21, Translated(114, Place.RECORD)),
        (22, Translated(120, Place.END)),
        (999, Translated(120, Place.END)),
    ],
)
def test_back_it_leads_to_the_first_record_that_lies_at_the_copy_s_offset_or_behind(committed, found):
    assert translate_back(TWO_PIECES, committed) == found


def test_back_there_is_no_translation_where_nothing_exact_is_known():
    assert translate_back(PartitionMap().offsets(None, ()), 0) == NotYet(Reason.NOTHING_MIRRORED)
    begun = mapped([(0, 100, NO_OFFSET)], (4, 104, NO_OFFSET), 105)
    assert translate_back(begun, 3) == NotYet(Reason.UNSETTLED)
    no_position = mapped([(0, 100, 10)], (4, 104, 14), NO_OFFSET)
    assert translate_back(no_position, 15) == NotYet(Reason.UNSETTLED)


@pytest.mark.parametrize(
    ("committed", "found"),
    [
        (2, Translated(20, Place.APPROXIMATE)),
        (3, Translated(40, Place.APPROXIMATE)),
        (4, Translated(41, Place.APPROXIMATE)),
        (7, Translated(60, Place.APPROXIMATE)),
        (9, Translated(61, Place.APPROXIMATE)),
        (10, Translated(100, Place.RECORD)),
    ],
)
def test_back_to_what_mirror_maker_2_copied_it_leads_to_an_earlier_record_and_to_no_later_one(committed, found):
    before = Inherited(partition=PLACE, spans=((20, 100),), end=10, points=((40, 3), (60, 7)))
    assert translate_back(TWO_PIECES, committed, before) == found
    twice = Inherited(partition=PLACE, spans=((20, 100), (200, 300)), end=200, points=((40, 3), (60, 7)))
    assert translate_back(TWO_PIECES, 21, twice) == Translated(114, Place.RECORD), "copied in between, and exact"


@pytest.mark.parametrize(
    ("found", "oldest", "then"),
    [
        (Translated(10, Place.RECORD), 11, Translated(11, Place.OLDEST)),
        (Translated(10, Place.RECORD), 10, Translated(10, Place.RECORD)),
        (Translated(10, Place.NEXT), None, Translated(10, Place.NEXT)),
        (NotYet(Reason.AHEAD), 11, NotYet(Reason.AHEAD)),
    ],
)
def test_a_record_that_is_gone_on_the_other_side_leads_to_the_first_that_is_left(found, oldest, then):
    assert still_there(found, oldest) == then


def test_where_nothing_is_mirrored_there_is_no_translation():
    assert translate(PartitionMap().offsets(None, ()), 0) == NotYet(Reason.NOTHING_MIRRORED)


def test_a_place_that_the_target_has_not_told_yet_is_not_guessed():
    begun = mapped([(0, 100, NO_OFFSET), (5, 110, NO_OFFSET)], (9, 114, NO_OFFSET), 120)
    assert [translate(begun, committed) for committed in (99, 104, 105, 112, 120)] == [NotYet(Reason.UNSETTLED)] * 5


def plainly(lies: list[tuple[int, int]], position: int, committed: int) -> Translation:
    """What the list of (source, target) says: the first record from the offset on, else the place after the last."""
    if not lies:
        return NotYet(Reason.NOTHING_MIRRORED if committed <= position else Reason.AHEAD)
    for source, target in lies:
        if source >= committed:
            place = Place.RECORD if source == committed else Place.FIRST if committed < lies[0][0] else Place.NEXT
            return Translated(target, place)
    return Translated(lies[-1][1] + 1, Place.END) if committed <= position else NotYet(Reason.AHEAD)


def plainly_back(lies: list[tuple[int, int]], position: int, committed: int) -> Translation:
    """The same from the target: the first record from the offset on, else the position."""
    for source, target in lies:
        if target >= committed:
            place = Place.RECORD if target == committed else Place.FIRST if committed < lies[0][1] else Place.NEXT
            return Translated(source, place)
    return Translated(position, Place.END) if lies else NotYet(Reason.NOTHING_MIRRORED)


_gaps = st.lists(st.tuples(st.sampled_from([1, 1, 1, 2, 5]), st.sampled_from([1, 1, 1, 1, 3])), max_size=60)


@settings(deadline=None)
@given(_gaps, st.integers(0, 50), st.integers(0, 50), st.integers(0, 9), st.integers(1, 4))
def test_every_offset_leads_where_a_list_of_all_records_says(gaps, source, target, behind, runs):
    """Segments begin where the difference changes, and where a new run began though it did not."""
    lies: list[tuple[int, int]] = []
    segments: list[tuple[int, int, int]] = []
    for number, (here, there) in enumerate(gaps):
        straight = here == there == 1
        source, target = source + here, target + there
        if not straight or not lies or number % (runs * 7) == 0:
            segments.append((number, source, target))
        lies.append((source, target))
    position = source + 1 + behind
    offsets = (
        mapped(segments, (len(lies) - 1, source, target), position) if lies else mapped([], (-1, -1, -1), position)
    )
    for committed in range(position + 5):
        assert translate(offsets, committed) == plainly(lies, position, committed), committed
    for committed in range(target + 5):
        assert translate_back(offsets, committed) == plainly_back(lies, position, committed), committed


FOUND = Translated(30, Place.RECORD)


@pytest.mark.parametrize(
    ("committed", "parting", "expected"),
    [
        (9, None, FOUND),
        (6, 7, FOUND),
        pytest.param(7, 7, Translated(30, Place.PARTED), id="what was lost comes before what came in its place"),
        pytest.param(8, 7, NotYet(Reason.PARTED), id="the group has read what is not mirrored"),
    ],
)
def test_a_group_of_a_log_that_has_lost_its_end_is_not_translated_by_what_was_there(committed, parting, expected):
    assert in_what_is_left(FOUND, committed, parting) == expected
    assert in_what_is_left(NotYet(Reason.AHEAD), committed, parting) == NotYet(Reason.AHEAD)


@pytest.mark.parametrize(
    ("parting", "expected"),
    [(None, FOUND), (31, FOUND), (30, Translated(30, Place.PARTED)), (7, Translated(7, Place.PARTED))],
)
def test_back_on_a_log_that_has_lost_its_end_a_group_goes_on_no_further_than_there(parting, expected):
    assert back_to_what_is_left(FOUND, parting) == expected
    assert back_to_what_is_left(NotYet(Reason.AHEAD), parting) == NotYet(Reason.AHEAD)
