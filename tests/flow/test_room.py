from __future__ import annotations

from dataclasses import replace

import pytest

from sparkmirror.flow.room import (
    SETTLE_SECONDS,
    Packed,
    Packing,
    Room,
    must_pack_anew,
    room_here,
    room_in_cluster,
)

QUIET = Packing(lanes=3, extras=0, packed=3, could=3, most=4, seconds=100.0, changed=100.0, patience=600.0)


@pytest.mark.parametrize(
    ("slots", "flows", "room"),
    [
        (0, 1, Room(lanes=1, most=1)),
        (1, 1, Room(lanes=1, most=1)),
        (2, 1, Room(lanes=1, most=2)),
        (4, 1, Room(lanes=3, most=4)),
        (64, 1, Room(lanes=56, most=64)),
        (64, 4, Room(lanes=14, most=16)),
        (4, 8, Room(lanes=1, most=1)),
    ],
)
def test_a_flow_gets_its_share_of_a_cluster_and_an_eighth_stays_free(slots, flows, room):
    assert room_in_cluster(slots, flows) == room


def test_here_tasks_max_counts_where_the_file_says_so_and_else_the_cores():
    assert room_here(3, cores=2, flows=4, spare=8) == Room(lanes=3, most=14)
    assert room_here(None, cores=8, flows=2, spare=8) == Room(lanes=4, most=16)
    assert room_here(None, cores=2, flows=3, spare=8).lanes == 1


@pytest.mark.parametrize(
    ("change", "packs"),
    [
        ({}, False),
        ({"could": 5, "most": 6}, True),
        ({"could": 5, "most": 6, "changed": SETTLE_SECONDS / 2}, False),
        ({"could": 5, "most": 6, "seconds": SETTLE_SECONDS / 2}, False),
        ({"could": 1, "most": 2}, True),
        ({"could": 1, "most": 2, "changed": SETTLE_SECONDS / 2}, False),
        ({"could": 2, "most": 3}, False),
        ({"lanes": 4, "extras": 1}, False),
        ({"lanes": 4, "extras": 1, "seconds": 601.0}, True),
        ({"lanes": 5, "extras": 2}, True),
        ({"lanes": 2, "extras": 1}, False),
    ],
    ids=lambda value: ",".join(value) or "nothing" if isinstance(value, dict) else None,
)
def test_partitions_are_packed_anew_when_the_room_has_changed_for_a_while_or_extra_lanes_stayed_long(change, packs):
    assert must_pack_anew(replace(QUIET, **change)) is packs


def test_the_room_is_compared_for_the_partitions_that_were_packed_and_since_it_changed():
    packed = Packed(at=100.0, lanes=3, partitions=5)
    small, large = Room(lanes=3, most=4), Room(lanes=8, most=9)
    first = packed.compare(small, None, lanes=3, extras=0, patience=600.0, now=101.0)
    assert (first.could, first.packed, first.seconds, first.changed) == (3, 3, 1.0, 0.0)
    grown = packed.compare(large, None, lanes=4, extras=1, patience=600.0, now=110.0)
    assert (grown.could, grown.lanes, grown.extras, grown.changed) == (5, 4, 1, 0.0)
    assert packed.compare(large, None, lanes=4, extras=1, patience=600.0, now=117.0).changed == 7.0
    assert packed.compare(large, 4, lanes=4, extras=1, patience=600.0, now=118.0).could == 4
