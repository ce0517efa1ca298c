"""The pause before a retry."""

from __future__ import annotations

import pytest

from sparkmirror.copy.backoff import Backoff


@pytest.mark.parametrize(
    ("backoff", "pauses"),
    [
        (Backoff(), [0.1, 0.2, 0.4, 0.8, 1.0, 1.0]),
        (Backoff(first=0.0, most=1.0), [0.0, 0.0]),
        (Backoff(first=5.0, most=2.0), [2.0, 2.0]),
    ],
)
def test_the_pause_doubles_up_to_its_limit(backoff: Backoff, pauses: list[float]):
    assert [backoff.after(n + 1) for n in range(len(pauses))] == pytest.approx(pauses)


def test_any_number_of_refusals_has_a_pause():
    assert Backoff().after(10_000) == 1.0
