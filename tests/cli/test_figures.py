"""Numbers as people read them."""

from __future__ import annotations

import pytest

from sparkmirror.cli import figures


@pytest.mark.parametrize(
    ("milliseconds", "text"),
    [
        (0, "0 ms"),
        (999, "999 ms"),
        (4_249, "4.2 s"),
        (60_000, "1 min 0 s"),
        (185_000, "3 min 5 s"),
        (3_600_000, "1 h 0 min"),
        (187_200_000, "2 d 4 h"),
        (None, "-"),
    ],
)
def test_a_span_is_told_in_the_units_that_matter(milliseconds: int | None, text: str):
    assert figures.span(milliseconds) == text


def test_what_is_not_known_is_a_dash_and_not_zero():
    shown = {
        figures.count(None),
        figures.rate(None),
        figures.megabytes(None),
        figures.megabytes_rate(None),
        figures.span(None),
    }
    assert shown == {"-"}


def test_counts_rates_and_sizes_are_grouped():
    assert figures.count(1_234_567) == "1,234,567"
    assert figures.rate(12_345.6) == "12,346/s"
    assert figures.megabytes_rate(123_456_789) == "123.5 MB/s"
