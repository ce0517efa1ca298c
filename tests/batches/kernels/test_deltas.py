"""Times and deltas at the ends of 64 bits, in the forms that compilers simplify."""

from __future__ import annotations

from hypothesis import example, given
from hypothesis import strategies as st

from sparkmirror.batches.kernels import deltas
from tests.batches.building import compiled
from tests.batches.oracle import wrapped

LONGS = st.integers(-(2**63), 2**63 - 1)


@compiled
def delta_of(time: int, base: int) -> int:
    return deltas.delta_of(time, base)


@compiled
def time_of(base: int, delta: int) -> int:
    return deltas.time_of(base, delta)


@compiled
def sign_of_delta(time: int, base: int) -> int:
    """Asked for alone, a compiler may think of comparing the two."""
    return deltas.delta_of(time, base) >> 63


@given(LONGS, LONGS)
@example(2**63 - 1, -(2**63))
@example(-(2**63), 2**63 - 1)
@example(2**63 - 1, -5)
def test_deltas_wrap_around_and_back(time: int, base: int) -> None:
    delta = delta_of(time, base)
    assert delta == wrapped(time - base)
    assert time_of(base, delta) == time
    assert sign_of_delta(time, base) == delta >> 63
