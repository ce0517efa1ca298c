"""How a lane begins where another one ended, and leaves its partitions for the next: the overlap of shifts.

A successor starts while its predecessor still copies: it connects, says that it is ready, and waits. The predecessor
then stops fetching, lets what is in flight be acknowledged, and writes where it left each partition. The pause is two
round trips to the target.

Invariants: a partition is begun only from its plan's position or from a complete handover; without either the shift
ends with nothing started, and the driver decides. A shift hands over when its last progress is on record, and publishes
nothing afterwards; a partition that stopped is released by that progress, and the next shift leaves it alone.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

from sparkmirror.copy.control import (
    Announced,
    ControlState,
    Handed,
    alive_key,
    alive_value,
    handover_entries,
    ready_key,
)
from sparkmirror.copy.partition import PartitionCopy
from sparkmirror.copy.plan import ShiftPlan
from sparkmirror.copy.progress import Publisher
from sparkmirror.kafka.cluster import Cluster
from sparkmirror.kafka.journal import Journal
from sparkmirror.kafka.signal import Turn
from sparkmirror.model import NO_OFFSET
from sparkmirror.offsets.recovery import RecoveryPoint

WAIT_SECONDS = 120.0
POLL_MS = 500
SIGN_POLL_MS = 100
SIGN_SECONDS = 10.0
"""For the topic to be read up to a sign that it has acknowledged; longer than a lease, which is over then."""


class Handover:
    """Both ends of handing over, for one shift.

    Args:
        plan: the shift.
        target: where the control topic is; with connections for nothing else.
    """

    def __init__(self, plan: ShiftPlan, target: Cluster) -> None:
        self._plan = plan
        self.journal = Journal(target, plan.control_topic)
        announced = Announced(run=plan.run, generation=plan.generation, driver=plan.driver)
        self.state = ControlState(run=plan.run, newest=announced, orders=plan.orders)
        self._next = plan.control_offset
        self._turn = Turn()

    async def read(self, max_wait_ms: int = 0) -> None:
        """Reads what is new in the control topic; one reader at a time, since signs are given while others wait.

        Raises:
            BrokerError: the topic cannot be read.
            LinkError: the target does not answer.
        """
        async with self._turn.taken():
            entries, self._next, _ = await self.journal.read(self._next, max_wait_ms)
            self.state.take(entries)

    async def give_sign(self, point: RecoveryPoint | None) -> str:
        """Says that the shift lives and up to when its partitions are copied, and reads what was said before that.

        Args:
            point: the earliest recovery point of its partitions; None before one was published.

        Returns:
            why the shift may send nothing more, or "".

        Raises:
            BrokerError: the topic cannot be written or read.
            LinkError: the target does not answer, or the topic has lost the sign before it was read.
        """
        offset = await self.journal.append([(alive_key(self._plan.run, self._plan.shift), alive_value(point))])
        if offset < self._next:
            self._next = 0  # the topic lost its tail, or was made anew
        deadline = time.monotonic() + SIGN_SECONDS
        while self._next <= offset:
            await self.read(SIGN_POLL_MS)
            if self._next <= offset and time.monotonic() > deadline:
                reason = f"{self.journal.topic} was not read up to offset {offset} within {SIGN_SECONDS:g} s"
                raise self.journal.cluster.link_error(ConnectionError(reason))
        return self.state.ended(self._plan.shift)

    async def take_over(self, partitions: Sequence[PartitionCopy]) -> bool:
        """Begins every partition; waits for the shifts that hand some over.

        Returns:
            False if a predecessor is lost, the run drains, or the wait is over: nothing was begun then.
        """
        missing = set(self._plan.predecessors)
        if missing:
            await self.journal.append([(ready_key(self._plan.run, shift), "{}") for shift in sorted(missing)])
        deadline = time.monotonic() + WAIT_SECONDS
        while missing:
            await self.read(POLL_MS)
            if self._gives_up(missing) or time.monotonic() > deadline:
                return False
            missing -= self.state.handed.keys()
        for partition in partitions:
            self._begin(partition)
        return True

    def _gives_up(self, missing: set[str]) -> bool:
        state, shift = self.state, self._plan.shift
        return state.must_drain(shift) or bool(missing & state.lost) or bool(state.ended(shift))

    def _begin(self, partition: PartitionCopy) -> None:
        plan = partition.plan
        handed = self.state.handed.get(plan.after, {}).get(partition.source) if plan.after else None
        if handed is None:
            if plan.position == NO_OFFSET:
                partition.stop(f"shift {plan.after} did not hand the partition over")
            else:
                partition.base = plan.copied
                partition.leader_epoch = plan.leader_epoch
                partition.epoch_on_record = partition.epoch_met = plan.epoch_on_record
                partition.footing.reached = plan.reached
                partition.recovery.point_ms = plan.recovery_ms
                partition.copies_end = plan.copies_end
                partition.begin(plan.position, plan.sequence, plan.last, opened=plan.opened)
        else:
            partition.base = handed.copied
            partition.leader_epoch = handed.leader_epoch
            partition.epoch_on_record = partition.epoch_met = handed.epoch_on_record
            partition.footing.reached = handed.reached
            partition.recovery.point_ms = handed.recovery_ms
            partition.copies_end = handed.copies_end
            partition.begin(handed.position, handed.sequence, handed.last, opened=handed.opened)
            partition.unsettled = not handed.settled
            if handed.error:
                # The shift before has released it: only the driver may say where it goes on.
                partition.stop(handed.error)
                partition.released = True

    async def hand_on(self, partitions: Sequence[PartitionCopy], publisher: Publisher) -> None:
        """Puts the last progress on record, then writes where each partition was left."""
        await publisher.publish(partitions, final=True)
        handed = {
            p.source: Handed(
                position=p.position,
                sequence=p.sequence,
                writer=p.plan.writer,
                opened=p.opened,
                last=p.last,
                copied=p.copied,
                error=p.error,
                settled=p.all_acknowledged,
                leader_epoch=p.leader_epoch,
                epoch_on_record=p.epoch_on_record,
                reached=p.footing.reached,
                recovery_ms=p.recovery.point_ms,
                copies_end=p.copies_end,
            )
            for p in partitions
        }
        await self.journal.append(handover_entries(self._plan.run, self._plan.shift, handed))
