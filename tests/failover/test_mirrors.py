"""Which records on the cluster that came back are its own, by the registered producers of flows to it."""

from __future__ import annotations

import pytest

from sparkmirror.copy.registrations import Registration
from sparkmirror.failover.mirrors import Mirrors, mirrors_of

BACK, THIRD, RING = (
    Registration(producer_id=1, flow="b->a", cluster="A", origin=("B",), carried=("D",)),
    Registration(producer_id=2, flow="c->a", cluster="A", origin=("C",)),
    Registration(producer_id=3, flow="d->a", cluster="A", origin=("D",), carried=("B",)),
)


@pytest.mark.parametrize(
    ("drops", "onward"),
    [
        pytest.param(True, {2, 3}, id="by writers"),
        pytest.param(False, {1, 2, 3}, id="by names, which tell what has been on the target"),
    ],
)
def test_of_what_flows_have_brought_all_goes_on_but_what_comes_from_the_target_itself(drops, onward):
    every = frozenset({1, 2, 3})
    assert mirrors_of([BACK, THIRD, RING], "B", drops_returned=drops) == Mirrors(every, frozenset(onward))
