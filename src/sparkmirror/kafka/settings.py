"""What brokers tell of their own settings; they hide the values of those that they do not know, as an authorizer's."""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping, Sequence
from typing import Any

from kafka.protocol.admin import DescribeConfigsRequest
from kafka.protocol.metadata import MetadataRequest

from sparkmirror.errors import LinkError
from sparkmirror.kafka.cluster import Cluster
from sparkmirror.kafka.codes import name_of
from sparkmirror.kafka.leaders import together
from sparkmirror.kafka.rounds import Deadline

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
        timeout_ms: milliseconds to the deadline; all brokers are asked at the same time.

    Returns:
        by broker, the values of those that it has, None for a hidden one; None for a broker that does not tell.

    Raises:
        LinkError: no broker answers.
    """
    deadline = Deadline(timeout_ms, cluster.backoff)
    metadata = cluster.call(MetadataRequest(topics=[], max_version=8), timeout_ms=timeout_ms)
    requests = {broker.node_id: _request(broker.node_id, names) for broker in metadata.brokers}
    answers = cluster.run(together, cluster, requests, deadline.attempt_ms)
    return {node: _settings(node, answer) for node, answer in answers.items()}


def _request(node: int, names: Sequence[str]) -> Any:
    wanted = DescribeConfigsRequest.DescribeConfigsResource(
        resource_type=_BROKER_RESOURCE, resource_name=str(node), configuration_keys=list(names)
    )
    return DescribeConfigsRequest(resources=[wanted], include_synonyms=False, include_documentation=False)


def _settings(node: int, answer: Any) -> Mapping[str, str | None] | None:
    """What an answer says, or the `LinkError` in its place."""
    if isinstance(answer, LinkError):
        log.debug("broker %d does not tell its settings: %s", node, answer)
        return None
    results = answer.results
    if len(results) != 1:
        log.debug("broker %d does not tell its settings: its answer has %d results", node, len(results))
        return None
    (result,) = results
    if result.error_code:
        log.debug("broker %d does not tell its settings: %s", node, name_of(result.error_code))
        return None
    return {entry.name: entry.value for entry in result.configs}


def number(value: str) -> int | None:
    """The whole number that a setting or a property is; None where a broker says what is none."""
    return int(value) if _NUMBER.fullmatch(value) else None
