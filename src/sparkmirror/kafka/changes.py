"""Changes of topics in bulk: sent in pieces that a controller takes, repeated while that may help.

Invariants: a topic that fails does not stop the others; a change goes to any broker, which forwards it, and to the
controller itself where brokers do not.

Reference: ``QuorumController.MAX_RECORDS_PER_USER_OP``: what needs more records at once is refused as a whole.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kafka.protocol.metadata import MetadataRequest

from sparkmirror.errors import BrokerError, LinkError
from sparkmirror.kafka.cluster import Cluster
from sparkmirror.kafka.rounds import Answer, Deadline, Results, explained, out_of_time, repeat

CHANGED_TOPICS = 100
CHANGED_PARTS = 2_000
"""Per request: topics, and their partitions or properties. A KRaft controller refuses more than 10,000 at once."""

NOT_CONTROLLER = 41

Explain = Callable[[str, int, str], BrokerError]
"""Makes an error of topic, code and what the broker says."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """A change of topics.

    Attributes:
        sizes: how many partitions or properties each topic counts for.
        request: for some of them, and the milliseconds that the broker may take.
        read: the answers in a response.
        explain: makes errors.
    """

    sizes: Mapping[str, int]
    request: Callable[[Sequence[str], int], Any]
    read: Callable[[Any], Iterable[Answer[str, None]]]
    explain: Explain


def apply(cluster: Cluster, change: Change, timeout_ms: int) -> Results[str, None]:
    """Sends a change in pieces, to any broker (it forwards them), or to the controller where it must be."""
    controller: int | None = None

    def ask(names: Sequence[str], deadline: Deadline) -> Iterable[Answer[str, None]]:
        nonlocal controller
        misplaced, last = False, None
        for piece in _pieces(names, change.sizes):
            if late := out_of_time(deadline, last, cluster.alias, cluster.address):
                yield from (Answer(key=name, link=late) for name in piece)
                continue
            attempt_ms = deadline.attempt_ms
            try:
                # The broker gives up first, so that its answer comes and not our own time-out.
                request = change.request(piece, attempt_ms * 3 // 4)
                response = cluster.call(request, controller, attempt_ms, attempt_ms)
            except LinkError as failure:
                last = failure
                yield from (Answer(key=name, link=failure) for name in piece)
                continue
            last = None
            for answer in change.read(response):
                misplaced |= answer.code == NOT_CONTROLLER
                yield answer
        controller = _controller(cluster, deadline.attempt_ms) if misplaced else None

    return repeat(list(change.sizes), ask, change.explain, timeout_ms, cluster.backoff)


def explaining(cluster: Cluster, operation: str, *, factors: Mapping[str, int] | None = None) -> Explain:
    """What makes errors of a request.

    Args:
        cluster: that is asked.
        operation: the right that the request needs.
        factors: the replication factor of each topic, where the request has them.
    """

    def explain(topic: str, code: int, message: str) -> BrokerError:
        remedy = remedy_of(operation, code, topic, factors[topic] if factors else None)
        return explained(code, cluster.alias, topic=topic, remedy=remedy, message=message)

    return explain


def remedy_of(operation: str, code: int, topic: str, replication_factor: int | None = None) -> str:
    """What to do about an error code."""
    factor = "" if replication_factor is None else f" (it is {replication_factor})"
    return {
        3: "the topic is not there",
        5: "a partition has no leader: are its brokers up?",
        17: "the cluster does not take the name",
        29: f"allow {operation} on Topic {topic} to this user",
        31: f"allow {operation} on the Cluster, or on Topic {topic}, to this user",
        36: "it was there before",
        37: "the cluster does not take the number of partitions",
        38: f"set replication.factor{factor} to the number of brokers at most, or to -1 for the cluster's default",
        40: "name the property in config.properties.exclude, or change it at the source",
        44: "a policy of the cluster forbids it: ask its administrator, or do it by hand",
        73: "the brokers have delete.topic.enable=false",
    }.get(code, "")


def _pieces(names: Sequence[str], sizes: Mapping[str, int]) -> Iterable[list[str]]:
    piece: list[str] = []
    parts = 0
    for name in names:
        if piece and (len(piece) == CHANGED_TOPICS or parts + sizes[name] > CHANGED_PARTS):
            yield piece
            piece, parts = [], 0
        piece.append(name)
        parts += sizes[name]
    if piece:
        yield piece


def _controller(cluster: Cluster, timeout_ms: int) -> int:
    answer = cluster.call(MetadataRequest(topics=[], allow_auto_topic_creation=False), timeout_ms=timeout_ms)
    return int(answer.controller_id)
