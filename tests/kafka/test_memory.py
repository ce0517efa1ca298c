"""How long brokers remember producers."""

from __future__ import annotations

import pytest

from sparkmirror.config.settings import ClientSettings
from sparkmirror.kafka.cluster import Cluster
from sparkmirror.kafka.memory import DAY_MS, Memory, memories_ms
from tests.flow.running import until
from tests.kafka.remembering import remember

HOUR_MS = 3_600_000


def memory_ms(cluster):
    memory = Memory()
    memory.take(memories_ms(cluster, 60_000))
    return memory.shortest_ms


@pytest.mark.kafka
def test_brokers_tell_their_own_setting_also_when_it_is_changed_while_they_run(cluster_b):
    settings = ClientSettings(bootstrap_servers=tuple(cluster_b.bootstrap_servers.split(",")))
    cluster = Cluster("b", settings, role="test")
    try:
        assert memory_ms(cluster) == DAY_MS
        remember(cluster, HOUR_MS)
        try:
            until(lambda: memory_ms(cluster) == HOUR_MS, "the new setting")
        finally:
            remember(cluster, None)
    finally:
        cluster.close()


@pytest.mark.parametrize(
    ("told", "shortest_ms"),
    [
        ([], DAY_MS),
        ([{1: None}], DAY_MS),
        ([{1: 2 * DAY_MS, 2: 3 * DAY_MS}], 2 * DAY_MS),
        ([{1: 2 * DAY_MS, 2: None}], DAY_MS),
        ([{1: HOUR_MS, 2: None}], HOUR_MS),
        ([{1: HOUR_MS, 2: DAY_MS}, {1: 2 * DAY_MS, 2: 2 * DAY_MS}], 2 * DAY_MS),
        ([{1: HOUR_MS, 2: DAY_MS}, {2: 2 * DAY_MS}], HOUR_MS),
        ([{1: HOUR_MS, 2: DAY_MS}, {1: None, 2: 2 * DAY_MS}], HOUR_MS),
        ([{1: DAY_MS}, {1: HOUR_MS}], HOUR_MS),
        ([{1: None}, {1: 2 * DAY_MS}], 2 * DAY_MS),
    ],
)
def test_the_shortest_memory_counts_also_that_of_a_broker_that_is_down_now(told, shortest_ms):
    memory = Memory()
    for one in told:
        memory.take(one)
    assert memory.shortest_ms == shortest_ms
