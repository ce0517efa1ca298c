"""What orders left out is told as skipped; what markers and compaction leave is not."""

from __future__ import annotations

import pytest

from sparkmirror.model import NO_OFFSET, TopicPartition, Writer
from sparkmirror.offsets.group_records import UpstreamOffset
from sparkmirror.offsets.interleaved import FlowBack, left_out, upstream_of
from sparkmirror.offsets.map import OffsetMap
from sparkmirror.offsets.ordered_out import Reset, Span, ordered_out
from sparkmirror.offsets.records import Progress, Record
from sparkmirror.offsets.segments import Moved, Ordered, Parted
from sparkmirror.offsets.state import JournalState, state_of
from sparkmirror.offsets.track import FAR
from sparkmirror.offsets.translation import translate
from tests.offsets.segments import Segment, end, offset_map, records_of

PLACE = TopicPartition("orders", 1)


def by_order(stood: int, source: int, parted: int = FAR) -> Reset:
    return Reset(stood, source, parted)


def by_loss(parted: int) -> Reset:
    return Reset(NO_OFFSET, NO_OFFSET, parted)


@pytest.mark.parametrize(
    ("resets", "spans"),
    [
        ([], ()),
        ([by_order(20, 30)], (Span(20, 30),)),
        ([by_order(20, 30), by_order(30, 40)], (Span(20, 40),)),
        ([by_order(20, 30), by_order(35, 40)], (Span(20, 30), Span(35, 40))),
        ([by_order(20, 30), by_order(35, 20)], ()),
        ([by_order(20, 30), by_order(35, 25)], (Span(20, 25),)),
        ([by_order(20, 30), by_order(35, 20), by_order(24, 35)], (Span(24, 30),)),
        ([by_order(100, 0), by_order(31, 100)], ()),
        ([by_order(100, 0), by_order(31, 110)], (Span(100, 110),)),
        ([by_order(20, 30), by_loss(0)], ()),
        ([by_order(20, 30), by_loss(25)], (Span(20, 25),)),
        ([by_order(20, 30), by_loss(33)], (Span(20, 30),)),
        ([by_order(20, 30, parted=18)], (Span(18, 30),)),
    ],
)
def test_what_no_epoch_copied_is_what_orders_left_out(resets: list[Reset], spans: tuple[Span, ...]):
    assert ordered_out(resets) == spans


def writer(epoch: int) -> Writer:
    return Writer(producer_id=7, epoch=epoch)


def epoch(number: int, source: int, target: int, records: int, *, anew: bool = True) -> list[Record]:
    opening = Segment(partition=PLACE, writer=writer(number), sequence=0, source=source, target=target, anew=anew)
    return [*records_of([opening]), end(PLACE, writer(number), records)]


def known(*others: Record, position: int = 35) -> OffsetMap:
    """Source offsets 0 to 17 and 30 to 34 are copied; at 18 and 19 are markers, at which the copy stood."""
    now = Progress(
        partition=PLACE, writer=writer(2), generation=2, position=position, next_sequence=5, sequence=4, source=34,
        target=24,
    )  # fmt: skip
    records = [*epoch(1, 0, 0, 18, anew=False), *epoch(2, 30, 20, 5)]
    state: JournalState = state_of([*records, *others, now])
    return state.map_of(PLACE).offsets(now, (7,))


ORDER = (
    Moved(partition=PLACE, writer=writer(2), source=30),
    Ordered(partition=PLACE, writer=writer(2), stood=20, source=30),
)


@pytest.mark.parametrize(
    ("committed", "skipped"), [(5, 0), (18, 10), (19, 10), (20, 10), (22, 8), (29, 1), (30, 0), (32, 0), (35, 0)]
)
def test_a_group_within_what_an_order_left_out_skips_what_is_left_of_it(committed: int, skipped: int):
    offsets = known(*ORDER)
    assert left_out(offsets, committed, translate(offsets, committed), None) == skipped


@pytest.mark.parametrize("committed", [18, 20, 22, 29])
def test_a_hole_that_no_order_made_is_not_told_as_skipped(committed: int):
    offsets = known(Parted(partition=PLACE, writer=writer(2), source=30))
    assert left_out(offsets, committed, translate(offsets, committed), None) == 0


def test_a_group_at_the_end_skips_what_the_last_order_left_out():
    order = Ordered(partition=PLACE, writer=writer(3), stood=35, source=50)
    offsets = known(*ORDER, order, position=50)
    assert left_out(offsets, 40, translate(offsets, 40), None) == 10
    assert left_out(offsets.going_on_at(60), 40, translate(offsets.going_on_at(60), 40), None) == 10


def test_a_map_that_is_cut_knows_what_was_left_out_before():
    offsets = known(*ORDER).below(33)
    assert left_out(offsets, 22, translate(offsets, 22), None) == 8


def test_copies_of_the_flow_back_are_on_the_other_cluster_and_not_skipped():
    offsets, back = known(*ORDER), FlowBack(offsets=offset_map([(100, 24, 3)], 103))
    plain = translate(offsets, 22)
    upstream = upstream_of(back, 22, offsets, plain)
    assert upstream.left_out == left_out(offsets, 22, plain, upstream) == 5


def test_what_was_put_on_record_with_the_group_counts():
    offsets = known(*ORDER)
    upstream = UpstreamOffset(100, "RECORD", left_out=3)
    assert left_out(offsets, 22, translate(offsets, 22), upstream) == 3


def test_an_order_that_is_forgotten_leaves_nothing_out():
    state = state_of([*ORDER])
    state.forget(ORDER[1].key)
    assert state.map_of(PLACE).stood_at(writer(2)) is None
