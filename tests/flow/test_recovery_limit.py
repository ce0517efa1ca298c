"""When the limit of a recovery point is told, and that it is told once."""

from __future__ import annotations

from collections.abc import Iterable

from sparkmirror.events import Event, Kind
from sparkmirror.flow.recovery_limit import LONGEST_CALM_MS, Alarm, is_passed
from sparkmirror.model import TopicPartition
from sparkmirror.offsets.records import FLOW, Happened
from sparkmirror.offsets.recovery import UNKNOWN_MS, RecoveryPoint

HERE = TopicPartition("orders", 3)
BEGAN = 1_700_000_000_000
LIMIT = 20_000
CALM = LIMIT // 2


def point(second: float) -> RecoveryPoint:
    return RecoveryPoint(BEGAN + int(second * 1_000), HERE)


def events(alarm: Alarm, ages: Iterable[float], begin: float = 0) -> list[tuple[float, Kind]]:
    """Looks once a second, at recovery points of these ages in seconds; gives what was told, and when."""
    told = []
    for second, age in enumerate(ages):
        now = begin + second
        event = alarm.look(point(now - age), BEGAN + int(now * 1_000))
        if event is not None:
            told.append((now, event.kind))
    return told


def known(*told: Event) -> dict[str, Happened]:
    happened = [Happened(partition=FLOW, event=event) for event in told]
    return {each.key: each for each in happened}


def test_a_limit_that_is_passed_is_told_once_and_once_that_it_is_kept_again():
    ages = [*range(300), *([1] * 300)]
    assert events(Alarm(LIMIT, {}), ages) == [(21, Kind.RPO_PASSED), (300 + CALM / 1_000, Kind.RPO_WITHIN)]


def test_a_recovery_point_within_its_limit_is_not_told_of():
    assert events(Alarm(LIMIT, {}), [20.0] * 100) == []


def test_one_that_swings_about_its_limit_is_told_of_once():
    assert events(Alarm(LIMIT, {}), [19, 21] * 500) == [(1, Kind.RPO_PASSED)]


def test_a_long_limit_does_not_wait_longer_than_half_a_minute():
    ages = [3_601, *([1] * 100)]
    told = events(Alarm(3_600_000, {}), ages)
    assert told == [(0, Kind.RPO_PASSED), (1 + LONGEST_CALM_MS / 1_000, Kind.RPO_WITHIN)]


def test_the_next_run_goes_on_with_what_is_on_record():
    passed = Event(kind=Kind.RPO_PASSED, text="old", time_ms=BEGAN - 9_000)
    within = Event(kind=Kind.RPO_WITHIN, text="within", time_ms=BEGAN - 5_000)
    assert events(Alarm(LIMIT, known(passed)), [30] * 100) == []
    assert events(Alarm(LIMIT, known(passed)), [1] * 100) == [(CALM / 1_000, Kind.RPO_WITHIN)]
    assert events(Alarm(LIMIT, known(passed, within)), [30] * 100) == [(0, Kind.RPO_PASSED)]
    assert events(Alarm(LIMIT, known(passed, within)), [1] * 100) == []


def test_one_that_is_not_known_passes_when_that_lasts_and_a_flow_that_begins_has_time():
    alarm = Alarm(LIMIT, {})
    unknown = RecoveryPoint(UNKNOWN_MS, HERE)
    told = [alarm.look(unknown, BEGAN + second * 1_000) for second in range(1, 100)]
    (event,) = [each for each in told if each is not None]
    assert told.index(event) == 61
    assert event.kind is Kind.RPO_PASSED
    assert event.text == (
        "the recovery point has not been known since 2023-11-14T22:13:21Z: nothing of orders-3 has been copied, so "
        "no rpo.limit.ms is kept"
    )
    assert events(alarm, [1] * 100, begin=100) == [(100 + CALM / 1_000, Kind.RPO_WITHIN)]


def test_a_flow_without_partitions_has_nothing_to_lose():
    alarm = Alarm(LIMIT, {})
    assert [alarm.look(None, BEGAN + second * 1_000) for second in range(100)] == [None] * 100


def test_the_texts_name_moments_so_that_each_time_is_another_event():
    alarm = Alarm(LIMIT, {})
    passed = alarm.look(point(0), BEGAN + 61_000)
    assert passed is not None
    assert passed.text == (
        "the recovery point, 2023-11-14T22:13:20Z, is 61 s old, which is more than rpo.limit.ms (20000); "
        "orders-3 is furthest behind"
    )
    assert alarm.look(point(62), BEGAN + 62_000) is None
    within = alarm.look(point(72), BEGAN + 72_000)
    assert within is not None
    assert within.text == "the recovery point is within rpo.limit.ms (20000) again, since 2023-11-14T22:14:22Z"


def test_what_is_on_record_says_whether_the_limit_is_passed():
    passed = Event(kind=Kind.RPO_PASSED, text="old", time_ms=9)
    within = Event(kind=Kind.RPO_WITHIN, text="within", time_ms=5)
    assert not is_passed({})
    assert is_passed(known(passed))
    assert is_passed(known(passed, within)), "it was passed again"
    assert not is_passed(known(within))
