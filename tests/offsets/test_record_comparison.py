"""Up to where records are the same, against a plain comparison of all of them."""

from __future__ import annotations

from collections.abc import Collection

from hypothesis import given
from hypothesis import strategies as st

from sparkmirror.offsets.record_comparison import (
    BYTES,
    FEW,
    LAST,
    OFFSETS,
    OPENING,
    STEP_BYTES,
    Comparison,
    Pair,
)
from sparkmirror.offsets.source_history import Alike, Looked


def compared(
    first: int,
    end: int,
    others: Collection[int],
    *,
    without: Collection[int] = (),
    size: int = 10,
    beside: int = 1,
) -> tuple[Looked, int, int]:
    """What is known at the end, how many offsets were read for it, and in how many parts."""
    comparison, read, parts = Comparison(first, end, beside), 0, 0
    while (part := comparison.next()) is not None:
        assert first <= part.first < part.end <= end
        most = max(1, comparison.step_bytes // size)
        read_to = min(part.end, part.first + most)
        there = range(part.first, read_to)
        comparison.take(
            part, [Pair(at, at not in others) for at in there if at not in without], read_to, len(there) * size
        )
        read, parts = read + len(there), parts + 1
        assert parts < 1_000, "it ends"
    return comparison.result, read, parts


@given(
    st.integers(0, 50),
    st.integers(1, 3_000),
    st.sets(st.integers(0, 3_000), max_size=3),
    st.sets(st.integers(0, 60), max_size=60),
    st.sampled_from([10, 100_000]),
)
def test_a_span_of_any_length_within_the_budget_is_the_same_up_to_its_first_difference(
    first, length, others, without, size
):
    end = first + min(length, 300 if size > 10 else length)
    there = [at for at in range(first, end) if at not in without]
    result, _, _ = compared(first, end, others, without=without, size=size)
    if not there:
        assert result == Looked(Alike.UNKNOWN, end)
        return
    other = next((at for at in there if at in others), None)
    if other is None:
        assert result == Looked(Alike.SAME, end)
    elif other in there[:FEW]:
        assert result.alike is Alike.OTHER
    else:
        assert result == Looked(Alike.SAME, max(at for at in there if at < other) + 1, differs=True)


def test_logs_part_behind_the_last_record_that_is_the_same_though_a_marker_lies_there_in_the_copy():
    result, _, _ = compared(0, 300, range(123, 300), without=[121, 122])
    assert result == Looked(Alike.SAME, 121, differs=True)
    result, _, _ = compared(0, 5_000, range(3_000, 5_000), without=range(2_500, 3_000))
    assert result == Looked(Alike.SAME, 2_500, differs=True)


def test_what_a_long_span_costs_is_bounded():
    result, read, _ = compared(0, 10_000_000, ())
    assert result == Looked(Alike.SAME, 10_000_000)
    assert read < OFFSETS
    result, read, _ = compared(0, 10_000_000, (), without=range(10_000_000))
    assert result == Looked(Alike.UNKNOWN, 10_000_000)
    assert read == sum(OPENING)
    _, read, _ = compared(0, 10_000_000, (), size=1 << 20)
    assert read << 20 <= BYTES + 2 * STEP_BYTES
    for beside in (10, 1_000, 100_000):
        _, read, _ = compared(0, 1_500, (), size=1_000, beside=beside)
        assert read <= 1_500


def test_a_comparison_that_is_stopped_reads_nothing_more():
    comparison = Comparison(0, 1_000)
    comparison.stop()
    assert (comparison.next(), comparison.result) == (None, Looked(Alike.UNKNOWN, 1_000))
    comparison = Comparison(0, 1_000)
    part = comparison.next()
    assert part is not None
    comparison.take(part, [Pair(at, same=True) for at in range(200)], part.end, 10)
    comparison.stop()
    part = comparison.next()
    assert part == (1_000 - LAST, 1_000), "but for the last ones"
    comparison.take(part, [Pair(at, at < 900) for at in range(*part)], part.end, 10)
    assert comparison.next() is None
    assert comparison.result == Looked(Alike.SAME, 200, differs=True, proven=False)


def test_where_the_first_difference_of_a_long_span_is_not_found_nothing_behind_what_was_compared_is_believed():
    others = range(5_000_000, 10_000_000)
    result, read, _ = compared(0, 10_000_000, others)
    assert (result.alike, result.differs, result.proven) == (Alike.SAME, True, False)
    assert OPENING[0] <= result.end <= read
    result, _, _ = compared(0, 10_000_000, range(9_000, 10_000_000))
    assert result == Looked(Alike.SAME, 9_000, differs=True)
    assert compared(0, 10_000_000, [10_000_000 - LAST])[0].differs, "the last ones are compared"
    assert not compared(0, 10_000_000, [4_000_001])[0].differs, "one in between may not be seen"
