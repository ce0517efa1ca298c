"""Dead letters: the record as it was, alone in a batch, with its origin in headers; and nothing else is lost."""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparkmirror import batches
from sparkmirror.batches import Codec
from sparkmirror.config import DeadLetters, Tolerance
from sparkmirror.copy.arrivals import Ticket
from sparkmirror.copy.dead_letters import PREFIX, letters
from sparkmirror.copy.outgoing import Outgoing
from sparkmirror.copy.partition import PartitionCopy
from sparkmirror.copy.receipt import Outcome
from sparkmirror.errors import BatchError, RecordTooLargeError
from sparkmirror.kafka import admin
from sparkmirror.kafka.admin import NewTopic
from sparkmirror.kafka.leaders import OffsetSpec
from sparkmirror.model import TopicPartition
from tests.batches.building import LOG_APPEND_TIME, Read, Rec, Written, log, logs, read
from tests.copy import making, staging
from tests.copy.staging import WAIT_SECONDS, Stage, wait_until
from tests.copy.test_lane import assert_segments_translate

LIMIT = 1 << 20
CONTEXT = ("A->B", TopicPartition("größen", 2), "too large")
TOLD = {
    "topic": "größen",
    "partition": "2",
    "connector.name": "A->B",
    "stage": "KAFKA_PRODUCE",
    "exception.class.name": "org.apache.kafka.common.errors.RecordTooLargeException",
    "exception.message": "too large",
}


def written(*parts: Written) -> batches.Indexed:
    return batches.index(log(parts))


def opened(index: batches.Indexed, *offsets: int, context: bool = True) -> list[Read]:
    found = list(letters(index, offsets, CONTEXT if context else None, LIMIT))
    assert [letter.offset for letter in found] == list(offsets)
    return [read(letter.batch) for letter in found]


@given(logs(), st.data())
def test_any_record_of_any_batch_is_there_as_a_reader_sees_it(parts: list[Written], data: st.DataObject) -> None:
    part = data.draw(st.sampled_from(parts))
    wanted = sorted(data.draw(st.sets(st.sampled_from(part.seen()), min_size=1)), key=lambda rec: rec.offset)
    for letter, rec in zip(opened(written(*parts), *(rec.offset for rec in wanted)), wanted, strict=True):
        assert (letter.base_offset, letter.producer, letter.codec) == (0, (-1, -1, -1), part.codec)
        (there,) = letter.records
        own, added = there.headers[: len(rec.headers)], there.headers[len(rec.headers) :]
        assert replace(there, headers=own) == replace(rec, offset=0)
        told = {f"{PREFIX}{name}": value for name, value in (TOLD | {"offset": str(rec.offset)}).items()}
        assert {name: (value or b"").decode() for name, value in added} == told


def test_a_record_of_many_headers_keeps_them_all_and_takes_no_memory_for_each(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sparkmirror.copy.dead_letters._MANY_HEADERS", 100)
    rec = Rec(0, 5, b"k", b"v", tuple((f"h{number}", None if number % 2 else b"1") for number in range(101)))
    for context, more in ((False, 0), (True, len(TOLD) + 1)):
        ((there,),) = (letter.records for letter in opened(written(Written(records=(rec,))), 0, context=context))
        assert there.headers[:101] == rec.headers
        assert len(there.headers) == 101 + more


def test_without_context_a_record_has_its_own_headers_only() -> None:
    rec = Rec(0, 5, b"k", b"v", (("h", b"1"), ("h", None)))
    ((there,),) = (letter.records for letter in opened(written(Written(records=(rec,))), 0, context=False))
    assert there == rec


def test_the_brokers_time_stays_with_the_record() -> None:
    part = Written(records=(Rec(0, 5), Rec(1, 6)), base_offset=10, bits=LOG_APPEND_TIME, max_time=1_700_000_000_000)
    ((there,),) = (letter.records for letter in opened(written(part), 11))
    assert there.time == 1_700_000_000_000


def test_a_large_record_that_compresses_well_stays_small() -> None:
    part = Written(records=(Rec(0, 5, None, b"x" * 500_000), Rec(1, 6)), codec=Codec.ZSTD)
    (letter,) = letters(written(part), (0,), CONTEXT, LIMIT)
    assert len(letter.batch) < 1_000
    with pytest.raises(BatchError, match="more than 100000 bytes"):
        list(letters(written(part), (0,), CONTEXT, 100_000))


NARROW = making.rules(target=batches.TargetTopic(log_append_time=False, max_message_bytes=500))


def batch_of(shape: list[bool], base_offset: int, codec: Codec) -> Written:
    """A batch with a record for each entry; true ones are larger than the target topic allows, in every codec."""
    recs = []
    for at, is_large in enumerate(shape):
        number = base_offset + at
        value = random.Random(number).randbytes(1_200) if is_large else b"v"
        recs.append(Rec(at, making.NOW_MS, b"%d" % number, value))
    return Written(records=tuple(recs), base_offset=base_offset, codec=codec)


class Target:
    """Takes what a partition sends, and answers when it is told to."""

    def __init__(self, copy: PartitionCopy) -> None:
        self._copy, self._sent, self._end = copy, deque[tuple[Outgoing, int]](), 0
        self.keys: list[bytes | None] = []

    def send(self) -> None:
        while (batch := self._copy.next_batch()) is not None:
            self.keys += [record.key for record in read(batch.payload).records]
            self._sent.append((batch, self._end))
            self._end += batch.count

    def answer(self) -> None:
        while self._sent:
            self._copy.acknowledged(*self._sent.popleft())


@given(
    st.lists(st.lists(st.booleans(), min_size=1, max_size=4), min_size=1, max_size=6),
    st.sampled_from([Codec.NONE, Codec.ZSTD]),
    st.data(),
)
def test_whatever_is_put_aside_the_rest_arrives_once_and_the_position_waits_for_it(
    shape: list[list[bool]], codec: Codec, data: st.DataObject
) -> None:
    """Each list is a batch; what was sent, and what is acknowledged, when an answer comes is left to chance."""
    parts: list[Written] = []
    for each in shape:
        parts.append(batch_of(each, parts[-1].last_offset + 1 if parts else 0, codec))
    end = parts[-1].last_offset + 1
    flat = [is_large for each in shape for is_large in each]
    wanted = [b"%d" % offset for offset, is_large in enumerate(flat) if not is_large]
    copy = making.partition()
    copy.rules = NARROW
    target, aside = Target(copy), []
    openings: list[tuple[int, int]] = []
    while copy.fetch_offset < end:
        rest = [part for part in parts if part.last_offset >= copy.fetch_offset]
        came = making.answer(rest, copy.place(), wanted=NARROW)
        copy.take(came, Ticket(acknowledged=True))
        openings += [each[:2] for each in came.openings]
        if came.obstacle is not None:
            assert isinstance(came.obstacle, RecordTooLargeError)
            for offset in came.obstacle.offsets:
                assert copy.position <= offset
                assert offset not in aside
                aside.append(offset)
                copy.put_aside(offset, f"offset {offset}")
        if data.draw(st.booleans()):
            target.send()
        if data.draw(st.booleans()):
            target.answer()
    for _ in parts:  # the first batch of an epoch goes alone, and five at a time are in flight
        target.send()
        target.answer()
    assert target.keys == wanted
    assert (copy.position, copy.idle, copy.error, copy.tally.dead_letters) == (end, True, "", len(aside))
    assert aside == [offset for offset, is_large in enumerate(flat) if is_large]
    assert [each[:2] for each in copy.ahead.settled] == [(0, 0)] * bool(wanted)
    for there, key in enumerate(wanted):
        sequence, source = max(opening for opening in openings if opening[0] <= there)
        assert source + there - sequence == int(key)


def test_what_lies_below_the_position_is_forgotten() -> None:
    copy = making.partition(position=10)
    for offset in (12, 15, 20):
        copy.put_aside(offset, "")
    copy.position = 15
    copy.put_aside(21, "")
    assert copy.place().left_out == {15, 20, 21}


@pytest.mark.kafka
def test_large_records_are_put_aside_however_often_the_shift_ends(
    stage: Stage, threads: ThreadPoolExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also just after one was written to the dead-letter topic: then it is there twice, but what follows it is not."""
    monkeypatch.setattr("sparkmirror.copy.watch.CONTROL_SECONDS", 0.01)
    dead = DeadLetters(tolerance=Tolerance.ALL, topic=f"{stage.topic}-dead")
    admin.create_topics(stage.clusters("B"), [NewTopic(name=dead.topic, partitions=1)]).complete()
    admin.wait_for_leaders(stage.clusters("B"), {dead.topic: 1}).complete()
    for _ in range(10):
        stage.produce(100)
        stage.produce(3, size=50_000)
    stage.produce(3)
    consumer = replace(stage.config.source.consumer, fetch_max_bytes=100_000)
    config = replace(stage.config, source=replace(stage.config.source, consumer=consumer), dead_letters=dead)
    ends, plans, counts = stage.ends(), stage.plans(), list[int]()

    def all_of_target() -> object:
        put_aside = [TopicPartition(dead.topic, 0)]
        return stage.target_ends(), admin.list_offsets(stage.clusters("B"), put_aside, OffsetSpec.LATEST)

    while any(plan.position < ends[plan.source] for plan in plans):
        name = f"lane-0.{len(counts)}"
        shift = stage.shift(name, tuple(replace(plan, max_message_bytes=20_000) for plan in plans))
        # A shift that ends at its first dead letter may copy nothing: every second one ends at the first copy.
        look: Callable[[], object] = stage.target_ends if len(counts) % 2 else all_of_target
        before = look()
        job = threads.submit(stage.run, shift, config)
        wait_until(lambda: job.done() or look() != before)  # noqa: B023  # called in this turn
        stage.drain(name)
        receipts = job.result(WAIT_SECONDS)
        assert {receipt.outcome for receipt in receipts} == {Outcome.HANDED_ON}
        plans = stage.going_on(receipts)
        counts.append(sum(receipt.dead_letters for receipt in receipts))
        assert len(counts) < 300
    offsets, large = {}, set()
    for place in stage.places():
        here = staging.read(stage.source_servers, place)
        kept = [record for record in here if len(record.value or b"") < 50_000]
        there = staging.read(stage.target_servers, TopicPartition(stage.target_topic, place.partition))
        assert [record.content for record in there] == [record.content for record in kept]
        offsets[place] = [(a.offset, b.offset) for a, b in zip(kept, there, strict=True)]
        large |= {(str(place.partition), str(record.offset)) for record in here if record not in kept}
    assert_segments_translate(stage.on_record()[1], offsets)
    found = []
    for record in staging.read(stage.target_servers, TopicPartition(dead.topic, 0)):
        told = {name: (value or b"").decode() for name, value in record.headers}
        found.append((told[f"{PREFIX}partition"], told[f"{PREFIX}offset"]))
    assert set(found) == large
    assert len(found) >= sum(counts), "one may be written and its answer not be waited for"
