"""Whether target partitions of which a flow has nothing on record have batches of it: its topic has lost its end then.

A copy that begins there would repeat what the flow has copied, or leave out what came since. So leaders are asked for
the producers that they remember, and the newest batches are looked at. Nobody is fenced for that, and no record opened.

Invariant: batches of the flow from before its first start on record are none: its internal topic was deleted since.
They are known by their epochs, see `FlowRecord.before`. Not found are batches whose producer the leader has forgotten,
by its retention and the times of their records, and behind which others have written more than `NEWEST` offsets.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from sparkmirror.errors import BrokerError, LinkError
from sparkmirror.kafka.admin import list_topics
from sparkmirror.kafka.cluster import Cluster
from sparkmirror.kafka.codes import UNKNOWN_TOPIC_OR_PARTITION
from sparkmirror.kafka.producer_states import ask_leaders_for_producers
from sparkmirror.kafka.rounds import Results
from sparkmirror.kafka.tails import read_headers
from sparkmirror.model import TopicPartition, Writer
from sparkmirror.offsets.tail import TailBatch
from sparkmirror.offsets.writers import came_since

NEWEST = 200
"""So many of the last offsets of a target partition are looked at."""


def unexplained(
    target: Cluster, ends: Mapping[TopicPartition, int], ids: Sequence[int], before: Iterable[Writer], timeout_ms: int
) -> Results[TopicPartition, Writer]:
    """The target partitions that have batches of the flow since its first start on record, and one writer of each.

    Args:
        target: to ask.
        ends: the partitions, of which nothing is on record, and where their logs end.
        ids: the flow's producer ids.
        before: as in the flow's record.
        timeout_ms: milliseconds until partitions without an answer count as failed.

    Raises:
        LinkError: no broker tells who leads.
    """
    if not ends:
        return Results(found={}, failed={})
    found = of_flow(_remembered(target, list(ends), timeout_ms), ids, before)
    left = {there: max(0, end - NEWEST) for there, end in ends.items() if there not in found}
    tails = read_headers(target, left, timeout_ms)
    wrote = {there: _wrote(tail.batches) for there, tail in tails.found.items()}
    return Results(found=found | of_flow(wrote, ids, before), failed=tails.failed)


def of_flow(
    wrote: Mapping[TopicPartition, Sequence[Writer]], ids: Sequence[int], before: Iterable[Writer]
) -> dict[TopicPartition, Writer]:
    """The partitions to which writers of the flow have written since its first start on record, and one of these."""
    return {
        there: mine[-1] for there, some in wrote.items() if (mine := [w for w in some if came_since(w, ids, before)])
    }


def is_absent(error: BrokerError | LinkError) -> bool:
    """Whether a broker does not know the partition."""
    return isinstance(error, BrokerError) and error.code == UNKNOWN_TOPIC_OR_PARTITION


def _wrote(batches: Iterable[TailBatch]) -> list[Writer]:
    return [Writer(producer_id=one.producer_id, epoch=one.epoch) for one in batches if not one.control]


def _remembered(
    target: Cluster, places: Sequence[TopicPartition], timeout_ms: int
) -> dict[TopicPartition, list[Writer]]:
    """The producers that leaders remember, of those that answer; brokers before 2.8 do not tell."""
    known = list_topics(target, sorted({there.topic for there in places}), timeout_ms)
    leaders = {
        there: leader.node
        for there in places
        if there.topic in known
        and (leader := known[there.topic].partitions.get(there.partition)) is not None
        and leader.node >= 0
    }
    answers = target.run(ask_leaders_for_producers, target, leaders, timeout_ms)
    return {
        answer.key: [Writer(producer_id=each, epoch=state.epoch) for each, state in answer.value.items()]
        for answer in answers
        if answer.value is not None
    }
