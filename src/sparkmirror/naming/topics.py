"""Which topics a flow copies, and the names of sparkmirror's own topics.

Invariants: MirrorMaker 2's rule, a topic is copied when (the filter says yes, or it is a heartbeats topic and these are
replicated) and it is neither internal nor a cycle. Sparkmirror's own topics are internal under every policy: copied,
they would tell another cluster of positions and writers that are not its own.

Reference: ``MirrorSourceConnector.shouldReplicateTopic``, ``ReplicationPolicy.checkpointsTopic``.
"""

from __future__ import annotations

import re
from enum import Enum

from sparkmirror.config import FlowConfig
from sparkmirror.model import FlowName
from sparkmirror.naming.filters import TopicFilter
from sparkmirror.naming.policies import ReplicationPolicy

WRITERS_TOPIC = "sparkmirror.writers.internal"
"""Names the producers of mirrors, on each cluster that a flow writes to; read by flows that read from there."""

MAX_TOPIC_NAME = 249
"""Kafka's limit, in characters."""


DIVERGENT = re.compile(r".+\.divergent\.\d{8}-\d{6}(-\d+)?")
"""Names of the topics that keep what a failback put aside, see ``failover.divergence``."""


class Decision(Enum):
    """Whether a topic is copied, and why."""

    CHOSEN = "chosen by topics"
    HEARTBEATS = "a heartbeats topic, replicated whatever topics says"
    INTERNAL = "an internal topic of Kafka, MirrorMaker 2 or sparkmirror"
    RESERVED = "its copy would have the name of an internal topic of MirrorMaker 2 or sparkmirror"
    CYCLE = "its name tells that it came from the target"
    HOMEWARD = "a copy of the target's topic: what others wrote to it goes home, and nothing else of it"
    DIVERGENT = (
        "it keeps what a failback put aside, which its cluster alone is to have; an expression of topics that has the "
        "word divergent copies it"
    )
    NOT_INCLUDED = "not named by topics"
    EXCLUDED = "named by topics.exclude"

    @property
    def replicate(self) -> bool:
        """Whether the topic is copied."""
        return self in (Decision.CHOSEN, Decision.HEARTBEATS)

    @property
    def read(self) -> bool:
        """Whether the topic is read, to be copied or for what others wrote to it."""
        return self.replicate or self is Decision.HOMEWARD


def should_replicate(topic: str, flow: FlowConfig, policy: ReplicationPolicy, chosen: TopicFilter) -> Decision:
    """Decides on one source topic.

    Args:
        topic: its name on the source.
        flow: the flow.
        policy: the flow's policy, from `policy_for`.
        chosen: the flow's filter, from `topic_filter`.
    """
    if policy.is_internal_topic(topic):
        return Decision.INTERNAL
    if DIVERGENT.fullmatch(topic) and chosen.matches(topic) and not _names_divergent(flow):
        return Decision.DIVERGENT
    if policy.is_cycle(topic, flow.target.alias):
        original = homeward_original(topic, flow, policy)
        return Decision.CYCLE if original is None else _homeward(topic, original, chosen)
    if chosen.matches(topic):
        return Decision.RESERVED if _is_reserved(policy, flow, topic) else Decision.CHOSEN
    if flow.heartbeats_replication and policy.is_heartbeats_topic(topic):
        return Decision.HEARTBEATS
    return Decision.EXCLUDED if chosen.included(topic) else Decision.NOT_INCLUDED


def _is_reserved(policy: ReplicationPolicy, flow: FlowConfig, topic: str) -> bool:
    """Whether a copy would lie where mirrors keep records of their own, such as ``<alias>.checkpoints.internal``."""
    copy = policy.format_remote_topic(flow.source.alias, topic)
    return policy.is_internal_topic(copy) or (copy.startswith(("mm2-", "sparkmirror.")) and copy.endswith(".internal"))


def homeward_original(topic: str, flow: FlowConfig, policy: ReplicationPolicy) -> str | None:
    """The topic of the target of which a source topic is a direct copy, where the flow brings home what others wrote.

    What the source's topics are called on the target is no such original: that is this flow's own copy.
    """
    if not flow.brings_home or policy.topic_source(topic) != flow.target.alias or policy.is_heartbeats_topic(topic):
        return None
    original = policy.upstream_topic(topic)
    own = original is None or policy.is_internal_topic(original) or policy.topic_source(original) == flow.source.alias
    return None if own else original


def _names_divergent(flow: FlowConfig) -> bool:
    """Whether the operator means such topics, and has not only said all."""
    return any("divergent" in expression for expression in flow.topics)


def _homeward(topic: str, original: str, chosen: TopicFilter) -> Decision:
    """One name of the two has to be chosen, and neither excluded: files name topics as they were born, as a rule."""
    names = (topic, original)
    if any(chosen.included(name) for name in names) and not any(chosen.excluded(name) for name in names):
        return Decision.HOMEWARD
    return Decision.CYCLE


def internal_topic(flow: FlowName) -> str:
    """The topic on the target that holds the flow's map and progress."""
    return f"sparkmirror.{flow.source}.{flow.target}.internal"


def control_topic(flow: FlowName) -> str:
    """The topic on the target through which the driver speaks to running lanes."""
    return f"sparkmirror.{flow.source}.{flow.target}.control.internal"
