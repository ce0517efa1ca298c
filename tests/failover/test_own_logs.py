"""Groups that go on in the target's own topics, whose logs are not what the flow back has read of them."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from sparkmirror.failover import own_logs
from sparkmirror.failover.moves import UNPROVEN, decide, told_of_own_lost
from sparkmirror.failover.own_logs import OwnLogs, to_ask
from sparkmirror.kafka.groups import Committed
from sparkmirror.model import NO_OFFSET, TopicPartition
from sparkmirror.offsets import json_text
from sparkmirror.offsets.group_records import UNKNOWN_LOG, FlowCommit, GroupSeen, LogBefore, UpstreamOffset
from sparkmirror.offsets.interleaved import FlowBack
from sparkmirror.offsets.records import parse
from sparkmirror.offsets.source_history import Begun
from tests.failover.test_moves import COPY, HERE, ORIGINAL, mapped, sight

OLD, NEW = LogBefore("id", (Begun(1, 0),)), LogBefore("id", (Begun(1, 0), Begun(3, 60)))
NAMES = {"b.orders": "orders"}
TO_60, TO_100 = UpstreamOffset(60, "RECORD", log=OLD), UpstreamOffset(100, "END", log=NEW)
NOWHERE = UpstreamOffset(NO_OFFSET, "RING", exact=False)
KNOWN = {
    "early": {COPY: TO_60},
    "late": {COPY: TO_100},
    "ring": {COPY: NOWHERE},
    "zero": {COPY: UpstreamOffset(0, "END")},
}


def test_each_log_is_asked_for_up_to_the_furthest_place_and_nothing_lies_before_the_first_offset():
    other = {COPY: replace(TO_60, offset=50), TopicPartition("elsewhere", 0): TO_60}
    assert to_ask({**KNOWN, "other": other}, NAMES) == {(ORIGINAL, OLD): 60, (ORIGINAL, NEW): 100}


def found(same: dict[LogBefore, int]) -> OwnLogs:
    return own_logs.decide(KNOWN, NAMES, {(ORIGINAL, log): end for log, end in same.items()})


def test_a_group_goes_no_further_than_to_where_the_log_has_lost_its_end():
    whole = found({OLD: 60, NEW: 100})
    assert (whole.upstream, whole.lost, whole.unproven) == (KNOWN, {}, frozenset())
    torn = found({OLD: 60, NEW: 70})
    assert torn.upstream == {**KNOWN, "late": {COPY: UpstreamOffset(70, "TORN", exact=False, log=NEW)}}
    assert torn.lost == {("late", COPY): 70}


@pytest.mark.parametrize(
    ("read", "same", "asked", "lost"),
    [
        pytest.param(60, 60, 60, None, id="the log goes on in an epoch that the flow back has not met"),
        pytest.param(60, 59, 60, 59, id="it has lost a record that the flow back has read"),
        pytest.param(60, 0, 60, 0, id="it was created again"),
        pytest.param(0, 0, 0, 0, id="it was created again, and the flow back had read nothing"),
        pytest.param(120, 100, 100, None, id="the flow back has read further"),
        pytest.param(NO_OFFSET, 60, 100, 60, id="an earlier release does not say how far"),
    ],
)
def test_behind_what_the_flow_back_has_read_nothing_counts_as_lost(read, same, asked, lost):
    """The place, 100, lies behind copies of the flow itself, 60 to 99, which the flow back does not bring."""
    log = OLD._replace(read=read)
    upstream = {"g": {COPY: UpstreamOffset(100, "END", log=log)}}
    assert to_ask(upstream, NAMES) == {(ORIGINAL, log): asked}
    decided = own_logs.decide(upstream, NAMES, {(ORIGINAL, log): same})
    assert decided.lost == ({} if lost is None else {("g", COPY): lost})
    assert decided.upstream["g"][COPY].offset == (100 if lost is None else lost)


def test_in_a_topic_that_was_created_again_a_group_begins_at_the_begin():
    again = found({OLD: 0, NEW: 0})
    assert [again.upstream[group][COPY].offset for group in ("early", "late")] == [0, 0]
    assert again.upstream["late"][COPY].name == "BEGIN"


def test_what_no_leader_says_and_no_record_tells_is_not_proven():
    assert found({OLD: 60}).unproven == {("late", COPY)}
    assert found({OLD: 60}).upstream == KNOWN


@pytest.mark.parametrize(("group", "there"), [("late", 70), ("early", NO_OFFSET)])
def test_a_place_at_a_loss_is_not_exact_and_told_and_what_an_operation_has_put_beyond_goes_back(group, there):
    torn = found({OLD: 60, NEW: 70})
    seen = replace(
        sight(15, oldest=0),
        offsets={"g": {COPY: Committed(7, "note")}},
        oldest={ORIGINAL: 3},
        originals=NAMES,
        upstream={"g": torn.upstream[group]},
        own_lost={("g", place): at for (name, place), at in torn.lost.items() if name == group},
        back="b->a",
    )
    (move,) = decide(seen)
    (place,) = move.places
    lost = there != NO_OFFSET
    assert (place.offset, place.exact, place.torn) == (70 if lost else 60, not lost, lost)
    assert ("has lost its end since" in place.text) == lost
    assert len(told_of_own_lost([move], "b", "b->a")) == int(lost)
    moved = replace(
        seen,
        moved=frozenset("g"),
        there=replace(seen.there, offsets={"g": {ORIGINAL: Committed(100)}}),
        commits={"g": {ORIGINAL: FlowCommit(100, 7)}},
    )
    (again,) = decide(moved)
    assert again.missing == {ORIGINAL: Committed(place.offset, "note")}


def test_a_place_that_nothing_proves_is_not_exact():
    seen = replace(sight(15), offsets={"g": {COPY: Committed(7)}}, originals=NAMES, back="b->a")
    seen = replace(seen, oldest={}, upstream={"g": {COPY: UpstreamOffset(7, "RECORD")}})
    assert decide(seen)[0].places[0].exact
    (place,) = decide(replace(seen, unproven=frozenset({("g", COPY)})))[0].places
    assert (place.offset, place.exact, place.text) == (7, False, f"the record itself, {UNPROVEN}")


def test_under_kept_names_a_place_at_a_copy_is_as_exact_as_the_copies_are():
    """Which are asked for by what the flow itself has on record; records of the target alone are not."""
    seen = replace(sight(15), upstream={"g": {HERE: UpstreamOffset(250, "RECORD")}}, unproven=frozenset({("g", HERE)}))
    assert decide(seen)[0].places[0].exact
    seen = replace(seen, offsets={"g": {HERE: Committed(31)}})
    (place,) = decide(seen)[0].places
    assert (place.offset, place.exact) == (250, False)
    torn = {"g": {HERE: UpstreamOffset(112, "TORN", exact=False)}}
    (place,) = decide(replace(seen, unproven=frozenset(), upstream=torn, own_lost={("g", HERE): 112}))[0].places
    assert (place.offset, place.exact, place.torn) == (112, False, True)


def test_a_group_that_lives_beyond_a_loss_stays_and_is_told():
    """What a consumer has committed is never set back."""
    placed = {"g": {COPY: UpstreamOffset(70, "TORN", exact=False, placed=True)}}
    seen = replace(sight(15), offsets={"g": {COPY: Committed(7)}}, originals=NAMES, back="b->a", upstream=placed)
    there = replace(seen.there, offsets={"g": {ORIGINAL: Committed(100)}})
    (move,) = decide(replace(seen, there=there, own_lost={("g", COPY): 70}))
    (place,) = move.places
    assert (place.offset, place.used, place.exact, place.torn) == (100, True, False, True)
    assert move.missing == {}


@pytest.mark.parametrize(
    ("offset", "expected"),
    [
        (0, LogBefore()),
        (60, LogBefore("id", (Begun(1, 0),))),
        (61, LogBefore("id", (Begun(1, 0), Begun(3, 60)))),
        (90, LogBefore("id", (Begun(1, 0), Begun(3, 60), Begun(5, NO_OFFSET)))),
    ],
)
def test_the_log_before_a_place_is_told_by_the_leader_epochs_that_the_flow_back_has_met(offset, expected):
    """The begin of the newest one is not on record, if the flow's topic has lost it."""
    back = FlowBack(
        offsets=mapped((0, 100, 90), position=90), topic_id="id", epochs=(Begun(1, 0), Begun(3, 60)), leader_epoch=5
    )
    assert back.log_before(offset) == expected


@pytest.mark.parametrize(
    ("offset", "more", "epochs", "read"),
    [
        (90, {}, (Begun(1, 0), Begun(3, 60)), NO_OFFSET),
        (91, {}, (Begun(1, 0), Begun(3, 60)), 90),
        (120, {}, (Begun(1, 0), Begun(3, 60)), 90),
        (120, {"read": 40}, (Begun(1, 0),), 40),
        (50, {"read": 40, "leader_epoch": 2}, (Begun(1, 0), Begun(2, NO_OFFSET)), 40),
        (50, {"offsets": mapped(position=0), "leader_epoch": 2}, (), 0),
        (120, {"offsets": mapped(position=NO_OFFSET)}, (Begun(1, 0), Begun(3, 60), Begun(4, 100)), NO_OFFSET),
    ],
)
def test_the_log_before_a_place_is_told_no_further_than_the_flow_back_has_read_it(offset, more, epochs, read):
    """Also where an order has it go on further on, or where it has gone back since it had met the last epoch."""
    known: dict[str, Any] = {"offsets": mapped((0, 100, 90), position=90)}
    known["epochs"] = (Begun(1, 0), Begun(3, 60), Begun(4, 100))
    back = FlowBack(**known | {"topic_id": "id"} | more)
    assert back.log_before(offset) == LogBefore("id", epochs, read)


def test_of_many_leader_epochs_the_newest_are_on_record():
    back = FlowBack(offsets=mapped((0, 100, 90), position=90), epochs=tuple(Begun(n, n) for n in range(9)))
    assert back.log_before(90).epochs == (Begun(5, 5), Begun(6, 6), Begun(7, 7), Begun(8, 8))


def test_which_log_is_meant_comes_back_from_the_record_and_is_unknown_in_one_of_an_earlier_release():
    other = LogBefore("other", (Begun(7, NO_OFFSET),), read=80)
    upstream = {0: TO_60, 1: TO_100, 2: replace(TO_100, log=other), 3: NOWHERE}
    seen = GroupSeen(
        group="g", topic="b.orders", offsets=dict.fromkeys(upstream, (5, "")), time_ms=1, upstream=upstream
    )
    assert parse(seen.key, seen.value()) == seen
    earlier = json.loads(seen.value())
    assert earlier.pop("upstream_logs") == {"id": [[0, 1, 0], [1, 1, 0, 3, 60]], "other": [[2, 7, -1]]}
    assert earlier.pop("upstream_read") == [[2, 80]]
    known = parse(seen.key, json_text.write(earlier))
    assert isinstance(known, GroupSeen)
    assert known.upstream[1] == replace(TO_100, log=UNKNOWN_LOG)
    assert own_logs.decide({"g": {COPY: known.upstream[1]}}, NAMES, {}).unproven == {("g", COPY)}
