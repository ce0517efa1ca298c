"""Which mirrors an operation keeps from writing when it denies producers the topics of a flow. Pure.

A cluster that a flow leaves may be the target of flows from third clusters, whose copies the flow copies on: what is
denied to everybody is denied to these flows too, and to a MirrorMaker 2.
"""

from __future__ import annotations

from collections.abc import Iterable
from shlex import quote

from sparkmirror.config import FlowConfig
from sparkmirror.failover.plan import some
from sparkmirror.naming import policy_for


def copies_of_third_clusters(flow: FlowConfig, topics: Iterable[str]) -> tuple[str, ...]:
    """The topics of the source that are named as copies of neither of the flow's clusters, in order.

    Where names are kept no name tells.
    """
    policy, own = policy_for(flow.policy, flow.source.alias), (None, flow.source.alias, flow.target.alias)
    return tuple(sorted(name for name in set(topics) if policy.topic_source(name) not in own))


def said_of_copies(flow: FlowConfig, topics: Iterable[str], file: str) -> tuple[str, ...]:
    """What a plan tells of them.

    Args:
        flow: that leaves the cluster.
        topics: that are denied to everybody there.
        file: the configuration file, for the command that ends it.
    """
    names = copies_of_third_clusters(flow, topics)
    if not names:
        return ()
    release = f"sparkmirror release {quote(file)} --flow '{flow.name}' --fence-only"
    denied = (
        f"topics named as copies of other clusters are denied to everybody on {flow.source.alias} too: {some(names)}"
    )
    return (f"{denied}. Mirrors that make them stand still there: once no producer is left, {release} ends that",)
