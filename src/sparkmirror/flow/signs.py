"""Signs of life on the control topic, as the driver hears them: which lane is silent, which run has the flow.

A lane that is silent may be dead, stopped or cut off. The driver says so on the control topic before it takes its
partitions over; a lane that reads this ends without sending. A new run says that it has the flow; whoever reads that,
lanes and driver of the run before, ends.

Invariants: silence counts only while the driver itself can read the topic; a shift that was never heard has longer,
since it may wait for a place in Spark, and each one that is given up unheard gives its successors twice the time, since
a machine that is too slow for one would be too slow for all; the driver's own word comes before a takeover.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from sparkmirror.copy.control import RUN_KEY, is_ours, run_value, told_alive, told_run
from sparkmirror.kafka.cluster import Cluster
from sparkmirror.kafka.journal import Entry, Journal
from sparkmirror.offsets import json_text
from sparkmirror.offsets.foreign import Flaw, Foreign
from sparkmirror.offsets.recovery import RecoveryPoint

SILENT_SECONDS = 10.0
FIRST_SECONDS = 120.0
"""Until a shift's first sign. Spark tells at once when the worker of one that has not spoken yet has died, so this is
only for one that hangs; whoever is given up while it starts takes the time that its successor needs."""

MOST_PATIENCE = 4
"""How many times as long a shift has until its first sign, at most."""

DEAF_SECONDS = 3.0
"""A driver that heard nothing at all for so long was cut off itself, or busy."""


@dataclass(slots=True)
class Heard:
    """When each shift of one run was heard last. Pure, but for the clock that is passed in.

    Attributes:
        run: whose shifts.
        follower: the run that has taken the flow, or "".
        points: up to when the partitions of a shift are copied, as it told last.
        foreign: records that no mirror has written, passed over.
    """

    run: str
    follower: str = ""
    points: dict[str, RecoveryPoint] = field(default_factory=dict)
    foreign: Foreign = field(default_factory=Foreign)
    _shifts: dict[str, float] = field(default_factory=dict)
    _unheard: set[str] = field(default_factory=set)
    _patience: int = 1
    _listened: float = 0.0

    def take(self, entries: Sequence[Entry], now: float) -> None:
        """Adds what was read until ``now``."""
        if now - self._listened > DEAF_SECONDS:
            self._shifts = {shift: max(at, now) for shift, at in self._shifts.items()}
        self._listened = now
        for entry in entries:
            if entry.value is None:
                self.foreign.forget(entry.key)
            elif not is_ours(entry.key):
                self.foreign.note(entry.key, entry.offset, Flaw.KEY)
            else:
                self._take(entry, entry.value, now)

    def _take(self, entry: Entry, value: str, now: float) -> None:
        try:
            if entry.key == RUN_KEY:
                named = told_run(value)
                self.follower = "" if named == self.run else named
            sign = _sign(entry)
            if sign is not None and sign[0] == self.run:
                self._shifts[sign[1]] = now
                self._unheard.discard(sign[1])
                self._patience = 1
                point = told_alive(value)
                if point is not None:
                    self.points[sign[1]] = point
            self.foreign.forget(entry.key)
        except ValueError:
            self.foreign.note(entry.key, entry.offset, Flaw.VALUE)

    def expect(self, shift: str, now: float) -> None:
        """A shift was handed to Spark, and is to be heard in time, or a multiple of it."""
        self._shifts[shift] = now + FIRST_SECONDS * self._patience - SILENT_SECONDS
        self._unheard.add(shift)

    def forget(self, shift: str) -> None:
        """A shift has ended."""
        self._shifts.pop(shift, None)
        self.points.pop(shift, None)
        self._unheard.discard(shift)

    def give_up(self, shift: str) -> None:
        """A shift was silent, and is not waited for any longer."""
        if shift in self._unheard:
            self._patience = min(MOST_PATIENCE, 2 * self._patience)
        self.forget(shift)

    def silent(self, now: float) -> frozenset[str]:
        """The shifts that were not heard for too long."""
        return frozenset(shift for shift, at in self._shifts.items() if now - at > SILENT_SECONDS)


class Signs:
    """Speaks and listens for one run.

    Args:
        target: where the control topic is.
        topic: the control topic.
        run: the run's name.
        timeout_ms: of each exchange.
    """

    def __init__(self, target: Cluster, topic: str, run: str, timeout_ms: int) -> None:
        self._target = target
        self._journal = Journal(target, topic)
        self._next = 0
        self._timeout_ms = timeout_ms
        self._heard = Heard(run)
        self._others: frozenset[str] = frozenset()

    @property
    def foreign(self) -> tuple[str, ...]:
        """What no mirror has written here, a line for each kind."""
        return self._heard.foreign.lines(f"cluster {self._target.alias}, {self._journal.topic}-0")

    @property
    def haunted(self) -> bool:
        """Whether lanes of another run ended unheard, and may still live."""
        return bool(self._others)

    def announce(self) -> int:
        """Says that this run has the flow now; gives the offset from which on its lanes read.

        Raises:
            BrokerError: the topic cannot be read or written.
            LinkError: the target does not answer.
        """
        run = self._heard.run
        self._target.run(self._journal.append, [(RUN_KEY, run_value(run))], self._timeout_ms)
        newest, self._next = self._target.run(self._journal.read_all, self._timeout_ms)
        signs = {key: _sign(entry) for key, entry in newest.items()}
        self._others = frozenset(key for key, sign in signs.items() if sign is not None and sign[0] != run)
        return self._next

    def bury(self) -> None:
        """Forgets the lanes of other runs, once they surely have ended.

        Raises:
            BrokerError: the topic cannot be written.
            LinkError: the target does not answer.
        """
        if self._others:
            words: list[tuple[str, str | None]] = [(key, None) for key in sorted(self._others)]
            self._target.run(self._journal.append, words, self._timeout_ms)
            self._others = frozenset()

    def follow(self) -> None:
        """Reads what is new, to the end.

        Raises:
            BrokerError: the topic cannot be read.
            LinkError: the target does not answer.
        """
        end = self._next + 1
        while self._next < end:
            before = self._next
            entries, self._next, end = self._target.run(self._journal.read, self._next, 0, self._timeout_ms)
            self._heard.take(entries, time.monotonic())
            while self._journal.unopened:
                offset, reason = self._journal.unopened.popitem()
                self._heard.foreign.note(f"offset {offset}: {reason}", offset, Flaw.BATCH)
            if self._next == before:
                break

    def expect(self, shift: str) -> None:
        """A shift was handed to Spark."""
        self._heard.expect(shift, time.monotonic())

    def forget(self, shift: str) -> None:
        """A shift has ended."""
        self._heard.forget(shift)

    def give_up(self, shift: str) -> None:
        """A shift is not waited for any longer."""
        self._heard.give_up(shift)

    @property
    def follower(self) -> str:
        """The run that has taken the flow from this one, or ""."""
        return self._heard.follower

    def point(self, shift: str) -> RecoveryPoint | None:
        """The earliest recovery point of a shift's partitions, as it told last."""
        return self._heard.points.get(shift)

    def silent(self) -> frozenset[str]:
        """The shifts that were not heard for too long."""
        return self._heard.silent(time.monotonic())


def _sign(entry: Entry) -> tuple[str, str] | None:
    """Run and shift of a sign of life; None for every other record."""
    if entry.value is None or not entry.key.startswith('["alive"'):
        return None
    try:
        match json_text.read(entry.key):
            case ["alive", str(run), str(shift)]:
                return run, shift
    except ValueError:
        pass
    return None
