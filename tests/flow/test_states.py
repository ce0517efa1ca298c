"""The table of a flow's states."""

from __future__ import annotations

import pytest

from sparkmirror.flow.states import ENDED, TRANSITIONS, FlowState, follow


def test_every_state_has_a_row():
    assert set(TRANSITIONS) == set(FlowState)


def test_every_state_is_reached_from_the_start():
    reached, ahead = set(), [FlowState.STARTING]
    while ahead:
        state = ahead.pop()
        if state not in reached:
            reached.add(state)
            ahead += TRANSITIONS[state]
    assert reached == set(FlowState)


def test_what_has_ended_stays_ended():
    assert {FlowState.STOPPED, FlowState.DONE, FlowState.FAILED} == ENDED


def test_every_state_that_has_not_ended_may_fail():
    assert all(FlowState.FAILED in TRANSITIONS[state] for state in FlowState if state not in ENDED)


@pytest.mark.parametrize("now", FlowState)
@pytest.mark.parametrize("following", FlowState)
def test_only_the_table_decides(now: FlowState, following: FlowState):
    if following in TRANSITIONS[now]:
        assert follow(now, following) is following
    else:
        with pytest.raises(ValueError, match=f"from {now.value} to {following.value}"):
            follow(now, following)
