"""Sparkmirror's own topics: the flow's map and progress, its control topic, the register of writers.

Invariants: they exist before the first record is written to them, with one partition; they are compacted and never
deleted from, since retention would forget positions and writers: one that is configured otherwise stops the flow.

Values: a record of the map may be large (all holes of one fetch answer), so batches up to 8 MiB are let in; segments
are small and cleaning begins early, since each reader reads the whole topic at its start. Batches stay as they were
written, whatever brokers compress with by default. An unclean election would lose positions that were acknowledged: it
is off, whatever the cluster's default.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence

from sparkmirror.config import FlowConfig
from sparkmirror.errors import BrokerError, ConfigError, SparkmirrorError
from sparkmirror.kafka import admin
from sparkmirror.kafka.admin import NewTopic, TopicDescription
from sparkmirror.kafka.cluster import Cluster
from sparkmirror.kafka.configs import ConfigEntry, topic_configs
from sparkmirror.naming import WRITERS_TOPIC, control_topic, internal_topic

log = logging.getLogger(__name__)

COMPACT = "compact"
CLEANUP_POLICY = "cleanup.policy"

CONFIGS: tuple[tuple[str, str], ...] = (
    (CLEANUP_POLICY, COMPACT),
    ("compression.type", "producer"),
    ("max.message.bytes", str(8 << 20)),
    ("min.cleanable.dirty.ratio", "0.2"),
    ("segment.bytes", str(64 << 20)),
    ("unclean.leader.election.enable", "false"),
)
"""How sparkmirror's own topics are created."""


def ensure_internal_topics(
    flow: FlowConfig, target: Cluster, source: Cluster | None = None
) -> dict[str, TopicDescription]:
    """Creates what is missing on the target of the flow's own topics, and checks what is there.

    Args:
        flow: the flow.
        target: where the topics are.
        source: if given, its register of writers is checked too, when it has one; nothing is created there.

    Returns:
        The topics on the target by name, each with a leader.

    Raises:
        ConfigError: one of them has another cleanup.policy or more than one partition.
        BrokerError: one of them cannot be created, read, or has no leader.
        LinkError: a cluster cannot be asked.
    """
    names, timeout_ms = own_topics(flow), flow.admin_timeout_ms
    _create(flow, target, missing_internal_topics(flow, target))
    topics = admin.wait_for_leaders(target, dict.fromkeys(names, 1), timeout_ms).complete()
    configs = topic_configs(target, names, timeout_ms)
    for name in names:
        check(target.alias, name, topics[name], configs[name])
    if source is not None:
        _check_source(source, timeout_ms)
    return topics


def missing_internal_topics(flow: FlowConfig, target: Cluster) -> tuple[NewTopic, ...]:
    """Those of the flow's own topics that the target lacks, as they are to be created.

    Raises:
        LinkError: the target cannot be asked.
    """
    names, factor = own_topics(flow), flow.internal_replication_factor
    missing = sorted(set(names) - set(admin.list_topics(target, names, flow.admin_timeout_ms)))
    return tuple(NewTopic(name=name, partitions=1, replication_factor=factor, configs=CONFIGS) for name in missing)


def check(cluster: str, name: str, topic: TopicDescription, configs: Mapping[str, ConfigEntry]) -> None:
    """Checks that one of our topics keeps what is written to it.

    Raises:
        ConfigError: it does not.
    """
    policy = configs[CLEANUP_POLICY].value if CLEANUP_POLICY in configs else None
    if policy != COMPACT:
        raise ConfigError(
            file=f"cluster {cluster}",
            key=f"topic {name}",
            reason=f"cleanup.policy is {policy or 'not told'}: retention would delete positions and writers from it",
            remedy=f"kafka-configs.sh --alter --entity-type topics --entity-name {name} "
            "--add-config cleanup.policy=compact",
        )
    if len(topic.partitions) != 1:
        raise ConfigError(
            file=f"cluster {cluster}",
            key=f"topic {name}",
            reason=f"it has {len(topic.partitions)} partitions, and its records need the order of one",
            remedy="stop every flow that uses it and delete it: it is created anew at the next start",
        )


def own_topics(flow: FlowConfig) -> tuple[str, ...]:
    """Their names on the target."""
    return internal_topic(flow.name), control_topic(flow.name), WRITERS_TOPIC


def _create(flow: FlowConfig, target: Cluster, wanted: Sequence[NewTopic]) -> None:
    if not wanted:
        return
    factor = flow.internal_replication_factor
    for name, failure in admin.create_topics(target, wanted, flow.admin_timeout_ms).failed.items():
        if isinstance(failure, BrokerError) and failure.code == admin.TOPIC_ALREADY_EXISTS:
            continue  # another flow was faster, or it is there and cannot be seen, which the wait for leaders tells
        if isinstance(failure, BrokerError) and failure.code == admin.INVALID_REPLICATION_FACTOR:
            remedy = (
                f"set internal.topic.replication.factor (it is {factor}) to the number of brokers at most, or to -1"
            )
            raise BrokerError(
                code=failure.code, name=failure.name, cluster=failure.cluster, topic=name, remedy=remedy
            ) from failure
        raise failure


def _check_source(source: Cluster, timeout_ms: int) -> None:
    found = admin.list_topics(source, [WRITERS_TOPIC], timeout_ms)
    if not found:
        return
    try:
        configs = topic_configs(source, [WRITERS_TOPIC], timeout_ms)[WRITERS_TOPIC]
    except SparkmirrorError as unreadable:
        log.warning("whether %s on cluster %s is compacted is not known: %s", WRITERS_TOPIC, source.alias, unreadable)
        return
    check(source.alias, WRITERS_TOPIC, found[WRITERS_TOPIC], configs)
