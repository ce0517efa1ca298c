"""How far groups may go beyond where a flow back was stopped: over copies and markers, never over others' records."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import pytest

from sparkmirror.duties.duty import Sides
from sparkmirror.duties.flow_back import Back
from sparkmirror.duties.past_markers import TURNS, TURNS_AT_LAST, PastMarkers, at_last
from sparkmirror.flow.sides import connected
from sparkmirror.kafka.spots import Spot
from sparkmirror.model import NO_OFFSET
from sparkmirror.offsets.interleaved import FlowBack
from sparkmirror.offsets.map import OffsetMap
from tests.duties.groups import FLOW, HERE, THERE
from tests.offsets.segments import offset_map


class TargetLog:
    """The offsets of the target's records, and which places were read."""

    def __init__(self, *records: range) -> None:
        self.records = [offset for each in records for offset in each]
        self.read: list[int] = []

    def first(self, spots: Iterable[Spot]) -> Mapping[Spot, int | None]:
        asked = list(spots)
        assert all(spot.partition == THERE for spot in asked)
        self.read += [spot.offset for spot in asked]
        return {spot: next((at for at in self.records if at >= spot.offset), None) for spot in asked}


def passed(log: TargetLog, own: OffsetMap, position: int, looks: int = 1) -> int:
    with connected(FLOW, role="test", started=False) as sides:  # its addresses are nowhere
        return _passed(sides, log, own, position, looks)


def _passed(sides: Sides, log: TargetLog, own: OffsetMap, position: int, looks: int) -> int:
    markers = PastMarkers(sides, log.first)
    back = Back(copies={HERE: FlowBack(offsets=offset_map([], position))})
    found = [markers.of(back, {HERE: own}).copies[HERE].passed for _ in range(looks)]
    return found[-1]


COPIES = offset_map([(0, 100, 10), (10, 111, 10), (20, 125, 10)], 30)
"""Copies at 100 to 109, 111 to 120 and 125 to 134."""


@pytest.mark.parametrize(
    ("records", "position", "expected", "read"),
    [
        pytest.param((range(100, 110), range(111, 121), range(125, 135)), 100, 135, [110, 121], id="only markers"),
        pytest.param((range(100, 110), range(111, 135)), 100, 121, [110, 121], id="others wrote behind the second"),
        pytest.param((range(90, 110),), 95, 95, [95], id="others wrote before all"),
        pytest.param((range(100, 110),), 100, 110, [110], id="nothing is left to read"),
        pytest.param((range(100, 135),), 135, NO_OFFSET, [], id="the flow back has come to the end"),
        pytest.param((range(100, 135),), NO_OFFSET, NO_OFFSET, [], id="it has never begun"),
    ],
)
def test_copies_and_markers_are_passed_and_records_of_others_are_not(records, position, expected, read):
    log = TargetLog(*records)
    assert passed(log, COPIES, position) == expected
    assert log.read == read


def test_what_was_passed_is_not_read_again_and_many_markers_take_several_looks():
    own = offset_map([(10 * number, 20 * number, 10) for number in range(2 * TURNS)], 200)
    log = TargetLog(*(range(20 * number, 20 * number + 10) for number in range(2 * TURNS)))
    assert passed(log, own, 0, looks=3) == 20 * (2 * TURNS - 1) + 10
    assert log.read == sorted(set(log.read))


def test_a_flow_back_that_goes_on_costs_no_reading():
    log = TargetLog(range(90, 110), range(111, 121), range(125, 135))
    with connected(FLOW, role="test", started=False) as sides:
        markers = PastMarkers(sides, log.first)
        for position, passed_by, read in ((95, 95, [95]), (100, 110, []), (100, 135, [110, 121])):
            log.read = []
            back = Back(copies={HERE: FlowBack(offsets=offset_map([], position))})
            assert markers.of(back, {HERE: COPIES}).copies[HERE].passed == passed_by
            assert log.read == read


def test_what_was_passed_is_forgotten_when_the_target_has_lost_the_end_of_its_log():
    log = TargetLog(range(100, 110), range(111, 121), range(125, 135))
    with connected(FLOW, role="test", started=False) as sides:
        markers = PastMarkers(sides, log.first)
        back = Back(copies={HERE: FlowBack(offsets=offset_map([], 100))})
        assert markers.of(back, {HERE: COPIES}).copies[HERE].passed == 135
        torn = offset_map([(0, 100, 10)], 10)
        assert markers.of(back, {HERE: torn}).copies[HERE].passed == 110


def test_what_was_passed_is_forgotten_when_the_flow_back_has_gone_back():
    """A target of its own has lost records, which it copies again: they lie before what was passed."""
    log = TargetLog(range(90, 110), range(111, 121), range(125, 135))
    with connected(FLOW, role="test", started=False) as sides:
        markers = PastMarkers(sides, log.first)
        for position, passed_by in ((100, 135), (95, 95), (95, 95)):
            back = Back(copies={HERE: FlowBack(offsets=offset_map([], position))})
            assert markers.of(back, {HERE: COPIES}).copies[HERE].passed == passed_by


@pytest.mark.parametrize(
    ("records", "position", "expected"),
    [
        pytest.param((range(100, 110), range(111, 121), range(125, 135)), 99, 135, id="a marker before all of it"),
        pytest.param((range(99, 110), range(111, 121), range(125, 135)), 99, 99, id="a record of others before it"),
        pytest.param((range(100, 110), range(111, 135)), 100, 121, id="others wrote in between"),
        pytest.param((range(100, 135),), 140, 140, id="behind all of it"),
    ],
)
def test_an_operation_passes_what_lies_behind_the_position_on_record_with_one_look(records, position, expected):
    """A driver that has just taken over leaves a marker before its first copy, and may die before it looks itself."""
    with connected(FLOW, role="test", started=False) as sides:
        found = at_last(sides, {HERE: COPIES}, [(HERE, position)], TargetLog(*records).first)
    assert found == {(HERE, position): expected}


def test_an_operation_ends_its_look_where_there_are_very_many_markers():
    many = TURNS_AT_LAST + 10
    own = offset_map([(number, 2 * number + 1, 1) for number in range(many)], many)
    log = TargetLog(*(range(2 * number + 1, 2 * number + 2) for number in range(many)))
    with connected(FLOW, role="test", started=False) as sides:
        found = at_last(sides, {HERE: own}, [(HERE, 0)], log.first)
    assert found[HERE, 0] == 2 * TURNS_AT_LAST
