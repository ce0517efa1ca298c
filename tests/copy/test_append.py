"""Requests to a target: how batches of many partitions are packed."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from sparkmirror.copy.append import REQUEST_BYTES
from sparkmirror.copy.partition import PartitionCopy
from tests.copy.making import Bench, batch


@pytest.fixture
def bench_of() -> Iterator[Callable[..., Bench]]:
    made: list[Bench] = []

    def make(partitions: int, **settings: int) -> Bench:
        made.append(Bench(partitions, **settings))
        return made[-1]

    yield make
    for bench in made:
        bench.close()


def sizes(bench: Bench) -> list[list[int]]:
    return [[len(load.payload) for load in sent] for sent in bench.target.requests]


def test_a_request_carries_one_batch_of_each_partition(bench_of: Callable[..., Bench]):
    bench = bench_of(3)
    for number in range(3):
        bench.bring(number, batch(10, 1, size=40_000).encode() + batch(11, 1, size=40_000).encode())
    bench.send()
    assert [[load.partition.partition for load in sent] for sent in bench.target.requests] == [[0, 1, 2], [0, 1, 2]]


@pytest.mark.parametrize("limit", [100_000, 3 * 40_080])
def test_a_request_is_not_larger_than_max_request_size(bench_of: Callable[..., Bench], limit: int):
    bench = bench_of(8, max_request_size=limit)
    for number in range(8):
        bench.bring(number, batch(10, 1, size=40_000).encode())
    bench.send()
    assert all(sum(sent) <= limit for sent in sizes(bench))
    assert len(bench.target.requests) <= 8 // (limit // 40_100) + 2
    assert all(bench[number].position == 11 for number in range(8))


def test_a_batch_above_max_request_size_goes_alone(bench_of: Callable[..., Bench]):
    bench = bench_of(3, max_request_size=10_000)
    for number, size in enumerate((2_000, 50_000, 2_000)):
        bench.bring(number, batch(10, 1, size=size).encode())
    bench.send()
    assert sorted(map(len, sizes(bench))) == [1, 1, 1]
    assert all(bench[number].position == 11 for number in range(3))


def test_without_the_setting_two_large_batches_share_no_request(bench_of: Callable[..., Bench]):
    """Together they might be above socket.request.max.bytes, and the broker would hang up again and again."""
    bench = bench_of(2)
    for number in range(2):
        bench.bring(number, batch(10, 1, size=REQUEST_BYTES - 1_000).encode())
    bench.send()
    assert list(map(len, sizes(bench))) == [1, 1]


def test_a_shift_ends_where_a_batch_cannot_be_made_ahead_for_a_reason_that_nobody_foresaw(
    bench_of: Callable[..., Bench], monkeypatch: pytest.MonkeyPatch
):
    """The partitions that wait behind it would wait, and more would come, for as long as the shift lasts."""
    bench = bench_of(1)

    def make_ahead(copy: PartitionCopy) -> None:
        raise KeyError(copy.source.topic)

    monkeypatch.setattr(PartitionCopy, "make_ahead", make_ahead)
    bench.lane.appender._plan_ahead(bench[0])
    bench.run(bench.rest)
    with pytest.raises(KeyError, match="orders"):
        bench.send()
