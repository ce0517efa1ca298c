"""A partition as a state machine: whatever the order of answers, positions and sequences stay exact.

The machine's other side is a model of what a broker does with idempotent batches (``ProducerAppendInfo``): it appends
in sequence only, knows the last five batches again, and may lose an answer, or refuse before or after appending.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from sparkmirror import batches
from sparkmirror.copy import partition as module
from sparkmirror.copy.arrivals import Ticket
from sparkmirror.copy.outgoing import Outgoing
from sparkmirror.copy.partition import IN_FLIGHT_PER_PARTITION, PartitionCopy
from sparkmirror.kafka.codes import Advice, advice
from sparkmirror.model import NO_OFFSET
from sparkmirror.offsets.records import SEQUENCES, Segment
from tests.batches.building import CONTROL, Written, read
from tests.copy.making import LARGE, WRITER, answer, batch, partition

NOT_LEADER, TIMED_OUT, NETWORK, NO_REPLICAS, OUT_OF_ORDER, DUPLICATE, FENCED, TOO_LARGE = 6, 7, 13, 19, 45, 46, 47, 10


@pytest.fixture(autouse=True)
def _no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "RETRY_SECONDS", 0.0)


def take(copy: PartitionCopy, *written: Written, on_record: bool = True) -> Ticket:
    ticket = Ticket(acknowledged=on_record)
    copy.take(answer(written, copy.place()), ticket)
    return ticket


def taken(count: int, *, size: int = LARGE, **more: Any) -> PartitionCopy:
    """A partition in which ``count`` batches of one record wait."""
    copy = partition(**more)
    take(copy, *(batch(n, 1, size=size) for n in range(count)))
    return copy


def send_all(copy: PartitionCopy) -> list[Outgoing]:
    sent = []
    while (outgoing := copy.next_batch()) is not None:
        sent.append(outgoing)
    return sent


def test_five_batches_at_most_are_in_flight():
    copy = taken(7)
    sent = send_all(copy)
    assert len(sent) == IN_FLIGHT_PER_PARTITION
    copy.acknowledged(sent[0], 100)
    assert len(send_all(copy)) == 1


def test_the_first_batch_of_an_epoch_goes_alone():
    copy = taken(3, opened=False)
    (first,) = send_all(copy)
    copy.acknowledged(first, 100)
    assert len(send_all(copy)) == 2


def test_position_and_sequence_follow_acknowledgements_only():
    copy = taken(3)
    first, second, third = send_all(copy)
    assert (copy.position, copy.sequence) == (0, 0)
    copy.acknowledged(first, 70)
    assert (copy.position, copy.sequence, copy.last) == (1, 1, (0, 0, 70))
    copy.acknowledged(third, 72)
    assert copy.position == 1
    copy.acknowledged(second, 71)
    assert (copy.position, copy.sequence, copy.last) == (3, 3, (2, 2, 72))
    assert copy.idle


def test_a_retry_sends_the_same_bytes_again_oldest_first_and_nothing_new_before():
    copy = taken(5)
    sent = [copy.next_batch() for _ in range(3)]
    first, second, third = (one for one in sent if one is not None)
    bytes_before = [bytes(one.payload) for one in (first, second, third)]
    copy.refused(first, NOT_LEADER, "")
    assert copy.next_batch() is None, "answers are owed"
    copy.refused(second, OUT_OF_ORDER, "")
    assert copy.next_batch() is None
    copy.refused(third, OUT_OF_ORDER, "")
    assert copy.lost_leader
    again: list[Outgoing] = []
    for _ in range(3):
        one = copy.next_batch()
        assert one is not None
        assert copy.next_batch() is None or len(again) == 2, "one at a time while others wait to be repeated"
        again.append(one)
        copy.acknowledged(one, len(again))
    assert [bytes(one.payload) for one in again] == bytes_before
    assert not copy.retrying


def test_an_acknowledged_batch_behind_a_refused_one_is_not_sent_again():
    copy = taken(3)
    first, second, third = send_all(copy)
    copy.refused(first, TIMED_OUT, "")
    copy.acknowledged(second, 11)
    copy.acknowledged(third, 12)
    assert copy.position == 0
    assert copy.next_batch() is first
    copy.acknowledged(first, 10)
    assert copy.position == 3
    assert copy.next_batch() is None
    assert not copy.retrying


@pytest.mark.parametrize("code", [OUT_OF_ORDER, DUPLICATE, FENCED])
def test_a_refusal_for_its_sequence_stops_the_oldest(code: int):
    copy = taken(2)
    first, second = send_all(copy)
    copy.refused(first, code, "told so")
    assert "source offset 0" in copy.error
    assert "A.orders-2" in copy.error
    assert "[told so]" in copy.error
    copy.refused(second, code, "")
    assert send_all(copy) == []
    assert copy.position == 0


@pytest.mark.parametrize("code", [OUT_OF_ORDER, TOO_LARGE])
def test_a_refusal_behind_the_oldest_tells_nothing_yet(code: int):
    copy = taken(2)
    first, second = send_all(copy)
    copy.refused(second, code, "")
    assert not copy.error
    copy.acknowledged(first, 10)
    assert copy.next_batch() is second
    copy.refused(second, code, "")
    assert copy.error
    assert copy.position == 1


def test_patience_ends():
    copy = taken(1)
    copy.patience_s = -1.0
    (only,) = send_all(copy)
    copy.refused(only, NO_REPLICAS, "")
    assert "NOT_ENOUGH_REPLICAS" in copy.error


def test_what_is_in_flight_when_a_partition_stops_still_counts():
    copy = taken(3)
    first, _, third = send_all(copy)
    copy.stop("enough")
    copy.acknowledged(first, 10)
    assert (copy.position, copy.error) == (1, "enough")
    copy.refused(third, NETWORK, "")
    assert copy.next_batch() is None
    assert copy.tally.events == ["enough"]


def test_a_batch_beyond_a_hole_waits_for_its_ticket():
    copy = partition()
    ticket = take(copy, batch(0, 2, size=LARGE), batch(5, 1, size=LARGE), on_record=False)
    assert copy.next_batch() is None
    ticket.acknowledged = True
    assert len(send_all(copy)) == 2


def test_what_came_before_the_hole_does_not_wait():
    copy = partition()
    take(copy, batch(0, 1, size=LARGE))
    take(copy, batch(7, 1, size=LARGE), on_record=False)
    assert len(send_all(copy)) == 1


def test_segments_are_settled_with_the_target_offsets_of_the_answers():
    copy = partition()
    take(copy, batch(0, 2, size=LARGE), batch(10, 2, size=LARGE))
    first, second = send_all(copy)
    copy.acknowledged(first, 100)
    copy.acknowledged(second, 102)
    assert copy.settled == [
        Segment(partition=copy.source, writer=WRITER, sequence=0, source=0, target=100),
        Segment(partition=copy.source, writer=WRITER, sequence=2, source=10, target=102),
    ]
    assert copy.unreached() == []


def test_segments_inside_a_merged_batch_are_settled_where_they_lie():
    copy = partition()
    take(copy, batch(0, 2), batch(10, 2))
    (merged,) = send_all(copy)
    copy.acknowledged(merged, 50)
    assert [(s.sequence, s.source, s.target) for s in copy.settled] == [(0, 0, 50), (2, 10, 52)]


def test_a_foreign_writer_on_the_target_opens_a_segment():
    copy = taken(3)
    first, second, third = send_all(copy)
    copy.acknowledged(first, 10)
    copy.acknowledged(second, 15)
    copy.acknowledged(third, 16)
    assert [(s.sequence, s.source, s.target) for s in copy.settled] == [(0, 0, 10), (1, 1, 15)]


def test_a_partition_that_goes_on_writes_no_segment_where_nothing_changed():
    copy = partition()
    copy.begin(20, 7, (6, 19, 119), opened=True)
    take(copy, batch(20, 1))
    (only,) = send_all(copy)
    assert only.sequence == 7
    copy.acknowledged(only, 120)
    assert copy.settled == []


def test_offsets_that_were_dropped_move_the_position_when_nothing_waits():
    copy = partition()
    take(copy, batch(0, 2), batch(2, 1, bits=CONTROL, producer=(9, 0, -1)))
    (only,) = send_all(copy)
    assert copy.position == 0
    copy.acknowledged(only, 0)
    assert copy.position == 3
    take(copy, batch(3, 1, bits=CONTROL, producer=(9, 0, -1)))
    assert copy.position == 4
    assert copy.tally.dropped == 2


def test_what_was_abandoned_is_not_behind_the_position():
    copy = taken(8)
    sent = send_all(copy)
    copy.abandon()
    assert copy.held == copy.load.bytes > 0
    for number, one in enumerate(sent):
        copy.acknowledged(one, number)
    assert copy.idle
    assert (copy.position, copy.sequence) == (5, 5)
    assert copy.fetch_offset == 5
    assert copy.held == copy.load.bytes == 0


def test_abandoning_what_nothing_was_sent_of_leaves_the_position():
    copy = taken(2)
    copy.abandon()
    assert (copy.position, copy.fetch_offset, copy.held) == (0, 0, 0)


def test_an_obstacle_stops_only_when_what_came_before_is_acknowledged():
    copy = taken(2)
    copy.fail_after_sending("corrupt")
    first, second = send_all(copy)
    copy.acknowledged(first, 0)
    errors = [copy.error]
    copy.acknowledged(second, 1)
    assert [*errors, copy.error] == ["", "corrupt"]
    assert copy.position == 2


def test_an_obstacle_stops_an_idle_partition_at_once():
    copy = partition()
    copy.fail_after_sending("corrupt")
    assert copy.error == "corrupt"


def test_an_abandoned_obstacle_is_left_to_whoever_goes_on():
    copy = taken(7)
    copy.fail_after_sending("corrupt")
    sent = send_all(copy)
    copy.abandon()
    for number, one in enumerate(sent):
        copy.acknowledged(one, number)
    assert not copy.error
    assert copy.position == 5


def test_segments_of_batches_without_an_answer_are_kept():
    copy = partition(opened=False)
    take(copy, batch(0, 1, size=LARGE), batch(5, 1, size=LARGE), batch(9, 1, size=LARGE))
    (first,) = send_all(copy)
    copy.acknowledged(first, 0)
    second = copy.next_batch()
    assert second is not None
    copy.stop("the link is gone")
    assert [s.source for s in copy.unreached()] == [9]
    copy.refused(second, NETWORK, "")
    assert [s.source for s in copy.unreached()] == [9]


def test_done_means_until_is_reached_or_an_error():
    copy = taken(2, until=2)
    assert not copy.done
    for number, one in enumerate(send_all(copy)):
        copy.acknowledged(one, number)
    assert copy.done


def test_a_batch_that_goes_on_elsewhere_says_so():
    copy = partition()
    copy.go_to(40, "offsets 0 to 39 were not copied")
    assert (copy.position, copy.fetch_offset) == (40, 40)
    take(copy, batch(40, 1))
    (only,) = send_all(copy)
    copy.acknowledged(only, 3)
    assert copy.tally.events == ["offsets 0 to 39 were not copied"]
    assert [(s.source, s.target) for s in copy.settled] == [(40, 3)]


# ------------------------------------------------------------------------------------------------- any order of events


@dataclass
class Broker:
    """A target partition as far as one idempotent producer sees it; other producers write there too."""

    log: list[tuple[int, bytes] | None] = field(default_factory=list)
    """(source offset, key) by target offset; None where another producer wrote."""
    expected: int = 0
    remembered: deque[tuple[int, int, int]] = field(default_factory=lambda: deque(maxlen=5))
    """(sequence, count, base offset) of the last five batches."""

    def append(self, payload: memoryview) -> tuple[int, int]:
        """The error code and the base offset."""
        seen = read(payload)
        assert seen.producer[:2] == (WRITER.producer_id, WRITER.epoch)
        sequence, count = seen.producer[2], len(seen.records)
        for known, size, base in self.remembered:
            if (known, size) == (sequence, count):
                return 0, base
        if sequence != self.expected:
            return OUT_OF_ORDER, -1
        base = len(self.log)
        for record in seen.records:
            assert record.key is not None
            self.log.append((int(record.key), record.key))
        self.expected = (sequence + count) % SEQUENCES
        self.remembered.append((sequence, count, base))
        return 0, base


class Copying(RuleBasedStateMachine):
    """Answers, acknowledgements, refusals and time-outs in any order against one partition."""

    def __init__(self) -> None:
        super().__init__()
        self.pause, module.RETRY_SECONDS = module.RETRY_SECONDS, 0.0
        self.broker = Broker()
        self.flying: deque[tuple[Outgoing, int, int]] = deque()
        """(batch, code, base offset): what will be answered, in the order in which it was sent."""
        self.payloads: dict[int, bytes] = {}
        self.tickets: list[Ticket] = []
        self.wanted: list[int] = []
        """Source offsets that have to arrive, in order."""
        self.began = 0

    def teardown(self) -> None:
        module.RETRY_SECONDS = self.pause

    @initialize(sequence=st.sampled_from([0, SEQUENCES - 4]), position=st.integers(0, 5), opened=st.booleans())
    def begins(self, sequence: int, position: int, opened: bool) -> None:
        self.copy = partition(position=position, sequence=sequence, opened=opened)
        self.broker.expected = sequence
        self.began = position

    @precondition(lambda self: not self.copy.error and not self.copy.obstacle)
    @rule(
        pieces=st.lists(
            st.tuples(st.integers(1, 3), st.sampled_from([10, LARGE]), st.sampled_from([0, 0, 1, 4]), st.booleans()),
            max_size=4,
        ),
        on_record=st.booleans(),
    )
    def an_answer_comes(self, pieces: Sequence[tuple[int, int, int, bool]], on_record: bool) -> None:
        offset, written = self.copy.fetch_offset, []
        for count, size, hole, dropped in pieces:
            offset += hole
            if dropped:
                written.append(batch(offset, count, bits=CONTROL, producer=(9, 0, -1)))
            else:
                written.append(batch(offset, count, size=size))
                self.wanted += range(offset, offset + count)
            offset += count
        self.tickets.append(take(self.copy, *written, on_record=on_record))

    @rule()
    def segments_are_on_record(self) -> None:
        for ticket in self.tickets:
            ticket.acknowledged = True

    @precondition(lambda self: self.copy.has_more())
    @rule(fate=st.sampled_from(["well", "well", "well", "lost before", "lost after", "not leader"]))
    def sends(self, fate: str) -> None:
        owed = len(self.flying)
        retrying = self.copy.retrying
        assert not (retrying and owed), "while something is to be repeated every answer must be in"
        one = self.copy.next_batch()
        assert one is not None
        payload = bytes(one.payload)
        assert self.payloads.setdefault(one.sequence, payload) == payload, "a retry repeats the same bytes"
        code, base = NETWORK, -1
        if fate == "not leader":
            code = NOT_LEADER
        elif fate != "lost before":
            code, base = self.broker.append(one.payload)
            code = NETWORK if fate == "lost after" else code
        self.flying.append((one, code, base))
        assert len(self.flying) <= (IN_FLIGHT_PER_PARTITION if self.copy.opened else 1)

    @precondition(lambda self: self.flying)
    @rule(newest=st.booleans())
    def an_acknowledgement_comes(self, newest: bool) -> None:
        """Mostly in order; connections to an old and a new leader may answer in any."""
        one, code, base = self.flying.pop() if newest else self.flying.popleft()
        before = self.copy.position
        if code == 0:
            self.copy.acknowledged(one, base)
        else:
            stopped, oldest = bool(self.copy.error), self.copy._unacknowledged[0] is one
            self.copy.refused(one, code, "")
            assert bool(self.copy.error) == (stopped or (oldest and advice(code) is Advice.GIVE_BACK))
        assert self.copy.position >= before

    @rule(count=st.integers(1, 3))
    def another_producer_writes(self, count: int) -> None:
        self.broker.log += [None] * count

    @precondition(lambda self: not self.copy.error)
    @rule()
    def what_waits_is_abandoned_and_fetched_again(self) -> None:
        """As at a handover: the answers that are owed come in, then the next shift begins where this one ended."""
        self.copy.abandon()
        while self.flying or self.copy.has_more():
            if self.copy.has_more():
                one = self.copy.next_batch()
                assert one is not None
                self.flying.append((one, *self.broker.append(one.payload)))
            one, code, base = self.flying.popleft()
            if code == 0:
                self.copy.acknowledged(one, base)
            else:
                self.copy.refused(one, code, "")
        assert not self.copy.error
        assert self.copy.idle
        before, position = self.copy, self.copy.position
        self.check_segments(before.settled)
        self.copy = partition(position=position, sequence=before.sequence)
        self.copy.begin(position, before.sequence, before.last, opened=before.opened)
        self.copy.settled = before.settled
        self.wanted = [offset for offset in self.wanted if offset < position]
        self.payloads.clear()
        self.tickets.clear()

    @precondition(lambda self: not self.copy.error)
    @rule()
    def a_corrupt_batch_comes(self) -> None:
        self.copy.fail_after_sending("corrupt")

    def mirrored(self) -> list[int]:
        return [record[0] for record in self.broker.log if record is not None]

    @invariant()
    def the_target_holds_each_record_once_and_in_order(self) -> None:
        assert self.mirrored() == self.wanted[: len(self.mirrored())]

    @invariant()
    def the_position_never_passes_an_unacknowledged_record(self) -> None:
        behind = [offset for offset in self.wanted if offset < self.copy.position]
        assert self.mirrored()[: len(behind)] == behind
        unacknowledged = self.copy._unacknowledged
        if unacknowledged:
            assert self.copy.position <= unacknowledged[0].source

    @invariant()
    def sequences_count_acknowledged_records(self) -> None:
        behind = len([offset for offset in self.wanted if offset < self.copy.position])
        first = (self.broker.expected - len(self.mirrored())) % SEQUENCES
        assert self.copy.sequence == (first + behind) % SEQUENCES

    @invariant()
    def batches_in_flight_are_dense(self) -> None:
        following = self.copy.sequence
        for one in self.copy._unacknowledged:
            assert one.sequence == following
            following = (following + one.count) % SEQUENCES

    @invariant()
    def held_is_what_waits_and_flies(self) -> None:
        waiting = sum(item.held for item in self.copy._waiting)
        assert self.copy.held == waiting + sum(one.held for one in self.copy._unacknowledged)
        assert self.copy.load.bytes == self.copy.held
        if self.copy.idle:
            assert self.copy.held == 0

    @invariant()
    def segments_translate_exactly(self) -> None:
        self.check_segments(self.copy.settled)

    def check_segments(self, settled: Sequence[Segment]) -> None:
        """From each segment to the next, target minus source is what the broker's log says."""
        points = sorted(settled, key=lambda segment: segment.source)
        for offset, record in enumerate(self.broker.log):
            if record is None or record[0] >= self.copy.position:
                continue
            here = [point for point in points if point.source <= record[0]]
            assert here, "every acknowledged record lies in a segment"
            assert offset - record[0] == here[-1].target - here[-1].source


Copying.TestCase.settings = settings(max_examples=40, stateful_step_count=40, deadline=None)
TestAnyOrder = Copying.TestCase


def test_the_broker_of_this_file_knows_its_own_batches_again():
    copy = taken(2)
    first, second = send_all(copy)
    broker = Broker()
    assert broker.append(second.payload) == (OUT_OF_ORDER, -1)
    assert broker.append(first.payload) == (0, 0)
    assert broker.append(first.payload) == (0, 0)
    assert broker.append(second.payload) == (0, 1)
    assert copy.last == (NO_OFFSET, NO_OFFSET, NO_OFFSET)
    assert batches.NO_PRODUCERS.size == 0
