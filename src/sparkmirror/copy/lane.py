"""The copy, on one screen: what a Spark task does for its partitions during one shift.

    fetch ──► take (drop, open, number) ──► append ──► acknowledge ──► progress

Everything runs on one network loop in one thread: requests are sent without waiting, their answers wake the loop.

Start reading at `Lane.copy`. What happens to a batch: ``arrivals`` and ``outgoing``; its state: ``partition``; the
requests: ``fetch`` and ``append``; what is told to the rest of the world: ``watch``, ``progress`` and ``control``.

Invariants: a lane ends with one receipt for every partition of its plan, whatever happened; it never blocks for longer
than `TICK_SECONDS` while data could move; it sends batches only while its lease holds (see ``lease``), and one that was
given up sends and hands over nothing more.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import partial

from sparkmirror import batches
from sparkmirror.config.settings import FlowConfig, Isolation
from sparkmirror.copy import target_changes
from sparkmirror.copy.append import Appender
from sparkmirror.copy.arrivals import Rules
from sparkmirror.copy.fetch import Fetcher, limits_of
from sparkmirror.copy.followers import Followers
from sparkmirror.copy.guard import Guard
from sparkmirror.copy.handover import Handover
from sparkmirror.copy.intake import Intake
from sparkmirror.copy.leaders import Leaders
from sparkmirror.copy.lease import Lease
from sparkmirror.copy.load import Load
from sparkmirror.copy.orders import Orders
from sparkmirror.copy.partition import PartitionCopy
from sparkmirror.copy.plan import PartitionPlan, ShiftPlan
from sparkmirror.copy.receipt import Receipt, receipts
from sparkmirror.copy.source_ends import SourceEnds
from sparkmirror.copy.topic_id_check import TopicIdCheck
from sparkmirror.copy.watch import Watch
from sparkmirror.errors import SparkmirrorError
from sparkmirror.events import Kind
from sparkmirror.kafka.backoff import Backoff
from sparkmirror.kafka.cluster import Cluster
from sparkmirror.kafka.signal import Signal
from sparkmirror.model import NO_OFFSET

TICK_SECONDS = 0.25
DRAIN_SECONDS = 3.0


class Lane:
    """One shift of one lane.

    Args:
        plan: what to copy.
        config: of the flow.
        source, target: clusters on one loop.
    """

    def __init__(self, plan: ShiftPlan, config: FlowConfig, source: Cluster, target: Cluster) -> None:
        self.plan = plan
        self.signal = Signal(source.loop)
        self.load = Load()
        self.partitions = _partitions(plan, config, self.load)
        self.leaders = Leaders(source, target)
        self.fetcher = Fetcher(
            source,
            limits_of(config.source.consumer, config.isolation, config.memory_per_lane),
            config.memory_per_lane,
            self.signal.set,
        )
        self.load.on_stop = self.fetcher.update
        self.followers = Followers(source, self.fetcher, self.partitions, config.isolation, plan.shift)
        self._asking = Cluster(source.alias, source.settings, role=f"{plan.shift}-ends", loop=source.loop)
        self.source_ends = SourceEnds(self._asking, self.fetcher, self.partitions, config.isolation)
        self.lease = Lease()
        target.batches_only_while(lambda: self.lease.holds)
        self.appender = Appender(target, self.signal.set, self.lease)
        # Signs of life have connections of their own: those of the batches may be full for seconds.
        self._control = Cluster(target.alias, target.settings, role=f"{plan.shift}-control", loop=target.loop)
        self.handover = Handover(plan, self._control)
        self.obey()
        self.watch = Watch(self, source, target)
        for partition in self.partitions:
            partition.write_ahead = partial(self.watch.write_ahead, partition)
        self.intake = Intake(self, source, target, config)
        self.topic_ids = TopicIdCheck(
            source, self.signal.set, self.intake.confirmed, self.fetcher.lose_leader, self.fetcher.timeout_ms
        )

    async def copy(self) -> tuple[Receipt, ...]:
        """Copies until the shift ends, then hands over; one receipt for each partition."""
        try:
            return await self._copy()
        finally:
            self.watch.stop()
            self.watch.fall_silent()
            self._control.close()
            self._asking.close()

    async def _copy(self) -> tuple[Receipt, ...]:
        try:
            started = await self._begin()
        except SparkmirrorError as failure:
            for partition in self.partitions:
                partition.stop(str(failure))
            started = False
        if not started:
            return receipts(self.partitions, started=False)
        while not self.watch.ended:
            self._turn()
            await self.signal.wait(TICK_SECONDS)
        if not self.lease.ended:
            await self._drain()
        self.watch.stop()
        if self.lease.ended:
            for partition in self.partitions:
                partition.lose(f"the lane was given up: {self.lease.ended}")
        else:
            await self.handover.hand_on(self.partitions, self.watch.publisher)
        return receipts(self.partitions, started=True)

    async def _begin(self) -> bool:
        """Connects, learns the leaders, and takes the partitions over; False if there is nothing to take."""
        batches.warm()
        self.watch.give_signs()
        await self.leaders.learn(self.partitions)
        await self.leaders.measure(self.partitions)
        if not await self.handover.take_over(self.partitions):
            return False
        await self.leaders.verify(self.partitions)
        for partition in self.partitions:
            self.fetcher.update(partition)
        self.obey()
        self.watch.start()
        return True

    def _turn(self) -> None:
        """Takes what came, sends what is ready, asks for more.

        Raises:
            Exception: what runs beside the copy, or taking an answer, has failed: a defect.
        """
        if self.watch.defect is not None:
            raise self.watch.defect
        for fetched in self.fetcher.answers():
            self.intake.take(fetched)
        self.topic_ids.turn()
        self.appender.send_ready()
        self.watch.verify_leaders()
        if not self.watch.draining:
            self.fetcher.request_more(self.load.bytes)

    def obey(self) -> None:
        """Does what the newest orders say."""
        orders, now = self.handover.state.orders, time.monotonic()
        rate = orders.rate(self.plan.shift)
        if rate != self.fetcher.pace.rate:
            self.fetcher.pace.change(rate, now)
        for partition in self.partitions:
            if orders.guarded_ms is not None and orders.guarded_ms != partition.guard.age_ms:
                target_changes.remember(partition, orders.guarded_ms)
            paused = partition.source.topic in orders.paused
            if paused != partition.paused:
                partition.paused = paused
                if partition.fetch_offset != NO_OFFSET:  # it has begun
                    self.fetcher.update(partition)
            if partition.fetch_offset != NO_OFFSET and not partition.error:
                self._give_back(partition, orders)

    def _give_back(self, partition: PartitionCopy, orders: Orders) -> None:
        """Stops a partition that is to go on elsewhere, or for a target topic that was changed."""
        facts = orders.facts.get(partition.target.topic)
        if partition.source in orders.moving:
            partition.stop("it is moved to another offset, as its operator has ordered", Kind.MOVED)
        elif facts is not None:
            target_changes.compare(partition, facts)

    @property
    def _owed(self) -> bool:
        """Whether the target owes an answer that would move a position."""
        return bool(self.intake.putting_aside) or any(not p.idle for p in self.partitions if not p.error)

    async def _drain(self) -> None:
        """Waits for the answers that are owed; what was never sent is fetched again by whoever goes on."""
        deadline = time.monotonic() + DRAIN_SECONDS
        for partition in self.partitions:
            partition.abandon()
        while time.monotonic() < deadline and self._owed and not self.lease.ended:
            self.appender.send_ready()
            await self.signal.wait(0.05)
        for partition in self.partitions:
            if not partition.idle and not partition.error and not self.lease.ended:
                partition.stop("the target did not acknowledge in time while the shift ended")


def _partitions(plan: ShiftPlan, config: FlowConfig, load: Load) -> Sequence[PartitionCopy]:
    producer = config.target.producer
    wanted = producer.batch_size or 1 << 20
    backoff = Backoff.of(producer)
    return tuple(
        PartitionCopy(
            plan=p,
            rules=_rules(p, plan, config),
            batch_bytes=min(wanted, p.max_message_bytes),
            patience_s=producer.delivery_timeout_ms / 1000,
            backoff=backoff,
            target_alias=config.target.alias,
            shared=plan.loops_by_writer,
            load=load,
            guard=Guard(age_ms=plan.guarded_ms, broker_time=p.log_append_time),
        )
        for p in plan.partitions
    )


def _rules(plan: PartitionPlan, shift: ShiftPlan, config: FlowConfig) -> Rules:
    producer = config.target.producer
    # The topic's own codec wins: its brokers would compress anew whatever comes in another.
    codec = plan.codec or producer.compression_type
    provenance = batches.Provenance(source=shift.source_id, target=shift.target_id)
    levels = {
        batches.Codec.GZIP: producer.compression_gzip_level,
        batches.Codec.LZ4: producer.compression_lz4_level,
        batches.Codec.ZSTD: producer.compression_zstd_level,
    }
    return Rules(
        target=batches.TargetTopic(
            log_append_time=plan.log_append_time,
            max_message_bytes=plan.max_message_bytes,
            codec=batches.Codec[codec.upper()] if codec else None,
            enforced=bool(plan.codec),
            levels={known: level for known, level in levels.items() if level is not None},
        ),
        read_committed=config.isolation is Isolation.READ_COMMITTED,
        loops=batches.NO_PRODUCERS,
        decompression_limit=config.decompression_limit,
        provenance=provenance if config.provenance_header else None,
    )
