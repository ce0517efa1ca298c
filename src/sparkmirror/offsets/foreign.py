"""Records in a topic of mirrors that no mirror has written: passed over, counted, told of in one line for each kind.

Invariants: a record of which nothing depends is passed over and never ends the reading; a tombstone of its key, or a
sound record, takes it off the count. Of keys as many are remembered as an operator can look at; more are counted only,
and stay so until the topic is read anew.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple

MOST_KEYS = 1_000
LONGEST = 200
"""Characters of a key that are remembered, and shown."""

REMEDY = "a record without a value under that key removes it, see docs/internal-topics.md#records-of-others"


class Flaw(Enum):
    """What is wrong with a record; the value is for people."""

    KEY = "with keys that no mirror writes"
    VALUE = "with values that no mirror writes"
    BATCH = "in batches that cannot be opened"


class Sighting(NamedTuple):
    """Where such a record lies, and what is wrong with it."""

    offset: int
    flaw: Flaw


@dataclass(slots=True)
class Foreign:
    """Those of one topic.

    Attributes:
        counts: how many of each kind there are.
        newest: the key of the newest of each kind, and where it lies.
    """

    counts: dict[Flaw, int] = field(default_factory=dict)
    newest: dict[Flaw, tuple[str, int]] = field(default_factory=dict)
    _known: dict[str, Sighting] = field(default_factory=dict)

    def __len__(self) -> int:
        return sum(self.counts.values())

    def note(self, key: str, offset: int, flaw: Flaw) -> bool:
        """Counts one; whether it is the first of its kind."""
        short = key[:LONGEST]
        self.forget(short)
        if len(self._known) < MOST_KEYS:
            self._known[short] = Sighting(offset, flaw)
        self.newest[flaw] = short, offset
        self.counts[flaw] = self.counts.get(flaw, 0) + 1
        return self.counts[flaw] == 1

    def forget(self, key: str) -> None:
        """A tombstone, or a sound record, has taken the place of the one with this key."""
        known = self._known.pop(key[:LONGEST], None) if self._known else None
        if known is None:
            return
        flaw = known.flaw
        self.counts[flaw] -= 1
        if not self.counts[flaw]:
            del self.counts[flaw], self.newest[flaw]
        elif self.newest[flaw][1] == known.offset:
            left = ((one.offset, name) for name, one in self._known.items() if one.flaw is flaw)
            self.newest[flaw] = max(left, default=self.newest[flaw][::-1])[::-1]

    def lines(self, place: str) -> tuple[str, ...]:
        """For people, one for each kind.

        Args:
            place: the cluster, and the topic with its partition.
        """
        return tuple(self.line(place, flaw) for flaw in self.counts)

    def line(self, place: str, flaw: Flaw) -> str:
        """That of one kind."""
        count, (key, offset) = self.counts[flaw], self.newest[flaw]
        what = "a record" if count == 1 else f"{count} records"
        if flaw is Flaw.BATCH:
            what = "a batch" if count == 1 else f"{count} batches"
            return f"{place} holds {what} that no mirror writes, the last at offset {offset}: passed over: {key}"
        return f"{place} holds {what} {flaw.value}, the last at offset {offset}, key {key}: passed over; {REMEDY}"


OVERWRITTEN = (
    "somebody has overwritten a record of the mirror's own. Write what it held before, or remove it with a record "
    "without a value under that key: docs/internal-topics.md#records-of-others says how, and what each costs"
)
"""What is said of it, with what helps."""


class Broken(NamedTuple):
    """One of our own records that cannot be read, and on which something may depend."""

    offset: int
    reason: str


def told_of(place: str, broken: Mapping[str, Broken]) -> str:
    """Why nothing goes on over our own records that cannot be read, with the first of them; "" where there are none."""
    for offset, reason in broken.values():
        more = f" (and {len(broken) - 1} more)" if len(broken) > 1 else ""
        return f"{place} at offset {offset}{more}: {reason}: {OVERWRITTEN}"
    return ""
