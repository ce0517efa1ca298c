"""The states of a flow and how one follows another: a table, and the only place that says so."""

from __future__ import annotations

from enum import Enum


class FlowState(Enum):
    """What a flow is doing."""

    STARTING = "starting"
    RUNNING = "running"
    DRAINING = "draining"
    STOPPED = "stopped"
    DONE = "done"
    FAILED = "failed"


TRANSITIONS: dict[FlowState, frozenset[FlowState]] = {
    FlowState.STARTING: frozenset({FlowState.RUNNING, FlowState.DRAINING, FlowState.FAILED}),
    FlowState.RUNNING: frozenset({FlowState.DRAINING, FlowState.DONE, FlowState.FAILED}),
    FlowState.DRAINING: frozenset({FlowState.STARTING, FlowState.STOPPED, FlowState.DONE, FlowState.FAILED}),
    FlowState.STOPPED: frozenset(),
    FlowState.DONE: frozenset(),
    FlowState.FAILED: frozenset(),
}

ENDED = frozenset(state for state, following in TRANSITIONS.items() if not following)


def follow(now: FlowState, following: FlowState) -> FlowState:
    """The next state.

    Raises:
        ValueError: the table does not allow it, which is a defect.
    """
    if following not in TRANSITIONS[now]:
        raise ValueError(f"a flow cannot go from {now.value} to {following.value}")
    return following
