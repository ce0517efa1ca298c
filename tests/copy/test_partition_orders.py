"""A partition as a state machine: whatever the order of answers, positions and sequences stay exact.

The machine's other side is a model of what a broker does with idempotent batches (``ProducerAppendInfo``): it appends
in sequence only, knows the last five batches again, and may lose an answer, or refuse before or after appending.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from sparkmirror.copy.arrivals import Ticket
from sparkmirror.copy.distance import IN_FLIGHT_PER_PARTITION
from sparkmirror.copy.outgoing import Outgoing
from sparkmirror.kafka.codes import Advice, advice
from sparkmirror.offsets.records import SEQUENCES, Segment
from tests.batches.building import CONTROL, read
from tests.copy.making import LARGE, WRITER, batch, partition, take

NOT_LEADER, NETWORK, OUT_OF_ORDER = 6, 13, 45


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
        self.wanted: list[int] = []
        """Source offsets that have to arrive, in order."""

    @initialize(sequence=st.sampled_from([0, SEQUENCES - 4]), position=st.integers(0, 5), opened=st.booleans())
    def begins(self, sequence: int, position: int, opened: bool) -> None:
        self.copy = partition(position=position, sequence=sequence, opened=opened)
        self.broker.expected, self.broker.knows = sequence, opened

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
