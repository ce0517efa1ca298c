"""A source with very many transactions: a marker behind every ten records of a partition, so a hole in the offset map.

The backlog is written by several producers at once, each transaction with `RECORDS` records for every partition. After
the copy, of sparkmirror only: what the flow's internal topic takes on disk, and how long the same command needs, when
it is started once more, until it copies a record that is new: it reads the map first.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from confluent_kafka import Producer

from brokers import Side
from measure import FIRST_RECORD_S, MIB, Figures, costs, rate, wait
from peers import Run
from workloads import Workload

RECORDS, PRODUCERS, CALL_S = 10, 8, 60.0


def fill_transactions(source: Side, topic: str, workload: Workload) -> None:
    """Writes the backlog."""
    each = RECORDS * workload.partitions
    transactions = max(PRODUCERS, workload.scaled_records // each)
    shares = [transactions // PRODUCERS + (number < transactions % PRODUCERS) for number in range(PRODUCERS)]
    with ThreadPoolExecutor(PRODUCERS) as pool:
        for done in [pool.submit(_write, source, topic, workload, n, share) for n, share in enumerate(shares)]:
            done.result()


def written(workload: Workload) -> int:
    """How many records `fill_transactions` writes."""
    each = RECORDS * workload.partitions
    return max(PRODUCERS, workload.scaled_records // each) * each


def transactions(
    run: Run, again: Callable[[], Run], source: Side, target: Side, topic: str, workload: Workload, *, ours: bool
) -> Figures:
    """Times the copy; of sparkmirror also the next start.

    Args:
        run: any peer.
        again: starts the same command once more.
        source: where the records are.
        target: where they go to.
        topic: on the source.
        workload: what was written.
        ours: whether the peer is sparkmirror.
    """
    records = written(workload)
    figures = rate(run, target, workload, workload.size, records=records)
    if not ours:
        return figures
    (internal,) = (name for name in target.topics() if _is_map(name))
    figures["map_log_mib"] = target.log_bytes(internal) / MIB
    producer = Producer({"bootstrap.servers": source.servers})
    for partition in range(workload.partitions):
        producer.produce(topic, b"new", partition=partition)
    producer.flush(CALL_S)
    following = again()
    with following.tree:
        first = wait(following, target, records + 1, FIRST_RECORD_S)
        figures |= {"restart_s": first.at - following.tree.started, "restart_cpu_s": first.cpu_s}
        figures["restart_mib"] = costs(following.tree.stop())["peak_mib"]
    return figures


def _is_map(topic: str) -> bool:
    own = topic.startswith("sparkmirror.") and topic.endswith(".internal")
    return own and not topic.endswith((".control.internal", ".writers.internal", "sparkmirror.writers.internal"))


def _write(source: Side, topic: str, workload: Workload, number: int, transactions: int) -> None:
    producer = Producer(
        {"bootstrap.servers": source.servers, "transactional.id": f"bench-{number}-{time.time_ns()}", "linger.ms": 0}
    )
    producer.init_transactions(CALL_S)
    value = b"x" * workload.size
    for _ in range(transactions):
        producer.begin_transaction()
        for record in range(RECORDS * workload.partitions):
            producer.produce(topic, value, partition=record % workload.partitions)
        producer.commit_transaction(CALL_S)
