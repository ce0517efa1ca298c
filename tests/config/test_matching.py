"""Names that strangers choose, and expressions that they could keep busy."""

from __future__ import annotations

import logging
import pickle
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparkmirror.config.expressions import compile_list
from sparkmirror.config.matching import LONGEST_TOPIC, Expression, Item
from sparkmirror.errors import ConfigError
from sparkmirror.naming import TopicFilter

SLOW = {
    "(a+)+": "a" * 248 + "-",
    "h.(a+)+": "h." + "a" * 240 + "-b",
    r"(.*\.)*orders": "a." * 124,
    "(a|aa)*b": "a" * LONGEST_TOPIC,
    ".*-.*-.*-.*-.*x": "-" * LONGEST_TOPIC,
    "(?i)(A+)+": "a" * 248 + "-",
    "(a*)*|(b|b)*c": "b" * LONGEST_TOPIC,
}
"""With names on which Python's engine does not come to an end."""


def compiled(*expressions: str) -> Expression:
    made = compile_list(expressions, file="mm2.properties", key="topics")
    assert made is not None
    return made


@pytest.fixture
def without_python(monkeypatch: pytest.MonkeyPatch) -> None:
    """Or a test would not fail, but never end."""

    def tried(_item: Item, name: str) -> bool:
        raise AssertionError(f"Python's engine was asked about {name}")

    monkeypatch.setattr(Item, "_tried_by_python", tried)


@pytest.mark.usefixtures("without_python")
@pytest.mark.parametrize("expression", SLOW)
def test_no_name_keeps_an_expression_busy(expression: str) -> None:
    name = SLOW[expression]
    assert compiled(expression).items[0].possible_to < len(name)
    assert compiled(expression).matches(name) is False
    chosen = TopicFilter([".*"], [expression])
    assert chosen.matches(name)


@pytest.mark.usefixtures("without_python")
def test_the_answer_is_right() -> None:
    orders = compiled(r"(.*\.)*orders")
    assert [orders.matches(name) for name in ("orders", "a.b.orders", "a.b.orders2", "ä.orders", "borders")] == [
        *(True, True, False, True, False)
    ]


@pytest.mark.usefixtures("without_python")
def test_many_names_are_tried_at_once_and_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[list[str]] = []
    tried = Item._tried_by_re2

    def counting(item: Item, names: list[str]) -> list[bool]:
        asked.append(names)
        return tried(item, names)

    orders = compiled(r"(.*\.)*orders-once")
    monkeypatch.setattr(Item, "_tried_by_re2", counting)
    names = [f"a.b{number}.orders-once" for number in range(100)]
    orders.learn(names)
    assert all(orders.matches(name) for name in names)
    assert [len(some) for some in asked if some != [""]] == [100]


SIGNS = "ab.-"
_atoms = st.sampled_from(["a", "b", r"\.", ".", "[ab]", "[^a]", r"\w", r"\-", "^", "$", r"\b", r"\z", r"\Q.\E"])
_repeats = st.sampled_from(["", "", "*", "+", "?", "*?", "{2}", "{0,2}", "{1,}"])
_expressions = st.recursive(
    st.builds(lambda atom, repeat: atom + (repeat if atom not in ("^", "$", r"\b", r"\z") else ""), _atoms, _repeats),
    lambda inner: st.builds(
        lambda some, how, repeat: how.join(some) if not repeat else f"({how.join(some)}){repeat}",
        st.lists(inner, min_size=1, max_size=3),
        st.sampled_from(["", "|"]),
        st.sampled_from(["", "*", "+", "?", "{1,2}"]),
    ),
    max_leaves=6,
)


@given(_expressions, st.lists(st.text(SIGNS, max_size=7), min_size=1, max_size=8))
def test_both_engines_give_one_answer(expression: str, names: list[str]) -> None:
    (item,) = compiled(expression).items
    assert item.linear
    assert item._tried_by_re2(names) == [item.pattern.fullmatch(name) is not None for name in names]


@pytest.mark.parametrize(
    ("expression", "why"),
    [
        ("(?!x)(a+)+", "look-ahead"),
        ("(?<=x)?(a+)+", "look-behind"),
        ("(?>a+)(b+)+", "atomic"),
        ("a++(b+)+", "possessive"),
        (r"(a+)\1(b*)*", "reference"),
        ("(?!x).*-.*-.*-.*", "repeats too often"),
        ("(a{1500}b?)*", "repeats what repeats"),
    ],
)
def test_what_neither_engine_can_be_trusted_with_is_refused(expression: str, why: str) -> None:
    with pytest.raises(ConfigError, match="could keep it busy for ever") as refused:
        compile_list(["fine", expression, "also.*"], file="mm2.properties", key="topics")
    assert f'"{expression}"' in str(refused.value)
    assert why in str(refused.value)


@pytest.mark.parametrize(
    "expression",
    ["(?!x).*", r"(?!.*\.internal$).*-.*", "((?!internal).)*", "(?>a+)b", "x++y", "(?<=a)b.*c", r"(a|b).*\1"],
)
def test_what_has_few_ways_works_whatever_is_in_it(expression: str) -> None:
    assert compiled(expression).items[0].is_safe


def test_items_that_do_not_reach_into_each_other_are_looked_at_one_by_one() -> None:
    both = compiled("(?!x)a.*", r"(.*\.)*orders")
    assert len(both.items) == 2
    assert [both.matches(name) for name in ("abc", "xa", "b.orders", "b.order")] == [True, False, True, False]
    for reaching in (["(?!x)(?i)a.*", "(b+)+"], [r"(?!x)(a).*", r"(b+)+", r"(c)\1"]):
        with pytest.raises(ConfigError, match="could keep it busy"):
            compile_list(reaching, file="f", key="topics")


def test_a_name_for_which_no_engine_will_do_is_not_meant(caplog: pytest.LogCaptureFixture) -> None:
    """Groups may have names of any length, and any characters."""
    name, fits = "-" * 5_000, "-" * 20
    with caplog.at_level(logging.WARNING):
        chosen = TopicFilter(["(?!x).*-.*-.*"], [], keys=("groups", "groups.exclude"))
        assert chosen.matches(fits)
        assert not chosen.matches(name)
        assert not chosen.matches(name)
    assert len(caplog.messages) == 1
    assert "the expression (?!x).*-.*-.* is not tried on a name of 5000 characters" in caplog.text
    assert not TopicFilter([".*"], ["(?!x).*-.*-.*"]).matches(name), "nothing tells that it is not excluded"
    assert not TopicFilter(["(?i)(ß+)+"], []).matches("É"), "RE2 would ignore the case of more letters than Java"
    assert TopicFilter(["(ß+)+"], []).matches("ßß")


def test_a_line_break_in_a_name_is_left_to_python() -> None:
    (item,) = compiled("(a+)+$\n?").items
    assert item.answers(["a\n"]) == {"a\n": None}
    assert compiled("a$\n").matches("a\n") is (re.fullmatch("a$\n", "a\n") is not None)


def test_an_expression_pickles() -> None:
    again = pickle.loads(pickle.dumps(compiled(r"(.*\.)*orders")))
    assert again.matches("a.orders")
    assert not again.matches("a.b")
