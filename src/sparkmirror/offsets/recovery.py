"""The recovery point: the latest moment for which all that the source had taken by then is known to be on the target.

What came to the source after it would be lost if the source were lost now. Its age at any time is that time minus the
point, whatever has become of the driver since. Pure; moments are milliseconds since 1970, on the wall clock of the
machine where they were seen.

Invariants:
    * A point never moves on without the source: each rests on an answer of it, and is not later than the moment when
      the request left that it answers.
    * Where the copy was level with an answer, timestamps do not count. So a partition that was idle for days and gets
      one record is not days behind.
    * Where it has not been level since, the newest timestamp that was copied counts, as in MirrorMaker 2's latency. It
      is only as good as the producers' clocks: a timestamp from the future counts as the moment of the last answer.
"""

from __future__ import annotations

from typing import NamedTuple

from sparkmirror.model import TopicPartition

UNKNOWN_MS = -1
"""Of a partition of which nothing has been copied and with which the copy never was level; or told by nobody."""


class Answer(NamedTuple):
    """One answer of the source about a partition: when the request for it left, and where the log ended."""

    asked_ms: int
    end: int


class RecoveryPoint(NamedTuple):
    """Of a lane or a flow: the earliest point among its partitions, and whose that is."""

    time_ms: int
    partition: TopicPartition


def recovery_ms(known_ms: int, *, position: int, answer: Answer | None, newest_ms: int, asked_ms: int) -> int:
    """The recovery point of one partition.

    Args:
        known_ms: the point so far, or `UNKNOWN_MS`.
        position: all below it is on the target.
        answer: one of the source; the point moves to it when the position has reached its end.
        newest_ms: the newest timestamp that was copied, or -1.
        asked_ms: when the request left that the source answered last, or `UNKNOWN_MS`.
    """
    level = answer.asked_ms if answer is not None and position >= answer.end else UNKNOWN_MS
    by_timestamp = min(newest_ms, asked_ms) if newest_ms >= 0 else UNKNOWN_MS
    return max(known_ms, level, by_timestamp)


def age_ms(time_ms: int, now_ms: int) -> int | None:
    """How old a recovery point is; None where it is not known. Clocks that differ make no age negative."""
    return None if time_ms == UNKNOWN_MS else max(0, now_ms - time_ms)
