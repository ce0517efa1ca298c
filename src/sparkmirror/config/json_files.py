"""JSON text to its document.

Invariants: depth is limited before the text is parsed; no text of the document holds half of a character, which could
not be printed.
"""

from __future__ import annotations

import json
import re
from typing import Any

from sparkmirror.config.key_names import shown_field
from sparkmirror.errors import ConfigError

DEPTH = 100
"""Levels of lists and maps; what Kafka Connect shows has four."""

_INTEGER_DIGITS = 20
_TOKEN = re.compile(r"""(?P<open>[\[{]) | (?P<close>[\]}]) | "(?:[^"\\]|\\.)*+" """, re.VERBOSE | re.DOTALL)
_ESCAPE = re.compile(
    r"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2} | (?P<half>\\u[dD][89a-fA-F][0-9a-fA-F]{2}) | \\.",
    re.VERBOSE | re.DOTALL,
)


def parse(text: str, file: str) -> Any:
    """The JSON document of a file.

    Raises:
        ConfigError: it is none, a key stands twice in one map, or it is nested deeper than anything that is read.
    """

    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for key, value in pairs:
            if key in found:
                reason = "stands twice in one map"
                raise ConfigError(file=file, key=shown_field(key), reason=reason, remedy="remove one of them")
            found[key] = value
        return found

    _check_depth(text, file)
    _check_characters(text, file)
    try:
        return json.loads(text, object_pairs_hook=once, parse_int=_integer)
    except json.JSONDecodeError as error:
        raise ConfigError(file=file, key=f"line {error.lineno}", reason=f"is no JSON: {error.msg}") from None


def _integer(digits: str) -> int | str:
    """A number; one that is too long for any setting stays a text, since Python refuses to read the longest."""
    return int(digits) if len(digits) <= _INTEGER_DIGITS else digits


def _check_depth(text: str, file: str) -> None:
    depth = 0
    for token in _TOKEN.finditer(text):
        depth += (token.lastgroup == "open") - (token.lastgroup == "close")
        if depth > DEPTH:
            raise _wrong(text, token.start(), file, f"is nested deeper than {DEPTH} levels")


def _check_characters(text: str, file: str) -> None:
    half = next((escape for escape in _ESCAPE.finditer(text) if escape["half"]), None)
    if half is not None:
        raise _wrong(text, half.start(), file, r"holds half of a character: \uD83D\uDE00 is a whole one")


def _wrong(text: str, at: int, file: str, reason: str) -> ConfigError:
    return ConfigError(file=file, key=f"line {text.count(chr(10), 0, at) + 1}", reason=reason)
