"""Whether the source still has what it answers of groups from: a cluster that has lost their offsets forgets no group.

A cluster that is set up again under the same address, or whose disks are lost, lists no group. What is on record of the
groups is all there is then, on the very day on which a failover needs it.

Invariants: a group is taken for deleted only where the cluster and its topic of group offsets are those that were asked
before; where that topic may not be seen, the topic that the group has read has to exist. Brokers leave out the offsets
in topics that this user may not see: nothing is known of these. What is kept counts until the group has committed in
that topic again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from sparkmirror.kafka import admin
from sparkmirror.kafka.cluster import Cluster
from sparkmirror.kafka.groups import OFFSETS_TOPIC
from sparkmirror.kafka.topic_ids import ids_of_topics
from sparkmirror.model import TopicPartition
from sparkmirror.offsets.group_records import UNKNOWN_ORIGIN, GroupSeen, Origin


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What the source has said of itself.

    Attributes:
        origin: which cluster it is, and which topic it keeps the offsets of groups in.
        topics: those that this user may see, of the topics on record in which groups have nothing any more.
        absent: those that do not exist.
    """

    origin: Origin = UNKNOWN_ORIGIN
    topics: frozenset[str] = frozenset()
    absent: frozenset[str] = frozenset()


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
