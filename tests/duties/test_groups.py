"""Where a group stands, and why: each reason from one look, on plain data."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from sparkmirror.config import GroupSettings
from sparkmirror.duties.flow_back import Back
from sparkmirror.duties.groups import (
    GroupPlace,
    Known,
    Observed,
    Standing,
    explain_group,
    remembered,
    translations,
    unread,
    untold,
)
from sparkmirror.kafka.groups import Committed, GroupKind, GroupListing
from sparkmirror.model import NO_OFFSET, TopicPartition
from sparkmirror.offsets.group_records import FlowCommit
from sparkmirror.offsets.interleaved import FlowBack
from sparkmirror.offsets.left_offsets import Left
from sparkmirror.offsets.map import OffsetMap
from sparkmirror.offsets.translation import Place
from tests.duties.groups import FLOW, HERE, MAP, READERS, THERE, at, straight, with_commit, with_target
from tests.offsets.segments import offset_map

PLACE = GroupPlace("readers", HERE)

EMPTY = OffsetMap((), 90)
"""Nothing was mirrored, and the source looked through up to 90."""


def listed(**attributes: object) -> Observed:
    listing = replace(GroupListing(name="readers"), **attributes)  # type: ignore[arg-type]  # what a case names
    return replace(READERS, source={"readers": listing})


SHARE_THERE = replace(READERS, target={"readers": GroupListing(name="readers", kind=GroupKind.SHARE, state="Empty")})


@pytest.mark.parametrize(
    ("observed", "standing"),
    [
        (replace(READERS, source={}), Standing.UNKNOWN),
        (replace(READERS, flow=replace(FLOW, groups=GroupSettings(exclude=("read.*",)))), Standing.FILTERED),
        (replace(READERS, flow=replace(FLOW, groups=GroupSettings(include=("read",)))), Standing.FILTERED),
        (listed(kind=GroupKind.SHARE, protocol="share"), Standing.SHARE),
        (listed(kind=GroupKind.STREAMS, protocol="streams"), Standing.STREAMS),
        (listed(protocol="connect"), Standing.NO_CONSUMERS),
        (replace(READERS, offsets={}, unreadable={"readers": "no"}), Standing.UNREADABLE),
        (replace(READERS, offsets={"readers": {}}), Standing.NO_OFFSETS),
        (replace(READERS, renamed={}), Standing.NOT_COPIED),
        (replace(READERS, maps={}), Standing.NOTHING_MIRRORED),
        (replace(READERS, maps={HERE: straight(100, 10, 0)}), Standing.AHEAD),
        (replace(READERS, maps={HERE: straight(100, 50, NO_OFFSET)}), Standing.UNSETTLED),
        (replace(at(90), maps={HERE: EMPTY}, empty={HERE: 3}), Standing.TRANSLATED),
        (replace(with_target(3, observed=at(90)), maps={HERE: EMPTY}, empty={HERE: 3}), Standing.LEVEL),
        (replace(at(91), maps={HERE: EMPTY}, empty={HERE: 3}), Standing.AHEAD),
        (replace(at(90), maps={HERE: EMPTY}), Standing.NOTHING_MIRRORED),
        (replace(at(120), empty={HERE: 3}), Standing.TRANSLATED),
        (at(151), Standing.AHEAD),
        (at(150), Standing.TRANSLATED),
        (READERS, Standing.TRANSLATED),
        (listed(protocol="", kind=GroupKind.UNTOLD), Standing.TRANSLATED),
        (listed(kind=GroupKind.CONSUMER), Standing.TRANSLATED),
        (with_target(None), Standing.TRANSLATED),
        (with_target(29), Standing.TRANSLATED),
        (with_target(29, ""), Standing.TRANSLATED),
        (with_target(30), Standing.LEVEL),
        (with_target(31), Standing.FURTHER_THERE),
        (with_commit(32, 122, with_target(31)), Standing.FURTHER_THERE),
        (with_commit(31, 120, with_target(31)), Standing.GOES_BACK),
        (with_commit(31, 121, with_target(31)), Standing.GOES_BACK),
        (with_commit(31, 121, with_target(31, "Stable")), Standing.ACTIVE_THERE),
        (with_target(29, "Stable"), Standing.ACTIVE_THERE),
        (with_target(29, "Reconciling"), Standing.ACTIVE_THERE),
        (with_target(29, "Dead"), Standing.TRANSLATED),
        (SHARE_THERE, Standing.OTHER_KIND_THERE),
        (replace(with_target(None), unreadable_there={"readers": "no"}), Standing.UNREADABLE_THERE),
    ],
)
def test_each_reason_is_told(observed: Observed, standing: Standing) -> None:
    (line,) = explain_group(observed, "readers")
    assert line.standing is standing
    assert (line.translated != NO_OFFSET) is standing.has_offset
    assert line.text.startswith(standing.value)


def test_a_line_says_all_three_offsets() -> None:
    (line,) = explain_group(with_target(29), "readers")
    assert (line.partition, line.target) == (HERE, THERE)
    assert (line.committed, line.translated, line.there) == (120, 30, 29)
    assert line.text == "translated; the target has an older offset, or none (the record itself)"


def test_an_offset_that_is_too_far_is_told_with_how_much_and_what_to_do() -> None:
    (line,) = explain_group(with_target(39), "readers")
    assert line.text == (
        "on the target it is further, by a commit that is not the flow's, and is left there: sparkmirror offsets "
        "--apply puts it at its translation (9 further; the record itself)"
    )
    (own,) = explain_group(with_commit(39, 120, with_target(39)), "readers")
    assert "goes back at the next round (9 further; the record itself)" in own.text


def test_what_a_cluster_says_is_told() -> None:
    (line,) = explain_group(
        replace(READERS, offsets={}, unreadable={"readers": "GROUP_AUTHORIZATION_FAILED"}), "readers"
    )
    assert line.text == "its offsets cannot be read (GROUP_AUTHORIZATION_FAILED)"


def test_each_partition_has_a_line_and_a_partition_that_is_not_copied_stops_no_other() -> None:
    other = TopicPartition("alien", 1)
    observed = replace(READERS, offsets={"readers": {HERE: Committed(120), other: Committed(3)}})
    lines = explain_group(observed, "readers")
    assert [(line.partition, line.standing) for line in lines] == [
        (other, Standing.NOT_COPIED),
        (HERE, Standing.TRANSLATED),
    ]
    assert [known.place.partition for known in translations(observed)] == [HERE]


def test_a_group_that_is_always_ahead_is_translated_a_round_late() -> None:
    first = at(151)
    assert remembered(first) == {PLACE: Committed(151, "mine")}
    # It runs further ahead while the mirror has not come to where it was: that is still waited for.
    second = replace(at(200), earlier=remembered(first))
    assert list(translations(second)) == []
    assert remembered(second) == {PLACE: Committed(151, "mine")}
    third = replace(at(300), earlier=remembered(second), maps={HERE: straight(100, 60, 10)})
    assert list(translations(third)) == [
        Known(
            place=PLACE,
            target=GroupPlace("readers", THERE),
            committed=Committed(151, "mine"),
            offset=61,
            lies=Place.RECORD,
        )
    ]
    assert remembered(third) == {PLACE: Committed(300, "mine")}


def test_a_group_that_went_back_is_not_translated_to_where_it_was_before() -> None:
    waiting = replace(at(160), earlier={PLACE: Committed(170)})
    assert remembered(waiting) == {PLACE: Committed(160, "mine")}
    assert list(translations(replace(waiting, maps={HERE: MAP}))) == []
    back = replace(at(110), earlier={PLACE: Committed(170)}, maps={HERE: straight(100, 100, 10)})
    assert [known.offset for known in translations(back)] == [20]
    assert remembered(back) == {}


def shared(observed: Observed = READERS, **back: Any) -> Observed:
    """Source 100 to 149 lies at 10 to 59; the flow back has put target 60 to 69 at 150 to 159."""
    copies = {HERE: FlowBack(offsets=offset_map([(60, 150, 10)], 70))}
    maps = {HERE: straight(100, 50, 10, behind=10)}
    return replace(observed, maps=maps, back=Back(**{"copies": copies} | back))


@pytest.mark.parametrize(
    ("committed", "offset", "lies"),
    [(120, 30, Place.RECORD), (150, 60, Place.RECORD), (155, 65, Place.RECORD), (160, 70, Place.END)],
)
def test_where_two_flows_write_to_one_topic_the_next_record_may_be_of_either(committed, offset, lies):
    (known,) = translations(shared(at(committed)))
    assert (known.offset, known.lies) == (offset, lies)


@pytest.mark.parametrize("maps", [{HERE: straight(100, 50, 10, behind=10)}, {HERE: EMPTY}])
def test_a_group_waits_where_copies_may_lie_before_the_position_of_the_flow_back_that_are_not_on_the_map(maps):
    level = replace(shared(at(150 if maps[HERE] is not EMPTY else 80)), maps=maps)
    level = replace(level, back=Back(copies={HERE: FlowBack(offsets=OffsetMap((), 90))}))
    assert [known.offset for known in translations(level)] == [90]
    unsure = replace(level, under_way=frozenset((HERE,)))
    assert list(translations(unsure)) == []
    (line,) = explain_group(unsure, "readers")
    assert line.standing is Standing.UNDER_WAY
    (known,) = translations(replace(unsure, offsets=at(120).offsets, maps={HERE: MAP}))
    assert known.offset == 30, "its next record is on the map"


def test_a_group_that_the_flow_back_has_placed_is_not_translated_until_it_is_used():
    placed = shared(at(120), commits={"readers": {HERE: FlowCommit(120, 7)}})
    assert list(translations(placed)) == []
    (line,) = explain_group(placed, "readers")
    assert line.standing is Standing.PLACED
    used = replace(placed, offsets=at(121).offsets)
    assert [known.offset for known in translations(used)] == [31]


def test_a_group_that_an_operation_has_moved_to_the_source_is_translated_also_where_it_was_put():
    """Its owner may have set it back to that very offset; it leads no further than where it stood on the target."""
    placed = shared(at(120), commits={"readers": {HERE: FlowCommit(120, 7)}})
    (known,) = translations(replace(placed, here=frozenset({"readers"})))
    assert known.offset == 7
    assert list(translations(replace(placed, here=frozenset({"others"})))) == []


@pytest.mark.parametrize(("committed", "offset"), [(165, 85), (170, 90)])
def test_a_flow_back_that_stands_still_sets_no_group_back_that_an_operation_has_taken_to_the_target(committed, offset):
    """It stands before an aborted transaction, target 70 to 79: the operation knew that nobody reads that."""
    maps = {HERE: offset_map([(100, 10, 50), (160, 80, 10)], 170)}
    moved = replace(shared(at(committed)), maps=maps)
    assert [known.offset for known in translations(moved)] == [70]
    left = Left(offsets={"readers": {HERE: committed}})
    assert [known.offset for known in translations(replace(moved, left=left))] == [offset]


def test_while_a_failback_places_groups_they_are_left_where_they_are():
    moving = shared(at(120), placing=True)
    assert list(translations(moving)) == []
    (line,) = explain_group(moving, "readers")
    assert line.standing is Standing.PLACING


def test_where_the_record_of_the_flow_back_cannot_be_read_no_group_is_translated_and_it_is_told():
    blind = shared(at(120), copies={}, unreadable="TOPIC_AUTHORIZATION_FAILED")
    assert list(translations(blind)) == []
    (line,) = explain_group(blind, "readers")
    assert line.standing is Standing.BACK_UNREADABLE
    (told,) = unread(untold(blind), FLOW)
    assert told.failure.startswith(
        "no group offset is translated: the record of B->A, which may write to the same topics"
    )
    assert told.failure.endswith("TOPIC_AUTHORIZATION_FAILED")
    assert unread(untold(READERS), FLOW) == []


def test_groups_wait_where_nobody_knows_whether_copies_of_the_flow_back_are_lost():
    doubtful = replace(shared(at(120)), back=replace(shared(at(120)).back, unchecked=frozenset({HERE})))
    assert list(translations(doubtful)) == []
    (line,) = explain_group(doubtful, "readers")
    assert line.standing is Standing.UNCHECKED

    assert unread(untold(READERS), FLOW) == []


def test_an_offset_that_the_flow_back_may_have_just_put_there_is_nobodys_for_a_round():
    meanwhile = replace(READERS, back=Back(changing=frozenset({("readers", HERE.topic)})))
    (line,) = (one for one in explain_group(meanwhile, "readers") if one.partition == HERE)
    assert line.standing is Standing.CHANGING
    other = replace(READERS, back=Back(changing=frozenset({("other", HERE.topic), ("readers", "payments")})))
    assert list(translations(other)) == list(translations(READERS))


def test_in_a_ring_nothing_is_translated_and_each_round_says_so():
    ring = replace(READERS, back=Back(ring=frozenset({HERE})))
    assert list(translations(ring)) == []
    (line,) = explain_group(ring, "readers")
    assert line.standing is Standing.RING
    (told,) = unread(untold(ring), FLOW)
    assert told.failure.startswith(
        "offsets of 1 groups are not translated in topic orders: the topic goes around a ring"
    )
    elsewhere = replace(READERS, back=Back(ring=frozenset({TopicPartition("payments", 0)})))
    assert unread(untold(elsewhere), FLOW) == []
    assert len(list(translations(elsewhere))) == 1
