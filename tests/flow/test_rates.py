"""Rates over the last few seconds."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparkmirror.flow.rates import WINDOW_SECONDS, Rates


def test_one_moment_is_no_rate():
    assert Rates().take(10.0, 500, 5_000) == (0.0, 0.0)


def test_a_steady_flow_has_its_rate():
    rates = Rates()
    told = [rates.take(100 + n, 50 * n, 600 * n) for n in range(20)]
    assert told[1:] == [(50.0, 600.0)] * 19


def test_what_was_before_the_window_does_not_count():
    rates = Rates()
    rates.take(0.0, 0, 0)
    for second in range(1, 30):
        told = rates.take(float(second), 1_000, 10_000)
    assert told == (0.0, 0.0)


def test_totals_that_shrink_give_no_negative_rate():
    """A partition that begins anew starts its count over."""
    rates = Rates()
    rates.take(0.0, 900, 9_000)
    assert rates.take(1.0, 10, 100) == (0.0, 0.0)


def test_two_looks_at_one_moment_do_not_divide_by_nothing():
    rates = Rates()
    rates.take(5.0, 1, 1)
    assert rates.take(5.0, 2, 2) == (0.0, 0.0)


@given(st.lists(st.tuples(st.floats(0.01, 3), st.integers(0, 1_000)), min_size=1, max_size=60))
def test_the_rate_lies_between_the_slowest_and_the_fastest_step(steps: list[tuple[float, int]]):
    rates, now, total = Rates(), 0.0, 0
    rates.take(now, total, total)
    pace = []
    for seconds, records in steps:
        now, total = now + seconds, total + records
        pace.append(records / seconds)
        told, _ = rates.take(now, total, total)
        assert min(pace) * 0.999 <= told <= max(pace) * 1.001


def test_a_long_run_keeps_no_more_than_the_window():
    rates = Rates()
    for tick in range(10_000):
        rates.take(tick / 10, tick, tick)
    assert len(rates._samples) <= WINDOW_SECONDS * 10 + 2
    assert rates.take(1_000.0, 10_000, 10_000) == pytest.approx((10.0, 10.0))
