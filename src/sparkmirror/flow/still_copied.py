"""Whether both clusters still have what a stopped flow has copied, before others go on from its positions.

Invariants: it is asked what a start asks, by topic ids and leader epochs, so what is found here a start finds too, and
mends; what a cluster does not answer counts as not known, never as nothing lost.

References: OffsetForLeaderEpoch (KIP-101, KIP-320), topic ids (KIP-516).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from sparkmirror.config import FlowConfig
from sparkmirror.duties.duty import Sides
from sparkmirror.duties.lost_copies import lost_copies, recreated_copies
from sparkmirror.duties.topics import remote_topic
from sparkmirror.errors import SparkmirrorError
from sparkmirror.flow.handed_over import reached
from sparkmirror.flow.parting import find_partings, recreated_topics
from sparkmirror.kafka import admin
from sparkmirror.kafka.leaders import OffsetSpec
from sparkmirror.kafka.topic_ids import ids_of_topics
from sparkmirror.model import TopicPartition
from sparkmirror.offsets.records import Progress


@dataclass(frozen=True, slots=True, kw_only=True)
class Answers:
    """What the clusters say; by partition of the source.

    Attributes:
        recreated: source topics that were deleted and created again.
        parted: the first copied offset that the source's log does not have any more.
        recreated_copies: whose copies were deleted and created again.
        lost: from which target offset on the copy's log has lost what it had.
        target_ends: where the copies end.
        unanswered: of which something is not known, and why.
    """

    recreated: Collection[str] = ()
    parted: Mapping[TopicPartition, int] = field(default_factory=dict)
    recreated_copies: Collection[TopicPartition] = ()
    lost: Mapping[TopicPartition, int] = field(default_factory=dict)
    target_ends: Mapping[TopicPartition, int] = field(default_factory=dict)
    unanswered: Mapping[TopicPartition, SparkmirrorError] = field(default_factory=dict)


def why_not(
    flow: FlowConfig, progress: Mapping[TopicPartition, Progress], answers: Answers
) -> dict[TopicPartition, str]:
    """Why positions do not hold any more, for people, in order; pure.

    Args:
        flow: the flow.
        progress: by partition of the source.
        answers: of the same partitions.
    """
    found = {}
    for place, one in sorted(progress.items()):
        why = _why_not(flow, place, one, answers)
        if why:
            found[place] = why
    return found


def _why_not(flow: FlowConfig, place: TopicPartition, one: Progress, answers: Answers) -> str:
    source, target = flow.source.alias, flow.target.alias
    copy = TopicPartition(remote_topic(flow, place.topic), place.partition)
    if place.topic in answers.recreated:
        return f"topic {place.topic} on {source} was deleted and created again since it was copied"
    if place in answers.parted:
        lost = f"offsets {answers.parted[place]} to {one.position - 1}"
        return f"the log of {place} on {source} does not have {lost} any more as they were copied"
    if place in answers.recreated_copies:
        return f"topic {copy.topic} on {target} was deleted and created again since it was copied to"
    end = min((at[place] for at in (answers.lost, answers.target_ends) if place in at), default=reached(one))
    if end < reached(one):
        return f"the target has lost the end of {copy}, from offset {end} on"
    if place in answers.unanswered or place not in answers.target_ends:
        return f"whether {source} and {target} still have what was copied of {place} is not known: " + str(
            answers.unanswered.get(place, f"{target} does not tell where {copy} ends")
        )
    return ""


def ask(sides: Sides, progress: Mapping[TopicPartition, Progress]) -> Answers:
    """Asks both clusters.

    Args:
        sides: of the flow, its record read.
        progress: of partitions that the source has.

    Raises:
        SparkmirrorError: a cluster does not say which topics it has.
    """
    flow, timeout_ms = sides.flow, sides.flow.admin_timeout_ms
    copies = {TopicPartition(remote_topic(flow, place.topic), place.partition): place for place in progress}
    ids = ids_of_topics(sides.source, {place.topic for place in progress}, timeout_ms)
    recreated = recreated_topics(progress, ids)
    ends = admin.find_offsets(sides.source, sorted(progress), OffsetSpec.LATEST, timeout_ms=timeout_ms)
    partings = find_partings(sides, progress, ends.found, recreated, timeout_ms)
    again = recreated_copies(flow, sides.target, progress, timeout_ms)
    torn = lost_copies(flow, sides.target, progress, timeout_ms)
    target_ends = admin.find_offsets(sides.target, sorted(copies), OffsetSpec.LATEST, timeout_ms=timeout_ms)
    failed = {copies[copy]: failure for copy, failure in target_ends.failed.items()}
    return Answers(
        recreated=recreated,
        parted={place: one.offset for place, one in partings.found.items()},
        recreated_copies=again,
        lost={place: at for place, at in torn.found.items() if place not in again},
        target_ends={copies[copy]: end for copy, end in target_ends.found.items()},
        unanswered={**failed, **torn.failed, **partings.failed, **ends.failed},
    )
