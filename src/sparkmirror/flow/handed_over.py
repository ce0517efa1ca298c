"""Whether a flow that was handed over to MirrorMaker 2 may still go on from its own positions.

Invariant: it may as long as each of its target partitions ends where it left it; else MirrorMaker 2, or somebody, has
written since, and what it copied would be there twice.
"""

from __future__ import annotations

from sparkmirror.config import FlowConfig
from sparkmirror.duties import topics
from sparkmirror.errors import BrokerError, ConfigError
from sparkmirror.kafka import admin
from sparkmirror.kafka.cluster import Cluster
from sparkmirror.kafka.codes import UNKNOWN_TOPIC_OR_PARTITION
from sparkmirror.kafka.leaders import OffsetSpec
from sparkmirror.model import TopicPartition
from sparkmirror.offsets.records import Progress
from sparkmirror.offsets.state import JournalState


def check_handed_over(flow: FlowConfig, source: Cluster, target: Cluster, state: JournalState, file: str) -> None:
    """Refuses a flow whose positions are MirrorMaker 2's.

    Raises:
        ConfigError: they are.
        SparkmirrorError: a cluster cannot be asked.
    """
    if state.elsewhere is None:
        return
    timeout_ms = flow.admin_timeout_ms
    copied = {here: one for here, one in state.progress.items() if not topics.is_homeward(flow, here.topic)}
    left = {_there(flow, here): reached(progress) for here, progress in copied.items()}
    chosen = topics.choose(flow, admin.list_topics(source, timeout_ms=timeout_ms))
    here = (TopicPartition(name, number) for name, topic in chosen.items() for number in topic.partitions)
    left = {_there(flow, place): 0 for place in here} | left  # what the flow never copied was empty when it left
    asked = admin.find_offsets(target, list(left), OffsetSpec.LATEST, timeout_ms=timeout_ms)
    for failure in asked.failed.values():
        if not isinstance(failure, BrokerError) or failure.code != UNKNOWN_TOPIC_OR_PARTITION:
            raise failure
    moved = [place for place, end in left.items() if asked.found.get(place, 0) != end]
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
