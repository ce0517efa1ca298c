"""Texts of others, shown without the characters that do something."""

from __future__ import annotations

import json
import logging
import sys

import pytest

from sparkmirror.printable import OneLine, json_text, printable, printable_lines

HOSTILE = "a\x1b]0;PWNED\x07\x1b[31m\nb\r\x9b\u202ec\u2028\ud800"


def test_what_would_reach_the_terminal_is_escaped():
    assert printable(HOSTILE) == r"a\x1b]0;PWNED\x07\x1b[31m\nb\r\x9b\u202ec\u2028\ud800"


@pytest.mark.parametrize("text", ["", "orders-7", "[/x]", "Müller über 東京", r"C:\keys", "10⁶"])
def test_what_can_be_printed_stays(text: str):
    assert printable(text) == printable_lines(text) == text


@pytest.mark.parametrize("text", ["\u3164", "\uffa0", "\u115f\u1160", "\u2800", "\ufe0f", "\U000e0101", "\u034f"])
def test_what_shows_nothing_is_escaped(text: str):
    escaped = text.encode("unicode_escape").decode()
    assert printable(f"a{text}b") == printable_lines(f"a{text}b") == f"a{escaped}b"
    assert json.loads(json_text([text])) == [text]
    assert json_text([text]).isascii()


def test_lines_stay_lines_where_there_may_be_several():
    assert printable_lines("a\n  b\x1b\nc") == "a\n  b\\x1b\nc"


@pytest.mark.parametrize("indent", [None, 2])
def test_json_holds_the_very_text_and_no_character_that_does_something(indent: int | None):
    told = json_text({HOSTILE: ["é\U000e0001"]}, indent=indent)
    assert all(line.isprintable() for line in told.split("\n"))
    assert "é" in told
    assert json.loads(told) == {HOSTILE: ["é\U000e0001"]}


def test_a_line_of_a_log_is_one_line_and_its_traceback_does_nothing():
    try:
        raise OSError("\x1b[2J")
    except OSError:
        record = logging.LogRecord("kafka", logging.WARNING, "", 0, "group %s", ("x\n\x1b[31m",), sys.exc_info())
    first, *_, last = OneLine(logging.BASIC_FORMAT).format(record).split("\n")
    assert first == r"WARNING:kafka:group x\n\x1b[31m"
    assert last == r"OSError: \x1b[2J"
