"""Counters of one shift, and the histogram of latencies."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from sparkmirror.copy.outgoing import Outgoing
from sparkmirror.copy.tally import Latency, Tally
from sparkmirror.events import Kind


def outgoing(**more: object) -> Outgoing:
    values: dict[str, object] = {
        "payload": memoryview(b""),
        "sequence": 0,
        "count": 3,
        "source": 10,
        "last_source": 12,
        "end": 13,
        "batches": 1,
        "held": 300,
        "newest_ms": 5_000,
        "arrived": 1.0,
        "base_offset": 90,
    }
    return Outgoing(**(values | more))  # type: ignore[arg-type]  # the fields of Outgoing


@given(st.floats(0.1, 10_000))
def test_a_quantile_is_at_most_a_fourth_of_a_doubling_too_high(milliseconds: float):
    latency = Latency()
    latency.add(milliseconds)
    told = latency.quantile(0.5)
    assert milliseconds * 0.95 <= told + 0.01
    assert told <= milliseconds * 2**0.25 + 0.01


@given(st.lists(st.floats(0, 1e9), min_size=1))
def test_quantiles_rise(values: list[float]):
    latency = Latency()
    for value in values:
        latency.add(value)
    told = [latency.quantile(share) for share in (0.0, 0.5, 0.99, 1.0)]
    assert told == sorted(told)
    assert told[0] > 0


def test_the_slowest_of_a_hundred_does_not_move_the_median():
    latency = Latency()
    for value in [1.0] * 99 + [5_000.0]:
        latency.add(value)
    assert latency.quantile(0.5) < 1.3
    assert latency.quantile(0.99) < 1.3
    assert latency.quantile(0.999) > 4_000


def test_without_any_batch_there_is_no_quantile():
    assert Latency().quantile(0.5) == -1.0


def test_batches_are_counted_by_what_was_done_with_them():
    tally = Tally()
    tally.count(outgoing(), 2.0)
    tally.count(outgoing(source=13, last_source=30, count=18, batches=18, base_offset=93), 2.0)
    tally.count(outgoing(source=31, last_source=31, count=1, opened=True, base_offset=111, newest_ms=4_000), 2.0)
    assert (tally.passed, tally.merged, tally.reencoded) == (1, 18, 1)
    assert (tally.records, tally.bytes, tally.newest_ms) == (22, 900, 5_000)
    assert (tally.first_source, tally.last_source, tally.first_target, tally.last_target) == (10, 31, 90, 111)
    assert 900 < tally.latency.quantile(0.5) < 1_300


def test_dead_letters_are_all_counted_and_only_the_first_and_every_tenfold_are_told():
    tally = Tally()
    for number in range(1, 1_235):
        tally.put_aside(number, f"offset {number} is there")
    assert tally.dead_letters == 1_234
    assert {event.kind for event in tally.events} == {Kind.DEAD_LETTER}
    assert (tally.events[0].first, tally.events[-1].last) == (1, 1_000)
    assert [event.text for event in tally.events] == [
        *(f"offset {number} is there" for number in range(1, 6)),
        *(f"offset {number} is there; {number} of them in this shift so far" for number in (10, 100, 1_000)),
    ]


def test_the_same_event_in_a_row_is_kept_once_and_old_ones_go():
    tally = Tally()
    for event in ["a", "a", "b", *map(str, range(30)), "29"]:
        tally.note(event)
    assert [event.text for event in tally.events] == [str(number) for number in range(10, 30)]
    times = [event.time_ms for event in tally.events]
    assert times == sorted(set(times)), "who has seen one can tell which came later"
