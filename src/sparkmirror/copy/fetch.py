"""Batches of a lane's partitions from the source leaders.

One incremental fetch session per broker; while the batches of one answer are appended, the next request is in flight.
Fetching pauses when the lane holds enough, and for a single partition when it holds more than its share.

Invariants: one request in flight per broker; a partition is in at most one session; what an answer brings is handed out
once, in the order in which answers came, and not at all where the partition is fetched from another broker by then; a
partition that stopped is in no session, from the moment at which it stopped.
"""

from __future__ import annotations

import time
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterator
from typing import Any

from sparkmirror.config.settings import ClientSettings, Isolation
from sparkmirror.copy.pace import Pace
from sparkmirror.copy.partition import PartitionCopy
from sparkmirror.errors import LinkError
from sparkmirror.events import now_ms
from sparkmirror.kafka.cluster import FRAME_LIMIT, Cluster
from sparkmirror.kafka.fetching import Fetched, FetchLimits, FetchSession, Wanted
from sparkmirror.kafka.metadata import NO_LEADER
from sparkmirror.model import TopicPartition

MAX_BYTES = 8 << 20
LARGEST_BYTES = FRAME_LIMIT // 2
"""Above it an answer could be larger than what a connection takes."""
PARTITION_MAX_BYTES = 1 << 20
MAX_WAIT_MS = 500


def limits_of(settings: ClientSettings, isolation: Isolation, memory: int) -> FetchLimits:
    """What the configuration asks for, and our defaults where it is silent; never more than a quarter of the memory."""
    return FetchLimits(
        max_bytes=min(settings.fetch_max_bytes or MAX_BYTES, max(memory // 4, 1 << 20), LARGEST_BYTES),
        partition_max_bytes=settings.max_partition_fetch_bytes or PARTITION_MAX_BYTES,
        min_bytes=settings.fetch_min_bytes or 1,
        max_wait_ms=MAX_WAIT_MS if settings.fetch_max_wait_ms is None else settings.fetch_max_wait_ms,
        isolation=isolation.value,
        rack=settings.client_rack,
    )


class Fetcher:
    """Fetches for all partitions of a lane.

    Args:
        cluster: the source.
        limits: of each request.
        memory: bytes that the lane may hold.
        wake: called when an answer has come.

    Attributes:
        unreachable: brokers that did not answer, and why; who learns the leaders anew takes them out.
        pace: how fast it may fetch.
    """

    def __init__(self, cluster: Cluster, limits: FetchLimits, memory: int, wake: Callable[[], None]) -> None:
        self._cluster = cluster
        self._limits = limits
        self._memory = memory
        self._wake = wake
        self._sessions: dict[int, FetchSession] = {}
        self._answers: deque[tuple[FetchSession, Any]] = deque()
        self._crowded: dict[TopicPartition, PartitionCopy] = {}
        self._failures: Counter[int] = Counter()
        self._belongs: dict[TopicPartition, int] = {}
        self._leader_only: defaultdict[int, float] = defaultdict(float)
        self.unreachable: dict[int, LinkError] = {}
        self.pace = Pace()

    @property
    def timeout_ms(self) -> int:
        """Of a Fetch, and of what waits behind one on its connection."""
        return self._limits.max_wait_ms + self._cluster.settings.request_timeout_ms

    @property
    def max_wait_ms(self) -> int:
        """How long a broker that has no news waits with its answer."""
        return self._limits.max_wait_ms

    def update(self, partition: PartitionCopy) -> None:
        """Fetches, or stops fetching, as the partition's state says; whoever changes that state calls it.

        An error or an obstacle does so by itself (`Load.on_stop`).
        """
        self._belongs[partition.source] = partition.read_from
        crowded = partition.held > self._memory // 2
        if crowded:
            self._crowded[partition.source] = partition
        stopped = partition.error or partition.obstacle or partition.asked or partition.paused
        stopped = stopped or partition.read_from == NO_LEADER
        if stopped or crowded or partition.fetched_all:
            self._forget(partition)
        else:
            self._want(partition)

    def _want(self, partition: PartitionCopy) -> None:
        node = partition.read_from
        session = self._sessions.get(node)
        if session is None:
            session = self._sessions[node] = FetchSession(node, self._limits)
        if partition.source not in session:
            self._forget(partition)
        if partition.replica.leader_only_until:
            self._leader_only[node] = max(self._leader_only[node], partition.replica.leader_only_until)
        wanted = Wanted(partition.fetch_offset, partition.source_epoch, partition.leader_epoch)
        session.want(partition.source, partition.source_id, wanted)

    def _forget(self, partition: PartitionCopy) -> None:
        for session in self._sessions.values():
            session.forget(partition.source)

    def has_told(self, partition: PartitionCopy) -> bool:
        """Whether the broker that the partition is fetched from has answered since."""
        session = self._sessions.get(partition.read_from)
        return session is not None and session.has_told(partition.source)

    def answered_ms(self, partition: PartitionCopy) -> int:
        """When the newest request left that the partition's leader answered with what it knows of it, or -1.

        It is -1 too while the leader is not fetched from: a follower does not know where the log ends.
        """
        session = self._sessions.get(partition.source_node)
        return -1 if session is None or partition.replica.followed else session.answered_ms(partition.source)

    def lose_leader(self, partition: PartitionCopy) -> None:
        """Stops fetching until the leader has been learnt anew."""
        partition.source_node = NO_LEADER
        self.update(partition)

    def refetch(self, partition: PartitionCopy) -> None:
        """Fetches the same offset again, which an answer brought but nobody took."""
        self._forget(partition)
        self.update(partition)

    def request_more(self, held: int) -> None:
        """Sends the next request to each broker that owes nothing, unless the lane holds enough, or is too fast."""
        if held >= self._memory or not self.pace.ready(time.monotonic()):
            return
        for source, partition in tuple(self._crowded.items()):
            if partition.held <= self._memory // 2:
                del self._crowded[source]
                self.update(partition)
        for session in self._sessions.values():
            if len(session) and not session.busy and self._cluster.can_send(session.node):
                self._request(session)

    def _request(self, session: FetchSession) -> None:
        session.busy = True
        near = time.monotonic() >= self._leader_only[session.node]
        request = session.request(self.pace.most(self._limits.max_bytes), now_ms(), near=near)
        self._cluster.send(request, session.node, lambda answer: self._answered(session, answer), self.timeout_ms)

    def _answered(self, session: FetchSession, answer: Any) -> None:
        self._answers.append((session, answer))
        self._wake()

    def answers(self) -> Iterator[Fetched]:
        """What has come since the last call, partition by partition.

        What is still told of a partition that is fetched no more does not count against the pace.
        """
        while self._answers:
            session, answer = self._answers.popleft()
            if isinstance(answer, LinkError):
                session.reset()
                self.unreachable[session.node] = answer
                self._failures[session.node] += 1
                pause = self._cluster.backoff.after(self._failures[session.node])
                self._cluster.loop.call_later(pause, lambda session=session: self._release(session))
            else:
                session.busy = False
                del self._failures[session.node]
                self.unreachable.pop(session.node, None)
                for fetched in session.accept(answer):
                    if self._belongs.get(fetched.partition) == session.node:
                        if fetched.partition in session:
                            self.pace.take(len(fetched.records))
                        yield fetched

    def _release(self, session: FetchSession) -> None:
        session.busy = False
        self._wake()
