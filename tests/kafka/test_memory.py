"""How long brokers remember producers."""

from __future__ import annotations

import pytest
from kafka.protocol.admin import IncrementalAlterConfigsRequest

from sparkmirror.config.settings import ClientSettings
from sparkmirror.kafka.cluster import Cluster
from sparkmirror.kafka.memory import DAY_MS, memory_ms
from tests.flow.running import until

pytestmark = pytest.mark.kafka

BROKERS, SET, DELETE = 4, 0, 1


def change(cluster, operation):
    """Changes the setting of all brokers while they run."""
    wire = IncrementalAlterConfigsRequest.AlterConfigsResource
    config = wire.AlterableConfig(name="producer.id.expiration.ms", config_operation=operation, value="3600000")
    resource = wire(resource_type=BROKERS, resource_name="", configs=[config])
    answer = cluster.call(IncrementalAlterConfigsRequest(resources=[resource], validate_only=False))
    assert [result.error_code for result in answer.responses] == [0]


def test_brokers_tell_their_own_setting_also_when_it_is_changed_while_they_run(cluster_b):
    settings = ClientSettings(bootstrap_servers=tuple(cluster_b.bootstrap_servers.split(",")))
    cluster = Cluster("b", settings, role="test")
    try:
        assert memory_ms(cluster, 60_000) == DAY_MS
        change(cluster, SET)
        try:
            until(lambda: memory_ms(cluster, 60_000) == 3_600_000, "the new setting")
        finally:
            change(cluster, DELETE)
    finally:
        cluster.close()
