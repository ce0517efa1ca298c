"""MirrorMaker 2's offset syncs while its topic is read: some of each partition, however many there are."""

from __future__ import annotations

import pytest

from sparkmirror.errors import SparkmirrorError
from sparkmirror.flow import mirror_maker
from sparkmirror.flow.mirror_maker import Syncs
from sparkmirror.kafka.stored_records import StoredRecord
from sparkmirror.mm2.offset_syncs import OffsetSync
from sparkmirror.model import TopicPartition
from sparkmirror.offsets.inherited import NEWEST, SPREAD, points_of

PLACE = TopicPartition("orders", 0)


def records(*points: tuple[int, int], place: TopicPartition = PLACE) -> list[StoredRecord]:
    syncs = [OffsetSync(partition=place, upstream=source, downstream=target) for source, target in points]
    return [StoredRecord(number, sync.key, sync.value) for number, sync in enumerate(syncs)]


def points(syncs: Syncs, place: TopicPartition = PLACE) -> list[tuple[int, int]]:
    return [(one.upstream, one.downstream) for one in syncs.found.get(place, ())]


def test_few_are_kept_as_they_were_told():
    syncs, told = Syncs(), [(1, 1), (5, 4), (9, 9)]
    syncs.take(records(*told))
    assert points(syncs) == told


@pytest.mark.parametrize("back", [(4, 20), (20, 4)])
def test_one_that_goes_back_makes_those_before_it_void(back: tuple[int, int]):
    syncs = Syncs()
    syncs.take(records((1, 1), (9, 9), back, (30, 30)))
    assert points(syncs) == [back, (30, 30)]
    assert points_of([(1, 1), (9, 9), back, (30, 30)], 0, 100) == tuple(points(syncs))


def test_of_many_the_newest_are_kept_and_some_of_the_others(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(mirror_maker, "MOST_SYNCS", 4 * (NEWEST + SPREAD))
    syncs, told = Syncs(), [(number, number) for number in range(10_000)]
    for one in told:
        syncs.take(records(one))
        assert len(points(syncs)) <= 4 * (NEWEST + SPREAD)
    kept = points(syncs)
    assert kept[-NEWEST:] == told[-NEWEST:]
    assert kept[0] == (0, 0)
    assert kept == sorted(set(kept))
    assert len({id(one.partition) for one in syncs.found[PLACE]}) == 1


def test_too_many_partitions_are_refused(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(mirror_maker, "MOST_SYNCS", 100)
    syncs = Syncs()
    many = [one for number in range(200) for one in records((1, 1), place=TopicPartition("orders", number))]
    with pytest.raises(SparkmirrorError, match="more than 100, of 101 partitions"):
        syncs.take(many)
