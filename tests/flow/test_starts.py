"""Where partitions begin that have no position: as the file says, on a real broker."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from confluent_kafka import Producer

from sparkmirror.config import AutoOffsetReset, Beginning, FlowConfig, StartPlace, StartPlaces
from sparkmirror.errors import SparkmirrorError
from sparkmirror.events import Event, Kind
from sparkmirror.flow.facts import Facts
from sparkmirror.flow.planner import changed_ids, check_ids, starts_of
from sparkmirror.flow.starts import find_starts
from sparkmirror.kafka import admin
from sparkmirror.kafka.cluster import Cluster
from sparkmirror.kafka.leaders import OffsetSpec
from sparkmirror.kafka.rounds import Results
from sparkmirror.kafka.topic_ids import ids_of_topics
from sparkmirror.lab.cluster import LabCluster
from sparkmirror.model import TopicPartition, Writer
from sparkmirror.offsets.records import Progress
from tests.flow.running import create_topic, until
from tests.flow.test_events import delete_records, write
from tests.flow.test_once import produce

WHEN = 1_700_000_000_000
LATEST, EARLIEST = StartPlace(kind=Beginning.LATEST), StartPlace(kind=Beginning.EARLIEST)


def moment(number: int) -> StartPlace:
    return StartPlace(kind=Beginning.TIMESTAMP, value=WHEN + number)


def exactly(offset: int) -> StartPlace:
    return StartPlace(kind=Beginning.OFFSET, value=offset)


@pytest.mark.kafka
def test_partitions_begin_where_the_file_says_and_one_that_cannot_says_why(
    lab_flow: FlowConfig,
    cluster_a: LabCluster,
    lab_cluster: Callable[[str], Cluster],
    topic: Callable[[str], str],
) -> None:
    name = topic("starts")
    create_topic(cluster_a, name, 6)
    producer = Producer({"bootstrap.servers": cluster_a.bootstrap_servers, "log_level": 3})
    for number in range(20):
        for partition in range(6):
            producer.produce(name, b"x", partition=partition, timestamp=WHEN + number)
    assert producer.flush(60) == 0
    here = [TopicPartition(name, partition) for partition in range(6)]
    start = StartPlaces(
        position=moment(5),
        partitions=(
            (name, 1, exactly(7)),
            (name, 2, exactly(21)),
            (name, 3, LATEST),
            (name, 4, EARLIEST),
            (name, 5, moment(100)),
        ),
    )
    flow = replace(lab_flow, start=start)
    starts, refused = find_starts(flow, lab_cluster("A"), here, dict.fromkeys(here, 0), dict.fromkeys(here, 20), 60_000)
    assert [starts[place] for place in here if place.partition != 2] == [5, 7, 20, 0, 20]
    assert [(place.partition, event.text.partition(":")[0]) for place, event in refused.items()] == [
        (2, "start.positions says that it begins at offset 21, and the source has offsets 0 to 20")
    ]


@pytest.mark.kafka
def test_a_partition_that_has_a_position_is_not_moved_and_one_that_cannot_begin_stands_still(
    lab_flow: FlowConfig,
    cluster_a: LabCluster,
    cluster_b: LabCluster,
    lab_cluster: Callable[[str], Cluster],
    topic: Callable[[str], str],
) -> None:
    name, written = topic("starts"), topic("written")
    for cluster, one in (
        (cluster_a, name),
        (cluster_b, f"A.{name}"),
        (cluster_a, written),
        (cluster_b, f"A.{written}"),
    ):
        create_topic(cluster, one, 3)
    produce(cluster_a, written, partitions=1, records=1)
    here = [TopicPartition(name, partition) for partition in range(3)]
    filled = [TopicPartition(written, partition) for partition in range(3)]
    writer = Writer(producer_id=7, epoch=0)
    begun = Progress(partition=here[0], writer=writer, generation=1, position=0, next_sequence=0)
    start = StartPlaces(topics=((name, EARLIEST),), partitions=((name, 0, exactly(9)), (name, 1, exactly(9))))
    plans, waiting = starts_of(
        replace(lab_flow, start=start),
        lab_cluster("A"),
        lab_cluster("B"),
        [(one, TopicPartition(f"A.{one.topic}", one.partition)) for one in (*here, *filled)],
        facts=Facts({}),
        progress={here[0]: begun, filled[2]: replace(begun, partition=filled[2])},
        source_epoch=lambda _here, _position: -1,
        history=lambda _here, _topic_id: (),
        compare=lambda _spans: Results(found={}, failed={}),
        writers=[writer],
        copied={},
        resumed={},
        moves={},
        floors={},
        occupied=lambda pairs: {one: Event(kind=Kind.TARGET_NOT_EMPTY, text="occupied") for one, _ in pairs},
        once=False,
    )
    assert {one.plan.source: one.plan.position for one in plans} == {here[0]: 0, here[2]: 0, filled[2]: 0}
    # Of a topic with something to copy every partition without a position is asked about; of others none.
    assert set(waiting) == {here[1], filled[0], filled[1]}
    assert {waiting[one].kind for one in filled[:2]} == {Kind.TARGET_NOT_EMPTY}
    assert "begins at offset 9, and the source has offsets 0 to 0" in waiting[here[1]].text


@pytest.mark.parametrize(("reset", "expected"), [(AutoOffsetReset.EARLIEST, 3), (AutoOffsetReset.LATEST, 9)])
@pytest.mark.kafka
def test_without_a_start_the_consumers_setting_counts_and_a_topics_start_wins_over_it(
    lab_flow: FlowConfig, lab_cluster: Callable[[str], Cluster], reset: AutoOffsetReset, expected: int
) -> None:
    here, there = TopicPartition("a", 0), TopicPartition("b", 0)
    flow = replace(lab_flow, auto_offset_reset=reset, start=StartPlaces(topics=(("b", LATEST),)))
    starts, refused = find_starts(
        flow, lab_cluster("A"), [here, there], {here: 3, there: 3}, {here: 9, there: 9}, 1_000
    )
    assert (starts, refused) == ({here: expected, there: 9}, {})


@pytest.mark.parametrize(
    ("before", "after", "changed"),
    [
        ({}, {}, set()),
        ({"t": "1", "u": "2"}, {"u": "2", "t": "1"}, set()),
        ({"t": "", "u": ""}, {"t": "", "u": ""}, set()),
        ({"t": "1", "u": "2"}, {"t": "3", "u": "2"}, {"t"}),
        ({"t": "1"}, {}, {"t"}),
        ({}, {"t": "1"}, {"t"}),
    ],
)
def test_a_topic_that_is_another_one_in_the_second_look_was_made_anew(before, after, changed):
    assert changed_ids(before, after) == changed


@pytest.mark.kafka
def test_a_topic_that_is_made_anew_while_it_is_asked_for_its_offsets_is_asked_again(
    lab_flow: FlowConfig,
    cluster_a: LabCluster,
    cluster_b: LabCluster,
    lab_cluster: Callable[[str], Cluster],
    topic: Callable[[str], str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    name = topic("made-anew")
    source, target = lab_cluster("A"), lab_cluster("B")
    here, there = TopicPartition(name, 0), TopicPartition(f"A.{name}", 0)
    for cluster, one in ((cluster_a, here), (cluster_b, there)):
        create_topic(cluster, one.topic)
    write(cluster_a, name, [0], [b"%d" % number for number in range(30)])
    delete_records(cluster_a, name, 20)
    old = ids_of_topics(source, [name])[name]
    writer = Writer(producer_id=7, epoch=0)
    begun = Progress(partition=here, writer=writer, generation=1, position=30, next_sequence=0, topic_id=old)
    ask, again = admin.find_offsets, [True]

    def asked(cluster, places, spec, **more):
        found = ask(cluster, places, spec, **more)
        if spec is OffsetSpec.LATEST and again.pop() if again else False:
            admin.delete_topics(source, [name]).complete()
            until(lambda: not admin.list_topics(source, [name]), "it is gone")
            create_topic(cluster_a, name)
            write(cluster_a, name, [0], [b"another"] * 5)
        return found

    def look():
        return starts_of(
            lab_flow,
            source,
            target,
            [(here, there)],
            facts=Facts({}),
            progress={here: begun},
            source_epoch=lambda _here, _position: -1,
            history=lambda _here, _topic_id: (),
            compare=lambda _spans: Results(found={}, failed={}),
            writers=[writer],
            copied={},
            resumed={},
            moves={},
            floors={},
            occupied=lambda _pairs: {},
            once=False,
        )

    monkeypatch.setattr(admin, "find_offsets", asked)
    starts, waiting = look()
    assert (starts, list(waiting)) == ((), [here])
    assert "was made anew on cluster A while it was asked" in waiting[here].text
    ((start,), waiting) = look()
    assert (start.plan.position, start.plan.topic_id, waiting) == (0, ids_of_topics(source, [name])[name], {})
    assert start.event is not None
    assert start.event.kind is Kind.SOURCE_RECREATED


@pytest.mark.kafka
def test_offsets_of_a_topic_that_is_another_one_now_are_not_put_on_record(
    cluster_a: LabCluster, lab_cluster: Callable[[str], Cluster], topic: Callable[[str], str]
) -> None:
    name, absent = topic("same"), topic("absent")
    create_topic(cluster_a, name)
    source = lab_cluster("A")
    check_ids(source, {**ids_of_topics(source, [name, absent]), absent: ""})
    for before in ("f" * 32, ""):
        with pytest.raises(SparkmirrorError, match=f"topic {name} was deleted or made anew on cluster A"):
            check_ids(source, {name: before})
    with pytest.raises(SparkmirrorError, match=f"topic {absent} was deleted"):
        check_ids(source, {absent: "f" * 32})
