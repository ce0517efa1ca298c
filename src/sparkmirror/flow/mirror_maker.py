"""What a MirrorMaker 2 that copied in the flow's place has left: its stored positions, its offset syncs, its workers.

Invariants: each refusal names what was found and what to do about it; no position is read from below which a
transaction is open, and each wait for one has an end.

References: ``MirrorMakerConfig.workerConfig`` (names of topics and groups), KIP-415 (the protocol of Connect's groups),
KIP-618 (positions within transactions).
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

from sparkmirror.config import FlowConfig, Side, places_of_offsets
from sparkmirror.duties.duty import Sides
from sparkmirror.duties.offset_syncs import topic_of
from sparkmirror.errors import BrokerError, ConfigError, SparkmirrorError
from sparkmirror.kafka import admin
from sparkmirror.kafka.cluster import Cluster
from sparkmirror.kafka.codes import UNAUTHORIZED
from sparkmirror.kafka.groups import Member, describe_groups, list_groups
from sparkmirror.kafka.journal import Journal
from sparkmirror.kafka.leaders import OffsetSpec
from sparkmirror.kafka.open_transactions import open_below
from sparkmirror.kafka.rounds import explained
from sparkmirror.kafka.stored_offsets import read_stored
from sparkmirror.kafka.stored_records import StoredRecord
from sparkmirror.mm2.assignments import read_worker
from sparkmirror.mm2.offset_syncs import OffsetSync, read_key, read_offset_sync
from sparkmirror.mm2.stored_offsets import Owner
from sparkmirror.model import TopicPartition
from sparkmirror.offsets.foreign import LONGEST, Flaw, Foreign
from sparkmirror.offsets.inherited import NEWEST, SPREAD

log = logging.getLogger(__name__)

Positions = Mapping[Owner, Mapping[TopicPartition, int]]
"""The last source offset that was copied, by whose position it is and partition."""

AT_ONCE_MS = 10_000
"""For transactions to end where a start is tried again: time enough for those of producers that live."""

ABORTED_MS = 90_000
"""For transactions to end otherwise: the broker aborts those of a producer that died, by default after 60 to 70 s."""

MOST_SYNCS = 2_000_000
"""They take some 250 MB."""

WITHOUT_SYNCS = (
    "MirrorMaker 2's offset syncs in %s cannot be used (%s): offsets from before the takeover are not translated"
)

NAMED = 3
"""So many partitions are named in a message."""

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
    found, owner = read_settled(flow, cluster, name, ABORTED_MS), owner_of(flow)
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
    """Refuses while MirrorMaker 2 runs, as far as the groups of Connect's workers tell.

    Where the file tells the group of the workers, it must have no members. Where it does not, no worker of any group
    may have tasks of the flow's connector: Connect may go on running others.

    Args:
        flow: the flow.
        cluster: where the workers keep their positions, and their groups.
        file: the configuration file, for messages.

    Raises:
        ConfigError: MirrorMaker 2 runs.
        SparkmirrorError: a group cannot be asked about, this user may not DESCRIBE it, or the workers are about to deal
            out their tasks.
    """
    group = flow.stored_positions.group
    if not group:
        _check_no_tasks(flow, cluster, file)
        return
    described = describe_groups(cluster, [group], flow.admin_timeout_ms).complete()[group]
    if described.protocol == _CONNECT and described.active:
        raise ConfigError(
            file=file,
            key=str(flow.name),
            reason=f"MirrorMaker 2 runs: its group of workers {group} has members on cluster {cluster.alias}",
            remedy="stop it and wait until it has ended; after a crash its group is empty within a minute. If it is "
            "to go on with other topics, exclude these with topics.exclude, or start the flow with --take-over none",
        )


def _check_no_tasks(flow: FlowConfig, cluster: Cluster, file: str) -> None:
    """Refuses while a worker of any group has tasks of the flow's connector."""
    connector = flow.stored_positions.connector
    listed = list_groups(cluster, flow.admin_timeout_ms, complete=True)
    groups = [name for name, one in listed.items() if one.protocol == _CONNECT and one.active]
    found = describe_groups(cluster, groups, flow.admin_timeout_ms).complete()
    for group, members in found.items():
        if not members.settled:
            raise SparkmirrorError(
                f"{flow.name}: whether the connector {connector} runs cannot be told now: the workers of the group "
                f"{group} on cluster {cluster.alias} are dealing out their tasks (state {members.state}). Try again, "
                "or name the group of its workers with mm2.group, if that is another one"
            )
        if any(_runs(connector, member, group) for member in members.members):
            raise ConfigError(
                file=file,
                key=str(flow.name),
                reason=f"MirrorMaker 2 runs: the connector {connector} runs on the workers of the group {group} on "
                f"cluster {cluster.alias}",
                remedy=f"stop it (PUT /connectors/{connector}/stop), or its workers; after a crash its tasks are seen "
                "for up to a minute. If that is another connector of this name, name the group of the right one's "
                "workers with mm2.group, or start the flow with --take-over none",
            )
    if not groups:
        log.warning(
            "no worker of Kafka Connect is seen on cluster %s: if the connector %s runs on workers of another cluster, "
            "or of a group that this user may not describe, it must be stopped",
            *(cluster.alias, connector),
            extra={"flow": str(flow.name)},
        )


def _runs(connector: str, worker: Member, group: str) -> bool:
    try:
        return connector in read_worker(worker.metadata, worker.assignment)
    except ValueError as failure:
        reason = f"what the workers of the group {group} run cannot be read: {failure}"
        raise SparkmirrorError(f"{reason}; name the group of the flow's workers with mm2.group") from failure


def read_settled(flow: FlowConfig, cluster: Cluster, topic: str, wait_ms: int) -> Positions:
    """What is stored, once no transaction that began before is open: MirrorMaker 2 may store within its own (KIP-618).

    Args:
        flow: the flow.
        cluster: where it is stored.
        topic: Kafka Connect's topic of offsets.
        wait_ms: milliseconds to wait at most.

    Raises:
        SparkmirrorError: a transaction stays open, or the topic cannot be read.
    """
    described = admin.list_topics(cluster, [topic], flow.admin_timeout_ms)
    places = [TopicPartition(topic, number) for one in described.values() for number in sorted(one.partitions)]
    ends = admin.list_offsets(cluster, places, OffsetSpec.LATEST, timeout_ms=flow.admin_timeout_ms)
    wait_for_transactions(flow, cluster, ends, wait_ms)
    return read_stored(cluster, topic, flow.admin_timeout_ms)


def wait_for_transactions(flow: FlowConfig, cluster: Cluster, ends: Mapping[TopicPartition, int], wait_ms: int) -> None:
    """Waits until all transactions below these offsets have ended, and says so.

    MirrorMaker 2's own are not aborted here: its transactional ids are its workers' to fence, aborting them needs
    rights that nothing else needs, and the broker does it within about a minute.

    Args:
        flow: the flow.
        cluster: where.
        ends: offset by partition.
        wait_ms: milliseconds to wait at most.

    Raises:
        SparkmirrorError: one stays open.
    """
    found = open_below(cluster, ends, 0, flow.admin_timeout_ms)
    if found:
        text = "transactions are open on cluster %s (%s): waiting up to %d s until the broker has ended them"
        log.info(text, cluster.alias, _shown(found), wait_ms // 1000, extra={"flow": str(flow.name)})
    left = open_below(cluster, {place: ends[place] for place in found}, wait_ms, flow.admin_timeout_ms)
    if left:
        raise SparkmirrorError(
            f"{flow.name}: transactions are open on cluster {cluster.alias} ({_shown(left)}), so what MirrorMaker 2 "
            "copied last is not known yet, and nothing is taken over. The broker aborts those of a MirrorMaker 2 that "
            "was killed after its producer's transaction.timeout.ms, by default within 70 s. If MirrorMaker 2 still "
            "runs, stop it; kafka-transactions.sh find-hanging shows one that never ends"
        )


def _shown(places: Sequence[TopicPartition]) -> str:
    more = f" and {len(places) - NAMED} more" if len(places) > NAMED else ""
    return ", ".join(map(str, places[:NAMED])) + more


def known_syncs(sides: Sides) -> Mapping[TopicPartition, Sequence[OffsetSync]]:
    """MirrorMaker 2's offset syncs, as far as its topic still has them, in the order of its log.

    Without them offsets from before are not translated, and ends of logs are compared in another way: no error. Syncs
    that this user may not read are one, since a takeover is done once.

    Raises:
        BrokerError: this user may not READ the topic.
    """
    flow, topic = sides.flow, topic_of(sides.flow)
    cluster = sides.source if flow.offset_syncs.location is Side.SOURCE else sides.target
    syncs = Syncs()
    try:
        if not admin.visible_topics(cluster, [topic], flow.admin_timeout_ms, right="READ"):
            raise SparkmirrorError("it is not there")
        cluster.run(Journal(cluster, topic).read_bytes, 0, syncs.take, flow.admin_timeout_ms)
    except SparkmirrorError as failure:
        if isinstance(failure, BrokerError) and failure.code in UNAUTHORIZED:
            remedy = f"allow READ on Topic {topic} to this user"
            raise explained(failure.code, cluster.alias, topic=topic, remedy=remedy) from failure
        log.warning(WITHOUT_SYNCS, topic, failure, extra={"flow": str(flow.name)})
        syncs = Syncs()
    for line in syncs.foreign.lines(f"cluster {cluster.alias}, {topic}"):
        log.warning("%s", line, extra={"flow": str(flow.name)})
    return syncs.found


class Syncs:
    """The offset syncs of a topic, of which nothing else is kept while it is read.

    Its log has all that MirrorMaker 2 has written in a week. Where that is more than `MOST_SYNCS`, as many are kept of
    each partition as a flow keeps on record: an offset between two of them goes to the one below it.

    Attributes:
        found: by source partition, in the order of the log.
        foreign: records that are none.
    """

    def __init__(self) -> None:
        self.found: dict[TopicPartition, list[OffsetSync]] = defaultdict(list)
        self.foreign = Foreign()
        self._count = 0

    def take(self, records: Sequence[StoredRecord]) -> None:
        """Takes the next records.

        Raises:
            SparkmirrorError: there are too many partitions.
        """
        for offset, key, value in records:
            if value is not None:
                self._take(offset, key, value)

    def _take(self, offset: int, key: bytes, value: bytes) -> None:
        try:
            sync = read_offset_sync(key, value)
            if min(sync.upstream, sync.downstream) < 0:
                raise ValueError("no log has such offsets")
        except ValueError:
            self.foreign.note(repr(key[:LONGEST]), offset, Flaw.VALUE)
            with suppress(ValueError):  # it may have made those before it void
                self._count -= len(self.found.pop(read_key(key), ()))
            return
        known = self.found[sync.partition]
        if known and (sync.upstream < known[-1].upstream or sync.downstream < known[-1].downstream):
            self._count -= len(known)
            known.clear()
        known.append(replace(sync, partition=known[0].partition) if known else sync)
        self._count += 1
        if self._count > MOST_SYNCS:
            self._thin()

    def _thin(self) -> None:
        for known in self.found.values():
            older, newer = known[:-NEWEST], known[-NEWEST:]
            known[:] = (*older[:: max(1, -(-len(older) // SPREAD))], *newer)
        self._count = sum(map(len, self.found.values()))
        if self._count > MOST_SYNCS // 2:
            raise SparkmirrorError(f"it holds more than {MOST_SYNCS}, of {len(self.found)} partitions")
