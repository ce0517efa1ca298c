"""What a lane does once a second beside the copy: say that it lives, publish progress, learn lost leaders.

Each runs as a coroutine of its own on the lane's loop, so that none waits for another or for the copy; leaders of the
source and of the target are learnt apart, since one cluster may be away while leaders of the other change.

Invariants: a failure here never stops the copy while the target can still be reached; a partition whose source leader
has been learnt is fetched from it, whatever becomes of the target; an orphan, a worker whose parent is gone, ends at
once, since nobody would fence it.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, TypeAlias

from sparkmirror.copy import throttling
from sparkmirror.copy.arrivals import Ticket
from sparkmirror.copy.lease import now
from sparkmirror.copy.partition import PartitionCopy
from sparkmirror.copy.progress import EVERY_SECONDS, Publisher
from sparkmirror.errors import SparkmirrorError
from sparkmirror.kafka.cluster import Cluster
from sparkmirror.kafka.idempotent_journal import IdempotentJournal
from sparkmirror.kafka.metadata import NO_LEADER
from sparkmirror.offsets.records import SourceEpoch
from sparkmirror.offsets.segments import Segments

if TYPE_CHECKING:
    from sparkmirror.copy.lane import Lane

log = logging.getLogger(__name__)

CONTROL_SECONDS = 1.0
LEADER_SECONDS = 0.2
TARGET_SECONDS = 30.0
"""So soon it is seen that a target has lost the end of a log to which nothing is being written."""
SOURCE_SECONDS = 10.0
"""So soon it is seen that a topic was made anew that is fetched by name, and brings nothing."""
WRITES_AT_ONCE = 2
NEVER = 1e9

Ahead: TypeAlias = tuple[Sequence[Segments | SourceEpoch], Ticket, PartitionCopy]
"""Segments to be written ahead, what waits for them, and whose they are."""


class Watch:
    """Looks after one lane.

    Args:
        lane: to look after.
        source, target: its clusters; the flow's topics are on the target.

    Attributes:
        draining: whether the shift is over.
        defect: what a coroutine raised that nobody foresaw: the shift must end, or something would never be done again.
    """

    def __init__(self, lane: Lane, source: Cluster, target: Cluster) -> None:
        self._lane = lane
        self._loop = target.loop
        journal = IdempotentJournal(target, lane.plan.internal_topic, allowed=lambda: lane.lease.holds)
        self.publisher = Publisher(journal, lane.plan, lane.fetcher.answered_ms)
        self._throttling, self._throttled = (source.throttling, target.throttling), throttling.Told()
        self._began = 0.0
        self._parent = os.getppid()
        self._stopped = self._silent = False
        self._ahead: list[Ahead] = []
        self._writing = 0
        self._verifying = False
        self.draining = False
        self.defect: Exception | None = None

    @property
    def ended(self) -> bool:
        """Whether the shift is over; from then on it drains."""
        plan = self._lane.plan
        state = self._lane.handover.state
        over = state.must_drain(plan.shift) or plan.shift in state.ready or self._late > plan.grace_ms / 1000
        over = over or (plan.once and all(p.done for p in self._lane.partitions))
        over = over or bool(self._lane.lease.ended)
        over = over or all(p.error for p in self._lane.partitions)  # nothing is left to do, and the slot is wanted
        self.draining = self.draining or over
        return self.draining

    @property
    def _late(self) -> float:
        """Seconds since the shift's time was up; negative before."""
        plan = self._lane.plan
        return time.monotonic() - self._began - plan.max_ms / 1000 if plan.max_ms else -NEVER

    def start(self) -> None:
        """Starts to watch; ends with `stop`."""
        self._began = time.monotonic()
        self._beside(self._verify_at_the_start)
        self._repeat(self._publish, EVERY_SECONDS)
        self._repeat(self._look_at_quotas, EVERY_SECONDS)
        self._repeat(self._find_source_leaders, LEADER_SECONDS)
        self._repeat(self._find_target_leaders, LEADER_SECONDS)
        self._repeat(self._look_at_the_target, TARGET_SECONDS)
        self._repeat(self._look_at_the_source, SOURCE_SECONDS)
        self._repeat(self._lane.followers.ask_for_ends, EVERY_SECONDS)
        self._repeat(self._lane.source_ends.ask, EVERY_SECONDS)

    def give_signs(self) -> None:
        """Says from here on that the lane lives, the first time at once; ends with `fall_silent`."""
        self._repeat(self._sign, CONTROL_SECONDS, over=lambda: self._silent, first=0.0)

    def stop(self) -> None:
        """Ends the coroutines, but for the signs of life."""
        self._stopped = True

    def fall_silent(self) -> None:
        """Ends the signs of life."""
        self._silent = True

    def write_ahead(self, partition: PartitionCopy, records: Sequence[Segments | SourceEpoch], ticket: Ticket) -> None:
        """Puts segments, and a new leader epoch of the source, on record, then lets the batches behind them go.

        What comes while others are being written waits for its turn, and goes in one record batch: to a far target a
        write takes long, however much is in it, and a connection carries few of them at a time.
        """
        self._ahead.append((records, ticket, partition))
        if self._writing < WRITES_AT_ONCE:
            self._writing += 1
            self._beside(self._write)

    def verify_leaders(self) -> None:
        """Asks the leaders of partitions that have something to send after a pause; see ``footing``."""
        if self._lane.appender.to_verify and not self._verifying:
            self._verifying = True
            self._beside(self._verify)

    async def _verify_at_the_start(self) -> None:
        """While the first records are fetched, so that they need not wait for it."""
        await self._ask_leaders([p for p in self._lane.partitions if not p.error], ahead=True)

    async def _verify(self) -> None:
        appender = self._lane.appender
        partitions = list(appender.to_verify.values())
        appender.to_verify.clear()
        try:
            await self._ask_leaders(partitions)
        finally:
            self._verifying = False
        for partition in partitions:
            appender.offer(partition)

    async def _ask_leaders(self, partitions: list[PartitionCopy], *, ahead: bool = False) -> None:
        await self._lane.leaders.verify(partitions, ahead=ahead)
        self._lane.signal.set()

    async def _write(self) -> None:
        try:
            while self._ahead:
                ahead, self._ahead = self._ahead, []
                # A stopped partition's account may be closed already: nothing of it goes on record any more.
                ahead = [each for each in ahead if not each[2].error]
                if ahead:
                    await self._put_on_record(ahead)
        finally:
            self._writing -= 1

    async def _put_on_record(self, ahead: list[Ahead]) -> None:
        try:
            patience_ms = int(1000 * max(partition.patience_s for _, _, partition in ahead))
            await self.publisher.write_ahead([one for records, _, _ in ahead for one in records], patience_ms)
        except SparkmirrorError as failure:
            for _, _, partition in ahead:
                partition.stop(f"the offset map cannot be written: {failure}")
        else:
            for records, ticket, partition in ahead:
                epochs = (one.epoch for one in records if isinstance(one, SourceEpoch))
                partition.epoch_on_record = max([partition.epoch_on_record, *epochs])
                ticket.acknowledged = True
                self._lane.appender.offer(partition)
        self._lane.signal.set()

    def _beside(self, work: Callable[[], Awaitable[None]]) -> None:
        """Runs ``work`` beside the copy. The loop would only log what it raises."""

        async def run() -> None:
            try:
                await work()
            except Exception as defect:  # noqa: BLE001 - whatever it is
                self._fail(defect, over=self._stopped)

        self._loop.call_soon(run)

    def _fail(self, defect: Exception, *, over: bool) -> None:
        """Ends the shift; what was on its way when the lane ended meets a closed loop, which is none."""
        if not over:
            self.defect = defect
            self._lane.signal.set()

    def _repeat(
        self,
        work: Callable[[], Awaitable[None]],
        seconds: float,
        *,
        over: Callable[[], bool] | None = None,
        first: float | None = None,
    ) -> None:
        """Does ``work`` again and again, ``seconds`` apart and ``first`` from now, until it is over."""
        over = over or (lambda: self._stopped)
        pause = seconds if first is None else first

        async def repeat() -> None:
            nonlocal pause
            told = ""
            while not over():
                await self._loop.sleep(pause)
                pause = seconds
                if over():
                    return
                try:
                    await work()
                    told = ""
                except SparkmirrorError as failure:
                    if str(failure) != told and not over():
                        told = str(failure)
                        log.warning("%s: %s", self._lane.plan.shift, failure)
                except Exception as defect:  # noqa: BLE001 - whatever it is
                    self._fail(defect, over=over())
                    return

        self._loop.call_soon(repeat)

    async def _sign(self) -> None:
        """A round: a sign of life, and what the driver said before it."""
        if os.getppid() != self._parent:
            log.error("%s: the process that started this worker is gone", self._lane.plan.shift)
            os._exit(1)
        lease, began = self._lane.lease, now()
        if lease.ended:
            return
        ended = await self._lane.handover.give_sign(self.publisher.recovery)
        if ended:
            log.error("%s: %s", self._lane.plan.shift, ended)
            lease.end(ended)
        else:
            lease.renew(began)
            self._lane.obey()
        self._lane.signal.set()

    async def _publish(self) -> None:
        if self._lane.lease.holds:
            await self.publisher.publish(self._lane.partitions)

    @property
    def may_publish(self) -> bool:
        """Whether what a partition goes on to may be put on record now; otherwise the next lane meets it again."""
        return self._lane.lease.holds and not self.draining

    async def publish(self) -> None:
        """Puts on record at once what has moved."""
        await self._publish()

    async def _look_at_quotas(self) -> None:
        """By itself, since a publication is held back too."""
        lane = self._lane
        throttling.tell(lane.partitions, *self._throttling, self._throttled, time.monotonic())

    async def _look_at_the_target(self) -> None:
        """Finds elections on the target while nothing is sent, and verifies the logs of new leaders."""
        await self._lane.leaders.learn_target(self._lane.partitions)
        await self._lane.leaders.verify(self._lane.partitions)
        self._lane.signal.set()

    async def _look_at_the_source(self) -> None:
        """By the lane's next turn."""
        self._lane.topic_ids.look(self._lane.partitions)
        self._lane.signal.set()

    async def _find_source_leaders(self) -> None:
        """Learns leaders of the source anew where one is lost, and fetches from them, also while the target is away."""
        self._lane.followers.ask_for_better()
        lost = self._lost_at_the_source()
        await self._lane.leaders.learn_source(lost)
        for partition in lost:
            self._lane.fetcher.refetch(partition)
        if lost:
            self._lane.signal.set()

    def _lost_at_the_source(self) -> list[PartitionCopy]:
        """Partitions with a leader that is unknown, gone, or does not answer."""
        unreachable = self._lane.fetcher.unreachable
        for failure in unreachable.values():
            log.warning("%s: %s", self._lane.plan.shift, failure)
        silent = {NO_LEADER, *unreachable}
        self._lane.followers.leave_unreachable(set(unreachable))
        unreachable.clear()
        return [p for p in self._lane.partitions if not p.error and p.source_node in silent]

    async def _find_target_leaders(self) -> None:
        """Learns leaders of the target anew where one is lost, and offers again what was refused."""
        lost = self._lost_at_the_target()
        await self._lane.leaders.learn_target(lost)
        await self._lane.leaders.verify(lost)
        for partition in self._lane.partitions:
            if partition.retrying:
                self._lane.appender.offer(partition)
        for partition in lost:
            self._lane.appender.offer(partition)
        self._lane.signal.set()

    def _lost_at_the_target(self) -> list[PartitionCopy]:
        """Partitions with a leader that is unknown, gone, or may lack what was written."""
        partitions = (p for p in self._lane.partitions if not p.error)
        return [p for p in partitions if p.lost_leader or p.target_leader == NO_LEADER or p.footing.doubted]
