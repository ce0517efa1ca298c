"""What brokers tell of their own settings; they hide the values of those that they do not know, as an authorizer's."""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping, Sequence

from kafka.protocol.admin import DescribeConfigsRequest
from kafka.protocol.metadata import MetadataRequest

from sparkmirror.errors import BrokerError, LinkError
from sparkmirror.kafka.cluster import Cluster

log = logging.getLogger(__name__)

_BROKER_RESOURCE = 4
_NUMBER = re.compile(r"-?[0-9]{1,19}")
"""Kafka's own have 64 bits."""


def broker_settings(
    cluster: Cluster, names: Sequence[str], timeout_ms: int
) -> dict[int, Mapping[str, str | None] | None]:
    """Asks every broker of a cluster for some of its settings.

    Args:
        cluster: whose.
        names: of the settings.
        timeout_ms: milliseconds, for each question.

    Returns:
        by broker, the values of those that it has, None for a hidden one; None for a broker that does not tell.

    Raises:
        LinkError: no broker answers.
    """
    metadata = cluster.call(MetadataRequest(topics=[], max_version=8), timeout_ms=timeout_ms)
    return {broker.node_id: _settings_of(cluster, broker.node_id, names, timeout_ms) for broker in metadata.brokers}


def _settings_of(cluster: Cluster, node: int, names: Sequence[str], timeout_ms: int) -> Mapping[str, str | None] | None:
    wanted = DescribeConfigsRequest.DescribeConfigsResource(
        resource_type=_BROKER_RESOURCE, resource_name=str(node), configuration_keys=list(names)
    )
    request = DescribeConfigsRequest(resources=[wanted], include_synonyms=False, include_documentation=False)
    try:
        results = cluster.call(request, node=node, timeout_ms=timeout_ms).results
    except (BrokerError, LinkError) as failure:
        log.debug("broker %d does not tell its settings: %s", node, failure)
        return None
    if len(results) != 1:
        log.debug("broker %d does not tell its settings: its answer has %d results", node, len(results))
        return None
    (result,) = results
    if result.error_code:
        log.debug("broker %d does not tell its settings: %s", node, result.error_message)
        return None
    return {entry.name: entry.value for entry in result.configs}


def number(value: str) -> int | None:
    """The whole number that a setting or a property is; None where a broker says what is none."""
    return int(value) if _NUMBER.fullmatch(value) else None
