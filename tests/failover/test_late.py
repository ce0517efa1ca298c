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

    monkeypatch.setattr(late, "MOST", 2)  # control records are none, however many they are
    assert late.records_behind(sides, state, ends) == {grown: 3, both: 2, unknown: COPIED}


def test_however_much_the_flow_back_has_brought_only_records_of_others_came_late(
    lab_cluster: Callable[[str], Cluster],
    lab_flow: FlowConfig,
    topic: Callable[..., str],
    monkeypatch: pytest.MonkeyPatch,
):
    """Where names are kept it writes to the very topics, and a switchover may be given again days later."""
    source, name = lab_cluster("A"), topic("brings")
    _, both = partitions = new_topic(source, topic("late"), 2)
    back, other = (acquire_writer(source, f"{name}-{number}", TIMEOUT_MS) for number in range(2))
    state = JournalState()
    for place in partitions:
        assert write(source, place, other, 0, COPIED).code == 0
        state.progress[place] = Progress(
            partition=place, writer=other, generation=1, position=COPIED, next_sequence=COPIED
        )
    for number in range(late.MOST // 100 + 1):
        for place in partitions:
            assert write(source, place, back, 100 * number, 100).code == 0
    assert write(source, both, other, COPIED, 2).code == 0
    sides = Sides(flow=lab_flow, source=source, target=lab_cluster("B"), store=None)
    ends = find_offsets(source, partitions, OffsetSpec.LATEST, timeout_ms=TIMEOUT_MS).complete()
    assert min(ends.values()) > COPIED + late.MOST
    monkeypatch.setattr(late, "brought", lambda *_: frozenset({back.producer_id}))
    assert late.records_behind(sides, state, ends) == {both: 2}
    monkeypatch.setattr(late, "SECONDS", 0.0)  # what was not read in time counts by its offsets
    assert late.records_behind(sides, state, ends) == {place: end - COPIED for place, end in ends.items()}
