"""Committed offsets in a log that two flows share, against plain lists of what lies in the two logs."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sparkmirror.model import NO_OFFSET, TopicPartition, Writer
from sparkmirror.offsets.group_records import UpstreamOffset
from sparkmirror.offsets.holes import pack
from sparkmirror.offsets.interleaved import FlowBack, left_out, meet, meet_at_the_end, upstream_of
from sparkmirror.offsets.map import OffsetMap
from sparkmirror.offsets.parts import Part
from sparkmirror.offsets.pieces import Pieces
from sparkmirror.offsets.segments import Segments, Targets
from sparkmirror.offsets.translation import NotYet, Place, Reason, Translated, Translation, translate
from tests.offsets.segments import offset_map

NOTHING = NotYet(Reason.NOTHING_MIRRORED)


def ask(offsets: OffsetMap, committed: int, back: FlowBack, found: Translation | None = None) -> Translation:
    found = translate(offsets, committed) if found is None else found
    return meet(found, upstream_of(back, committed, offsets, found), offsets, committed)


@dataclass
class Cluster:
    """One log: the name of the record at each offset, None for a marker; and where the flow from here has come to."""

    log: list[str | None] = field(default_factory=list)
    gone: set[str] = field(default_factory=set)
    position: int = 0
    copied: list[tuple[int, int, int]] = field(default_factory=list)
    reached: int = NO_OFFSET

    def at(self, name: str) -> int | None:
        """Where a record lies that readers still see."""
        return None if name in self.gone or name not in self.log else self.log.index(name)

    @property
    def map(self) -> OffsetMap:
        """Of the flow from here."""
        return offset_map(self.copied, self.position)


@dataclass
class World:
    """Records of a are named a0, a1 and so on; those of b likewise."""

    a: Cluster = field(default_factory=Cluster)
    b: Cluster = field(default_factory=Cluster)
    born: int = 0

    def do(self, event: str) -> None:
        """Something happens at one of the clusters."""
        what, where = event[0], event[1]
        here, there = (self.a, self.b) if where == "a" else (self.b, self.a)
        if what == "w":
            here.log.append(f"{where}{self.born}")
            self.born += 1
        elif what == "m":
            here.log.append(None)
        elif what == "g":
            here.gone |= {name for name in here.log[-3:-2] if name is not None}
        elif what == "c" and here.position < len(here.log):
            name = here.log[here.position]
            if name is not None and name[0] == where and name not in here.gone:
                here.copied.append((here.position, len(there.log), 1))
                there.log.append(name)
                here.reached = len(there.log)
            here.position += 1

    def settle(self) -> None:
        """Both flows copy all that there is."""
        while self.a.position < len(self.a.log) or self.b.position < len(self.b.log):
            self.do("ca")
            self.do("cb")

    @property
    def back(self) -> FlowBack:
        """What the flow from b has put into the log of a."""
        return FlowBack(offsets=self.b.map, reached=self.b.reached, ended=self.b.position == len(self.b.log))

    def check(self, committed: int, result: Translation, *, ended: bool = False) -> None:
        """Nothing at or behind the offset is skipped; where that is said nothing before it is read again."""
        if isinstance(result, NotYet):
            return
        unread = {name for name in self.a.log[committed:] if name is not None and name not in self.a.gone}
        if not ended:
            unread |= {name for name in self.b.log if name is not None and name not in self.a.log}
        missed = {name for name in unread if (lies := self.b.at(name)) is not None and lies < result.offset}
        assert not missed
        if result.place.exact:
            read = {name for name in self.a.log[:committed] if name is not None}
            again = {name for name in read if (lies := self.b.at(name)) is not None and lies >= result.offset}
            assert not again


EVENTS = st.lists(
    st.sampled_from(["wa", "wa", "wb", "wb", "ma", "mb", "ga", "gb", "ca", "ca", "ca", "cb", "cb", "cb"]), max_size=60
)


@settings(deadline=None, max_examples=500)
@given(EVENTS, st.data())
def test_no_record_is_skipped_and_what_is_told_as_exact_reads_none_again(events, data):
    world = World()
    for event in events:
        world.do(event)
    committed = data.draw(st.integers(0, len(world.a.log)))
    world.check(committed, ask(world.a.map, committed, world.back))


@settings(deadline=None, max_examples=300)
@given(EVENTS, EVENTS, st.data())
def test_what_was_put_on_record_holds_with_the_map_of_later(before, after, data):
    world = World()
    for event in before:
        world.do(event)
    committed = data.draw(st.integers(0, len(world.a.log)))
    upstream = upstream_of(world.back, committed, world.a.map, translate(world.a.map, committed))
    for event in after:
        world.do(event)
    result = meet(translate(world.a.map, committed), upstream, world.a.map, committed)
    world.check(committed, result if isinstance(result, NotYet) else Translated(result.offset, Place.INTERLEAVED))


@settings(deadline=None, max_examples=500)
@given(EVENTS, EVENTS, st.data())
def test_a_map_that_is_older_than_the_position_of_the_flow_back_leads_over_no_copy_that_is_not_on_it(
    before, after, data
):
    """A lane puts on record once a second what it has written, or never, and the flow back goes over it at once."""
    world = World()
    for event in before:
        world.do(event)
    older = world.a.map
    for event in after:
        world.do(event)
    committed = data.draw(st.integers(0, len(world.a.log)))
    found = translate(older, committed)
    upstream = upstream_of(world.back, committed, older, found)
    result = meet(found, upstream, older, committed, settled=False)
    world.check(committed, result if isinstance(result, NotYet) else Translated(result.offset, Place.INTERLEAVED))


@settings(deadline=None, max_examples=300)
@given(EVENTS, st.data())
def test_where_records_have_one_order_on_both_clusters_each_group_goes_on_at_its_very_next_record(events, data):
    world = World()
    for event in events:
        if event[0] in "wm":
            world.do(event)
            world.settle()
    committed = data.draw(st.integers(0, len(world.a.log)))
    result = ask(world.a.map, committed, world.back)
    if world.a.copied or world.b.copied:
        assert isinstance(result, Translated)
        assert [name for name in world.b.log[result.offset :] if name] == [
            name for name in world.a.log[committed:] if name
        ]
        assert result.place.exact


@settings(deadline=None, max_examples=300)
@given(EVENTS, st.data())
def test_at_the_end_of_a_flow_that_has_ended_what_the_other_cluster_has_alone_is_left_behind(events, data):
    world = World()
    for event in events:
        world.do(event)
    while world.a.position < len(world.a.log):
        world.do("ca")
    committed = data.draw(st.integers(0, len(world.a.log)))
    back = FlowBack(offsets=world.b.map, ended=True)
    found = translate(world.a.map, committed)
    result = meet_at_the_end(found, back, world.a.map, committed)
    world.check(committed, result, ended=True)


def test_a_group_among_records_of_the_other_cluster_is_not_put_behind_them():
    """On a: 0 to 49 born there, then 30 of b, then 50 of a again; the same order on b."""
    here = offset_map([(0, 0, 50), (80, 80, 50)], 130)
    back = FlowBack(offsets=offset_map([(50, 50, 30)], 130))
    assert translate(here, 60) == Translated(80, Place.NEXT)
    assert ask(here, 60, back) == Translated(60, Place.RECORD)


def test_at_a_marker_the_next_record_of_either_cluster_counts():
    """On a: 0 to 8, a marker, b's at 10 to 19, a's at 20 to 28, a marker. On b they lie at 0, 10 and 21."""
    here = offset_map([(0, 0, 9), (20, 21, 9)], 30)
    back = FlowBack(offsets=offset_map([(10, 10, 10)], 30))
    assert ask(here, 9, back) == Translated(10, Place.NEXT)
    assert ask(here, 20, back) == Translated(21, Place.RECORD)


def test_in_another_order_the_group_reads_some_records_again_and_is_told_so():
    """On a: a's 0 to 9, then b's 10 to 19. On b: b's first, then a's."""
    here = offset_map([(0, 10, 10)], 20)
    back = FlowBack(offsets=offset_map([(0, 10, 10)], 20))
    assert ask(here, 5, back) == Translated(0, Place.INTERLEAVED)
    assert ask(here, 15, back) == Translated(5, Place.INTERLEAVED)
    assert ask(here, 20, back) == Translated(20, Place.END)


@pytest.mark.parametrize(
    ("position", "committed", "result"),
    [
        pytest.param(30, 20, Translated(30, Place.END), id="the flow back has seen all"),
        pytest.param(
            10, 20, Translated(30, Place.END), id="it was stopped, and only copies lie behind where it stands"
        ),
        pytest.param(10, 12, Translated(22, Place.RECORD), id="likewise"),
        pytest.param(5, 12, Translated(5, Place.INTERLEAVED), id="records of b are still to come"),
    ],
)
def test_no_record_that_the_flow_back_has_not_brought_yet_is_skipped(position, committed, result):
    """On a: 0 to 19, born there, which lie at 10 to 29 on b; the flow back has put nothing there yet."""
    here = offset_map([(0, 10, 20)], 20)
    assert ask(here, committed, FlowBack(offsets=offset_map([], position))) == result


def test_where_the_map_of_the_flow_back_tells_nothing_the_reason_is_given():
    here = offset_map([(0, 10, 20)], 20)
    unsettled = FlowBack(offsets=offset_map([(0, NO_OFFSET, 5)], 5))
    assert ask(here, 3, unsettled) == NotYet(Reason.UNSETTLED)
    never_begun = FlowBack(offsets=offset_map([], NO_OFFSET))
    assert ask(here, 3, never_begun) == Translated(13, Place.RECORD)
    assert meet(Translated(13, Place.RECORD), None, here, 3) == Translated(13, Place.RECORD)
    lost = UpstreamOffset(NO_OFFSET, "BACK_UNREADABLE", exact=False)
    assert meet(Translated(13, Place.RECORD), lost, here, 3) == NotYet(Reason.BACK_UNREADABLE)


def test_a_flow_that_has_not_come_so_far_waits_whatever_the_other_one_knows():
    here = offset_map([(0, 0, 5)], 5)
    back = FlowBack(offsets=offset_map([(5, 5, 5)], 10))
    assert ask(here, 7, back) == NotYet(Reason.AHEAD)
    assert ask(offset_map([], 7), 7, back) == Translated(7, Place.RECORD)
    for position in (NO_OFFSET, 0, 6):  # it has not passed what lies before: others' records may be among it
        assert ask(offset_map([], position), 7, back) == NotYet(Reason.AHEAD)


@pytest.mark.parametrize(("committed", "alone", "with_back"), [(10, 40, 0), (35, 15, 15), (60, 0, 0)])
def test_what_was_never_copied_is_told_unless_records_of_the_other_cluster_lie_among_it(committed, alone, with_back):
    """On a: 0 to 49 were never copied but for b's at 20 to 29."""
    here = offset_map([(50, 60, 50)], 100)
    back = FlowBack(offsets=offset_map([(0, 20, 10)], 110))
    found = translate(here, committed)
    assert left_out(here, committed, found, None) == alone
    assert left_out(here, committed, found, upstream_of(back, committed, here, found)) == with_back


def test_at_the_end_the_furthest_place_counts():
    """What was put aside on b ends at 40; b's own came to a before that, and nothing later."""
    here = offset_map([(10, 20, 5)], 60)
    back = FlowBack(offsets=offset_map([(0, 0, 10), (30, 15, 5)], 35), ended=True)
    found = translate(here, 60)
    assert found == Translated(25, Place.END)
    assert meet_at_the_end(found, back, here, 60, beyond=40) == Translated(40, Place.END)
    assert meet_at_the_end(NOTHING, back, None, 60, beyond=40) == Translated(40, Place.END)


@pytest.mark.parametrize(
    ("committed", "result"),
    [
        pytest.param(5, Translated(5, Place.RECORD), id="it has not come so far"),
        pytest.param(7, Translated(7, Place.RECORD), id="the next record is the first that is lost"),
        pytest.param(9, Translated(7, Place.INTERLEAVED), id="it may have read what is there now, or what was lost"),
        pytest.param(12, Translated(7, Place.INTERLEAVED), id="likewise"),
    ],
)
def test_what_was_lost_here_is_read_where_it_came_from(committed, result):
    """The flow back had put 0 to 9 there; the log has lost what lay from 7 on. Five others came: at 11 to 15 there."""
    here, back = offset_map([(7, 11, 5)], 12), FlowBack(offsets=offset_map([(0, 0, 10)], 10), lost=7)
    assert ask(here, committed, back) == result
    ended = FlowBack(offsets=back.offsets, lost=7, ended=True)
    assert meet_at_the_end(translate(here, committed), ended, here, committed) == result


def test_where_nothing_of_the_flow_back_is_lost_its_end_is_the_end():
    """The log has lost others' records only."""
    back = FlowBack(offsets=offset_map([(0, 0, 10)], 10), lost=10, ended=True)
    assert meet_at_the_end(NOTHING, back, None, 12) == Translated(10, Place.END)


def test_where_the_map_is_thinned_a_place_before_it_is_not_told_as_exact():
    """Of the records before the committed offset one at least lies behind that place, whichever it is."""
    place, writer = TopicPartition("t", 0), Writer(producer_id=7, epoch=0)
    pieces = Pieces()
    pieces.take(
        Segments(partition=place, writer=writer, sequence=0, source=0, holes=pack([0, 10], [0, 20], thinned=True))
    )
    pieces.take(Targets(partition=place, writer=writer, sequence=0, target=100))
    offsets = OffsetMap([Part(pieces, 0, 20, known=True, writer=writer)], 30)
    upstream = UpstreamOffset(99, Place.NEXT.name, exact=True, left_out=0)
    found = translate(offsets, 8)
    assert found == Translated(100, Place.THINNED)
    assert meet(found, upstream, offsets, 8) == Translated(99, Place.INTERLEAVED)
