"""How long the brokers of a cluster remember a producer that wrote: by the times of its records, not by idleness.

References: ``producer.id.expiration.ms`` (KIP-854, Kafka 3.4); before that ``transactional.id.expiration.ms`` counted
(``kafka.log.LogManager``).
"""

from __future__ import annotations

import logging

from kafka.protocol.admin import DescribeConfigsRequest
from kafka.protocol.metadata import MetadataRequest

from sparkmirror.errors import BrokerError, LinkError
from sparkmirror.kafka.cluster import Cluster

log = logging.getLogger(__name__)

DAY_MS = 86_400_000
"""Kafka's default, taken where the brokers may not be asked."""

_BROKER_RESOURCE = 4
_KEYS = ("producer.id.expiration.ms", "transactional.id.expiration.ms")


def memory_ms(cluster: Cluster, timeout_ms: int) -> int:
    """The shortest memory of all brokers, in milliseconds; `DAY_MS` or less where one does not tell.

    Raises:
        LinkError: no broker answers.
    """
    metadata = cluster.call(MetadataRequest(topics=[], max_version=8), timeout_ms=timeout_ms)
    return min((_memory_of(cluster, broker.node_id, timeout_ms) for broker in metadata.brokers), default=DAY_MS)


def _memory_of(cluster: Cluster, node: int, timeout_ms: int) -> int:
    wanted = DescribeConfigsRequest.DescribeConfigsResource(
        resource_type=_BROKER_RESOURCE, resource_name=str(node), configuration_keys=list(_KEYS)
    )
    request = DescribeConfigsRequest(resources=[wanted], include_synonyms=False, include_documentation=False)
    try:
        (result,) = cluster.call(request, node=node, timeout_ms=timeout_ms).results
    except (BrokerError, LinkError) as failure:
        log.debug("broker %d does not tell how long it remembers producers: %s", node, failure)
        return DAY_MS
    told = {entry.name: entry.value for entry in result.configs if entry.value}
    return next((int(told[key]) for key in _KEYS if key in told), DAY_MS)
