"""A shift as the driver sees it: a Spark job in a thread, its plan, and when it began."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace

from sparkmirror.copy.plan import PartitionPlan, ShiftPlan
from sparkmirror.copy.receipt import Outcome, Receipt
from sparkmirror.model import NO_OFFSET, NO_RECORD, Copied, TopicPartition

Receipts = tuple[Receipt, ...]
RunShift = Callable[[ShiftPlan], Receipts]


@dataclass(slots=True)
class Shift:
    """One running shift.

    Attributes:
        plan: what it copies.
        job: gives its receipts.
        control_end: the control topic's end before it was submitted; what concerns its successor comes later.
        began: on the monotonic clock.
    """

    plan: ShiftPlan
    job: Future[Receipts]
    control_end: int
    began: float = field(default_factory=time.monotonic)

    @property
    def gave_up(self) -> bool:
        """Whether it ended without having begun a partition. One that died may have begun some."""
        if not self.job.done() or self.job.exception() is not None:
            return False
        return all(receipt.outcome is Outcome.NOT_STARTED for receipt in self.job.result())


@dataclass(slots=True)
class LaneOfShifts:
    """A lane as a row of shifts.

    Attributes:
        name: such as ``lane-2``.
        current: the shift that copies.
        successor: the shift that waits for it to hand over, or None.
        partitions: those that belong to the lane; a stopped one may have been taken away.
        left: where the shift before ``current`` left its partitions, for the case that ``current`` never begins.
        count: how many shifts it had.
        extra: whether it is to be packed in with the rest at the next re-plan.
    """

    name: str
    current: Shift
    partitions: set[TopicPartition]
    successor: Shift | None = None
    left: dict[TopicPartition, PartitionPlan] = field(default_factory=dict)
    count: int = 1
    extra: bool = False

    @property
    def shifts(self) -> tuple[Shift, ...]:
        """The shifts that have not been collected."""
        return (self.current,) if self.successor is None else (self.current, self.successor)


def submit(pool: ThreadPoolExecutor, run: RunShift, plan: ShiftPlan, control_end: int) -> Shift:
    """Starts a shift in a thread."""
    return Shift(plan=plan, job=pool.submit(run, plan), control_end=control_end)


def not_started(plan: ShiftPlan) -> Receipts:
    """The receipts of a shift that did not touch its partitions."""
    return tuple(
        Receipt(
            source=p.source,
            outcome=Outcome.NOT_STARTED,
            position=p.position,
            sequence=p.sequence,
            writer=p.writer,
            opened=p.opened,
            anew=p.anew,
            reached=p.reached,
            last=p.last,
        )
        for p in plan.partitions
    )


def after(plan: PartitionPlan, shift: str) -> PartitionPlan:
    """The same partition, to be handed over by ``shift``."""
    return replace(plan, position=NO_OFFSET, sequence=0, opened=False, last=NO_RECORD, after=shift)


def going_on(plan: PartitionPlan, receipt: Receipt) -> PartitionPlan:
    """The same partition, from where its receipt says that it was left."""
    before = plan.copied
    copied = Copied(
        records=before.records + receipt.records,
        bytes=before.bytes + receipt.bytes,
        dead_letters=before.dead_letters + receipt.dead_letters,
        loop_filtered=before.loop_filtered + receipt.loop_filtered,
    )
    return replace(
        plan,
        position=receipt.position,
        sequence=receipt.sequence,
        opened=receipt.opened,
        after="",
        copied=copied,
        leader_epoch=receipt.leader_epoch,
        epoch_on_record=receipt.epoch_on_record,
        reached=receipt.reached,
        last=receipt.last,
        recovery_ms=receipt.recovery_ms,
        copies_end=receipt.copies_end,
    )


def onward_from(
    plan: PartitionPlan, receipt: Receipt, left: Mapping[TopicPartition, PartitionPlan]
) -> PartitionPlan | None:
    """How a partition goes on after a shift; None if it is done, stands still, or nobody can tell where it was left.

    Args:
        plan: of the shift that ended.
        receipt: what it handed back.
        left: where the shift before it left its partitions.
    """
    if receipt.outcome is Outcome.HANDED_ON:
        return going_on(plan, receipt)
    if receipt.outcome is Outcome.NOT_STARTED:
        return left.get(receipt.source) if plan.after else plan
    return None
