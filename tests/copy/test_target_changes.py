"""Target topics that are changed while a partition is copied: what answers and orders show, and what follows."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest

from sparkmirror.copy.guard import FORGOTTEN, Guard
from sparkmirror.copy.partition import PartitionCopy
from sparkmirror.copy.target_changes import acknowledge, compare, remember
from sparkmirror.copy.target_facts import STAMPED_SECONDS, TargetFacts
from sparkmirror.events import Event, Kind
from tests.copy.making import LARGE, NOW_MS, batch, partition, take

NETWORK, TOO_LARGE, OUT_OF_ORDER = 13, 10, 45
DAY_MS = 86_400_000
NO_TIME = -1
FACTS = TargetFacts(max_message_bytes=1_000, log_append_time=True)


def copying(*, planned: bool, batches: int = 3) -> PartitionCopy:
    copy = partition(log_append_time=planned)
    copy.guard = Guard(age_ms=DAY_MS, broker_time=planned)
    copy.remembered_ms = int(time.time() * 1000)
    take(copy, *(batch(number, 1, size=LARGE) for number in range(batches)))
    return copy


def sent(copy: PartitionCopy) -> int:
    """How many more batches may go now."""
    count = 0
    while copy.next_batch() is not None:
        count += 1
    return count


def event(copy: PartitionCopy) -> Event:
    (found,) = copy.tally.events
    return found


def test_an_answer_that_shows_another_timestamp_type_stops_the_partition_at_once():
    copy = copying(planned=True)
    copy.guard = replace(copy.guard, age_ms=1 << 60)
    first = copy.next_batch()
    assert first is not None
    acknowledge(copy, first, 0, NOW_MS)
    second = copy.next_batch()
    assert second is not None
    acknowledge(copy, second, 1, NO_TIME)
    assert (event(copy).kind, event(copy).first, event(copy).last) == (Kind.TARGET_CHANGED, 1, 1)
    assert "source offsets 1 to 1 were written" in copy.error
    assert (copy.position, copy.all_acknowledged, copy.next_batch()) == (2, True, None)
    assert not copy.guard.broker_time


def test_an_answer_with_a_time_counts_for_nothing_where_the_topic_had_none_to_give():
    """The topic sets times now, or the broker had another batch with these sequence numbers: a forged one."""
    copy = copying(planned=False)
    copy.guard = replace(copy.guard, age_ms=1 << 60)
    flying = [copy.next_batch() for _ in range(3)]
    for number, (one, stamped_ms) in enumerate(zip(flying, (NO_TIME, NOW_MS, NO_TIME), strict=True)):
        assert one is not None
        acknowledge(copy, one, number, stamped_ms)
    assert (event(copy).kind, event(copy).first, event(copy).last) == (Kind.TARGET_CHANGED, 1, 2)
    assert "from CreateTime to LogAppendTime; or the target had a batch with the sequence numbers" in copy.error
    assert f"of source offsets 1 to 1 before this flow sent it: its answer has the time {NOW_MS}" in copy.error
    assert (copy.position, copy.all_acknowledged, copy.at_rest) == (1, False, True)


@pytest.mark.parametrize(("stamped_ms", "position"), [(NO_TIME, 1), (NOW_MS, 1), (NOW_MS + 1, 0)])
def test_a_batch_that_was_sent_twice_counts_where_the_broker_had_it_by_its_own_time(stamped_ms: int, position: int):
    copy = copying(planned=False, batches=1)
    copy.guard = replace(copy.guard, age_ms=1 << 60)
    first = copy.next_batch()
    assert first is not None
    assert first.newest_ms == NOW_MS
    copy.refused(first, NETWORK, "")
    assert copy.next_batch() is first
    acknowledge(copy, first, 0, stamped_ms)
    assert (copy.position, copy.unsettled) == (position, position == 0)


def test_what_the_broker_had_before_counts_for_nothing_after_the_partition_has_stopped_either():
    copy = copying(planned=False)
    copy.guard = replace(copy.guard, age_ms=1 << 60)
    first, second = copy.next_batch(), copy.next_batch()
    assert first is not None
    assert second is not None
    copy.stop("it is moved to another offset", Kind.MOVED)
    acknowledge(copy, first, 0, NO_TIME)
    acknowledge(copy, second, 1, NOW_MS)
    assert (copy.error, copy.position, copy.all_acknowledged) == ("it is moved to another offset", 1, False)


def test_what_is_on_its_way_when_the_type_is_seen_is_named_too_and_counts():
    copy = copying(planned=True)
    copy.stamped_at = time.monotonic()
    flying = [copy.next_batch() for _ in range(3)]
    for number, one in enumerate(flying):
        assert one is not None
        acknowledge(copy, one, number, NO_TIME)
    assert (event(copy).first, event(copy).last) == (0, 2)
    assert (copy.position, copy.all_acknowledged) == (3, True)


@pytest.mark.parametrize("planned", [True, False])
@pytest.mark.parametrize("stamped_ms", [NOW_MS, NO_TIME])
def test_the_answer_for_a_batch_that_was_sent_twice_shows_nothing(planned: bool, stamped_ms: int):
    """Where the broker had it already, the answer has the newest time in the batch, whatever the topic does."""
    copy = copying(planned=planned)
    copy.guard = replace(copy.guard, age_ms=1 << 60)
    first = copy.next_batch()
    assert first is not None
    copy.refused(first, NETWORK, "")
    assert copy.next_batch() is first
    acknowledge(copy, first, 0, stamped_ms)
    assert (copy.error, copy.position) == ("", 1)


def test_after_the_change_is_seen_old_records_count_as_what_they_are():
    copy = copying(planned=True)
    first = copy.next_batch()
    assert first is not None
    acknowledge(copy, first, 0, NO_TIME)
    assert copy.remembered_ms == first.newest_ms == NOW_MS
    assert not copy.guard.holds(NOW_MS)


@pytest.mark.parametrize(("ago_s", "at_once"), [(0.0, 3), (STAMPED_SECONDS + 1, 1), (float("inf"), 1)])
def test_batches_go_side_by_side_by_the_brokers_time_only_while_answers_show_it(ago_s: float, at_once: int):
    copy = copying(planned=True)
    copy.stamped_at = time.monotonic() - ago_s
    assert sent(copy) == at_once


def test_answers_that_show_the_brokers_time_let_the_next_ones_go_side_by_side():
    copy = copying(planned=True)
    first = copy.next_batch()
    assert first is not None
    assert copy.next_batch() is None
    acknowledge(copy, first, 0, NOW_MS)
    assert sent(copy) == 2


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({}, ""),
        ({"max_message_bytes": 500}, "max.message.bytes from 1000 to 500"),
        ({"max_message_bytes": 2_000}, "max.message.bytes from 1000 to 2000"),
        ({"log_append_time": False}, "message.timestamp.type from LogAppendTime to CreateTime"),
        ({"codec": "none"}, "compression.type from producer to none"),
        (
            {"log_append_time": False, "codec": "gzip"},
            "message.timestamp.type from LogAppendTime to CreateTime, compression.type from producer to gzip",
        ),
    ],
)
def test_a_partition_is_given_back_when_its_topic_asks_for_something_else(change: dict[str, object], told: str):
    copy = partition(max_message_bytes=1_000, log_append_time=True)
    copy.guard = replace(copy.guard, broker_time=True)
    compare(copy, replace(FACTS, **change))  # type: ignore[arg-type]  # its fields
    assert bool(copy.error) == bool(told)
    assert told in copy.error
    assert [one.kind for one in copy.tally.events] == ([Kind.TARGET_CHANGED] if told else [])
    assert copy.guard.broker_time is not bool(told)


def test_a_plan_takes_new_facts_and_nothing_else():
    plan = partition().plan
    assert plan.with_facts(FACTS).facts == FACTS
    assert plan.with_facts(FACTS).with_facts(plan.facts) == plan


def test_a_batch_within_the_planned_limit_that_is_too_large_shows_that_the_limit_was_changed():
    copy = copying(planned=False)
    copy.guard = replace(copy.guard, age_ms=1 << 60)
    first, second = copy.next_batch(), copy.next_batch()
    assert first is not None
    assert second is not None
    size = len(first.payload)
    copy.refused(first, TOO_LARGE, "")
    copy.refused(second, OUT_OF_ORDER, "")
    assert event(copy).kind is Kind.TARGET_CHANGED
    assert f"refused a batch of {size} bytes" in copy.error
    assert (copy.position, copy.all_acknowledged) == (0, True)


def test_a_batch_above_the_planned_limit_is_a_record_that_is_too_large():
    copy = partition(max_message_bytes=LARGE)
    take(copy, batch(0, 1, size=LARGE))
    first = copy.next_batch()
    assert first is not None
    copy.refused(first, TOO_LARGE, "")
    assert event(copy).kind is Kind.RECORD_TOO_LARGE


def ago(days: float) -> int:
    return int(time.time() * 1000 - days * DAY_MS)


@pytest.mark.parametrize(
    ("age_days", "written_days_ago", "then_days", "beside"),
    [
        (1, 0.5, 0.25, False),
        (1, 0.1, 0.25, True),
        (1, 0.5, 9, True),
        (1, 2, 9, False),  # forgotten, and a longer memory does not bring it back
        (1, None, 9, False),
        (9, 2, 1, False),
    ],
)
def test_a_memory_that_is_changed_counts_at_once_and_brings_nothing_back(
    age_days: float, written_days_ago: float | None, then_days: float, beside: bool
):
    copy = partition()
    copy.guard = Guard(age_ms=int(age_days * DAY_MS))
    copy.remembered_ms = FORGOTTEN if written_days_ago is None else ago(written_days_ago)
    remember(copy, int(then_days * DAY_MS))
    assert copy.guard.age_ms == int(then_days * DAY_MS)
    assert copy.guard.remembers(copy.remembered_ms) is beside
