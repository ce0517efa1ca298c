from __future__ import annotations

import pytest
from confluent_kafka import Producer
from hypothesis import given
from hypothesis import strategies as st

from sparkmirror.errors import LabError
from sparkmirror.lab.tally import Tally, ids_of, tally, tally_all


@pytest.mark.parametrize(
    ("there", "expected"),
    [
        pytest.param([1, 2, 3, 4], {}, id="equal"),
        pytest.param([1, 2, 4], {"lost": 1}, id="one in the middle is lost"),
        pytest.param([], {"lost": 4}, id="all is lost"),
        pytest.param([1, 2, 3, 2, 3, 4], {"repeated": 2}, id="a stretch comes again"),
        pytest.param([1, 3, 2, 4], {"reordered": 1}, id="two change places"),
        pytest.param([4, 1, 2, 3], {"reordered": 3}, id="the last comes first"),
        pytest.param([1, 2, 3, 4, 9], {"foreign": 1}, id="one of somebody else"),
        pytest.param([1, 3, 2, 2], {"lost": 1, "reordered": 1, "repeated": 1}, id="everything"),
    ],
)
def test_what_differs_is_counted(there: list[int], expected: dict[str, int]) -> None:
    assert tally([1, 2, 3, 4], there) == Tally(records=4, **expected)


def test_what_the_source_holds_twice_may_be_there_twice() -> None:
    assert tally([1, 2, 2], [1, 2, 2]).clean
    assert tally([1, 2, 2], [1, 2, 2, 2]).repeated == 1


@given(st.lists(st.integers(0, 50), unique=True))
def test_a_log_is_equal_to_itself_and_to_no_other_order(ids: list[int]) -> None:
    assert tally(ids, ids) == Tally(records=len(ids))
    assert tally(ids, ids[::-1]).reordered == max(0, len(ids) - 1)


def test_a_partition_that_only_one_side_has_counts() -> None:
    parts = tally_all({0: [1], 1: [2]}, {0: [1], 2: [3]})
    assert sum(parts.values(), Tally()) == Tally(records=2, lost=1, foreign=1)


@pytest.mark.kafka
def test_ids_are_read_from_values_all_or_the_last(cluster_a, topic_name) -> None:
    producer = Producer({"bootstrap.servers": cluster_a.bootstrap_servers})
    for number in range(20):
        producer.produce(topic_name, b"%d|more" % number)
    assert producer.flush(60) == 0
    assert ids_of(cluster_a.bootstrap_servers, topic_name) == {0: list(range(20))}
    assert ids_of(cluster_a.bootstrap_servers, topic_name, last=3) == {0: [17, 18, 19]}
    producer.produce(topic_name, b"no id")
    assert producer.flush(60) == 0
    with pytest.raises(LabError, match="the record at 20 has no id"):
        ids_of(cluster_a.bootstrap_servers, topic_name)
