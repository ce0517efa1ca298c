"""What a flow knows of MirrorMaker 2's time, and of its own before that, ends where either log has parted from it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sparkmirror.copy.plan import PartitionPlan
from sparkmirror.events import Kind
from sparkmirror.flow.inheriting import (
    Arrived,
    Comparison,
    Copied,
    Own,
    arrive,
    from_below,
    from_last,
    from_sync,
    not_below,
    own,
)
from sparkmirror.flow.on_record import Run, going_on
from sparkmirror.flow.positions import Start
from sparkmirror.kafka.reading import Span
from sparkmirror.mm2.tail import AMBIGUOUS, NOT_EQUAL, Matched
from sparkmirror.model import NO_OFFSET, Reached, TopicPartition, Writer
from sparkmirror.offsets.inherited import Inherited
from sparkmirror.offsets.map import Stretch
from sparkmirror.offsets.records import Progress
from sparkmirror.offsets.source_history import Begun
from sparkmirror.offsets.state import state_of
from tests.offsets.segments import Segment, records_of

HERE, THERE = TopicPartition("orders", 0), TopicPartition("a.orders", 0)
WRITER, LATER = Writer(producer_id=7, epoch=1), Writer(producer_id=7, epoch=2)
RUN = Run(ids=(7,), generation=2, first_generation=2)
PROGRESS = Progress(
    partition=HERE,
    writer=WRITER,
    generation=1,
    position=100,
    next_sequence=100,
    sequence=99,
    source=99,
    target=99,
    settled=True,
    topic_id="s",
    target_id="t",
    reached=Reached(leader_epoch=3, end=100),
)
MAP = state_of([*records_of([Segment(partition=HERE, writer=WRITER, sequence=0, source=0, target=0)]), PROGRESS])
COPIED = Copied(
    here=HERE,
    there=THERE,
    stored=139,
    first=0,
    end=150,
    target_first=0,
    target_end=140,
    source_id="s",
    target_id="t",
    target_epochs=(Begun(3, 0), Begun(5, 100)),
)
WHOLE = Own(end=Stretch(99, 99, 1))


@pytest.mark.parametrize(
    ("now", "left"),
    [
        ({}, WHOLE),
        ({"target_id": ""}, WHOLE),
        ({"target_id": "other"}, Own(kept=0, parted=0)),
        ({"source_id": "other"}, Own(kept=0, parted=0)),
        ({"target_epochs": (Begun(3, 0), Begun(5, 40))}, Own(end=Stretch(39, 39, 1), kept=40, parted=40)),
        ({"target_epochs": (Begun(4, 0),)}, Own(kept=0, parted=0)),
        ({"target_end": 60, "target_epochs": ()}, Own(end=Stretch(59, 59, 1), kept=60, parted=60)),
    ],
)
def test_what_the_flow_had_copied_before_a_hand_over_counts_for_the_same_topics_and_as_far_as_the_log_has_it(now, left):
    offsets = MAP.map_of(HERE).offsets(PROGRESS, (7,))
    assert own(offsets, PROGRESS, replace(COPIED, **now)) == left
    assert own(offsets, None, COPIED) == WHOLE


LEFT = replace(COPIED, end=140, syncs=((0, 0), (90, 90), (130, 130)))


def test_where_all_was_copied_the_last_records_are_looked_at():
    assert (LEFT.level, LEFT.open, LEFT.torn, LEFT.anchor) == (True, False, False, (130, 130))
    assert from_last(LEFT) == Comparison(source=Span(0, 140), target=Span(120, 140))
    emptied = replace(LEFT, target_first=140)
    assert (emptied.level, emptied.torn) == (False, False)
    assert arrive(emptied, None) == Arrived(copied=emptied, position=140)


def test_an_offset_sync_behind_the_end_of_the_copy_tells_that_it_is_torn_and_about_where():
    torn = replace(LEFT, target_end=100)
    assert (torn.torn, torn.anchor) == (True, (90, 90))
    assert from_sync(torn) == Comparison(source=Span(90, 140), target=Span(90, 100))
    long = replace(LEFT, stored=999_999, end=1_000_000, target_end=300_000, syncs=((10, 10), (990_000, 990_000)))
    assert (long.torn, from_sync(long)) == (True, None)
    assert from_below(long) == Comparison(source=Span(298_800, 301_000), target=Span(299_800, 300_000))
    assert from_below(replace(LEFT, syncs=())) == Comparison(source=Span(0, 140), target=Span(0, 140))


def test_what_the_target_has_lost_is_copied_again_from_where_it_certainly_has_all():
    torn = replace(LEFT, target_end=100)
    found = arrive(torn, Matched(position=100, last=(99, 99)))
    assert (found.position, found.last, found.beyond) == (100, (99, 99), 0)
    assert found.event is not None
    assert found.event.kind is Kind.TARGET_TAIL_LOST
    assert "source offsets 100 to 139 are copied again, 40 in all" in found.event.text
    assert "twice" not in found.event.text


@pytest.mark.parametrize(
    ("now", "position"),
    [({}, 91), ({"syncs": ((130, 130),)}, 0), ({"syncs": ((130, 130),), "first": 30}, 30), ({"first": 95}, 95)],
)
def test_where_no_comparison_tells_how_much_is_lost_the_newest_offset_sync_that_is_left_does(now, position):
    torn = replace(LEFT, target_end=100, **now)
    for match in (None, AMBIGUOUS):
        found = arrive(torn, match)
        assert found.position == position
        assert found.event is not None
        assert found.event.kind is Kind.TARGET_TAIL_LOST
        assert f"source offsets {position} to 139 are copied again" in found.event.text
        assert ("some may be there twice" in found.event.text) == (match is AMBIGUOUS)
        assert not_below(found, 100).position == 100
        assert not_below(found, position) == found


@pytest.mark.parametrize(
    ("now", "position"),
    [({"stored": 39}, 91), ({"stored": NO_OFFSET}, 91), ({"stored": NO_OFFSET, "syncs": ((130, 130),)}, 0)],
)
def test_a_stored_position_before_the_newest_offset_sync_that_is_left_repeats_nothing_below_that(now, position):
    for match in (None, AMBIGUOUS):
        found = arrive(replace(LEFT, target_end=100, **now), match)
        assert found.position == position
        assert found.event is not None
        assert (found.event.kind, found.event.first, found.event.last) == (Kind.MAY_REPEAT, position, 139)
        assert "it has lost the end of its log, from offset 100 on" in found.event.text


def test_an_offset_sync_beyond_the_end_of_the_source_leads_nowhere():
    found = arrive(replace(LEFT, stored=39, end=80, target_end=100), None)
    assert found.position == 40


def test_where_all_was_copied_and_nobody_can_tell_whether_the_target_still_has_it_that_is_said():
    found = arrive(LEFT, NOT_EQUAL)
    assert found.position == 140
    assert found.event is not None
    assert found.event.kind is Kind.NOTE
    assert "or the target has lost the end of its log" in found.event.text
    assert arrive(LEFT, AMBIGUOUS).event is None


@pytest.mark.parametrize(
    ("only_moved", "parted", "until"), [(False, NO_OFFSET, 60), (True, NO_OFFSET, 100), (True, 70, 70)]
)
def test_what_mirror_maker_copied_ends_where_the_source_has_other_records_now(only_moved, parted, until):
    inherited = Inherited(partition=HERE, spans=((0, 100),), end=100, points=((50, 50), (65, 65), (95, 95)))
    state = state_of([inherited, PROGRESS])
    plan = PartitionPlan(source=HERE, target_topic="a.orders", topic_id="s", position=60, writer=LATER)
    start = Start(plan=plan, anew=True, only_moved=only_moved, parted=parted)
    written = going_on(state, RUN, starts=[start], plans=[plan], orders={}, took_over=[], passed={})
    left = [one for one in written.records if isinstance(one, Inherited)]
    if until == inherited.until:
        assert left == []
        return
    points = tuple(point for point in inherited.points if point[0] < until)
    assert left == [replace(inherited, spans=((0, until),), points=points)]
    assert left[0].translate_back(97) <= until
