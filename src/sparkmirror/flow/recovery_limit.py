"""The events of a recovery point's limit, ``rpo.limit.ms``: when it is passed, and when it is kept again. Pure.

Invariants: each is told once, also over restarts, since what is on record is where the next run begins; a recovery
point that swings about its limit is not told of each time.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime

from sparkmirror.events import Event, Kind
from sparkmirror.model import TopicPartition
from sparkmirror.offsets.records import FLOW, Happened, event_key
from sparkmirror.offsets.recovery import RecoveryPoint, age_ms

LONGEST_CALM_MS = 30_000
"""For so long, or for half of the limit, it is kept before that is told: it may be passed again at once."""

UNKNOWN_MS = 60_000
"""A recovery point may be unknown for so long, or for as long as the limit if that is more: lanes take a while to
begin, and of a topic that is new nothing has been copied yet."""


class Alarm:
    """Says once that the limit is passed, and once that the recovery point is within it again.

    Args:
        limit_ms: the limit.
        known: the events on record; where they end, this begins.
    """

    def __init__(self, limit_ms: int, known: Mapping[str, Happened]) -> None:
        self._limit_ms = limit_ms
        self._passed = is_passed(known)
        self._unknown_since: int | None = None
        self._within_since: int | None = None

    def look(self, point: RecoveryPoint | None, now_ms: int) -> Event | None:
        """What its operator must know now, if anything.

        A point that is not known passes every limit, when that lasts.
        """
        if point is None:
            return None
        age = age_ms(point.time_ms, now_ms)
        if age is None:
            self._unknown_since = since = self._unknown_since or now_ms
            too_long = now_ms - since > max(self._limit_ms, UNKNOWN_MS)
            return self._passes(_unknown(point.partition, since), now_ms) if too_long else None
        self._unknown_since = None
        if age > self._limit_ms:
            return self._passes(_too_old(point, age, self._limit_ms), now_ms)
        return self._keeps(now_ms)

    def _passes(self, complaint: str, now_ms: int) -> Event | None:
        self._within_since = None
        if self._passed:
            return None
        self._passed = True
        return Event(kind=Kind.RPO_PASSED, text=complaint, time_ms=now_ms)

    def _keeps(self, now_ms: int) -> Event | None:
        self._within_since = since = self._within_since or now_ms
        if not self._passed or now_ms - since < min(LONGEST_CALM_MS, self._limit_ms // 2):
            return None
        self._passed = False
        text = f"the recovery point is within rpo.limit.ms ({self._limit_ms}) again, since {_moment(since)}"
        return Event(kind=Kind.RPO_WITHIN, text=text, time_ms=now_ms)


def is_passed(known: Mapping[str, Happened]) -> bool:
    """Whether the last that is on record of the limit is that it was passed."""
    passed, within = (known.get(event_key(FLOW, kind)) for kind in (Kind.RPO_PASSED, Kind.RPO_WITHIN))
    return passed is not None and (within is None or within.event.time_ms < passed.event.time_ms)


def _too_old(point: RecoveryPoint, age: int, limit_ms: int) -> str:
    return (
        f"the recovery point, {_moment(point.time_ms)}, is {age / 1000:.0f} s old, which is more than rpo.limit.ms "
        f"({limit_ms}); {point.partition} is furthest behind"
    )


def _unknown(partition: TopicPartition, since: int) -> str:
    return (
        f"the recovery point has not been known since {_moment(since)}: nothing of {partition} has been copied, so no "
        "rpo.limit.ms is kept"
    )


def _moment(time_ms: int) -> str:
    return f"{datetime.fromtimestamp(time_ms / 1000, UTC):%Y-%m-%dT%H:%M:%SZ}"
