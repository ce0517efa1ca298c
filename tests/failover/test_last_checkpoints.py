"""Which checkpoints an operation writes when it has moved groups."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sparkmirror.duties.groups import GroupPlace
from sparkmirror.failover.last_checkpoints import decide
from sparkmirror.failover.moves import GroupMove, MovedPlace
from sparkmirror.kafka.groups import Committed
from sparkmirror.mm2.checkpoints import Checkpoint
from sparkmirror.model import NO_OFFSET, TopicPartition
from tests.duties.groups import FLOW, HERE, THERE

PLACE = MovedPlace(partition=HERE, target=THERE, committed=Committed(120, "mine"), offset=30, before=10)
CHECKPOINT = Checkpoint(group="g", partition=THERE, upstream=120, downstream=30, metadata="mine")


def news(place: MovedPlace = PLACE, last: Checkpoint | None = None, hindrance: str = "") -> tuple[Checkpoint, ...]:
    move = GroupMove(group="g", seen_ms=1, places=(place,), hindrance=hindrance)
    return decide(FLOW, [move], {} if last is None else {GroupPlace("g", THERE): last})


@pytest.mark.parametrize(
    ("last", "written"),
    [
        (None, True),
        (replace(CHECKPOINT, upstream=110, downstream=20), True),
        (replace(CHECKPOINT, upstream=130, downstream=40), True),
        (CHECKPOINT, False),
    ],
)
def test_a_group_that_was_moved_has_a_checkpoint_of_where_it_goes_on(last, written):
    assert news(last=last) == ((CHECKPOINT,) if written else ())


def test_one_that_others_have_put_further_has_that_of_its_translation():
    assert news(replace(PLACE, offset=45, before=45, further=15)) == (CHECKPOINT,)


@pytest.mark.parametrize(
    "place",
    [
        replace(PLACE, target=None),
        replace(PLACE, offset=NO_OFFSET),
        replace(PLACE, target=TopicPartition("orders", 0)),
        replace(PLACE, partition=TopicPartition("B.orders", 0), target=TopicPartition("orders", 0)),
    ],
)
def test_what_has_no_place_in_a_copy_of_the_flow_has_none(place):
    assert news(place) == ()


def test_nor_has_a_group_that_is_left_alone():
    assert news(hindrance="it has members on the target") == ()
