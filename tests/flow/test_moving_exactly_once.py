"""From an exactly-once MirrorMaker 2 that was killed within a transaction: nothing lost, nothing twice."""

from __future__ import annotations

from pathlib import Path

import pytest
from confluent_kafka import IsolationLevel, TopicPartition
from confluent_kafka.admin import OffsetSpec

from sparkmirror.lab.cluster import LabCluster
from sparkmirror.lab.ports import HOST, free_ports
from tests.flow.mirror_makers import Production, read_numbers
from tests.flow.moves import Move, assert_all_once_and_in_order
from tests.flow.running import admin_of, ends, until

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

OPEN = 30
"""So many offsets of a partition are in the open transaction at least."""


@pytest.fixture
def move(cluster_a: LabCluster, cluster_b: LabCluster, topic, tmp_path: Path) -> Move:
    alias = topic("exactly")
    (port,) = free_ports(1)
    settings = {
        "dedicated.mode.enable.internal.rest": "true",
        "listeners": f"http://{HOST}:{port}",
        "b.exactly.once.source.support": "enabled",
        f"{alias}.consumer.isolation.level": "read_committed",
        f"{alias}->b.transaction.boundary": "interval",
        f"{alias}->b.transaction.boundary.interval.ms": "3000",
        f"{alias}->b.producer.override.transaction.timeout.ms": "30000",
    }
    return Move(cluster_a, cluster_b, alias, tmp_path, settings)


def open_offsets(move: Move) -> list[int]:
    """How many offsets of each partition of the copies are in an open transaction, where others were committed."""
    found = []
    for copy in move.copies:
        last = ends(move.target, copy)
        places = {TopicPartition(copy, number): OffsetSpec.latest() for number in last}
        asked = admin_of(move.target).list_offsets(places, isolation_level=IsolationLevel.READ_COMMITTED)
        stable = {place.partition: int(future.result(30).offset) for place, future in asked.items()}
        found += [last[number] - stable[number] if stable[number] else 0 for number in last]
    return found


def is_empty(move: Move, group: str) -> bool:
    """Whether a group has no members."""
    listed = admin_of(move.target).list_consumer_groups().result(30).valid
    states = {one.group_id: one.state.name for one in listed}
    return states.get(group, "DEAD") in ("EMPTY", "DEAD")


@pytest.mark.long
def test_a_takeover_waits_until_the_open_transaction_is_aborted_and_neither_loses_nor_repeats(move: Move) -> None:
    with Production(move.source, move.topics) as production:
        with move.mirror_maker("first") as mirror_maker:
            until(lambda: len(open_offsets(move)) == 6 and min(open_offsets(move)) >= OPEN, "transactions are open")
            mirror_maker.kill()
        assert min(open_offsets(move)) >= OPEN
        until(lambda: is_empty(move, f"{move.alias}-mm2"), "the group of workers is empty")
        assert min(open_offsets(move)) >= OPEN
        with move.run("in") as mirror:
            until(lambda: "transactions are open on cluster b" in mirror.output, "the flow says why it does not begin")
            until(lambda: "partitions of 3 topics were taken over" in mirror.output, "it is taken over")
            production.stop()
            written = sum(production.written.values())
            until(lambda: sum(map(len, read_numbers(move.target, move.copies).values())) >= written, "all is copied")
            assert mirror.stop(seconds=60) == 0, mirror.tail()
    assert_all_once_and_in_order(move, production)
    assert move.named() == {}
