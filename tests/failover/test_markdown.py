"""Names of clusters in Markdown, as a renderer shows them."""

from __future__ import annotations

import html
import re
import string

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from sparkmirror.failover.markdown import code, literal, table

RENDERER = MarkdownIt("commonmark").enable(["table", "strikethrough"])
TAG = re.compile(r"<[^>]*>")

CODE = re.compile(r"</?code>")

COMMIT = "a5c3785ed8d6a35868bc169f07e40e889087fd2e"

SPOKEN = [
    "@octocat",
    "@org/team-1",
    "me@evil.example",
    "#12",
    "owner/repo#12",
    "!7",
    ":x:",
    ":+1:",
    ":100:",
    "`@a`",
    "_@a_",
    "a|@b",
    "@a@b@c #1#2 :a:b:c:",
    "a@b.cz",
    "mailto:me@evil.example",
    "XMPP:me@evil.example/desk",
    "GH-12",
    "see gh-7, _GH-8_",
    COMMIT,
    f"a-{COMMIT}",
    f"octocat@{COMMIT}",
    f"owner/repo@{COMMIT[:7]}",
]
"""What a page that has users, issues and emojis makes something of, after it has rendered the Markdown."""

NAMES = [
    "![p](https://evil.example/p.png)",
    "[log in](https://evil.example)",
    "<img src=https://evil.example/p.png>",
    "<https://evil.example>",
    "[a]: https://evil.example",
    "[a][b]",
    "# Failover: done",
    "> quoted",
    "- item",
    "+ item",
    "* item",
    "1. item",
    "12) item",
    "---",
    "===",
    "```",
    "``x`",
    "`",
    "~~~",
    "~~gone~~",
    "*a* **b** _c_ __d__",
    "&lt;img&gt; &#60;",
    "\\[x](y)",
    "ends with \\",
    "$x$",
    *SPOKEN,
]


def shown(markdown: str) -> str:
    """What a reader sees."""
    return html.unescape(TAG.sub("", RENDERER.render(markdown))).strip("\n")


@pytest.mark.parametrize("name", [*NAMES, *string.punctuation, *(f"{sign}x{sign}" for sign in string.punctuation)])
def test_a_name_is_shown_as_it_is_and_is_no_markup(name: str):
    escaped = html.escape(name, quote=False).replace('"', "&quot;")
    assert CODE.sub("", RENDERER.render(f"- {literal(name)}")) == f"<ul>\n<li>{escaped}</li>\n</ul>\n"
    assert RENDERER.render(f"## {literal(name)}").startswith("<h2>")
    assert shown(f"of {code(name)}: {literal(name)}.") == f"of {name}: {name}."


@pytest.mark.parametrize("name", SPOKEN)
def test_nobody_is_told_and_nothing_referred_to(name: str):
    """Such pages leave code alone, and look at all other text."""
    plain = re.sub(r"<code>.*?</code>", " ", RENDERER.render(f"group {literal(name)}, {literal(name)}: gone"))
    assert re.findall(r"@\w|[#!]\d|:[\w+-]+:|mailto|(?i:xmpp|gh-\d)|[0-9a-f]{7}", plain) == []


@given(st.text(alphabet="ab1 \\`*_[]()<>!#+-=.~&|:/$\"'@", max_size=30))
def test_no_text_has_tags(name: str):
    rendered = RENDERER.render(f"x {literal(name)}")
    assert TAG.findall(CODE.sub("", rendered)) == ["<p>", "</p>"]
    assert re.findall(r"(?<![A-Za-z0-9])@\w|(?<![\w&])[#!]\d", re.sub(r"<code>.*?</code>", " ", rendered)) == []
    assert TAG.findall(RENDERER.render(f"x {code(name)} y")) in (["<p>", "<code>", "</code>", "</p>"], ["<p>", "</p>"])


def test_an_address_is_no_link_on_pages_that_make_links_of_addresses():
    assert literal("https://evil.example") == r"https\://evil.example"
    for begin in ("www", "WWW", "wWw"):
        assert literal(f"see {begin}.evil.example") == rf"see {begin}\.evil.example"


def test_names_as_people_choose_them_stay_readable_in_the_source_too():
    for name in (
        "orders",
        "a.orders-7",
        "my_topic.v2",
        "group billing: it has members",
        "a->b",
        "10.0.0.7:9092: gone",
        "high-12",
    ):
        assert literal(name) == name


def test_a_name_ends_no_cell():
    lines = table(("group", "remark"), [("a|b", "![p](x)")])
    assert lines[2] == r"| a/b | !\[p\](x) |"
    assert RENDERER.render("\n".join(lines)).count("<td>") == 2
    assert table(("topic",), [(code("a|b"),)], cell=None)[2] == "| `a/b` |"
    assert table(("topic",), []) == []
