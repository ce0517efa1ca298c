"""In how many ways a regular expression may try to match a name, counted while it is read.

Purpose: Python's engine tries one way after the other and holds the interpreter's lock, so an expression that has many
ways for a long name stops the whole process. Strangers choose the names.

Invariant: never less than there are, for a name of any length; more is fine. A repetition of what has a choice itself
counts as endless.

Pure. Reference: CWE-1333.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import reduce
from itertools import product, zip_longest


@dataclass(frozen=True, slots=True)
class Ways:
    """A number that grows with the length of the name.

    Attributes:
        factors: of the powers of the length, from the one of degree 0 on.
    """

    factors: tuple[float, ...]

    def of(self, length: int) -> float:
        """How many they are for a name of a length."""
        return sum(factor * float(max(1, length)) ** degree for degree, factor in enumerate(self.factors) if factor)

    def longest(self, most: float) -> int:
        """The length up to which there are no more than ``most`` of them; -1 where there are more for any name."""
        low, high = -1, LONGEST
        while low < high:
            middle = (low + high + 1) // 2
            if self.of(middle) <= most:
                low = middle
            else:
                high = middle - 1
        return low

    def and_then(self, other: Ways) -> Ways:
        """Each of these before each of others."""
        products = [0.0] * max(0, len(self.factors) + len(other.factors) - 1)
        for (degree, one), (more, two) in product(enumerate(self.factors), enumerate(other.factors)):
            if one and two:  # 0 times an endless number is 0 here
                products[degree + more] += one * two
        return ENDLESS if len(products) > _MOST else Ways(tuple(products))

    def or_else(self, other: Ways) -> Ways:
        """These and others."""
        return Ways(tuple(one + two for one, two in zip_longest(self.factors, other.factors, fillvalue=0.0)))

    def repeated(self, least: int, most: int | None) -> Ways:
        """These, as often as a quantifier says; ``most`` None for one without an upper end."""
        if most is None:
            return EACH if self == ONE else ENDLESS
        choices = Ways((float(max(1, most - least + 1)),))
        if self == ONE:
            return choices
        if most > _MOST:
            return ENDLESS
        return reduce(Ways.and_then, [self] * most, choices)


LONGEST = 1 << 16
"""Characters; Kafka's protocol has no longer names."""

_MOST = 64
"""More than any name may have is endless too."""

ONE, NONE, ENDLESS = Ways((1.0,)), Ways(()), Ways((math.inf,))
EACH = Ways((0.0, 1.0))
"""As many as the name has characters."""


@dataclass(slots=True)
class _Group:
    """A group that is being read: its branches, and what a pass over its look-arounds costs beside them."""

    is_look: bool = False
    branches: Ways = NONE
    product: Ways = ONE
    beside: Ways = NONE
    last: Ways = ONE
    last_beside: Ways = NONE

    def settle(self) -> None:
        """What was read last cannot be repeated any more."""
        self.beside = self.beside.or_else(self.product.and_then(self.last_beside))
        self.product = self.product.and_then(self.last)
        self.last, self.last_beside = ONE, NONE

    def branch(self) -> None:
        self.settle()
        self.branches, self.product = self.branches.or_else(self.product), ONE


@dataclass(slots=True)
class Counting:
    """Takes the parts of an expression, from left to right."""

    _open: list[_Group] = field(default_factory=lambda: [_Group()])

    def atom(self) -> None:
        """A character, a class, an anchor or a reference."""
        self._open[-1].settle()

    def open(self, *, is_look: bool) -> None:
        """A group begins; a look-around is tried once for each way before it, and has no place in what follows."""
        self._open[-1].settle()
        self._open.append(_Group(is_look=is_look))

    def close(self) -> None:
        """It ends."""
        group = self._open.pop()
        group.branch()
        into = self._open[-1]
        into.last = ONE if group.is_look else group.branches
        into.last_beside = group.beside.or_else(group.branches) if group.is_look else group.beside

    def branch(self) -> None:
        """Another alternative of the group begins."""
        self._open[-1].branch()

    def repeat(self, least: int, most: int | None) -> None:
        """A quantifier for what was read last."""
        group = self._open[-1]
        group.last = group.last.repeated(least, most)
        often = EACH if most is None else Ways((float(max(1, most)),))
        group.last_beside = group.last_beside.and_then(often)

    def total(self) -> Ways:
        """Of the whole expression, once all of it is read."""
        group = self._open[0]
        group.branch()
        return group.branches.or_else(group.beside)
