"""Whether what came by name is of the topic that was planned: asked of the source where Fetch cannot carry topic ids.

Brokers from 2.8 on have topic ids, and Fetch carries them from 3.1 on (KIP-516). In between a Fetch names its topic,
and one that was deleted and made anew meanwhile is answered for as if it were the old one. So everything that such an
answer brings is held back until the broker that gave it has said the topic's id, asked after the answer.

    Fetch ──► answer ──► held ──► Metadata ──► same id: sent · another: stopped · none: learnt anew, and asked again

Invariants:
    * A question leaves after the answer that it is about has come, and goes to the partition's leader, or the follower
      that it is read from: to a broker that has the log. That takes a topic out of its metadata before it closes the
      log, and a topic is not created again before all brokers with a replica have done both. An id is never used again.
      So where the broker still has the planned id, the log that the answer was read from was the planned topic's.
    * Questions leave before the next Fetch: a broker does the requests of one connection in turn, and one behind a
      Fetch would wait until that has something to say.
    * A question that gets no id decides nothing: what is held back stays so.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import Enum, auto
from functools import partial
from typing import Any, TypeAlias

from sparkmirror.copy.arrivals import Unconfirmed
from sparkmirror.copy.partition import PartitionCopy
from sparkmirror.errors import LinkError
from sparkmirror.events import Kind
from sparkmirror.kafka.cluster import Cluster
from sparkmirror.kafka.metadata import NO_LEADER, TOPICS_PER_REQUEST, TopicView, metadata_request, views
from sparkmirror.model import TopicPartition

Asked: TypeAlias = tuple[tuple[PartitionCopy, Unconfirmed | None], ...]
"""Partitions, each with the newest of its answers that a question is about."""


class Identity(Enum):
    """What the metadata says of a topic's identity."""

    SAME = auto()
    OTHER = auto()
    UNKNOWN = auto()


def identity(planned: str, view: TopicView | None) -> Identity:
    """Compares the planned topic id with the metadata; brokers without ids are taken as they are."""
    if view is None or view.code != 0:
        return Identity.UNKNOWN
    if not planned or view.topic_id is None or view.topic_id.hex == planned:
        return Identity.SAME
    return Identity.OTHER


def stop_recreated(partition: PartitionCopy, view: TopicView) -> None:
    """Stops a partition whose source topic is another one by now; the driver says where it goes on."""
    found = "" if view.topic_id is None else view.topic_id.hex
    partition.stop(
        f"source topic {view.name} was deleted and made anew: its topic id was {partition.plan.topic_id}, now "
        f"it is {found}",
        Kind.SOURCE_RECREATED,
    )


class TopicIdCheck:
    """Holds back what came by name until the source has confirmed the topic's id.

    Args:
        source: to ask.
        wake: called when an answer has come.
        confirmed: takes what is held back no longer.
        lost: takes partitions whose topic the broker does not know: their leaders are to be learnt anew.
        timeout_ms: of a question, which may wait behind a Fetch.
    """

    def __init__(
        self,
        source: Cluster,
        wake: Callable[[], None],
        confirmed: Callable[[PartitionCopy, Unconfirmed], None],
        lost: Callable[[PartitionCopy], None],
        timeout_ms: int,
    ) -> None:
        self._source = source
        self._wake = wake
        self._confirmed = confirmed
        self._lost = lost
        self._timeout_ms = timeout_ms
        self._to_ask: dict[TopicPartition, PartitionCopy] = {}
        self._answers: deque[tuple[Asked, Any]] = deque()

    def hold(self, partition: PartitionCopy) -> None:
        """Has what an answer brings wait; called before the answer is taken."""
        partition.unconfirmed.append(Unconfirmed())
        self._to_ask[partition.source] = partition

    def look(self, partitions: Iterable[PartitionCopy]) -> None:
        """Asks about topics that bring nothing: one made anew may have come to the very end that the old one had."""
        for partition in partitions:
            if partition.by_name and partition.plan.topic_id and not partition.paused:
                self._to_ask[partition.source] = partition

    def turn(self) -> None:
        """Takes answers, and asks what is to be asked; before the next Fetch."""
        while self._answers:
            self._take(*self._answers.popleft())
        if self._to_ask:
            self._ask()

    def _ask(self) -> None:
        asked: defaultdict[int, dict[str, list[PartitionCopy]]] = defaultdict(dict)
        for source, partition in tuple(self._to_ask.items()):
            if partition.error:
                del self._to_ask[source]
            elif partition.read_from != NO_LEADER:
                asked[partition.read_from].setdefault(source.topic, []).append(partition)
        for node, topics in asked.items():
            names = sorted(topics)
            for start in range(0, len(names), TOPICS_PER_REQUEST):
                some = names[start : start + TOPICS_PER_REQUEST]
                if self._source.can_send(node):  # what cannot go now does in a later turn
                    self._send(node, some, [partition for name in some for partition in topics[name]])

    def _send(self, node: int, names: Sequence[str], partitions: Sequence[PartitionCopy]) -> None:
        for partition in partitions:
            del self._to_ask[partition.source]
        asked = tuple((partition, partition.newest_unconfirmed) for partition in partitions)
        self._source.send(metadata_request(names), node, partial(self._answered, asked), self._timeout_ms)

    def _answered(self, asked: Asked, answer: Any) -> None:
        self._answers.append((asked, answer))
        self._wake()

    def _take(self, asked: Asked, answer: Any) -> None:
        names = {partition.source.topic for partition, _ in asked}
        found: Mapping[str, TopicView] = {} if isinstance(answer, LinkError) else views(answer, names)
        for partition, newest in asked:
            if not partition.error:
                self._judge(partition, newest, found.get(partition.source.topic))

    def _judge(self, partition: PartitionCopy, newest: Unconfirmed | None, view: TopicView | None) -> None:
        said = identity(partition.plan.topic_id, view)
        if said is Identity.OTHER:
            assert view is not None  # it has an id
            stop_recreated(partition, view)
        elif said is Identity.UNKNOWN:
            self._to_ask[partition.source] = partition
            self._lost(partition)
        elif newest is not None:
            for each in partition.confirm(newest):
                self._confirmed(partition, each)
