"""Which offsets are committed on the target: for groups without members, forward, or back with the source."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sparkmirror.duties.group_offsets import CommitOffsets, Hindered, decide
from sparkmirror.duties.groups import GroupPlace
from sparkmirror.kafka.groups import Committed
from sparkmirror.model import Alias
from tests.duties.groups import READERS, THERE, at, with_target

WAS = GroupPlace("readers", THERE)
FORWARD = CommitOffsets(
    cluster=Alias("B"), group="readers", offsets={THERE: Committed(30, "mine")}, upstream={THERE: 120}
)
NEW = replace(FORWARD, new=True)
BACK = replace(FORWARD, back=(THERE,))


@pytest.mark.parametrize(
    ("observed", "before", "decided"),
    [
        (READERS, {}, (NEW,)),
        (with_target(None), {}, (FORWARD,)),
        (with_target(None, "Dead"), {}, (FORWARD,)),
        (with_target(29), {}, (FORWARD,)),
        (with_target(29), {WAS: 500}, (FORWARD,)),
        (with_target(30), {}, ()),
        (with_target(30), {WAS: 130}, ()),
        (with_target(40), {}, ()),
        (with_target(40), {WAS: 119}, ()),
        (with_target(40), {WAS: 120}, ()),
        (with_target(40), {WAS: 121}, (BACK,)),
        (with_target(29, "Stable"), {}, ()),
        (with_target(40, "Stable"), {WAS: 130}, ()),
        (with_target(29, "CompletingRebalance"), {}, ()),
        (with_target(29, "Assigning"), {}, ()),
        (with_target(29, ""), {}, (FORWARD,)),
        (at(151), {}, ()),
    ],
)
def test_an_offset_goes_forward_where_nobody_is_and_back_only_with_the_source(observed, before, decided):
    assert decide(observed, before) == decided


def test_a_group_that_cannot_be_read_is_reported():
    there = replace(with_target(None), unreadable_there={"readers": "no"})
    assert decide(there, {}) == (Hindered(group="readers", reason="no"),)
    assert decide(replace(READERS, offsets={}, unreadable={"readers": "shy"}), {}) == (
        Hindered(group="readers", reason="shy"),
    )


def test_a_diff_shows_groups_that_are_new_or_go_back_and_not_how_others_go_on():
    assert NEW.change is not None
    assert NEW.change.text == "+ B: group readers  offsets of 1 partitions"
    assert BACK.change is not None
    assert BACK.change.text == "~ B: group readers  goes back as at the source: A.orders-0 to 30"
    assert FORWARD.change is None
