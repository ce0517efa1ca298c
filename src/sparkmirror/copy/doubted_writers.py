"""What a lane tells of producers that the registry of writers names, and that their cluster does not confirm.

Anybody who may write to the registry may name any number of them, so one event tells of all of a partition: the first
few ids, how many more there are, how many records, and from where to where. It is told again when there are twice as
many producers, or ten times as many records, and with its last figures when the shift ends.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from sparkmirror.copy.origins import LeftOut
from sparkmirror.events import Kind
from sparkmirror.model import NO_OFFSET

NAMED = 20
"""Producer ids that the event names."""


@dataclass(slots=True)
class DoubtedWriters:
    """The producers of one partition in one shift.

    Attributes:
        kind: of the event.
        records: of these producers.
        first, last: their source offsets, or `NO_OFFSET`.
    """

    kind: Kind
    records: int = 0
    first: int = NO_OFFSET
    last: int = NO_OFFSET
    _reason: str = ""
    _producers: dict[int, int] = field(default_factory=dict)
    _told: tuple[int, int] = (0, 0)

    def add(self, one: LeftOut) -> None:
        """Counts batches of an answer; those that come a second time are counted once."""
        before = self._producers.get(one.producer_id, NO_OFFSET)
        new = [(behind, count) for behind, count in one.batches if behind > before]
        if not new:
            return
        self._reason = self._reason or one.doubt
        self._producers[one.producer_id] = new[-1][0]
        self.records += sum(count for _, count in new)
        self.first = one.first if self.first == NO_OFFSET else min(self.first, one.first)
        self.last = max(self.last, one.last)

    def is_due(self, *, last: bool = False) -> bool:
        """Whether it is to be told, again or for the first time; the ``last`` time all that was not told yet is."""
        producers, records = self._told
        if last:
            return self._told != (len(self._producers), self.records)
        return len(self._producers) >= max(1, 2 * producers) or self.records >= max(1, 10 * records)

    def tell(self) -> str:
        """The event's text, which is told now."""
        self._told = (len(self._producers), self.records)
        _, *others = self._producers
        more = ""
        if others:
            named = ", ".join(map(str, others[: NAMED - 1]))
            rest = f" and {len(others) - NAMED + 1} more" if len(others) >= NAMED else ""
            more = f"; so are those of {len(others)} more producers that it names: {named}{rest}"
        return f"{self._reason}{more}; {self.records} records so far, of offsets {self.first} to {self.last}"
