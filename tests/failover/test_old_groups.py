"""Groups go by what was seen of them long before the flow saw the source last: that is told."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from sparkmirror.config import GroupSettings
from sparkmirror.failover.old_groups import LEAST_MS, not_followed, said_of, seen_long_ago
from sparkmirror.lab.cluster import start
from sparkmirror.offsets.group_records import GroupSeen, GroupsSeen
from sparkmirror.offsets.records import Life
from sparkmirror.offsets.state import JournalState
from tests.duties.groups import FLOW
from tests.failover.test_changed_home import marked
from tests.failover.test_lost_offsets import on_record
from tests.flow.running import Running, commit, committed, create_topic, until, write_file
from tests.flow.test_torn_while_idle import mirrored, write
from tests.invoking import sparkmirror

OFF = replace(FLOW, groups=GroupSettings(checkpoints_enabled=False))
NOW = 10_000_000


def state_of(asked_ms: int, unread: dict[str, int] | None = None) -> JournalState:
    state = JournalState()
    life = Life(generation=1, time_ms=NOW, state="running", lanes=1, recovery_ms=NOW)
    groups: list[Any] = [GroupSeen(group=name, topic="t", offsets={0: (1, "")}, time_ms=1) for name in ("g", "h")]
    for record in (life, *groups, GroupsSeen(time_ms=asked_ms, unread=unread or {})):
        state.take(record)
    return state


@pytest.mark.parametrize(
    ("flow", "follows"),
    [
        (FLOW, True),
        (OFF, False),
        (replace(FLOW, groups=GroupSettings(checkpoints_enabled=False, sync_enabled=True)), True),
        (replace(FLOW, groups=GroupSettings(checkpoints_enabled=False, include=())), True),
    ],
)
def test_a_flow_with_neither_checkpoints_nor_group_offsets_does_not_follow_its_groups(flow, follows):
    assert (not_followed(flow) == "") == follows


@pytest.mark.parametrize(
    ("state", "old"),
    [
        (state_of(NOW), {}),
        (state_of(NOW - LEAST_MS), {}),
        (state_of(NOW - LEAST_MS - 1), {"g": NOW - LEAST_MS - 1, "h": NOW - LEAST_MS - 1}),
        pytest.param(state_of(NOW, {"h": 5}), {"h": 5}, id="one could not be read since"),
        pytest.param(state_of(NOW, {"h": 0}), {"h": 0}, id="one was never read"),
    ],
)
def test_groups_that_were_seen_long_before_the_source_are_named(state, old):
    assert seen_long_ago(FLOW, state) == old
    assert [", ".join(old) in text for text in said_of(FLOW, state, NOW)] == [True] * bool(old)


def test_what_an_operation_has_asked_itself_is_not_old():
    assert [not_followed(OFF)] == list(said_of(OFF, state_of(NOW - 1), NOW))
    assert said_of(OFF, state_of(NOW), NOW) == ()


@pytest.mark.kafka
@pytest.mark.slow
def test_rehearsal_plan_and_report_say_that_groups_are_not_put_on_record(cluster_b, topic, tmp_path):
    name = topic("unfollowed")
    group, copy = f"{name}-g", f"{name}.{name}"
    with start("unfollowed") as source:
        create_topic(source, name, 1)
        write(source, name, marked("old", 10))
        commit(source, group, name, {0: 4})
        settings = {"tasks.max": "1", "groups": f"{name}-.*", "sync.group.offsets.interval.seconds": "1"}
        clusters, flows = {name: source, "b": cluster_b}, {f"{name}->b": name}
        file = write_file(tmp_path / "mm2.properties", clusters, flows, settings)
        with Running(file, log=tmp_path / "mirror.log") as mirror:
            until(lambda: mirrored(cluster_b, copy) == marked("old", 10), "copied")
            internal = f"sparkmirror.{name}.b.internal"
            until(lambda: on_record(cluster_b, internal) == {group: {0: 4}}, "on record", 60)
            mirror.stop_in_time()
        settings["emit.checkpoints.enabled"] = "false"
        file = write_file(tmp_path / "mm2.properties", clusters, flows, settings)
        said = f"{name}->b does not put on record what groups have committed"
        rehearsed = " ".join(sparkmirror("rehearse", file).stdout.split())
        assert said in rehearsed
    words = ("--from", name, "--to", "b", "--yes", "--report", str(tmp_path))
    done = sparkmirror("failover", file, *words)
    assert done.returncode == 1, done.stdout + done.stderr
    assert f"note: {said}" in " ".join(done.stdout.split())
    assert committed(cluster_b, group, copy) == {0: 4}
    (report,) = (json.loads(one.read_text()) for one in tmp_path.glob("failover-*.json"))
    assert [said in text for text in report["troubles"]] == [True]
