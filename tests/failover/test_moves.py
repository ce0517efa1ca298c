"""Where groups go on when a flow has been stopped."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from sparkmirror.failover.earlier import Earlier
from sparkmirror.failover.moves import (
    SEEN_BEFORE,
    SEEN_LAST,
    Count,
    Sight,
    Standing,
    count,
    decide,
    forgotten,
    further_on_return,
    have_members,
    landed,
    seen_before_a_loss,
    told_of_passed,
)
from sparkmirror.kafka.groups import Committed, GroupKind, GroupListing
from sparkmirror.model import NO_OFFSET, TopicPartition
from sparkmirror.offsets.group_records import FlowCommit, UpstreamOffset
from sparkmirror.offsets.left_offsets import Left
from sparkmirror.offsets.map import OffsetMap
from tests.offsets.segments import offset_map

HERE, THERE = TopicPartition("orders", 0), TopicPartition("a.orders", 0)


def mapped(*rows: tuple[int, int, int], position: int) -> OffsetMap:
    return offset_map(rows, position)


def sight(committed: int, *, there: int = NO_OFFSET, state: str = "", kind=GroupKind.CLASSIC, oldest: int = 0) -> Sight:
    """Source offsets 10 to 19 lie at 100 to 109, 25 to 29 at 110 to 114; the copy stopped at 32."""
    return Sight(
        offsets={"g": {HERE: Committed(committed, "note")}},
        seen_ms={"g": 7},
        renamed={"orders": "a.orders"},
        maps={HERE: mapped((10, 100, 10), (25, 110, 5), position=32)},
        inherited={},
        oldest={THERE: oldest},
        there=Standing(
            listed={"g": GroupListing(name="g", kind=kind, state=state)},
            offsets={} if there == NO_OFFSET else {"g": {THERE: Committed(there)}},
        ),
    )


@pytest.mark.parametrize(
    ("committed", "offset", "ahead", "text"),
    [
        (15, 105, 0, "the record itself"),
        (20, 110, 0, "the next record"),
        (0, 100, 0, "the first record that was mirrored"),
        (30, 115, 0, "behind the last record"),
        (32, 115, 0, "behind the last record"),
        (40, 115, 8, "behind the last record"),
    ],
)
def test_a_group_goes_on_at_the_record_that_it_would_have_read_next(committed, offset, ahead, text):
    (move,) = decide(sight(committed))
    (place,) = move.places
    assert (place.offset, place.ahead, place.exact) == (offset, ahead, True)
    assert place.text.startswith(text)
    assert move.wanted == {THERE: Committed(offset, "note")}
    assert (move.left_out, move.uncopied, move.seen_ms) == ((), (), 7)


@pytest.mark.parametrize(("committed", "skipped"), [(15, 0), (20, 3), (22, 2), (25, 0)])
def test_what_an_order_left_out_is_told_as_skipped(committed, skipped):
    """An order had the copy go on at 24 where it stood at 21; the rest of the hole are markers."""
    maps = {HERE: offset_map([(10, 100, 10), (25, 110, 5)], 32, [(21, 24)])}
    (move,) = decide(replace(sight(committed), maps=maps))
    (place,) = move.places
    assert (place.skipped, bool(move.skipping)) == (skipped, bool(skipped))
    assert ("what lay at them is skipped" in place.text) == bool(skipped)


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize(("empty", "wanted"), [({}, {}), ({THERE: 4}, {THERE: Committed(4, "note")})])
def test_where_nothing_was_ever_mirrored_a_group_goes_to_the_end_of_an_empty_partition(known, empty, wanted):
    maps = {HERE: OffsetMap((), 20)} if known else {}
    (move,) = decide(replace(sight(15), maps=maps, empty=empty))
    assert move.wanted == wanted
    assert len(move.left_out) == (not wanted)


def test_a_copy_that_does_not_exist_is_left_out_with_the_reason():
    (move,) = decide(replace(sight(15), absent=frozenset({THERE})))
    assert (move.wanted, move.left_out, move.inexact) == ({}, move.absent, ())
    assert move.absent[0].text == "a.orders-0 does not exist there"
    (move,) = decide(replace(sight(15), absent=frozenset({THERE}), maps={}))
    assert (move.wanted, move.absent) == ({}, ()), "of which nothing was ever mirrored, no copy is missing"


def with_commit(downstream: int, upstream: int, seen: Sight) -> Sight:
    """The same where the flow has committed that on the target last."""
    return replace(seen, commits={"g": {THERE: FlowCommit(downstream, upstream)}})


@pytest.mark.parametrize("commit", [None, FlowCommit(111, 16), FlowCommit(113, 16)])
def test_a_group_that_a_consumer_has_put_further_on_the_target_stays_there_and_is_not_told_as_exact(commit):
    seen = sight(15, there=112)
    (move,) = decide(seen if commit is None else with_commit(commit.downstream, commit.upstream, seen))
    (place,) = move.places
    assert (place.offset, place.before, place.exact, place.further) == (112, 112, False, 7)
    assert place.text.startswith("7 offsets further on the target than its translation, 105, by a commit that is not")
    assert place.text.endswith("kafka-consumer-groups.sh --reset-offsets --to-offset 105 sets it back")
    assert (move.further, move.inexact, move.missing) == ((place,), (), {})
    assert move.is_there


@pytest.mark.parametrize(
    ("upstream", "why"),
    [
        pytest.param(22, "the group was set back at the source", id="its owner wants a replay"),
        pytest.param(15, "its translation is lower now", id="the target lost the end of its log"),
        pytest.param(12, "its translation is lower now", id="and the group went on meanwhile"),
    ],
)
def test_a_group_that_the_flow_itself_has_put_too_far_goes_back(upstream, why):
    seen = with_commit(112, upstream, sight(15, there=112))
    (move,) = decide(seen)
    (place,) = move.places
    assert (place.offset, place.exact, place.further) == (105, True, 0)
    assert place.text == f"the record itself (back from 112: {why})"
    assert move.missing == {THERE: Committed(105, "note")}
    assert move.commits == {THERE: FlowCommit(105, 15)}
    again = with_commit(105, 15, sight(15, there=105))
    (moved,) = decide(again)
    assert (moved.is_there, moved.missing) == (True, {})
    (used,) = decide(with_commit(105, 15, sight(15, there=112)))
    assert used.is_there, "done twice, it leaves a consumer that has begun where it is"


def test_a_group_beyond_a_torn_log_goes_back_to_its_end_though_the_source_is_gone():
    (move,) = decide(with_commit(123, 40, sight(40, there=123)))
    (place,) = move.places
    assert (place.offset, place.ahead, place.exact) == (115, 8, True)


def test_a_group_with_members_on_the_target_is_not_told_as_left_there():
    (move,) = decide(sight(15, there=112, state="Stable"))
    assert (move.further, move.wanted) == ((), {})


def test_a_group_that_has_members_where_it_was_is_told():
    listed = {"z": GroupListing(name="z", state="Empty"), "g": GroupListing(name="g", state="Stable")}
    assert have_members(listed, "a") == ("group g has members on a: stop them, what they read there is read again",)


def test_an_offset_whose_record_is_gone_becomes_the_oldest_that_is_left():
    (move,) = decide(sight(12, oldest=107))
    assert move.wanted == {THERE: Committed(107, "note")}


@pytest.mark.parametrize(
    ("state", "kind", "why"),
    [("Stable", GroupKind.CLASSIC, "members"), ("Empty", GroupKind.SHARE, "share group")],
)
def test_a_group_that_lives_on_the_target_is_not_touched(state, kind, why):
    (move,) = decide(sight(15, state=state, kind=kind))
    assert why in move.hindrance
    assert move.wanted == {}


def test_a_group_that_cannot_be_read_on_the_target_is_left_alone_and_no_other():
    seen = sight(15)
    offsets = {group: {HERE: Committed(15)} for group in ("g", "shy")}
    there = Standing(listed={"shy": GroupListing(name="shy")}, unreadable={"shy": "GROUP_AUTHORIZATION_FAILED"})
    both = replace(seen, offsets=offsets, seen_ms=dict.fromkeys(offsets, 7), there=there)
    found = {move.group: (move.hindrance, bool(move.wanted)) for move in decide(both)}
    why = "what it has on the target cannot be read: GROUP_AUTHORIZATION_FAILED"
    assert found == {"g": ("", True), "shy": (why, False)}


def test_a_group_that_is_empty_on_the_target_is_moved():
    (move,) = decide(sight(15, state="Empty"))
    assert move.wanted == {THERE: Committed(105, "note")}


def test_topics_that_are_not_copied_and_partitions_without_a_copy_are_named():
    seen = sight(15)
    other, new = TopicPartition("payments", 0), TopicPartition("orders", 1)
    offsets = {"g": {HERE: Committed(15), other: Committed(1), new: Committed(2)}}
    (move,) = decide(replace(seen, offsets=offsets))
    assert move.uncopied == ("payments",)
    assert [place.partition for place in move.left_out] == [new]
    assert list(move.wanted) == [THERE]


def test_groups_are_counted_once_for_plan_screen_and_report():
    other = TopicPartition("payments", 0)
    offsets = {
        "moved": {HERE: Committed(15)},
        "there": {HERE: Committed(15)},
        "uncopied": {other: Committed(1)},
        "active": {HERE: Committed(15)},
        "late": {HERE: Committed(15)},
    }
    listed = {"active": GroupListing(name="active", state="Stable")}
    there = Standing(listed=listed, offsets={"there": {THERE: Committed(105)}})
    found = decide(replace(sight(15), offsets=offsets, seen_ms=dict.fromkeys(offsets, 7), there=there))
    assert count(found) == Count(groups=3, offsets=3, known=5)
    assert count(found, {"late"}).text == "2 of 5 groups, with 2 offsets"


COPY, ORIGINAL = TopicPartition("b.orders", 0), TopicPartition("orders", 0)


@pytest.mark.parametrize(
    ("upstream", "offset", "exact", "text"),
    [
        (UpstreamOffset(7, "RECORD"), 7, True, "the record itself"),
        (UpstreamOffset(9, "END"), 9, True, "behind the last record that was mirrored"),
        (UpstreamOffset(9, "END", exact=False), 9, False, "as far as b->a is on record: some records before it"),
        (UpstreamOffset(2, "RECORD"), 3, True, "the first record that is left"),
        (UpstreamOffset(NO_OFFSET, "UNSETTLED", exact=False), NO_OFFSET, False, "has not acknowledged"),
        (None, NO_OFFSET, False, "a copy that b->a made, of which no offsets are on record"),
    ],
)
def test_a_group_in_a_copy_of_the_flow_back_goes_on_in_the_original(upstream, offset, exact, text):
    seen = replace(
        sight(15, oldest=0),
        offsets={"g": {COPY: Committed(7, "note")}},
        oldest={ORIGINAL: 3},
        originals={"b.orders": "orders"},
        upstream={} if upstream is None else {"g": {COPY: upstream}},
        back="b->a",
    )
    (move,) = decide(seen)
    (place,) = move.places
    assert (place.target, place.offset, place.exact) == (ORIGINAL, offset, exact)
    assert text in place.text
    assert move.wanted == ({} if offset == NO_OFFSET else {ORIGINAL: Committed(offset, "note")})
    assert move.inexact == (() if exact else (place,))
    assert move.uncopied == ()


@pytest.mark.parametrize(
    ("committed", "upstream", "offset", "exact"),
    [
        (15, 250, 105, True),
        (20, 250, 110, True),
        (31, 250, 250, True),
        (15, 102, 102, False),
        (31, 102, 102, False),
    ],
)
def test_a_group_goes_on_at_the_lesser_place_of_the_next_records_of_both_clusters(committed, upstream, offset, exact):
    """Where names are kept, or what others wrote to copies is brought home, one topic has records of both clusters."""
    seen = replace(sight(committed), upstream={"g": {HERE: UpstreamOffset(upstream, "RECORD")}}, back="b->a")
    (move,) = decide(seen)
    assert move.wanted == {THERE: Committed(offset, "note")}
    assert move.places[0].exact == exact


@pytest.mark.parametrize("place", ["RECORD", "END"])
def test_where_more_may_have_been_copied_than_is_on_record_no_group_goes_over_it(place):
    """The target's log could not be read: the flow back may have gone over copies that nobody knows of."""
    upstream = {"g": {HERE: UpstreamOffset(250, place)}}
    seen = replace(sight(32), upstream=upstream, back="b->a")
    (move,) = decide(seen)
    assert (move.places[0].offset, move.places[0].exact) == (250, True)
    (move,) = decide(replace(seen, unsettled=frozenset((HERE,))))
    assert (move.places[0].offset, move.places[0].exact) == (115, False)
    assert "as far as the flow is on record" in move.places[0].text
    (move,) = decide(replace(seen, maps={HERE: mapped(position=32)}, unsettled=frozenset((HERE,))))
    assert move.left_out
    (move,) = decide(replace(sight(15), upstream=upstream, unsettled=frozenset((HERE,))))
    assert (move.places[0].offset, move.places[0].exact) == (105, True)


@pytest.mark.parametrize(
    ("committed", "oldest", "skipped", "text"),
    [
        (0, 0, 10, "the first record that was mirrored, and up to 10 offsets before it are not there"),
        (12, 107, 5, "the first record that is left: what lay before it is gone, and up to 5 offsets before it"),
        (0, 107, 17, "the first record that is left: what lay before it is gone, and up to 17 offsets before it"),
        (15, 0, 0, "the record itself"),
    ],
)
def test_what_the_target_does_not_have_is_told_as_skipped(committed, oldest, skipped, text):
    (move,) = decide(sight(committed, oldest=oldest))
    (place,) = move.places
    assert (place.skipped, bool(move.skipping), move.inexact) == (skipped, bool(skipped), ())
    assert place.text.startswith(text)


@pytest.mark.parametrize(
    ("now", "ends", "said"),
    [
        ({"g": {THERE: Committed(105)}}, {THERE: 105}, []),
        ({}, {THERE: 200}, ["has nothing committed and not 105"]),
        ({"g": {THERE: Committed(104)}}, {THERE: 200}, ["has 104 committed and not 105"]),
        ({"g": {THERE: Committed(105)}}, {}, ["does not answer"]),
        ({"g": {THERE: Committed(105)}}, {THERE: 104}, ["beyond the end"]),
    ],
)
def test_what_is_wrong_with_a_group_that_was_moved_is_told(now, ends, said):
    found = landed(decide(sight(15)), now, {THERE: 105}, ends)
    assert len(found) == len(said)
    assert all(words in line for words, line in zip(said, found, strict=True))


def test_a_group_that_stands_before_the_first_record_that_is_left_is_told():
    (line,) = landed(decide(sight(15)), {"g": {THERE: Committed(105)}}, {THERE: 106}, {THERE: 120})
    assert line == (
        "group g, a.orders-0: 105 lies before the first record that is left, 106: its consumers begin by "
        "auto.offset.reset; kafka-consumer-groups.sh --reset-offsets --to-offset 106 sets it there"
    )
    assert landed(decide(sight(15)), {"g": {THERE: Committed(105)}}, {}, {THERE: 120}) == [], "no leader has answered"


@pytest.mark.parametrize(("there", "used"), [(101, True), (105, False), (112, True)])
def test_a_group_that_others_have_set_back_or_that_went_on_since_it_was_moved_stays(there, used):
    """What is on record of it at the source is older than that."""
    seen = with_commit(105, 15, replace(sight(15, there=there), moved=frozenset({"g"})))
    (move,) = decide(seen)
    (place,) = move.places
    assert (place.offset, place.used, move.missing) == (there, used, {})
    assert (place.further, place.exact) == (0, True)


@pytest.mark.parametrize("there", [101, 112])
def test_a_group_that_may_have_been_moved_before_others_used_it_is_told(there: int):
    seen = with_commit(
        105, 15, replace(sight(15, there=there), moved=frozenset({"g"}), unsure=frozenset({("g", THERE)}))
    )
    (move,) = decide(seen)
    (place,) = move.places
    assert (place.offset, place.exact, move.missing) == (there, False, {})
    (told,) = move.kept
    assert f"it stays at offset {there}" in told
    assert "whether the group had been moved by then is not known" in told
    assert move.left == {}


def test_a_group_that_may_have_been_moved_is_told_also_when_its_commit_is_not_on_record():
    seen = replace(sight(15, there=112), moved=frozenset({"g"}), unsure=frozenset({("g", THERE)}))
    for each in (seen, replace(seen, left=Left(offsets={"g": {HERE: 15}}))):
        (place,) = decide(each)[0].places
        assert (place.offset, place.exact) == (112, False)


@pytest.mark.parametrize(
    ("there", "before", "offset", "exact"),
    [(101, 101, 105, True), (NO_OFFSET, NO_OFFSET, 105, True), (103, 101, 103, False), (112, 101, 112, False)],
)
def test_a_place_that_a_broken_off_command_had_not_come_to_is_moved_unless_others_have_committed_there(
    there, before, offset, exact
):
    """Other places of the group were moved by it."""
    seen = replace(sight(15, there=there), moved=frozenset({"g"}), tried={("g", THERE): before})
    (move,) = decide(seen)
    (place,) = move.places
    assert (place.offset, place.exact, place.again) == (offset, exact, False)
    assert (move.doubtful == (place,)) is not exact
    assert bool(move.missing) is exact


def with_lost(seen: Sight) -> Sight:
    """The same where the flow has committed 113 last, and 112 and 103 before."""
    commit = FlowCommit(113, 17, (FlowCommit(112, 16), FlowCommit(103, 13)))
    return replace(seen, commits={"g": {THERE: commit}})


@pytest.mark.parametrize(
    ("committed", "text"),
    [(16, "its translation is lower now"), (15, "the group was set back at the source")],
)
def test_a_group_with_an_earlier_commit_of_the_flow_s_goes_back_to_its_translation(committed, text):
    """The target has lost the last one."""
    (move,) = decide(with_lost(sight(committed, there=112)))
    (place,) = move.places
    assert (place.offset, place.exact, place.further, move.void) == (90 + committed, True, 0, [])
    assert f"back from 112: {text}" in place.text
    (used,) = decide(with_lost(sight(committed, there=111)))
    assert [place.further for place in used.places] == [111 - 90 - committed]


@pytest.mark.parametrize(("there", "offset", "used"), [(112, 105, False), (103, 103, True)])
def test_a_group_that_was_moved_and_has_an_earlier_commit_goes_back_and_never_forward(there, offset, used):
    """Its owner may have set it back to there since."""
    (move,) = decide(with_lost(replace(sight(15, there=there), moved=frozenset({"g"}))))
    (place,) = move.places
    assert (place.offset, place.used) == (offset, used)


def had(*offsets: int) -> Earlier:
    return Earlier(moved=frozenset({"g"}), before={("g", THERE): frozenset(offsets)})


@pytest.mark.parametrize(
    ("there", "before"),
    [
        pytest.param(101, (101,), id="it was moved forward"),
        pytest.param(112, (112,), id="it was set back at the source"),
        pytest.param(101, (112, 101), id="it was moved twice"),
        pytest.param(NO_OFFSET, (101,), id="it has nothing any more"),
        pytest.param(NO_OFFSET, (), id="and had nothing before"),
    ],
)
def test_a_moved_group_that_has_what_it_had_before_is_moved_once_more_and_is_not_exact(there, before):
    """The target has lost the end of its groups' offsets, or a consumer has committed that very one."""
    left = Left(offsets={"g": {HERE: 15}})
    seen = replace(sight(15, there=there), moved=frozenset({"g"}), earlier=had(*before), left=left)
    (move,) = decide(with_commit(105, 15, seen))
    (place,) = move.places
    assert (move.missing, move.again) == ({THERE: Committed(105, "note")}, [("g", THERE, there)])
    assert (place.exact, place.used, place.text) == (
        False,
        False,
        "the record itself, once more: it had what it had before it was moved, or nothing",
    )


@pytest.mark.parametrize(
    ("there", "earlier"),
    [
        pytest.param(102, had(101), id="another offset is a consumer's"),
        pytest.param(101, Earlier(), id="an earlier operation has moved it"),
        pytest.param(105, had(105, 101), id="it is where it is to be"),
    ],
)
def test_any_other_offset_of_a_moved_group_is_its_consumers(there, earlier):
    seen = replace(sight(15, there=there), moved=frozenset({"g"}), earlier=earlier)
    (move,) = decide(with_commit(105, 15, seen))
    assert (move.missing, move.again, move.places[0].offset, move.places[0].exact) == ({}, [], there, True)


def test_what_was_moved_once_more_is_not_exact_afterwards_either():
    again = replace(had(101), again={("g", THERE): frozenset({101})})
    seen = replace(sight(15, there=105), moved=frozenset({"g"}), earlier=again)
    (move,) = decide(with_commit(105, 15, seen))
    assert (move.missing, move.again, move.places[0].offset, move.places[0].exact) == ({}, [], 105, False)
    assert "once more" in move.places[0].text


def test_a_group_that_comes_back_and_is_held_further_on_is_told():
    decided = decide(sight(15, there=112))
    (said,) = further_on_return(decided, ["g"], "b")
    assert said.startswith("group g at orders-0 comes back to b, and stays 7 offsets further on the target than its")
    assert further_on_return(decided, [], "b") == ()
    assert further_on_return(decide(sight(15, there=105)), ["g"], "b") == ()


def test_a_group_that_was_left_further_is_told_as_such_again():
    """The operation moves its other partitions; of this one it takes the flow's commit off the record."""
    before = with_commit(103, 13, sight(15, there=112))
    (move,) = decide(before)
    assert move.void == [("g", THERE)]
    (again,) = decide(replace(before, commits={}, moved=frozenset({"g"})))
    assert [place.further for place in (*move.places, *again.places)] == [7, 7]


def test_a_group_that_was_moved_goes_on_with_the_source_where_nobody_has_used_it():
    seen = with_commit(103, 13, replace(sight(15, there=103), moved=frozenset({"g"})))
    (move,) = decide(seen)
    assert move.missing == {THERE: Committed(105, "note")}


@pytest.mark.parametrize("again", [{"recreated": frozenset({"orders"})}, {"copy_recreated": frozenset({HERE})}])
def test_in_a_topic_that_is_another_one_by_now_no_place_is_known(again: dict[str, Any]):
    (move,) = decide(replace(sight(15), **again))
    (place,) = move.places
    assert (place.offset, place.exact, move.wanted) == (NO_OFFSET, False, {})


@pytest.mark.parametrize(("committed", "offset", "ahead", "exact"), [(15, 105, 0, True), (19, 107, 2, False)])
def test_where_the_source_has_lost_its_tail_groups_go_to_the_first_record_of_that(committed, offset, ahead, exact):
    (move,) = decide(replace(sight(committed), parted={HERE: 17}))
    (place,) = move.places
    assert (place.offset, place.ahead, place.exact) == (offset, ahead, exact)


def test_an_offset_of_the_flow_s_is_forgotten_when_its_group_is_not_on_record_any_more_and_nobody_has_used_it():
    other = TopicPartition("a.other", 0)
    commits = {"g": {THERE: FlowCommit(105, 15), other: FlowCommit(3, 3)}, "deleted": {THERE: FlowCommit(107, 17)}}
    moves = decide(sight(15))
    assert forgotten(commits, moves) == {"deleted": [THERE], "g": [other]}
    before = {"g": commits["g"], "deleted": {THERE: FlowCommit(107, 17, (FlowCommit(106, 16),))}}
    now = {"g": {other: Committed(3)}, "deleted": {THERE: Committed(106)}}
    assert forgotten(before, moves, now) == {"deleted": [THERE], "g": [other]}, "the target has lost the last one"
    now = {"g": {other: Committed(3)}, "deleted": {THERE: Committed(109)}}
    assert forgotten(commits, moves, now) == {"g": [other]}, "a consumer has gone on, or there is nothing any more"


@pytest.mark.parametrize("there", [103, 109])
def test_a_group_that_an_earlier_operation_has_taken_there_stays_where_it_stands(there):
    """The flow was released, and the source is gone again."""
    left = Left(offsets={"g": {HERE: 17}})
    (move,) = decide(replace(sight(17, there=there), left=left))
    (place,) = move.places
    assert (place.offset, place.used, place.exact, place.skipped) == (there, True, True, 0)
    assert (move.missing, move.commits, move.further) == ({}, {}, ())
    (move,) = decide(replace(sight(17, there=103), left=Left(offsets={"g": {HERE: 16}})))
    assert move.places[0].offset == 107, "it has committed on the source since"
    (move,) = decide(replace(sight(17), left=left))
    (place,) = move.places
    assert (place.offset, place.exact, move.again) == (107, False, [("g", THERE, NO_OFFSET)]), "it has nothing there"


LEFT = Left(offsets={"g": {HERE: 15}})
PLACED = {"g": {HERE: UpstreamOffset(15, "RECORD", placed=True)}}


def taken_there(seen: Sight, **more: Any) -> Sight:
    """The same where the flow has put the group at 103, and nobody knows the record any more by now."""
    return with_commit(103, 15, replace(seen, **more))


@pytest.mark.parametrize(
    "more",
    [
        pytest.param({"left": LEFT}, id="an operation has taken it there"),
        pytest.param({"left": LEFT, "moved": frozenset({"g"})}, id="this one, which was broken off"),
        pytest.param({"left": Left(open=frozenset({"g"}))}, id="whatever it has on the source"),
        pytest.param({"upstream": PLACED}, id="it lives there without an operation"),
    ],
)
def test_a_group_that_nobody_has_used_since_it_was_moved_goes_to_the_first_record_that_is_left(more):
    """Retention has passed it there: its consumers would begin by auto.offset.reset."""
    (move,) = decide(taken_there(sight(15, there=103, oldest=107), **more))
    (place,) = move.places
    assert (place.offset, place.skipped, place.passed, place.used) == (107, 4, True, False)
    assert place.text == (
        "the first record that is left: what lay before it is gone, and up to 4 offsets before it are not there: what "
        "lay at them is skipped"
    )
    assert (move.missing, move.commits) == ({THERE: Committed(107, "note")}, {THERE: FlowCommit(107, 15)})
    (line,) = told_of_passed([move], "b")
    assert line == (
        "b has lost the records at which groups stood since they were moved, and they go on at the first that is left: "
        "g at orders-0 (4 offsets)"
    )
    (after,) = decide(with_commit(107, 15, replace(sight(15, there=107, oldest=107), **more)))
    assert (after.missing, after.places[0].passed, told_of_passed([after], "b")) == ({}, False, ())


@pytest.mark.parametrize("more", [{"left": LEFT}, {"moved": frozenset({"g"})}, {"upstream": PLACED}])
def test_a_group_that_others_have_put_before_the_first_record_that_is_left_stays_and_is_told(more):
    (move,) = decide(taken_there(sight(15, there=102, oldest=107), **more))
    (place,) = move.places
    assert (place.offset, place.skipped, place.passed, place.used, move.missing) == (102, 5, False, True, {})
    assert place.text.endswith(", before the first record that is left, 107")
    (line,) = landed([move], {"g": {THERE: Committed(102)}}, {THERE: 107}, {THERE: 120})
    assert "102 lies before the first record that is left" in line


def test_a_group_before_the_first_record_that_may_have_been_moved_is_told_as_such_too():
    unsure = {"moved": frozenset({"g"}), "unsure": frozenset({("g", THERE)})}
    (move,) = decide(taken_there(sight(15, there=102, oldest=107), **unsure))
    assert (len(move.kept), len(move.doubtful), move.places[0].skipped) == (1, 1, 5)


def test_a_group_leaves_behind_what_it_had_committed_where_it_is_moved_and_nowhere_else():
    (move,) = decide(sight(17))
    assert move.left == {HERE: 17}
    (move,) = decide(sight(17, there=109))
    assert (bool(move.further), move.left, move.left_on_record) == (True, {}, {HERE: NO_OFFSET})
    (move,) = decide(replace(sight(17), maps={}))
    assert move.left == move.left_on_record == {}
    (move,) = decide(sight(17, there=103, state="Stable"))
    assert move.left == {}


def test_a_group_that_stands_further_counts_as_moved_unless_it_is_left_alone_as_another_one():
    """Each of its places that is further is on record without an offset; a failback leaves another group alone."""
    seen, other = sight(17, there=109), TopicPartition("other", 0)
    offsets = {"g": {HERE: Committed(17), other: Committed(4)}}
    there = replace(seen.there, offsets={"g": {THERE: Committed(109), TopicPartition("a.other", 0): Committed(3)}})
    apart = replace(seen, offsets=offsets, renamed={**seen.renamed, "other": "a.other"}, there=there)
    (move,) = decide(apart)
    assert (bool(move.kept), bool(move.further), move.left, move.left_on_record) == (True, True, {}, {})
    (move,) = decide(replace(apart, maps={**apart.maps, other: mapped((0, 0, 10), position=10)}))
    assert move.left_on_record == {HERE: NO_OFFSET, other: 4}


def test_an_offset_that_was_committed_in_an_older_topic_of_the_name_leads_nowhere():
    (move,) = decide(replace(sight(17), outdated=frozenset({("g", HERE.topic)})))
    (place,) = move.places
    assert (place.offset, place.exact, move.wanted) == (NO_OFFSET, False, {})
    assert "deleted and created again" in place.text
    (move,) = decide(replace(sight(17), outdated=frozenset({("other", HERE.topic)})))
    assert move.places[0].offset == 107


def test_a_group_in_a_ring_is_left_out_with_the_reason():
    ring = {"g": {HERE: UpstreamOffset(NO_OFFSET, "RING", exact=False)}}
    (move,) = decide(replace(sight(17), upstream=ring))
    assert move.wanted == {}
    (place,) = move.left_out
    assert place.text.startswith("the topic goes around a ring")


def test_a_group_that_the_flow_back_has_placed_on_the_source_stays_where_it_stands_on_the_target():
    """It lives there: what the source has is a copy of where it stood."""
    placed = {"g": {HERE: UpstreamOffset(107, "RECORD", placed=True)}}
    (move,) = decide(replace(sight(17, there=101), upstream=placed))
    (place,) = move.places
    assert (place.offset, place.used, place.exact, place.skipped) == (101, True, True, 0)
    assert move.missing == {}
    (move,) = decide(replace(sight(17), upstream=placed))
    assert move.places[0].offset == 107, "it has nothing there"


def test_a_place_whose_offset_the_source_has_lost_goes_by_what_was_seen_and_is_not_exact():
    (move,) = decide(replace(sight(15), lost=frozenset({("g", HERE)})))
    (place,) = move.places
    assert (place.offset, place.exact, place.lost) == (105, False, True)
    assert seen_before_a_loss([move]) == (f"group g at {HERE}: the record itself, {SEEN_BEFORE}",)
    assert seen_before_a_loss(decide(sight(15))) == ()


def test_no_place_of_a_group_is_exact_of_which_a_source_that_answers_has_said_nothing():
    (move,) = decide(replace(sight(15), unasked=frozenset("g")))
    (place,) = move.places
    assert (place.offset, place.exact, place.text) == (105, False, f"the record itself, {SEEN_LAST}")
    (move,) = decide(replace(sight(15), unasked=frozenset("h")))
    assert move.places[0].exact
