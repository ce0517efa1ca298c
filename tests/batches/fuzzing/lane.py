"""A lane's intake on a case: the arrival, its queue, and every batch that would leave for the target.

What may happen: batches leave, or the partition has an obstacle. Whatever leaves indexes soundly, is allowed on the
target, carries on the sequence numbers, and holds the source's records; nothing but a BatchError is ever raised.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import takewhile

from sparkmirror import batches
from sparkmirror.copy.arrivals import Arrival, Place, Rules, Ticket, arrival
from sparkmirror.copy.guard import Guard
from sparkmirror.copy.load import Load
from sparkmirror.copy.outgoing import Outgoing
from sparkmirror.copy.partition import PartitionCopy
from sparkmirror.copy.plan import PartitionPlan
from sparkmirror.errors import BatchError
from sparkmirror.model import NO_RECORD, TopicPartition, Writer
from sparkmirror.offsets.records import SourceEpoch
from sparkmirror.offsets.segments import SEQUENCES, Segments
from tests.batches import oracle
from tests.batches.fuzzing.case import LIMIT, Case, same
from tests.batches.fuzzing.reading import opened
from tests.batches.oracle import Record

WRITER = Writer(producer_id=4_000, epoch=3)
SOURCE = TopicPartition("orders", 2)

ALWAYS_MS = 1 << 62
"""No batch is too old: what becomes of old ones does not depend on their bytes."""


def _on_record(_records: Sequence[Segments | SourceEpoch], ticket: Ticket) -> None:
    """Damage can make the records of a batch older than anything, and than its header says."""
    ticket.acknowledged = True


class Lane:
    """One partition of a lane, and the target that takes whatever it sends."""

    def __init__(self, case: Case, target: batches.TargetTopic) -> None:
        self.case, self.limit = case, target.max_message_bytes
        setting = case.setting
        self.rules = Rules(
            target=target,
            read_committed=bool(setting.aborted),
            loops=batches.producers(setting.loops),
            decompression_limit=setting.decompression_limit,
        )
        plan = PartitionPlan(
            source=SOURCE,
            target_topic="A.orders",
            topic_id="",
            position=setting.start,
            writer=WRITER,
            until=setting.until,
        )
        self.partition = PartitionCopy(
            plan=plan,
            rules=self.rules,
            batch_bytes=min(setting.batch_size, self.limit),
            patience_s=60.0,
            load=Load(),
            guard=Guard(age_ms=ALWAYS_MS),
        )
        self.partition.write_ahead = _on_record
        self.partition.round_trip = 0.1 if setting.is_far else 0.0
        self.partition.begin(setting.start, setting.sequence, NO_RECORD, opened=True)
        self.sequence, self.position, self.end = setting.sequence, setting.start, 0
        self.sent: list[Outgoing] = []
        self.is_settled = False

    def run(self, tell: Callable[..., None], kind: Callable[[BatchError], str]) -> None:
        """Takes the answer and sends what comes of it; what stops the partition is told."""
        index = batches.index(self.case.data)
        try:
            came = self._arrived(index)
            self.partition.take(came, Ticket(acknowledged=True))
            tell(
                "arrival", *sorted({type(item).__name__ for item in came.items}), "segments", min(len(came.openings), 4)
            )
            if came.obstacle is not None:
                tell("obstacle:", kind(came.obstacle))
            while self.partition.has_more():
                batch = self.partition.next_batch()
                if batch is None:
                    continue  # that it is old is on record now
                self._leaves(batch)
                self.partition.acknowledged(batch, self.end)
                self.end += batch.count
        except BatchError as error:
            tell("lane:", kind(error))
            return
        self._settled(came)
        self.is_settled = came.obstacle is None

    def _arrived(self, index: batches.Indexed) -> Arrival:
        place: Place = self.partition.place()
        return arrival(index, self.case.data, self.case.setting.aborted, place, self.rules)

    def _leaves(self, batch: Outgoing) -> None:
        """A batch as a broker would look at it."""
        data = bytes(batch.payload)
        rows, fault, _ = oracle.walk(data)
        if fault or len(rows) != 1 or len(data) > self.limit or batches.index(data).error is not None:
            raise AssertionError(f"a batch left that no broker would take: {len(data)} bytes, {rows}")
        (row,) = rows
        head = row.first, row.last + 1, row.producer, row.epoch, row.sequence, row.attributes & ~7
        if head != (0, batch.count, WRITER.producer_id, WRITER.epoch, self.sequence, 0) or row.count != batch.count:
            raise AssertionError(f"a batch left with a wrong header: {row}")
        if not self.position <= batch.source <= batch.last_source < batch.end:
            raise AssertionError(f"source offsets {batch.source} to {batch.last_source} after {self.position}")
        self.sequence = (self.sequence + batch.count) % SEQUENCES
        self.position = batch.end
        self.sent.append(batch)

    def compare(self, wanted: Sequence[list[Record] | None]) -> None:
        """What left are the records of the source's batches, in order; ``wanted`` has None for those that are damaged.

        A damaged batch may leave unopened, as it is: then its records cannot be told, nor those behind it.
        """
        known = list(takewhile(lambda found: found is not None, wanted))
        expected = [(record.offset, *self._seen(record)) for found in known for record in found or ()]
        got: list[tuple[object, ...]] = []
        for batch in self.sent:
            data = bytes(batch.payload)
            (row,), _, _ = oracle.walk(data)
            payload = opened(row.codec, data[61:], LIMIT)
            records = None if payload is None or len(got) == len(expected) else oracle.records(row, payload)
            if records is None:
                break
            same(records[0].offset, 0, "the first offset of a batch that left")
            offsets = [offset for offset, *_ in expected[len(got) : len(got) + len(records)]]
            same((batch.source, batch.last_source), (offsets[0], offsets[-1]), "the ends of a batch that left")
            got += [(offset, *self._seen(r)) for offset, r in zip(offsets, records, strict=False)]
        whole = self.is_settled and len(known) == len(wanted)
        same(got, expected if whole else expected[: len(got)], "the records that left")

    def _seen(self, record: Record) -> tuple[object, ...]:
        return (0 if self.case.setting.broker_time else record.time, record.attributes, record.tail)

    def _settled(self, came: Arrival) -> None:
        """All that was promised has left, and the position is behind it."""
        if self.sequence != came.next_sequence or self.partition.load.bytes or self.partition.held:
            raise AssertionError(f"sequence {self.sequence} of {came.next_sequence}, {self.partition.held} bytes held")
        if came.obstacle is None and self.partition.position != max(self.case.setting.start, came.end):
            raise AssertionError(f"position {self.partition.position} of {came.end}")
