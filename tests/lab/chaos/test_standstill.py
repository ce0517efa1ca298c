from __future__ import annotations

import pytest

from sparkmirror.lab.chaos.standstill import Standstill, longest


def stretch(began: float, ended: float) -> Standstill:
    return Standstill(topic="t", partition=0, began=began, ended=ended)


@pytest.mark.parametrize(
    ("stretches", "expected"),
    [
        pytest.param([], 0.0, id="none"),
        pytest.param([stretch(12, 15), stretch(13, 14)], 3.0, id="the longest counts"),
        pytest.param([stretch(19, 40)], 21.0, id="one that outlasts the fault"),
        pytest.param([stretch(5, 11)], 6.0, id="one that had begun before"),
        pytest.param([stretch(1, 9), stretch(21, 60)], 0.0, id="others have nothing to do with it"),
    ],
)
def test_the_longest_standstill_of_a_fault(stretches: list[Standstill], expected: float) -> None:
    assert longest(stretches, 10, 20) == expected
