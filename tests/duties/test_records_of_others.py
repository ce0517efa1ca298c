"""Where a copy may hold records of others, by what its offset map tells of the flow's own."""

from __future__ import annotations

import pytest

from sparkmirror.duties.records_of_others import NEAR, gaps, joined
from sparkmirror.kafka.reading import Span
from sparkmirror.offsets.map import OffsetMap, Stretch


class Known(OffsetMap):
    """A map that knows these stretches."""

    def __init__(self, *stretches: tuple[int, int]) -> None:
        self._stretches = [Stretch(0, target, length) for target, length in stretches]

    def settled(self, after: int = -1):  # noqa: ARG002 - as of any map
        return iter(self._stretches)


@pytest.mark.parametrize(
    ("known", "first", "end", "expected"),
    [
        (((0, 20),), 0, 20, []),
        (((0, 20),), 0, 31, [(20, 31)]),
        (((0, 10), (10, 10)), 0, 20, []),
        (((0, 10), (12, 8)), 0, 20, [(10, 12)]),
        (((5, 10),), 0, 15, [(0, 5)]),
        (((5, 10),), 5, 15, []),
        (((0, 5), (8, 10)), 7, 18, [(7, 8)]),
        (((5, 10), (20, 5)), None, 30, [(15, 20), (25, 30)]),
        (((5, 10),), 0, 3, [(0, 3)]),
        ((), 0, 7, [(0, 7)]),
        ((), None, 7, []),
        ((), 7, 7, []),
    ],
)
def test_what_the_map_does_not_know_may_be_of_others(
    known: tuple[tuple[int, int], ...], first: int | None, end: int, expected: list[tuple[int, int]]
):
    assert [tuple(span) for span in gaps(Known(*known), first, end)] == expected


def test_without_a_map_everything_may_be_of_others():
    assert list(gaps(None, 3, 9)) == [Span(3, 9)]
    assert list(gaps(None, None, 9)) == []


def test_spans_near_each_other_are_read_as_one_and_what_is_deleted_is_not():
    spans = [Span(0, 5), Span(10, 20), Span(20 + NEAR, 30 + NEAR), Span(31 + 2 * NEAR, 32 + 2 * NEAR)]
    assert joined(spans, 7) == [Span(10, 30 + NEAR), Span(31 + 2 * NEAR, 32 + 2 * NEAR)]
    assert joined(spans, 12) == [Span(12, 30 + NEAR), Span(31 + 2 * NEAR, 32 + 2 * NEAR)]
    assert joined(spans, 40 + 2 * NEAR) == []
