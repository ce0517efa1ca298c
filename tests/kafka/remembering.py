"""Sets how long brokers remember producers, while they run."""

from __future__ import annotations

from kafka.protocol.admin import IncrementalAlterConfigsRequest

from sparkmirror.kafka.cluster import Cluster

BROKERS, SET, DELETE = 4, 0, 1


def remember(cluster: Cluster, ms: int | None) -> None:
    """Sets it for all brokers; None for the default."""
    wire = IncrementalAlterConfigsRequest.AlterConfigsResource
    operation = DELETE if ms is None else SET
    config = wire.AlterableConfig(name="producer.id.expiration.ms", config_operation=operation, value=str(ms or 1))
    resource = wire(resource_type=BROKERS, resource_name="", configs=[config])
    answer = cluster.call(IncrementalAlterConfigsRequest(resources=[resource], validate_only=False))
    assert [result.error_code for result in answer.responses] == [0]
