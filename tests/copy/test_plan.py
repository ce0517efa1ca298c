"""Which lane copies what: pure decisions of the driver, and plans that cross to executors."""

from __future__ import annotations

import pickle
from collections import Counter
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from sparkmirror.copy.plan import ShiftPlan, group_of, lane_count, pack
from sparkmirror.model import TopicPartition
from tests.copy.making import plan

_partitions = st.builds(TopicPartition, st.sampled_from(["orders", "clicks", "größen"]), st.integers(0, 40))
_weights = st.dictionaries(_partitions, st.floats(0, 1e9), max_size=30)


@given(_weights, st.integers(1, 12))
def test_every_partition_is_packed_into_one_lane(weights: dict[TopicPartition, float], lanes: int):
    packed = pack(weights, lanes)
    assert Counter(p for lane in packed for p in lane) == Counter(weights.keys())
    assert len(packed) == min(lanes, len(weights))
    assert all(packed)
    assert all(list(lane) == sorted(lane) for lane in packed)


@given(_weights, st.integers(1, 12))
def test_no_lane_is_heavier_than_the_mean_and_one_partition(weights: dict[TopicPartition, float], lanes: int):
    """The bound of longest-first packing; idle partitions count a little (a hundredth of the mean, at least 1)."""
    if not weights:
        return
    floor = max(1.0, sum(weights.values()) / len(weights) / 100)
    work = {p: max(floor, weight) for p, weight in weights.items()}
    packed = pack(weights, lanes)
    mean, heaviest = sum(work.values()) / len(packed), max(work.values())
    assert max(sum(work[p] for p in lane) for lane in packed) <= (mean + heaviest) * (1 + 1e-9)


@given(_weights, st.integers(1, 12), st.randoms())
def test_packing_does_not_depend_on_the_order(weights: dict[TopicPartition, float], lanes: int, random):
    shuffled = list(weights.items())
    random.shuffle(shuffled)
    assert pack(dict(shuffled), lanes) == pack(weights, lanes)


def test_a_hot_partition_sits_alone():
    weights = {TopicPartition("t", n): 1.0 for n in range(6)} | {TopicPartition("hot", 0): 1_000.0}
    assert (TopicPartition("hot", 0),) in pack(weights, 3)


def test_idle_partitions_are_spread():
    assert sorted(map(len, pack({TopicPartition("t", n): 0.0 for n in range(9)}, 3))) == [3, 3, 3]


def test_no_partitions_make_no_lanes():
    assert pack({}, 4) == ()


def test_tasks_max_counts_where_the_file_says_it():
    assert lane_count(3, free_slots=8, partitions=100) == 3
    assert lane_count(3, free_slots=8, partitions=2) == 2
    assert lane_count(3, free_slots=2, partitions=100) == 2, "more would wait for a slot without end"


def test_free_slots_count_where_it_does_not():
    assert lane_count(None, free_slots=4, partitions=100) == 4
    assert lane_count(None, free_slots=0, partitions=100) == 1
    assert lane_count(None, free_slots=4, partitions=0) == 0


def test_the_group_of_a_partition_never_changes():
    """Positions on record belong to producer ids: another hash would hand partitions to other writers."""
    known = [group_of(TopicPartition(topic, n), 8) for topic in ("orders", "größen") for n in range(6)]
    assert known == [4, 7, 2, 5, 0, 3, 4, 7, 2, 5, 0, 3]


@given(_partitions, st.integers(1, 50))
def test_a_group_is_one_of_those_there_are(partition: TopicPartition, groups: int):
    assert 0 <= group_of(partition, groups) < groups


def test_groups_are_used_evenly():
    count = Counter(group_of(TopicPartition("orders", n), 8) for n in range(800))
    assert min(count.values()) > 60


def test_predecessors_are_the_shifts_that_hand_over():
    shift = ShiftPlan(
        flow="A->B",
        run="r",
        shift="lane-0.1",
        generation=1,
        partitions=(plan(), plan(after="lane-0.0"), plan(after="lane-0.0")),
    )
    assert shift.predecessors == {"lane-0.0"}
    assert replace(shift, partitions=(plan(),)).predecessors == frozenset()


def test_a_plan_survives_pickling():
    shift = ShiftPlan(flow="A->B", run="r", shift="lane-0.1", generation=4, partitions=(plan(until=9), plan()))
    assert pickle.loads(pickle.dumps(shift)) == shift
