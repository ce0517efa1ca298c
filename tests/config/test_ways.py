"""How many ways an expression has, against Python's engine where that can be counted by hand."""

from __future__ import annotations

import math

import pytest

from sparkmirror.config.expressions import _Translation
from sparkmirror.config.ways import LONGEST, Ways


def ways_of(expression: str) -> Ways:
    translated = _Translation(expression)
    translated.result()
    return translated.ways()


@pytest.mark.parametrize(
    ("expression", "factors"),
    [
        ("orders", (1,)),
        ("", (1,)),
        ("a|b|c", (3,)),
        (".*", (0, 1)),
        ("[a-z]+", (0, 1)),
        (r"\d{3}", (1,)),
        ("a{2,5}", (4,)),
        ("a{2,}", (0, 1)),
        ("a?", (2,)),
        (".*?", (0, 1)),
        (".*+", (0, 1)),
        (".*-.*", (0, 0, 1)),
        ("(a|b).*", (0, 2)),
        ("(a.*|b)", (1, 1)),
        ("(ab)*", (0, 1)),
        ("(?:(?:ab))+c", (0, 1)),
        ("(a?){3}", (8,)),
        ("(.*-){3}", (0, 0, 0, 1)),
        ("(a?b?)?", (8,)),
        (r"[*+?]\*\+.", (1,)),
        ("(?i)a*", (0, 1)),
        (r"\Qa*b*\E", (1,)),
    ],
)
def test_ways_multiply_behind_each_other_and_add_up_beside_each_other(
    expression: str, factors: tuple[float, ...]
) -> None:
    assert ways_of(expression).factors == factors


@pytest.mark.parametrize(
    ("expression", "most", "longest"),
    [("orders", 1, LONGEST), (".*", 1000, 1000), (".*-.*", 1_000_000, 1000), ("a|b", 1, -1), ("(a+)+", 1e300, -1)],
)
def test_the_longest_name_that_has_no_more_ways_is_found(expression: str, most: float, longest: int) -> None:
    assert ways_of(expression).longest(most) == longest


@pytest.mark.parametrize(
    "expression", ["(a+)+", "(a|b)*", r"(.*\.)*orders", "(a*)*", "((a?)+)", "(a+){2,}", "(a{1,9}){200}", "(?:a|a){70}"]
)
def test_what_has_a_choice_and_is_repeated_is_endless(expression: str) -> None:
    assert ways_of(expression).of(1) == math.inf


@pytest.mark.parametrize(
    ("expression", "factors"),
    [
        ("(?!x).*", (1, 1)),
        ("(?!.*x).*-.*", (0, 1, 1)),
        ("((?!internal).)*", (0, 2)),
        ("((?!.*internal).)*", (0, 1, 1)),
        (".*(?=.*a).*", (0, 0, 2)),
        ("(?<=a)b*", (1, 1)),
        ("((?!a|b)){3}", (7,)),
    ],
)
def test_a_look_around_costs_once_for_each_way_before_it(expression: str, factors: tuple[float, ...]) -> None:
    assert ways_of(expression).factors == factors
