"""Whether target partitions of which a flow has nothing on record have batches of it: its topic has lost its end then.

A copy that begins there would repeat what the flow has copied, or leave out what came since. So leaders are asked for
the producers that they remember, and the newest batches are looked at. Nobody is fenced for that, and no record opened.

Invariant: batches of the flow from before its first start on record are none: its internal topic was deleted since.
They are known by their epochs, see `FlowRecord.before`. Not found are batches whose producer the leader has forgotten,
by its retention and the times of their records, and behind which others have written more than is read back: `NEWEST`
offsets always, and `MOST_BYTES` of each partition once in a run, as far as `TURN_MS` for all of them are enough. The
newest offsets may be large records: they are read in turns of `TURN_MS`, each of which goes on where the last stopped.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Mapping, Sequence

from sparkmirror.errors import BrokerError, LinkError
from sparkmirror.kafka.admin import list_topics
from sparkmirror.kafka.cluster import Cluster
from sparkmirror.kafka.codes import UNKNOWN_TOPIC_OR_PARTITION
from sparkmirror.kafka.producer_states import ask_leaders_for_producers
from sparkmirror.kafka.rounds import Results
from sparkmirror.kafka.tails import LogCache, read_headers
from sparkmirror.model import TopicPartition, Writer
from sparkmirror.offsets.tail import Tail
from sparkmirror.offsets.writers import came_since

NEWEST = 200
"""So many of the last offsets of a target partition are looked at, each time."""

MOST_BYTES, FURTHER = 64 << 20, 4
"""So much of each log is read back besides, each time so many times as far."""

TURN_MS = 4_000
"""For the newest offsets of all partitions in one look, and for what is read back besides."""


def unexplained(
    target: Cluster,
    ends: Mapping[TopicPartition, int],
    ids: Sequence[int],
    before: Sequence[Writer],
    timeout_ms: int,
    looked: set[TopicPartition],
    cache: LogCache,
) -> Results[TopicPartition, Writer]:
    """The target partitions that have batches of the flow since its first start on record, and one writer of each.

    Args:
        target: to ask.
        ends: the partitions, of which nothing is on record, and where their logs end.
        ids: the flow's producer ids.
        before: as in the flow's record.
        timeout_ms: milliseconds until partitions without an answer count as failed.
        looked: those of which more than the newest offsets was read before; others are added.
        cache: what was read before. Its `unfinished` are partitions whose newest offsets the next look goes on with.

    Raises:
        LinkError: no broker tells who leads.
    """
    if not ends:
        return Results(found={}, failed={})
    found = of_flow(_remembered(target, list(ends), timeout_ms), ids, before)
    left = {there: max(0, end - NEWEST) for there, end in ends.items() if there not in found}
    cache.begin(ids)
    cache.limit(TURN_MS)
    tails = read_headers(target, left, timeout_ms, cache=cache)
    found |= of_flow(_wrote(tails.found), ids, before)
    cache.limit(TURN_MS)
    until = time.monotonic() + TURN_MS / 1_000
    wanted = further_back(tails.found, cache, found.keys() | looked)
    while wanted and (left_ms := round((until - time.monotonic()) * 1_000)) > 0:
        more = read_headers(target, wanted, left_ms, cache=cache)
        found |= of_flow(_wrote(more.found), ids, before)
        wanted = further_back(more.found, cache, found)
    looked.update(tails.found)
    return Results(found=found, failed=tails.failed)


def further_back(
    tails: Mapping[TopicPartition, Tail], cache: LogCache, done: Collection[TopicPartition]
) -> dict[TopicPartition, int]:
    """From which offsets on logs are read next, until `MOST_BYTES` were read.

    Args:
        tails: what was read of them.
        cache: knows how many bytes that were.
        done: those that need no further reading.
    """
    return {
        there: max(tail.start, tail.high_watermark - reach(tail.high_watermark - tail.since, size))
        for there, tail in tails.items()
        if there not in done and tail.since > tail.start and (size := cache.size(there)) < MOST_BYTES
    }


def reach(offsets: int, size: int) -> int:
    """How many of a log's last offsets are read next, where so many were of that many bytes.

    A quarter more than `MOST_BYTES` are likely to be: what lies further back may be smaller, and each step is to help.
    """
    return max(1, min(FURTHER * offsets, offsets * MOST_BYTES * 5 // max(size * 4, 1)))


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


def _wrote(tails: Mapping[TopicPartition, Tail]) -> dict[TopicPartition, list[Writer]]:
    return {
        there: [Writer(producer_id=one.producer_id, epoch=one.epoch) for one in tail.batches if not one.control]
        for there, tail in tails.items()
    }


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
