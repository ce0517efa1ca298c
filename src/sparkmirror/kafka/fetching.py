"""Incremental fetch sessions: what a broker is told once and need not be told again (KIP-227).

A session holds the partitions that are fetched from one broker. A request names only those that changed since the last
one, an answer only those with news, so idle partitions cost nothing. Pure but for the protocol classes: the caller
sends the requests.

Invariant: at most one request of a session is in flight, since each depends on the answer before.

Reference: ``org.apache.kafka.clients.FetchSessionHandler``.
"""

from __future__ import annotations

import uuid
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

from kafka.protocol.consumer import FetchRequest

from sparkmirror.config import Isolation
from sparkmirror.kafka.codes import SESSION_ERRORS
from sparkmirror.model import TopicPartition

INITIAL_EPOCH = 0
LAST_VERSION_WITH_NAMES = 12
T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchLimits:
    """How much one Fetch may return, and how long it may wait: bytes and milliseconds."""

    max_bytes: int
    partition_max_bytes: int
    min_bytes: int
    max_wait_ms: int
    isolation: int
    rack: str


@dataclass(frozen=True, slots=True)
class Wanted:
    """From where a partition is fetched, under which leader epoch, and the one of what was fetched before, or -1.

    By the last one a leader sees whether it still has what was fetched (KIP-595); if it
    does not, it answers `Fetched.diverging`.
    """

    offset: int
    leader_epoch: int
    last_epoch: int = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class Fetched:
    """What an answer says about one partition.

    Attributes:
        code: the partition's error code.
        records: the batches as bytes; the last one may be cut off.
        aborted: (producer id, first offset) of the aborted transactions in the range.
        high_watermark, last_stable, log_start: offsets, -1 where not told.
        preferred_node: a closer replica to fetch from, or -1 (KIP-392).
        diverging: the greatest leader epoch not above `Wanted.last_epoch` that the log has, and where it ends, if what
            was fetched lies behind that; then there are no records.
        by_name: whether the broker was asked by the topic's name, which a topic that was made anew has too.
    """

    partition: TopicPartition
    code: int
    records: bytes
    aborted: tuple[tuple[int, int], ...]
    high_watermark: int
    last_stable: int
    log_start: int
    preferred_node: int
    diverging: tuple[int, int] | None = None
    by_name: bool = False


class FetchSession:
    """The session with one broker.

    Args:
        node: the broker's id.
        limits: of every request.
    """

    def __init__(self, node: int, limits: FetchLimits) -> None:
        self.node = node
        self.busy = False
        self._limits = limits
        self._id = 0
        self._epoch = INITIAL_EPOCH
        self._wanted: dict[TopicPartition, Wanted] = {}
        self._changed: set[TopicPartition] = set()
        self._forgotten: set[TopicPartition] = set()
        self._ids: dict[str, uuid.UUID | None] = {}
        self._names: dict[uuid.UUID, str] = {}
        self._asked = self._answered = 0
        self._asked_ms = self._answered_ms = -1
        self._since: dict[TopicPartition, int] = {}

    def __len__(self) -> int:
        return len(self._wanted)

    def __contains__(self, partition: TopicPartition) -> bool:
        return partition in self._wanted

    def want(self, partition: TopicPartition, topic_id: uuid.UUID | None, wanted: Wanted) -> None:
        """Fetches ``partition`` from ``wanted.offset`` on."""
        if self._wanted.get(partition) == wanted:
            return
        self._since.setdefault(partition, self._asked)
        self._wanted[partition] = wanted
        self._changed.add(partition)
        self._forgotten.discard(partition)
        self._ids[partition.topic] = topic_id
        if topic_id is not None:
            self._names[topic_id] = partition.topic

    def forget(self, partition: TopicPartition) -> None:
        """Stops fetching ``partition``."""
        if self._wanted.pop(partition, None) is not None:
            del self._since[partition]
            self._changed.discard(partition)
            self._forgotten.add(partition)

    def reset(self) -> None:
        """Starts anew with a full request, after an error of the session or the connection."""
        self._id, self._epoch = 0, INITIAL_EPOCH
        self._forgotten.clear()

    def answered_ms(self, partition: TopicPartition) -> int:
        """When the newest request left whose answer tells of ``partition``, if only that there is no news of it; or -1.

        One that was under way when the partition came to the session does not.
        """
        return self._answered_ms if self.has_told(partition) else -1

    def has_told(self, partition: TopicPartition) -> bool:
        """Whether an answer has come to a request that left since ``partition`` came to the session."""
        since = self._since.get(partition)
        return since is not None and since < self._answered

    def request(self, max_bytes: int | None = None, now_ms: int = -1, *, near: bool = True) -> Any:
        """The next Fetch request; the session is busy until `accept` or `reset`.

        Args:
            max_bytes: less than its limits, if wanted.
            now_ms: the wall clock, for `answered_ms`.
            near: whether the broker may name followers in the rack of the limits instead of giving records.
        """
        self._asked, self._asked_ms = self._asked + 1, now_ms
        full = self._epoch == INITIAL_EPOCH
        chosen = self._wanted.keys() if full else self._changed
        topics: dict[str, list[Any]] = defaultdict(list)
        for partition in chosen:
            wanted = self._wanted[partition]
            topics[partition.topic].append(
                FetchRequest.FetchTopic.FetchPartition(
                    partition=partition.partition,
                    current_leader_epoch=wanted.leader_epoch,
                    fetch_offset=wanted.offset,
                    last_fetched_epoch=wanted.last_epoch,
                    partition_max_bytes=self._limits.partition_max_bytes,
                )
            )
        forgotten: dict[str, list[int]] = defaultdict(list)
        for partition in () if full else self._forgotten:
            forgotten[partition.topic].append(partition.partition)
        by_id = all(self._ids.get(topic) is not None for topic in (*topics, *forgotten, *self._ids))
        self._changed.clear()
        self._forgotten.clear()
        return FetchRequest(
            max_wait_ms=self._limits.max_wait_ms,
            min_bytes=self._limits.min_bytes,
            max_bytes=self._limits.max_bytes if max_bytes is None else max_bytes,
            isolation_level=self._limits.isolation,
            session_id=self._id,
            session_epoch=self._epoch,
            topics=[
                FetchRequest.FetchTopic(topic=name, topic_id=self._ids[name], partitions=parts)
                for name, parts in topics.items()
            ],
            forgotten_topics_data=[
                FetchRequest.ForgottenTopic(topic=name, topic_id=self._ids[name], partitions=parts)
                for name, parts in forgotten.items()
            ],
            rack_id=self._limits.rack if near else "",
            max_version=None if by_id else LAST_VERSION_WITH_NAMES,
        )

    def accept(self, answer: Any) -> Iterator[Fetched]:
        """Takes an answer; gives what it says of each partition, nothing after an error of the session itself."""
        if answer.error_code != 0:
            if answer.error_code in SESSION_ERRORS or self._epoch != INITIAL_EPOCH:
                self.reset()
            return
        self._answered, self._answered_ms = self._asked, self._asked_ms
        self._id = answer.session_id
        self._epoch = self._epoch % 0x7FFFFFFF + 1 if answer.session_id else INITIAL_EPOCH
        for topic in answer.responses:
            name = topic.topic or self._names.get(topic.topic_id, "")
            for part in topic.partitions:
                yield _fetched(TopicPartition(name, part.partition_index), part, by_name=bool(topic.topic))


def _fetched(partition: TopicPartition, part: Any, *, by_name: bool) -> Fetched:
    return Fetched(
        partition=partition,
        code=part.error_code,
        records=part.records or b"",
        aborted=tuple((a.producer_id, a.first_offset) for a in part.aborted_transactions or ()),
        high_watermark=part.high_watermark,
        last_stable=part.last_stable_offset,
        log_start=part.log_start_offset,
        preferred_node=part.preferred_read_replica,
        diverging=_diverging(part.diverging_epoch),
        by_name=by_name,
    )


def _diverging(told: Any) -> tuple[int, int] | None:
    return None if told is None or told.end_offset < 0 else (told.epoch, told.end_offset)


class Part(NamedTuple):
    """What is asked of one partition outside of any session.

    Attributes:
        partition: which one.
        topic_id: of its topic; brokers before 2.8 have none.
        leader_epoch: as it is known.
        offset: from where.
        limit: bytes, at most.
    """

    partition: TopicPartition
    topic_id: uuid.UUID | None
    leader_epoch: int
    offset: int
    limit: int


def parts_of(answer: Any, asked: Mapping[TopicPartition, T], names: Mapping[Any, str]) -> Iterator[tuple[T, Any]]:
    """What an answer says of the partitions that were asked about; what it says of others is passed over.

    Args:
        answer: of a Fetch.
        asked: what is known of each partition, given back with its part of the answer.
        names: the topic of each id.
    """
    for topic in answer.responses:
        name = topic.topic or names.get(topic.topic_id, "")
        for part in topic.partitions:
            known = asked.get(TopicPartition(name, part.partition_index))
            if known is not None:
                yield known, part


def one_off_request(parts: Sequence[Part], *, isolation: Isolation, max_bytes: int, max_wait_ms: int) -> Any:
    """A Fetch outside of any session, as a consumer's: followers and their replica ids see other ends."""
    wire = FetchRequest.FetchTopic
    by_topic: dict[tuple[str, uuid.UUID | None], list[Any]] = defaultdict(list)
    for part in parts:
        by_topic[part.partition.topic, part.topic_id].append(
            wire.FetchPartition(
                partition=part.partition.partition,
                current_leader_epoch=part.leader_epoch,
                fetch_offset=part.offset,
                partition_max_bytes=part.limit,
            )
        )
    by_id = all(topic_id is not None and topic_id.int != 0 for _, topic_id in by_topic)
    return FetchRequest(
        max_wait_ms=max_wait_ms,
        min_bytes=1,
        max_bytes=max_bytes,
        isolation_level=isolation.value,
        session_id=0,
        session_epoch=-1,
        topics=[
            wire(topic=name, topic_id=topic_id if by_id else None, partitions=some)
            for (name, topic_id), some in by_topic.items()
        ],
        forgotten_topics_data=[],
        rack_id="",
        max_version=None if by_id else LAST_VERSION_WITH_NAMES,
    )
