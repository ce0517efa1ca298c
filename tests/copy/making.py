"""Partitions and answers for the tests of this room: real batches, no brokers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from sparkmirror import batches
from sparkmirror.copy.arrivals import Aborted, Arrival, Place, Rules, Ticket, arrival
from sparkmirror.copy.partition import Load, PartitionCopy
from sparkmirror.copy.plan import PartitionPlan
from sparkmirror.model import NO_OFFSET, TopicPartition, Writer
from tests.batches.building import Rec, Written, log

WRITER = Writer(producer_id=4_000, epoch=3)
SOURCE = TopicPartition("orders", 2)
NOW_MS = 1_700_000_000_000


def rules(**more: object) -> Rules:
    known = {"target": batches.TargetTopic(log_append_time=False, max_message_bytes=1 << 20)}
    wanted = Rules(read_committed=True, loops=batches.NO_PRODUCERS, **known)
    return replace(wanted, **more)  # type: ignore[arg-type]  # the fields of Rules


def place(position: int = 0, **more: int) -> Place:
    here = Place(
        partition=SOURCE, position=position, until=NO_OFFSET, next_sequence=0, continues_at=NO_OFFSET, writer=WRITER
    )
    return replace(here, **more)  # type: ignore[arg-type]  # the numbers of Place


def plan(**more: object) -> PartitionPlan:
    here = PartitionPlan(source=SOURCE, target_topic="A.orders", topic_id="", position=0, writer=WRITER)
    return replace(here, **more)  # type: ignore[arg-type]  # the fields of PartitionPlan


def partition(*, position: int = 0, sequence: int = 0, opened: bool = True, **more: object) -> PartitionCopy:
    """A partition that has begun; ``opened`` unless a test is about the first batch of an epoch."""
    copy = PartitionCopy(plan=plan(**more), rules=rules(), batch_bytes=1 << 20, patience_s=60.0, load=Load())
    copy.begin(position, sequence, (NO_OFFSET, NO_OFFSET, NO_OFFSET), opened=opened)
    return copy


def batch(base_offset: int, records: int = 3, *, size: int = 20, **more: object) -> Written:
    """A batch of ``records`` records; large enough to go alone from a ``size`` of 40,000 on."""
    recs = tuple(Rec(n, NOW_MS + base_offset + n, b"%d" % (base_offset + n), b"v" * size) for n in range(records))
    return replace(Written(records=recs, base_offset=base_offset), **more)  # type: ignore[arg-type]  # its fields


LARGE = 40_000
"""A record of this size makes a batch that is never merged."""


def answer(written: Sequence[Written], here: Place, *, aborted: Aborted = (), wanted: Rules | None = None) -> Arrival:
    """What an answer with these batches brings."""
    records = log(written)
    return arrival(batches.index(records), records, aborted, here, wanted or rules())


def take(copy: PartitionCopy, *written: Written, on_record: bool = True) -> Ticket:
    """Brings an answer to a partition; its segments are on record, or wait for the ticket that is given back."""
    ticket = Ticket(acknowledged=on_record)
    copy.take(answer(written, copy.place()), ticket)
    return ticket
