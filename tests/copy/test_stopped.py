"""A partition that stopped is fetched no more, at once, whoever stopped it; no cluster is asked here.

What the source sends meanwhile is counted by the kernel, between real brokers.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest
from confluent_kafka import Producer

from sparkmirror.copy.arrivals import Ticket
from sparkmirror.copy.lane import Lane
from sparkmirror.copy.orders import Orders
from sparkmirror.errors import BatchError, LinkError
from sparkmirror.kafka import admin
from sparkmirror.kafka.admin import NewTopic
from sparkmirror.kafka.cluster import Cluster, new_loop
from sparkmirror.kafka.metadata import TopicView
from sparkmirror.model import Reached
from sparkmirror.offsets.records import SourceEpoch
from sparkmirror.offsets.segments import Segments
from tests.batches.building import log
from tests.copy.making import BEGIN, LARGE, Bench, batch, told
from tests.copy.staging import WAIT_SECONDS, Stage, wait_until

NOT_ALLOWED, OUT_OF_ORDER, LEADER_GONE, TOPIC_UNKNOWN = 29, 45, 6, 3
BYTES_RECEIVED = 128
"""Where ``tcpi_bytes_received`` lies in the kernel's ``tcp_info``."""


@pytest.fixture
def bench() -> Iterator[Bench]:
    made = Bench(2)
    made.target.slow = True
    for partition in made.lane.partitions:
        made.lane.fetcher.update(partition)
    made.bring(0, log([batch(BEGIN + number, 1, size=LARGE) for number in range(8)]))
    made.send()
    yield made
    made.close()


def refused(code: int) -> Callable[[Bench], None]:
    """The target answers all that is in flight with a code."""

    def refuse(bench: Bench) -> None:
        for one in list(bench[0]._unacknowledged):
            bench[0].refused(one, code, "as the test wants it")

    return refuse


def refused_for_long(bench: Bench) -> None:
    bench[0].patience_s = -1.0
    refused(LEADER_GONE)(bench)


def an_epoch_that_ends_too_early(bench: Bench) -> None:
    bench[0].footing.reached = Reached(leader_epoch=3, end=50)
    bench[0].check(bench[0].footing.question(), 3, 40, 0.0)


def an_offset_that_was_acknowledged_before(bench: Bench) -> None:
    bench[0].footing.reached = Reached(leader_epoch=3, end=50)
    bench[0].acknowledged(bench[0]._unacknowledged[0], 20)


def the_map_cannot_be_written(bench: Bench) -> None:
    async def fail(records: Iterable[Segments | SourceEpoch], timeout_ms: int = 0) -> None:
        raise LinkError(cluster="B", address="b:1", reason="gone")

    watch = bench.lane.watch
    watch.publisher.write_ahead = fail  # type: ignore[method-assign]  # there is no target
    bench.run(watch._put_on_record, [([], Ticket(), bench[0])])


def a_target_that_is_gone(bench: Bench) -> None:
    leaders = bench.lane.leaders
    leaders._learn_target(bench[0], TopicView(name="A.orders", code=NOT_ALLOWED, topic_id=None, leaders={}))


def an_order_to_move(bench: Bench) -> None:
    bench.lane.handover.state.orders = Orders(moving=frozenset({bench[0].source}))
    bench.lane.obey()


def a_batch_that_cannot_be_merged(bench: Bench) -> None:
    bench[0].fail_before_waiting("cannot be merged")
    assert bench[0].obstacle, "what is in flight is waited for"


def a_batch_that_cannot_be_copied(bench: Bench) -> None:
    bench[0].fail_after_sending("cannot be copied")
    assert bench[0].obstacle, "what is in flight is waited for"


def a_question_that_fails(bench: Bench) -> None:
    async def fail() -> None:
        raise BatchError(offset=3, reason="broken")

    bench.lane.intake._ask(bench[0], fail())
    bench.run(bench.rest)


def damage(bench: Bench) -> None:
    damaged = bytearray(log([batch(BEGIN + 8, 1, size=LARGE)]))
    damaged[-1] ^= 1
    bench.bring(0, bytes(damaged))


WAYS = {
    "refused for good": refused(NOT_ALLOWED),
    "given back": refused(OUT_OF_ORDER),
    "refused for longer than the patience": refused_for_long,
    "the new leader lacks what was acknowledged": an_epoch_that_ends_too_early,
    "appended below what was acknowledged": an_offset_that_was_acknowledged_before,
    "stopped": lambda bench: bench[0].stop("stopped"),
    "the lane was given up": lambda bench: bench[0].lose("given up"),
    "the offset map cannot be written": the_map_cannot_be_written,
    "the target cannot be used": a_target_that_is_gone,
    "moved by its operator": an_order_to_move,
    "an obstacle, while batches are in flight": a_batch_that_cannot_be_merged,
    "an obstacle behind what waits": a_batch_that_cannot_be_copied,
    "a question about it fails": a_question_that_fails,
    "damage at the source": damage,
}


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS.keys())
def test_whoever_stops_a_partition_it_is_fetched_no_more(bench: Bench, way: Callable[[Bench], None]):
    fetcher, asked, load = bench.lane.fetcher, bench.source.asked, bench.lane.load
    fetcher.request_more(0)
    way(bench)
    assert bench[0].error or bench[0].obstacle

    held = load.bytes
    fetcher.pace.change(1e6, 0.0)
    before = fetcher.pace._budget
    asked[0][2](told(log([batch(BEGIN + 8 + number, 1, size=LARGE) for number in range(8)])))
    for fetched in fetcher.answers():
        bench.lane.intake.take(fetched)
    assert (load.bytes, fetcher.pace._budget) == (held, before), "what was under way is dropped"

    fetcher.pace.change(None, 0.0)
    fetcher.request_more(0)
    (request, _, _) = asked[-1]
    assert len(asked) == 2
    assert [(topic.topic, topic.partitions) for topic in request.forgotten_topics_data] == [("orders", [0])]
    assert not request.topics, "the other partition stays as it is"

    while bench[0].in_flight:
        bench.target.answer()
        bench.send()
    assert bench[0].error
    assert load.bytes == 0, "the others have the memory"
    fetcher.update(bench[0])
    fetcher.refetch(bench[0])
    assert bench[0].source not in fetcher._sessions[1]


def test_a_lane_whose_partitions_stopped_asks_for_nothing(bench: Bench):
    for partition in bench.lane.partitions:
        partition.stop("stopped")
    bench.lane.fetcher.request_more(0)
    assert not bench.source.asked


def received(cluster: Cluster) -> int:
    """How many bytes have come by the connections that stand, as the kernel counts them."""
    total = 0
    for connection in list(cluster.connections._conns.values()):
        sock = getattr(connection.transport, "_sock", None)
        if sock is not None:
            info = sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, BYTES_RECEIVED + 8)
            total += struct.unpack_from("Q", info, BYTES_RECEIVED)[0]
    return total


@pytest.mark.kafka
def test_a_stopped_partition_with_megabytes_behind_it_costs_the_line_nothing(stage: Stage, threads: ThreadPoolExecutor):
    """Each round needs an answer of the source, which would bring a megabyte of the stopped partition each time."""
    refusing = f"{stage.target_topic}.small"
    small = NewTopic(name=refusing, partitions=1, configs=(("max.message.bytes", "500"),))
    admin.create_topics(stage.clusters("B"), [small]).complete()
    stopped, living, _ = stage.plans()
    shift = stage.shift("lane-0.0", (replace(stopped, target_topic=refusing), living))
    producer = Producer({"bootstrap.servers": stage.source_servers, "compression.type": "none", "linger.ms": 50})
    for _ in range(24):
        producer.produce(stage.topic, b"x" * 900_000, partition=0)
    assert producer.flush(WAIT_SECONDS) == 0

    loop = new_loop("stopped")
    source = Cluster("A", stage.config.source.consumer, role="test", loop=loop)
    target = Cluster("B", stage.config.target.producer, role="test", loop=loop)
    lane = Lane(shift, stage.config, source, target)
    job = threads.submit(loop.run, lane.copy)
    try:

        def bring_one(number: int) -> None:
            producer.produce(stage.topic, b"%d" % number, partition=1)
            assert producer.flush(WAIT_SECONDS) == 0
            wait_until(lambda: job.done() or lane.partitions[1].position > number)
            assert not job.done()

        wait_until(lambda: job.done() or lane.partitions[0].error != "")
        assert "too large" in lane.partitions[0].error
        bring_one(0)  # what was under way has come
        before = received(source)
        for number in range(1, 16):
            bring_one(number)
        assert received(source) - before < 100_000
    finally:
        stage.drain()
        job.result(WAIT_SECONDS)
        source.close()
        target.close()
        loop.close()
