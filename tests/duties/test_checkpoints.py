"""Which checkpoints are written: forward on the target, or back with the source."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sparkmirror.duties.checkpoints import Emit, decide, log_starts_needed
from sparkmirror.duties.groups import GroupPlace, Unreadable
from sparkmirror.mm2.checkpoints import Checkpoint
from tests.duties.groups import READERS, THERE, at


def checkpoint(upstream: int, downstream: int, metadata: str = "mine") -> Checkpoint:
    return Checkpoint(group="readers", partition=THERE, upstream=upstream, downstream=downstream, metadata=metadata)


@pytest.mark.parametrize(
    ("last", "written"),
    [
        (None, True),
        (checkpoint(110, 20), True),
        (checkpoint(120, 30), False),
        (checkpoint(120, 30, "yours"), False),
        (checkpoint(119, 30), False),
        (checkpoint(121, 31), True),
        (checkpoint(121, 30), True),
        (checkpoint(110, 31), True),
        (checkpoint(110, 30), False),
    ],
)
def test_a_checkpoint_is_written_when_it_is_further_or_the_newest_is_too_far(last, written):
    newest = {} if last is None else {GroupPlace("readers", THERE): last}
    assert decide(READERS, newest) == ((Emit(checkpoint=checkpoint(120, 30)),) if written else ())


def test_what_cannot_be_translated_is_not_written():
    assert decide(at(151), {}) == ()


def test_a_group_that_cannot_be_read_is_reported_and_stops_no_other():
    observed = replace(READERS, unreadable={"shy": "GROUP_AUTHORIZATION_FAILED"})
    assert decide(observed, {}) == (
        Emit(checkpoint=checkpoint(120, 30)),
        Unreadable(group="shy", reason="GROUP_AUTHORIZATION_FAILED"),
    )


@pytest.mark.parametrize(("last", "written"), [(None, True), (checkpoint(120, 30), True), (checkpoint(120, 40), False)])
def test_a_checkpoint_names_no_record_below_the_log_start_of_the_copy(last, written):
    newest = {} if last is None else {GroupPlace("readers", THERE): last}
    observed = replace(READERS, log_starts={THERE: 40})
    assert decide(observed, newest) == ((Emit(checkpoint=checkpoint(120, 40)),) if written else ())
    assert decide(replace(READERS, log_starts={THERE: None}), newest) == ()


def test_the_log_start_is_asked_for_groups_that_lag_or_go_on():
    assert log_starts_needed(READERS, {}) == {THERE}
    assert log_starts_needed(READERS, {GroupPlace("readers", THERE): checkpoint(120, 30)}) == {THERE}
    assert log_starts_needed(at(150), {GroupPlace("readers", THERE): checkpoint(150, 60)}) == set()
