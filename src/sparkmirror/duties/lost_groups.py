"""Whether the source still has what it answers of groups from: a cluster that has lost their offsets forgets no group.

A cluster that is set up again under the same address, or whose disks are lost, lists no group. What is on record of the
groups is all there is then, on the very day on which a failover needs it. A cluster that has lost the end of the topic
with their offsets, by an unclean election or a power failure with replication factor 1, lists older offsets of some
groups, and others not at all.

Invariants: a group is taken for deleted only where the cluster and its topic of group offsets are those that were asked
before; where that topic may not be seen, the topic that the group has read has to exist. Brokers leave out the offsets
in topics that this user may not see: nothing is known of these. What is kept counts until the group has committed in
that topic again. How far each partition of the topic went is asked when the groups have answered, so what they have
answered lies before it; an offset that is another one, or none, in the round in which its partition has lost its end is
lost, and not set by its owner. Where the topic may not be seen, that cannot be seen either.

References: ``GroupMetadataManager.partitionFor``, OffsetForLeaderEpoch (KIP-101, KIP-320).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from sparkmirror.kafka import admin
from sparkmirror.kafka.cluster import Cluster
from sparkmirror.kafka.epochs import believed_ends, newest_epochs
from sparkmirror.kafka.groups import OFFSETS_TOPIC, UNLISTED_MS, Committed, Offsets
from sparkmirror.kafka.leaders import OffsetSpec
from sparkmirror.kafka.topic_ids import ids_of_topics, in_hexadecimal
from sparkmirror.model import NO_OFFSET, TopicPartition
from sparkmirror.offsets.group_records import UNKNOWN_ORIGIN, GroupSeen, LogEnd, Origin


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetsLog:
    """How far ``__consumer_offsets`` of the source goes.

    Attributes:
        ends: by partition; as before where its leader does not answer.
        torn: the partitions that have lost something since.
        partitions: how many it has; 0 where this user may not see it.
    """

    ends: Mapping[int, LogEnd] = field(default_factory=dict)
    torn: frozenset[int] = frozenset()
    partitions: int = 0

    def has_torn(self, group: str) -> bool:
        """Whether the partition of a group has lost something."""
        return bool(self.torn) and partition_of(group, self.partitions) in self.torn


NOT_SEEN = OffsetsLog()


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What the source has said of itself.

    Attributes:
        origin: which cluster it is, and which topic it keeps the offsets of groups in.
        topics: those that this user may see, of the topics on record in which groups have nothing any more.
        absent: those that do not exist.
        log: how far the topic of group offsets goes.
    """

    origin: Origin = UNKNOWN_ORIGIN
    topics: frozenset[str] = frozenset()
    absent: frozenset[str] = frozenset()
    log: OffsetsLog = NOT_SEEN


NOT_ASKED = Asked()


def ask(source: Cluster, topics: Iterable[str], timeout_ms: int) -> Asked:
    """Asks the source.

    Args:
        source: the cluster.
        topics: on record in which groups have nothing any more.
        timeout_ms: of each question.

    Raises:
        SparkmirrorError: it does not answer.
    """
    wanted = set(topics)
    ids = ids_of_topics(source, {OFFSETS_TOPIC, *wanted}, timeout_ms)
    unseen = [TopicPartition(name, 0) for name in sorted(wanted - ids.keys())]
    absent = admin.absent(source, unseen, timeout_ms) if unseen else ()
    return Asked(
        origin=Origin(cluster_id=admin.cluster_id(source, timeout_ms), offsets_id=ids.get(OFFSETS_TOPIC, "")),
        topics=frozenset(ids),
        absent=frozenset(place.topic for place in absent),
    )


def partition_of(group: str, partitions: int) -> int:
    """The partition of ``__consumer_offsets`` that has a group's offsets: by Java's hash of the name."""
    code = 0
    units = group.encode("utf-16-be", "surrogatepass")
    for high, low in zip(units[::2], units[1::2], strict=True):
        code = (31 * code + (high << 8 | low)) & 0xFFFFFFFF
    signed = code - (1 << 32) if code >> 31 else code
    return (0 if signed == -(1 << 31) else abs(signed)) % partitions


def offsets_log(source: Cluster, before: Mapping[int, LogEnd], timeout_ms: int, offsets_id: str = "") -> OffsetsLog:
    """Looks how far ``__consumer_offsets`` goes, and whether it still has what it had.

    Args:
        source: the cluster.
        before: how far it went, by partition.
        timeout_ms: of each question.
        offsets_id: the id of the topic then; another one of the name has lost nothing of it.

    Raises:
        SparkmirrorError: it does not answer.
    """
    timeout_ms = min(timeout_ms, UNLISTED_MS)
    topic = admin.list_topics(source, [OFFSETS_TOPIC], timeout_ms).get(OFFSETS_TOPIC)
    if topic is None:
        return OffsetsLog(ends=before)
    if offsets_id not in ("", in_hexadecimal(topic.topic_id)):
        before = {}
    led = [TopicPartition(OFFSETS_TOPIC, number) for number, leader in topic.partitions.items() if leader.node >= 0]
    asked = {place: before[place.partition].epoch for place in led if place.partition in before}
    now = believed_ends(source, asked, timeout_ms).found if asked else {}
    torn = frozenset(place.partition for place, end in now.items() if end.end < before[place.partition].end)
    ends = admin.find_offsets(source, led, OffsetSpec.LATEST, timeout_ms=timeout_ms).found
    epochs = newest_epochs(source, ends, timeout_ms)  # afterwards, so none below that of the last record
    sure = [place for place in ends if place in epochs and (place in now or place.partition not in before)]
    found = {place.partition: LogEnd(epochs[place], ends[place]) for place in sure}
    return OffsetsLog(ends={**before, **found}, torn=torn, partitions=len(topic.partitions))


def seen_before(known: GroupSeen, now: GroupSeen | None, *, torn: bool) -> GroupSeen | None:
    """What a group has committed, with what it had before the source lost that; None where nothing was lost. Pure.

    Args:
        known: what is on record of the group and the topic.
        now: what the source answers.
        torn: whether the partition with the group's offsets has lost its end since.
    """
    answered = {} if now is None else {number: offset for number, (offset, _) in now.offsets.items()}
    lost = {}
    for number, (offset, _) in known.offsets.items():
        found = answered.get(number, NO_OFFSET)
        if (torn and found != offset) or (number in known.lost and found == known.lost[number]):
            lost[number] = found
    if not lost:
        return None
    now = now or replace(known, offsets={}, upstream={}, targets={})
    return replace(
        now,
        offsets={**now.offsets, **{number: known.offsets[number] for number in lost}},
        upstream={n: one for n, one in now.upstream.items() if n not in lost}
        | {n: one for n, one in known.upstream.items() if n in lost},
        time_ms=known.time_ms,
        lost=lost,
    )


def with_lost(
    groups: Iterable[GroupSeen], found: Mapping[str, Offsets]
) -> tuple[dict[str, Offsets], frozenset[tuple[str, TopicPartition]]]:
    """What groups have committed, with what they had where the source has lost that and still answers the same. Pure.

    Args:
        groups: what is on record of them.
        found: what the source answers.

    Returns:
        that, and the groups and partitions in which it is so.
    """
    kept = {
        (seen.group, TopicPartition(seen.topic, number)): Committed(*seen.offsets[number])
        for seen in groups
        for number, after in seen.lost.items()
        if found.get(seen.group, {}).get(TopicPartition(seen.topic, number), Committed(NO_OFFSET)).offset == after
    }
    merged = {group: dict(own) for group, own in found.items()}
    for (group, place), committed in kept.items():
        merged.setdefault(group, {})[place] = committed
    return dict(merged), frozenset(kept)


def is_another(before: Origin, now: Origin) -> bool:
    """Whether what is on record of groups was read from another cluster, or from another topic of group offsets."""
    if before == UNKNOWN_ORIGIN:
        return False
    return before.cluster_id != now.cluster_id or before.offsets_id not in ("", now.offsets_id)


def kept(known: Mapping[str, GroupSeen], gone: Iterable[str], before: Origin, asked: Asked) -> frozenset[str]:
    """The keys of what stays on record, of what the source has nothing of any more.

    Args:
        known: what is on record, by key.
        gone: the keys of what the source has not answered with, though it could be asked.
        before: where what is on record was read.
        asked: what the source has said of itself.
    """
    if is_another(before, asked.origin):
        return frozenset(gone)
    certain = asked.topics | (asked.absent if asked.origin.offsets_id else frozenset())
    return frozenset(key for key in gone if known[key].topic not in certain)
