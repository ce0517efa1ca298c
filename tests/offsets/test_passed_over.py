"""Orders to go back that were corrected: what older epochs copied is found by groups, not what was copied once more."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sparkmirror.model import NO_OFFSET, NO_RECORD, UNKNOWN_RECORD, WENT_ON, Began, TopicPartition, Writer
from sparkmirror.offsets import bounds
from sparkmirror.offsets.bounds import Starts, bound
from sparkmirror.offsets.records import Progress, Record
from sparkmirror.offsets.segments import Moved, MovedKey
from sparkmirror.offsets.state import JournalState, state_of
from sparkmirror.offsets.translation import Place, Translated, translate
from tests.offsets.segments import Segment, end, records_of

PLACE = TopicPartition("orders", 1)


def writer(epoch: int) -> Writer:
    return Writer(producer_id=7, epoch=epoch)


def copied(epoch: int, source: int, stop: int, target: int, *, anew: bool = True) -> list[Record]:
    """An epoch that has copied from one source offset to before another; to none where both are the same."""
    place = target if stop > source else NO_OFFSET
    opening = Segment(partition=PLACE, writer=writer(epoch), sequence=0, source=source, target=place, anew=anew)
    ends = [end(PLACE, writer(epoch), stop - source)] if stop > source else []
    return [*records_of([opening]), *ends]


def moved(epoch: int, source: int = NO_OFFSET) -> Moved:
    return Moved(partition=PLACE, writer=writer(epoch), source=source)


def known(*parts: Record | list[Record], epoch: int, position: int, last: int = NO_OFFSET) -> JournalState:
    """With the progress of the newest epoch, whose last record has that target offset."""
    now = Progress(
        partition=PLACE,
        writer=writer(epoch),
        generation=epoch,
        position=position,
        next_sequence=0 if last == NO_OFFSET else 5,
        sequence=NO_OFFSET if last == NO_OFFSET else 4,
        source=NO_OFFSET if last == NO_OFFSET else position - 1,
        target=last,
    )
    records = [each for part in parts for each in (part if isinstance(part, list) else [part])]
    return state_of([*records, now])


def lies(state: JournalState, source: int) -> int | None:
    return state.map_of(PLACE).offsets(state.progress[PLACE], (7,)).source_to_target(source)


FIRST = copied(1, 0, 100, 0, anew=False)


@pytest.mark.parametrize(
    ("again", "before"),
    [
        ([*copied(2, 0, 0, 0), moved(2)], 100),
        ([*copied(2, 0, 31, 100), moved(2)], 131),
        ([*copied(2, 0, 10, 100), moved(2), *copied(3, 10, 31, 111, anew=False)], 132),
        ([*copied(2, 0, 0, 0), moved(2), *copied(3, 0, 31, 101)], 132),
        ([*copied(2, 50, 60, 100), moved(2), *copied(3, 0, 0, 0), moved(3)], 110),
    ],
)
def test_a_group_between_an_order_back_and_its_correction_stands_at_the_first_copy(again, before):
    state = known(FIRST, again, copied(5, 100, 105, before), moved(5), epoch=5, position=105, last=before + 4)
    assert [lies(state, source) for source in (0, 31, 50, 99)] == [0, 31, 50, 99]
    assert lies(state, 100) == before


def test_an_order_back_that_ended_in_order_is_unfinished_before_its_end_is_on_record():
    """A flow that was stopped in the midst of copying again: the next order comes with its progress alone."""
    again = Segment(partition=PLACE, writer=writer(2), sequence=0, source=0, target=100, anew=True)
    state = known(FIRST, *records_of([again]), moved(2, 0), epoch=2, position=31, last=130)
    assert state.map_of(PLACE).going_back((7,), state.last(PLACE)) == {writer(2)}
    assert state.map_of(PLACE).going_back((7,)) == frozenset(), "it may go on"


def test_what_was_copied_again_up_to_its_end_counts():
    again = [*copied(2, 0, 120, 100), moved(2)]
    state = known(FIRST, again, copied(5, 150, 155, 220), moved(5), epoch=5, position=155, last=224)
    assert [lies(state, source) for source in (0, 50, 119, 120)] == [100, 150, 219, 220]


def test_another_log_is_not_that_of_the_older_epochs():
    """No order, but a source that was created again, or had lost its end: what was copied before is other records."""
    state = known(FIRST, copied(2, 0, 31, 100), copied(5, 100, 105, 131), moved(5), epoch=5, position=105, last=135)
    assert [lies(state, source) for source in (0, 31, 50, 100)] == [100, 131, 131, 131]


def test_older_epochs_stay_on_record_until_all_is_copied_again(monkeypatch):
    """Those too that are too old to come back with a former leader of the target."""
    monkeypatch.setattr(bounds, "RETURNING", 0)
    before = [copied(number, 20 * number, 20 * number + 20, 20 * number, anew=False) for number in range(5)]
    again = copied(5, 0, 31, 100)
    state = known(*before, again, moved(5), epoch=5, position=31, last=130)
    assert state.map_of(PLACE).going_back((7,)) == {writer(5)}
    assert bound(state, {PLACE: Starts(0, 0)}, (7,)) == ()
    assert bound(known(*before, again, epoch=5, position=31, last=130), {PLACE: Starts(0, 0)}, (7,)), (
        "where it was no order"
    )
    opening = Segment(partition=PLACE, writer=writer(5), sequence=0, source=0, target=100, anew=True)
    under_way = known(*before, *records_of([opening]), moved(5), epoch=5, position=31, last=130)
    assert bound(under_way, {PLACE: Starts(0, 0)}, (7,)) == (), "it has no end yet"
    several = [FIRST, *(copied(number, 0, 100, 100 * number, anew=False) for number in (2, 3, 4))]
    again = [*copied(5, 0, 100, 500), moved(5)]
    newest = [*copied(6, 100, 105, 600, anew=False)]
    whole = known(*several, again, newest, epoch=6, position=105, last=604)
    assert whole.map_of(PLACE).going_back((7,)) == frozenset()
    assert bound(whole, {PLACE: Starts(0, 0)}, (7,)), "what nobody needs goes"


@pytest.mark.parametrize(("begin", "at"), [(110, 50), (100, 50), (70, 50), (50, 40), (20, 10)])
def test_a_log_that_lost_its_end_hides_what_lay_behind_that_and_no_more(begin, at):
    """The flow goes on there for another reason than an order, the loss lies behind what orders were about, or not."""
    again = [*copied(2, 30, 60, 100), moved(2), *copied(3, 100, 120, 131), moved(3)]
    state = known(FIRST, again, copied(4, begin, begin + 5, 160), epoch=4, position=begin + 5, last=164)
    assert lies(state, at) == (at if begin > 60 or at < 30 else 70 + at)
    assert lies(state, begin) == 160


def test_what_begins_for_another_reason_in_the_place_of_an_order_is_none():
    state = known(FIRST, copied(2, 0, 0, 0), moved(2), copied(3, 0, 0, 0), epoch=3, position=0)
    keys = state.map_of(PLACE).idle_orders(PLACE, (7,))
    assert keys == (MovedKey(PLACE, writer(2)).text,)
    for key in keys:
        state.forget(key)
    assert state.map_of(PLACE).going_back((7,)) == frozenset()
    begun = known(FIRST, copied(2, 0, 31, 100), moved(2), epoch=2, position=31, last=130)
    assert begun.map_of(PLACE).idle_orders(PLACE, (7,)) == (), "it has copied by an order"


@pytest.mark.parametrize(("ordered", "lies_at"), [(50, 110), (52, 30), (NO_OFFSET, 30)])
def test_an_order_to_a_hole_goes_on_where_the_one_before_has_ended(ordered: int, lies_at: int):
    again = [*copied(2, 20, 50, 100), moved(2, 20)]
    state = known(FIRST, again, copied(3, 52, 60, 140), moved(3, ordered), epoch=3, position=60, last=147)
    assert lies(state, 30) == lies_at


def corrected(before: tuple[int, int, int], *, stop: int) -> JournalState:
    """An order back, of which the topic has lost how far it came, and one further on, known by its progress alone."""
    again = Segment(partition=PLACE, writer=writer(2), sequence=0, source=20, target=100, anew=True)
    now = Progress(
        partition=PLACE,
        writer=writer(3),
        generation=3,
        position=stop + 5,
        next_sequence=5,
        sequence=4,
        source=stop + 4,
        target=204,
        first=(stop, 200),
        before=before,
        anew=True,
    )
    return state_of([*FIRST, *records_of([again]), moved(2, 20), now])


def led(state: JournalState, source: int) -> Translated:
    found = translate(state.map_of(PLACE).offsets(state.progress[PLACE], (7,)), source)
    assert isinstance(found, Translated)
    return found


def test_an_order_back_whose_end_is_lost_was_corrected_where_the_next_one_came_after_an_older_copy():
    state = corrected((99, 99, 99), stop=100)
    assert [led(state, source) for source in (0, 20, 50, 99)] == [
        Translated(source, Place.RECORD) for source in (0, 20, 50, 99)
    ]
    assert led(state, 100) == Translated(200, Place.RECORD)


def test_an_order_back_whose_end_is_lost_had_copied_all_again_where_the_next_one_came_after_its_last_copy():
    state = corrected((99, 119, 199), stop=120)
    assert [led(state, source) for source in (0, 20, 50, 99)] == [
        Translated(place, Place.RECORD) for place in (0, 100, 130, 179)
    ]
    assert led(state, 120) == Translated(200, Place.RECORD)


@pytest.mark.parametrize("before", [NO_RECORD.before, UNKNOWN_RECORD.before, (NO_OFFSET, 99, NO_OFFSET), (80, 99, 190)])
@pytest.mark.parametrize("source", [20, 50, 99, 105, 119])
def test_an_order_back_whose_end_is_lost_may_have_copied_all_again_and_nobody_skips_what_it_had_not(before, source):
    """Nothing tells which record the next one came after: or it is one of those that are lost."""
    state = corrected(before, stop=120)
    found = led(state, source)
    assert found.place is Place.THINNED
    assert found.offset <= min(source, 100)


def told(began: Began) -> tuple[JournalState, JournalState]:
    """An epoch of which nothing but its progress tells why it began; and the same when that is on record again."""
    again = Segment(partition=PLACE, writer=writer(2), sequence=0, source=20, target=100, anew=True)
    state = known(FIRST, *records_of([again]), epoch=2, position=31, last=110)
    state.take(replace(state.progress[PLACE], began=began, settled=True))
    newest = replace(state.progress[PLACE], writer=writer(3), generation=3, began=WENT_ON)
    whole = state_of([*FIRST, *records_of([again]), *state.endings(), newest])
    return state, whole


def test_progress_tells_that_an_order_had_its_epoch_begin_where_the_record_of_that_is_lost():
    state, whole = told(Began(moved=20))
    assert state.map_of(PLACE).going_back((7,), state.last(PLACE)) == {writer(2)}
    assert [one for one in state.endings() if isinstance(one, Moved)] == [moved(2, 20)]
    assert whole.map_of(PLACE).began(writer(2)) == Began(moved=20)
    assert whole.endings() == []


def test_progress_tells_where_the_source_had_parted_where_the_record_of_that_is_lost():
    state, whole = told(Began(parted=15))
    assert [lies(each, 17) for each in (state, whole)] == [100, 100]
    assert [each.map_of(PLACE).parted_at(writer(2)) for each in (state, whole)] == [15, 15]


def test_an_epoch_that_goes_on_behind_a_marker_is_of_the_same_order():
    """Another order has been given to where the copy stood, in the midst of copying again: it has begun nothing."""
    again = [*copied(2, 20, 50, 100), moved(2, 20)]
    state = known(FIRST, again, copied(3, 52, 60, 140, anew=False), epoch=3, position=60, last=147)
    assert [lies(state, source) for source in (10, 30, 49, 50, 52)] == [10, 110, 129, 140, 140]
