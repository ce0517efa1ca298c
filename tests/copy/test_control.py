"""What the control topic says to one run, whatever else is in it."""

from __future__ import annotations

import json
from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparkmirror.copy import control
from sparkmirror.copy.control import (
    RUN_KEY,
    Announced,
    ControlState,
    Handed,
    alive_key,
    drain_key,
    handover_entries,
    lost_key,
    ready_key,
    run_value,
    spent_keys,
    told_run,
)
from sparkmirror.kafka.journal import Entry
from sparkmirror.model import Copied, LastRecord, Reached, TopicPartition, Writer

RUN = "run-1"


def entries(pairs: Iterable[tuple[str, str | None]]) -> list[Entry]:
    return [Entry(offset, key, value) for offset, (key, value) in enumerate(pairs)]


def heard(*pairs: tuple[str, str | None]) -> ControlState:
    state = ControlState(run=RUN)
    state.take(entries(pairs))
    return state


def handed(position: int) -> Handed:
    return Handed(
        position=position,
        sequence=7,
        writer=Writer(producer_id=9, epoch=1),
        opened=True,
        last=LastRecord(6, position - 1, 3),
        copied=Copied(5, 50, 2),
    )


_longs = st.integers(-1, 2**62)
_handed = st.builds(
    Handed,
    position=_longs,
    sequence=st.integers(0, 2**31 - 1),
    writer=st.builds(Writer, producer_id=_longs, epoch=st.integers(0, 32_767)),
    opened=st.booleans(),
    last=st.builds(LastRecord, *[_longs] * 8),
    copied=st.builds(Copied, _longs, _longs, _longs, _longs),
    error=st.text(max_size=20),
    settled=st.booleans(),
    leader_epoch=st.integers(-1, 99),
    epoch_on_record=st.integers(-1, 99),
    reached=st.builds(Reached, st.integers(-1, 99), _longs),
    recovery_ms=_longs,
    copies_end=_longs,
)
_handovers = st.dictionaries(st.builds(TopicPartition, st.text(max_size=8), st.integers(0, 99)), _handed, max_size=8)


@given(_handovers, st.integers(1, 4))
def test_a_handover_comes_back_as_it_was_written(handover: dict[TopicPartition, Handed], at_once: int):
    before, control.PARTITIONS_PER_RECORD = control.PARTITIONS_PER_RECORD, at_once
    try:
        written = handover_entries(RUN, "lane-0.0", handover)
    finally:
        control.PARTITIONS_PER_RECORD = before
    assert heard(*written).handed == {"lane-0.0": handover}
    assert heard(*written, *written).handed == {"lane-0.0": handover}, "a repeated append changes nothing"


def test_a_handover_counts_when_all_its_parts_are_there(monkeypatch):
    monkeypatch.setattr(control, "PARTITIONS_PER_RECORD", 2)
    partitions = {TopicPartition("t", n): handed(n) for n in range(5)}
    first, second, third = entries(handover_entries(RUN, "lane-0.0", partitions))
    state = ControlState(run=RUN)
    state.take([third, first])
    assert state.handed == {}
    state.take([second])
    assert state.handed == {"lane-0.0": partitions}


def test_a_shift_without_partitions_hands_over_too():
    assert heard(*handover_entries(RUN, "lane-0.0", {})).handed == {"lane-0.0": {}}


def test_a_drain_of_all_concerns_every_shift():
    assert heard((drain_key(RUN), "{}")).must_drain("lane-9.9")


def test_a_drain_of_one_shift_concerns_no_other():
    state = heard((drain_key(RUN, "lane-0.1"), "{}"))
    assert state.must_drain("lane-0.1")
    assert not state.must_drain("lane-0.2")


def test_records_of_another_run_and_tombstones_are_passed_over():
    state = heard(
        (drain_key("run-0"), "{}"),
        (drain_key(RUN), None),
        (alive_key(RUN, "lane-0.0"), None),
        (alive_key("run-0", "lane-0.0"), "{}"),
        (lost_key("run-0", "lane-0.0"), "{}"),
        *handover_entries("run-0", "lane-0.0", {TopicPartition("t", 0): handed(1)}),
    )
    assert state == ControlState(run=RUN)


def test_keys_that_are_not_ours_are_passed_over():
    assert heard(("no JSON", "{}"), ('"a string"', "{}"), ("[1]", "{}"), (drain_key(RUN), "{}")).must_drain("lane-0.0")


def test_kinds_of_a_later_release_are_passed_over():
    assert heard((json.dumps(["pause", RUN, "orders"]), '{"v":2}')) == ControlState(run=RUN)


def test_ready_and_lost_name_their_shift():
    state = heard((ready_key(RUN, "lane-0.0"), "{}"), (lost_key(RUN, "lane-0.1"), "{}"))
    assert (state.ready, state.lost) == ({"lane-0.0"}, {"lane-0.1"})


def test_the_newest_sign_of_a_shift_counts():
    state = heard(
        (alive_key(RUN, "lane-0.0"), "{}"), (alive_key(RUN, "lane-0.1"), "{}"), (alive_key(RUN, "lane-0.0"), "{}")
    )
    assert state.alive == {"lane-0.0": 2, "lane-0.1": 1}


def test_who_is_lost_stays_lost_when_the_record_is_deleted():
    """Compaction may leave nothing but the tombstone, for a lane that reads again after a day."""
    state = heard((lost_key(RUN, "lane-0.0"), None))
    assert "gave its partitions away" in state.ended("lane-0.0")
    assert not state.ended("lane-0.1")


def test_every_key_of_a_handover_is_spent_with_it(monkeypatch):
    monkeypatch.setattr(control, "PARTITIONS_PER_RECORD", 2)
    for count in range(7):
        written = handover_entries(RUN, "lane-0.0", {TopicPartition("t", n): handed(n) for n in range(count)})
        assert {key for key, _ in written} <= set(spent_keys(RUN, "lane-0.0", count))
    assert {ready_key(RUN, "lane-0.0"), alive_key(RUN, "lane-0.0")} <= set(spent_keys(RUN, "lane-0.0", 0))


def test_lanes_end_when_another_run_has_the_flow():
    assert not heard((RUN_KEY, run_value(Announced(run=RUN))), (RUN_KEY, None)).ended("lane-0.0")
    state = heard((RUN_KEY, run_value(Announced(run=RUN))), (RUN_KEY, run_value(Announced(run="other"))))
    assert state.ended("lane-0.0") == "run other has the flow now"


MINE = Announced(run=RUN, generation=5, driver=Writer(producer_id=9, epoch=4))


@pytest.mark.parametrize(
    ("generation", "driver", "ends"),
    [
        pytest.param(6, (9, 5), True, id="a later run"),
        pytest.param(4, (9, 3), False, id="a run before, of which the topic lost the end"),
        pytest.param(5, (9, 3), False, id="one that died while it began"),
        pytest.param(2, (9, 5), True, id="a later run after the internal topic has lost its end"),
        pytest.param(6, (9, 3), True, id="a later run after the coordinator has"),
        pytest.param(4, (8, 3), True, id="another producer id, which tells nothing"),
        pytest.param(0, (-1, -1), True, id="an older release"),
    ],
)
def test_lanes_pass_over_the_word_of_a_run_that_was_surely_before_their_own(
    generation: int, driver: tuple[int, int], ends: bool
):
    other = Announced(run="other", generation=generation, driver=Writer(producer_id=driver[0], epoch=driver[1]))
    state = ControlState(run=RUN, newest=MINE)
    state.take([Entry(0, RUN_KEY, run_value(other))])
    assert bool(state.ended("lane-0.0")) is ends


def test_lanes_that_have_read_of_a_later_run_do_not_go_on_for_a_late_word_of_their_own():
    state = ControlState(run=RUN, newest=MINE)
    later = Announced(run="other", generation=6, driver=Writer(producer_id=9, epoch=5))
    state.take([Entry(0, RUN_KEY, run_value(later)), Entry(1, RUN_KEY, run_value(MINE))])
    assert state.ended("lane-0.0") == "run other has the flow now"


@pytest.mark.parametrize("one", [MINE, Announced(run="x")])
def test_what_a_run_says_of_itself_is_read_as_it_was_written(one: Announced):
    assert told_run(run_value(one)) == one


@pytest.mark.parametrize("value", ["{}", '{"run":"x","driver":[1]}', '{"run":"x","driver":["1",2],"generation":3}'])
def test_what_names_no_run_or_no_driver_is_none(value: str):
    with pytest.raises(ValueError):
        told_run(value)
