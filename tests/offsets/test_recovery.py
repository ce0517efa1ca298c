"""Up to when the target surely has all that the source took."""

from __future__ import annotations

import pytest

from sparkmirror.model import TopicPartition
from sparkmirror.offsets.recovery import UNKNOWN_MS, Answer, RecoveryPoint, age_ms, recovery_ms

ASKED = 1_700_000_000_000
"""When the request left that the source answered last."""
DAY = 86_400_000


@pytest.mark.parametrize(
    ("known", "position", "answer", "newest", "asked", "expected"),
    [
        pytest.param(-1, 50, Answer(ASKED, 50), -1, ASKED, ASKED, id="level with the answer: when it was asked for"),
        pytest.param(-1, 0, Answer(ASKED, 0), -1, ASKED, ASKED, id="an empty partition is level"),
        pytest.param(-1, 50, Answer(ASKED, 50), ASKED - DAY, ASKED, ASKED, id="level, and idle for a day"),
        pytest.param(ASKED - 10, 50, Answer(ASKED, 51), ASKED - DAY, ASKED, ASKED - 10, id="one record after a day"),
        pytest.param(-1, 50, Answer(ASKED, 90), -1, ASKED, -1, id="behind, with nothing copied"),
        pytest.param(-1, 50, Answer(ASKED, 90), ASKED - 7, ASKED, ASKED - 7, id="behind: the newest timestamp"),
        pytest.param(-1, 50, Answer(ASKED, 90), ASKED + DAY, ASKED, ASKED, id="a timestamp from the future"),
        pytest.param(-1, 50, Answer(ASKED, 90), ASKED - DAY, ASKED, ASKED - DAY, id="a backfill is as old as it says"),
        pytest.param(ASKED, 50, None, ASKED - 7, ASKED, ASKED, id="never back to an older timestamp"),
        pytest.param(ASKED, 50, None, -1, -1, ASKED, id="nothing new: as it was, paused or with an error"),
        pytest.param(ASKED, 50, Answer(ASKED - 9, 50), -1, ASKED - 9, ASKED, id="a clock that was set back"),
        pytest.param(-1, 50, None, ASKED, -1, -1, id="timestamps alone, without an answer"),
        pytest.param(-1, 60, Answer(ASKED - 500, 55), ASKED - 900, ASKED, ASKED - 500, id="behind, past an answer"),
    ],
)
def test_the_recovery_point_of_a_partition(
    known: int, position: int, answer: Answer | None, newest: int, asked: int, expected: int
):
    assert recovery_ms(known, position=position, answer=answer, newest_ms=newest, asked_ms=asked) == expected


@pytest.mark.parametrize(
    ("time_ms", "now_ms", "expected"),
    [(1_000, 1_000, 0), (1_000, 61_000, 60_000), (UNKNOWN_MS, 61_000, None), (61_000, 1_000, 0)],
    ids=["now", "grows with time alone", "unknown", "a clock that is ahead"],
)
def test_the_age_of_a_recovery_point(time_ms: int, now_ms: int, expected: int | None):
    assert age_ms(time_ms, now_ms) == expected


def test_the_earliest_is_the_one_that_is_not_known():
    here, there = TopicPartition("a", 0), TopicPartition("b", 0)
    assert min(RecoveryPoint(5, here), RecoveryPoint(UNKNOWN_MS, there)).partition == there
