"""Plans and receipts as rows: what goes in comes out equal, and no secret is in either."""

from __future__ import annotations

from dataclasses import fields, replace

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from sparkmirror.config import Secret
from sparkmirror.copy.orders import Orders
from sparkmirror.copy.plan import PartitionPlan, ShiftPlan
from sparkmirror.copy.receipt import Outcome, Receipt
from sparkmirror.events import Event, Kind
from sparkmirror.model import Began, Copied, CopiedBefore, LastRecord, Reached, TopicPartition, Writer
from sparkmirror.spark.rows import PLAN, RECEIPT, plan_table, read_plan, read_receipts, receipt_batch

_texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
_longs = st.integers(-1, 2**63 - 1)
_counts = st.integers(0, 2**63 - 1)
_floats = st.floats(-1, 1e9)
_partitions = st.builds(TopicPartition, _texts, st.integers(0, 2**31 - 1))
_lasts = st.builds(LastRecord, *[_longs] * 8)
_reached = st.builds(Reached, st.integers(-1, 2**31 - 1), st.integers(-1, 2**62))
_writers = st.builds(Writer, producer_id=_counts, epoch=st.integers(0, 32_767))
_sequences = st.integers(0, 2**31 - 1)

_plans = st.builds(
    ShiftPlan,
    flow=_texts,
    run=_texts,
    shift=_texts,
    generation=_counts,
    partitions=st.lists(
        st.builds(
            PartitionPlan,
            source=_partitions,
            target_topic=_texts,
            topic_id=_texts,
            position=_longs,
            writer=_writers,
            until=_longs,
            sequence=_sequences,
            opened=st.booleans(),
            after=_texts,
            max_message_bytes=_counts,
            log_append_time=st.booleans(),
            codec=_texts,
            copied=st.builds(Copied, _counts, _counts, _counts, _counts),
            target_id=_texts,
            leader_epoch=st.integers(-1, 2**31 - 1),
            anew=st.booleans(),
            last=_lasts,
            reached=_reached,
            recovery_ms=_longs,
            copies_end=_longs,
            inherited=st.builds(CopiedBefore, _longs, _longs, _longs),
            began=st.builds(Began, _longs, _longs),
            carried=st.lists(_texts, max_size=3).map(tuple),
            homeward=st.booleans(),
        ),
        min_size=1,
        max_size=4,
    ).map(tuple),
    source_id=_texts,
    target_id=_texts,
    orders=st.builds(
        Orders,
        paused=st.frozensets(_texts, max_size=3),
        share=st.none() | _floats,
        shares=st.dictionaries(_texts, _floats, max_size=3),
    ),
    loops_by_writer=st.booleans(),
    internal_topic=_texts,
    control_topic=_texts,
    control_offset=_counts,
    driver=_writers,
    max_ms=_counts,
    grace_ms=_counts,
    guarded_ms=_counts,
    once=st.booleans(),
)
_events = st.builds(
    Event, kind=st.sampled_from(Kind), text=_texts, first=_longs, last=_longs, time_ms=st.integers(0, 2**50)
)
_receipts = st.builds(
    Receipt,
    source=_partitions,
    outcome=st.sampled_from(Outcome),
    position=_longs,
    sequence=_sequences,
    writer=_writers,
    opened=st.booleans(),
    settled=st.booleans(),
    leader_epoch=st.integers(-1, 2**31 - 1),
    anew=st.booleans(),
    last=_lasts,
    reached=_reached,
    recovery_ms=_longs,
    copies_end=_longs,
    first_source=_longs,
    last_source=_longs,
    first_target=_longs,
    last_target=_longs,
    records=_counts,
    bytes=_counts,
    passed=_counts,
    merged=_counts,
    reencoded=_counts,
    dropped=_counts,
    dead_letters=_counts,
    loop_filtered=_counts,
    newest_ms=_longs,
    latency_ms=st.tuples(_floats, _floats),
    end=_longs,
    error=_texts,
    events=st.lists(_events, max_size=3).map(tuple),
)


@given(_plans)
def test_a_plan_comes_out_as_it_went_in(plan: ShiftPlan):
    assert read_plan(plan_table(plan).to_batches()) == plan


@given(_plans, st.integers(1, 3))
def test_it_does_not_matter_how_spark_cuts_the_rows(plan: ShiftPlan, rows: int):
    assert read_plan(plan_table(plan).to_batches(max_chunksize=rows)) == plan


@given(st.lists(_receipts, max_size=4))
def test_receipts_come_out_as_they_went_in(receipts: list[Receipt]):
    table = pa.Table.from_batches([receipt_batch(receipts)], schema=RECEIPT)
    assert read_receipts(table) == tuple(receipts)


def test_a_task_without_rows_has_no_plan():
    assert read_plan([]) is None
    assert read_plan([pa.RecordBatch.from_pylist([], schema=PLAN)]) is None


def _column_for(field: str, renamed: dict[str, set[str]]) -> set[str]:
    return renamed.get(field, {field})


def test_every_field_has_its_columns():
    """A field that is added to a plan or a receipt, and forgotten here, would silently fall back to its default."""
    place, writer = {"topic", "partition"}, {"producer_id", "epoch"}
    so_far = {"copied_records", "copied_bytes", "copied_dead_letters", "copied_loop_filtered"}
    both = {"source": place, "writer": writer, "reached": {"reached_epoch", "reached_end"}}
    of_plan = {**both, "copied": so_far}
    of_receipt = {**both, "latency_ms": {"latency_p50_ms", "latency_p99_ms"}}
    plan_columns = set().union(*(_column_for(f.name, of_plan) for f in fields(PartitionPlan)), {"shift"})
    receipt_columns = set().union(*(_column_for(f.name, of_receipt) for f in fields(Receipt)))
    assert set(PLAN.names) == plan_columns
    assert set(RECEIPT.names) == receipt_columns


def test_plans_and_receipts_have_no_place_for_a_secret():
    """They end up in Spark's event log and its UI."""
    for kind in (ShiftPlan, PartitionPlan, Receipt):
        for field in fields(kind):
            assert Secret.__name__ not in str(field.type)
            assert "Settings" not in str(field.type)
            assert not {"password", "secret", "key", "config", "jaas"} & set(field.name.split("_"))


def test_an_error_of_many_lines_stays_one_value():
    receipt = Receipt(
        source=TopicPartition("t", 0),
        outcome=Outcome.STOPPED,
        position=3,
        sequence=3,
        writer=Writer(producer_id=1, epoch=0),
        error="first\nsecond\t'third'",
        events=(Event(kind=Kind.NOTE, text="a\nb"),),
    )
    table = pa.Table.from_batches([receipt_batch([receipt, replace(receipt, error="")])], schema=RECEIPT)
    assert read_receipts(table)[0] == receipt
