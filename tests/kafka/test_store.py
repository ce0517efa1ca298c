"""What a driver writes of many partitions at once: whatever happens, all of a partition is there or nothing of it."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from sparkmirror.kafka.journal import BATCH_BYTES, Pair, size_of, split
from sparkmirror.kafka.store import batches_by_partition
from sparkmirror.offsets import json_text
from sparkmirror.offsets.orders import RATE_KEY, MoveOrder
from sparkmirror.offsets.records import partition_of
from tests.offsets.world import PLACE

_partitions = st.integers(0, 3)
_sizes = st.sampled_from([0, 1_000, BATCH_BYTES // 4])
_pairs = st.lists(st.tuples(_partitions, st.sampled_from(["progress", "move"]), _sizes))


@given(_pairs)
def test_all_of_a_partition_is_in_one_batch_and_in_its_order(wanted: list[tuple[int, str, int]]):
    pairs: list[Pair] = [
        (json_text.write([kind, "orders", partition, number]), "v" * size if size else None)
        for number, (partition, kind, size) in enumerate(wanted)
    ]
    batches = list(batches_by_partition(pairs))
    for partition in range(4):
        mine = [pair for pair in pairs if partition_of(pair[0]) == ("orders", partition)]
        found = [[pair for pair in batch if pair in mine] for batch in batches]
        assert [pair for some in found for pair in some] == mine
        if sum(map(size_of, mine)) <= BATCH_BYTES:
            assert sum(map(bool, found)) <= 1
    for batch in batches:
        assert len(split(batch)) == 1 or len({partition_of(key) for key, _ in batch}) == 1


def test_a_key_says_which_partition_its_record_is_about():
    order = MoveOrder(partition=PLACE, to=1, topic_id="", time_ms=1, by="me", leader_epoch=0)
    assert partition_of(order.key) == PLACE
    assert [partition_of(key) for key in (RATE_KEY, '["group","readers","orders"]', "{}", "nothing")] == [None] * 4
