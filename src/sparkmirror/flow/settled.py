"""Where a partition goes on that came to rest with nothing unacknowledged: as progress, receipt or plan tell. Pure.

None where something was unacknowledged: only the target's log can tell then.
"""

from __future__ import annotations

from sparkmirror.copy.plan import PartitionPlan
from sparkmirror.copy.receipt import Outcome, Receipt
from sparkmirror.flow.positions import Resumed
from sparkmirror.model import NO_OFFSET
from sparkmirror.offsets.records import Progress


def settled_in(progress: Progress) -> Resumed | None:
    """By the progress of a partition that stands still."""
    wrapped = progress.next_sequence == 0 and progress.sequence != NO_OFFSET
    if not progress.settled or progress.position == NO_OFFSET or wrapped:
        return None
    return Resumed(
        position=progress.position,
        writer=progress.writer,
        sequence=progress.next_sequence,
        opened=progress.next_sequence > 0,
        anew=progress.anew,
        reached=progress.reached,
        last=progress.last,
    )


def settled_by(receipt: Receipt) -> Resumed | None:
    """By the receipt of a partition that stopped."""
    if not receipt.settled or receipt.outcome is not Outcome.STOPPED or receipt.position == NO_OFFSET:
        return None
    return _where(receipt)


def settled_at(plan: PartitionPlan) -> Resumed | None:
    """By a plan that nobody began."""
    if plan.after or plan.position == NO_OFFSET:
        return None
    return _where(plan)


def _where(left: Receipt | PartitionPlan) -> Resumed:
    return Resumed(
        position=left.position,
        writer=left.writer,
        sequence=left.sequence,
        opened=left.opened,
        anew=left.anew,
        reached=left.reached,
        last=left.last,
    )
