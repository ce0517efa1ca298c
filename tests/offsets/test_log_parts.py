"""What was read of a log in several turns: nothing is fetched twice, and nothing of the flow is told otherwise."""

from __future__ import annotations

from sparkmirror.offsets.log_parts import LogPart, append, end_of_gap, from_offset, part_at, with_part
from sparkmirror.offsets.tail import TailBatch

OURS, THEIRS, NOBODYS = 7, 9, -1


def one(base: int, last: int, producer_id: int = NOBODYS, *, control: bool = False, leader_epoch: int = 1) -> TailBatch:
    epoch, sequence = (0, 5) if producer_id >= 0 and not control else (-1, -1)
    return TailBatch(base, last, producer_id, epoch, sequence, last - base + 1, control, 50 + base, leader_epoch)


def joined(*batches: TailBatch) -> list[tuple[int, int, int, bool]]:
    """Offsets, producer and whether it is a marker, of batches that come one by one."""
    found: list[TailBatch] = []
    for batch in batches:
        append(found, [batch], {OURS})
    return [(each.base_offset, each.last_offset, each.producer_id, each.control) for each in found]


def test_batches_of_others_side_by_side_are_one_and_those_of_the_flow_are_not():
    ours = (one(5, 6, OURS), one(7, 7, OURS))
    told = joined(one(0, 1), one(2, 4, THEIRS), *ours, one(8, 8, OURS, control=True), one(9, 9), one(10, 12, THEIRS))
    assert told == [
        (0, 4, NOBODYS, False),
        (5, 6, OURS, False),
        (7, 7, OURS, False),
        (8, 8, OURS, True),
        (9, 12, NOBODYS, False),
    ]


def test_batches_with_a_hole_or_an_election_between_them_are_not_one():
    assert len(joined(one(0, 1), one(3, 4), one(5, 6, leader_epoch=2))) == 3


def test_markers_of_others_stay_apart_while_they_are_the_last_ones():
    marker = one(2, 2, THEIRS, control=True)
    assert joined(one(0, 1, THEIRS), marker) == [(0, 1, THEIRS, False), (2, 2, THEIRS, True)]
    assert joined(one(0, 1, THEIRS), marker, one(3, 3)) == [(0, 3, NOBODYS, False)]


def test_all_stay_apart_where_no_producers_are_named():
    found: list[TailBatch] = []
    append(found, [one(0, 1), one(2, 3)], None)
    assert len(found) == 2


def test_what_is_one_counts_the_records_and_has_the_newest_time_and_the_leader_epoch():
    found: list[TailBatch] = []
    append(found, [one(0, 1), one(2, 3)], {OURS})
    (both,) = found
    assert (both.count, both.newest_ms, both.leader_epoch, both.sequence) == (4, 52, 1, -1)


def test_parts_are_in_order_and_a_new_one_holds_what_it_overlaps():
    parts = with_part((), LogPart(20, 30, ()))
    parts = with_part(parts, LogPart(5, 8, ()))
    assert [(part.since, part.until) for part in parts] == [(5, 8), (20, 30)]
    assert part_at(parts, 7) == parts[0]
    assert part_at(parts, 8) is None
    assert (end_of_gap(parts, 8, 100), end_of_gap(parts, 8, 15), end_of_gap(parts, 30, 100)) == (20, 15, 100)
    assert with_part(parts, LogPart(5, 30, ())) == (LogPart(5, 30, ()),)
    assert with_part(parts, LogPart(8, 20, ())) == (parts[0], LogPart(8, 20, ()), parts[1])


def test_only_a_batch_that_did_not_say_where_it_begins_is_cut():
    part = LogPart(0, 9, (one(0, 2), one(3, 5), one(6, 8, OURS)))
    assert [(each.base_offset, each.last_offset) for each in from_offset(part, 4)] == [(4, 5), (6, 8)]
    assert [each.base_offset for each in from_offset(part, 7)] == [6]
