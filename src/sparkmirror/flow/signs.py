"""Signs of life on the control topic, as the driver hears them: which lane is silent, which run has the flow.

A lane that is silent may be dead, stopped or cut off. The driver says so on the control topic before it takes its
partitions over; a lane that reads this ends without sending. A new run takes the flow and then says so: lanes of the
run before end when they read that, and its driver is refused when it looks whether it still has the flow.

What says that a run has the flow is not fenced: a request of a driver that died may arrive late, and the topic may lose
its end, down to an older one. So a driver that reads the word of another run, or finds the topic shorter than it was,
ends only where it no longer owns the internal topic; else it says once more that it has the flow.

Invariants: silence counts only while the driver itself can read the topic; a shift that was never heard has longer,
since it may wait for a place in Spark, and each one that is given up unheard gives its successors twice the time, since
a machine that is too slow for one would be too slow for all; the driver's own word comes before a takeover.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from sparkmirror.copy.control import RUN_KEY, UNANNOUNCED, Announced, is_ours, run_value, told_alive, told_run
from sparkmirror.kafka.cluster import Cluster
from sparkmirror.kafka.journal import Cursor, Entry, Journal
from sparkmirror.kafka.producer_ids import NOBODY
from sparkmirror.model import Writer
from sparkmirror.offsets import json_text
from sparkmirror.offsets.foreign import Flaw, Foreign
from sparkmirror.offsets.recovery import RecoveryPoint

log = logging.getLogger(__name__)

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
        announced: what this run has said of itself.
        follower: a run of an older release that has taken the flow, or "": its driver says so before it does.
        doubted: whether the newest word on who has the flow is not this run's, or may be lost.
        points: up to when the partitions of a shift are copied, as it told last.
        foreign: records that no mirror has written, passed over.
    """

    run: str
    announced: Announced = UNANNOUNCED
    follower: str = ""
    doubted: bool = False
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
                self._take_run(told_run(value))
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

    def _take_run(self, named: Announced) -> None:
        if named.run == self.run:
            self.follower, self.doubted = "", named.is_before(self.announced)
        elif named.driver == NOBODY:
            self.follower = named.run
        else:
            self.doubted = True

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
        self._cursor = Cursor()
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

    def announce(self, announced: Announced) -> int:
        """Says that this run has the flow now; gives the offset from which on its lanes read.

        Raises:
            BrokerError: the topic cannot be read or written.
            LinkError: the target does not answer.
        """
        self._say(announced)
        newest, end = self._target.run(self._journal.read_all, self._timeout_ms)
        self._cursor = Cursor(end)
        self._heard.take([entry for key, entry in newest.items() if key == RUN_KEY], time.monotonic())
        signs = {key: _sign(entry) for key, entry in newest.items()}
        self._others = frozenset(key for key, sign in signs.items() if sign is not None and sign[0] != announced.run)
        return end

    def announce_again(self, generation: int, driver: Writer) -> None:
        """Says so once more, behind what others have said, or in place of what is lost.

        Raises:
            BrokerError: the topic cannot be written.
            LinkError: the target does not answer.
        """
        self._say(Announced(run=self._heard.run, generation=generation, driver=driver))
        self._heard.doubted = False

    def _say(self, announced: Announced) -> None:
        self._heard.announced = announced
        self._target.run(self._journal.append, [(RUN_KEY, run_value(announced))], self._timeout_ms)

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
        end = self._cursor.offset + 1
        while self._cursor.offset < end:
            found = self._target.run(self._journal.follow, self._cursor, self._timeout_ms)
            if found.parted is not None:
                self._begin_again()
                end = 1
                continue
            before, self._cursor, end = self._cursor, found.cursor, found.end
            self._heard.take(found.entries, time.monotonic())
            while self._journal.unopened:
                offset, reason = self._journal.unopened.popitem()
                self._heard.foreign.note(f"offset {offset}: {reason}", offset, Flaw.BATCH)
            if self._cursor.offset == before.offset:
                break

    def _begin_again(self) -> None:
        """The topic has lost its end, and with that perhaps that this run has the flow."""
        place = f"cluster {self._target.alias}, {self._journal.topic}-0"
        log.warning("%s has lost the end of its log: it is read again from its begin", place)
        self._cursor = Cursor()
        self._heard.doubted = True

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
        """A run of an older release that has taken the flow from this one, or ""."""
        return self._heard.follower

    @property
    def doubted(self) -> bool:
        """Whether the topic may not end with this run's word that it has the flow."""
        return self._heard.doubted

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
