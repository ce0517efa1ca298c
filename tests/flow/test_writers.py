"""A flow's producer ids at a real coordinator: two drivers, forgotten ids, epochs that come to their end."""

from __future__ import annotations

import struct
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

import pytest
from kafka.protocol.admin import DescribeTransactionsRequest

from sparkmirror import batches
from sparkmirror.config import ClientSettings, FlowConfig
from sparkmirror.copy.plan import group_of
from sparkmirror.copy.registrations import ids_of_flow, of_flow
from sparkmirror.errors import FencedError, LinkError
from sparkmirror.flow.homecoming import Homecoming
from sparkmirror.flow.identities import Identities
from sparkmirror.flow.opening import Opened, open_flow
from sparkmirror.flow.planning import Planning
from sparkmirror.flow.positions import Resumed
from sparkmirror.flow.writers import GROUPS, Fenced, Writers
from sparkmirror.kafka.admin import NewTopic, create_topics, wait_for_leaders
from sparkmirror.kafka.cluster import Cluster
from sparkmirror.kafka.journal import Journal
from sparkmirror.kafka.tails import last_batches
from sparkmirror.lab.cluster import LabCluster, start
from sparkmirror.model import Alias, FlowName, TopicPartition, Writer
from sparkmirror.naming import WRITERS_TOPIC
from sparkmirror.offsets.orders import MoveOrder
from sparkmirror.offsets.segments import Segments
from sparkmirror.offsets.writers import KEEP_ALIVE_SECONDS, LAST_EPOCH, ROTATE_FROM, Unfenceable, WayToFence
from tests.batches.building import Rec, Written
from tests.flow.running import create_topic, until
from tests.kafka.writing import INVALID_PRODUCER_EPOCH, TIMEOUT_MS, new_topic, write

pytestmark = pytest.mark.kafka

EXPIRATION_SECONDS = 15
TRANSACTIONAL_ID_NOT_FOUND = 105
TARGET_ID = "the target's id"
ORIGIN = ("the source's id",)


@pytest.fixture(scope="module")
def lab() -> Iterator[LabCluster]:
    """A broker that forgets transactional ids soon."""
    config = {
        "transactional.id.expiration.ms": str(EXPIRATION_SECONDS * 1_000),
        "transaction.remove.expired.transaction.cleanup.interval.ms": "500",
    }
    with start("writers", config=config) as lab:
        yield lab


@pytest.fixture(scope="module")
def target(lab: LabCluster) -> Iterator[Cluster]:
    cluster = Cluster("B", ClientSettings(bootstrap_servers=(lab.bootstrap_servers,)), role="test")
    registry = NewTopic(
        name=WRITERS_TOPIC, partitions=1, replication_factor=1, configs=(("cleanup.policy", "compact"),)
    )
    create_topics(cluster, [registry], TIMEOUT_MS).complete()
    wait_for_leaders(cluster, {WRITERS_TOPIC: 1}, TIMEOUT_MS).complete()
    yield cluster
    cluster.close()


class Clock:
    """Stands still until it is told otherwise."""

    def __init__(self) -> None:
        self.now = 1_000.0

    def __call__(self) -> float:
        return self.now


def driver(
    target: Cluster, flow: str, clock: Clock | None = None, *, headers: bool = False, on_record: tuple[Writer, ...] = ()
) -> Writers:
    return Writers(
        target,
        flow=flow,
        target_id=TARGET_ID,
        origin=ORIGIN,
        headers=headers,
        timeout_ms=TIMEOUT_MS,
        on_record=on_record,
        clock=clock or Clock(),
    )


def on_record(target: Cluster, flow: str) -> dict[int | None, int]:
    """The registered producer id of each group."""
    entries, _ = target.run(Journal(target, WRITERS_TOPIC).read_all, TIMEOUT_MS)
    in_order = sorted(entries.values(), key=lambda entry: entry.offset)
    return {group: producer_id for producer_id, group in ids_of_flow(in_order, flow, TARGET_ID, ORIGIN).items()}


def ids(writers: tuple[Writer, ...]) -> dict[int, int]:
    return {group: writer.producer_id for group, writer in enumerate(writers)}


def renewed(writers: Writers, group: int) -> Writer:
    writer = writers.renew(group)
    assert isinstance(writer, Writer)
    return writer


def test_each_start_raises_the_epochs_and_registers_an_id_once(target: Cluster, topic_name: str):
    first = driver(target, topic_name)
    before = first.acquire_all()
    assert len(set(ids(before).values())) == GROUPS
    assert on_record(target, topic_name) == ids(before)
    second = driver(target, topic_name)
    assert second.acquire_all() == tuple(Writer(producer_id=w.producer_id, epoch=w.epoch + 1) for w in before)
    assert (first.unfenceable, second.unfenceable, second.to_rotate) == ({}, {}, ())
    assert second.renew(3) == Writer(producer_id=before[3].producer_id, epoch=before[3].epoch + 2)
    assert on_record(target, topic_name) == ids(before)


def test_what_a_writer_carries_is_on_record_before_its_epoch_and_never_taken_back(target: Cluster, topic_name: str):
    def told() -> set[tuple[tuple[str, ...], int | None]]:
        entries, _ = target.run(Journal(target, WRITERS_TOPIC).read_all, TIMEOUT_MS)
        in_order = sorted(entries.values(), key=lambda entry: entry.offset)
        return {(known.carried, known.headers) for known in of_flow(in_order, topic_name, TARGET_ID, ORIGIN).values()}

    writers = driver(target, topic_name)
    first = writers.acquire_all()
    assert (told(), writers.carried(first[2])) == ({((), None)}, ())
    writers.declare(frozenset("yx"))
    assert (told(), writers.carried(first[2])) == ({(("x", "y"), None)}, ())
    assert (writers.carried(renewed(writers, 2)), writers.carried(first[3])) == (("x", "y"), ())

    later = driver(target, topic_name, headers=True)
    anew = later.acquire_all()
    assert later.carried(anew[0]) == ("x", "y")
    headers = {(("x", "y"), writer.epoch) for writer in anew}
    assert told() == headers
    assert driver(target, topic_name, headers=True).acquire_all() != anew
    assert told() == headers  # what has them since then has them still
    driver(target, topic_name).acquire_all()
    assert told() == {(("x", "y"), None)}


def test_what_could_not_be_declared_for_every_group_is_declared_again(
    target: Cluster, topic_name: str, monkeypatch: pytest.MonkeyPatch
):
    writers, fails = driver(target, topic_name), [False, False, False, True]
    first = writers.acquire_all()
    register = writers._register

    def away(groups: tuple[int, ...], since: int | None = None) -> None:
        if fails and fails.pop(0):
            raise LinkError(cluster="b", address="b:1", reason="away")
        register(groups, since)

    monkeypatch.setattr(writers, "_register", away)
    with pytest.raises(LinkError):
        writers.declare(frozenset("x"))
    writers.declare(frozenset("x"))
    assert {writers.carried(writer) for writer in first} == {()}
    assert {writers.carried(renewed(writers, group)) for group in range(GROUPS)} == {("x",)}


def test_a_driver_hears_when_it_renews_that_another_one_has_the_flow(target: Cluster, topic_name: str):
    mine, theirs = driver(target, topic_name), driver(target, topic_name)
    mine.acquire_all()
    mine.keep_alive((0, 1))
    theirs.acquire_all()
    with pytest.raises(FencedError, match="another driver"):
        mine.keep_alive()
    theirs.keep_alive()


def test_transactional_ids_are_due_every_six_hours(target: Cluster, topic_name: str):
    clock = Clock()
    writers = driver(target, topic_name, clock)
    writers.acquire_all()
    assert writers.due() == ()
    clock.now += KEEP_ALIVE_SECONDS
    writers.renew(5)
    assert writers.due() == (0, 1, 2, 3, 4, 6, 7)
    writers.keep_alive((1, 2))
    assert writers.due() == (0, 3, 4, 6, 7)
    writers.keep_alive()
    assert writers.due() == ()
    assert writers.due(clock.now + KEEP_ALIVE_SECONDS) == tuple(range(GROUPS))


def test_a_takeover_shuts_out_a_lane_that_is_epochs_behind(target: Cluster, topic_name: str):
    """Renewals raise the epoch without the lanes' knowledge, and change nothing for them."""
    (partition,) = new_topic(target, topic_name)
    writers = driver(target, topic_name)
    lane = writers.acquire_all()[2]
    assert write(target, partition, lane, 0, 4).code == 0
    writers.keep_alive()
    assert write(target, partition, lane, 4, 4).code == 0
    taken = writers.take_over(2, [partition], TIMEOUT_MS)
    assert isinstance(taken, Fenced)
    assert taken.writer == Writer(producer_id=lane.producer_id, epoch=lane.epoch + 2)
    tail = last_batches(target, [partition], TIMEOUT_MS, fenced=taken.marks.complete()).complete()[partition]
    assert [(batch.epoch, batch.sequence, batch.control) for batch in tail.batches] == [
        (lane.epoch, 4, False),
        (taken.writer.epoch, -1, True),
    ]
    assert write(target, partition, lane, 8).code == INVALID_PRODUCER_EPOCH
    assert write(target, partition, taken.writer, 0).code == 0


def test_an_id_that_the_coordinator_forgot_under_a_writer_is_named_until_its_lanes_are_dead(
    target: Cluster, topic_name: str
):
    (partition,) = new_topic(target, topic_name)
    running = driver(target, topic_name)
    lanes = running.acquire_all()
    written = 0

    def forgotten() -> bool:
        nonlocal written
        assert write(target, partition, lanes[0], written).code == 0, "writing is no sign of life to the coordinator"
        written += 1
        return is_forgotten(target, running.transactional_id(0))

    until(forgotten, "the transactional id expires", EXPIRATION_SECONDS + 60)
    assert running.renew(0) == Unfenceable(old=lanes[0].producer_id)
    assert on_record(target, topic_name)[0] == lanes[0].producer_id, "what may not be written with is not registered"
    running.keep_alive((0,))
    assert running.unfenceable == {0: Unfenceable(old=lanes[0].producer_id)}
    assert running.take_over(0, [partition], TIMEOUT_MS) == Unfenceable(old=lanes[0].producer_id)
    assert write(target, partition, lanes[0], written).code == 0, "nothing shuts it out"
    following = driver(target, topic_name)
    new = following.acquire_all()
    assert following.unfenceable[0] == Unfenceable(old=lanes[0].producer_id)
    assert on_record(target, topic_name)[0] == lanes[0].producer_id, "a driver that dies now leaves the same verdict"
    for group in following.unfenceable:
        following.confirm(group)
    assert following.unfenceable == {}
    assert on_record(target, topic_name) == ids(new)
    assert driver(target, topic_name).acquire_all()[0].producer_id == new[0].producer_id


def test_at_the_end_of_its_epochs_an_id_is_fenced_with_the_last_one_or_changed_in_order(
    lab: LabCluster, target: Cluster, topic_name: str
):
    before = driver(target, topic_name)
    old = before.acquire_all()
    epochs = {0: LAST_EPOCH - 1, 1: ROTATE_FROM - 1, 2: LAST_EPOCH}
    kept = {group: (writer.producer_id, epochs.get(group, writer.epoch)) for group, writer in enumerate(old)}
    set_epochs(lab, {before.transactional_id(group): held for group, held in kept.items()})
    (partition,) = new_topic(target, topic_name)
    writers = driver(target, topic_name)
    now = writers.acquire_all()
    assert [writer.epoch for writer in now[:4]] == [LAST_EPOCH, ROTATE_FROM, 0, old[3].epoch + 1]
    assert (writers.way_to_fence(0), writers.way_to_fence(1)) == (WayToFence.SPEND, WayToFence.RAISE)
    assert writers.to_rotate == (0, 1)
    assert writers.unfenceable == {2: Unfenceable(old=old[2].producer_id)}
    writers.keep_alive((0,))
    assert write(target, partition, now[0], 0, 5).code == 0
    taken = writers.take_over(0, [partition], TIMEOUT_MS)
    assert isinstance(taken, Fenced)
    assert taken.marks.complete()[partition].epoch == LAST_EPOCH + 1
    assert last_batches(target, [partition], TIMEOUT_MS, fenced=taken.marks.found).failed == {}
    assert write(target, partition, now[0], 5).code == INVALID_PRODUCER_EPOCH
    assert taken.writer.producer_id != now[0].producer_id
    assert write(target, partition, taken.writer, 0).code == 0
    rotation = writers.rotate(1)
    assert (rotation.old, rotation.new.epoch) == (now[1], 0)
    assert rotation.new.producer_id != rotation.old.producer_id
    assert not writers.to_rotate
    writers.confirm(2)
    assert on_record(target, topic_name) == ids(now) | {0: taken.writer.producer_id, 1: rotation.new.producer_id}


def test_epochs_that_the_coordinator_has_forgotten_are_not_used_again(
    lab: LabCluster, target: Cluster, topic_name: str
):
    """On record are those of group 1 only; a leader knows one of group 2, and the driver that runs all that it had."""
    (partition,) = new_topic(target, topic_name)
    running = driver(target, topic_name)
    first = running.acquire_all()
    lane = running.renew(0), renewed(running, 1), renewed(running, 2)
    running.renew(3)
    for held in lane[1:]:
        assert isinstance(held, Writer)
        assert write(target, partition, held, 0, 5).code == 0
    set_epochs(lab, {running.transactional_id(n): (one.producer_id, one.epoch - 1) for n, one in enumerate(first)})
    following = driver(target, topic_name, on_record=(lane[1],))
    now = following.acquire_all()
    assert now[1] == replace(lane[1], epoch=lane[1].epoch + 1)
    assert now[2] == first[2]
    assert following.forgot == {1}
    taken = following.take_over(2, [partition], TIMEOUT_MS)
    assert isinstance(taken, Fenced)
    assert taken.writer == replace(lane[2], epoch=lane[2].epoch + 1)
    assert list(taken.marks.complete()) == [partition]
    assert write(target, partition, lane[2], 5).code == INVALID_PRODUCER_EPOCH
    assert write(target, partition, taken.writer, 0).code == 0
    assert renewed(running, 3).epoch == first[3].epoch + 2
    assert running.forgot == {3}


def set_epochs(lab: LabCluster, wanted: Mapping[str, tuple[int, int]]) -> None:
    """Writes transactional ids with producer id and epoch into the coordinator's log, while the broker is down.

    Asking for 32,766 epochs takes a minute or more. The record is that of ``TransactionLogKey`` and
    ``TransactionLogValue`` in version 0: an id without a transaction, last used so late that it does not expire.
    """
    (broker,) = lab.brokers
    broker.stop()
    log = max((broker.directory / "data" / "__transaction_state-0").glob("*.log"))
    found = batches.index(log.read_bytes())
    then = int(time.time() * 1000) + 86_400_000
    recs = tuple(
        Rec(
            number,
            then,
            struct.pack(">hh", 0, len(name)) + name.encode(),
            struct.pack(">hqhibiqq", 0, producer_id, epoch, 30_000, 0, -1, then, -1),
        )
        for number, (name, (producer_id, epoch)) in enumerate(wanted.items())
    )
    written = Written(
        records=recs, base_offset=int(found.last_offset[-1]) + 1, leader_epoch=int(found.leader_epoch[-1])
    )
    with log.open("ab") as file:
        file.write(written.encode())
    broker.start()


def test_a_settled_partition_that_begins_anew_waits_for_the_id_that_took_the_place_of_a_forgotten_one(
    lab: LabCluster, lab_flow: FlowConfig, cluster_a: LabCluster, target: Cluster, topic: Callable[[str], str]
):
    name = topic("forgotten")
    flow = replace(lab_flow, name=FlowName(source=Alias(name), target=Alias("B")), topics=(name,))
    here, there = TopicPartition(name, 0), TopicPartition(f"{name}.{name}", 0)
    for cluster, each in ((cluster_a, here), (lab, there)):
        create_topic(cluster, each.topic)
    source = Cluster(name, flow.source.admin, role="test")
    try:
        opened = open_flow(flow, source, target, "file", "run", Identities("file"))
        planning = Planning(flow, opened, source, target, Homecoming(flow, opened, source), once=False)
        (plan,) = planning.plan([(here, there)], {}, {}).plans
        planning.resuming.hand_out([here])
        old, group = plan.writer, group_of(here, GROUPS)
        opened.store.write([Segments(partition=here, writer=old, sequence=0, source=0)])
        assert write(target, there, old, 0, 3).code == 0
        opened.store.write([MoveOrder(partition=here, to=0, topic_id="", time_ms=1, by="a test")])
        opened.store.follow()
        until(
            lambda: is_forgotten(target, opened.writers.transactional_id(group)), "it expires", EXPIRATION_SECONDS + 60
        )

        settled = Resumed(position=3, writer=old, sequence=3, opened=True)
        planned = planning.plan([(here, there)], {here: settled}, {})
        assert not planned.plans
        assert planned.to_take_over == frozenset(planned.waiting) == {here}
        registered = on_record_of(target, str(flow.name), opened)
        assert registered[group] == old.producer_id, "nothing may be written with the new id yet"
        generation = opened.generation

        planned = planning.plan([(here, there)], {}, {})
        assert "waits for old lanes to end" in planned.waiting[here][0].text
        (plan,) = planning.plan([(here, there)], {}, {}).plans
        assert plan.writer.producer_id != old.producer_id
        assert on_record_of(target, str(flow.name), opened)[group] == plan.writer.producer_id
        assert (plan.position, plan.sequence, plan.opened) == (0, 0, False)
        assert opened.generation > generation
    finally:
        source.close()


def is_forgotten(target: Cluster, transactional_id: str) -> bool:
    request = DescribeTransactionsRequest(transactional_ids=[transactional_id])
    return bool(target.call(request).transaction_states[0].error_code == TRANSACTIONAL_ID_NOT_FOUND)


def on_record_of(target: Cluster, flow: str, opened: Opened) -> dict[int | None, int]:
    entries, _ = target.run(Journal(target, WRITERS_TOPIC).read_all, TIMEOUT_MS)
    in_order = sorted(entries.values(), key=lambda entry: entry.offset)
    known = ids_of_flow(in_order, flow, opened.target_id, (opened.source_id,))
    return {group: producer_id for producer_id, group in known.items()}
