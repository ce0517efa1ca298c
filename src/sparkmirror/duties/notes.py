"""What a duty tells once while it lasts: things that its owner should know and that each round finds again.

Invariant: a note that a round did not find any more is told again should it come back.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import Generic, TypeVar

N = TypeVar("N", bound=Hashable)


class Notes(Generic[N]):
    """Knows which notes were told and still stand."""

    def __init__(self) -> None:
        self._told: frozenset[N] = frozenset()

    def stand(self, found: Iterable[N]) -> None:
        """A look has found these, and no others."""
        self._told &= frozenset(found)

    def tell(self, note: N) -> bool:
        """Whether a note is new; from now on it is told."""
        new = note not in self._told
        self._told |= {note}
        return new
