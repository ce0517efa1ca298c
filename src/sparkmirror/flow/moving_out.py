"""Hands a stopped flow over to MirrorMaker 2: writes the flow's positions where that one looks for its own.

Invariants: only a flow that ended cleanly is handed over, since its positions are exact then, and only while both
clusters still have what it has copied: MirrorMaker 2 asks for neither topic ids nor leader epochs, and would go on at
the same offset of another log; the flow is marked before MirrorMaker 2 can see its positions, so that both never copy
the same; a dry run changes nothing.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass

from sparkmirror.config import FlowConfig
from sparkmirror.duties import topics
from sparkmirror.duties.duty import Sides
from sparkmirror.errors import ConfigError
from sparkmirror.events import now_ms
from sparkmirror.flow.handed_over import check_handed_over
from sparkmirror.flow.identities import Identities
from sparkmirror.flow.mirror_maker import check_no_workers, offsets_topic, owner_of, place_of
from sparkmirror.flow.opening import check_held, open_flow
from sparkmirror.flow.repositioning import check_lost_runs, check_stopped, check_taken
from sparkmirror.flow.restoring import last_records
from sparkmirror.flow.sides import BOTH, connected, record
from sparkmirror.flow.still_copied import ask, why_not
from sparkmirror.kafka import admin
from sparkmirror.kafka.acls import Operation
from sparkmirror.kafka.admin import NewTopic
from sparkmirror.kafka.cluster import Cluster
from sparkmirror.kafka.codes import TOPIC_AUTHORIZATION_FAILED, UNKNOWN_TOPIC_OR_PARTITION
from sparkmirror.kafka.rounds import explained
from sparkmirror.kafka.stored_offsets import read_stored, write_stored
from sparkmirror.kafka.survey import topic_rights
from sparkmirror.mm2.stored_offsets import StoredOffset
from sparkmirror.model import NO_OFFSET, TopicPartition
from sparkmirror.offsets.inherited import Elsewhere
from sparkmirror.offsets.state import JournalState

PARTITIONS = 25
"""Of Kafka Connect's topic of offsets, where it has to be created."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HandedOver:
    """What MirrorMaker 2 finds.

    Attributes:
        flow: the flow.
        cluster: where the topic is.
        topic: Kafka Connect's topic of offsets.
        created: whether it was not there before.
        stored: what was written to it; a position without an offset begins anew.
    """

    flow: str
    cluster: str
    topic: str
    created: bool
    stored: tuple[StoredOffset, ...]


def hand_over(flow: FlowConfig, file: str, *, topic: str = "", dry_run: bool = False) -> HandedOver:
    """Hands one flow over.

    Args:
        flow: which must be stopped, and MirrorMaker 2 too.
        file: the configuration file, for messages.
        topic: Kafka Connect's topic of offsets; by default the one that the configuration tells.
        dry_run: tell only what would be written.

    Raises:
        ConfigError: the flow runs, did not end cleanly or has no positions, or MirrorMaker 2 runs.
        HeldError: an operation holds the flow.
        SparkmirrorError: a cluster cannot be asked or written to.
    """
    with connected(flow, role="hand-over", needs=BOTH) as sides:
        known = record(sides) or JournalState()
        _check_told(flow, file)
        check_handed_over(flow, sides.source, sides.target, known, file)
        check_held(flow, known)
        check_stopped(flow, known, file)
        check_lost_runs(sides.target, known, flow, file)
        _check_obeyed(flow, known, file)
        positions = _positions(sides, known, file)
        name = offsets_topic(flow, file, topic)
        found = place_of(sides, name, "READ and WRITE")
        cluster = found or sides.target
        check_no_workers(flow, cluster, file)
        before = read_stored(cluster, name, flow.admin_timeout_ms).get(owner_of(flow), {}) if found else {}
        stored = tuple(
            StoredOffset(owner=owner_of(flow), partition=here, offset=position - 1 if position else None)
            for here, position in sorted(positions.items())
            if position or here in before
        )
        _check_writable(sides, cluster, name, create=found is None)
        if not dry_run:
            _write(sides, file, known, name, cluster, stored, create=found is None)
    return HandedOver(flow=str(flow.name), cluster=cluster.alias, topic=name, created=found is None, stored=stored)


def _check_told(flow: FlowConfig, file: str) -> None:
    if flow.homeward_back and not flow.policy.keeps_names:
        raise ConfigError(
            file=file,
            key=f"{flow.name.back}.homeward.enabled",
            reason=f"{flow.name.back} brings home what others wrote to the copies, and what MirrorMaker 2 writes there "
            "cannot be told from that",
            remedy=f"set it to false and start {flow.name.back} anew first",
        )


def _check_obeyed(flow: FlowConfig, known: JournalState, file: str) -> None:
    if known.moves:
        order = next(iter(known.moves.values()))
        raise ConfigError(
            file=file,
            key=str(flow.name),
            reason=f"{order.partition} is still to be moved to offset {order.to}, as {order.by} has ordered",
            remedy="start the flow once more and stop it, or choose another place with sparkmirror positions set",
        )


def _positions(sides: Sides, known: JournalState, file: str) -> dict[TopicPartition, int]:
    """The positions of what the flow copies; 0 where the source has no such partition any more.

    Raises:
        ConfigError: there are none, or they do not hold any more, or it is not known whether they do.
        SparkmirrorError: a cluster cannot be asked.
    """
    flow = sides.flow
    chosen = set(topics.wanted(flow, {here.topic for here in known.progress}))
    progress = {here: one for here, one in known.progress.items() if here.topic in chosen and one.position != NO_OFFSET}
    if not progress:
        raise ConfigError(
            file=file,
            key=str(flow.name),
            reason="the flow has no positions: it was never started",
            remedy="start MirrorMaker 2 as it is",
        )
    gone = admin.absent(sides.source, progress, flow.admin_timeout_ms)
    left = {here: one for here, one in progress.items() if here not in gone}
    refused = why_not(flow, left, ask(sides, left)) if left else {}
    if refused:
        why = f"{next(iter(refused.values()))}; from its position on MirrorMaker 2 would leave records out"
        others = f"; {len(refused) - 1} further partitions are refused too" if len(refused) > 1 else ""
        raise ConfigError(
            file=file,
            key=str(flow.name),
            reason=why + others,
            remedy="start the flow once more, let it copy what there is, and stop it",
        )
    return dict.fromkeys(gone, 0) | {here: one.position for here, one in left.items()}


def _check_writable(sides: Sides, cluster: Cluster, name: str, *, create: bool) -> None:
    """Refuses before the flow is marked where the topic of offsets could not be written then.

    Raises:
        BrokerError: this user may not WRITE or CREATE it, or it is not there any more.
        LinkError: the cluster does not answer.
    """
    timeout_ms = sides.flow.admin_timeout_ms
    if create:
        admin.create_topics(cluster, [_offsets_topic(sides.flow, name)], timeout_ms, validate_only=True).complete()
        return
    rights = topic_rights(cluster, [name], timeout_ms).get(name)
    if rights is None:
        remedy = f"has topic {name} just been deleted? then hand over again; else allow DESCRIBE on it to this user"
        raise explained(UNKNOWN_TOPIC_OR_PARTITION, cluster.alias, topic=name, remedy=remedy)
    if Operation.WRITE not in rights:
        remedy = f"allow WRITE on Topic {name} to this user"
        raise explained(TOPIC_AUTHORIZATION_FAILED, cluster.alias, topic=name, remedy=remedy)


def _offsets_topic(flow: FlowConfig, name: str) -> NewTopic:
    return NewTopic(
        name=name,
        partitions=PARTITIONS,
        replication_factor=flow.internal_replication_factor,
        configs=(("cleanup.policy", "compact"),),
    )


def _write(
    sides: Sides,
    file: str,
    known: JournalState,
    name: str,
    cluster: Cluster,
    stored: tuple[StoredOffset, ...],
    *,
    create: bool,
) -> None:
    flow, timeout_ms = sides.flow, sides.flow.admin_timeout_ms
    if create:
        admin.create_topics(cluster, [_offsets_topic(flow, name)], timeout_ms).complete()
        admin.wait_for_leaders(cluster, {name: PARTITIONS}, timeout_ms).complete()
    partitions = len(admin.list_topics(cluster, [name], timeout_ms)[name].partitions)
    opened = open_flow(flow, sides.source, sides.target, file, uuid.uuid4().hex[:12], Identities(file))
    ends = last_records(opened)
    check_taken(opened, known, flow, file)
    opened.store.write([Elsewhere(topic=name, time_ms=now_ms()), *ends])
    write_stored(cluster, name, partitions, stored, timeout_ms)
