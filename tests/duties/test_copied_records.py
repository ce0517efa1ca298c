"""Records of the source are held against their copies on real brokers; what has no copy says nothing."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
from confluent_kafka import Producer

from sparkmirror.batches import index
from sparkmirror.config import FlowConfig
from sparkmirror.duties.copied_records import CopiedRecords, Copy, Held, HeldRecords, _Window, _without
from sparkmirror.kafka.admin import absent, list_offsets
from sparkmirror.kafka.cluster import Cluster
from sparkmirror.kafka.leaders import OffsetSpec
from sparkmirror.kafka.reading import Span
from sparkmirror.lab.cluster import LabCluster
from sparkmirror.model import TopicPartition, Writer
from sparkmirror.offsets.map import PartitionMap
from sparkmirror.offsets.records import Progress
from sparkmirror.offsets.segments import Opening, segments_of, targets_of
from sparkmirror.offsets.source_history import Alike, Looked
from tests.flow.running import create_topic
from tests.flow.test_events import delete_records
from tests.raw_batches import fetch

SHIFT = 5
"""So much further on copies lie on the target."""

pytestmark = pytest.mark.kafka

KEPT = {"retention.ms": "-1"}
"""The records are of 1970."""


def copier(cluster: LabCluster) -> Producer:
    """Who writes copies: one with a producer id."""
    return Producer({"bootstrap.servers": cluster.bootstrap_servers, "log_level": 0, "enable.idempotence": True})


def write(
    cluster: LabCluster, name: str, values: Sequence[bytes], time_ms: int, producer: Producer | None = None
) -> None:
    producer = producer or Producer({"bootstrap.servers": cluster.bootstrap_servers, "log_level": 0})
    for value in values:
        producer.produce(name, value, b"key", 0, timestamp=time_ms)
    assert producer.flush(30) == 0


def id_of_copier(target: Cluster, copy: str) -> int:
    """The producer id of the copies that were written first and are still there; 1 where there are none."""
    if absent(target, [TopicPartition(copy, 0)], 20_000):
        return 1
    found = [int(one) for one in index(fetch(target, copy, offset=first_offset(target, copy))).producer_id if one >= 0]
    return found[0] if found else 1


def first_offset(target: Cluster, copy: str) -> int:
    place = TopicPartition(copy, 0)
    return list_offsets(target, [place], OffsetSpec.EARLIEST)[place]


def compare(flow: FlowConfig, source: Cluster, target: Cluster, name: str, first: int, end: int) -> Looked:
    place, known = TopicPartition(name, 0), PartitionMap()
    writer = Writer(producer_id=id_of_copier(target, f"A.{name}"), epoch=0)
    known.take(segments_of(place, writer, [Opening(0, 0)], unguarded=False, anew=False))
    known.take(targets_of(place, writer, [Opening(0, SHIFT)]))
    progress = Progress(
        partition=place,
        writer=writer,
        generation=1,
        position=40,
        next_sequence=40,
        sequence=39,
        source=39,
        target=39 + SHIFT,
    )
    maps = {place: known.offsets(progress, (writer.producer_id,))}
    compared = CopiedRecords(flow, source, target, lambda _places: maps, 20_000).compare({place: Span(first, end)})
    assert compared.failed == {}
    return compared.found[place]


def test_the_first_records_tell_as_far_as_copies_are_left(
    lab_flow: FlowConfig,
    lab_cluster: Callable[[str], Cluster],
    cluster_a: LabCluster,
    cluster_b: LabCluster,
    topic: Callable[[str], str],
) -> None:
    name = topic("alike")
    copy, source, target = f"A.{name}", lab_cluster("A"), lab_cluster("B")
    create_topic(cluster_a, name, config=KEPT)
    unknown, other = Alike.UNKNOWN, Alike.OTHER
    assert compare(lab_flow, source, target, name, 0, 40) == (unknown, 40, False, True), "nothing is there"
    write(cluster_a, name, [b"same"] * 20, 1_000)
    assert compare(lab_flow, source, target, name, 0, 20).alike is unknown, "there is no copy of the topic"
    create_topic(cluster_b, copy, config=KEPT)
    mine = copier(cluster_b)
    write(cluster_b, copy, [b"foreign"] * SHIFT, 1_000)
    write(cluster_b, copy, [b"same"] * 20, 1_000, mine)
    assert compare(lab_flow, source, target, name, 0, 20) == (Alike.SAME, 20, False, True)
    write(cluster_a, name, [b"same"] * 5 + [b"here"] * 5, 2_000)
    write(cluster_b, copy, [b"same"] * 5 + [b"there"] * 5, 1_000, mine)
    assert compare(lab_flow, source, target, name, 0, 30) == (Alike.SAME, 20, True, True), "the first ones are"
    assert compare(lab_flow, source, target, name, 20, 25).alike is other, "of another time"
    assert compare(lab_flow, source, target, name, 25, 30).alike is other
    write(cluster_a, name, [b"here"] * 5, 1_000)
    write(cluster_b, copy, [b"of another"] * 5, 1_000)
    assert compare(lab_flow, source, target, name, 30, 35).alike is unknown, "the flow has not written what lies there"
    delete_records(cluster_b, copy, 25 + SHIFT)
    assert compare(lab_flow, source, target, name, 0, 20).alike is unknown, "their copies are gone"
    assert compare(lab_flow, source, target, name, 25, 40).alike is other
    assert compare(lab_flow, source, target, name, 0, 40).alike is other, "the first ones that are left"
    delete_records(cluster_a, name, 30)
    assert compare(lab_flow, source, target, name, 0, 40).alike is unknown


def test_the_time_that_the_brokers_of_the_source_set_is_compared_unless_those_of_the_target_set_times_too(
    lab_flow: FlowConfig,
    lab_cluster: Callable[[str], Cluster],
    cluster_a: LabCluster,
    cluster_b: LabCluster,
    topic: Callable[[str], str],
) -> None:
    name = topic("stamped")
    copy, source, target = f"A.{name}", lab_cluster("A"), lab_cluster("B")
    create_topic(cluster_a, name, config={"message.timestamp.type": "LogAppendTime"})
    create_topic(cluster_b, copy, config=KEPT)
    write(cluster_a, name, [b"same"] * 20, 1_000)
    write(cluster_b, copy, [b"foreign"] * SHIFT, 1_000)
    write(cluster_b, copy, [b"same"] * 20, 1_000, copier(cluster_b))
    assert compare(lab_flow, source, target, name, 0, 20).alike is Alike.OTHER
    copy = f"A.{name}-too"
    create_topic(cluster_a, f"{name}-too", config={"message.timestamp.type": "LogAppendTime"})
    create_topic(cluster_b, copy, config={"message.timestamp.type": "LogAppendTime"})
    write(cluster_a, f"{name}-too", [b"same"] * 20, 1_000)
    write(cluster_b, copy, [b"foreign"] * SHIFT, 1_000)
    write(cluster_b, copy, [b"same"] * 20, 1_000, copier(cluster_b))
    assert compare(lab_flow, source, target, f"{name}-too", 0, 20).alike is Alike.SAME


def test_a_record_that_the_source_has_no_more_contradicts_no_copy(
    lab_flow: FlowConfig, cluster_a: LabCluster, cluster_b: LabCluster, lab_cluster: Callable[[str], Cluster], topic
):
    names = {each: topic(each) for each in ("same", "other", "deleted", "beyond")}
    for name in names.values():
        for cluster in (cluster_a, cluster_b):
            create_topic(cluster, name, 1, KEPT)
        producer = Producer({"bootstrap.servers": cluster_a.bootstrap_servers, "log_level": 3})
        there = Producer({"bootstrap.servers": cluster_b.bootstrap_servers, "log_level": 3})
        for number in range(1 if name == names["beyond"] else 3):
            producer.produce(name, b"%d" % number, timestamp=1_000)
        for number in range(3):
            there.produce(name, b"%d" % (number + (name == names["other"])), timestamp=1_000)
        assert producer.flush(30) == there.flush(30) == 0
    delete_records(cluster_a, names["deleted"], 3)
    places = {TopicPartition(name, 0): Copy(TopicPartition(name, 0), 2, 2) for name in names.values()}
    found = HeldRecords(lab_flow, lab_cluster("A"), lab_cluster("B"), 30_000).hold(places).complete()
    held = {"same": Held.SAME, "other": Held.OTHER, "deleted": Held.GONE, "beyond": Held.GONE}
    assert {place.topic: one for place, one in found.items()} == {name: held[each] for each, name in names.items()}


PLACE = TopicPartition("a.t", 0)
HELD = ((3, 13), (4, 14), (6, 16))
LAST = Copy(PLACE, 6, 16, ((4, 14), (3, 13), (2, 12)), HELD)


@pytest.mark.parametrize(
    ("one", "end", "left"),
    [
        pytest.param(LAST, 7, LAST, id="the source has all"),
        pytest.param(LAST, 5, Copy(PLACE, 4, 14, ((3, 13), (2, 12)), HELD[:2], cut=True), id="it has lost the last"),
        pytest.param(LAST, 3, Copy(PLACE, 2, 12, (), (), cut=True), id="it has lost all that is to be held"),
        pytest.param(LAST, 2, None, id="it has lost all"),
    ],
)
def test_what_the_source_has_lost_is_not_held_against_it(one: Copy, end: int, left: Copy | None):
    assert one.below(end) == left


@pytest.mark.parametrize(("cut", "found"), [(False, Held.OTHER), (True, Held.GONE)])
def test_records_of_a_transaction_whose_marker_the_source_has_lost_are_no_forgery(cut: bool, found: Held):
    """Nobody reads them there any more, so the log seems to end before them."""
    one = Copy(PLACE, 6, 16, held=HELD, cut=cut)
    assert _without(one, _Window(Span(0, 4), Span(0, 17))) is found


def test_records_before_the_last_one_are_held_too_as_far_as_both_logs_have_them(
    lab_flow: FlowConfig, cluster_a: LabCluster, cluster_b: LabCluster, lab_cluster: Callable[[str], Cluster], topic
):
    name = topic("between")
    place = TopicPartition(name, 0)
    for cluster, values in ((cluster_a, [b"0", b"1", b"2", b"3", b"4"]), (cluster_b, [b"0", b"1", b"x", b"3", b"4"])):
        create_topic(cluster, name, 1, KEPT)
        producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "log_level": 3})
        for value in values:
            producer.produce(name, value, timestamp=1_000)
        assert producer.flush(30) == 0

    def held(*offsets: int) -> Held:
        one = Copy(place, 4, 4, held=tuple((offset, offset) for offset in offsets))
        return HeldRecords(lab_flow, lab_cluster("A"), lab_cluster("B"), 30_000).hold({place: one}).complete()[place]

    def ahead(*offsets: int) -> Held:
        one = Copy(place, 6, 4, held=tuple((offset, offset - 2) for offset in offsets))
        return HeldRecords(lab_flow, lab_cluster("A"), lab_cluster("B"), 30_000).hold({place: one}).complete()[place]

    assert ahead(5, 6) is Held.OTHER, "the source has come to offset 5"
    assert ahead(6) is Held.GONE, "and it has lost that one"
    assert ahead() is Held.GONE
    assert held() is Held.SAME
    assert held(3, 4) is Held.SAME
    assert held(1, 2, 3, 4) is Held.OTHER, "though the last one is the same"
    delete_records(cluster_a, name, 3)
    assert held(1, 2, 3, 4) is Held.SAME, "of what the source has no more nothing is known"


def write_one_by_one(cluster: LabCluster, name: str, values: Sequence[bytes]) -> None:
    """Each in a transaction of its own, so that a marker lies behind it; "aborted" ones are."""
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "transactional.id": name, "log_level": 3})
    producer.init_transactions(60)
    for value in values:
        producer.begin_transaction()
        producer.produce(name, value, value, 0, timestamp=1_000)
        if value == b"aborted":
            assert producer.flush(30) == 0
            producer.abort_transaction(60)
        else:
            producer.commit_transaction(60)


def test_an_offset_at_which_the_source_has_no_record_contradicts_a_copy_unless_a_log_cleaner_may_have_removed_it(
    lab_flow: FlowConfig, cluster_a: LabCluster, cluster_b: LabCluster, lab_cluster: Callable[[str], Cluster], topic
):
    """The records of the source lie at offsets 0, 2, 6 and 8, an aborted one at 4; of copies there are 0 to 3."""
    kept, compacted = topic("kept"), topic("compacted")
    values = [b"0", b"2", b"aborted", b"6", b"8"]
    for name, policy in ((kept, "delete"), (compacted, "compact")):
        create_topic(cluster_a, name, 1, {"cleanup.policy": policy})
        create_topic(cluster_b, name, 1, KEPT)
        write_one_by_one(cluster_a, name, values)
        there = Producer({"bootstrap.servers": cluster_b.bootstrap_servers, "log_level": 3})
        for value in (b"0", b"2", b"6", b"8"):
            there.produce(name, value, value, 0, timestamp=1_000)
        assert there.flush(30) == 0

    def held(name: str, source: int, target: int, *earlier: tuple[int, int]) -> Held:
        place = TopicPartition(name, 0)
        one = Copy(place, source, target, earlier)
        return HeldRecords(lab_flow, lab_cluster("A"), lab_cluster("B"), 30_000).hold({place: one}).complete()[place]

    assert held(kept, 6, 2) is Held.SAME
    assert held(kept, 3, 2, (2, 1), (0, 0)) is Held.OTHER, "a marker has no copy"
    assert held(kept, 4, 2, (2, 1), (0, 0)) is Held.OTHER, "nor has an aborted record"
    assert held(compacted, 7, 3, (6, 2)) is Held.OTHER, "it is the copy of what lies further on"
    assert held(compacted, 9, 3, (8, 2), (6, 1)) is Held.OTHER, "the records before it are others too"
    assert held(compacted, 9, 3, (6, 2), (2, 1)) is Held.SAME, "those before it are the same"
    assert held(compacted, 9, 3) is Held.CLEANED, "nothing near it can be compared"
    assert held(compacted, 9, 3, (5, 2)) is Held.CLEANED, "nor here"
