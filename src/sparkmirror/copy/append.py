"""Batches to the target leaders: in order, idempotent, acknowledged by all in-sync replicas.

Each partition has a queue (`PartitionCopy`); this module takes what is ready from the queues of one broker's
partitions, sends it as one Produce request with at most one batch for each partition, and hands answers back to the
queues.

Invariants: a partition has at most five unacknowledged batches (the broker remembers the last five of a producer); a
request is no larger than it may be unless a single batch is (brokers hang up on one above socket.request.max.bytes); a
retry repeats exactly the same bytes, in order, and only when every earlier answer of that partition is known.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from sparkmirror.copy.lease import Lease
from sparkmirror.copy.outgoing import Outgoing
from sparkmirror.copy.partition import PartitionCopy
from sparkmirror.copy.tally import kind_of_batch
from sparkmirror.copy.target_changes import acknowledge
from sparkmirror.copy.throttling import request_bytes
from sparkmirror.errors import BatchError, LinkError
from sparkmirror.kafka.cluster import IN_FLIGHT, Cluster
from sparkmirror.kafka.metadata import NO_LEADER
from sparkmirror.kafka.producing import BatchesRequest, Load, produced
from sparkmirror.model import TopicPartition

REQUEST_BYTES = 8 << 20
"""What a request holds at most unless ``max.request.size`` is set; a batch above it goes alone."""

SENDING_SECONDS = 0.002
"""Until a request has left the process."""

NETWORK_EXCEPTION = 13

Loads: TypeAlias = list[tuple[PartitionCopy, Outgoing]]


@dataclass(slots=True)
class _Broker:
    """One target broker: what may be sent to it, and how.

    Attributes:
        request_bytes: how large a request may be now; less than the most while the broker holds us back.
        waiting: the partitions that may have something to send.
        in_flight: how many requests it owes an answer.
    """

    request_bytes: int
    waiting: dict[TopicPartition, PartitionCopy] = field(default_factory=dict)
    in_flight: int = 0


class Appender:
    """Sends for all partitions of a lane.

    Args:
        cluster: the target.
        wake: called when an answer has come.
        lease: without it nothing is sent.

    Attributes:
        to_verify: partitions with something to send whose leaders have to be asked first.
    """

    def __init__(self, cluster: Cluster, wake: Callable[[], None], lease: Lease) -> None:
        self._cluster = cluster
        self._wake = wake
        self._lease = lease
        self._request_bytes = cluster.settings.max_request_size or REQUEST_BYTES
        self._brokers: dict[int, _Broker] = defaultdict(lambda: _Broker(self._request_bytes))
        self.to_verify: dict[TopicPartition, PartitionCopy] = {}
        self._ahead: deque[PartitionCopy] = deque()
        self._defect: Exception | None = None

    def offer(self, partition: PartitionCopy) -> None:
        """Says that ``partition`` may have something to send."""
        if partition.target_leader != NO_LEADER:
            self._brokers[partition.target_leader].waiting[partition.target] = partition

    def send_ready(self) -> None:
        """Sends as much as brokers and partitions allow.

        Raises:
            Exception: taking an answer failed, which is a defect: the shift must end.
        """
        if self._defect is not None:
            raise self._defect
        if not self._lease.holds:
            return
        for node, broker in tuple(self._brokers.items()):  # `_take` may add one
            most = IN_FLIGHT if broker.request_bytes == self._request_bytes else 1
            while broker.waiting and broker.in_flight < most and self._cluster.can_send(node):
                requests = self._take(node, broker)
                if not requests:
                    break
                for loads in requests:
                    self._send(node, broker, loads)

    def _take(self, node: int, broker: _Broker) -> list[Loads]:
        """The next batch of each partition that is ready, in one request or, where the last batch is too much, two."""
        requests: list[Loads] = []
        size = 0
        for target in list(broker.waiting):
            partition = broker.waiting.pop(target)
            if partition.target_leader != node:
                self.offer(partition)
                continue
            batch = _next(partition)
            if batch is None:
                if partition.must_verify and not partition.error:
                    self.to_verify[target] = partition
                continue
            size += len(batch.payload)
            if not requests or size > broker.request_bytes:
                requests.append([])
            requests[-1].append((partition, batch))
            if partition.has_more():
                broker.waiting[target] = partition  # behind the others: partitions take turns
            elif partition.may_make_ahead:
                self._plan_ahead(partition)
            if size >= broker.request_bytes:
                break
        return requests

    def _plan_ahead(self, partition: PartitionCopy) -> None:
        self._ahead.append(partition)
        if len(self._ahead) == 1:
            self._cluster.loop.call_soon(self._work_ahead)

    async def _work_ahead(self) -> None:
        """Makes the next batches of partitions that wait for an answer, one at a time; what was sent goes out first."""
        try:
            while self._ahead:
                await self._cluster.loop.sleep(SENDING_SECONDS)
                self._ahead.popleft().make_ahead()
        except Exception as defect:  # noqa: BLE001  # the loop would only log it, and nothing be made ahead any more
            self._defect = defect
            self._wake()

    def _send(self, node: int, broker: _Broker, loads: Loads) -> None:
        timeout_ms = self._cluster.settings.request_timeout_ms
        request = BatchesRequest(
            (Load(partition.target, partition.target_id, batch.payload) for partition, batch in loads), timeout_ms
        )
        broker.in_flight += 1
        sent = {partition.target: (partition, batch) for partition, batch in loads}

        def done(answer: Any) -> None:
            try:
                # Smaller while it holds us back, and larger again where its answer says nothing of quotas.
                throttle_ms = getattr(answer, "throttle_time_ms", 0)
                broker.request_bytes = request_bytes(broker.request_bytes, throttle_ms, self._request_bytes)
                self._answered(broker, sent, answer)
                self._measure(node, sent)
            except Exception as defect:  # noqa: BLE001  # kafka-python would log it and go on
                self._defect = defect
            self._wake()

        self._cluster.send(request, node, done, timeout_ms + 5_000)

    def _answered(
        self, broker: _Broker, sent: dict[TopicPartition, tuple[PartitionCopy, Outgoing]], answer: Any
    ) -> None:
        broker.in_flight -= 1
        if isinstance(answer, LinkError):
            for partition, batch in sent.values():
                partition.refused(batch, NETWORK_EXCEPTION, str(answer))
        else:
            self._spread(sent, answer)
        for partition, _ in sent.values():
            if partition.has_more():
                self.offer(partition)

    def _measure(self, node: int, sent: dict[TopicPartition, tuple[PartitionCopy, Outgoing]]) -> None:
        round_trip = self._cluster.round_trip(node)
        for partition, _ in sent.values():
            partition.round_trip = round_trip

    def _spread(self, sent: dict[TopicPartition, tuple[PartitionCopy, Outgoing]], answer: Any) -> None:
        names = {p.target_id: p.target.topic for p, _ in sent.values() if p.target_id is not None}
        told = set()
        for result in produced(answer, names):
            if result.partition not in sent or result.partition in told:
                continue  # nothing, or no second answer, is owed for it
            partition, batch = sent[result.partition]
            told.add(result.partition)
            if result.code == 0 and result.base_offset < 0:
                partition.refused(batch, NETWORK_EXCEPTION, "the broker does not say at which offset the batch lies")
            elif result.code == 0:
                acknowledge(partition, batch, result.base_offset, result.stamped_ms)
            else:
                partition.refused(batch, result.code, self._cluster.told(result.message), result.record)
        for target in _missing(sent, told):
            partition, batch = sent[target]
            partition.refused(batch, NETWORK_EXCEPTION, "the broker's answer does not mention the partition")


def _next(partition: PartitionCopy) -> Outgoing | None:
    try:
        return partition.next_batch()
    except BatchError as error:
        partition.fail_before_waiting(str(error.at(*partition.source)), kind_of_batch(error))
        return None


def _missing(sent: Iterable[TopicPartition], told: set[TopicPartition]) -> list[TopicPartition]:
    return [target for target in sent if target not in told]
