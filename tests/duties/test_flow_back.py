"""What the record of the flow back tells, on plain data."""

from __future__ import annotations

import pytest

from sparkmirror.duties.flow_back import brought
from sparkmirror.model import TopicPartition
from sparkmirror.offsets.orders import MoveOrder
from sparkmirror.offsets.state import JournalState
from tests.offsets.segments import offset_map

THERE = TopicPartition("orders", 0)
MAP = offset_map([(60, 150, 10)], 70)


@pytest.mark.parametrize(("to", "position"), [(None, 70), (90, 90), (65, 70)])
def test_a_flow_back_that_is_to_go_on_further_on_brings_nothing_that_lies_before(to, position):
    state = JournalState()
    if to is not None:
        state.take(MoveOrder(partition=THERE, to=to, topic_id="", time_ms=1, by="failback"))
    assert brought(state, MAP, THERE).offsets.position == position
