"""Which ACL covers what an expression may choose."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparkmirror.config.expressions import compile_list
from sparkmirror.duties.reach import ALL, Reach, reach, smallest
from sparkmirror.kafka.acls import PatternType


def shown(found: tuple[Reach, ...]) -> list[str]:
    return [one.name + ("…" if one.pattern is PatternType.PREFIXED else "") for one in found]


@pytest.mark.parametrize(
    ("expressions", "expected"),
    [
        ([], []),
        ([".*"], ["*"]),
        (["orders"], ["orders"]),
        (["orders", "payments"], ["orders", "payments"]),
        (["team.orders"], ["team.orders"]),
        ([r"team\.orders"], ["team.orders"]),
        (["orders.*"], ["orders…"]),
        (["orders.+"], ["orders…"]),
        (["orders-.*"], ["orders-…"]),
        ([r"team\..*"], ["team.…"]),
        (["team..*"], ["team.…"]),
        (["orders-[0-9]+"], ["orders-…"]),
        (["orders?"], ["order…"]),
        (["orders{2}"], ["order…"]),
        (["orders(-eu|-us)"], ["orders…"]),
        (["a|b"], ["a", "b"]),
        (["(a|b)"], ["*"]),
        (["(a", "b)"], ["*"]),
        (["[a|b]x"], ["*"]),
        (["x[a|(]y|z"], ["x…", "z"]),
        ([r"a\|b"], ["a|b"]),
        (["(?i)orders"], ["*"]),
        (["a", "(?i)orders"], ["*"]),
        (["x(?:y)"], ["x…"]),
        ([r"\d+"], ["*"]),
        ([r"\Qa.b\E"], ["*"]),
        ([".*-orders"], ["*"]),
        (["orders.*", "orders-eu", "orders.x.*"], ["orders…"]),
        (["orders", "orders"], ["orders"]),
        (["orders", ".*"], ["*"]),
    ],
)
def test_plain_text_becomes_a_name_or_a_prefix_and_the_rest_everything(expressions: list[str], expected: list[str]):
    assert shown(reach(expressions)) == expected


_pieces = st.lists(
    st.sampled_from(["a", "b", "-", "a*", "b?", "[ab]", "(a|b)", "|", r"\.", ".*", "[^a]", "b+"]), max_size=6
)
_names = st.text(alphabet="ab-.", min_size=1, max_size=8)


@given(st.lists(_pieces.map("".join), min_size=1, max_size=3), _names)
def test_no_name_that_matches_is_left_out(expressions: list[str], name: str):
    pattern = compile_list(expressions, file="f", key="topics")
    if pattern is not None and pattern.matches(name):
        assert any(one.covers(Reach(name, PatternType.LITERAL)) for one in reach(expressions))


def test_what_another_one_covers_is_dropped():
    orders, all_orders = Reach("orders", PatternType.LITERAL), Reach("orders", PatternType.PREFIXED)
    assert smallest([orders, all_orders]) == (all_orders,)
    assert smallest([orders, all_orders, ALL]) == (ALL,)
    assert smallest([orders, Reach("order", PatternType.LITERAL)]) == (Reach("order", PatternType.LITERAL), orders)
