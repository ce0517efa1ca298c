"""The registry of writers: what its records say, and that a lane reads on in it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from sparkmirror import batches
from sparkmirror.config import FlowConfig
from sparkmirror.copy.origins import Origins, read_registry
from sparkmirror.copy.registrations import Carrier, Refusal, Registration, transactional_id
from sparkmirror.duties.internal_topics import ensure_internal_topics
from sparkmirror.errors import SparkmirrorError
from sparkmirror.events import Kind
from sparkmirror.kafka.cluster import Cluster
from sparkmirror.kafka.journal import Journal, Pair
from sparkmirror.kafka.producer_ids import acquire_writer
from sparkmirror.lab.cluster import LabCluster
from sparkmirror.model import NO_OFFSET
from sparkmirror.naming import WRITERS_TOPIC
from tests.batches.building import log
from tests.copy.making import batch
from tests.flow.running import create_topic

CARRIER = Carrier(source_id="id-b", target_id="id-a")


def of_producers(*writers: tuple[int, int]) -> batches.Indexed:
    """One batch of each producer id and epoch."""
    return batches.index(
        log([batch(offset, 1, producer=(each, epoch, 0)) for offset, (each, epoch) in enumerate(writers)])
    )


def kind_of(refusal: Refusal | None) -> Kind | None:
    return refusal.kind if refusal is not None else None


@pytest.mark.kafka
def test_a_lane_reads_on_in_the_registry_for_each_new_producer(
    lab_flow: FlowConfig, lab_cluster: Callable[..., Cluster]
):
    target = lab_cluster("B")
    ensure_internal_topics(lab_flow, target)
    registry = Journal(target, WRITERS_TOPIC)
    origins = Origins(registry, CARRIER, back="C->B")

    def register(producer_id: int, cluster: str, *origin: str, carried: tuple[str, ...] = ()) -> None:
        writer = Registration(producer_id=producer_id, flow="C->B", cluster=cluster, origin=origin, carried=carried)
        target.run(registry.append, [(writer.key, writer.value)])

    seen = of_producers((7_101, 0), (7_102, 0))
    register(7_101, "id-b", "id-a")
    assert origins.unknown(seen) == {7_101: 0, 7_102: 0}
    target.run(origins.look_up, {7_101: 0})
    assert 7_101 in origins.loops
    assert origins.unknown(seen) == {7_102: 0}

    register(7_102, "id-b", "id-a", "id-c")
    register(7_103, "id-b", "id-c")
    register(7_104, "another cluster", "id-a")
    target.run(origins.look_up, {7_102: 0, 7_103: 2, 7_104: 0})
    assert origins.unknown(seen) == {}
    assert {7_101, 7_102} <= set(origins.loops.tolist())
    assert not {7_103, 7_104} & set(origins.loops.tolist())
    assert origins.refuses(seen, frozenset()) is None

    assert [origins.copies_end(seen, end) for end in (0, 1, 2)] == [NO_OFFSET, 1, 2]
    assert Origins(registry, CARRIER).copies_end(seen, 2) == NO_OFFSET

    relayed = of_producers((7_104, 0), (7_103, 1), (7_103, 2))
    assert origins.unknown(relayed) == {}
    assert origins.refuses(relayed, frozenset({"id-c"})) is None
    assert kind_of(origins.refuses(relayed, frozenset())) is Kind.RELAYED
    ways = {way: mask.tolist() for way, mask in origins.ways(relayed).items()}
    assert ways == {("id-c",): [False, True, True]}

    # Its next epoch carries more: that is looked up once more, and no batch before it is.
    register(7_103, "id-b", "id-c", carried=("id-a",))
    assert origins.refuses(relayed, frozenset({"id-c"})) is None
    newer = of_producers((7_103, 2), (7_103, 3))
    assert origins.unknown(newer) == {7_103: 3}
    target.run(origins.look_up, {7_103: 3})
    assert origins.unknown(newer) == {}
    assert kind_of(origins.refuses(newer, frozenset({"id-c"}))) is Kind.LOOP
    entries = target.run(read_registry, registry)
    assert [entry.offset for entry in entries] == sorted(entry.offset for entry in entries)
    assert {'["writer", 7103]', '["writer", 7104]'} <= {entry.key for entry in entries}


@pytest.mark.kafka
def test_what_is_left_out_is_counted_and_a_producer_that_its_cluster_does_not_confirm_is_told_of(
    lab_cluster: Callable[..., Cluster], cluster_b: LabCluster, topic_name: str
):
    """Whoever writes to the registry can name the producer id of anybody; the cluster hands out ids by itself."""
    target = lab_cluster("B")
    create_topic(cluster_b, topic_name)
    registry = Journal(target, topic_name)
    flow, origin = f"{topic_name}->B", ("id-a",)

    def register(producer_id: int, flow: str = flow) -> None:
        writer = Registration(producer_id=producer_id, flow=flow, cluster="id-b", origin=origin, group=0)
        target.run(registry.append, [(writer.key, writer.value)])

    mirror = acquire_writer(target, transactional_id(flow, origin, 0), 20_000).producer_id
    application, stranger = mirror + 1_000_001, mirror + 1_000_002
    register(mirror)
    register(application)
    register(stranger, flow="evil->B")
    seen = of_producers((mirror, 0), (application, 0), (9, 0), (stranger, 0), (application, 0))
    origins = Origins(registry, CARRIER)
    target.run(origins.look_up, origins.unknown(seen))

    told = {one.producer_id: one for one in origins.left_out(seen, 0, 5)}
    assert {each: one[1:4] for each, one in told.items()} == {
        mirror: (((1, 1),), 0, 0),
        application: (((2, 1), (5, 1)), 1, 4),
        stranger: (((4, 1),), 3, 3),
    }
    assert told[mirror].doubt == ""
    assert "has another producer id there" in told[application].doubt
    assert "does not know transactional id sparkmirror.evil->B." in told[stranger].doubt
    assert [one[:2] for one in origins.left_out(seen, 1, 4)] == [(application, ((2, 1),)), (stranger, ((4, 1),))]


@pytest.mark.kafka
def test_a_registration_of_a_producer_that_was_looked_up_before_holds_only_if_its_cluster_confirms_it(
    lab_cluster: Callable[..., Cluster], cluster_b: LabCluster, topic_name: str
):
    """A mirror registers an id before its first batch; whoever does so later may name an application's."""
    target = lab_cluster("B")
    create_topic(cluster_b, topic_name)
    registry = Journal(target, topic_name)
    flow = f"{topic_name}->B"

    def register(producer_id: int, *origin: str) -> None:
        writer = Registration(producer_id=producer_id, flow=flow, cluster="id-b", origin=origin, group=0)
        target.run(registry.append, [(writer.key, writer.value)])

    mirror = acquire_writer(target, transactional_id(flow, ("id-a",), 0), 20_000).producer_id
    application, another, new = mirror + 1_000_001, mirror + 1_000_002, mirror + 1_000_003
    seen = of_producers((mirror, 0), (application, 0), (application, 0), (another, 0))
    origins = Origins(registry, CARRIER, back=flow)
    target.run(origins.look_up, origins.unknown(seen))
    register(mirror, "id-a")
    register(application, "id-a")
    register(another, "id-c")
    target.run(origins.look_up, {new: 0})

    assert origins.loops.tolist() == [mirror]
    assert [(one.producer_id, one.doubt) for one in origins.left_out(seen, 0, 4)] == [(mirror, "")]
    assert [one[:4] for one in origins.late(seen, 0, 4)] == [
        (application, ((2, 1), (3, 1)), 1, 2),
        (another, ((4, 1),), 3, 3),
    ]
    assert all("the cluster does not confirm that" in one.doubt for one in origins.late(seen, 0, 4))
    assert origins.refuses(seen, frozenset()) is None
    assert origins.copies_end(seen, 4) == 1
    # To a lane that meets them only now they are left out, and that is told.
    later = Origins(registry, CARRIER)
    target.run(later.look_up, later.unknown(seen))
    assert {one.producer_id: bool(one.doubt) for one in later.left_out(seen, 0, 4)} == {
        mirror: False,
        application: True,
    }


@pytest.mark.kafka
def test_a_registration_that_cannot_be_read_is_an_error_until_it_is_removed(
    lab_cluster: Callable[..., Cluster], cluster_b: LabCluster, topic_name: str
):
    """What is none by its key is passed over. In a topic of its own: other tests' flows read the cluster's registry."""
    target = lab_cluster("B")
    create_topic(cluster_b, topic_name)
    registry = Journal(target, topic_name)
    origins = Origins(registry, CARRIER)
    key = '["writer", 7105]'
    others: list[Pair] = [("hello", "world"), (b"\xff", "no text"), (key, "[" * 100_000)]
    target.run(registry.append, others)
    for each in (origins, origins, Origins(registry, CARRIER)):
        with pytest.raises(SparkmirrorError, match=r"-0 at offset 2 .* key \[.writer., 7105\]: .* without a value"):
            target.run(each.look_up, {7_105: 0})
        assert 7_105 not in each.known

    target.run(registry.append, [(key, None)])
    for each in (origins, Origins(registry, CARRIER)):
        target.run(each.look_up, {7_105: 0})
        assert 7_105 in each.known


@pytest.mark.kafka
def test_a_cluster_without_a_registry_has_no_mirrors_in_it(lab_cluster: Callable[..., Cluster], topic_name: str):
    source = lab_cluster("A")
    origins = Origins(Journal(source, topic_name), CARRIER)
    source.run(origins.look_up, {5: 0})
    assert 5 in origins.known
    assert origins.loops.size == 0
    assert source.run(read_registry, Journal(source, topic_name)) == []
