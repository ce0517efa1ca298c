"""A shift as a Spark job: the plan goes in as a DataFrame, the lane runs on an executor, receipts come back.

Invariants: one job, one task, one lane; a task whose attempt number is above 0 fails at once, since only the driver may
decide how partitions go on; connections are closed at the shift's end, kernels and modules stay in the reused worker.

A flow's settings, secrets included, travel inside the pickled function: Spark shows that nowhere, and an executor keeps
it in memory. What was rejected: ``addFile``, which lists the file in Spark's pages and makes it executable and readable
for everybody in the executor's directory (``org.apache.spark.util.Utils.fetchFile``).

A job has a group of its own, by which one shift can be cancelled, and its flow's tag, by which all can. A cancelled job
returns to its thread at once, whether or not its executor answers (``DAGScheduler.handleJobCancellation``); its slot
stays taken until the executor answers or is given up.
"""

from __future__ import annotations

import logging
import pickle
import sys
from collections.abc import Callable, Iterable, Iterator
from importlib.metadata import version

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from sparkmirror.config.settings import FlowConfig
from sparkmirror.copy.lane import Lane
from sparkmirror.copy.plan import ShiftPlan
from sparkmirror.copy.receipt import Receipt
from sparkmirror.errors import SparkmirrorError
from sparkmirror.kafka.cluster import Cluster, new_loop
from sparkmirror.printable import OneLine
from sparkmirror.spark.failures import reason_of
from sparkmirror.spark.rows import PLAN, RECEIPT, plan_table, read_plan, read_receipts, receipt_batch
from sparkmirror.spark.session import check_executors, has_ended, unless_ended

EXECUTORS_SECONDS = 20.0
"""How long an executor that has registered may take to tell where it listens."""

ENDED = "Spark has ended"


def run_shift(session: SparkSession, plan: ShiftPlan, settings: bytes) -> tuple[Receipt, ...]:
    """Runs one shift and waits for its end. From a thread of its own: the job's group and pool are the thread's.

    Args:
        session: where it runs.
        plan: what to copy.
        settings: the flow's, see `packed`.

    Returns:
        one receipt for each partition.

    Raises:
        ConfigError: others could get at the settings from an executor; nothing was sent.
        SparkmirrorError: the job failed: the worker or its executor died, or it was cancelled.
    """
    check_executors(session, EXECUTORS_SECONDS)
    context = session.sparkContext
    context.setLocalProperty("spark.scheduler.pool", plan.flow)
    group = shift_group(plan.run, plan.flow, plan.shift)
    context.setJobGroup(group, f"{plan.flow} {plan.shift}: {len(plan.partitions)} partitions", True)
    context.clearJobTags()
    context.addJobTag(flow_tag(plan.run, plan.flow))
    frame = session.createDataFrame(plan_table(plan), schema=from_arrow_schema(PLAN)).coalesce(1)
    receipts = frame.mapInArrow(_copier(settings, version("sparkmirror")), from_arrow_schema(RECEIPT))
    try:
        return read_receipts(receipts.toArrow())
    except Exception as failure:  # whatever PySpark makes of it
        raise SparkmirrorError(ENDED if has_ended(session) else reason_of(failure)) from failure


def packed(config: FlowConfig) -> bytes:
    """A flow's settings, secrets included, as its lanes get them."""
    return pickle.dumps(config)


def shift_group(run: str, flow: str, shift: str) -> str:
    """The job group of one shift."""
    return f"{run} {flow} {shift}"


def flow_tag(run: str, flow: str) -> str:
    """The job tag of all shifts of a flow."""
    return f"{run} {flow}"


def cancel_shift(session: SparkSession, run: str, flow: str, shift: str, reason: str) -> None:
    """Cancels one shift, also if its job comes only later.

    Args:
        session: where it runs.
        run: the run that it belongs to.
        flow: its flow.
        shift: its name.
        reason: for the error that `run_shift` then raises.
    """
    with unless_ended(session):
        session.sparkContext._jsc.sc().cancelJobGroupAndFutureJobs(shift_group(run, flow, shift), reason)


def cancel_flow(session: SparkSession, run: str, flow: str) -> None:
    """Cancels whatever shifts of a flow still run; none do in a session that has ended."""
    with unless_ended(session):
        session.sparkContext.cancelJobsWithTag(flow_tag(run, flow))


def _copier(settings: bytes, driver: str) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """What Spark sends to the executor.

    Args:
        settings: of the flow.
        driver: the driver's version, since plans and settings are only understood by the same.
    """

    def copy(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        here = version("sparkmirror")
        if here != driver:
            raise RuntimeError(
                f"this executor has sparkmirror {here} and the driver {driver}: install the same on both"
            )
        plan = read_plan(batches)
        if plan is not None:
            yield receipt_batch(copy_shift(plan, pickle.loads(settings)))

    return copy


def copy_shift(plan: ShiftPlan, config: FlowConfig) -> tuple[Receipt, ...]:
    """Runs a lane in this process, a Python worker of Spark."""
    task = TaskContext.get()
    if task is not None and task.attemptNumber() > 0:
        raise RuntimeError(f"{plan.shift}: Spark repeated a lane by itself; spark.task.maxFailures must be 1")
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(OneLine(logging.BASIC_FORMAT))
    logging.basicConfig(handlers=[handler], level=logging.WARNING)
    logging.getLogger("kafka").setLevel(logging.CRITICAL)
    loop = new_loop(plan.shift)
    source = Cluster(config.source.alias, config.source.consumer, role=plan.shift, loop=loop)
    target = Cluster(config.target.alias, config.target.producer, role=plan.shift, loop=loop)
    try:
        receipts: tuple[Receipt, ...] = loop.run(Lane(plan, config, source, target).copy)
    finally:
        source.close()
        target.close()
        loop.close()
    return receipts
