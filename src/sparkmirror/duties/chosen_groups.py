"""Which groups of the source an operation deals with: those of its file, and those that the flow itself translates.

The file of an operation may have other ``groups`` than the flow runs with. What the flow translates is on its record:
the expressions of its newest run. A release before has not told these; then it is what it has put on record of groups.
Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import replace

from sparkmirror.config import FlowConfig
from sparkmirror.naming import group_filter
from sparkmirror.offsets.records import FlowRecord
from sparkmirror.offsets.state import JournalState


def chooser(flow: FlowConfig, state: JournalState | None) -> Callable[[str], bool]:
    """Says of a group's name whether an operation deals with it.

    Args:
        flow: the flow, as it is configured.
        state: of its internal topic.

    Raises:
        ConfigError: an expression cannot be used.
    """
    own = group_filter(flow).matches
    if state is None:
        return own
    translated = _translated(flow, state)
    return lambda name: own(name) or translated(name)


def left_out_since(flow: FlowConfig, state: JournalState, listed: Iterable[str] = ()) -> list[str]:
    """The groups that the flow translates and that its configuration leaves out since, in order.

    Args:
        flow: the flow, as it is configured.
        state: of its internal topic, with the groups on record.
        listed: groups of the source that may not be on record yet.

    Raises:
        ConfigError: an expression cannot be used.
    """
    own, translated = group_filter(flow).matches, _translated(flow, state)
    return sorted(name for name in {*on_record(state), *listed} if translated(name) and not own(name))


def left_out(flow: FlowConfig, state: JournalState) -> list[str]:
    """The groups on record that no operation deals with, until the flow takes them off the record, in order.

    Args:
        flow: the flow, as it is configured.
        state: of its internal topic.

    Raises:
        ConfigError: an expression cannot be used.
    """
    chosen = chooser(flow, state)
    return sorted(name for name in on_record(state) if not chosen(name))


def on_record(state: JournalState) -> set[str]:
    """The groups of which the flow has put on record what they had committed on the source."""
    return {one.group for one in state.groups.values()}


def _translated(flow: FlowConfig, state: JournalState) -> Callable[[str], bool]:
    told = state.flow
    if told is None or not told.groups:
        known: Collection[str] = on_record(state)
        return lambda name: name in known
    return group_filter(_as_told(flow, told)).matches


def _as_told(flow: FlowConfig, told: FlowRecord) -> FlowConfig:
    return replace(flow, groups=replace(flow.groups, include=told.groups, exclude=told.groups_exclude))
