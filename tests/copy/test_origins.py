"""The registry of writers: what its records say, and that a lane reads on in it."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparkmirror import batches
from sparkmirror.config import FlowConfig
from sparkmirror.copy.origins import (
    Origins,
    Registration,
    ids_of_flow,
    registration,
    writer_key,
    writer_value,
)
from sparkmirror.duties.internal_topics import ensure_internal_topics
from sparkmirror.errors import SparkmirrorError
from sparkmirror.kafka.cluster import Cluster
from sparkmirror.kafka.journal import Entry, Journal
from sparkmirror.lab.cluster import LabCluster
from sparkmirror.model import Writer
from sparkmirror.naming import WRITERS_TOPIC
from tests.batches.building import log
from tests.copy.making import batch
from tests.flow.running import create_topic


@given(
    st.integers(0, 2**62),
    st.text(),
    st.text(),
    st.lists(st.text(), max_size=4).map(tuple),
    st.none() | st.integers(0, 7),
)
def test_a_registration_comes_back_as_it_was_written(
    producer_id: int, flow: str, cluster: str, origin: tuple[str], group: int | None
):
    writer = Writer(producer_id=producer_id, epoch=5)
    wanted = Registration(producer_id=producer_id, flow=flow, cluster=cluster, origin=origin, group=group)
    assert registration(writer_key(writer), writer_value(flow, cluster, origin, group)) == wanted


@pytest.mark.parametrize(
    ("key", "value"),
    [('["chain",1,2]', '{"v":1}'), ('["writer",7]', '{"v":2,"else":1}')],
    ids=["kind", "version"],
)
def test_what_a_later_release_writes_is_passed_over(key: str, value: str):
    assert registration(key, value) is None


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("hello", "{}"),
        ("[]", '{"v":1}'),
        ('["writer"]', '{"v":1}'),
        ('["writer",1]', "[]"),
        ('["writer","x"]', '{"v":1}'),
    ],
)
def test_what_is_not_a_registration_is_an_error(key: str, value: str):
    with pytest.raises(ValueError, match=f"not a record of {WRITERS_TOPIC}"):
        registration(key, value)


def registered(producer_id: int, group: int | None, flow: str = "A->B", cluster: str = "b", origin: str = "a") -> Entry:
    key = writer_key(Writer(producer_id=producer_id, epoch=0))
    return Entry(producer_id, key, writer_value(flow, cluster, tuple(origin), group))


def test_the_registry_tells_every_producer_id_of_a_flow_oldest_first():
    entries = [
        registered(1, 0),
        registered(2, 1),
        registered(3, 0, flow="A->C"),
        registered(4, 0, cluster="c"),
        registered(5, 0, origin="ac"),
        registered(6, None),
        registered(7, 1),
        registered(8, 2),
        Entry(9, '["writer",2]', None),
        Entry(10, "hello", "{}"),
        Entry(11, '["writer",12]', '{"v":2}'),
    ]
    assert ids_of_flow(entries, "A->B", "b", ("a",)) == {1: 0, 2: 1, 6: None, 7: 1, 8: 2}
    assert ids_of_flow(entries, "A->B", "b", ("c", "a")) == {5: 0}


# ------------------------------------------------------------------------------------------------------- real registry


@pytest.mark.kafka
def test_a_lane_reads_on_in_the_registry_for_each_new_producer(
    lab_flow: FlowConfig, lab_cluster: Callable[..., Cluster]
):
    target = lab_cluster("B")
    ensure_internal_topics(lab_flow, target)
    registry = Journal(target, WRITERS_TOPIC)
    origins = Origins(registry, "id-b", "id-a")

    def register(producer_id: int, cluster: str, *origin: str) -> None:
        record = (writer_key(Writer(producer_id=producer_id, epoch=0)), writer_value("C->B", cluster, origin))
        target.run(registry.append, [record])

    seen = batches.index(log([batch(0, 1, producer=(7_101, 0, 0)), batch(1, 1, producer=(7_102, 0, 0))]))
    register(7_101, "id-b", "id-a")
    assert batches.unknown_producers(seen, origins.known).tolist() == [7_101, 7_102]
    target.run(origins.look_up, [7_101])
    assert 7_101 in origins.loops
    assert batches.unknown_producers(seen, origins.known).tolist() == [7_102]

    register(7_102, "id-b", "id-a", "id-c")
    register(7_103, "id-b", "id-c")
    register(7_104, "another cluster", "id-a")
    target.run(origins.look_up, [7_102, 7_103, 7_104])
    assert batches.unknown_producers(seen, origins.known).size == 0
    assert {7_101, 7_102} <= set(origins.loops.tolist())
    assert not {7_103, 7_104} & set(origins.loops.tolist())
    assert origins.relayed(seen) == ""
    assert origins.relayed(batches.index(log([batch(0, 1, producer=(7_103, 0, 0))]))) == "C->B"


@pytest.mark.kafka
def test_what_no_mirror_has_written_is_an_error_until_it_is_removed(
    lab_cluster: Callable[..., Cluster], cluster_b: LabCluster, topic_name: str
):
    """In a topic of its own: the cluster's registry is read by other tests' flows."""
    target = lab_cluster("B")
    create_topic(cluster_b, topic_name)
    registry = Journal(target, topic_name)
    origins = Origins(registry, "id-b", "id-a")
    target.run(registry.append, [("hello", "world")])
    for each in (origins, origins, Origins(registry, "id-b", "id-a")):
        with pytest.raises(SparkmirrorError, match="key hello; write a record without a value"):
            target.run(each.look_up, [7_105])
        assert 7_105 not in each.known

    target.run(registry.append, [("hello", None)])
    for each in (origins, Origins(registry, "id-b", "id-a")):
        target.run(each.look_up, [7_105])
        assert 7_105 in each.known


@pytest.mark.kafka
def test_a_cluster_without_a_registry_has_no_mirrors_in_it(lab_cluster: Callable[..., Cluster], topic_name: str):
    source = lab_cluster("A")
    origins = Origins(Journal(source, topic_name), "id-a", "id-b")
    source.run(origins.look_up, [5])
    assert 5 in origins.known
    assert origins.loops.size == 0
