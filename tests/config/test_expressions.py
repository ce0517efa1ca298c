"""Java's regular expressions in Python; what Java's ``Pattern`` matches was printed by it."""

from __future__ import annotations

import pytest

from sparkmirror.config.expressions import compile_list
from sparkmirror.errors import ConfigError

SUBJECTS = (
    *(
        "a",
        "b",
        "c",
        "foo",
        "FOO",
        "bar",
        "BAR",
        "baz",
        "BAZ",
        "a.b",
        "axb",
        "aa",
        "xxy",
        "ab",
        "aab",
        "aB",
        "C",
        "abc",
    ),
    *(",", "]", "-"),
)


def _matched(*expressions: str) -> set[str]:
    pattern = compile_list(expressions, file="mm2.properties", key="topics")
    assert pattern is not None
    return {subject for subject in SUBJECTS if pattern.matches(subject)}


@pytest.mark.parametrize(
    ("expressions", "expected"),
    [
        (("a", "foo"), "a foo"),
        (("a.b",), "a.b axb aab"),
        (("(a", "b)"), "a b"),
        (("(?i)foo", "bar"), "foo FOO bar BAR"),
        (("foo", "(?i)bar", "baz"), "foo bar BAR baz BAZ"),
        (("a(?i)b|c",), "c ab aB C"),
        (("(a(?i)b)|c",), "ab aB c"),
        (("(?i:foo)|bar",), "foo FOO bar"),
        ((r"\Qa.b\E",), "a.b"),
        ((r"\p{Alpha}+",), "a b c foo FOO bar BAR baz BAZ axb aa xxy ab aab aB C abc"),
        ((r"[\p{Upper}]+",), "FOO BAR BAZ C"),
        ((r"\P{Lower}+",), "FOO BAR BAZ C , ] -"),
        (("[]a]+",), "a aa ]"),
        (("[+--]",), ", -"),
        (("[^-a]",), "b c C , ]"),
        ((r"(?<n>a)\k<n>",), "aa"),
        (("x++y",), "xxy"),
        (("(?>a+)b",), "ab aab"),
        ((r"\x61|\u0062",), "a b"),
        ((r"(?!foo)\w{3}",), "FOO bar BAR baz BAZ axb xxy aab abc"),
    ],
)
def test_chooses_the_names_that_java_chooses(expressions: tuple[str, ...], expected: str) -> None:
    assert _matched(*expressions) == set(expected.split())


def test_letters_and_digits_are_ascii_as_in_java() -> None:
    pattern = compile_list([r"\w+", r"\d"], file="f", key="topics")
    assert pattern is not None
    assert not pattern.matches("é")
    assert not pattern.matches("٣")


def test_an_empty_list_matches_nothing() -> None:
    assert compile_list([], file="f", key="topics") is None


@pytest.mark.parametrize(
    ("expression", "hint"),
    [
        ("*", r"write \.\* for any characters"),
        ("*.orders", r"write \.\* for any characters"),
        ("[a-z&&[^b]]", "&& in a class"),
        ("[a[bc]]", "a class in a class"),
        ("a{1", "a comma ends an item"),
        ("[ab", "is not closed"),
        ("[", "is not closed"),
        ("(ab", "is not closed"),
        ("ab)", "has no"),
        (r"\p{IsGreek}", r"such as \[a-zA-Z\]"),
        ("(?P<n>a)", "no group that works here"),
        ("(?#c)a", "no group that works here"),
        ("(?x)a b", "the flags i, m and s do"),
        (r"\h", "write the characters"),
        (r"\G", "write the characters"),
        ("(?<=a+)b", "look-behind"),
        (r"[a-\d]", "does not work here"),
    ],
)
def test_refuses_with_the_reason_what_python_would_read_differently(expression: str, hint: str) -> None:
    with pytest.raises(ConfigError, match=hint) as refused:
        compile_list(["fine", expression, "also.*"], file="mm2.properties", key="topics")
    assert refused.value.file == "mm2.properties"
    assert refused.value.key == "topics"
    assert f'"{expression}"' in str(refused.value)


@pytest.mark.parametrize("expression", ["(" * 60 + ")" * 60, "a{99999999999}"])
def test_what_python_cannot_compile_is_refused(expression):
    with pytest.raises(ConfigError, match=r"topics: the expression .* cannot be used: (a count|its groups)"):
        compile_list([expression], file="f", key="topics")
