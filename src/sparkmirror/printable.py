r"""Texts of others, such as names of groups and errors of brokers, as they may go to a terminal, a log or a report.

Invariant: what these functions give holds no character that moves a cursor, begins a line, changes a colour, turns
the direction of writing or shows nothing. Such characters become Python's escapes (``\x1b``, ``\n``, ``\u202e``), or
JSON's in JSON. A backslash stays as it is: paths and regular expressions are shown as people wrote them.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Callable
from typing import Any

_UNSEEN = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180d\u180f\u2800\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef]"
)
"""What Python calls printable and shows nothing: fillers, selectors of variants, the empty pattern of Braille."""


def printable(text: str) -> str:
    """One line; line ends are escaped too."""
    return text if _is_shown(text) else "".join(map(_escaped, text))


def printable_lines(text: str) -> str:
    """A text of several lines, such as a traceback: its line ends stay."""
    return "\n".join(map(printable, text.split("\n")))


class OneLine(logging.Formatter):
    """Log lines that are one line each, whatever names and errors of clusters they hold."""

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802  # the name that logging gives it
        """Without line ends; a traceback comes below it."""
        return printable(super().formatMessage(record))

    def formatException(self, ei: Any) -> str:  # noqa: N802  # the name that logging gives it
        """With its own line ends alone."""
        return printable_lines(super().formatException(ei))


def json_text(value: object, *, indent: int | None = None, default: Callable[[Any], Any] | None = None) -> str:
    """JSON for people too: letters of all languages as they are, and what ``json`` leaves unescaped escaped."""
    return "\n".join(
        line if _is_shown(line) else "".join(map(_escaped_in_json, line))
        for line in json.dumps(value, indent=indent, ensure_ascii=False, default=default).split("\n")
    )


def _is_shown(text: str) -> bool:
    return text.isprintable() and _UNSEEN.search(text) is None


def _escaped(character: str) -> str:
    return character if _is_shown(character) else character.encode("unicode_escape").decode("ascii")


def _escaped_in_json(character: str) -> str:
    return character if _is_shown(character) else json.dumps(character)[1:-1]
