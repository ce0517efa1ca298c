"""Which groups an operation deals with whose file has other ``groups`` than the flow runs with."""

from __future__ import annotations

from pathlib import Path

import pytest

from sparkmirror.config import FlowConfig, load
from sparkmirror.duties.chosen_groups import chooser, left_out, left_out_since
from sparkmirror.failover import plan
from sparkmirror.offsets.group_records import GroupSeen
from sparkmirror.offsets.records import FlowRecord
from sparkmirror.offsets.state import JournalState
from tests.flow.running import write_file

GROUPS = ("g1", "g2", "other")


def told(*groups: str, exclude: tuple[str, ...] = ()) -> FlowRecord:
    return FlowRecord(
        source_alias="a",
        source_id="x",
        target_alias="b",
        target_id="y",
        naming="n",
        generation=1,
        groups=groups,
        groups_exclude=exclude,
    )


def flow_of(directory: Path, groups: str) -> FlowConfig:
    a, b = ({"bootstrap.servers": f"localhost:{port}"} for port in (1, 2))
    file = write_file(directory / "mm2.properties", {"a": a, "b": b}, {"a->b": ".*"}, {"groups": groups})
    (flow,) = load([file]).flows
    return flow


@pytest.mark.parametrize(
    ("groups", "record", "chosen", "since", "before"),
    [
        ("g.*", told("g.*"), ["g1", "g2"], [], ["other"]),
        pytest.param("g1", told("g.*"), ["g1", "g2"], ["g2"], ["other"], id="narrower than the newest run's"),
        pytest.param("g.*", told("g.*", exclude=("g2",)), ["g1", "g2"], [], ["other"], id="wider"),
        pytest.param("g1", told("g1"), ["g1"], [], ["g2", "other"], id="the flow runs with the same file"),
        pytest.param("g1", told(), ["g1", "g2", "other"], ["g2", "other"], [], id="a release before has not told it"),
        pytest.param("g1", None, ["g1", "g2", "other"], ["g2", "other"], [], id="never started"),
    ],
)
def test_an_operation_deals_with_the_groups_of_its_file_and_with_those_that_the_flow_translates(
    tmp_path, groups, record, chosen, since, before
):
    flow = flow_of(tmp_path, groups)
    seen = [GroupSeen(group=name, topic="t", offsets={0: (1, "")}, time_ms=1) for name in GROUPS]
    state = JournalState(flow=record, groups={one.key: one for one in seen})
    assert [name for name in GROUPS if chooser(flow, state)(name)] == chosen
    assert left_out_since(flow, state) == since
    assert left_out(flow, state) == before
    assert [since[0] in text for text in plan.groups_without_since(flow.name, since)] == [True] * bool(since)


def test_a_group_that_is_not_on_record_yet_is_left_out_too(tmp_path):
    state = JournalState(flow=told("g.*"))
    assert left_out_since(flow_of(tmp_path, "g1"), state, ["g1", "g3", "x"]) == ["g3"]
