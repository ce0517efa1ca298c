"""The last round of checkpoints of a flow that groups are moved along, since its duty writes none while it is held.

Clients that ask ``RemoteClusterUtils.translateOffsets`` after an operation go on where the groups do that it has moved.

Invariant: a checkpoint is written by the rules of the duty (`duties.checkpoints`), so that what it writes later goes on
from there.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from sparkmirror.config import FlowConfig
from sparkmirror.duties import topics
from sparkmirror.duties.checkpoints import is_news
from sparkmirror.duties.checkpoints_topic import CheckpointsTopic
from sparkmirror.duties.duty import Sides
from sparkmirror.duties.groups import GroupPlace
from sparkmirror.errors import SparkmirrorError
from sparkmirror.failover.moves import GroupMove
from sparkmirror.mm2.checkpoints import Checkpoint
from sparkmirror.model import NO_OFFSET


def write_last(sides: Sides, moves: Sequence[GroupMove]) -> str:
    """Writes what is news to the topic; gives why it could not, or "". The operation does not depend on it.

    Args:
        sides: the flow along which groups were moved, and its clusters.
        moves: of the groups.
    """
    if not sides.flow.groups.checkpoints_enabled:
        return ""
    topic = CheckpointsTopic(sides)
    try:
        there = topic.follow()
        news = decide(sides.flow, moves, topic.newest)
        if news and not there:
            topic.create(topic.creation)
        topic.write(news)
    except SparkmirrorError as failure:
        where = f"{topic.name} on {sides.flow.target.alias}"
        return f"{where} has no checkpoints of the groups as they were moved, and clients go by older ones: {failure}"
    return ""


def decide(
    flow: FlowConfig, moves: Sequence[GroupMove], newest: Mapping[GroupPlace, Checkpoint]
) -> tuple[Checkpoint, ...]:
    """The checkpoints that are news. Pure.

    Args:
        flow: along which groups were moved.
        moves: of the groups; a group that is left alone has none.
        newest: what the topic says, by group and partition of the target.
    """
    names = {place.partition.topic for move in moves for place in move.places}
    renamed = {name: topics.remote_topic(flow, name) for name in topics.wanted(flow, names)}
    return tuple(
        one
        for move in moves
        if not move.hindrance
        for one in _checkpoints(move, renamed)
        if is_news(one, newest.get(GroupPlace(one.group, one.partition)))
    )


def _checkpoints(move: GroupMove, renamed: Mapping[str, str]) -> Iterator[Checkpoint]:
    """One for each place in a topic that the flow copies; copies that go back to their originals have none."""
    for place in move.places:
        if place.target is None or place.offset == NO_OFFSET:
            continue
        if renamed.get(place.partition.topic) == place.target.topic:
            yield Checkpoint(
                group=move.group,
                partition=place.target,
                upstream=place.committed.offset,
                downstream=place.offset - place.further,  # where somebody else has put it is no translation
                metadata=place.committed.metadata,
            )
