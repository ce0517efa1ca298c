"""How many records consumer groups read twice after a failover: what they had read, by what the target has of it.

Groups stand at some shares of a partition before the copy begins. When everything is copied, and what the groups have
on the target has not changed for a while, the peer is stopped. A group reads again what lies between its offset on the
target and where it was: the copy has no holes, so offsets are the same on both sides. One without an offset reads all.
"""

from __future__ import annotations

import time

from confluent_kafka import Consumer, TopicPartition

from brokers import Side
from measure import FIRST_RECORD_S, SILENCE_S, Figures, RunFailedError, costs, wait
from peers import Run

SHARES = (10, 50, 90, 100)
STILL_INTERVALS, MOST_INTERVALS, SHORTEST_S, LOOK_S = 2.2, 8.0, 20.0, 1.0
ANSWER_S = 30.0


def groups(run: Run, source: Side, target: Side, topic: str, records: int, interval_s: float) -> Figures:
    """Commits for the groups, waits, and counts.

    Args:
        run: the peer.
        source: the cluster that is copied from.
        target: the cluster that is copied to.
        topic: on the source.
        records: in its one partition.
        interval_s: at which checkpoints are written, and offsets by them.

    Raises:
        RunFailedError: nothing came, or the offsets on the target do not come to rest, or one would skip records.
    """
    still_s = max(SHORTEST_S, STILL_INTERVALS * interval_s)
    most_s = max(MOST_INTERVALS * SHORTEST_S, MOST_INTERVALS * interval_s)
    wanted = {share: records * share // 100 for share in SHARES}
    for share, offset in wanted.items():
        with_group = _client(source, share)
        with_group.commit(offsets=[TopicPartition(topic, 0, offset)], asynchronous=False)
        with_group.close()
    wait(run, target, 1, FIRST_RECORD_S)
    wait(run, target, records, SILENCE_S)
    copied = time.monotonic()
    found, since = _committed(run, target), time.monotonic()
    while time.monotonic() - since < still_s:
        time.sleep(LOOK_S)
        now = _committed(run, target)
        if now != found:
            found, since = now, time.monotonic()
        if run.tree.ended():
            raise RunFailedError(f"it ended, see {run.tree.log}:\n{run.tree.tail()}")
        if time.monotonic() - copied > most_s:
            raise RunFailedError(f"offsets on the target keep changing for {most_s:.0f} s: {found}")
    repeated = {f"repeated_{share}": float(offset - found[share]) for share, offset in wanted.items()}
    if any(count < 0 for count in repeated.values()):
        raise RunFailedError(f"a group would skip records: {repeated}")
    return repeated | costs(run.tree.stop())


def _committed(run: Run, target: Side) -> dict[int, int]:
    """The offset of each group on the target; 0 where it has none."""
    found = {}
    for share in SHARES:
        consumer = _client(target, share)
        (place,) = consumer.committed([TopicPartition(run.target_topic, 0)], ANSWER_S)
        found[share] = max(0, place.offset)
        consumer.close()
    return found


def _client(side: Side, share: int) -> Consumer:
    settings = {"bootstrap.servers": side.servers, "group.id": f"bench-{share}", "enable.auto.commit": False}
    return Consumer(settings | {"log_level": 2})
