"""Where groups go on at the cluster that they came from."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from sparkmirror.failover.divergence import Divergent
from sparkmirror.failover.earlier import Earlier
from sparkmirror.failover.homeward import NARROWED, HomewardSight, Way, before_the_first, decide, not_brought
from sparkmirror.failover.moves import GONE, Standing, as_they_stand, count, lost_their_offsets
from sparkmirror.failover.tried import Unsure
from sparkmirror.kafka.groups import Committed, GroupListing
from sparkmirror.model import NO_OFFSET, TopicPartition
from sparkmirror.offsets.group_records import FlowCommit
from sparkmirror.offsets.inherited import Inherited
from tests.failover.test_moves import mapped
from tests.offsets.segments import offset_map

ORDERS, COPY = TopicPartition("orders", 0), TopicPartition("a.orders", 0)
BACK = TopicPartition("b.orders", 0)

FORTH = mapped((10, 100, 10), (25, 110, 5), position=30)
"""Of a->b: offsets 10 to 19 of a lie at 100 to 109 on b, 25 to 29 at 110 to 114."""


def sight(committed: dict[TopicPartition, int], **more) -> HomewardSight:
    """Under renaming: a.orders on b came from orders on a; orders of b lies in b.orders on a, 0 to 9 at 0 to 9."""
    given: dict[str, Any] = {
        "offsets": {"g": {place: Committed(offset, "note") for place, offset in committed.items()}},
        "seen_ms": 7,
        "copies": Way(names={"a.orders": "orders"}, maps={ORDERS: FORTH}),
        "local": Way(names={"orders": "b.orders"}, maps={ORDERS: mapped((0, 0, 10), position=10)}),
        "beyond": {ORDERS: 40},
    }
    return HomewardSight(**given | more)


@pytest.mark.parametrize(
    ("here", "committed", "there", "offset"),
    [
        (COPY, 105, ORDERS, 15),
        (COPY, 112, ORDERS, 27),
        (COPY, 0, ORDERS, 10),
        (COPY, 115, ORDERS, 40),
        (COPY, 130, ORDERS, 40),
        (ORDERS, 4, BACK, 4),
        (ORDERS, 10, BACK, 10),
    ],
)
def test_copies_go_back_to_their_source_and_what_was_written_here_to_its_copy(here, committed, there, offset):
    (move,) = decide(sight({here: committed}))
    assert move.wanted == {there: Committed(offset, "note")}


@pytest.mark.parametrize(("here", "told"), [(COPY, True), (ORDERS, False)])
def test_no_place_is_exact_in_a_topic_that_the_file_leaves_out_though_the_flow_has_brought_of_it(here, told):
    """With the fault a group went behind the last copy, and read once more what had been brought home behind it."""
    given = sight({COPY: 115, ORDERS: 4})
    (before,), (move,) = decide(given), decide(replace(given, narrowed=frozenset({COPY.topic})))
    assert move.wanted == before.wanted
    (place,) = (one for one in move.places if one.partition == here)
    assert (place.exact, NARROWED in place.text) == (not told, told)


@pytest.mark.parametrize(
    ("committed", "offset", "exact"),
    [
        pytest.param(105, 15, True, id="before it"),
        pytest.param(115, 33, False, id="at the end of what was copied"),
        pytest.param(123, 33, False, id="in the midst of what was brought home behind it"),
        pytest.param(125, 33, False, id="at the end of that"),
    ],
)
def test_no_group_goes_behind_a_record_of_a_third_cluster_that_is_not_here(committed, offset, exact):
    """The group has not read it here, and the flow from there copies it only when the group is gone."""
    local = Way(names={"a.orders": "orders"}, maps={COPY: mapped((120, 40, 5), position=125)})
    (move,) = decide(sight({COPY: committed}, local=local, beyond={}, onward={ORDERS: 33}))
    (place,) = move.places
    assert (place.offset, place.exact) == (offset, exact)


@pytest.mark.parametrize(("committed", "ahead"), [(4, 0), (10, 0), (15, 5)])
def test_a_group_beyond_the_end_of_a_log_that_has_lost_it_is_told_as_ahead_of_the_flow(committed, ahead):
    (move,) = decide(sight({ORDERS: committed}))
    assert [place.ahead for place in move.places] == [ahead]


@pytest.mark.parametrize("committed", [115, 130])
def test_a_group_in_a_copy_that_the_flow_does_not_bring_home_is_not_ahead_of_it(committed):
    (move,) = decide(sight({COPY: committed}))
    assert [place.ahead for place in move.places] == [0]


@pytest.mark.parametrize(
    ("committed", "unwritten", "skipped"),
    [(115, (), 1), (115, (115,), 0), (115, (114,), 1), (114, (), 0), (116, (), 0)],
)
def test_a_group_before_the_first_record_that_was_brought_home_skips_no_marker(committed, unwritten, skipped):
    """The fence of a->b lies at 115, right behind its last copy, and what was written there begins at 116."""
    local = Way(names={"a.orders": "orders"}, maps={COPY: mapped((116, 40, 5), position=121)})
    seen = sight({COPY: committed}, local=local, beyond={})
    assert before_the_first(seen) == ((Divergent(COPY, 115, 116),) if committed == 115 else ())
    (move,) = decide(replace(seen, unwritten=frozenset((COPY, offset) for offset in unwritten)))
    assert [(place.offset, place.skipped) for place in move.places] == [(29 if committed == 114 else 40, skipped)]


def test_where_nothing_was_put_aside_a_group_at_the_end_goes_on_there():
    (move,) = decide(sight({COPY: 115}, beyond={}))
    assert move.wanted == {ORDERS: Committed(30, "note")}


@pytest.mark.parametrize(
    ("committed", "offset"),
    [
        (105, 15),  # the next record came from a
        (114, 29),
        (115, 42),  # the next record is the first that was written on b
        (117, 44),
        (118, 45),  # at the end of all
    ],
)
def test_where_names_are_kept_the_next_record_decides(committed, offset):
    """On b: copies up to 114, then 115 to 117 written there, at 42 to 44 on a, behind 30 to 39 that it lacks."""
    same = sight(
        {ORDERS: committed},
        copies=Way(names={"orders": "orders"}, maps={ORDERS: FORTH}),
        local=Way(names={"orders": "orders"}, maps={ORDERS: mapped((115, 42, 3), position=118)}),
    )
    (move,) = decide(same)
    assert move.wanted == {ORDERS: Committed(offset, "note")}


def between(stood: dict[str, int], **more) -> HomewardSight:
    """Names are kept, and only b->a copies orders: 0 to 2 of b lie at 0 to 2 on a, 3 to 6 at 5 to 8; others wrote 3, 4.

    Groups have 5 on b, which is 7 on a, and stood there at these offsets.
    """
    local = Way(names={"orders": "orders"}, maps={ORDERS: mapped((0, 0, 3), (3, 5, 4), position=7)})
    given: dict[str, Any] = {
        "offsets": {group: {ORDERS: Committed(5)} for group in stood},
        "there": Standing(offsets={group: {ORDERS: Committed(offset)} for group, offset in stood.items()}),
    }
    return sight({}, copies=Way(names={}), local=local, beyond={}, **given | more)


@pytest.mark.parametrize(
    ("stood", "asked", "others", "offset"),
    [
        (1, [Divergent(ORDERS, 3, 5)], (3,), 3),
        (3, [Divergent(ORDERS, 3, 5)], (3,), 3),
        (4, [Divergent(ORDERS, 4, 5)], (4,), 4),
        (3, [Divergent(ORDERS, 3, 5)], (), 7),  # no record lies there
        (6, [], (), 7),  # it had read them before it left
    ],
)
def test_a_group_goes_behind_no_record_of_others_there_that_it_had_not_read_before_it_left(
    stood, asked, others, offset
):
    assert list(not_brought(between({"g": stood}))) == asked
    (move,) = decide(between({"g": stood}, others={ORDERS: others}))
    assert [(place.offset, place.exact) for place in move.places] == [(offset, offset == 7)]
    by_the_flow = {
        "there": Standing(offsets={"g": {ORDERS: Committed(7)}}),
        "commits": {"g": {ORDERS: FlowCommit(7, 5)}},
    }
    (move,) = decide(
        between({"g": 7}, others={ORDERS: others}, seen_there={"g": {ORDERS: Committed(stood)}}, **by_the_flow)
    )
    assert move.places[0].offset == offset, "the flow back has put it further meanwhile"


def test_what_lies_behind_where_another_group_stood_keeps_nobody_back_who_stood_before_it():
    two = between({"g": 1, "h": 4})
    assert list(not_brought(two)) == [Divergent(ORDERS, 3, 5), Divergent(ORDERS, 4, 5)]
    moves = decide(replace(two, others={ORDERS: (3, 4)}))
    assert [place.offset for move in moves for place in move.places] == [3, 4]


@pytest.mark.parametrize(
    ("committed", "offset", "exact"),
    [
        (105, 15, True),
        (114, 29, True),
        (115, 41, False),  # what came lies before what was brought since
        (118, 41, False),
    ],
)
def test_no_group_goes_behind_what_came_when_groups_had_been_moved(committed, offset, exact):
    """On a: 30 to 39 are put aside, others wrote 41 when groups had been moved, and 42 to 44 were brought since."""
    same = sight(
        {ORDERS: committed},
        copies=Way(names={"orders": "orders"}, maps={ORDERS: FORTH}),
        local=Way(names={"orders": "orders"}, maps={ORDERS: mapped((115, 42, 3), position=118)}),
        since={ORDERS: 41},
    )
    (move,) = decide(same)
    assert [(place.offset, place.exact) for place in move.places] == [(offset, exact)]


def test_where_names_are_kept_and_nothing_was_written_here_the_copies_decide():
    same = sight({ORDERS: 115}, copies=Way(names={"orders": "orders"}, maps={ORDERS: FORTH}), local=Way(names={}))
    (move,) = decide(same)
    assert move.wanted == {ORDERS: Committed(40, "note")}


def test_what_cannot_be_moved_has_a_reason():
    (move,) = decide(sight({TopicPartition("other", 0): 1, TopicPartition("orders", 7): 2}))
    assert move.wanted == {}
    assert move.uncopied == ("other",)
    assert [place.text for place in move.left_out] == ["nothing of the partition is mirrored yet"]
    (active,) = decide(sight({COPY: 105}, there=Standing(listed={"g": GroupListing(name="g", state="Stable")})))
    assert "members" in active.hindrance


def test_where_nothing_was_ever_mirrored_a_group_goes_to_the_end_of_an_empty_partition():
    new = TopicPartition("orders", 7)
    (move,) = decide(sight({new: 2}, empty={TopicPartition("b.orders", 7): 5}))
    assert move.wanted == {TopicPartition("b.orders", 7): Committed(5, "note")}


def test_a_record_that_is_gone_there_becomes_the_oldest_that_is_left():
    (move,) = decide(sight({COPY: 105}, oldest={ORDERS: 18}, there=Standing(offsets={"g": {ORDERS: Committed(3)}})))
    assert move.wanted == {ORDERS: Committed(18, "note")}
    assert move.places[0].before == 3
    assert NO_OFFSET not in {place.offset for place in move.places}


def test_where_more_may_have_been_brought_than_is_on_record_nothing_is_called_exact():
    (move,) = decide(sight({COPY: 105, ORDERS: 10}, doubtful=frozenset({ORDERS})))
    assert move.wanted == {ORDERS: Committed(15, "note"), BACK: Committed(10, "note")}
    (place,) = move.inexact
    assert place.partition == ORDERS
    assert place.text == "behind the last record that was mirrored, as far as the flow there is on record"


@pytest.mark.parametrize(("committed", "offset"), [(105, 15), (114, 29), (115, 30), (130, 30)])
def test_where_more_may_have_been_copied_here_than_is_on_record_no_group_goes_beyond_that(committed, offset):
    """What was put aside may be what was copied, and so may what lies here behind the map."""
    (move,) = decide(sight({COPY: committed}, unsettled=frozenset({ORDERS})))
    assert move.wanted == {ORDERS: Committed(offset, "note")}
    (place,) = move.inexact
    assert "as far as the flow from there is on record" in place.text


@pytest.mark.parametrize(("committed", "offset"), [(112, 27), (116, 30), (120, 30)])
def test_where_names_are_kept_too(committed, offset):
    """On b 115 to 117 may be copies that are not on record, and 118 to 119 were written there."""
    same = sight(
        {ORDERS: committed},
        copies=Way(names={"orders": "orders"}, maps={ORDERS: FORTH}),
        local=Way(names={"orders": "orders"}, maps={ORDERS: mapped((118, 42, 2), position=120)}),
        unsettled=frozenset({ORDERS}),
    )
    (move,) = decide(same)
    assert move.wanted == {ORDERS: Committed(offset, "note")}
    assert move.inexact


def test_where_what_others_wrote_here_is_not_brought_there_nothing_is_called_exact():
    (move,) = decide(sight({COPY: 105, ORDERS: 10}, unbrought=frozenset({COPY})))
    assert move.wanted == {ORDERS: Committed(15, "note"), BACK: Committed(10, "note")}
    (place,) = move.inexact
    assert (place.partition, "is not brought there" in place.text) == (COPY, True)


def test_a_partition_that_does_not_exist_there_is_left_out_and_the_others_are_moved():
    (move,) = decide(sight({COPY: 105, ORDERS: 4}, absent=frozenset({ORDERS})))
    assert move.missing == {BACK: Committed(4, "note")}
    assert [(place.partition, place.text) for place in move.absent] == [(COPY, "orders-0 does not exist there")]
    assert move.left_out == move.absent


@pytest.mark.parametrize("unbrought", [frozenset(), frozenset({COPY})])
def test_a_partition_that_does_not_exist_there_is_not_exact_where_others_have_written_here(unbrought):
    (move,) = decide(sight({COPY: 105}, absent=frozenset({ORDERS}), unbrought=unbrought, doubtful=frozenset({COPY})))
    (place,) = move.absent
    assert place.exact == (not unbrought)
    assert place.text == "orders-0 does not exist there" + "; what others wrote here is not brought there" * len(
        unbrought
    )


def at_home(offset: int) -> Standing:
    return Standing(offsets={"g": {ORDERS: Committed(offset)}})


def test_what_a_group_had_before_it_left_does_not_keep_it_from_going_on_where_it_stands_here():
    (move,) = decide(sight({COPY: 105}, there=at_home(27)))
    assert move.missing == {ORDERS: Committed(15, "note")}
    assert move.places[0].text == "the record itself (back from 27, where it stood before it left)"


@pytest.mark.parametrize(
    ("there", "commit", "wanted"),
    [
        pytest.param(15, 15, {}, id="it is there"),
        pytest.param(17, 15, {}, id="its consumers have begun"),
        pytest.param(17, None, {}, id="and it was there before"),
        pytest.param(12, 15, {}, id="its owner has set it back there"),
        pytest.param(14, 14, {ORDERS: Committed(15, "note")}, id="the translation is another one now"),
    ],
)
def test_a_group_that_was_moved_is_not_moved_again_once_it_has_been_used_there(there, commit, wanted):
    commits = {} if commit is None else {"g": {ORDERS: FlowCommit(commit, 105)}}
    (move,) = decide(sight({COPY: 105}, there=at_home(there), moved=frozenset({"g"}), commits=commits))
    assert (move.missing, move.is_there) == (wanted, not wanted)


@pytest.mark.parametrize(
    ("there", "before", "again"),
    [
        pytest.param(27, {27}, True, id="it was moved back"),
        pytest.param(12, {12}, True, id="it was moved forward"),
        pytest.param(NO_OFFSET, {12}, True, id="it has nothing any more"),
        pytest.param(13, {12}, False, id="another offset is a consumer's"),
        pytest.param(15, {15}, False, id="it is there"),
    ],
)
def test_a_moved_group_that_has_what_it_had_before_is_moved_once_more_and_is_not_exact(there, before, again):
    seen = sight(
        {COPY: 105},
        there=at_home(there) if there != NO_OFFSET else Standing(),
        moved=frozenset({"g"}),
        commits={"g": {ORDERS: FlowCommit(15, 105)}},
        earlier=Earlier(moved=frozenset({"g"}), before={("g", ORDERS): frozenset(before)}),
    )
    (move,) = decide(seen)
    assert (move.missing, move.again) == (
        ({ORDERS: Committed(15, "note")}, [("g", ORDERS, there)]) if again else ({}, [])
    )
    assert move.places[0].exact is not again


@pytest.mark.parametrize(("unsure", "exact"), [(frozenset(), True), (frozenset({("g", ORDERS)}), False)])
def test_a_group_that_may_have_been_moved_before_others_used_it_is_told(unsure: Unsure, exact: bool):
    seen = sight({COPY: 105}, there=at_home(27), moved=frozenset({"g"}), unsure=unsure)
    (move,) = decide(seen)
    assert (move.places[0].offset, move.places[0].exact, len(move.kept)) == (27, exact, len(unsure))


@pytest.mark.parametrize(("there", "offset", "exact"), [(11, 15, True), (12, 12, False), (27, 27, False)])
def test_a_place_that_a_broken_off_command_had_not_come_to_is_moved_unless_others_have_committed_there(
    there, offset, exact
):
    seen = sight({COPY: 105}, there=at_home(there), moved=frozenset({"g"}), tried={("g", ORDERS): 11})
    (move,) = decide(seen)
    assert (move.places[0].offset, move.places[0].exact, bool(move.missing)) == (offset, exact, exact)


@pytest.mark.parametrize(
    ("commit", "offset"),
    [
        pytest.param(FlowCommit(38, 115), 38, id="a marker has been passed since"),
        pytest.param(FlowCommit(38, 114), 40, id="that was for another offset"),
        pytest.param(FlowCommit(37, 115), 40, id="another one was committed"),
    ],
)
def test_what_has_been_moved_is_told_as_it_was_committed(commit, offset):
    """When it is looked at afterwards, in the report too, the flow that goes there may have come further."""
    commits = {"g": {ORDERS: commit}}
    (move,) = decide(sight({COPY: 115}, there=at_home(38), commits=commits, settled=True))
    assert (move.places[0].offset, move.places[0].exact) == (offset, True)
    (again,) = decide(sight({COPY: 115}, there=at_home(38), commits=commits))
    assert again.places[0].offset == 40


@pytest.mark.parametrize(
    ("committed", "offset", "skipped"), [(105, 15, 3), (111, 26, 3), (112, 40, 3), (114, 40, 1), (115, 40, 0)]
)
def test_a_group_skips_what_the_other_cluster_has_lost_and_is_told_how_much(committed, offset, skipped):
    """Its log parts at 27 from what was copied: 27 to 29 are gone, and others lie up to 39, put aside."""
    (move,) = decide(sight({COPY: committed}, parted={ORDERS: 27}))
    (place,) = move.places
    assert (place.offset, place.skipped) == (offset, skipped)
    assert (f"up to {skipped} offsets before it are not there" in place.text) is bool(skipped)


def test_where_names_are_kept_a_lost_tail_does_not_count_as_never_copied():
    """The flow back has begun behind the copies: what lies below its first record is known from the flow forth."""
    same = sight(
        {ORDERS: 113},
        copies=Way(names={"orders": "orders"}, maps={ORDERS: FORTH}),
        local=Way(names={"orders": "orders"}, maps={ORDERS: mapped((115, 42, 3), position=118)}),
        parted={ORDERS: 27},
    )
    (move,) = decide(same)
    (place,) = move.places
    assert (place.offset, place.skipped) == (42, 2)


@pytest.mark.parametrize(
    ("committed", "stood", "offset", "exact"),
    [
        pytest.param(105, None, 15, True, id="before what was lost"),
        pytest.param(112, None, 27, True, id="at its begin"),
        pytest.param(114, None, 27, False, id="a consumer has committed behind it, before or after the loss"),
        pytest.param(114, FlowCommit(114, 29), 29, True, id="nobody has used it since the flow put it there"),
        pytest.param(114, FlowCommit(113, 28), 27, False, id="somebody has"),
        pytest.param(114, FlowCommit(115, 30, (FlowCommit(114, 29),)), 29, True, id="the last commit is lost too"),
        pytest.param(115, FlowCommit(115, 30), 30, True, id="it had read all there before it left"),
        pytest.param(105, FlowCommit(105, 15), 15, True, id="nothing of what it has not read is lost"),
    ],
)
@pytest.mark.parametrize("kept", [False, True])
def test_a_group_reads_what_the_copy_has_lost_where_it_still_is(kept, committed, stood, offset, exact):
    """The copy ends at 112, so that 27 to 29 are lost there; where names are kept others have come from 112 on."""
    place = ORDERS if kept else COPY
    local = Way(names={"orders": "orders"}, maps={ORDERS: mapped((112, 42, 3), position=115)})
    more: dict[str, Any] = {"copies": Way(names={place.topic: "orders"}, maps={ORDERS: FORTH})}
    more |= {"local": local} if kept else {}
    commits = {} if stood is None else {"g": {place: stood}}
    (move,) = decide(sight({place: committed}, lost={place: 112}, stood=commits, **more))
    (found,) = move.places
    assert (found.offset, found.exact, found.skipped) == (offset, exact, 0)


GAP = offset_map(((0, 0, 20), (40, 20, 10)), 50, [(20, 40)])
"""Of a->b: offsets 0 to 19 of a lie at 0 to 19 on b, 40 to 49 at 20 to 29; an order left out what lies between."""


@pytest.mark.parametrize(
    ("committed", "stood", "offset", "skipped"),
    [
        pytest.param(20, FlowCommit(20, 20), 20, 0, id="before what was left out"),
        pytest.param(20, FlowCommit(20, 30), 30, 0, id="in it"),
        pytest.param(20, FlowCommit(20, 40), 40, 0, id="behind it"),
        pytest.param(20, FlowCommit(25, 45, (FlowCommit(20, 33),)), 33, 0, id="the last commit is lost"),
        pytest.param(25, FlowCommit(25, 45), 45, 0, id="in what was copied since"),
        pytest.param(20, FlowCommit(19, 19), 40, 20, id="it was used"),
        pytest.param(20, None, 40, 20, id="it is new"),
        pytest.param(21, None, 41, 0, id="it is new, and was used behind it"),
        pytest.param(21, FlowCommit(19, 19), 41, 20, id="it was used behind it"),
        pytest.param(21, FlowCommit(20, 35), 41, 5, id="it stood in it"),
        pytest.param(21, FlowCommit(22, 42), 41, 0, id="it stood behind it, and was set back"),
    ],
)
@pytest.mark.parametrize("kept", [False, True])
def test_a_group_that_nobody_has_used_here_goes_on_where_it_stood_before_what_was_not_copied(
    kept, committed, stood, offset, skipped
):
    place = ORDERS if kept else COPY
    commits = {} if stood is None else {"g": {place: stood}}
    copies = Way(names={place.topic: "orders"}, maps={ORDERS: GAP})
    local = Way(names={"orders": "orders"}, maps={ORDERS: offset_map((), 30)}) if kept else Way(names={})
    (move,) = decide(sight({place: committed}, copies=copies, local=local, stood=commits, beyond={}))
    (found,) = move.places
    assert (found.offset, found.skipped, found.exact) == (offset, skipped, True)
    assert ("never copied" in found.text) == bool(skipped)


@pytest.mark.parametrize(
    ("committed", "left", "skipped"), [(15, 5, 30), (18, 5, 30), (20, 5, 40), (20, 35, 20), (20, 59, 0), (15, None, 20)]
)
def test_all_that_orders_have_left_out_since_a_group_left_is_told_as_skipped(committed, left, skipped):
    """Orders left out 10 to 19, 25 to 44 and 49 to 58. With the fault, only the last before its place counted."""
    orders = [(10, 20), (25, 45), (49, 59)]
    offsets = offset_map(((0, 0, 10), (20, 10, 5), (45, 15, 4), (59, 19, 5)), 64, orders)
    stood = {} if left is None else {"g": {COPY: FlowCommit(1, left)}}
    copies = Way(names={COPY.topic: "orders"}, maps={ORDERS: offsets})
    (move,) = decide(sight({COPY: committed}, copies=copies, local=Way(names={}), stood=stood, beyond={}))
    assert [place.skipped for place in move.places] == [skipped]


def test_of_what_an_order_left_out_records_of_the_flow_back_are_not_skipped():
    """The order left out 20 to 39; five records that were written here were brought to 20 to 24."""
    copies = Way(names={"orders": "orders"}, maps={ORDERS: offset_map(((0, 0, 20),), 40, [(20, 40)])})
    local = Way(names={"orders": "orders"}, maps={ORDERS: offset_map(((20, 20, 5),), 25)})
    (move,) = decide(sight({ORDERS: 25}, copies=copies, local=local, beyond={}))
    assert [(place.offset, place.skipped) for place in move.places] == [(40, 15)]


@pytest.mark.parametrize(
    ("committed", "stood", "offset"),
    [
        pytest.param(100, 3, 3, id="the flow began behind it"),
        pytest.param(105, 12, 12, id="retention has taken the copies before it"),
        pytest.param(110, 22, 22, id="a hole that no order made"),
        pytest.param(110, 25, 25, id="where the record lies"),
        pytest.param(110, 28, 25, id="behind its translation"),
    ],
)
def test_a_group_that_nobody_has_used_here_skips_nothing_that_the_copy_never_had_or_has_no_more(
    committed, stood, offset
):
    (move,) = decide(sight({COPY: committed}, stood={"g": {COPY: FlowCommit(committed, stood)}}))
    assert [(place.offset, place.exact, place.skipped) for place in move.places] == [(offset, True, 0)]


@pytest.mark.parametrize(
    ("aside", "parted", "offset", "skipped"),
    [
        pytest.param((), {}, 20, 0, id="neither"),
        pytest.param((Divergent(ORDERS, 45, 48),), {}, 20, 0, id="put aside behind it"),
        pytest.param((Divergent(ORDERS, 12, 20),), {}, 20, 0, id="put aside before it"),
        pytest.param((Divergent(BACK, 20, 25),), {}, 20, 0, id="put aside elsewhere"),
        pytest.param((Divergent(ORDERS, 39, 40),), {}, 40, 20, id="put aside where it would go on"),
        pytest.param((), {ORDERS: 30}, 20, 10, id="the log there parts behind it"),
        pytest.param((), {ORDERS: 15}, 15, 10, id="the log there is another one where it stood"),
    ],
)
def test_a_group_does_not_go_back_before_what_was_put_aside_or_is_not_there_any_more(aside, parted, offset, skipped):
    """Where the log there parts, the originals of the ten copies that the group has before it are lost."""
    copies = Way(names={"a.orders": "orders"}, maps={ORDERS: GAP})
    seen = sight({COPY: 20}, copies=copies, local=Way(names={}), stood={"g": {COPY: FlowCommit(20, 20)}}, beyond={})
    (move,) = decide(replace(seen, aside=aside, parted=parted))
    assert [(place.offset, place.skipped) for place in move.places] == [(offset, skipped)]


def test_a_group_in_a_topic_of_the_cluster_here_goes_back_to_where_it_stood_in_the_copy_there():
    """Retention has taken what lies before offset 6 here, and the copy there still has it."""
    (move,) = decide(sight({ORDERS: 6}, stood={"g": {ORDERS: FlowCommit(6, 2)}}))
    assert move.wanted == {BACK: Committed(2, "note")}


def test_what_both_clusters_have_lost_is_skipped_and_told():
    """The copy ends at 112, and the log there parts at 27 from what was copied of it."""
    (move,) = decide(sight({COPY: 112}, lost={COPY: 112}, parted={ORDERS: 27}))
    (place,) = move.places
    assert (place.offset, place.skipped) == (40, 3)


def test_a_group_in_a_ring_is_left_out_with_the_reason():
    (move,) = decide(sight({COPY: 105, ORDERS: 4}, ring=frozenset({COPY})))
    assert move.wanted == {BACK: Committed(4, "note")}
    (place,) = move.left_out
    assert place.text.startswith("the topic goes around a ring")


@pytest.mark.parametrize(
    ("apart", "here", "there", "commit", "offset"),
    [
        (True, {COPY: 105}, {ORDERS: 12}, None, 12),
        (True, {COPY: 105}, {ORDERS: 27}, None, 27),
        (False, {COPY: 105}, {ORDERS: 12}, None, 15),
        (True, {COPY: 105}, {}, None, 15),
        (True, {ORDERS: 9}, {BACK: 4}, FlowCommit(4, 4), 9),
        (True, {ORDERS: 9}, {BACK: 4}, FlowCommit(3, 3), 4),
    ],
)
def test_two_groups_of_one_name_stay_where_each_stands(apart, here, there, commit, offset):
    """Nothing has taken the one there to here; what the flow back has committed there is not another group's."""
    commits = {} if commit is None else {"g": dict.fromkeys(there, commit)}
    stands = Standing(offsets={"g": {place: Committed(at) for place, at in there.items()}})
    names = frozenset({"g"} if apart else ())
    (move,) = decide(sight(here, there=stands, commits=commits, apart=names))
    assert [place.offset for place in move.places] == [offset]
    left = bool(there) and offset in there.values()
    assert len(move.apart) == left
    assert move.missing == {} if left else move.missing


@pytest.mark.parametrize(
    ("committed", "commit", "offset"),
    [
        (50, None, 0),
        (50, FlowCommit(40, 12), 12),
        (50, FlowCommit(50, 12), 12),
        (50, FlowCommit(60, 12), 0),
        (85, FlowCommit(40, 12), 12),
        (95, FlowCommit(40, 2), 6),
    ],
)
def test_in_what_mirror_maker_2_copied_a_group_goes_back_no_further_than_to_where_it_came_from(
    committed, commit, offset
):
    """Unless its owner has set it back since; and to the nearest offset sync, where that is further."""
    before = Inherited(partition=ORDERS, spans=((0, 10),), end=100, points=((5, 90),))
    way = Way(names={"a.orders": "orders"}, maps={ORDERS: FORTH}, inherited={ORDERS: before})
    stood = {} if commit is None else {"g": {COPY: commit}}
    (move,) = decide(sight({COPY: committed}, copies=way, stood=stood))
    assert [(place.offset, place.exact) for place in move.places] == [(offset, False)]


def test_a_group_that_was_taken_here_and_has_no_offset_any_more_stays_there_and_is_not_called_moved():
    """One has lost an offset of two, one has nothing left, and of the third nothing is known there either."""
    there = Standing(offsets={"g": {ORDERS: Committed(12), BACK: Committed(3)}, "gone": {ORDERS: Committed(11)}})
    gone = {"g": frozenset({ORDERS}), "gone": frozenset({COPY}), "nowhere": frozenset({COPY})}
    some, none, nowhere = decide(sight({COPY: 105}, there=there, gone=gone))
    assert some.wanted == {ORDERS: Committed(15, "note")}
    assert none.wanted == nowhere.wanted == {}
    assert count((some, none, nowhere)).text == "1 of 3 groups, with 1 offsets"
    (lost,) = some.left_out
    assert (lost.partition, lost.target, lost.before, lost.exact) == (ORDERS, BACK, 3, False)
    assert [f"group {each}" for move in (some, none) for each in move.kept] == [
        f"group g at orders-0 ({GONE}; it stays at offset 3)",
        f"group gone at a.orders-0 ({GONE}; it stays at offset 11)",
    ]
    (text,) = lost_their_offsets((some, none, nowhere), "b", "a")
    assert text == f"group nowhere at a.orders-0 on b: {GONE}; on a it has no offset either"


@pytest.mark.parametrize(("oldest", "offset", "skipped"), [(0, 15, 0), (15, 15, 0), (18, 18, 2)])
def test_a_group_whose_record_is_lost_there_since_it_was_moved_is_moved_again(oldest, offset, skipped):
    """The flow that goes there has passed markers since, which alone moves nobody."""
    moved = sight(
        {COPY: 106},
        commits={"g": {ORDERS: FlowCommit(15, 106)}},
        moved=frozenset({"g"}),
        there=Standing(offsets={"g": {ORDERS: Committed(15)}}),
        oldest={ORDERS: oldest},
        settled=True,
    )
    (move,) = decide(moved)
    (place,) = move.places
    assert (place.offset, place.skipped) == (offset, skipped)
    assert bool(move.missing) == (offset != 15)


@pytest.mark.parametrize(
    ("committed", "there", "offset", "late"),
    [
        pytest.param(105, 15, 15, NO_OFFSET, id="it is where it was put"),
        pytest.param(107, 15, 15, 17, id="its consumers have gone on where it was"),
        pytest.param(103, 15, 15, 13, id="they have set it back there"),
        pytest.param(105, NO_OFFSET, NO_OFFSET, 15, id="the cluster that it went to has lost its offset"),
        pytest.param(107, 18, 18, NO_OFFSET, id="its consumers have gone on where it is now"),
    ],
)
def test_when_a_failback_has_ended_a_group_goes_on_at_what_it_has_there(committed, there, offset, late):
    """What it has where it was may be another offset than the one by which it was moved."""
    ended = sight(
        {COPY: committed},
        commits={"g": {ORDERS: FlowCommit(15, 105)}},
        moved=frozenset({"g"}),
        there=Standing(offsets={} if there == NO_OFFSET else {"g": {ORDERS: Committed(there)}}),
        settled=True,
    )
    (move,) = as_they_stand(decide(ended), ())
    (place,) = move.places
    assert (place.offset, place.late, place.exact) == (offset, late, late == NO_OFFSET)
    assert move.is_there
    assert as_they_stand(decide(ended), {"g"}) == decide(ended), "that it was not moved is told"


@pytest.mark.parametrize("more", [{"moved": frozenset({"g"})}, {"apart": frozenset({"g"})}])
def test_a_group_that_others_have_put_before_the_first_record_that_is_left_there_stays_and_is_told(more):
    commits = {"g": {ORDERS: FlowCommit(15, 105)}}
    there = Standing(offsets={"g": {ORDERS: Committed(12)}})
    (move,) = decide(sight({COPY: 105}, commits=commits, there=there, oldest={ORDERS: 14}, **more))
    (place,) = move.places
    assert (place.offset, place.skipped, place.used, move.missing) == (12, 2, True, {})
    assert place.text.endswith(", before the first record that is left, 14")
    assert (move.apart == (place,)) == ("apart" in more)
