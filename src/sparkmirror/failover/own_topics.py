"""Which topics the record of an operation may have commands change or read: those of its flow. Pure.

Whoever may write to a flow's internal topic may put any name into such a record, and a command has rights to more
topics than the flow has to do with. So each name is held against the configuration and against what was copied, where
it is used.

Invariant: a name that is neither chosen by the flow, nor copied by it, nor that of a copy of such a topic, is let
through nowhere; it is told.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable

from sparkmirror.config import FlowConfig
from sparkmirror.duties import topics
from sparkmirror.model import TopicPartition
from sparkmirror.naming import policy_for

Own = Callable[[Collection[str]], frozenset[str]]
"""Those of some topics of a cluster that the flow has to do with there."""


def at_source(flow: FlowConfig, begun: Iterable[TopicPartition], names: Collection[str]) -> frozenset[str]:
    """Those of the names that the flow reads as it is configured, or has copied.

    Args:
        flow: the flow.
        begun: partitions with a position on record.
        names: of topics of its source.
    """
    read = {*topics.wanted(flow, names), *topics.homeward(flow, names)}
    return frozenset(read.union({place.topic for place in begun}.intersection(names)))


def at_target(
    flow: FlowConfig, begun: Iterable[TopicPartition], back: FlowConfig | None, names: Collection[str]
) -> frozenset[str]:
    """Those of the names that are of copies of such topics, or that the flow back reads.

    Args:
        flow: the flow.
        begun: partitions with a position on record.
        back: the flow the other way, where there is one.
        names: of topics of its target.
    """
    known, policy = tuple(begun), policy_for(flow.policy, flow.source.alias)
    copies = {topics.remote_topic(flow, place.topic) for place in known}.intersection(names)
    if flow.policy.keeps_names:
        copies |= at_source(flow, known, names)
    else:
        originals = {name: policy.upstream_topic(name) for name in names if _is_copy(flow, name)}
        own = at_source(flow, known, {original for original in originals.values() if original is not None})
        copies |= {name for name, original in originals.items() if original in own}
    return frozenset(copies if back is None else copies | at_source(back, (), names))


def _is_copy(flow: FlowConfig, name: str) -> bool:
    return policy_for(flow.policy, flow.source.alias).topic_source(name) == flow.source.alias


def told_of_strange(names: Collection[str], flow: str, where: str) -> tuple[str, ...]:
    """What is told of names on record that the flow has nothing to do with; empty where there are none.

    Args:
        names: the topics.
        flow: its name.
        where: the cluster.
    """
    if not names:
        return ()
    text = (
        f"the record of {flow} names topics of {where} that the flow neither chooses nor has copied: "
        f"{', '.join(sorted(names))}. Nothing was done with them: see who may write to the flow's internal topic. "
        "Where they were the flow's, kafka-acls --remove takes rules away that deny writing to them"
    )
    return (text,)
