"""Which brokers lead a lane's partitions, on both sides; learnt at the start and whenever an answer says otherwise.

A leader of the target that was elected since the last acknowledgement is asked first whether it has all of the log.
Where its log goes on behind that, it is asked as well what it remembers of the flow's writer: somebody who may write to
the copy may have forged batches of it, in whose place the next one would be taken for one that is there already.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from sparkmirror.copy.distance import is_far
from sparkmirror.copy.lease import now
from sparkmirror.copy.partition import PartitionCopy
from sparkmirror.copy.topic_id_check import Identity, identity, stop_recreated
from sparkmirror.errors import LinkError
from sparkmirror.events import Kind
from sparkmirror.kafka.cluster import Cluster
from sparkmirror.kafka.codes import GONE, UNKNOWN_TOPIC_OR_PARTITION, Advice, advice, broker_error, kind_of
from sparkmirror.kafka.epochs import ask_leaders_of_epochs
from sparkmirror.kafka.leaders import Leader
from sparkmirror.kafka.metadata import NO_LEADER, TopicView, describe_topics
from sparkmirror.kafka.producer_states import ask_leaders_for_producers
from sparkmirror.model import TopicPartition

PINGS, MEASURE_SECONDS = 4, 1.0
VERIFY_MS = 5_000

EACH_PRODUCER_SECONDS, PRODUCERS_SECONDS = 0.02, 60.0
"""A leader that has told of so many producers is not asked again for so long, at most: each takes some microseconds."""

GONE_SECONDS = 10.0
"""How long a topic may be unknown before its partitions stop: metadata of a new topic takes a moment to spread."""


@dataclass(slots=True)
class Leaders:
    """Keeps ``source_node`` and ``target_leader`` of the partitions right.

    Attributes:
        source: where the partitions are read.
        target: where they are written.
    """

    source: Cluster
    target: Cluster
    _missing: dict[tuple[str, str], float] = field(default_factory=dict)
    _producers_due: dict[TopicPartition, float] = field(default_factory=dict)

    async def learn(self, partitions: Sequence[PartitionCopy]) -> None:
        """Asks both clusters for the leaders of partitions that are not stopped.

        Raises:
            LinkError: a cluster does not answer.
        """
        await self.learn_source(partitions)
        await self.learn_target(partitions)

    async def learn_source(self, partitions: Sequence[PartitionCopy]) -> None:
        """Asks the source alone.

        Raises:
            LinkError: it does not answer.
        """
        alive = [p for p in partitions if not p.error]
        if not alive:
            return
        source = await describe_topics(self.source, {p.source.topic for p in alive})
        for partition in alive:
            self._learn_source(partition, source[partition.source.topic])

    async def learn_target(self, partitions: Sequence[PartitionCopy]) -> None:
        """Asks the target alone.

        Raises:
            LinkError: it does not answer.
        """
        alive = [p for p in partitions if not p.error]
        if not alive:
            return
        target = await describe_topics(self.target, {p.target.topic for p in alive})
        for partition in alive:
            self._learn_target(partition, target[partition.target.topic])

    async def measure(self, partitions: Sequence[PartitionCopy]) -> None:
        """Asks the brokers of the target that seem far away again: one that was only busy answers sooner then."""
        deadline = time.monotonic() + MEASURE_SECONDS
        for node in {p.target_leader for p in partitions} - {NO_LEADER}:
            with suppress(LinkError):  # found out when it is written to
                for _ in range(PINGS):
                    left_ms = int((deadline - time.monotonic()) * 1000)
                    if left_ms <= 0 or not is_far(self.target.round_trip(node)):
                        break
                    await self.target.ping(node, left_ms)
        for partition in partitions:
            partition.round_trip = self.target.round_trip(partition.target_leader)

    async def verify(self, partitions: Sequence[PartitionCopy], *, ahead: bool = False) -> None:
        """Asks leaders of the target that are in doubt how far their logs go; without an answer they stay so.

        Args:
            partitions: which.
            ahead: also those that would have to be asked if there was something to send.
        """
        doubted = {
            p.target: p
            for p in partitions
            if p.target_leader != NO_LEADER and (p.must_verify or (ahead and p.footing.stale(now())))
        }
        if not doubted:
            return
        asked = {target: p.footing.question() for target, p in doubted.items()}
        answers = await ask_leaders_of_epochs(
            self.target,
            {target: Leader(p.target_leader, asked[target].leader_epoch) for target, p in doubted.items()},
            {target: each.reached.leader_epoch for target, each in asked.items()},
            VERIFY_MS,
        )
        grown = {
            answer.key: doubted[answer.key]
            for answer in answers
            if (told := answer.value) is not None
            and answer.code == 0
            and asked[answer.key].may_hide(told.epoch, told.end)
        }
        await self._look_for_forged(grown)
        for answer in answers:
            partition = doubted[answer.key]
            if answer.value is not None and answer.code == 0:
                partition.check(asked[answer.key], answer.value.epoch, answer.value.end, now())
            elif answer.link is None and advice(answer.code) is Advice.GIVE_UP:
                place = partition.target
                error = broker_error(answer.code, self.target.alias, topic=place.topic, partition=place.partition)
                partition.stop(str(error), kind_of(answer.code))
            else:
                partition.lost_leader = True

    async def _look_for_forged(self, grown: Mapping[TopicPartition, PartitionCopy]) -> None:
        """Gives back partitions to which somebody else has written by the writer of this flow, where leaders say so."""
        asked_at = now()
        nodes = {
            target: p.target_leader
            for target, p in grown.items()
            if p.answered and self._producers_due.get(target, asked_at) <= asked_at
        }
        if not nodes:
            return
        for answer in await ask_leaders_for_producers(self.target, nodes, VERIFY_MS):
            partition, producers = grown[answer.key], answer.value or {}
            self._producers_due[answer.key] = asked_at + min(EACH_PRODUCER_SECONDS * len(producers), PRODUCERS_SECONDS)
            state = producers.get(partition.plan.writer.producer_id)
            if state is not None and answer.code == 0 and partition.answered:
                partition.compare_writer(state.epoch, state.last_sequence)

    def _learn_source(self, partition: PartitionCopy, view: TopicView) -> None:
        if self._unusable(partition, self.source, view, partition.source.partition):
            return
        if identity(partition.plan.topic_id, view) is Identity.OTHER:
            stop_recreated(partition, view)
            return
        leader = view.leaders[partition.source.partition]
        partition.source_node, partition.source_epoch = leader.node, leader.epoch
        partition.source_id = view.topic_id

    def _learn_target(self, partition: PartitionCopy, view: TopicView) -> None:
        if self._unusable(partition, self.target, view, partition.target.partition):
            return
        before = partition.target_id.hex if partition.target_id is not None else partition.plan.target_id
        if before and view.topic_id is not None and view.topic_id.hex != before:
            partition.stop(
                f"target topic {view.name} was deleted and made anew while it was written to: its topic id was "
                f"{before}, now it is {view.topic_id.hex}",
                Kind.TARGET_RECREATED,
            )
            return
        leader = view.leaders[partition.target.partition]
        partition.target_leader = leader.node
        if leader.node != NO_LEADER:
            partition.footing.leader_epoch = leader.epoch
        partition.target_id = view.topic_id
        partition.lost_leader = partition.target_leader == NO_LEADER
        partition.round_trip = self.target.round_trip(partition.target_leader)

    def _unusable(self, partition: PartitionCopy, cluster: Cluster, view: TopicView, number: int) -> bool:
        """Whether the topic cannot be used now; stops the partition where waiting will not help."""
        place = (cluster.alias, view.name)
        code = view.code or (0 if number in view.leaders else UNKNOWN_TOPIC_OR_PARTITION)
        if code == 0:
            self._missing.pop(place, None)
            return False
        since = self._missing.setdefault(place, time.monotonic())
        if advice(code) is Advice.GIVE_UP or time.monotonic() - since > GONE_SECONDS:
            gone = Kind.SOURCE_DELETED if cluster is self.source else Kind.TARGET_DELETED
            kind = gone if code in GONE else kind_of(code)
            partition.stop(str(broker_error(code, cluster.alias, topic=view.name, partition=number)), kind)
        return True
