"""What counts as a record that came late: what a reader could get, and not what takeovers leave in the log."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from sparkmirror.config import FlowConfig
from sparkmirror.duties.duty import Sides
from sparkmirror.failover import late
from sparkmirror.kafka.admin import find_offsets
from sparkmirror.kafka.cluster import Cluster
from sparkmirror.kafka.fencing import fence
from sparkmirror.kafka.leaders import OffsetSpec
from sparkmirror.kafka.producer_ids import acquire_writer
from sparkmirror.model import Writer
from sparkmirror.offsets.records import Progress
from sparkmirror.offsets.state import JournalState
from tests.kafka.writing import TIMEOUT_MS, new_topic, write

pytestmark = pytest.mark.kafka

COPIED = 5


def test_control_records_behind_the_position_are_no_late_records(
    lab_cluster: Callable[[str], Cluster],
    lab_flow: FlowConfig,
    topic: Callable[..., str],
    monkeypatch: pytest.MonkeyPatch,
):
    source, name = lab_cluster("A"), topic("sparkmirror.late")
    rested, fenced, grown, both, unknown = partitions = new_topic(source, topic("late"), 5)
    writer = acquire_writer(source, name, TIMEOUT_MS)
    for place in partitions:
        assert write(source, place, writer, 0, COPIED).code == 0
    assert write(source, grown, writer, COPIED, 3).code == 0
    for _ in range(3):  # of the flow back, which was started three times
        writer = acquire_writer(source, name, TIMEOUT_MS)
        fence(source, name, writer, [fenced, both], TIMEOUT_MS).complete()
    assert write(source, both, writer, 0, 2).code == 0

    nobody = Writer(producer_id=1, epoch=0)
    state = JournalState()
    for place in (rested, fenced, grown, both):
        state.progress[place] = Progress(
            partition=place, writer=nobody, generation=1, position=COPIED, next_sequence=COPIED
        )
    sides = Sides(flow=lab_flow, source=source, target=lab_cluster("B"), store=None)
    ends = find_offsets(source, partitions, OffsetSpec.LATEST, timeout_ms=TIMEOUT_MS).complete()
    assert {place: end - COPIED for place, end in ends.items()} == {rested: 0, fenced: 3, grown: 3, both: 5, unknown: 0}
    assert late.records_behind(sides, state, ends) == {grown: 3, both: 2, unknown: COPIED}

    monkeypatch.setattr(late, "MOST", 2)  # where they are too many to be read, offsets stand for records
    assert late.records_behind(sides, state, ends) == {fenced: 3, grown: 3, both: 5, unknown: COPIED}
