"""Where leader epochs of the source begin goes on record once for each, before the first batch of it is sent."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from sparkmirror.copy.arrivals import Ticket
from sparkmirror.copy.partition import PartitionCopy
from sparkmirror.offsets.records import SourceEpoch
from sparkmirror.offsets.segments import Segments
from tests.batches.building import log
from tests.copy.making import BEGIN, Bench, batch


class Recorded:
    """What a lane has put on record, in order."""

    def __init__(self, bench: Bench) -> None:
        self.found: list[tuple[int, int]] = []
        bench.lane.watch.write_ahead = self._take  # type: ignore[method-assign]  # no internal topic is there

    def _take(self, partition: PartitionCopy, records: Sequence[Segments | SourceEpoch], ticket: Ticket) -> None:
        assert partition.source.topic == "orders"
        self.found += [(one.epoch, one.offset) for one in records if isinstance(one, SourceEpoch)]
        assert not ticket.acknowledged, "its batches wait"


def test_each_new_epoch_of_an_answer_is_put_on_record_with_its_first_offset():
    bench = Bench(1)
    recorded = Recorded(bench)
    at = BEGIN
    bench.bring(0, log([batch(at, leader_epoch=3), batch(at + 3, leader_epoch=3), batch(at + 6, leader_epoch=5)]))
    assert recorded.found == [(3, at), (5, at + 6)]
    assert (bench[0].leader_epoch, bench[0].epoch_met, bench[0].epoch_on_record) == (5, 5, -1)
    bench.bring(0, log([batch(at + 9, leader_epoch=5)]))
    bench.bring(0, log([batch(at + 12, leader_epoch=4), batch(at + 15, leader_epoch=8)]))
    assert recorded.found[2:] == [(8, at + 15)]


def test_an_epoch_begins_right_behind_the_batch_before_though_its_first_records_are_gone():
    """Compaction, or retention, may have taken them: another leader has other records there."""
    bench = Bench(1)
    recorded = Recorded(bench)
    bench.bring(0, log([batch(BEGIN, leader_epoch=3)]))
    bench.bring(0, log([batch(BEGIN + 20, leader_epoch=5), batch(BEGIN + 40, leader_epoch=6)]))
    assert recorded.found == [(3, BEGIN), (5, BEGIN + 3), (6, BEGIN + 23)]


def test_what_a_shift_before_has_put_on_record_stays_as_it_is():
    bench = Bench(1)
    recorded = Recorded(bench)
    bench[0].leader_epoch, bench[0].epoch_met = 9, 3
    bench.bring(0, log([batch(BEGIN, leader_epoch=3)]))
    assert recorded.found == []
    bench.bring(0, log([batch(BEGIN + 3, leader_epoch=9)]))
    assert recorded.found == [(9, BEGIN + 3)], "it was known as the leader's, and no batch of it was copied"


def test_batches_of_old_formats_have_no_epoch():
    bench = Bench(1)
    recorded = Recorded(bench)
    bench.bring(0, log([batch(BEGIN, leader_epoch=-1)]))
    assert recorded.found == []


@pytest.mark.parametrize(("leader_epoch", "stands"), [(9, False), (3, True)])
def test_a_leader_that_knows_another_end_of_an_epoch_counts_if_a_batch_of_it_was_copied(leader_epoch, stands):
    """An epoch of which no batch was copied may have had none; the leader need not have heard of it."""
    bench = Bench(1)
    copy = bench[0]
    copy.leader_epoch, copy.epoch_met = leader_epoch, 3
    asyncio.run(bench.lane.intake._diverged(copy, 2, copy.fetch_offset))
    assert ("the source lost its tail" in copy.error) == stands
    assert copy.leader_epoch == (leader_epoch if stands else 2)
