"""Which checkpoints are written: forward on the target, or back with the source."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sparkmirror.duties.checkpoints import Emit, decide, log_starts_needed
from sparkmirror.duties.groups import GroupPlace, Unreadable
from sparkmirror.mm2.checkpoints import Checkpoint
from sparkmirror.offsets.group_records import FlowCommit
from tests.duties.groups import HERE, READERS, THERE, at
from tests.duties.test_groups import shared


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


def test_the_log_start_is_asked_for_groups_that_go_on_lag_or_are_level():
    assert log_starts_needed(READERS, {}) == {THERE}
    assert log_starts_needed(READERS, {GroupPlace("readers", THERE): checkpoint(120, 30)}) == {THERE}
    assert log_starts_needed(at(150), {GroupPlace("readers", THERE): checkpoint(150, 60)}) == {THERE}
    assert log_starts_needed(at(151), {}) == set()


@pytest.mark.parametrize(
    ("observed", "last", "written"),
    [
        (at(120), None, 30),
        (at(120), checkpoint(110, 20), 30),
        (at(120), checkpoint(130, 40), 30),
        (at(155), checkpoint(150, 60), 65),
        (at(155), checkpoint(155, 65), None),
    ],
)
def test_a_group_that_the_flow_back_has_placed_has_the_checkpoint_of_where_it_stands(observed, last, written):
    (committed,) = observed.offsets["readers"].values()
    placed = shared(
        observed, commits={"readers": {HERE: FlowCommit(committed.offset, 65 if written is None else written)}}
    )
    newest = {} if last is None else {GroupPlace("readers", THERE): last}
    emitted = () if written is None else (Emit(checkpoint=checkpoint(committed.offset, written)),)
    assert decide(placed, newest) == emitted


def test_it_is_not_taken_beyond_where_it_stood_there():
    """Between the two flows the order of records differs: by the maps alone it would be further."""
    placed = shared(at(155), commits={"readers": {HERE: FlowCommit(155, 62)}})
    assert decide(placed, {}) == (Emit(checkpoint=checkpoint(155, 62)),)


def test_while_a_failback_places_groups_no_checkpoint_is_written():
    placed = shared(at(120), placing=True, commits={"readers": {HERE: FlowCommit(120, 30)}})
    assert decide(placed, {}) == ()
