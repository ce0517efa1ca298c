"""What the file of an operation leaves out of what its flow copies and translates, for people."""

from __future__ import annotations

from collections.abc import Iterable

from sparkmirror.config import FlowConfig
from sparkmirror.duties import chosen_groups, topics
from sparkmirror.failover import plan
from sparkmirror.kafka.groups import GroupListing
from sparkmirror.offsets.state import JournalState


def since(flow: FlowConfig, state: JournalState, listed: Iterable[GroupListing] = ()) -> tuple[str, ...]:
    """What the flow's newest run has copied or translated: the file is another one, or was changed.

    Args:
        flow: the flow, as it is configured.
        state: of its internal topic.
        listed: the groups of the source that an operation deals with, which may not be on record yet.

    Raises:
        ConfigError: an expression of the flow cannot be used.
    """
    groups = chosen_groups.left_out_since(flow, state, (each.name for each in listed))
    return (
        *plan.without_since(flow.name, topics.left_out_since(flow, state.flow, state.progress)),
        *plan.groups_without_since(flow.name, groups),
    )


def before(flow: FlowConfig, state: JournalState) -> tuple[str, ...]:
    """What the flow has copied or put on record at any time.

    Raises:
        ConfigError: an expression of the flow cannot be used.
    """
    return (
        *plan.without(flow.name, topics.left_out(flow, state.progress)),
        *plan.groups_without(flow.name, chosen_groups.left_out(flow, state)),
    )
