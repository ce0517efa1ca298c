"""What goes on record of partitions that were taken over."""

from __future__ import annotations

import pytest

from sparkmirror.flow.on_record import Run, taken_over
from sparkmirror.flow.positions import Resumed
from sparkmirror.model import TopicPartition, Writer
from sparkmirror.offsets.records import Progress
from sparkmirror.offsets.state import state_of

PLACE = TopicPartition("orders", 0)
RUN = Run(ids=(7,), generation=3, first_generation=3)


@pytest.mark.parametrize(("anew", "position", "on_record"), [(True, 5, True), (False, 5, False), (False, 4, True)])
def test_an_epoch_that_begins_anew_is_on_record_also_where_the_position_stays(anew, position, on_record):
    """A lane that dies before it publishes leaves a log whose last record lies behind what is to be copied again."""
    known = Progress(partition=PLACE, writer=Writer(producer_id=7, epoch=0), generation=1, position=5, next_sequence=0)
    resumed = Resumed(position=position, writer=Writer(producer_id=7, epoch=2), anew=anew)
    written = taken_over(state_of([known]), RUN, {PLACE: resumed}, [])
    found = [(one.writer, one.position, one.anew) for one in written.records if isinstance(one, Progress)]
    assert found == ([(resumed.writer, position, anew)] if on_record else [])
