"""Whether a flow that was handed over to MirrorMaker 2 may still go on from its own positions.

Invariant: it may as long as each of its target partitions ends where it left it; else MirrorMaker 2, or somebody, has
written since, and what it copied would be there twice.
"""

from __future__ import annotations

from sparkmirror.config import FlowConfig
from sparkmirror.duties import topics
from sparkmirror.errors import ConfigError
from sparkmirror.kafka import admin
from sparkmirror.kafka.cluster import Cluster
from sparkmirror.kafka.leaders import OffsetSpec
from sparkmirror.model import TopicPartition
from sparkmirror.offsets.records import Progress
from sparkmirror.offsets.state import JournalState


def check_handed_over(flow: FlowConfig, target: Cluster, state: JournalState, file: str) -> None:
    """Refuses a flow whose positions are MirrorMaker 2's.

    Raises:
        ConfigError: they are.
        SparkmirrorError: the target cannot be asked.
    """
    if state.elsewhere is None:
        return
    there = {_there(flow, here): progress for here, progress in state.progress.items()}
    ends = admin.find_offsets(target, list(there), OffsetSpec.LATEST, timeout_ms=flow.admin_timeout_ms).found
    moved = [place for place, progress in there.items() if ends.get(place) != reached(progress)]
    pending = state.elsewhere.pending
    if not moved and not pending:
        return
    what = "a takeover from there did not end" if pending else f"{moved[0]} does not end where the flow left it"
    raise ConfigError(
        file=file,
        key=str(flow.name),
        reason=f"the flow's positions are with MirrorMaker 2, in {state.elsewhere.topic}, and {what}",
        remedy="stop MirrorMaker 2 and start the flow with --take-over mm2: it goes on from there",
    )


def reached(progress: Progress) -> int:
    """Where the target partition ended, as far as the flow knows."""
    return max(progress.target + 1, progress.reached.end)


def _there(flow: FlowConfig, here: TopicPartition) -> TopicPartition:
    return TopicPartition(topics.remote_topic(flow, here.topic), here.partition)
