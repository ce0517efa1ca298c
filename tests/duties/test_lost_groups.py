"""Whether a cluster still has the offsets of its groups is asked of the leaders of the topic that holds them."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from sparkmirror.duties import group_records
from sparkmirror.duties.group_records import (
    LeftBehind,
    Seen,
    committed_before,
    left_behind,
    news,
    records_of,
)
from sparkmirror.duties.lost_groups import (
    Asked,
    Merged,
    OffsetsLog,
    ask_with_lost,
    compared,
    placed_since,
    with_lost,
)
from sparkmirror.errors import LinkError
from sparkmirror.kafka.groups import Committed, Offsets
from sparkmirror.kafka.rounds import Results
from sparkmirror.model import TopicPartition
from sparkmirror.offsets.group_records import FlowCommit, GroupLeft, GroupSeen, GroupsSeen, LogEnd, Origin

ORDERS = TopicPartition("orders", 0)
HOME = Origin(cluster_id="one", offsets_id="id")
BEFORE = GroupsSeen(time_ms=60_000, origin=HOME, log={0: LogEnd(3, 1000)})
AFTER = {0: LogEnd(4, 900)}
TORN = OffsetsLog(ends=AFTER, torn=frozenset({0}), partitions=1)
SILENT = OffsetsLog(ends=BEFORE.log, silent=frozenset({0}), partitions=1)
WHOLE = OffsetsLog(ends=AFTER, partitions=1)
OLDER: dict[str, Offsets] = {"g": {ORDERS: Committed(60)}}
"""What the source answers when it has lost the newest commit, of 100."""

SOURCE: Any = SimpleNamespace(alias="a", address="a:1")


def known(offset: int = 100) -> dict[str, GroupSeen]:
    return {one.key: one for one in records_of("g", {ORDERS: Committed(offset)}, 50_000)}


@pytest.mark.parametrize(
    ("still", "ends", "torn", "silent", "end"),
    [
        pytest.param({0: 1000}, {0: LogEnd(3, 1010)}, set(), set(), LogEnd(3, 1010), id="whole"),
        pytest.param({0: 900}, AFTER, {0}, set(), LogEnd(4, 900), id="has lost its end"),
        pytest.param({}, {}, set(), {0}, LogEnd(3, 1000), id="no answer"),
        pytest.param({}, AFTER, set(), {0}, LogEnd(3, 1000), id="it knows no such epoch, and brokers do not agree"),
        pytest.param({0: 900}, {}, set(), {0}, LogEnd(3, 1000), id="its end is not known"),
    ],
)
def test_a_partition_that_does_not_say_how_far_it_goes_is_neither_whole_nor_torn(still, ends, torn, silent, end):
    found = compared(BEFORE.log, [0], still, ends)
    assert (found.torn, found.silent, found.ends[0]) == (torn, silent, end)


def test_a_partition_of_which_nothing_was_known_is_silent_until_it_says_how_far_it_goes():
    first = compared({}, [0, 1], {}, {0: LogEnd(0, 5)})
    assert first == OffsetsLog(ends={0: LogEnd(0, 5)}, silent=frozenset({1}), partitions=2)


def test_what_is_silent_when_it_is_asked_again_after_a_loss_is_compared_anew_in_the_next_round():
    found = TORN.then(OffsetsLog(ends=AFTER, silent=frozenset({0}), partitions=1), BEFORE.log)
    assert found == SILENT
    assert TORN.then(WHOLE, BEFORE.log) == TORN


def test_of_a_group_whose_partition_is_silent_nothing_is_known():
    merged = with_lost(known().values(), OLDER, SILENT)
    assert merged == Merged(offsets={}, unknown=frozenset({"g"}))
    lost = [replace(one, lost={0: 60}) for one in known().values()]
    assert with_lost(lost, OLDER, SILENT) == merged, "it may have committed that again"
    assert with_lost(known().values(), {}, SILENT) == Merged(offsets={}), "it has not answered either"


def silent_round(kept: dict[str, GroupSeen], monkeypatch: pytest.MonkeyPatch, log: OffsetsLog) -> Seen:
    """What a round of groups on record sees where the source answers so."""
    monkeypatch.setattr(group_records, "committed_now", lambda *_args, **_more: Results(found=OLDER, failed={}))
    monkeypatch.setattr("sparkmirror.duties.lost_groups.offsets_log", lambda *_args: log)
    sides: Any = SimpleNamespace(source=SOURCE)
    fetched, log = committed_before(sides, kept, BEFORE, 1000)
    asked = Asked(origin=HOME, topics=frozenset({"orders"}), log=log)
    failed = {group: str(why) for group, why in fetched.failed.items()}
    return Seen(found=fetched.found, unreadable=failed, at_ms=70_000, asked=asked)


def test_a_loss_behind_a_leader_that_says_nothing_is_found_as_soon_as_it_does(monkeypatch):
    left = GroupLeft(group="g", topic="orders", offsets={0: 100}, time_ms=5)
    kept = known()
    seen = silent_round(kept, monkeypatch, SILENT)
    assert "partition 0 of __consumer_offsets" in seen.unreadable["g"]
    remember = news(kept, BEFORE, seen)
    assert (remember.seen, remember.gone, remember.at.log) == ((), (), BEFORE.log)
    assert left_behind({left.key: left}, with_lost(kept.values(), seen.found, SILENT), {}) == ()
    (lost,) = news(kept, remember.at, silent_round(kept, monkeypatch, TORN)).seen
    assert (lost.offsets, lost.lost) == ({0: (100, "")}, {0: 60})


def test_an_operation_for_which_each_group_has_to_answer_refuses_where_a_partition_is_silent(monkeypatch):
    monkeypatch.setattr(group_records, "committed_now", lambda *_args, **_more: Results(found=OLDER, failed={}))
    monkeypatch.setattr("sparkmirror.duties.lost_groups.offsets_log", lambda *_args: SILENT)
    sides: Any = SimpleNamespace(source=SOURCE)
    with pytest.raises(LinkError, match="does not say whether it has lost its end"):
        committed_before(sides, known(), BEFORE, 1000, complete=True)


def test_groups_are_asked_again_where_their_topic_has_lost_something_since_they_may_have_answered_before(monkeypatch):
    answers = iter([{"g": 100}, {"g": 60}])
    monkeypatch.setattr("sparkmirror.duties.lost_groups.offsets_log", lambda *_args: TORN)
    assert ask_with_lost(SOURCE, lambda: next(answers), BEFORE, 1000) == ({"g": 60}, TORN)


def placing(moved_ms: int, unreadable: dict[str, str] | None = None, **settled: int) -> GroupsSeen:
    """When groups are said to have been seen by a round that has found so of the flow back."""
    seen = Seen(found={}, unreadable=unreadable or {}, at_ms=70_000, back_ms=9, settled=settled)
    return news({}, replace(BEFORE, moved_ms=moved_ms), seen).at


def test_an_operation_that_was_seen_before_it_had_moved_its_groups_may_still_put_them_there():
    at = placing(3, g=5)
    assert (at.back_ms, at.moved_ms) == (9, 5), "of the one with the order 9 nothing is known yet"
    placed = placed_since({"g": {ORDERS: FlowCommit(60, 20)}}, {"g": 9}, at.moved_ms)
    assert with_lost(known().values(), OLDER, TORN, placed) == Merged(offsets=OLDER), "it was put there"
    seen_then = placed_since({"g": {ORDERS: FlowCommit(60, 20)}}, {"g": 9}, 9)
    assert with_lost(known().values(), OLDER, TORN, seen_then).lost == {("g", ORDERS)}


def test_a_group_that_was_moved_and_did_not_answer_then_is_not_on_record_as_it_stands_since():
    assert placing(3, {"g": "no answer"}, g=5, other=4).moved_ms == 4
    assert placing(3, {"g": "no answer"}, g=3, other=8).moved_ms == 3, "a group of that operation may be the one"
    assert placing(7, g=5).moved_ms == 7


HIDDEN = OffsetsLog(ends=BEFORE.log, hidden=True)


@pytest.mark.parametrize(
    ("cluster", "before", "hidden"),
    [
        pytest.param("one", BEFORE, True, id="not shown any more"),
        pytest.param("other", BEFORE, False, id="a cluster that was set up anew"),
        pytest.param("one", GroupsSeen(time_ms=60_000, origin=Origin("one", "")), False, id="never shown"),
    ],
)
def test_a_topic_of_group_offsets_that_is_not_shown_any_more_is_no_whole_one(monkeypatch, cluster, before, hidden):
    monkeypatch.setattr("sparkmirror.kafka.admin.list_topics", lambda *_args: {})
    monkeypatch.setattr("sparkmirror.kafka.admin.cluster_id", lambda *_args: cluster)
    found, log = ask_with_lost(SOURCE, lambda: OLDER, before, 1000)
    assert log == OffsetsLog(ends=before.log, hidden=hidden)
    merged = with_lost(known().values(), found, log)
    assert merged == (Merged(offsets={}, unknown=frozenset({"g"})) if hidden else Merged(offsets=OLDER))


def test_a_loss_behind_a_gap_in_an_answer_is_found_when_the_topic_is_shown_again(monkeypatch):
    kept = known()
    seen = silent_round(kept, monkeypatch, HIDDEN)
    assert "allow DESCRIBE on Topic __consumer_offsets" in seen.unreadable["g"]
    seen = replace(seen, asked=replace(seen.asked, origin=Origin("one", "")))
    remember = news(kept, BEFORE, seen)
    assert (remember.seen, remember.gone, remember.at.log) == ((), (), BEFORE.log)
    assert remember.at.origin == HOME, "another topic of the name would count as this one"
    (lost,) = news(kept, remember.at, silent_round(kept, monkeypatch, TORN)).seen
    assert (lost.offsets, lost.lost) == ({0: (100, "")}, {0: 60})


def test_a_topic_that_is_not_shown_when_it_is_asked_again_after_a_loss_is_compared_anew_in_the_next_round():
    assert TORN.then(OffsetsLog(ends=AFTER, hidden=True), BEFORE.log) == HIDDEN


def test_a_group_is_left_as_it_is_where_its_offset_is_left_behind_and_nothing_is_known_of_it():
    left = GroupLeft(group="g", topic="orders", offsets={0: 100}, time_ms=5)
    merged = with_lost(known().values(), OLDER, WHOLE)
    (changed,) = left_behind({left.key: left}, merged, {})
    assert isinstance(changed, LeftBehind)
    assert left_behind({left.key: left}, with_lost(known().values(), OLDER, SILENT), {}) == ()
