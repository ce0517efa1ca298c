"""The ends of real logs: whose batches they hold, and from where on they are told completely."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kafka.protocol.admin import DeleteRecordsRequest

from sparkmirror import batches
from sparkmirror.batches import Codec
from sparkmirror.errors import BrokerError
from sparkmirror.kafka.admin import list_topics
from sparkmirror.kafka.cluster import Cluster
from sparkmirror.kafka.fencing import fence
from sparkmirror.kafka.leaders import Leader
from sparkmirror.kafka.producer_ids import acquire_writer
from sparkmirror.kafka.rounds import Answer
from sparkmirror.kafka.tails import (
    OFFSET_NOT_AVAILABLE,
    LogCache,
    Mark,
    _headers,
    _pause,
    _Reading,
    _Wanted,
    last_batches,
    read_headers,
)
from sparkmirror.model import TopicPartition, Writer
from sparkmirror.offsets.log_parts import append
from sparkmirror.offsets.tail import NO_PRODUCER, Tail, TailBatch
from tests.batches.building import CONTROL, TRANSACTIONAL, Rec
from tests.batches.old_messages import Old
from tests.kafka.writing import NOBODY, TIMEOUT_MS, batch, new_topic, send, write

TIMES_MS = 1_700_000_000_000
WRITER = Writer(producer_id=900_000, epoch=4)
"""Brokers take any producer id that they have no state of."""

LARGE = 3 << 20


@pytest.fixture
def cluster(lab_cluster: Callable[[str], Cluster]) -> Cluster:
    return lab_cluster("A")


def end_of(cluster: Cluster, partition: TopicPartition, mark: Mark | None = None) -> Tail:
    fenced = {} if mark is None else {partition: mark}
    return last_batches(cluster, [partition], TIMEOUT_MS, fenced=fenced).complete()[partition]


def spans(tail: Tail) -> list[tuple[int, int]]:
    return [(batch.base_offset, batch.last_offset) for batch in tail.batches]


def fenced(cluster: Cluster, name: str, partition: TopicPartition) -> Mark:
    """Fences with a writer of its own; whoever has written before does not matter here."""
    writer = acquire_writer(cluster, name, TIMEOUT_MS)
    return fence(cluster, name, writer, [partition], TIMEOUT_MS).complete()[partition]


# ------------------------------------------------------------------------------------------------------------ decisions


@pytest.mark.parametrize(
    ("offset", "floor", "start", "high_watermark", "begin"),
    [
        (None, None, 0, 10, 8),
        (None, None, 0, 1, 0),
        (None, None, 0, 0, 0),
        (None, None, 9, 10, 9),
        (None, None, 10, 10, 10),
        (None, 9, 0, 10, 8),
        (None, 5, 0, 10, 4),
        (None, 50, 0, 10, 8),
        (None, 0, 0, 10, 0),
        (3, None, 0, 10, 3),
        (3, None, 5, 10, 5),
        (30, None, 0, 10, 10),
        (8, 6, 0, 10, 5),
        (3, 6, 0, 10, 3),
    ],
)
def test_it_is_read_from_before_the_fence_and_inside_the_log(
    offset: int | None, floor: int | None, start: int, high_watermark: int, begin: int
):
    mark = None if floor is None else Mark(1, 0, floor)
    assert _Wanted(offset, mark).begin(start, high_watermark) == begin


def test_a_message_of_before_kafka_0_11_is_a_foreign_batch():
    """A compressed one does not say where it begins: it is told from the offset on that was asked for."""
    recs = tuple(Rec(number, TIMES_MS + number, None, b"v") for number in range(3))
    log = b"".join(
        (
            Old(records=recs, base_offset=10, codec=Codec.GZIP).encode(),
            Old(records=recs[:1], base_offset=13, magic=0).encode(),
            batch(WRITER, 7, 2, base_offset=14),
        )
    )
    found = _headers(batches.index(log), 11)
    assert [(b.base_offset, b.last_offset, b.producer_id, b.epoch, b.sequence, b.control) for b in found] == [
        (11, 12, -1, -1, -1, False),
        (13, 13, -1, -1, -1, False),
        (14, 15, WRITER.producer_id, WRITER.epoch, 7, False),
    ]


@given(st.lists(st.sampled_from(["ours", "theirs", "nobody's", "our marker", "their marker", "hole", "election"])))
def test_an_answer_is_told_as_its_batches_would_be_one_by_one(kinds: list[str]):
    log, ours = _log(kinds), {WRITER.producer_id}
    index = batches.index(log)
    expected: list[TailBatch] = []
    append(expected, _headers(index, 0) if log else [], ours)
    assert (_headers(index, 0, ours) if log else []) == expected
    ends = [each.base_offset for each in expected]
    assert all(_headers(index, 0, ours, end) == expected[: ends.index(end)] for end in ends if log)


@settings(deadline=None)
@given(st.lists(st.sampled_from(["ours", "theirs", "nobody's", "their marker", "hole", "election"])), st.data())
def test_a_log_that_is_read_in_turns_is_told_as_one_that_is_read_at_once(kinds: list[str], data: st.DataObject):
    """Each turn begins where it likes, stops where it likes, and the log grows and loses its begin meanwhile."""
    cache, log = LogCache(), _log(kinds)
    index = batches.index(log)
    ends = [int(last) + 1 for last in index.last_offset] if log else [0]
    fetched = start = end = 0
    for _ in range(data.draw(st.integers(1, 6), label="turns")):
        cache.begin({WRITER.producer_id})
        end = data.draw(st.sampled_from([each for each in ends if each >= end]), label="end")
        start = data.draw(st.integers(start, end), label="start")
        reading = _reading(cache, start, end, data.draw(st.integers(start, end), label="from"))
        for _ in range(data.draw(st.integers(0, 9), label="answers")):
            if reading.open:
                number = data.draw(st.integers(1, 3), label="batches")
                fetched += _answer(reading, index, log, end, number)
        cache.keep(reading)
        if not reading.open:
            assert reading.tail() == _at_once(index, start, end, reading)
    most = 3 * (len(index) if log else 0)
    assert fetched <= most, "each batch, and at most two that were known behind it"


@pytest.mark.parametrize(
    ("topic_id", "leader_epoch", "kept"), [(UUID(int=1), 1, True), (UUID(int=0), 1, False), (UUID(int=1), -1, False)]
)
def test_a_log_of_which_nothing_tells_that_it_is_the_same_one_is_read_at_once(
    topic_id: UUID, leader_epoch: int, kept: bool
):
    cache, log = LogCache(), _log(["nobody's"] * 3)
    cache.begin({WRITER.producer_id})
    reading = _reading(cache, 0, 6, 0)
    reading.topic_id, reading.leader = topic_id, Leader(1, leader_epoch)
    _answer(reading, batches.index(log), log, 6, 2)
    _pause([reading], cache)
    assert (reading.failure is not None, reading.partition in cache.unfinished) == (kept, kept)
    cache.keep(reading)
    assert cache.size(reading.partition) > 0
    assert [(part.since, part.until) for part in cache.parts(reading.partition, topic_id, leader_epoch)] == (
        [(0, 4)] if kept else []
    )
    assert cache.parts(reading.partition, UUID(int=2), leader_epoch) == (), "another topic"


def test_nothing_is_kept_of_a_log_that_has_another_leader_epoch_or_has_changed():
    cache, log = LogCache(), _log(["nobody's"] * 3)
    changed: Answer[TopicPartition, Tail] = Answer(key=TopicPartition("t", 0), code=OFFSET_NOT_AVAILABLE)
    for failure in (None, changed):
        cache.begin({WRITER.producer_id})
        reading = _reading(cache, 0, 6, 0)
        _answer(reading, batches.index(log), log, 6, 2)
        reading.failure = failure
        cache.keep(reading)
        assert len(cache.parts(reading.partition, UUID(int=1), 1)) == (failure is None)
        assert cache.parts(reading.partition, UUID(int=1), 2) == ()
        assert cache.parts(reading.partition, UUID(int=1), 1) == (), "that was given up then"
    cache.keep(_read_to(cache, log, 4))
    cache.begin({WRITER.producer_id, WRITER.producer_id + 1})
    assert cache.parts(TopicPartition("t", 0), UUID(int=1), 1) == (), "whose batches were told as others'"


def _read_to(cache: LogCache, log: bytes, end: int) -> _Reading:
    reading = _reading(cache, 0, end, 0)
    _answer(reading, batches.index(log), log, end, 9)
    return reading


def _log(kinds: list[str]) -> bytes:
    """Batches of these kinds, of two records each."""
    built, offset, leader_epoch = list[bytes](), 0, 3
    theirs = Writer(producer_id=WRITER.producer_id + 1, epoch=0)
    for kind in kinds:
        offset, leader_epoch = offset + 3 * (kind == "hole"), leader_epoch + (kind == "election")
        writer = {"ours": WRITER, "our marker": WRITER, "nobody's": NOBODY}.get(kind, theirs)
        bits = CONTROL | TRANSACTIONAL if "marker" in kind else 0
        if kind not in ("hole", "election"):
            more = {"base_offset": offset, "bits": bits, "leader_epoch": leader_epoch}
            built.append(batch(writer, -1 if bits else offset, 2, size=2, **more))
            offset += 2
    return b"".join(built)


def _reading(cache: LogCache, start: int, end: int, offset: int) -> _Reading:
    partition, topic_id = TopicPartition("t", 0), UUID(int=1)
    return _Reading(
        partition=partition,
        leader=Leader(1, 1),
        topic_id=topic_id,
        start=start,
        high_watermark=end,
        since=offset,
        offset=offset,
        parts=cache.parts(partition, topic_id, 1),
        own=cache.own,
    )


def _answer(reading: _Reading, index: batches.Indexed, log: bytes, end: int, number: int) -> int:
    """Gives a reading that many of the batches that come next; as many are counted as were given."""
    behind = [
        at
        for at, (last, base) in enumerate(zip(index.last_offset, index.base_offset, strict=True))
        if last >= reading.offset and base < end
    ][:number]
    if not behind:
        reading.high_watermark = reading.offset
        return 0
    stop = int(index.start[behind[-1]] + index.size[behind[-1]])
    reading.take(SimpleNamespace(error_code=0, records=log[int(index.start[behind[0]]) : stop]))
    return len(behind)


def _at_once(index: batches.Indexed, start: int, end: int, seen: _Reading) -> Tail:
    """The same log from where the reading has it on."""
    found: list[TailBatch] = []
    headers = _headers(index, 0) if len(index) else []
    behind = [each for each in headers if each.last_offset >= max(start, seen.since) and each.base_offset < end]
    append(found, behind, seen.own)
    if found and seen.found[0].producer_id == NO_PRODUCER and found[0].producer_id != WRITER.producer_id:
        found[0] = seen.found[0]._replace(last_offset=found[0].last_offset)  # cut off what was told as one: nobody's
    cut = [found[0]._replace(base_offset=seen.found[0].base_offset), *found[1:]] if found else []
    return Tail(start=start, high_watermark=max(end, seen.offset), batches=tuple(cut), since=seen.since)


# ------------------------------------------------------------------------------------------------------------ real logs


@pytest.mark.kafka
def test_the_last_batch_is_told_whole_with_its_writer_and_its_newest_time(cluster: Cluster, topic_name: str):
    (partition,) = new_topic(cluster, topic_name)
    write(cluster, partition, WRITER, 5, 3)
    write(cluster, partition, WRITER, 8, 4)
    tail = end_of(cluster, partition)
    (last,) = tail.batches
    assert (tail.start, tail.high_watermark, tail.since) == (0, 7, 3)
    assert last[:7] == (3, 6, WRITER.producer_id, WRITER.epoch, 8, 4, False)
    assert end_of(cluster, partition).batches[0].newest_ms == last.newest_ms > TIMES_MS


@pytest.mark.kafka
@pytest.mark.parametrize("size", [20, LARGE])
def test_the_batch_before_a_fence_is_told_with_the_control_record(
    cluster: Cluster, topic: Callable[..., str], size: int
):
    (partition,) = new_topic(cluster, topic(), 1, [("max.message.bytes", str(2 * LARGE))])
    write(cluster, partition, WRITER, 0, 9)
    assert write(cluster, partition, WRITER, 9, 2, size=size // 2).code == 0
    mark = fenced(cluster, topic("sparkmirror.tail"), partition)
    tail = end_of(cluster, partition, mark)
    assert spans(tail) == [(9, 10), (11, 11)]
    assert [(b.producer_id, b.control) for b in tail.batches] == [(WRITER.producer_id, False), (mark.producer_id, True)]
    assert (tail.high_watermark, tail.since) == (12, 9)


@pytest.mark.kafka
def test_many_large_batches_come_in_several_answers(cluster: Cluster, topic: Callable[..., str]):
    """An answer holds 32 MiB, and a batch above the limit only as its first."""
    partitions = new_topic(cluster, topic(), 14, [("max.message.bytes", str(2 * LARGE))])
    for number, partition in enumerate(partitions):
        assert write(cluster, partition, WRITER, number, 1, size=LARGE if number % 2 else 10).code == 0
    tails = last_batches(cluster, partitions, TIMEOUT_MS).complete()
    assert {partition: [b.sequence for b in tail.batches] for partition, tail in tails.items()} == {
        partition: [number] for number, partition in enumerate(partitions)
    }


@pytest.mark.kafka
def test_what_others_write_after_a_fence_is_told_as_well(cluster: Cluster, topic: Callable[..., str]):
    (partition,) = new_topic(cluster, topic())
    write(cluster, partition, WRITER, 0, 5)
    mark = fenced(cluster, topic("sparkmirror.tail"), partition)
    for _ in range(20):
        send(cluster, partition, batch(records=3))
    tail = end_of(cluster, partition, mark)
    assert tail.since == 0
    assert [b.producer_id for b in tail.batches] == [WRITER.producer_id, mark.producer_id, *[-1] * 20]
    assert spans(end_of(cluster, partition)) == [(63, 65)]


@pytest.mark.kafka
def test_a_control_record_that_is_not_there_is_waited_for_and_its_absence_told(cluster: Cluster, topic_name: str):
    (partition,) = new_topic(cluster, topic_name)
    write(cluster, partition, WRITER, 0, 5)
    results = last_batches(cluster, [partition], 2_000, fenced={partition: Mark(WRITER.producer_id, 5, 5)})
    assert not results.found
    failure = results.failed[partition]
    assert isinstance(failure, BrokerError)
    assert "does not show the control record" in str(failure)


@pytest.mark.kafka
def test_headers_are_read_from_an_offset_inside_a_batch_to_the_end(cluster: Cluster, topic_name: str):
    here, there = new_topic(cluster, topic_name, 2)
    for number in range(30):
        write(cluster, here, WRITER, number * 4, 4, size=20_000)
    send(cluster, here, batch(records=2))
    write(cluster, there, WRITER, 0, 1)
    tails = read_headers(cluster, {here: 6, there: 0}, TIMEOUT_MS).complete()
    assert spans(tails[here]) == [(4 * number, 4 * number + 3) for number in range(1, 30)] + [(120, 121)]
    assert [b.sequence for b in tails[here].batches] == [*range(4, 120, 4), -1]
    assert (tails[here].since, tails[here].high_watermark) == (4, 122)
    assert spans(tails[there]) == [(0, 0)]
    assert read_headers(cluster, {here: 122}, TIMEOUT_MS).complete()[here].batches == ()


@pytest.mark.kafka
def test_an_empty_log_has_no_batches(cluster: Cluster, topic_name: str):
    (partition,) = new_topic(cluster, topic_name)
    assert end_of(cluster, partition) == Tail(start=0, high_watermark=0, batches=(), since=0)
    assert read_headers(cluster, {partition: 0}, TIMEOUT_MS).complete()[partition].batches == ()


@pytest.mark.kafka
def test_a_log_whose_records_were_deleted_tells_its_start(cluster: Cluster, topic: Callable[..., str]):
    (partition,) = new_topic(cluster, topic())
    for number in range(3):
        write(cluster, partition, WRITER, number * 4, 4)
    delete_before(cluster, partition, 12)
    assert end_of(cluster, partition) == Tail(start=12, high_watermark=12, batches=(), since=12)
    tail = end_of(cluster, partition, fenced(cluster, topic("sparkmirror.tail"), partition))
    assert (tail.start, tail.high_watermark, spans(tail)) == (12, 13, [(12, 12)])
    assert read_headers(cluster, {partition: 2}, TIMEOUT_MS).complete()[partition] == tail


def delete_before(cluster: Cluster, partition: TopicPartition, offset: int) -> None:
    wire = DeleteRecordsRequest.DeleteRecordsTopic
    part = wire.DeleteRecordsPartition(partition_index=partition.partition, offset=offset)
    request = DeleteRecordsRequest(topics=[wire(name=partition.topic, partitions=[part])], timeout_ms=TIMEOUT_MS)
    leader = list_topics(cluster, [partition.topic])[partition.topic].partitions[partition.partition]
    assert cluster.call(request, leader.node, TIMEOUT_MS).topics[0].partitions[0].error_code == 0


@pytest.mark.kafka
def test_under_log_append_time_the_newest_time_is_the_broker_s(cluster: Cluster, topic: Callable[..., str]):
    (partition,) = new_topic(cluster, topic(), 1, [("message.timestamp.type", "LogAppendTime")])
    old = batch(WRITER, 0, 2, max_time=TIMES_MS, base_time=TIMES_MS)
    assert send(cluster, partition, old).code == 0
    mark = fenced(cluster, topic("sparkmirror.tail"), partition)
    tail = end_of(cluster, partition, mark)
    assert [b.producer_id for b in tail.batches] == [WRITER.producer_id, mark.producer_id]
    assert tail.batches[0].newest_ms > TIMES_MS + 1_000


@pytest.mark.kafka
def test_partitions_that_are_not_there_fail_and_the_others_are_told(cluster: Cluster, topic: Callable[..., str]):
    (partition,) = new_topic(cluster, topic())
    write(cluster, partition, WRITER, 0)
    missing = [TopicPartition(topic("missing"), 0), TopicPartition(partition.topic, 1)]
    results = last_batches(cluster, [*missing, partition], TIMEOUT_MS)
    assert list(results.found) == [partition]
    assert sorted(results.failed) == sorted(missing)
    assert all("UNKNOWN_TOPIC_OR_PARTITION" in str(failure) for failure in results.failed.values())
