"""A shift as a Spark job: the plan goes in as a DataFrame, the lane runs on an executor, receipts come back.

Invariants: one job, one task, one lane; a task whose attempt number is above 0 fails at once, since only the driver may
decide how partitions go on; connections are closed at the shift's end, kernels and modules stay in the reused worker.
"""

from __future__ import annotations

import logging
import pickle
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import pyarrow as pa
from pyspark import SparkFiles, TaskContext
from pyspark.sql import SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from sparkmirror.config.settings import FlowConfig
from sparkmirror.copy.lane import Lane
from sparkmirror.copy.plan import ShiftPlan
from sparkmirror.copy.receipt import Receipt
from sparkmirror.errors import SparkmirrorError
from sparkmirror.kafka.cluster import Cluster, new_loop
from sparkmirror.spark.failures import reason_of
from sparkmirror.spark.rows import PLAN, RECEIPT, plan_table, read_plan, read_receipts, receipt_batch


def run_shift(session: SparkSession, plan: ShiftPlan, settings_file: str) -> tuple[Receipt, ...]:
    """Runs one shift and waits for its end. From a thread of its own: the job's group and pool are the thread's.

    Args:
        session: where it runs.
        plan: what to copy.
        settings_file: the name under which the flow's settings were shipped, see `ship_settings`.

    Returns:
        one receipt for each partition.

    Raises:
        SparkmirrorError: the job failed: the worker or its executor died, or it was cancelled.
    """
    context = session.sparkContext
    context.setLocalProperty("spark.scheduler.pool", plan.flow)
    group = flow_group(plan.run, plan.flow)
    context.setJobGroup(group, f"{plan.flow} {plan.shift}: {len(plan.partitions)} partitions", True)
    frame = session.createDataFrame(plan_table(plan), schema=from_arrow_schema(PLAN)).coalesce(1)
    receipts = frame.mapInArrow(_copier(settings_file), from_arrow_schema(RECEIPT))
    try:
        return read_receipts(receipts.toArrow())
    except Exception as failure:
        raise SparkmirrorError(reason_of(failure)) from failure


def flow_group(run: str, flow: str) -> str:
    """The job group of all shifts of a flow, by which they can be cancelled."""
    return f"{run} {flow}"


def cancel_flow(session: SparkSession, run: str, flow: str) -> None:
    """Cancels whatever shifts of a flow still run."""
    session.sparkContext.cancelJobGroup(flow_group(run, flow))


def ship_settings(session: SparkSession, config: FlowConfig, directory: Path, name: str) -> str:
    """Ships a flow's settings, secrets included, to every executor, in a file that only its user may read.

    Plans and job descriptions carry the file's name only.

    Args:
        session: whose executors need it.
        config: of the flow.
        directory: private to this run.
        name: of the file; unique in the run.
    """
    path = directory / name
    path.touch(mode=0o600)
    path.write_bytes(pickle.dumps(config))
    session.sparkContext.addFile(str(path))
    return name


def _copier(settings_file: str) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def copy(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        plan = read_plan(batches)
        if plan is not None:
            yield receipt_batch(copy_shift(plan, settings_file))

    return copy


def copy_shift(plan: ShiftPlan, settings_file: str) -> tuple[Receipt, ...]:
    """Runs a lane in this process, a Python worker of Spark."""
    task = TaskContext.get()
    if task is not None and task.attemptNumber() > 0:
        raise RuntimeError(f"{plan.shift}: Spark repeated a lane by itself; spark.task.maxFailures must be 1")
    logging.basicConfig(stream=sys.stderr, level=logging.WARNING)
    logging.getLogger("kafka").setLevel(logging.CRITICAL)
    config: FlowConfig = pickle.loads(Path(SparkFiles.get(settings_file)).read_bytes())
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
