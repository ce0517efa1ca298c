"""Which groups live on the target when the flow is released, where the target has lost what they had there."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from sparkmirror.duties.group_records import records_of
from sparkmirror.duties.lost_groups import OffsetsLog
from sparkmirror.failover import living_there
from sparkmirror.failover.living_there import has_lost, told_of_lost
from sparkmirror.failover.moves import Standing
from sparkmirror.kafka.groups import Committed, Offsets
from sparkmirror.model import TopicPartition
from sparkmirror.offsets.group_records import FlowCommit, GroupCommitted, GroupLeft, GroupsSeen, LogEnd
from sparkmirror.offsets.state import JournalState

COPY, OTHER = TopicPartition("orders", 0), TopicPartition("orders", 1)
SIDES: Any = SimpleNamespace(
    target=SimpleNamespace(alias="b", address="b:1"), flow=SimpleNamespace(admin_timeout_ms=1000), store=None
)
WHOLE = OffsetsLog(ends={0: LogEnd(3, 90)}, partitions=1)
TORN = OffsetsLog(ends={0: LogEnd(4, 80)}, torn=frozenset({0}), partitions=1)
SILENT = OffsetsLog(silent=frozenset({0}), partitions=1)


@pytest.mark.parametrize(
    ("there", "absent", "lost"),
    [
        pytest.param({COPY: Committed(10), OTHER: Committed(4)}, set(), False, id="it stands where it was put"),
        pytest.param({COPY: Committed(10)}, set(), True, id="one of two is gone"),
        pytest.param({COPY: Committed(10)}, {OTHER}, False, id="with its partition"),
        pytest.param({}, set(), True, id="all are gone"),
    ],
)
def test_a_group_that_was_moved_and_has_nothing_where_it_was_put_has_lost_that(there, absent, lost):
    assert has_lost(there, {COPY, OTHER}, absent) == lost


def test_a_group_that_was_moved_and_has_neither_an_offset_there_nor_a_commit_on_record_has_lost_that():
    assert has_lost({}, (), ())
    assert not has_lost({COPY: Committed(3)}, (), ())


def living(monkeypatch: pytest.MonkeyPatch, there: Offsets, *, seen: int | None = None, log: OffsetsLog = WHOLE) -> Any:
    """Of a group that was moved to offset 10; the flow back has seen it at another one since, or has no record."""
    state, back = JournalState(), JournalState()
    left = GroupLeft(group="g", topic="orders", offsets={0: 10}, time_ms=5)
    made = GroupCommitted(group="g", topic="orders", commits={0: FlowCommit(10, 10)})
    state.left[left.key], state.committed[made.key] = left, made
    if seen is not None:
        back.groups_seen = GroupsSeen(time_ms=60_000, log={0: LogEnd(3, 90)}, moved_ms=9)
        back.groups.update({one.key: one for one in records_of("g", {COPY: Committed(seen)}, 50_000)})
    monkeypatch.setattr("sparkmirror.failover.look.standing_there", lambda *_args: Standing(offsets={"g": there}))
    monkeypatch.setattr("sparkmirror.duties.lost_groups.offsets_log", lambda *_args: log)
    monkeypatch.setattr("sparkmirror.kafka.admin.absent", lambda *_args: frozenset())
    found = living_there.living_there(SIDES, state, back if seen is not None else None)
    return (set(found.groups), set(found.lost))


STANDS: Offsets = {COPY: Committed(10)}
UNKNOWN = ({"g"}, {"g"})


def test_a_group_of_which_the_target_has_lost_all_is_no_group_that_was_never_used_there(monkeypatch):
    assert living(monkeypatch, {}) == UNKNOWN
    assert living(monkeypatch, STANDS) == (set(), set()), "a false alarm"
    assert living(monkeypatch, {COPY: Committed(4)}) == ({"g"}, set()), "used"


def test_a_group_that_has_what_it_was_moved_to_again_was_used_where_the_flow_back_has_seen_it_elsewhere(monkeypatch):
    assert living(monkeypatch, STANDS, seen=4, log=TORN) == ({"g"}, set())
    assert living(monkeypatch, STANDS, seen=10, log=TORN) == (set(), set())
    assert living(monkeypatch, STANDS, seen=10) == (set(), set())


def test_of_a_group_whose_partition_there_is_silent_nobody_says_that_it_was_never_used(monkeypatch):
    assert living(monkeypatch, STANDS, seen=10, log=SILENT) == ({"g"}, set())


def test_a_release_names_groups_of_which_the_target_has_lost_what_they_had_there():
    said = told_of_lost(["g"], "b")
    assert "1 groups that were moved to b" in said
    assert "(g)" in said
    assert "sparkmirror offsets --group NAME --apply" in said
