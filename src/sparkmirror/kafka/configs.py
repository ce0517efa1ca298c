"""Topic properties: what they are and where each value comes from, and changing single ones.

Invariants: a change names the properties that it changes, and no other property of the topic is touched; a topic whose
change is refused keeps all its properties.

Reference: the DescribeConfigs (KIP-133, KIP-226) and IncrementalAlterConfigs (KIP-339; brokers from 2.3 on) APIs. The
older AlterConfigs, which resets whatever it does not name, is not used; MirrorMaker 2 dropped it in 4.0.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, NamedTuple

from kafka.protocol.admin import DescribeConfigsRequest, IncrementalAlterConfigsRequest

from sparkmirror.kafka import changes
from sparkmirror.kafka.changes import Change, explaining
from sparkmirror.kafka.cluster import Cluster
from sparkmirror.kafka.rounds import ADMIN_MS, Answer, Deadline, Results, chunks, repeat

DESCRIBED_TOPICS = 200

_TOPIC_RESOURCE = 2
_SET, _DELETE = 0, 1


class ConfigSource(IntEnum):
    """Where the value of a topic property comes from."""

    UNKNOWN = 0
    TOPIC = 1
    DYNAMIC_BROKER = 2
    DYNAMIC_DEFAULT_BROKER = 3
    STATIC_BROKER = 4
    DEFAULT = 5
    DYNAMIC_BROKER_LOGGER = 6
    CLIENT_METRICS = 7
    GROUP = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigEntry:
    """One property of a topic; the value of a sensitive one is not told."""

    value: str | None
    source: ConfigSource
    sensitive: bool = False
    read_only: bool = False

    @property
    def is_default(self) -> bool:
        """Whether nobody has set it: not for the topic, not for the cluster."""
        return self.source is ConfigSource.DEFAULT


class Alteration(NamedTuple):
    """A property and its new value; None takes the topic's own value away, so that the cluster's default holds."""

    name: str
    value: str | None


def describe_configs(
    cluster: Cluster, topics: Sequence[str], timeout_ms: int = ADMIN_MS, properties: Sequence[str] | None = None
) -> Results[str, dict[str, ConfigEntry]]:
    """Properties of the topics, with where each value comes from: all of them unless some are named.

    Raises:
        LinkError: no broker could be asked.
    """

    def ask(names: Sequence[str], deadline: Deadline) -> Iterable[Answer[str, dict[str, ConfigEntry]]]:
        resource = DescribeConfigsRequest.DescribeConfigsResource
        keys = None if properties is None else list(properties)
        for piece in chunks(names, DESCRIBED_TOPICS):
            wanted = [
                resource(resource_type=_TOPIC_RESOURCE, resource_name=name, configuration_keys=keys) for name in piece
            ]
            request = DescribeConfigsRequest(resources=wanted, include_synonyms=False, include_documentation=False)
            for result in cluster.call(request, timeout_ms=deadline.attempt_ms).results:
                yield Answer(
                    key=result.resource_name,
                    value={entry.name: _entry(entry) for entry in result.configs},
                    code=result.error_code,
                    message=cluster.told(result.error_message),
                )

    return repeat(topics, ask, explaining(cluster, "DESCRIBE_CONFIGS"), timeout_ms, cluster.backoff)


def topic_configs(
    cluster: Cluster, topics: Sequence[str], timeout_ms: int = ADMIN_MS
) -> dict[str, dict[str, ConfigEntry]]:
    """Like `describe_configs`, for callers that need all of them.

    Raises:
        BrokerError: one of the topics is not there, or its configs may not be read.
        LinkError: no broker could be asked.
    """
    return describe_configs(cluster, topics, timeout_ms).complete()


def alter_configs(
    cluster: Cluster, wanted: Mapping[str, Sequence[Alteration]], timeout_ms: int = ADMIN_MS
) -> Results[str, None]:
    """Changes single properties of topics.

    Args:
        cluster: where.
        wanted: topic to what is changed of it. The cluster takes all alterations of a topic or none.
        timeout_ms: milliseconds until topics without an answer count as failed.
    """

    def request(names: Sequence[str], _broker_ms: int) -> Any:
        resources = [_resource(name, wanted[name]) for name in names]
        return IncrementalAlterConfigsRequest(resources=resources, validate_only=False)

    def read(response: Any) -> Iterable[Answer[str, None]]:
        for result in response.responses:
            yield Answer(key=result.resource_name, code=result.error_code, message=cluster.told(result.error_message))

    sizes = {name: len(alterations) for name, alterations in wanted.items()}
    change = Change(sizes=sizes, request=request, read=read, explain=explaining(cluster, "ALTER_CONFIGS"))
    return changes.apply(cluster, change, timeout_ms)


def _resource(topic: str, alterations: Sequence[Alteration]) -> Any:
    wire = IncrementalAlterConfigsRequest.AlterConfigsResource
    return wire(
        resource_type=_TOPIC_RESOURCE,
        resource_name=topic,
        configs=[
            wire.AlterableConfig(name=name, config_operation=_DELETE if value is None else _SET, value=value)
            for name, value in alterations
        ],
    )


def _entry(entry: Any) -> ConfigEntry:
    source = entry.config_source
    return ConfigEntry(
        value=entry.value,
        source=ConfigSource(source) if source in list(ConfigSource) else ConfigSource.UNKNOWN,
        sensitive=bool(entry.is_sensitive),
        read_only=bool(entry.read_only),
    )
