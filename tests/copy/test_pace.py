"""How much a lane may fetch in a span of time."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from sparkmirror.copy.pace import BURST_SECONDS, LEAST_BYTES, Pace


def test_a_lane_without_a_rate_is_never_held_back():
    pace = Pace()
    pace.take(1 << 40)
    assert pace.ready(0.0)
    assert pace.most(8 << 20) == 8 << 20


def test_a_lane_waits_until_what_it_took_is_paid_for():
    pace = Pace()
    pace.change(1_000.0, 100.0)
    assert not pace.ready(100.0), "it begins with nothing"
    assert pace.ready(100.5)
    pace.take(3_000)
    assert not pace.ready(102.9)
    assert pace.ready(103.1)


def test_time_without_data_saves_up_one_second_at_most():
    pace = Pace()
    pace.change(1_000.0, 0.0)
    assert pace.ready(3_600.0)
    pace.take(2_000)
    assert not pace.ready(3_600.9)
    assert pace.ready(3_601.1)


def test_a_request_asks_for_a_second_of_the_rate_but_never_for_next_to_nothing():
    pace = Pace()
    pace.change(1_000_000.0, 0.0)
    assert pace.most(8 << 20) == 1_000_000
    assert pace.most(5) == 5
    pace.change(10.0, 0.0)
    assert pace.most(8 << 20) == LEAST_BYTES


def test_a_lower_rate_takes_what_was_saved_up_and_no_rate_ends_the_debt():
    pace = Pace()
    pace.change(1_000.0, 0.0)
    assert pace.ready(1.0)
    pace.change(10.0, 1.0)
    pace.take(20)
    assert not pace.ready(1.9)
    pace.take(1 << 30)
    pace.change(None, 2.0)
    assert pace.ready(2.0)


@given(
    st.floats(1_000, 1e8),
    st.lists(st.tuples(st.floats(0.0, 5.0), st.integers(1, 1 << 20)), max_size=60),
)
def test_over_any_span_no_more_is_taken_than_rate_and_one_answer_and_one_second(rate, steps):
    pace = Pace()
    pace.change(rate, 0.0)
    now, taken, largest = 0.0, 0, 0
    for pause, size in steps:
        now += pause
        if pace.ready(now):
            pace.take(size)
            taken, largest = taken + size, max(largest, size)
        assert taken <= (now + BURST_SECONDS) * rate * 1.001 + largest
