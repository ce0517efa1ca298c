"""Plans and receipts as rows: what crosses between the driver and Spark.

One row for each partition; the columns are the fields of `PartitionPlan` and `Receipt`, flat where a reader of the
Spark UI or of the DataFrame wants them so. What is the same for a whole shift travels as one JSON column.

Invariant: what goes in comes out equal; no secret is in either.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from typing import Any

import pyarrow as pa

from sparkmirror.copy import orders
from sparkmirror.copy.plan import PartitionPlan, ShiftPlan
from sparkmirror.copy.receipt import Outcome, Receipt
from sparkmirror.events import event_of
from sparkmirror.model import Began, Copied, CopiedBefore, LastRecord, Reached, TopicPartition, Writer

PLAN = pa.schema(
    [
        ("shift", pa.string()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("target_topic", pa.string()),
        ("topic_id", pa.string()),
        ("target_id", pa.string()),
        ("position", pa.int64()),
        ("until", pa.int64()),
        ("producer_id", pa.int64()),
        ("epoch", pa.int32()),
        ("sequence", pa.int64()),
        ("opened", pa.bool_()),
        ("after", pa.string()),
        ("max_message_bytes", pa.int64()),
        ("log_append_time", pa.bool_()),
        ("codec", pa.string()),
        ("copied_records", pa.int64()),
        ("copied_bytes", pa.int64()),
        ("copied_dead_letters", pa.int64()),
        ("copied_loop_filtered", pa.int64()),
        ("leader_epoch", pa.int32()),
        ("epoch_on_record", pa.int32()),
        ("anew", pa.bool_()),
        ("reached_epoch", pa.int32()),
        ("reached_end", pa.int64()),
        ("last", pa.list_(pa.int64())),
        ("inherited", pa.list_(pa.int64())),
        ("began", pa.list_(pa.int64())),
        ("recovery_ms", pa.int64()),
        ("copies_end", pa.int64()),
        ("carried", pa.list_(pa.string())),
        ("homeward", pa.bool_()),
    ]
)

RECEIPT = pa.schema(
    [
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("outcome", pa.string()),
        ("position", pa.int64()),
        ("sequence", pa.int64()),
        ("producer_id", pa.int64()),
        ("epoch", pa.int32()),
        ("opened", pa.bool_()),
        ("settled", pa.bool_()),
        ("leader_epoch", pa.int32()),
        ("epoch_on_record", pa.int32()),
        ("anew", pa.bool_()),
        ("reached_epoch", pa.int32()),
        ("reached_end", pa.int64()),
        ("last", pa.list_(pa.int64())),
        ("recovery_ms", pa.int64()),
        ("copies_end", pa.int64()),
        ("first_source", pa.int64()),
        ("last_source", pa.int64()),
        ("first_target", pa.int64()),
        ("last_target", pa.int64()),
        ("records", pa.int64()),
        ("bytes", pa.int64()),
        ("passed", pa.int64()),
        ("merged", pa.int64()),
        ("reencoded", pa.int64()),
        ("dropped", pa.int64()),
        ("dead_letters", pa.int64()),
        ("loop_filtered", pa.int64()),
        ("newest_ms", pa.int64()),
        ("latency_p50_ms", pa.float64()),
        ("latency_p99_ms", pa.float64()),
        ("end", pa.int64()),
        ("error", pa.string()),
        ("events", pa.list_(pa.string())),
    ]
)


def plan_table(plan: ShiftPlan) -> pa.Table:
    """A shift's plan, one row for each partition."""
    shift = json.dumps(_shift_fields(plan))
    rows = [_plan_row(shift, partition) for partition in plan.partitions]
    return pa.Table.from_pylist(rows, schema=PLAN)


def read_plan(batches: Iterable[pa.RecordBatch]) -> ShiftPlan | None:
    """The plan behind the rows of one task; None for a task without rows."""
    rows = [row for batch in batches for row in batch.to_pylist()]
    if not rows:
        return None
    fields = json.loads(rows[0]["shift"])
    fields["orders"], fields["driver"] = orders.read(fields["orders"]), Writer(**fields["driver"])
    return ShiftPlan(partitions=tuple(_partition(row) for row in rows), **fields)


def receipt_batch(receipts: Sequence[Receipt]) -> pa.RecordBatch:
    """Receipts as rows."""
    return pa.RecordBatch.from_pylist([_receipt_row(receipt) for receipt in receipts], schema=RECEIPT)


def read_receipts(table: pa.Table) -> tuple[Receipt, ...]:
    """The receipts behind the rows that a job gave."""
    return tuple(_receipt(row) for row in table.to_pylist())


def _shift_fields(plan: ShiftPlan) -> dict[str, Any]:
    fields = asdict(plan)
    del fields["partitions"]
    fields["orders"] = plan.orders.text()
    return fields


def _plan_row(shift: str, plan: PartitionPlan) -> dict[str, Any]:
    return {
        "shift": shift,
        "topic": plan.source.topic,
        "partition": plan.source.partition,
        "target_topic": plan.target_topic,
        "topic_id": plan.topic_id,
        "target_id": plan.target_id,
        "leader_epoch": plan.leader_epoch,
        "epoch_on_record": plan.epoch_on_record,
        "position": plan.position,
        "until": plan.until,
        "producer_id": plan.writer.producer_id,
        "epoch": plan.writer.epoch,
        "sequence": plan.sequence,
        "opened": plan.opened,
        "after": plan.after,
        "max_message_bytes": plan.max_message_bytes,
        "log_append_time": plan.log_append_time,
        "codec": plan.codec,
        **{f"copied_{name}": value for name, value in plan.copied._asdict().items()},
        "anew": plan.anew,
        "recovery_ms": plan.recovery_ms,
        "copies_end": plan.copies_end,
        "carried": list(plan.carried),
        "homeward": plan.homeward,
        "last": list(plan.last),
        "inherited": list(plan.inherited),
        "began": list(plan.began),
        **_reached(plan.reached),
    }


def _partition(row: dict[str, Any]) -> PartitionPlan:
    return PartitionPlan(
        source=TopicPartition(row["topic"], row["partition"]),
        writer=Writer(producer_id=row["producer_id"], epoch=row["epoch"]),
        copied=Copied(*(row[f"copied_{name}"] for name in Copied._fields)),
        reached=Reached(row["reached_epoch"], row["reached_end"]),
        last=LastRecord(*row["last"]),
        inherited=CopiedBefore(*row["inherited"]),
        began=Began(*row["began"]),
        carried=tuple(row["carried"]),
        homeward=row["homeward"],
        **{
            name: row[name]
            for name in (
                "target_topic",
                "topic_id",
                "target_id",
                "leader_epoch",
                "epoch_on_record",
                "position",
                "until",
                "sequence",
                "opened",
                "after",
                "max_message_bytes",
                "log_append_time",
                "codec",
                "anew",
                "recovery_ms",
                "copies_end",
            )
        },
    )


def _reached(reached: Reached) -> dict[str, int]:
    return {"reached_epoch": reached.leader_epoch, "reached_end": reached.end}


_PLAIN = tuple(
    name
    for name in RECEIPT.names
    if name
    not in (
        *("topic", "partition", "outcome", "producer_id", "epoch", "reached_epoch", "reached_end", "last"),
        *("latency_p50_ms", "latency_p99_ms", "events"),
    )
)


def _receipt_row(receipt: Receipt) -> dict[str, Any]:
    row = {name: getattr(receipt, name) for name in _PLAIN}
    return row | {
        "topic": receipt.source.topic,
        "partition": receipt.source.partition,
        "outcome": receipt.outcome.value,
        "producer_id": receipt.writer.producer_id,
        "epoch": receipt.writer.epoch,
        **_reached(receipt.reached),
        "last": list(receipt.last),
        "latency_p50_ms": receipt.latency_ms[0],
        "latency_p99_ms": receipt.latency_ms[1],
        "events": [json.dumps(event.as_json()) for event in receipt.events],
    }


def _receipt(row: dict[str, Any]) -> Receipt:
    return Receipt(
        source=TopicPartition(row["topic"], row["partition"]),
        outcome=Outcome(row["outcome"]),
        writer=Writer(producer_id=row["producer_id"], epoch=row["epoch"]),
        reached=Reached(row["reached_epoch"], row["reached_end"]),
        last=LastRecord(*row["last"]),
        latency_ms=(row["latency_p50_ms"], row["latency_p99_ms"]),
        events=tuple(event_of(json.loads(event)) for event in row["events"]),
        **{name: row[name] for name in _PLAIN},
    )
