"""A partition as a state machine: whatever the order of answers, positions and sequences stay exact.

The machine's other side is a model of what a broker does with idempotent batches (``ProducerAppendInfo``): it appends
in sequence only, knows the last five batches again, and may lose an answer, or refuse before or after appending. It
forgets the producer when the last batch that it appended holds old records.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from sparkmirror.copy.arrivals import Ticket
from sparkmirror.copy.distance import IN_FLIGHT_PER_PARTITION
from sparkmirror.copy.guard import FORGOTTEN, Guard
from sparkmirror.copy.outgoing import Outgoing
from sparkmirror.copy.retries import Retry, decide
from sparkmirror.offsets.segments import SEQUENCES, Opening
from tests.batches.building import CONTROL, Written, read
from tests.copy.making import LARGE, NOW_MS, WRITER, batch, partition, take

NOT_LEADER, NETWORK, NO_REPLICAS, OUT_OF_ORDER = 6, 13, 19, 45
MONTH_MS = 30 * 86_400_000
GUARD = Guard(age_ms=int(time.time() * 1000) - NOW_MS + 86_400_000)
"""Batches as they are made here are young; a month earlier they are old."""


def aged(written: Written, by_ms: int) -> Written:
    """The same batch with times so much earlier."""
    return replace(written, records=tuple(replace(record, time=record.time - by_ms) for record in written.records))


@dataclass
class Broker:
    """A target partition as far as one idempotent producer sees it; other producers write there too."""

    log: list[tuple[int, bytes] | None] = field(default_factory=list)
    """(source offset, key) by target offset; None where another producer wrote."""
    expected: int = 0
    knows: bool = True
    """Whether it has state of the producer; without any it accepts every sequence."""
    remembered: deque[tuple[int, int, int]] = field(default_factory=lambda: deque(maxlen=5))
    """(sequence, count, base offset) of the last five batches."""
    state_ms: int = NOW_MS
    """The newest time in the last batch."""

    def append(self, payload: memoryview) -> tuple[int, int]:
        """The error code and the base offset."""
        seen = read(payload)
        assert seen.producer[:2] == (WRITER.producer_id, WRITER.epoch)
        sequence, count = seen.producer[2], len(seen.records)
        for known, size, base in self.remembered:
            if (known, size) == (sequence, count):
                return 0, base
        if self.knows and sequence != self.expected:
            return OUT_OF_ORDER, -1
        self.knows = True
        base = len(self.log)
        for record in seen.records:
            assert record.key is not None
            self.log.append((int(record.key), record.key))
        self.state_ms = max(record.time for record in seen.records)
        self.expected = (sequence + count) % SEQUENCES
        self.remembered.append((sequence, count, base))
        return 0, base


class Copying(RuleBasedStateMachine):
    """Answers, acknowledgements, refusals and time-outs in any order against one partition."""

    def __init__(self) -> None:
        super().__init__()
        self.broker = Broker()
        self.flying: deque[tuple[Outgoing, int, int]] = deque()
        """(batch, code, base offset): what will be answered, in the order in which it was sent."""
        self.payloads: dict[int, bytes] = {}
        self.tickets: list[Ticket] = []
        self.given_up: set[int] = set()
        """Sequences of unguarded batches that may have been appended and were not acknowledged."""
        self.wanted: list[int] = []
        """Source offsets that have to arrive, in order."""

    @initialize(sequence=st.sampled_from([0, SEQUENCES - 4]), position=st.integers(0, 5), opened=st.booleans())
    def begins(self, sequence: int, position: int, opened: bool) -> None:
        self.copy = partition(position=position, sequence=sequence, opened=opened)
        self.copy.guard = GUARD
        self.broker.expected, self.broker.knows = sequence, opened

    @precondition(lambda self: not self.copy.error and not self.copy.obstacle)
    @rule(
        pieces=st.lists(
            st.tuples(st.integers(1, 3), st.sampled_from([10, LARGE]), st.sampled_from([0, 0, 1, 4]), st.booleans()),
            max_size=4,
        ),
        on_record=st.booleans(),
        old=st.booleans(),
    )
    def an_answer_comes(self, pieces: Sequence[tuple[int, int, int, bool]], on_record: bool, old: bool) -> None:
        offset, written = self.copy.fetch_offset, []
        for count, size, hole, dropped in pieces:
            offset += hole
            if dropped:
                written.append(batch(offset, count, bits=CONTROL, producer=(9, 0, -1)))
            else:
                written.append(aged(batch(offset, count, size=size), MONTH_MS if old else 0))
                self.wanted += range(offset, offset + count)
            offset += count
        self.tickets.append(take(self.copy, *written, on_record=on_record))

    @rule()
    def segments_are_on_record(self) -> None:
        for ticket in self.tickets:
            ticket.acknowledged = True

    @precondition(lambda self: self.copy.has_more())
    @rule(fate=st.sampled_from(["well", "well", "well", "lost before", "lost after", "not leader", "no replicas"]))
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
        elif fate == "no replicas":
            code = NO_REPLICAS
        elif fate != "lost before":
            code, base = self.broker.append(one.payload)
            code = NETWORK if fate == "lost after" else code
        self.flying.append((one, code, base))
        assert len(self.flying) <= (IN_FLIGHT_PER_PARTITION if self.copy.opened else 1)
        old = [batch for batch, _, _ in self.flying if not GUARD.holds(batch.newest_ms)]
        assert all(batch.flagged for batch in old), "the map says so before an unguarded batch is sent"
        assert old in ([], [one]), "nothing goes behind an unguarded batch"
        assert one.sequence not in self.given_up
        if old and code in (NOT_LEADER, NETWORK):
            self.given_up.add(one.sequence)

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
            what = decide(code, oldest=oldest, guarded=GUARD.holds(one.newest_ms))
            assert bool(self.copy.error) == (stopped or what is Retry.GIVE_BACK)
            assert not (what is Retry.GIVE_BACK and self.copy.all_acknowledged)
        assert self.copy.position >= before

    @rule(count=st.integers(1, 3))
    def another_producer_writes(self, count: int) -> None:
        self.broker.log += [None] * count

    @precondition(lambda self: not GUARD.holds(self.broker.state_ms))
    @rule()
    def the_broker_forgets_the_producer(self) -> None:
        self.broker.knows = False
        self.broker.remembered.clear()

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
        if self.copy.error:
            assert self.given_up
            return
        assert self.copy.idle
        assert self.copy.all_acknowledged
        before, position = self.copy, self.copy.position
        self.check_segments(before.ahead.settled)
        self.copy = partition(position=position, sequence=before.sequence)
        self.copy.begin(position, before.sequence, before.last, opened=before.opened)
        self.copy.guard, self.copy.remembered_ms = GUARD, FORGOTTEN
        self.copy.ahead.settled = before.ahead.settled
        self.wanted = [offset for offset in self.wanted if offset < position]
        self.payloads.clear()
        self.tickets.clear()
        self.given_up.clear()

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
        self.check_segments(self.copy.ahead.settled)

    def check_segments(self, settled: Sequence[Opening]) -> None:
        """From each point to the next, target minus count is what the broker's log says."""
        first = (self.broker.expected - len(self.mirrored())) % SEQUENCES
        points = [((opening.sequence - first) % SEQUENCES, opening.offset) for opening in settled]
        lies = [(offset, record[0]) for offset, record in enumerate(self.broker.log) if record is not None]
        for count, (offset, source) in enumerate(lies):
            if source < self.copy.position:
                here = [point for point in points if point[0] <= count]
                assert here, "every acknowledged record lies behind a point"
                assert offset - count == here[-1][1] - here[-1][0]


Copying.TestCase.settings = settings(max_examples=100, stateful_step_count=40, deadline=None)
TestAnyOrder = Copying.TestCase


def test_the_broker_of_this_file_knows_its_own_batches_again():
    copy = partition()
    take(copy, batch(0, 1, size=LARGE), batch(1, 1, size=LARGE))
    first, second = copy.next_batch(), copy.next_batch()
    assert first is not None
    assert second is not None
    broker = Broker()
    assert broker.append(second.payload) == (OUT_OF_ORDER, -1)
    assert broker.append(first.payload) == (0, 0)
    assert broker.append(first.payload) == (0, 0)
    assert broker.append(second.payload) == (0, 1)
