r"""Regular expressions as people write them for MirrorMaker 2, which are Java's, turned into Python's.

Invariants: an expression that is accepted chooses the same names as in Java; one that Python would read differently
is refused with the reason and a way to write it. A list of expressions is one expression, its items joined with ``|``
as MirrorMaker 2 joins them, so that ``(a,b)`` and an inline flag that reaches into the next item work as they do there.
``\d``, ``\w``, ``\s`` and ``(?i)`` mean ASCII, as in Java. No name, whoever chose it, keeps one busy: see ``matching``.

Reference: ``java.util.regex.Pattern``; ``MirrorUtils.compilePatternList``.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache

from sparkmirror.config.matching import MOST, QUICK, Expression, Item
from sparkmirror.config.ways import Counting, Ways
from sparkmirror.errors import ConfigError

_DEPTH, _SHOWN, _COUNT_DIGITS = 50, 200, 10
_DIGITS = tuple("123456789")
_QUANTIFIER = re.compile(r"\{\d+(,\d*)?\}")
_FLAGS = re.compile(r"\(\?([a-zA-Z]*)(?:-([a-zA-Z]*))?([:)])")
_NAMED_GROUP = re.compile(r"\(\?<([a-zA-Z][a-zA-Z0-9]*)>")
_NAMED_REFERENCE = re.compile(r"\\k<([a-zA-Z][a-zA-Z0-9]*)>")
_CODE_POINT = re.compile(r"\\(?:x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|x\{([0-9a-fA-F]{1,6})\})")
_PROPERTY = re.compile(r"\\([pP])(?:\{(\w+)\}|(\w))")
_LOOKS = ("(?=", "(?!", "(?<=", "(?<!")
_SAME_GROUPS = ("(?:", "(?=", "(?!", "(?>", "(?<=", "(?<!")
_SAME_ESCAPES = frozenset("dDwWsSbBA123456789")
_CLASS_ESCAPES = frozenset("dDwWsS")
_CONTROL = {"t": "\t", "n": "\n", "r": "\r", "f": "\f", "a": "\a", "e": "\x1b"}
_POSIX = {
    "Lower": "a-z",
    "Upper": "A-Z",
    "Alpha": "a-zA-Z",
    "Digit": "0-9",
    "Alnum": "a-zA-Z0-9",
    "XDigit": "0-9a-fA-F",
    "Punct": r"!-/:-@\[-`{-~",
    "Graph": "!-~",
    "Print": r"\ -~",
    "Blank": r"\ \t",
    "Space": r"\ \t-\r",
    "Cntrl": r"\x00-\x1f\x7f",
    "ASCII": r"\x00-\x7f",
}


class _RefusedError(Exception):
    """Why an expression cannot be used, and what to write instead."""

    def __init__(self, reason: str, remedy: str = "") -> None:
        self.reason, self.remedy = reason, remedy
        super().__init__(reason)


def compile_list(expressions: Sequence[str], *, file: str, key: str) -> Expression | None:
    """Compiles a list of Java expressions into one.

    Args:
        expressions: the items of the list, as split at the commas.
        file: where they are written, for the error.
        key: the key there, for the error.

    Returns:
        The expression, or None for an empty list, which matches nothing.

    Raises:
        ConfigError: an expression is wrong, means something that Python cannot do, or could be kept busy by a name; it
            is named.
    """
    if not expressions:
        return None
    try:
        return _expression(tuple(expressions))
    except _RefusedError as refused:
        culprit, why = _culprit(expressions, refused)
        raise ConfigError(
            file=file,
            key=key,
            reason=f"the expression {_named(culprit)} cannot be used: {why.reason}",
            remedy=why.remedy,
        ) from refused


def _named(expression: str) -> str:
    return (
        f'"{expression}"' if len(expression) <= _SHOWN else f'"{expression[:_SHOWN]}"… ({len(expression)} characters)'
    )


def _culprit(expressions: Sequence[str], whole: _RefusedError) -> tuple[str, _RefusedError]:
    for expression in expressions:
        try:
            _expression((expression,))
        except _RefusedError as alone:
            return expression, alone
    return ", ".join(expressions), whole


@lru_cache(maxsize=1024)
def _expression(expressions: tuple[str, ...]) -> Expression:
    """The list as one expression, or item by item where that is the same and no name can keep an item busy."""
    whole, _ = _item("|".join(expressions))
    if whole.is_safe:
        return Expression(items=(whole,))
    apart = _apart(expressions)
    if not apart or not all(item.is_safe for item in apart):
        raise _RefusedError(
            "a name could keep it busy for ever: it repeats what repeats, or repeats too often, beside a look-ahead, a "
            "look-behind, an atomic group, a possessive repetition or a reference to a group",
            "write it without these, or without the repetitions; what a look-ahead keeps out can stand in the list of "
            "excludes",
        )
    return Expression(items=apart)


def _apart(expressions: tuple[str, ...]) -> tuple[Item, ...]:
    """The items by themselves; none where one reaches into another, by a flag, a group or a reference."""
    try:
        read = [_item(expression) for expression in expressions]
    except _RefusedError:
        return ()
    return tuple(item for item, _ in read) if all(stands_alone for _, stands_alone in read) else ()


def _item(expression: str) -> tuple[Item, bool]:
    """One expression, and whether it means the same beside others."""
    translated = _Translation(expression)
    python = translated.result()
    try:
        pattern = re.compile(python, re.ASCII)
    except OverflowError:
        raise _RefusedError("a count in it is too large") from None
    except re.error as wrong:
        dangling = expression.startswith(("*", "+", "?")) or "|*" in expression
        remedy = "these are regular expressions: write .* for any characters" if dangling else ""
        raise _RefusedError(wrong.msg, remedy) from wrong
    ways = translated.ways()
    item = Item(
        text=expression,
        pattern=pattern,
        quick_to=ways.longest(QUICK),
        possible_to=ways.longest(MOST),
        linear=translated.linear,
        ignores_case="i" in translated.flags,
    )
    return item, translated.stands_alone


class _Translation:
    """One walk over a Java expression, writing Python's.

    An inline flag such as ``(?i)`` holds in Java to the end of its group, over the branches of an alternation too.
    Python has flags for a span only, so the rest of each branch is put into a span of its own.

    Attributes:
        flags: all that are set somewhere.
        stands_alone: whether nothing in it reaches into what stands behind a ``|``.
    """

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._out: list[str] = []
        self._flags: list[list[str]] = [[]]
        self._ends: set[int] = set()
        self._counting = Counting()
        self._quantified = -1
        self._is_linear = True
        self.flags: set[str] = set()
        self.stands_alone = True

    def ways(self) -> Ways:
        """In how many ways Python may try it; once it is translated."""
        return self._counting.total()

    @property
    def linear(self) -> str:
        """The same for an engine that takes linear time, or "" where it has what such an engine cannot do."""
        if not self._is_linear:
            return ""
        return "".join(r"\z" if place in self._ends else part for place, part in enumerate(self._out))

    def result(self) -> str:
        """The Python expression."""
        steps = {"\\": self._escape, "[": self._class, "(": self._open, ")": self._close, "|": self._branch}
        steps |= {"{": self._quantifier, "*": self._repeat, "+": self._repeat, "?": self._repeat}
        while self._at < len(self._text):
            steps.get(self._text[self._at], self._plain)()
        if len(self._flags) > 1:
            raise _RefusedError("a ( is not closed", "a comma ends an item of the list")
        self._out.append(")" * len(self._flags[0]))
        self.stands_alone = self.stands_alone and not self._flags[0]
        return "".join(self._out)

    def _emit(self, python: str, java_size: int) -> None:
        self._out.append(python)
        self._at += java_size

    def _plain(self) -> None:
        self._counting.atom()
        self._emit(self._text[self._at], 1)

    def _repeat(self) -> None:
        """``*``, ``+`` or ``?``; behind a quantifier the last two say how it repeats."""
        sign = self._text[self._at]
        if self._at != self._quantified:
            self._counting.repeat(int(sign == "+"), 1 if sign == "?" else None)
            self._quantified = self._at + 1
        elif sign == "+":
            self._is_linear = False
        self._emit(sign, 1)

    def _quantifier(self) -> None:
        found = _QUANTIFIER.match(self._text, self._at)
        if found is None:
            raise _RefusedError("{ begins no count", r"a comma ends an item of the list; \{ is the character")
        least, _, most = found[0][1:-1].partition(",")
        upper = least if "," not in found[0] else most
        self._counting.repeat(_count(least), _count(upper) if upper else None)
        self._emit(found[0], len(found[0]))
        self._quantified = self._at

    def _open(self) -> None:
        if len(self._flags) > _DEPTH:
            raise _RefusedError(f"its groups are nested deeper than {_DEPTH} levels")
        at, text = self._at, self._text
        if not text.startswith("(?", at) or text.startswith(_SAME_GROUPS, at):
            size = next((len(mark) for mark in _SAME_GROUPS[::-1] if text.startswith(mark, at)), 1)
            self._flags.append([])
            self._counting.open(is_look=text[at : at + size] in _LOOKS)
            self._is_linear = self._is_linear and text[at : at + size] in ("(", "(?:")
            self._emit(text[at : at + size], size)
        elif named := _NAMED_GROUP.match(text, at):
            self._flags.append([])
            self._counting.open(is_look=False)
            self._emit(f"(?P<{named[1]}>", len(named[0]))
        else:
            self._open_flags()

    def _open_flags(self) -> None:
        found = _FLAGS.match(self._text, self._at)
        on, off = (found[1], found[2] or "") if found else ("?", "")
        if found is None or not set(on + off) <= set("ims"):
            raise _RefusedError(f"{self._text[self._at :][:4]} is no group that works here", "the flags i, m and s do")
        span = f"(?{on}{'-' + off if off else ''}:"
        self.flags |= set(on)
        if found[3] == ":":
            self._flags.append([])
            self._counting.open(is_look=False)
        else:
            self._flags[-1].append(span)
        self._emit(span, len(found[0]))

    def _close(self) -> None:
        if len(self._flags) == 1:
            raise _RefusedError("a ) has no (", r"\) is the character")
        self._counting.close()
        self._emit(")" * (len(self._flags.pop()) + 1), 1)

    def _branch(self) -> None:
        spans = self._flags[-1]
        self._counting.branch()
        self._emit(")" * len(spans) + "|" + "".join(spans), 1)

    def _escape(self) -> None:
        self._counting.atom()
        sign = self._text[self._at + 1 : self._at + 2]
        if _NAMED_REFERENCE.match(self._text, self._at) or sign in _DIGITS:
            self._is_linear = self.stands_alone = False
        if found := _NAMED_REFERENCE.match(self._text, self._at):
            self._emit(f"(?P={found[1]})", len(found[0]))
        elif found := _PROPERTY.match(self._text, self._at):
            self._emit(f"[{'^' if found[1] == 'P' else ''}{_posix(found)}]", len(found[0]))
        elif sign in _SAME_ESCAPES and sign:
            self._emit("\\" + sign, 2)
        elif sign in ("z", "Z"):
            self._ends.add(len(self._out))
            self._emit(r"\Z" if sign == "z" else r"(?=\n?\Z)", 2)
        else:
            self._emit("".join(re.escape(character) for character in self._characters()), 0)

    def _characters(self) -> str:
        r"""Reads an escape that stands for characters, ``\Q..\E`` included, and moves past it."""
        text, at = self._text, self._at
        sign = text[at + 1 : at + 2]
        if sign == "Q":
            end = text.find(r"\E", at)
            end = len(text) if end < 0 else end
            self._at = min(end + 2, len(text))
            return text[at + 2 : end]
        if found := _CODE_POINT.match(text, at):
            self._at += len(found[0])
            return chr(int(found[1] or found[2] or found[3], 16))
        if not sign or (sign.isalnum() and sign not in _CONTROL):
            raise _RefusedError(f"\\{sign} does not work here", "write the characters that are meant")
        self._at += 2
        return _CONTROL.get(sign, sign)

    def _class(self) -> None:
        start = self._at
        self._counting.atom()
        self._at += 1
        self._out.append("[")
        if self._text.startswith("^", self._at):
            self._emit("^", 1)
        first = True
        while first or self._text[self._at] != "]":
            if self._at >= len(self._text):
                raise _RefusedError(f"{self._text[start:]} is not closed", r"a comma ends an item; \[ is the character")
            self._member()
            first = False
            if self._at >= len(self._text):
                raise _RefusedError(f"{self._text[start:]} is not closed", r"a comma ends an item; \[ is the character")
        self._emit("]", 1)

    def _member(self) -> None:
        text, at = self._text, self._at
        if text[at] == "[":
            raise _RefusedError("a class in a class is Java's alone", r"put the characters in one class; \[ is a [")
        if text.startswith("&&", at):
            raise _RefusedError("&& in a class is Java's alone", "write (?!…) before the class, or list the characters")
        found = _PROPERTY.match(text, at)
        if found and found[1] == "p":
            self._emit(_posix(found), len(found[0]))
        elif text[at] == "\\" and text[at + 1 : at + 2] in _CLASS_ESCAPES:
            self._emit(text[at : at + 2], 2)
        else:
            self._characters_or_range()

    def _characters_or_range(self) -> None:
        first = self._one_or_quoted()
        text, at = self._text, self._at
        closed = text[at + 1 : at + 2] in ("]", "[", "")
        if len(first) != 1 or not text.startswith("-", at) or closed:
            self._out.append("".join(re.escape(character) for character in first))
            return
        self._at += 1
        last = self._one_or_quoted()
        if len(last) != 1:
            raise _RefusedError("a range in a class ends in no character")
        self._out.append(f"{re.escape(first)}-{re.escape(last)}")

    def _one_or_quoted(self) -> str:
        if self._text[self._at] == "\\":
            return self._characters()
        self._at += 1
        return self._text[self._at - 1]


def _count(digits: str) -> int:
    if len(digits) > _COUNT_DIGITS:
        raise _RefusedError("a count in it is too large")
    return int(digits)


def _posix(found: re.Match[str]) -> str:
    name = found[2] or found[3]
    if name not in _POSIX:
        raise _RefusedError(f"{found[0]} does not work here", "write the characters that are meant, such as [a-zA-Z]")
    return _POSIX[name]
