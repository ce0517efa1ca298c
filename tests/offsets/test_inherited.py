"""What MirrorMaker 2 left: its syncs as points, the records that keep them, translation that is never too far."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparkmirror.model import TopicPartition, Writer
from sparkmirror.offsets.inherited import NEWEST, SPREAD, Elsewhere, Inherited, joined, points_of
from sparkmirror.offsets.map import PartitionMap
from sparkmirror.offsets.records import Progress, parse
from sparkmirror.offsets.source_history import NOBODY_KNOWS, EpochEnd
from sparkmirror.offsets.state import JournalState
from sparkmirror.offsets.translation import NotYet, Place, Reason, Translated, translate
from tests.offsets.segments import Segment, records_of

PLACE = TopicPartition("orders", 0)
WRITER = Writer(producer_id=7, epoch=1)
OLD = Inherited(partition=PLACE, spans=((0, 100),), end=90, points=((10, 8), (50, 44), (99, 89)), time_ms=5)


def test_the_records_come_back_and_the_mark_goes_with_its_tombstone():
    state = JournalState()
    mark = Elsewhere(topic="mm2-offsets.A.internal", time_ms=3, pending=True)
    for one in (OLD, mark):
        found = parse(one.key, one.value())
        assert found == one
        state.take(found)
    assert (state.inherited, state.elsewhere) == ({PLACE: OLD}, mark)
    state.forget(mark.key)
    assert state.elsewhere is None


def test_a_record_of_an_older_release_has_no_leader_epochs():
    told = replace(OLD, epochs=((2, 0), (4, 60)))
    assert parse(told.key, told.value()) == told
    older = json.loads(told.value())
    del older["epochs"]
    assert parse(told.key, json.dumps(older)) == OLD
    assert (told.leader_epoch, OLD.leader_epoch) == (4, -1)


@pytest.mark.parametrize(
    ("told", "kept"),
    [
        (EpochEnd(4, 90), 90),
        (EpochEnd(4, 300), 90),
        (EpochEnd(4, 70), 70),
        (EpochEnd(2, 50), 50),
        (EpochEnd(2, 75), 60),
        (EpochEnd(3, 80), 60),
        (EpochEnd(1, 30), 0),
        (NOBODY_KNOWS, 0),
    ],
)
def test_a_log_has_what_it_had_up_to_where_its_leader_epochs_part(told, kept):
    """Epochs 2 from offset 0 on and 4 from 60 on; what another leader has put there in one between is not ours."""
    assert replace(OLD, epochs=((2, 0), (4, 60))).kept(told) == kept


def test_what_the_target_has_lost_is_translated_no_more():
    left = replace(OLD, epochs=((2, 0), (4, 60))).cut(50, 51)
    assert left == replace(OLD, spans=((0, 51),), end=50, points=((10, 8), (50, 44)), epochs=((2, 0),))
    again = offsets(position=51)
    assert translate(again, 50, left) == Translated(44, Place.APPROXIMATE)
    assert translate(again, 51, left) == Translated(50, Place.TAKEN_OVER)
    assert translate(again, 80, left) == NotYet(Reason.AHEAD)
    nothing = OLD.cut(0, 0)
    assert (nothing.spans, nothing.points, nothing.until) == (((0, 0),), (), 0)
    both = replace(OLD, spans=((0, 20), (70, 100))).cut(50, 51)
    assert (both.spans, both.until) == (((0, 20), (51, 51)), 51)


def test_a_sync_that_goes_back_makes_the_earlier_ones_void():
    assert points_of([(0, 0), (5, 5), (9, 9)], 0, 100) == ((0, 0), (5, 5), (9, 9))
    assert points_of([(0, 0), (5, 5), (3, 20), (9, 26)], 0, 100) == ((3, 20), (9, 26))
    assert points_of([(5, 5), (9, 2)], 0, 100) == ((9, 2),)
    assert points_of([(5, 5), (9, 9), (12, 12)], 6, 12) == ((9, 9),)


def test_points_are_joined_thinned_and_grow():
    many = tuple((n, n) for n in range(10_000))
    kept = joined(many, ())
    assert len(kept) <= NEWEST + SPREAD
    assert kept[-NEWEST:] == many[-NEWEST:]
    assert joined(((1, 10), (5, 50)), ((3, 60), (7, 70))) == ((1, 10), (5, 50), (7, 70))


def offsets(*stretches: tuple[int, int], position: int):
    """The exact map of a flow that copies since the takeover: segments at (source, target)."""
    known = PartitionMap()
    for number, (source, target) in enumerate(stretches):
        sequence = source - stretches[0][0] - number
        for record in records_of(
            [Segment(partition=PLACE, writer=WRITER, sequence=sequence, source=source, target=target)]
        ):
            known.take(record)
    last = stretches[-1] if stretches else (0, 0)
    progress = Progress(
        partition=PLACE,
        writer=WRITER,
        generation=1,
        position=position,
        next_sequence=0,
        sequence=position - 1 - stretches[0][0] - len(stretches) + 1 if stretches else -1,
        source=position - 1 if stretches else -1,
        target=last[1] + position - 1 - last[0] if stretches else -1,
    )
    return known.offsets(progress, (7,))


def test_before_the_takeover_offsets_are_approximate_and_behind_it_exact():
    exact = offsets((100, 90), position=200)
    assert translate(exact, 100, OLD) == Translated(90, Place.RECORD)
    assert translate(exact, 150, OLD) == Translated(140, Place.RECORD)
    assert translate(exact, 99, OLD) == Translated(89, Place.APPROXIMATE)
    assert translate(exact, 60, OLD) == Translated(45, Place.APPROXIMATE)
    assert translate(exact, 10, OLD) == Translated(8, Place.APPROXIMATE)
    assert translate(exact, 9, OLD) == NotYet(Reason.BEFORE_SYNCS)
    assert translate(exact, 9) == Translated(90, Place.FIRST)  # what it would be without


def test_a_group_that_is_level_goes_to_where_the_target_ended_before_anything_is_copied():
    empty = offsets(position=100)
    assert translate(empty, 100, OLD) == Translated(90, Place.TAKEN_OVER)
    assert translate(empty, 60, OLD) == Translated(45, Place.APPROXIMATE)
    assert translate(empty, 101, OLD) == NotYet(Reason.AHEAD)


def test_what_the_flow_itself_copied_before_a_hand_over_stays_exact():
    back = Inherited(partition=PLACE, spans=((200, 300),), end=290, points=((199, 189), (250, 240)))
    both = back.after(OLD)
    assert both.spans == ((0, 100), (200, 300))
    exact = offsets((100, 90), position=200)
    assert translate(exact, 150, both) == Translated(140, Place.RECORD)
    assert translate(exact, 60, both) == Translated(45, Place.APPROXIMATE)
    assert translate(exact, 230, both) == Translated(190, Place.APPROXIMATE)
    assert translate(exact, 250, both) == Translated(240, Place.APPROXIMATE)
    again = Inherited(partition=PLACE, spans=((0, 150),), end=140).after(OLD)
    assert again.spans == ((0, 150),)


@given(st.lists(st.booleans(), min_size=1, max_size=200), st.sets(st.integers(0, 199)), st.integers(0, 200))
def test_a_translation_is_never_too_far(copied, synced, committed):
    """Of each source offset the target has a record or none; some of the records have a sync."""
    lies = {source: sum(copied[:source]) for source, there in enumerate(copied) if there}
    points = points_of([(source, lies[source]) for source in sorted(synced) if source in lies], 0, len(copied))
    known = Inherited(partition=PLACE, spans=((0, len(copied)),), end=sum(copied), points=joined(points, ()))
    found = known.translate(committed)
    if found is not None:
        assert all(target >= found for source, target in lies.items() if source >= committed)


@given(st.lists(st.booleans(), min_size=1, max_size=200), st.sets(st.integers(0, 199)), st.integers(0, 200))
def test_what_is_copied_again_after_a_loss_is_never_too_little(copied, synced, end):
    """Of each source offset the target has a record or none; it loses all from an offset on."""
    lies = {source: sum(copied[:source]) for source, there in enumerate(copied) if there}
    points = points_of([(source, lies[source]) for source in sorted(synced) if source in lies], 0, len(copied))
    known = Inherited(partition=PLACE, spans=((0, len(copied)),), end=sum(copied), points=joined(points, ()))
    back = known.translate_back(end)
    assert all(source >= back for source, target in lies.items() if target >= end)
    left = known.cut(end, back)
    assert (left.until, left.end) == (back, end)
    assert all(source < back or target == end for source, target in left.points)
