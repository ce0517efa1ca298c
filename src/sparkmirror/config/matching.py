r"""Expressions tried on names that strangers choose, in bounded time.

Python's engine tries one way after the other and holds the interpreter's lock meanwhile, so ``(a+)+`` and forty times
``a`` stop a process, signals included. What has few ways is tried by Python. The rest is tried by RE2, which needs time
in proportion to the name and lets other threads run; it knows no look-around, atomic groups, possessive repetitions
and references to groups. An expression for which neither will do is refused where it is read (``expressions``).

Invariants: RE2 is asked only where it gives the answer of Java and Python: about names without control characters, and
with ``(?i)`` about ASCII ones. A topic's name is always decided. Another one, longer than a topic's can be, may be left
undecided where neither engine will do; then it is told in the log, and the caller takes the name for not meant.

References: ``java.util.regex.Pattern``; RE2, "Syntax"; CWE-1333.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Final

log = logging.getLogger(__name__)

QUICK: Final = 1_000_000
"""Ways that Python tries in some milliseconds."""

MOST: Final = 20_000_000
"""Ways that it tries in a part of a second."""

LONGEST_TOPIC: Final = 249
KNOWN: Final = 100_000
_SHOWN: Final = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """One expression.

    Attributes:
        text: as it was written.
        pattern: in Python.
        quick_to: the length of names up to which Python takes no time worth speaking of.
        possible_to: the length up to which it comes to an end in time.
        linear: the same for RE2, not anchored; "" where it cannot be.
        ignores_case: whether a flag says so.
    """

    text: str
    pattern: re.Pattern[str]
    quick_to: int
    possible_to: int
    linear: str
    ignores_case: bool

    @property
    def is_safe(self) -> bool:
        """Whether it can be tried on every topic's name."""
        return self.possible_to >= LONGEST_TOPIC or self._re2_reads_it()

    def _re2_reads_it(self) -> bool:
        import pyarrow as pa

        try:
            return bool(self.linear) and self._tried_by_re2([""]) is not None
        except pa.ArrowInvalid:
            return False

    def is_quick(self, name: str) -> bool:
        """Whether it is tried by Python, whatever else could."""
        return len(name) <= self.quick_to

    def answers(self, names: list[str]) -> dict[str, bool | None]:
        """Whether it matches each name as a whole; None where that cannot be told in time."""
        found: dict[str, bool | None] = {}
        linear = [name for name in names if not self.is_quick(name) and self._fits_re2(name)]
        if linear and self._re2_reads_it():
            found = dict(zip(linear, self._tried_by_re2(linear), strict=True))
        for name in names:
            if name not in found:
                found[name] = self._tried_by_python(name)
        return found

    def _fits_re2(self, name: str) -> bool:
        return name.isprintable() and (name.isascii() or not self.ignores_case)

    def _tried_by_re2(self, names: list[str]) -> list[bool]:
        import pyarrow as pa
        import pyarrow.compute as pc

        strings: Any = pa.array(names, pa.string())
        answers: list[bool] = pc.match_substring_regex(strings, pattern=rf"\A(?:{self.linear})\z").to_pylist()
        return answers

    def _tried_by_python(self, name: str) -> bool | None:
        if len(name) <= self.possible_to:
            return self.pattern.fullmatch(name) is not None
        log.warning(
            "the expression %s is not tried on a name of %d characters, which could keep it busy for ever: %s…; the "
            "name counts as not meant. Write the expression with less repetitions, or without look-around",
            self.text[:_SHOWN],
            len(name),
            name[:_SHOWN],
        )
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Expression:
    """A list of expressions; it matches what one of them does.

    Attributes:
        items: one for the whole list, or one for each of its expressions.
    """

    items: tuple[Item, ...]
    _known: dict[str, bool | None] = field(default_factory=dict, compare=False, repr=False)

    def matches(self, name: str) -> bool | None:
        """Whether it matches the whole name; None where that cannot be told in time."""
        if self._is_quick(name):
            return any(item.pattern.fullmatch(name) for item in self.items)
        try:
            return self._known[name]
        except KeyError:  # not asked before, since another thread may forget all of them
            return self._answers([name])[name]

    def learn(self, names: Iterable[str]) -> None:
        """Finds the answers for names that are not quick at once, which is faster for many."""
        new = [name for name in names if name not in self._known and not self._is_quick(name)]
        if new:
            self._answers(new)

    def _is_quick(self, name: str) -> bool:
        return all(item.is_quick(name) for item in self.items)

    def _answers(self, names: list[str]) -> dict[str, bool | None]:
        answers = [item.answers(names) for item in self.items]
        found: dict[str, bool | None] = {}
        for name in names:
            told = [each[name] for each in answers]
            found[name] = True if True in told else None if None in told else False
        if len(self._known) + len(found) > KNOWN:
            self._known.clear()
        self._known.update(found)
        return found
