"""What a flow knows of MirrorMaker 2's time, and of its own before that, ends where either log has parted from it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sparkmirror.copy.plan import PartitionPlan
from sparkmirror.flow.inheriting import Copied, Own, own
from sparkmirror.flow.on_record import Run, going_on
from sparkmirror.flow.positions import Start
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
