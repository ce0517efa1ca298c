"""What is taken for a sight of the source, by what a flow has on record."""

from __future__ import annotations

import pytest

from sparkmirror.config import load
from sparkmirror.failover.look import SourceState, partitions
from sparkmirror.model import TopicPartition, Writer
from sparkmirror.offsets.records import Life, Progress
from sparkmirror.offsets.state import JournalState
from tests.flow.running import write_file

PLACE = TopicPartition("orders", 0)


@pytest.mark.parametrize(
    ("of_partition", "of_flow", "seen"),
    [(400, 500, 500), (600, 500, 600), (-1, 500, 500), (400, None, 400), (-1, None, 0)],
)
def test_a_record_that_was_written_while_the_source_was_away_is_no_sight_of_it(tmp_path, of_partition, of_flow, seen):
    a, b = ({"bootstrap.servers": f"localhost:{port}"} for port in (1, 2))
    (flow,) = load([write_file(tmp_path / "mm2.properties", {"a": a, "b": b}, {"a->b": "orders"})]).flows
    state = JournalState()
    state.progress[PLACE] = Progress(
        partition=PLACE,
        writer=Writer(producer_id=1, epoch=1),
        generation=1,
        position=7,
        next_sequence=7,
        end=9,
        time_ms=9_000,
        recovery_ms=of_partition,
    )
    if of_flow is not None:
        state.life = Life(generation=1, time_ms=9_000, state="running", lanes=1, recovery_ms=of_flow)
    (found,) = partitions(flow, state, SourceState(failure="away"))
    assert (found.end, found.missing, found.seen_ms) == (9, 2, seen)
    new = TopicPartition("orders", 1)
    there = SourceState(ends={PLACE: 12, new: 9}, starts={PLACE: 0, new: 4})
    asked, unfound = partitions(flow, state, there)
    assert asked.missing == 5
    assert asked.seen_ms > 9_000
    assert (unfound.partition, unfound.missing, unfound.found) == (new, 5, False)
