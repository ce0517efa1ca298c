"""The leader epochs of what a flow leaves out: it goes on further on, by an order or after MirrorMaker 2.

The offsets between were never copied by the flow, so no lane has met their leader epochs. Without these the last epoch
that was copied would seem to go on up to where the flow goes on, and a source that loses the end of its log within what
was left out would seem to have lost all since (``offsets.source_history``).

Invariants: an epoch that is on record and counts keeps its begin; a leader that does not answer leaves the record as it
was.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sparkmirror.flow.positions import is_dead
from sparkmirror.kafka.cluster import Cluster
from sparkmirror.kafka.epochs import epochs_between
from sparkmirror.kafka.reading import Span
from sparkmirror.model import NO_OFFSET, TopicPartition
from sparkmirror.offsets.records import SourceEpoch
from sparkmirror.offsets.source_history import Begun
from sparkmirror.offsets.state import JournalState


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftOut:
    """What is left out of one partition.

    Attributes:
        kept: up to where what was copied is what the source's log has, or `NO_OFFSET` where nothing was.
        to: where the flow goes on.
        leader_epoch: of the source's batch left of there, or a later one; -1 if nobody knows.
        topic_id: of the source topic, or "".
    """

    kept: int
    to: int
    leader_epoch: int
    topic_id: str


def epochs_of(
    source: Cluster, state: JournalState, left_out: Mapping[TopicPartition, LeftOut], timeout_ms: int
) -> dict[TopicPartition, tuple[SourceEpoch, ...]]:
    """The leader epochs to be put on record; none where nothing is left out.

    Args:
        source: is asked.
        state: what is on record.
        left_out: by partition.
        timeout_ms: of each question.

    Raises:
        LinkError: the source cannot be asked.
    """
    spans = {place: Span(one.kept, one.to) for place, one in left_out.items() if NO_OFFSET < one.kept < one.to}
    begun = epochs_between(source, spans, {place: left_out[place].leader_epoch for place in spans}, timeout_ms)
    return {
        place: not_on_record(place, one, begun.get(place, ()), state.history(place, one.topic_id))
        for place, one in left_out.items()
    }


def not_on_record(
    partition: TopicPartition, one: LeftOut, begun: Sequence[Begun], history: Sequence[Begun]
) -> tuple[SourceEpoch, ...]:
    """The records of those epochs of the log, of ``begun``, that the history has not. Pure."""
    known = {each.epoch for each in history if not is_dead(each, one.kept, one.leader_epoch, anew=True)}
    return tuple(
        SourceEpoch(partition=partition, epoch=each.epoch, offset=each.offset, topic_id=one.topic_id)
        for each in begun
        if each.epoch not in known
    )
