"""Where offsets in topics that the flow back has written to lead to on the cluster that its records came from."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from sparkmirror.duties import upstream_offsets
from sparkmirror.duties.flow_back import Back
from sparkmirror.duties.group_records import records_of
from sparkmirror.duties.upstream_offsets import UNCHECKED, UpstreamOffsets, decide, with_unchecked
from sparkmirror.failover.states import Kind, Step
from sparkmirror.kafka.groups import Committed
from sparkmirror.kafka.rounds import Results
from sparkmirror.model import NO_OFFSET, TopicPartition
from sparkmirror.offsets.group_records import FlowCommit, GroupCommitted, GroupLeft, UpstreamOffset
from sparkmirror.offsets.inherited import Inherited
from sparkmirror.offsets.interleaved import FlowBack
from sparkmirror.offsets.state import JournalState
from tests.duties.groups import FLOW
from tests.duties.test_flow_back import taken
from tests.failover.test_moves import mapped
from tests.failover.test_report import operation

ORDERS = TopicPartition("orders", 0)
OFFSETS = mapped((10, 100, 10), (25, 110, 5), position=32)
PLAIN = FlowBack(offsets=OFFSETS)
FENCED = FlowBack(offsets=OFFSETS, reached=116)
"""A fence has left a marker behind the last copied record, at 115."""
ENDED = FlowBack(offsets=OFFSETS, ended=True)
UNSETTLED = FlowBack(offsets=mapped((0, NO_OFFSET, 5), position=5))


def upstream(back: FlowBack, committed: int, commit: FlowCommit | None = None) -> UpstreamOffset:
    commits = {} if commit is None else {"g": {ORDERS: commit}}
    offsets = {"g": {ORDERS: Committed(committed), TopicPartition("other", 0): Committed(1)}}
    found = decide(offsets, Back(copies={ORDERS: back}, commits=commits), {}, {})
    assert found["g"].keys() == {ORDERS}
    return found["g"][ORDERS]


@pytest.mark.parametrize(
    ("back", "committed", "expected"),
    [
        (PLAIN, 105, UpstreamOffset(15, "RECORD")),
        (PLAIN, 110, UpstreamOffset(25, "RECORD")),
        (PLAIN, 3, UpstreamOffset(10, "FIRST")),
        (PLAIN, 115, UpstreamOffset(32, "END")),
        (FENCED, 116, UpstreamOffset(32, "END")),
        (FENCED, 120, UpstreamOffset(32, "END", exact=False)),
        (PLAIN, 116, UpstreamOffset(32, "END", exact=False)),
        (ENDED, 116, UpstreamOffset(32, "END")),
        (UNSETTLED, 4, UpstreamOffset(NO_OFFSET, "UNSETTLED", exact=False)),
    ],
)
def test_an_offset_leads_to_the_record_that_the_copy_was_made_of_and_never_beyond_the_map(back, committed, expected):
    assert upstream(back, committed) == expected


def test_what_mirror_maker_2_copied_leads_to_an_earlier_record():
    inherited = Inherited(partition=ORDERS, spans=((0, 10),), end=100, points=((4, 44),), time_ms=1)
    expected = UpstreamOffset(5, "APPROXIMATE", exact=False)
    assert upstream(FlowBack(offsets=OFFSETS, inherited=inherited), 50) == expected


@pytest.mark.parametrize(
    ("commit", "expected"),
    [
        (FlowCommit(105, 12), UpstreamOffset(12, "RECORD", placed=True)),
        (FlowCommit(105, 15), UpstreamOffset(15, "RECORD", placed=True)),
        (FlowCommit(105, 17), UpstreamOffset(15, "RECORD", placed=True)),
        (FlowCommit(104, 12), UpstreamOffset(15, "RECORD")),
    ],
)
def test_a_group_that_the_flow_back_has_placed_and_nobody_used_is_not_taken_beyond_where_it_stands_there(
    commit, expected
):
    assert upstream(PLAIN, 105, commit) == expected


def test_a_group_that_an_operation_has_moved_here_lives_here():
    """What it has on the target is older, though nobody has used it here yet."""
    back = Back(copies={ORDERS: PLAIN}, commits={"g": {ORDERS: FlowCommit(105, 15)}})
    found = decide({"g": {ORDERS: Committed(105)}}, back, {}, {}, {"g"})
    assert found == {"g": {ORDERS: UpstreamOffset(15, "RECORD")}}


@pytest.mark.parametrize(("step", "here"), [("MOVING", {"g"}), ("VERIFYING", {"g"}), ("DONE", set())])
def test_an_operation_that_is_resumed_finds_what_it_had_found_before_it_moved_a_group(monkeypatch, step, here):
    """With the fault a place that the plan had told as further on the target was called exact when it was resumed."""
    state = JournalState()
    state.take(GroupLeft(group="g", topic="orders", offsets={0: 5}, time_ms=2_000))
    state.ledger.operation = replace(operation(Kind.SWITCHOVER, Step[step]), order_ms=2_000)
    sides = SimpleNamespace(flow=FLOW, store=SimpleNamespace(state=state), source=None, target=None)
    offsets = UpstreamOffsets(cast("Any", sides))
    monkeypatch.setattr(offsets._record, "moved", lambda: {"g": 1_500})
    assert offsets._moved_here() == here


@pytest.mark.parametrize(
    ("before", "expected"),
    [(105, UpstreamOffset(12, "RECORD")), (104, UpstreamOffset(12, "RECORD", exact=False)), (None, UNCHECKED)],
)
def test_where_nobody_knows_what_is_lost_what_was_on_record_counts(before, expected):
    """A translation by the map may lead behind what the log has lost."""
    offsets = {"g": {ORDERS: Committed(105)}}
    found = decide(offsets, Back(copies={ORDERS: PLAIN}), {}, {})
    rows = {"g": {ORDERS: UpstreamOffset(12, "RECORD")}}
    seen = () if before is None else records_of("g", {ORDERS: Committed(before)}, 1, rows["g"])
    known = {one.key: one for one in seen}
    assert with_unchecked(found, offsets, known, ())["g"][ORDERS] == UpstreamOffset(15, "RECORD")
    assert with_unchecked(found, offsets, known, {ORDERS})["g"][ORDERS] == expected


def test_in_a_ring_it_is_on_record_that_no_offset_leads_anywhere():
    offsets = {"g": {ORDERS: Committed(105), TopicPartition("other", 0): Committed(1)}}
    for back in (Back(ring=frozenset({ORDERS})), Back(copies={ORDERS: PLAIN}, ring=frozenset({ORDERS}))):
        assert decide(offsets, back, {}, {}) == {"g": {ORDERS: UpstreamOffset(NO_OFFSET, "RING", exact=False)}}


class Taken:
    """`UpstreamOffsets` over two records, and what groups have on the target."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, back: JournalState, state: JournalState, there: int) -> None:
        store = SimpleNamespace(state=state)
        self.offsets = UpstreamOffsets(cast("Any", SimpleNamespace(flow=FLOW, store=store, source=None, target=None)))
        self.there, self.asked = {"g": {TopicPartition("A.orders", 0): Committed(there)}}, 0
        monkeypatch.setattr(self.offsets._record, "state", lambda: back)
        monkeypatch.setattr(upstream_offsets, "fetch_offsets", self._fetch)

    def _fetch(self, *_: Any) -> Results[str, Any]:
        self.asked += 1
        return Results(found=self.there, failed={})

    def found(self) -> dict[str, list[FlowCommit]]:
        return {group: list(own.values()) for group, own in self.offsets.taken_from_target().items()}


def test_where_a_group_stands_since_an_operation_took_it_from_the_target_is_put_on_record_once(monkeypatch):
    at = Taken(monkeypatch, *taken(), there=10)
    assert at.found() == {"g": [FlowCommit(10, 20)]}, "not in the other topic, where it has nothing"
    assert (at.found(), at.asked) == ({}, 1)


def test_nothing_is_put_on_record_of_a_group_that_others_have_used_there_since(monkeypatch):
    assert Taken(monkeypatch, *taken(), there=11).found() == {}


@pytest.mark.parametrize("commit", [FlowCommit(10, 3), FlowCommit(12, 20, (FlowCommit(10, 20),))])
def test_nothing_is_put_on_record_that_is_there(monkeypatch, commit):
    back, state = taken()
    state.take(GroupCommitted(group="g", topic="A.orders", commits={0: commit}))
    assert Taken(monkeypatch, back, state, there=10).found() == {}


def test_nothing_is_put_on_record_while_an_operation_places_groups(monkeypatch):
    """It puts on record itself what it commits, and the later of two records of a group counts."""
    back, state = taken(Step.VERIFYING, order=9)
    assert back.ledger.operation is not None
    at = Taken(monkeypatch, back, state, there=10)
    assert (at.found(), at.asked) == ({}, 0)
