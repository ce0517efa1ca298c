"""Puts on record again what the flow's internal topic has lost of the offset map and of the flow's newest start.

What its driver has read is what it puts there.

Invariants:
    * A driver of many partitions is not held up: the topic is read once, a part in each round, and what it lacks is
      looked for every few seconds.
    * What hinders it is told once. It is tried again all the same, for as long as the run lasts: whoever starts later
      reads nothing but the topic.
    * A run that has not put all there again has no clean end, or the next one would go by what is left.
"""

from __future__ import annotations

import math

from sparkmirror.errors import FencedError, SparkmirrorError
from sparkmirror.events import Event, Kind
from sparkmirror.flow.opening import Opened
from sparkmirror.kafka.backoff import Backoff
from sparkmirror.offsets.records import FLOW, Happened, Record
from sparkmirror.offsets.restoring import Lacking, lacking

PART_SECONDS = 0.5
"""So long a round reads what the topic has left."""

PAUSE = Backoff(first=5.0, most=60.0)
"""After a round that has failed, or has found what is not acknowledged yet."""

WAIT_SECONDS = 30.0
"""So long something lost is waited for that is not acknowledged yet, before that is told."""


def last_records(opened: Opened, *, over: bool = True) -> list[Record]:
    """What a run writes last that has copied nothing, and of which nobody else writes: a clean end.

    Where the internal topic has lost what this run has read, and does not take it again, an event in place of that.

    Args:
        opened: what its opening gave.
        over: whether nobody else writes any more; there is no clean end else.

    Raises:
        FencedError: another run has the flow.
        SparkmirrorError: the topic cannot be read.
    """
    opened.store.follow()
    told = Restoring(opened).end(over=over)
    ends = [opened.stopped()] if over and not opened.store.lacks else []
    return [*(Happened(partition=FLOW, event=event) for event in told), *ends]


class Restoring:
    """Of one flow.

    Args:
        opened: what its opening gave.
    """

    def __init__(self, opened: Opened) -> None:
        self._opened = opened
        self._due = -math.inf
        self._in_vain = 0
        self._waits_since = math.inf
        self._told = False

    def go_on(self, now: float) -> tuple[Event, ...]:
        """One round; the waiting begins when the topic has been read.

        Returns:
            what is to be told.

        Raises:
            FencedError: another run has the flow.
        """
        if not self._opened.store.lacks or now < self._due:
            return ()
        try:
            found = self._look(PART_SECONDS)
        except FencedError:
            raise
        except SparkmirrorError as failure:
            self._again(now)
            return self._hindered(f"{failure}. See that the driver can read and write the topic")
        if found is None:
            self._waits_since = math.inf
            return ()
        if not found.waits:
            return self._restored()
        self._waits_since = min(self._waits_since, now)
        self._again(now)
        if now - self._waits_since < WAIT_SECONDS:
            return ()
        return self._hindered(
            "batches that it tells of are not acknowledged yet. See why their partitions do not go on, which "
            "sparkmirror status names"
        )

    def end(self, *, over: bool) -> tuple[Event, ...]:
        """The last round; the topic still lacks something where it did not succeed.

        Args:
            over: whether nobody but the driver writes any more, so that nothing is waited for.

        Returns:
            what is to be told.

        Raises:
            FencedError: another run has the flow.
        """
        if not self._opened.store.lacks:
            return ()
        try:
            found = self._look(math.inf, over=over)
        except FencedError:
            raise
        except SparkmirrorError as failure:
            reason = f"{failure}. See that the driver can read and write the topic before the next start"
        else:
            if found is not None and not found.waits:
                return self._restored()
            reason = "batches that it tells of were not acknowledged"
        text = (
            f"{self._opened.store.place} has lost a part of the offset map, which could not be put there again: "
            f"{reason}. So this is no clean end: the next start reads the target's logs, and source offsets of which "
            "it finds entries missing are not called exact"
        )
        return (Event(kind=Kind.NOTE, text=text),)

    def _look(self, seconds: float, *, over: bool = False) -> Lacking | None:
        """Writes what may be written; None where the topic is not read to its end yet."""
        store = self._opened.store
        left = store.left(seconds)
        if left is None:
            return None
        found = lacking(store.state, left, self._opened.writers.ids, over=over)
        store.write(found.records, found.keys)
        if not found.waits:
            store.restored()
        return found

    def _again(self, now: float) -> None:
        self._in_vain += 1
        self._due = now + PAUSE.after(self._in_vain)

    def _hindered(self, reason: str) -> tuple[Event, ...]:
        if self._told:
            return ()
        self._told = True
        text = (
            f"{self._opened.store.place} has lost a part of the offset map, which is not there again yet: {reason}. It "
            f"is tried again every {PAUSE.most:.0f} s at least; a run that ends before that has no clean end, and the "
            "next start reads the target's logs"
        )
        return (Event(kind=Kind.NOTE, text=text),)

    def _restored(self) -> tuple[Event, ...]:
        told, self._told = self._told, False
        self._due, self._in_vain, self._waits_since = -math.inf, 0, math.inf
        text = f"{self._opened.store.place} has again what its driver had read of the offset map"
        return (Event(kind=Kind.NOTE, text=text),) if told else ()
