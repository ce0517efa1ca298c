"""The value of ``sasl.jaas.config``: one login module with its options.

The grammar is that of Kafka's ``JaasConfig``: ``class flag (name=value)* ;`` in tokens of Java's ``StreamTokenizer``
(quoted texts with escapes, ``//`` and ``/* */`` comments). There is no library for it in Python.

Invariant: no error holds any part of the value.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

_FLAGS = ("required", "requisite", "sufficient", "optional")
_TOKEN = re.compile(
    r"""\s+ | //[^\n]* | /\*.*?\*/
      | "(?P<double>(?:[^"\\\n]|\\.)*)" | '(?P<single>(?:[^'\\\n]|\\.)*)'
      | (?P<word>[A-Za-z0-9._$\-\u00a0-\U0010ffff]+) | (?P<mark>[=;])""",
    re.VERBOSE | re.DOTALL,
)
_ESCAPE = re.compile(r"\\([0-3]?[0-7]{1,2}|.)", re.DOTALL)
_ESCAPES = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}


class JaasSyntaxError(ValueError):
    """The text is no login module; the message says why, without the text."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoginModule:
    """One login module.

    Attributes:
        name: the Java class.
        options: its options; they hold passwords, so this never leaves the package.
    """

    name: str
    options: Mapping[str, str]

    def __repr__(self) -> str:
        return f"LoginModule({self.name})"


def parse(text: str) -> LoginModule:
    """Reads the one login module that a Java client accepts.

    Raises:
        JaasSyntaxError: anything else.
    """
    tokens = list(_tokens(text))
    if len(tokens) < 2 or _is_mark(tokens[0]):
        raise JaasSyntaxError('it must read: class required name="value" ... ;')
    if tokens[1][1].lower() not in _FLAGS:
        raise JaasSyntaxError(f"the word behind the class must be one of {', '.join(_FLAGS)}")
    if tokens[-1] != ("mark", ";"):
        raise JaasSyntaxError("it must end with a semicolon")
    rest = tokens[2:-1]
    if ("mark", ";") in rest:
        raise JaasSyntaxError("it must hold one login module, without a semicolon in the middle")
    return LoginModule(name=tokens[0][1], options=dict(_options(rest)))


def _options(tokens: list[tuple[str, str]]) -> Iterator[tuple[str, str]]:
    if len(tokens) % 3:
        raise JaasSyntaxError("an option does not read name=value; is a quotation mark missing?")
    for index in range(0, len(tokens), 3):
        name, equals, value = tokens[index : index + 3]
        if _is_mark(name) or equals != ("mark", "=") or _is_mark(value):
            raise JaasSyntaxError("an option does not read name=value; is a quotation mark missing?")
        yield name[1], value[1]


def _tokens(text: str) -> Iterator[tuple[str, str]]:
    position = 0
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None:
            raise JaasSyntaxError("values with other characters than letters, digits and . _ - $ need quotation marks")
        position = match.end()
        kind = match.lastgroup
        if kind in ("double", "single"):
            yield "word", _ESCAPE.sub(_unescape, match[kind])
        elif kind is not None:
            yield kind, match[kind]


def _unescape(match: re.Match[str]) -> str:
    code = match[1]
    return chr(int(code, 8)) if code[0] in "01234567" else _ESCAPES.get(code, code)


def _is_mark(token: tuple[str, str]) -> bool:
    return token[0] == "mark"
