"""Where leader epochs end: whether what was copied still lies on the history that the source has now.

A log that lost its tail in an unclean election has, from some offset on, other records under the old offsets. Its
leader epochs tell: each election has a number, each batch carries that of the leader that took it, and a leader knows
where each number ends in its log.

Invariant: only leaders are asked, and with the leader epoch that the metadata shows, so that a deposed one says so.

References: OffsetForLeaderEpoch (KIP-101, KIP-279, KIP-320); ``LeaderEpochFileCache.endOffsetFor``.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kafka.protocol.consumer import OffsetForLeaderEpochRequest

from sparkmirror.errors import BrokerError, LinkError
from sparkmirror.kafka.admin import list_topics
from sparkmirror.kafka.cluster import Cluster
from sparkmirror.kafka.codes import LEADER_NOT_AVAILABLE, UNAUTHORIZED, UNKNOWN_TOPIC_OR_PARTITION
from sparkmirror.kafka.leaders import LEADER_MS, Leader, of_asked, together
from sparkmirror.kafka.metadata import TOPICS_PER_REQUEST, TopicView, metadata_request, views
from sparkmirror.kafka.reading import Span
from sparkmirror.kafka.rounds import ADMIN_MS, Answer, Deadline, Results, chunks, explained, repeat
from sparkmirror.model import TopicPartition
from sparkmirror.offsets.source_history import UNDEFINED, Ask, Begun, Compared, EpochEnd, Finding, Look, Looked
from sparkmirror.offsets.source_history import compare as compare_epochs

MAX_OFFSET = sys.maxsize
MOST_EPOCHS = 50
"""How many leader epochs of what is left out are asked for."""


def epoch_ends(
    cluster: Cluster, epochs: Mapping[TopicPartition, int], timeout_ms: int = ADMIN_MS
) -> Results[TopicPartition, EpochEnd]:
    """Where epochs end in the logs as they are now, one request for each leader.

    Args:
        cluster: where.
        epochs: which epoch of which partition.
        timeout_ms: milliseconds until partitions whose leader has not answered count as failed.
    """

    def ask(wanted: Sequence[TopicPartition], deadline: Deadline) -> Iterable[Answer[TopicPartition, EpochEnd]]:
        known = list_topics(cluster, sorted({partition.topic for partition in wanted}), deadline.attempt_ms)
        leaders: dict[TopicPartition, Leader] = {}
        for partition in wanted:
            described = known.get(partition.topic)
            leader = described.partitions.get(partition.partition) if described else None
            if leader is None or leader.node < 0:
                yield Answer(key=partition, code=UNKNOWN_TOPIC_OR_PARTITION if leader is None else LEADER_NOT_AVAILABLE)
            else:
                leaders[partition] = leader
        yield from cluster.run(ask_leaders_of_epochs, cluster, leaders, epochs, min(deadline.attempt_ms, LEADER_MS))

    def explain(partition: TopicPartition, code: int, message: str) -> BrokerError:
        remedy = f"allow DESCRIBE on Topic {partition.topic} to this user" if code in UNAUTHORIZED else ""
        number = partition.partition
        return explained(code, cluster.alias, topic=partition.topic, partition=number, remedy=remedy, message=message)

    return repeat(tuple(epochs), ask, explain, timeout_ms, cluster.backoff)


def believed_ends(
    cluster: Cluster, epochs: Mapping[TopicPartition, int], timeout_ms: int = ADMIN_MS
) -> Results[TopicPartition, EpochEnd]:
    """As `epoch_ends`; that a leader knows no such epoch counts where all brokers agree, and is a failure else."""
    told = epoch_ends(cluster, epochs, timeout_ms)
    unknown = [place for place, end in told.found.items() if end.end == UNDEFINED]
    known = _known_to_all(cluster, unknown, timeout_ms)
    doubtful = [place for place, leader in known.found.items() if leader.epoch >= epochs[place]]
    failed = {**told.failed, **known.failed, **{place: _away(cluster, place) for place in doubtful}}
    return Results(found={place: end for place, end in told.found.items() if place not in failed}, failed=failed)


def newest_epochs(
    cluster: Cluster, partitions: Iterable[TopicPartition], timeout_ms: int = ADMIN_MS
) -> dict[TopicPartition, int]:
    """The newest leader epoch that each log has now; partitions without an answer are not there.

    While a log has that epoch up to an offset, it still has what lay before that offset.

    Raises:
        LinkError: the cluster does not answer.
    """
    places = list(partitions)
    known = list_topics(cluster, sorted({place.topic for place in places}), timeout_ms) if places else {}
    leaders = {
        place: leader.epoch
        for place in places
        if place.topic in known and (leader := known[place.topic].partitions.get(place.partition)) is not None
    }
    told = epoch_ends(cluster, leaders, timeout_ms).found
    return {place: end.epoch for place, end in told.items() if end.end != UNDEFINED}


def epochs_between(
    cluster: Cluster,
    spans: Mapping[TopicPartition, Span],
    newest: Mapping[TopicPartition, int],
    timeout_ms: int = ADMIN_MS,
) -> dict[TopicPartition, tuple[Begun, ...]]:
    """The leader epochs of logs between two offsets, the first one as if it began at the first offset.

    Who goes on behind offsets that are not copied knows by these which log they are of.

    Args:
        cluster: where.
        spans: the offsets.
        newest: an epoch of each log that has begun before the end of the span, or a later one.
        timeout_ms: of each question; there is one for each epoch, and at most `MOST_EPOCHS`.

    Returns:
        of each partition the epochs in order; without the oldest ones where there are more, and none where its leader
        does not answer.
    """
    found: dict[TopicPartition, list[Begun]] = {place: [] for place in spans}
    epochs = {place: newest[place] for place in spans if newest.get(place, UNDEFINED) != UNDEFINED}
    begins = dict.fromkeys(spans, MAX_OFFSET)
    for _ in range(MOST_EPOCHS):
        if not epochs:
            break
        asked = {place: epoch - 1 for place, epoch in epochs.items() if epoch > 0}
        below = dict(epoch_ends(cluster, asked, timeout_ms).found)
        below |= {place: EpochEnd(UNDEFINED, 0) for place, epoch in epochs.items() if epoch == 0}
        # A log that has no older epoch says of each that it ends where its oldest one begins.
        below = {place: end for place, end in below.items() if UNDEFINED < end.end < begins[place]}
        for place, end in below.items():
            begins[place] = end.end
            if end.end < spans[place].end:
                found[place].insert(0, Begun(epochs[place], max(end.end, spans[place].first)))
        epochs = {place: end.epoch for place, end in below.items() if end.end > spans[place].first}
    return {place: tuple(begun) for place, begun in found.items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class CopiedLog:
    """What was copied of a log, and is compared with it.

    Attributes:
        epoch: the leader epoch of the batch left of the position, or a later one.
        position: up to which it was copied.
        history: the leader epochs that were copied, in order.
        certain: whether that is surely the epoch.
        restored: whether the log may be an older copy of its disk that has caught up.
    """

    epoch: int
    position: int
    history: Sequence[Begun] = ()
    certain: bool = True
    restored: bool = False


Compare = Callable[[Mapping[TopicPartition, Span]], Results[TopicPartition, Looked]]
"""Up to where records in spans of logs are those that were copied; see `meeting_points`."""


def meeting_points(
    cluster: Cluster, copied: Mapping[TopicPartition, CopiedLog], compare: Compare, timeout_ms: int = ADMIN_MS
) -> Results[TopicPartition, EpochEnd]:
    """Up to where logs are what was copied of them, see ``offsets.source_history``; an end behind that is no matter.

    That a leader does not know an epoch which was copied is believed when all brokers of the cluster agree on a leader
    epoch below it: a leader that was deposed, and has not heard of it, does not know the epochs of its successors
    either.

    Args:
        cluster: where.
        copied: of each partition.
        compare: asked only where a log has lost something, or may be an older copy of its disk.
        timeout_ms: of each question; in most cases there is one.
    """
    asking = {place: Asking(one) for place, one in copied.items()}
    points: dict[TopicPartition, EpochEnd] = {}
    failed: dict[TopicPartition, BrokerError | LinkError] = {}
    while asking:
        findings = {place: one.finding() for place, one in asking.items()}
        points |= {place: finding for place, finding in findings.items() if isinstance(finding, EpochEnd)}
        looks = {place: finding for place, finding in findings.items() if isinstance(finding, Look)}
        if looks:
            compared = compare({place: Span(look.first, look.end) for place, look in looks.items()})
            for place, looked in compared.found.items():
                asking[place].looked[looks[place].epoch] = looked
            failed |= {place: _away(cluster, place) for place in looks if place not in compared.found}
            failed |= compared.failed
            asking = {place: one for place, one in asking.items() if place not in points and place not in failed}
            continue
        wanted = {place: finding.epoch for place, finding in findings.items() if isinstance(finding, Ask)}
        told = epoch_ends(cluster, wanted, timeout_ms)
        unknown = [place for place, end in told.found.items() if end.end == UNDEFINED]
        known = _known_to_all(cluster, unknown, timeout_ms)
        for place, end in told.found.items():
            if place in known.failed:
                failed[place] = known.failed[place]
            elif not asking[place].take(wanted[place], end, known.found.get(place)):
                failed[place] = _away(cluster, place)
        failed |= told.failed
        asking = {place: asking[place] for place in told.found if place not in failed}
    unnamed = [place for place, point in points.items() if point.epoch == UNDEFINED != point.end]
    newest = newest_epochs(cluster, unnamed, timeout_ms)
    points |= {place: points[place]._replace(epoch=epoch) for place, epoch in newest.items()}
    return Results(found=points, failed=failed)


class Asking:
    """The questions about one log, and what the leader has said.

    Attributes:
        looked: how records compare, by epoch.
    """

    def __init__(self, copied: CopiedLog) -> None:
        self.looked: dict[int, Looked] = {}
        self._copied = copied
        self._newest = UNDEFINED
        self._answers: dict[int, EpochEnd] = {}
        self._asked_again = False

    def finding(self) -> Finding:
        """Where the two meet, or what to ask for."""
        one = self._copied
        return compare_epochs(
            Compared(
                history=one.history,
                epoch=one.epoch,
                position=one.position,
                certain=one.certain,
                restored=one.restored,
                newest=self._newest,
                answers=self._answers,
                looked=self.looked,
            )
        )

    def take(self, epoch: int, end: EpochEnd, newest: Leader | None) -> bool:
        """Takes an answer; one of a leader that may have been deposed is not believed, but asked for again.

        Args:
            epoch: that was asked for.
            end: the leader's answer.
            newest: the leader that all brokers know, where the answer knows no such epoch.

        Returns:
            whether it can go on; not so where leaders change between the questions.
        """
        if newest is not None and newest.epoch < epoch:
            self._newest = newest.epoch
        elif newest is not None and (self._newest != UNDEFINED or not self._asked_again):
            goes_on, self._asked_again = not self._asked_again, True
            return goes_on
        self._answers[epoch] = end
        return True


def _known_to_all(
    cluster: Cluster, partitions: Sequence[TopicPartition], timeout_ms: int
) -> Results[TopicPartition, Leader]:
    """The newest leader of each partition that any broker knows of; a failure where not every broker answers."""
    if not partitions:
        return Results(found={}, failed={})
    names = sorted({place.topic for place in partitions})
    try:
        seen = [
            view
            for some in chunks(names, TOPICS_PER_REQUEST)
            for view in cluster.run(_of_every_broker, cluster, some, min(timeout_ms, LEADER_MS))
        ]
    except LinkError as failure:
        return Results(found={}, failed=dict.fromkeys(partitions, failure))
    leaders = {
        place: [
            leader
            for topics in seen
            if place.topic in topics and (leader := topics[place.topic].leaders.get(place.partition)) is not None
        ]
        for place in partitions
    }
    newest = {place: max(some, key=lambda leader: leader.epoch) for place, some in leaders.items() if some}
    found = {place: Leader(leader.node, leader.epoch) for place, leader in newest.items()}
    missing = [place for place in partitions if place not in found]
    return Results(found=found, failed={place: _away(cluster, place) for place in missing})


def _away(cluster: Cluster, place: TopicPartition) -> BrokerError:
    return explained(LEADER_NOT_AVAILABLE, cluster.alias, topic=place.topic, partition=place.partition)


async def _of_every_broker(cluster: Cluster, names: Sequence[str], timeout_ms: int) -> list[dict[str, TopicView]]:
    answer = await cluster.exchange(metadata_request(names), timeout_ms=timeout_ms)
    cluster.connections.cluster.update_metadata(answer)
    requests = {broker.node_id: metadata_request(names) for broker in answer.brokers}
    answers = await together(cluster, requests, timeout_ms)
    for each in answers.values():
        if isinstance(each, LinkError):
            raise each
    return [views(each, names) for each in answers.values()]


async def ask_leaders_of_epochs(
    cluster: Cluster, leaders: Mapping[TopicPartition, Leader], epochs: Mapping[TopicPartition, int], timeout_ms: int
) -> list[Answer[TopicPartition, EpochEnd]]:
    """Asks once, all leaders at the same time.

    Args:
        cluster: where.
        leaders: of the partitions, with the leader epoch that is believed to be theirs.
        epochs: which epoch of which partition.
        timeout_ms: milliseconds for the answer of each leader.
    """
    by_node: dict[int, dict[TopicPartition, Leader]] = defaultdict(dict)
    for partition, leader in leaders.items():
        by_node[leader.node][partition] = leader
    requests = {node: _request(some, epochs) for node, some in by_node.items()}
    answers = await together(cluster, requests, timeout_ms)
    return [
        told
        for node, answer in answers.items()
        for told in of_asked(cluster, node, frozenset(by_node[node]), answer, _read)
    ]


def _request(leaders: Mapping[TopicPartition, Leader], epochs: Mapping[TopicPartition, int]) -> Any:
    wire = OffsetForLeaderEpochRequest.OffsetForLeaderTopic
    topics: dict[str, list[Any]] = defaultdict(list)
    for partition, leader in leaders.items():
        topics[partition.topic].append(
            wire.OffsetForLeaderPartition(
                partition=partition.partition, current_leader_epoch=leader.epoch, leader_epoch=epochs[partition]
            )
        )
    wanted = [wire(topic=name, partitions=parts) for name, parts in topics.items()]
    return OffsetForLeaderEpochRequest(replica_id=-1, topics=wanted, min_version=2)


def _read(response: Any) -> Iterable[Answer[TopicPartition, EpochEnd]]:
    for topic in response.topics:
        for part in topic.partitions:
            yield Answer(
                key=TopicPartition(topic.topic, part.partition),
                value=EpochEnd(int(part.leader_epoch), int(part.end_offset)),
                code=part.error_code,
            )
