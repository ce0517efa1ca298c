r"""Which names an ACL has to cover so that a list of Java expressions can choose them.

An ACL knows a name, a prefix, or everything. An expression whose beginning is plain text becomes that prefix, one that
is plain text as a whole becomes that name, and any other becomes everything. A dot counts as a dot, as people mean it
in ``team.orders``: what the expression would match besides cannot be seen without the right, and so is not chosen.

Invariant: apart from that dot, no name that the expressions match is left out.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from sparkmirror.kafka.acls import EVERYTHING, PatternType

_PLAIN = re.compile(r"(?:[A-Za-z0-9_.\-]|\\[^A-Za-z0-9])(?![*+?{])")
_FLAGS = re.compile(r"\(\?[a-zA-Z]")


@dataclass(frozen=True, slots=True, order=True)
class Reach:
    """What an ACL covers: a name, or all that begins with it."""

    name: str
    pattern: PatternType

    def covers(self, other: Reach) -> bool:
        """Whether every name of the other is one of its own."""
        if self == ALL:
            return True
        if self.pattern is PatternType.PREFIXED:
            return other != ALL and other.name.startswith(self.name)
        return self == other


ALL = Reach(EVERYTHING, PatternType.LITERAL)


def reach(expressions: Sequence[str]) -> tuple[Reach, ...]:
    """What covers the names that a list of expressions matches; in order, nothing twice."""
    joined = "|".join(expressions)
    if not joined:
        return ()
    if _FLAGS.search(joined):  # a flag such as (?i) may hold for all that follows
        return (ALL,)
    return smallest([_reach(branch) for branch in _branches(joined)])


def smallest(found: Sequence[Reach]) -> tuple[Reach, ...]:
    """Those that none of the others covers."""
    each = sorted(set(found))
    return tuple(one for one in each if not any(other.covers(one) for other in each if other != one))


def _reach(branch: str) -> Reach:
    at, name = 0, ""
    while found := _PLAIN.match(branch, at):
        name += found[0][-1]
        at = found.end()
    if at == len(branch) and name:
        return Reach(name, PatternType.LITERAL)
    return Reach(name, PatternType.PREFIXED) if name else ALL


def _branches(joined: str) -> list[str]:
    """The parts between those ``|`` that stand in no group and no class."""
    parts, depth, in_class, at = [""], 0, False, 0
    while at < len(joined):
        size = 2 if joined[at] == "\\" else 1
        sign = joined[at : at + size]
        if sign == "|" and depth == 0 and not in_class:
            parts.append("")
        else:
            in_class = (in_class and sign != "]") or sign == "["
            depth += 0 if in_class else (sign == "(") - (sign == ")")
            parts[-1] += sign
        at += size
    return parts
