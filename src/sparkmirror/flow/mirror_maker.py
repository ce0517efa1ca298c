"""What a MirrorMaker 2 that copied in the flow's place has left: its stored positions, its offset syncs, its workers.

Invariant: each refusal names what was found and what to do about it.

References: ``MirrorMakerConfig.workerConfig`` (names of topics and groups), KIP-415 (the protocol of Connect's groups).
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sparkmirror.config import FlowConfig, Side, places_of_offsets
from sparkmirror.duties.duty import Sides
from sparkmirror.duties.offset_syncs import topic_of
from sparkmirror.errors import BrokerError, ConfigError, SparkmirrorError
from sparkmirror.kafka import admin
from sparkmirror.kafka.cluster import Cluster
from sparkmirror.kafka.codes import UNAUTHORIZED
from sparkmirror.kafka.groups import describe_group
from sparkmirror.kafka.journal import Journal
from sparkmirror.kafka.rounds import explained
from sparkmirror.kafka.stored_offsets import read_stored
from sparkmirror.mm2.offset_syncs import OffsetSync, read_offset_sync
from sparkmirror.mm2.stored_offsets import Owner
from sparkmirror.model import TopicPartition

log = logging.getLogger(__name__)

_CONNECT = "connect"


@dataclass(frozen=True, slots=True, kw_only=True)
class Stored:
    """MirrorMaker 2's positions.

    Attributes:
        cluster: where they are.
        topic: Kafka Connect's topic of offsets.
        offsets: the last source offset that was copied of each partition.
    """

    cluster: Cluster
    topic: str
    offsets: Mapping[TopicPartition, int]


def owner_of(flow: FlowConfig) -> Owner:
    """Whose positions are the flow's."""
    return Owner(connector=flow.stored_positions.connector, cluster=flow.source.alias)


def find_stored(sides: Sides, file: str, topic: str = "") -> Stored:
    """Finds and reads the positions, on the target, or on the source where Connect may keep its topics too.

    Args:
        sides: of the flow.
        file: the configuration file, for messages.
        topic: Kafka Connect's topic of offsets; by default the one that the configuration tells.

    Raises:
        ConfigError: there are none, or MirrorMaker 2 runs.
        SparkmirrorError: a cluster cannot be asked, or the topic not read.
    """
    flow = sides.flow
    name = offsets_topic(flow, file, topic)
    cluster = place_of(sides, name)
    if cluster is None:
        raise ConfigError(
            file=file,
            key=str(flow.name),
            reason=f"the topic {name} is on no cluster where it could be: {_where(flow, name)}",
            remedy="give the one where Kafka Connect keeps MirrorMaker 2's positions with --offsets-topic; where "
            "MirrorMaker 2 never ran, start without --take-over",
        )
    check_no_workers(flow, cluster, file)
    found, owner = read_stored(cluster, name, flow.admin_timeout_ms), owner_of(flow)
    if found and owner not in found:
        raise ConfigError(
            file=file,
            key=str(flow.name),
            reason=f"the topic {name} has no positions of {owner}: it has those of {', '.join(map(str, found))}",
            remedy="set mm2.connector.name to the connector's name; the alias of the source must be MirrorMaker 2's",
        )
    if not found:  # it crashed before it stored any; what it copied is found on the target
        log.warning("the topic %s has no positions yet", name, extra={"flow": str(flow.name)})
    return Stored(cluster=cluster, topic=name, offsets=found.get(owner, {}))


def _where(flow: FlowConfig, topic: str) -> str:
    aliases = {Side.SOURCE: flow.source.alias, Side.TARGET: flow.target.alias}
    return ", ".join(aliases[side] for side in places_of_offsets(topic, flow.name))


def offsets_topic(flow: FlowConfig, file: str, topic: str) -> str:
    """The name of Kafka Connect's topic of offsets: the one that was asked for, else that of the configuration.

    Raises:
        ConfigError: neither says it.
    """
    name = topic or flow.stored_positions.topic
    if not name:
        raise ConfigError(
            file=file,
            key=str(flow.name),
            reason="the file does not say where Kafka Connect keeps MirrorMaker 2's positions",
            remedy="give the worker's offset.storage.topic with --offsets-topic, or as mm2.offsets.topic in the file",
        )
    return name


def place_of(sides: Sides, topic: str, right: str = "READ") -> Cluster | None:
    """The cluster that has Kafka Connect's topic of offsets, the target first; None where there is none.

    Args:
        sides: of the flow.
        topic: the topic of offsets.
        right: what the caller needs on it, for the message.

    Raises:
        BrokerError: this user may not DESCRIBE it, so that it may be there.
        LinkError: a cluster does not answer.
    """
    clusters = {Side.SOURCE: sides.source, Side.TARGET: sides.target}
    for side in places_of_offsets(topic, sides.flow.name):
        if admin.visible_topics(clusters[side], [topic], sides.flow.admin_timeout_ms, right=right):
            return clusters[side]
    return None


def check_no_workers(flow: FlowConfig, cluster: Cluster, file: str) -> None:
    """Refuses while Connect's group of workers has members; where its name is not known, nothing can be seen.

    Raises:
        ConfigError: MirrorMaker 2 runs.
        SparkmirrorError: the group cannot be asked about, or this user may not DESCRIBE it.
    """
    group = flow.stored_positions.group
    listing = describe_group(cluster, group, flow.admin_timeout_ms) if group else None
    if listing is not None and listing.protocol == _CONNECT and listing.active:
        raise ConfigError(
            file=file,
            key=str(flow.name),
            reason=f"MirrorMaker 2 runs: its group of workers {group} has members on cluster {cluster.alias}",
            remedy="stop it and wait until it has ended; after a crash its group is empty within a minute. If it is "
            "to go on with other topics, exclude these with topics.exclude, or start the flow with --take-over none",
        )
    if not group:
        log.warning(
            "whether MirrorMaker 2 runs cannot be seen, since mm2.group is not set: its connector must be stopped",
            extra={"flow": str(flow.name)},
        )


def known_syncs(sides: Sides) -> Mapping[TopicPartition, Sequence[OffsetSync]]:
    """MirrorMaker 2's offset syncs, as far as its topic still has them, in the order of its log.

    Without them offsets from before are not translated, and ends of logs are compared in another way: no error. Syncs
    that this user may not read are one, since a takeover is done once.

    Raises:
        BrokerError: this user may not READ the topic.
        SparkmirrorError: it holds something else.
    """
    flow, topic = sides.flow, topic_of(sides.flow)
    cluster = sides.source if flow.offset_syncs.location is Side.SOURCE else sides.target
    found: dict[TopicPartition, list[OffsetSync]] = defaultdict(list)
    try:
        if not admin.visible_topics(cluster, [topic], flow.admin_timeout_ms, right="READ"):
            raise SparkmirrorError("it is not there")
        pairs, _ = cluster.run(Journal(cluster, topic).read_pairs, 0, flow.admin_timeout_ms)
    except SparkmirrorError as failure:
        if isinstance(failure, BrokerError) and failure.code in UNAUTHORIZED:
            remedy = f"allow READ on Topic {topic} to this user"
            raise explained(failure.code, cluster.alias, topic=topic, remedy=remedy) from failure
        pairs = _without(flow, topic, str(failure))
    for key, value in pairs:
        if value is not None:
            try:
                sync = read_offset_sync(key, value)
            except ValueError as failure:
                raise SparkmirrorError(f"cluster {cluster.alias}, {topic}: no offset sync: {failure}") from failure
            found[sync.partition].append(sync)
    return found


def _without(flow: FlowConfig, topic: str, reason: str) -> list[tuple[bytes, bytes | None]]:
    text = "MirrorMaker 2's offset syncs in %s cannot be used (%s): offsets from before the takeover are not translated"
    log.warning(text, topic, reason, extra={"flow": str(flow.name)})
    return []
