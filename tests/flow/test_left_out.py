"""What is known of the source's leader epochs where a partition goes on further on than it was copied."""

from __future__ import annotations

from dataclasses import replace

from sparkmirror.flow.left_out import LeftOut, not_on_record
from sparkmirror.flow.planner import copied_log
from sparkmirror.model import TopicPartition, Writer
from sparkmirror.offsets.records import Progress, SourceEpoch
from sparkmirror.offsets.source_history import Begun

PLACE = TopicPartition("orders", 3)
PROGRESS = Progress(
    partition=PLACE,
    writer=Writer(producer_id=1, epoch=0),
    generation=1,
    position=100,
    next_sequence=100,
    leader_epoch=2,
    topic_id="aa",
    lane="lane-0.0",
)


def test_epochs_that_are_on_record_keep_their_begin_and_those_of_a_history_that_is_gone_do_not_count():
    left_out = LeftOut(kept=100, to=300, leader_epoch=6, topic_id="aa")
    begun = (Begun(2, 100), Begun(4, 150), Begun(6, 250))

    def added(*history: Begun) -> list[tuple[int, int]]:
        found = not_on_record(PLACE, left_out, begun, history)
        assert all((one.partition, one.topic_id) == (PLACE, "aa") for one in found)
        return [(one.epoch, one.offset) for one in found]

    assert added(Begun(0, 0), Begun(2, 80)) == [(4, 150), (6, 250)]
    assert added(Begun(0, 0), Begun(2, 80), Begun(4, 120)) == [(4, 150), (6, 250)], "of records behind what is kept"
    assert added() == [(2, 100), (4, 150), (6, 250)]
    assert SourceEpoch(partition=PLACE, epoch=4, offset=150, topic_id="aa") in not_on_record(PLACE, left_out, begun, ())


def test_only_a_lane_knows_the_epoch_of_its_position():
    """A takeover finds positions further on; the record of what was copied there may be lost."""

    def certain(progress: Progress, position: int) -> bool:
        return copied_log(progress, position, 2, lambda _partition, _topic: ()).certain

    assert certain(PROGRESS, 100)
    assert certain(PROGRESS, 60)
    assert not certain(PROGRESS, 160)
    assert not certain(replace(PROGRESS, position=160, lane=""), 160), "put on record by who settled the flow"
