"""From the command to consumer groups that can start: the source and the mirror are killed, then a failover is given.

100 groups stand in the middle of each of 100 partitions. When everything is copied and the mirror has seen the groups,
it and the source's broker get SIGKILL. The time is that of the whole command, from its start to its end; then each
group has to have, on the target, the offset at which it stood: the copy has no holes.
"""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from confluent_kafka import ConsumerGroupTopicPartitions, TopicPartition

from brokers import Side
from measure import FIRST_RECORD_S, SILENCE_S, Figures, RunFailedError, costs, wait
from peers import Run
from recovery import kill_the_driver
from sparkmirror.config import load
from sparkmirror.flow.sides import connected, record

GROUPS = 100
ANSWER_S, COMMAND_S, LOOK_S = 30.0, 300.0, 0.5
GATHER_THREADS = 8


def ready(run: Run, source: Side, target: Side, topic: str, partitions: int, records: int) -> Figures:
    """Times one failover.

    Args:
        run: sparkmirror.
        source: the cluster that is killed, and started again in the end.
        target: the cluster that is gone over to.
        topic: on the source.
        partitions: of it.
        records: in it.

    Raises:
        RunFailedError: nothing was copied, the command failed, or a group is at another place.
    """
    middles = {number: end // 2 for number, end in source.end_offsets(topic, partitions).items() if end}
    _each(lambda group: _commit(source, group, topic, middles))
    wait(run, target, 1, FIRST_RECORD_S)
    wait(run, target, records, SILENCE_S)
    file = Path(run.command[-1])
    _until_seen(file)
    kill_the_driver(run)
    account = costs(run.tree.stop())
    (broker,) = source.cluster.brokers
    broker.kill()
    try:
        (flow,) = load([file]).flows
        words = (
            "--from",
            str(flow.source.alias),
            "--to",
            str(flow.target.alias),
            "--yes",
            "--report",
            str(file.parent),
        )
        began = time.monotonic()
        command = [run.command[0], "failover", str(file), *words]
        done = subprocess.run(command, capture_output=True, text=True, timeout=COMMAND_S, check=False)
        seconds = time.monotonic() - began
        if done.returncode:
            raise RunFailedError(f"failover ended with {done.returncode}:\n{done.stdout}{done.stderr}")
        wrong = sum(_each(lambda group: _elsewhere(target, group, run.target_topic, middles)))
        if wrong:
            raise RunFailedError(f"{wrong} offsets are not where their groups stood")
    finally:
        broker.start()
    return {"groups_ready_s": seconds} | account


def _each(deed: Callable[[str], int]) -> list[int]:
    with ThreadPoolExecutor(GATHER_THREADS) as pool:
        return list(pool.map(deed, [f"bench-{number}" for number in range(GROUPS)]))


def _commit(side: Side, group: str, topic: str, offsets: dict[int, int]) -> int:
    places = [TopicPartition(topic, number, offset) for number, offset in offsets.items()]
    deadline = time.monotonic() + ANSWER_S
    while True:  # a coordinator that is just being made answers with errors in the places
        (answer,) = side.admin.alter_consumer_group_offsets([ConsumerGroupTopicPartitions(group, places)]).values()
        refused = [place.error for place in answer.result(ANSWER_S).topic_partitions if place.error]
        if not refused:
            return 0
        if time.monotonic() > deadline:
            raise RunFailedError(f"{group} cannot commit: {refused[0]}")
        time.sleep(LOOK_S)


def _elsewhere(side: Side, group: str, topic: str, offsets: dict[int, int]) -> int:
    """How many of a group's partitions are not at these offsets."""
    (answer,) = side.admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)]).values()
    found = {
        place.partition: place.offset for place in answer.result(ANSWER_S).topic_partitions if place.topic == topic
    }
    return sum(found.get(number) != offset for number, offset in offsets.items())


def _until_seen(file: Path) -> None:
    """Waits until every group is on record on the target."""
    (flow,) = load([file]).flows
    deadline = time.monotonic() + SILENCE_S
    while True:
        with connected(flow, role="bench") as sides:
            state = record(sides)
        if state is not None and len(state.groups) >= GROUPS:
            return
        if time.monotonic() > deadline:
            on_record = 0 if state is None else len(state.groups)
            raise RunFailedError(f"{on_record} of {GROUPS} groups are on record after {SILENCE_S:.0f} s")
        time.sleep(LOOK_S)
