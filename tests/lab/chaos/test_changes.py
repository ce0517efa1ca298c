from __future__ import annotations

import pytest

from sparkmirror.failover.states import Kind
from sparkmirror.lab.chaos.changes import rounds


def test_a_seed_says_everything():
    assert list(rounds(7, 9)) == list(rounds(7, 9))
    assert list(rounds(7, 9)) != list(rounds(8, 9))
    assert list(rounds(7, 9))[:3] == list(rounds(7, 3))


@pytest.mark.parametrize("seed", range(10))
def test_two_rounds_are_a_failover_and_a_switchover(seed):
    assert {one.kind for one in rounds(seed, 2)} == {Kind.FAILOVER, Kind.SWITCHOVER}


def test_operators_and_drivers_are_killed_in_some_rounds():
    many = list(rounds(1, 40))
    for moments in ([one.back.operator_s for one in many], [one.back.driver_s for one in many]):
        assert 5 < sum(map(bool, moments)) < 35
