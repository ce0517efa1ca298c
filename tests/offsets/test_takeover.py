"""Where a partition goes on that is taken over, case by case; `test_takeover_model` goes through all the others."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from sparkmirror.events import Kind
from sparkmirror.model import NO_OFFSET, Reached, TopicPartition, Writer
from sparkmirror.offsets.holes import pack
from sparkmirror.offsets.inherited import Inherited
from sparkmirror.offsets.map import Stretch
from sparkmirror.offsets.records import Progress
from sparkmirror.offsets.segments import SEQUENCES, Segments, Targets
from sparkmirror.offsets.source_history import UNDEFINED, EpochEnd
from sparkmirror.offsets.state import JournalState, state_of
from sparkmirror.offsets.tail import Tail, TailBatch
from sparkmirror.offsets.takeover import (
    Begin,
    Decision,
    Last,
    Observed,
    ReadFrom,
    Resume,
    Stuck,
    before_the_last,
    behind_the_forged,
    behind_the_record,
    decide,
    not_on_record,
)
from tests.offsets.segments import Segment, end, records_of

PLACE = TopicPartition("orders", 3)
OLD, NEW = Writer(producer_id=7, epoch=4), Writer(producer_id=7, epoch=5)
NEWEST = Writer(producer_id=7, epoch=6)
OTHER = 99


def segment(sequence: int, source: int, target: int = NO_OFFSET, writer: Writer = OLD, **more: Any) -> Segment:
    return Segment(partition=PLACE, writer=writer, sequence=sequence, source=source, target=target, **more)


def own(base: int, sequence: int, count: int, writer: Writer = OLD, *, left: int | None = None) -> TailBatch:
    """A batch of ``count`` offsets; the cleaner has ``left`` so many records in it."""
    records = count if left is None else left
    last = base + count - 1
    return TailBatch(base, last, writer.producer_id, writer.epoch, sequence, count=records, control=False, newest_ms=1)


def foreign(base: int, count: int = 1) -> TailBatch:
    return TailBatch(base, base + count - 1, OTHER, 0, 0, count=count, control=False, newest_ms=1)


def marker(base: int, writer: Writer = NEW) -> TailBatch:
    return TailBatch(base, base, writer.producer_id, writer.epoch, -1, count=1, control=True, newest_ms=1)


def progress(sequence: int, source: int, target: int, writer: Writer = OLD, **more: Any) -> Progress:
    facts = {"generation": writer.epoch, "position": source + 1, "next_sequence": (sequence + 1) % SEQUENCES} | more
    return Progress(partition=PLACE, writer=writer, sequence=sequence, source=source, target=target, **facts)


def taken_over(
    *batches: TailBatch,
    segments: tuple[Segment, ...] = (segment(0, 100, 0),),
    known: Progress | None = None,
    start: int = 0,
    since: int | None = None,
    **more: Any,
) -> Decision:
    """Decides with these batches at the end of the log, complete from its start on unless ``since`` says otherwise."""
    facts: dict[str, Any] = {"ids": (7,), "start": 50, "fence": NEW} | more
    tail = Tail(
        start=start,
        high_watermark=batches[-1].last_offset + 1 if batches else start,
        batches=batches,
        since=start if since is None else since,
    )
    state = state_of([*records_of(segments), *([known] if known else [])])
    return decide(Observed(partition=PLACE, progress=known, map=state.map_of(PLACE), tail=tail, **facts))


def went_on(decision: Decision) -> tuple[int, Last | None, str]:
    assert isinstance(decision, Resume), decision
    return decision.position, decision.last, str(decision.event or "")


def test_the_record_of_the_progress_is_the_last_one():
    decision = taken_over(own(7, 7, 3), marker(10), known=progress(9, 109, 9), since=7)
    assert went_on(decision) == (110, Last(sequence=9, source=109, target=9), "")


def test_what_was_dropped_behind_the_last_record_is_not_read_again():
    decision = taken_over(own(7, 7, 3), marker(10), known=progress(9, 109, 9, position=150), since=7)
    assert went_on(decision)[0] == 150


def test_the_segment_that_holds_the_last_record_counts_behind_holes():
    segments = (segment(0, 100, 0), segment(12, 140), segment(16, 170), segment(30, 900))
    decision = taken_over(
        own(15, 15, 3), marker(18), segments=segments, known=progress(9, 109, 9, position=110), since=15
    )
    assert went_on(decision) == (172, Last(sequence=17, source=171, target=17), "")
    assert isinstance(decision, Resume)
    assert decision.targets == (end(PLACE, OLD, 18),), "the others lie where their numbers say"


def test_a_target_that_lost_its_tail_is_copied_again_and_the_event_says_how_much():
    decision = taken_over(own(3, 3, 2), marker(5), known=progress(9, 109, 9, position=150), since=3)
    position, last, event = went_on(decision)
    assert (position, last) == (105, Last(sequence=4, source=104, target=4))
    assert "offsets 5 to 9: 5 records that it had acknowledged, source offsets 105 to 109" in event
    assert isinstance(decision, Resume)
    assert decision.event is not None
    assert (decision.event.kind, decision.event.first, decision.event.last) == (Kind.TARGET_TAIL_LOST, 5, 9)


@pytest.mark.parametrize("fenced", [False, True])
def test_what_the_log_cleaner_removed_last_is_not_lost(fenced):
    """The tombstones at the end of a compacted topic, and the markers of former fences."""
    before, newest = progress(6, 106, 6), replace(NEW, epoch=6)
    begun = progress(NO_OFFSET, NO_OFFSET, NO_OFFSET, writer=NEW, position=107, next_sequence=0)
    known = state_of([before, begun]).progress[PLACE] if fenced else before
    log = (own(0, 0, 2), marker(8 if fenced else 7, newest if fenced else NEW))
    decision = taken_over(*log, known=known, fence=newest if fenced else NEW)
    position, last, event = went_on(decision)
    assert (position, event) == (107, "")
    assert last is not None
    assert (last.source, last.target) == (106, 6)


def test_what_a_former_fence_has_filled_is_lost_though_a_later_record_was_cleaned_away():
    decision = taken_over(own(0, 0, 2), marker(2, NEW), foreign(5), marker(7), known=progress(5, 105, 5))
    position, _, event = went_on(decision)
    assert position == 102
    assert "lost the end of its log" in event


def test_a_hole_where_the_last_record_was_is_a_loss_where_the_log_was_cut_off_below_it():
    """Others have filled the log since, and the cleaner took what they wrote where the last record was."""
    log = (own(0, 0, 3), foreign(6, 3), marker(9))
    known = progress(5, 105, 5, reached=Reached(1, 6))
    assert went_on(taken_over(*log, known=known))[0] == 106, "nobody was asked"
    assert went_on(taken_over(*log, known=known, log=EpochEnd(1, 6)))[0] == 106, "all of the leader epoch is there"
    position, _, event = went_on(taken_over(*log, known=known, log=EpochEnd(1, 4)))
    assert position == 104, "what the cleaner took below that is not copied again"
    assert "offsets 4 to 5: 2 records that it had acknowledged, source offsets 104 to 105" in event
    for other in (EpochEnd(0, 9), EpochEnd(-1, -1)):
        position, _, event = went_on(taken_over(*log, known=known, log=other))
        assert position == 103, "a leader that never had the leader epoch"
        assert "lost the end of its log" in event


@pytest.mark.parametrize(("owner", "ended"), [(OLD, False), (NEW, False), (NEW, True)])
def test_what_the_cleaner_removed_above_a_loss_is_missing_after_a_second_and_deeper_one(owner, ended):
    """The first takeover dies before it sends anything: the map alone tells of the place that was cleaned."""
    segments: tuple[Segment, ...] = (segment(0, 100, 0), segment(11, 111, 12))
    if owner == OLD:
        known = progress(15, 115, 16, reached=Reached(1, 17))
    else:
        segments = (segment(0, 100, 0), segment(0, 110, 10, NEW), segment(1, 111, 12, NEW))
        known = progress(5, 115, 16, writer=NEW, reached=Reached(1, 17))
    on_record = [*records_of(segments), *([end(PLACE, OLD, 10)] if ended else []), known]
    state, log = state_of(on_record), [own(0, 0, 10), foreign(11)]
    found = _again(state, known, log, EpochEnd(1, 12))
    assert (went_on(found)[0], found.last) == (111, Last(sequence=9, source=109, target=9))
    assert "offsets 12 to 16: 5 records" in str(found.event)
    begun = progress(-1, -1, -1, writer=NEWEST, position=111, next_sequence=0, reached=Reached(2, 13), settled=True)
    state.take(begun)
    assert state.map_of(PLACE).offsets(begun, (7,), parted=False).end() == Stretch(110, 10, 1)
    assert owner == OLD or state.map_of(PLACE).pieces_of(OLD).ends == [10], "it is no record of the epoch before"
    whole = _again(state, begun, log, EpochEnd(2, 13))
    assert (whole.position, whole.event) == (111, None), "the cleaner has removed it, and nothing is lost"
    position, _, event = went_on(_again(state, begun, log[:1], EpochEnd(1, 10)))
    assert position == 110
    assert "offsets 10 to 10: 1 records" in event


def _again(state: JournalState, known: Progress, log: list[TailBatch], ended: EpochEnd) -> Resume:
    """A takeover of what a log has, which puts on record what it finds."""
    end = log[-1].last_offset + 1
    batches = (*log, marker(end, NEWEST))
    decision = decide(
        Observed(
            partition=PLACE,
            progress=known,
            map=state.map_of(PLACE),
            tail=Tail(start=0, high_watermark=end + 1, batches=batches, since=0),
            ids=(7,),
            start=50,
            fence=NEWEST,
            log=ended,
        )
    )
    assert isinstance(decision, Resume)
    for one in decision.targets:
        state.take(one)
    for key in decision.void:
        state.forget(key)
    return decision


def test_a_log_that_has_gone_beyond_a_begin_at_which_nothing_was_sent_tells_that_records_may_come_twice():
    """The internal topic has fallen back to the begin, and the copies are deleted; but for what is known of it."""
    begun = progress(NO_OFFSET, NO_OFFSET, NO_OFFSET, writer=OLD, position=100, next_sequence=0)
    gone: dict[str, Any] = {"segments": (), "start": 50}
    decision = taken_over(marker(50), known=begun, **gone)
    assert isinstance(decision, Begin)
    assert decision.event is not None
    assert (decision.position, decision.event.kind, decision.event.first) == (100, Kind.MAY_REPEAT, 100)
    assert "up to 50 records from there on may be there twice" in decision.event.text
    taken_before = Inherited(partition=PLACE, spans=((0, 100),), end=50)
    for known, more in (
        (replace(begun, reached=Reached(1, 50)), {}),
        (begun, {"sole_writer": False}),
        (begun, {"inherited": taken_before}),
    ):
        decision = taken_over(marker(50), known=known, **gone, **more)
        assert isinstance(decision, Begin)
        assert (decision.position, decision.event) == (100, None)
    later = progress(NO_OFFSET, NO_OFFSET, NO_OFFSET, writer=NEW, position=104, next_sequence=0)
    segments = (segment(0, 100, 0),)
    decision = taken_over(marker(50, NEWEST), segments=segments, known=later, start=50, fence=NEWEST)
    assert isinstance(decision, Resume)
    assert decision.position == 104
    assert "up to 45 records" in str(decision.event)


def test_a_hole_is_a_loss_where_others_records_lie_at_earlier_lost_offsets():
    """Where no leader epoch is on record."""
    log = (own(0, 0, 3), foreign(4), foreign(6, 3), marker(9))
    position, _, event = went_on(taken_over(*log, known=progress(5, 105, 5)))
    assert position == 103
    assert "lost the end of its log" in event


def test_a_log_that_has_nothing_of_the_flow_was_cut_off_where_the_leader_says():
    log = (foreign(6, 3), marker(9))
    position, _, event = went_on(
        taken_over(*log, known=progress(5, 105, 5, reached=Reached(1, 6)), log=EpochEnd(1, 4), sole_writer=False)
    )
    assert position == 104
    assert "offsets 4 to 5" in event


def test_the_first_batch_of_an_epoch_over_a_hole_that_a_loss_has_left_has_what_was_lost_copied_again():
    segments = (segment(0, 100, 0), segment(0, 106, writer=NEW))
    known = progress(5, 105, 5, reached=Reached(1, 6))
    log = (own(0, 0, 3), foreign(6, 3), own(9, 0, 2, NEW), marker(11, NEWEST))
    assert went_on(taken_over(*log, segments=segments, known=known, fence=NEWEST))[0] == 108
    decision = taken_over(*log, segments=segments, known=known, fence=NEWEST, log=EpochEnd(1, 4))
    position, _, event = went_on(decision)
    assert position == 103
    assert "will be there twice" in event


def test_a_loss_that_was_found_and_not_yet_copied_again_is_not_forgotten():
    """A takeover found 9 lost and gave position 109; its driver died before anything of the new epoch was on record."""
    newest = replace(NEW, epoch=6)
    before = progress(9, 109, 9)
    begun = progress(NO_OFFSET, NO_OFFSET, NO_OFFSET, writer=NEW, position=110)
    known = state_of([before, begun]).progress[PLACE]
    decision = taken_over(own(0, 0, 9), marker(9, NEW), marker(10, newest), known=known, fence=newest)
    assert went_on(decision)[0] == 109
    earlier = state_of([progress(7, 107, 7), begun]).progress[PLACE]
    state = state_of([*records_of([segment(0, 100, 0)]), end(PLACE, OLD, 10), end(PLACE, OLD, 9)])
    tail = Tail(start=0, high_watermark=11, batches=(own(0, 0, 9), marker(9, NEW), marker(10, newest)), since=0)
    facts = Observed(
        partition=PLACE, progress=earlier, map=state.map_of(PLACE), ids=(7,), tail=tail, start=50, fence=newest
    )
    decision = decide(facts)
    assert went_on(decision)[0] == 109, "the progress did not know of 9, and the map does"


E1, E2, E3, E4, E5 = (Writer(producer_id=7, epoch=epoch) for epoch in range(1, 6))
FLAPPED = (segment(0, 0, writer=E1), segment(0, 15, writer=E2), segment(0, 26, writer=E3), segment(0, 36, writer=E4))
"""Segments of a flow whose target had the leaders A, B, A and B: each lost what the other had, and it was copied again.

A has source offsets 0 to 25 of E1 and 26 to 45 of E3, B has 0 to 14 of E1, 15 to 35 of E2 and 36 to 55 of E4.
"""


def back(
    *batches: TailBatch,
    places: tuple[Any, ...],
    known: Progress,
    fence: Writer,
    since: int = 0,
    segments: tuple[Segment, ...] = FLAPPED,
) -> Decision:
    """Decides where a former leader has come back, with the places of the one before it on record."""
    end = batches[-1].last_offset + 1
    tail = Tail(start=0, high_watermark=end, batches=tuple(b for b in batches if b.last_offset >= since), since=since)
    state = state_of([*records_of(segments), *places, known])
    return decide(
        Observed(
            partition=PLACE,
            progress=known,
            map=state.map_of(PLACE),
            ids=(7,),
            tail=tail,
            start=0,
            fence=fence,
            log=EpochEnd(UNDEFINED, UNDEFINED),
        )
    )


def lies(writer: Writer, sequence: int, target: int) -> Targets:
    return Targets(partition=PLACE, writer=writer, sequence=sequence, target=target)


LOG_OF_A = (own(0, 0, 15, E1), own(15, 15, 11, E1), marker(26, E3), own(27, 0, 20, E3), marker(47, E5))
LOG_OF_B = (own(0, 0, 15, E1), marker(15, E2), own(16, 0, 21, E2), marker(37, E4), own(38, 0, 20, E4), marker(58, E5))
OF_A = (lies(E1, 0, 0), end(PLACE, E1, 26), lies(E3, 0, 27), end(PLACE, E3, 20))
OF_B = (lies(E1, 0, 0), end(PLACE, E1, 15), lies(E2, 0, 16), end(PLACE, E2, 21), lies(E4, 0, 38))


BY_A, BY_B = progress(19, 45, 46, writer=E3), progress(19, 55, 57, writer=E4)


def test_a_former_leader_that_comes_back_again_takes_the_others_places_off_the_map():
    decision = back(*LOG_OF_A, places=OF_B, known=BY_B, fence=E5)
    assert isinstance(decision, Resume)
    assert decision.position == 46
    assert {lies(E2, 0, 16).key, lies(E4, 0, 38).key, end(PLACE, E1, 15).key} <= set(decision.void)
    assert {end(PLACE, E1, 26), lies(E3, 0, 27)} <= set(decision.targets)


def test_an_epoch_of_which_a_former_leader_has_the_begin_ends_there():
    """It lacks the end of E1, which the takeover before had put on the map again, and all of E3."""
    decision = back(*LOG_OF_B[:4], places=OF_A, known=BY_A, fence=E4, segments=FLAPPED[:3])
    assert isinstance(decision, Resume)
    assert decision.position == 36
    assert decision.void == (lies(E3, 0, 27).key,)
    assert {end(PLACE, E1, 15), lies(E2, 0, 16)} <= set(decision.targets)


def test_a_log_is_read_as_far_back_as_an_epoch_has_places_that_it_lacks_and_no_further():
    assert back(*LOG_OF_A, places=OF_B, known=BY_B, fence=E5, since=27) == ReadFrom(offset=16)
    assert back(*LOG_OF_A, places=OF_B, known=BY_B, fence=E5, since=16) == ReadFrom(offset=14)
    assert isinstance(back(*LOG_OF_A, places=OF_B, known=BY_B, fence=E5, since=14), Resume)


def test_places_that_the_log_cleaner_has_emptied_stay_on_the_map_where_a_former_leader_comes_back():
    places = (*OF_B[:4], lies(E4, 0, 38))
    log = (own(0, 0, 15, E1), marker(15, E2), marker(37, E3), own(38, 0, 20, E3), marker(58, E5))
    segments = (*FLAPPED[:2], segment(0, 36, writer=E3), FLAPPED[3])
    decision = back(*log, places=places, known=BY_B, fence=E5, segments=segments)
    assert isinstance(decision, Resume)
    assert decision.void == (lies(E4, 0, 38).key,)
    assert {one.writer for one in decision.targets} == {E3}


def test_without_progress_the_segments_written_ahead_suffice():
    decision = taken_over(own(0, 0, 4), marker(4), segments=(segment(0, 100),))
    assert went_on(decision) == (104, Last(sequence=3, source=103, target=3), "")
    assert isinstance(decision, Resume)
    assert decision.targets == (segment(0, 100, 0).targets, end(PLACE, OLD, 4))


def test_nothing_on_record_and_nothing_in_the_log_begins_at_the_configured_start():
    assert taken_over(marker(0), segments=()) == Begin(position=50)
    assert taken_over(marker(0), segments=(), start=NO_OFFSET + 1) == Begin(position=50)


def test_a_segment_without_any_batch_begins_where_it_was_decided_to_begin():
    assert taken_over(marker(0), segments=(segment(0, 100),)) == Begin(position=100)


@pytest.mark.parametrize("first", [SEQUENCES - 3, SEQUENCES - 1])
def test_sequences_wrap_between_batches_and_inside_one(first):
    segments = (segment(first, 100, 0),)
    decision = taken_over(own(0, first, 4), own(4, (first + 4) % SEQUENCES, 2), marker(6), segments=segments)
    assert went_on(decision)[:2] == (106, Last(sequence=(first + 5) % SEQUENCES, source=105, target=5))
    inside = taken_over(own(0, first, 6), marker(6), segments=segments)
    assert went_on(inside)[:2] == went_on(decision)[:2]


def test_a_sequence_of_an_earlier_lap_is_not_taken_for_that_of_the_last():
    """Both segments may hold sequence 150; the second one lies a lap later."""
    stride = SEQUENCES // 8
    segments = tuple(segment(37 + n * stride, 37 + n * stride, 37 + n * stride) for n in range(8))
    later = segment(60, SEQUENCES + 60 + 1_000, SEQUENCES + 60)
    end = SEQUENCES + 151
    decision = taken_over(own(end - 10, 141, 10), marker(end), segments=(*segments, later), since=end - 10, start=0)
    assert went_on(decision)[0] == SEQUENCES + 150 + 1_000 + 1


def test_the_newest_epoch_counts_whatever_lies_behind_it():
    newest = Writer(producer_id=7, epoch=6)
    segments = (segment(0, 100, 0), segment(0, 110, 11, writer=NEW))
    decision = taken_over(
        own(0, 0, 10), marker(10), own(11, 0, 5, NEW), marker(16, newest), segments=segments, fence=newest
    )
    assert went_on(decision)[:2] == (115, Last(sequence=4, source=114, target=15))


def test_a_producer_id_registered_later_is_newer_whatever_its_epoch():
    later = Writer(producer_id=3, epoch=0)
    segments = (segment(0, 100, 0), segment(0, 110, 10, writer=later))
    batches = (own(0, 0, 10), own(10, 0, 5, later))
    assert went_on(taken_over(*batches, segments=segments, ids=(7, 3), fence=None))[0] == 115


def test_markers_and_others_batches_between_are_passed_over():
    decision = taken_over(own(0, 0, 4), foreign(4, 3), marker(7, OLD), foreign(8), marker(9), sole_writer=False)
    assert went_on(decision)[:2] == (104, Last(sequence=3, source=103, target=3))


def test_where_others_wrote_in_between_the_map_gets_a_new_segment():
    decision = taken_over(
        own(0, 0, 4), foreign(4, 3), own(7, 4, 2), marker(9), known=progress(3, 103, 3), sole_writer=False
    )
    assert isinstance(decision, Resume)
    assert decision.targets == (segment(4, 104, 7).targets, end(PLACE, OLD, 6))


def test_a_batch_that_the_cleaner_thinned_ends_where_it_ended():
    assert went_on(taken_over(own(0, 0, 8, left=1), marker(8)))[0] == 108
    assert went_on(taken_over(own(0, 0, 8, left=0), marker(8)))[0] == 108


def test_headers_are_read_from_the_progress_on_when_the_last_batch_is_of_others():
    known = progress(9, 109, 9)
    assert taken_over(foreign(40), marker(41), known=known, since=40, sole_writer=False) == ReadFrom(offset=9)
    assert taken_over(foreign(40), marker(41), since=40, segments=()) == ReadFrom(offset=0)


def test_each_reading_goes_further_back_until_the_logs_start():
    batches = tuple(foreign(base) for base in range(900, 1_000))
    decision = taken_over(*batches, marker(1_000), since=900, segments=())
    assert decision == ReadFrom(offset=1_001 - 4 * 101)


def test_headers_are_read_when_target_offsets_must_be_rebuilt():
    known = progress(9, 109, 9)
    assert taken_over(own(30, 20, 5), marker(35), known=known, since=30) == ReadFrom(offset=9)


def test_a_fence_that_is_not_below_the_high_watermark_yet_is_waited_for():
    assert taken_over(own(0, 0, 4), since=0) == ReadFrom(offset=0)


def test_a_newer_epoch_of_the_same_id_is_another_driver():
    decision = taken_over(own(0, 0, 4), marker(4), own(5, 0, 1, replace(NEW, epoch=6)))
    assert isinstance(decision, Stuck)
    assert "another driver writes it" in decision.error


@pytest.mark.parametrize("known", [None, progress(9, 109, 9)])
def test_a_last_record_without_a_segment_stands_still_and_names_the_remedy(known):
    decision = taken_over(own(0, 0, 10), marker(10), segments=(), known=known)
    assert isinstance(decision, Stuck)
    assert "sequence 9 of producer id 7, epoch 4 at offset 9, but no segment on record" in decision.error
    remedy = (
        "restore the flow's internal topic; or delete the target topic and" if known else "or delete the target topic,"
    )
    assert remedy in decision.error


def test_progress_and_segments_that_contradict_each_other_stand_still():
    decision = taken_over(own(0, 0, 10), marker(10), known=progress(8, 107, 8))
    assert isinstance(decision, Stuck)
    assert "contradict each other" in decision.error


def test_progress_that_lies_further_on_than_segments_lead_tells_where_the_copy_goes_on():
    """The internal topic has lost segments: three offsets before source offset 111 are holes, who knows where."""
    decision = taken_over(own(0, 0, 10), marker(10), known=progress(8, 111, 8))
    assert isinstance(decision, Resume)
    assert (decision.position, decision.last, decision.event) == (113, Last(sequence=9, source=112, target=9), None)


def test_progress_before_a_segment_that_does_not_say_where_a_hole_is_counts_by_its_sequence_number():
    """The internal topic has lost the segment of records from source offset 110 on, and has a later one."""
    later = Segments(partition=PLACE, writer=OLD, sequence=12, source=130, after=116)
    known = progress(8, 113, 8)
    state = state_of([*records_of((segment(0, 100, 0),)), later, known])
    tail = Tail(start=0, high_watermark=15, batches=(own(0, 0, 14), marker(14)), since=0)
    decision = decide(
        Observed(partition=PLACE, progress=known, map=state.map_of(PLACE), tail=tail, ids=(7,), start=50, fence=NEW)
    )
    assert went_on(decision) == (132, Last(sequence=13, source=131, target=13), "")


def test_records_whose_source_offsets_are_not_sure_are_not_held():
    """The internal topic has lost the segment of records from source offset 110 on, and has a later one."""
    later = Segments(partition=PLACE, writer=OLD, sequence=12, source=130, after=116)
    state = state_of([*records_of((segment(0, 100, 0),)), later, progress(8, 108, 8)])
    tail = Tail(start=0, high_watermark=15, batches=(own(0, 0, 14), marker(14)), since=0)
    observed = Observed(
        partition=PLACE, progress=state.progress[PLACE], map=state.map_of(PLACE), tail=tail, ids=(7,), start=50
    )
    held = not_on_record(observed, Last(sequence=13, source=131, target=13), 20)
    assert held[-2:] == ((130, 12), (131, 13))
    assert [pair for pair in held if pair[0] >= 110] == [(130, 12), (131, 13)]


def test_a_last_record_that_is_not_the_one_of_the_map_has_all_copied_again_behind_the_record_on_record():
    tail = Tail(start=0, high_watermark=10, batches=(own(0, 0, 10),), since=0)
    found = Last(sequence=9, source=109, target=9)
    for known, position in ((progress(3, 103, 3), 104), (None, 100)):
        state = state_of([*records_of((segment(0, 100),)), *([known] if known else [])])
        mapped = state.map_of(PLACE)
        observed = Observed(partition=PLACE, progress=known, map=mapped, ids=(7,), tail=tail, start=50)
        decision = behind_the_record(observed, found)
        assert (decision.position, decision.last, decision.anew) == (position, None, True)
        assert decision.event is not None
        assert (decision.event.kind, decision.event.first) == (Kind.MAY_REPEAT, position)
        assert [(one.sequence, one.target) for one in decision.targets] == ([(4, -1)] if known else [])


def test_what_log_cleaners_have_removed_is_not_told_to_be_another_record():
    tail = Tail(start=0, high_watermark=10, batches=(own(0, 0, 10),), since=0)
    state = state_of([*records_of((segment(0, 100),)), progress(3, 103, 3)])
    observed = Observed(partition=PLACE, progress=None, map=state.map_of(PLACE), ids=(7,), tail=tail, start=50)
    decision = behind_the_record(observed, Last(sequence=9, source=109, target=9), cleaned=True)
    assert (decision.position, decision.anew) == (100, True)
    assert decision.event is not None
    assert "may have lost the newest entries" in decision.event.text
    assert "log cleaners have removed" in decision.event.text


def test_records_before_the_last_one_are_told_by_both_offsets_as_far_back_as_the_log_was_read():
    batches = (own(0, 0, 2), own(2, 2, 3), marker(5), own(6, 5, 2), marker(8))
    tail = Tail(start=0, high_watermark=9, batches=batches, since=0)
    state = state_of(records_of((segment(0, 100), segment(6, 110))))
    observed = Observed(partition=PLACE, progress=None, map=state.map_of(PLACE), ids=(7,), tail=tail, start=50)
    last = Last(sequence=6, source=110, target=7)
    pairs = ((105, 6), (104, 4), (103, 3), (102, 2), (101, 1), (100, 0))
    assert before_the_last(observed, last, 20) == pairs
    assert before_the_last(observed, last, 3) == pairs[:3]
    assert before_the_last(observed, replace(last, target=8), 3) == (), "it is no longer there"
    assert before_the_last(replace(observed, tail=replace(tail, batches=batches[3:])), last, 20) == pairs[:1]


def test_records_that_the_log_alone_tells_of_are_those_behind_the_one_on_record():
    """Dense ones by their numbers, with no more of the log than its end; else by the batches."""
    state = state_of([*records_of((segment(0, 100),)), progress(3, 103, 3)])
    facts: dict[str, Any] = {"partition": PLACE, "map": state.map_of(PLACE), "ids": (7,), "start": 50}
    end, last = (
        Tail(start=0, high_watermark=10, batches=(own(7, 7, 2), marker(9)), since=7),
        Last(sequence=8, source=108, target=8),
    )
    observed = Observed(progress=state.progress[PLACE], tail=end, **facts)
    assert not_on_record(observed, last, 20) == ((104, 4), (105, 5), (106, 6), (107, 7), (108, 8))
    assert not_on_record(observed, last, 2) == ((104, 4), (105, 5))
    assert not_on_record(replace(observed, progress=progress(8, 108, 8)), last, 20) == ()
    assert not_on_record(observed, replace(last, target=9), 20) == (), "it is no longer there"
    batches = (own(3, 3, 2), foreign(5), own(6, 5, 2), marker(8))
    mixed = replace(observed, tail=Tail(start=0, high_watermark=9, batches=batches, since=3))
    assert not_on_record(mixed, Last(sequence=6, source=106, target=7), 20) == ((104, 4), (105, 6), (106, 7))
    fresh = replace(observed, progress=progress(NO_OFFSET, NO_OFFSET, NO_OFFSET, writer=NEW, position=100))
    log = Tail(start=0, high_watermark=3, batches=(own(0, 0, 3),), since=0)
    found = Last(sequence=2, source=102, target=2)
    assert not_on_record(replace(fresh, tail=log), found, 20) == ((100, 0), (101, 1), (102, 2))


@pytest.mark.parametrize(("known", "position"), [(progress(3, 103, 3), 104), (None, 100)])
def test_forged_batches_have_all_copied_again_behind_the_record_on_record(known: Progress | None, position: int):
    tail = Tail(start=0, high_watermark=10, batches=(own(0, 0, 10),), since=0)
    state = state_of([*records_of((segment(0, 100),)), *([known] if known else [])])
    observed = Observed(partition=PLACE, progress=known, map=state.map_of(PLACE), ids=(7,), tail=tail, start=50)
    decision = behind_the_forged(observed, Last(sequence=9, source=109, target=9))
    assert (decision.position, decision.last, decision.anew) == (position, None, True)
    assert decision.event is not None
    assert (decision.event.kind, decision.event.first, decision.event.last) == (Kind.FORGED_BATCH, position, 109)
    assert "records that producer id 7, epoch 4 of this flow has written by their headers" in decision.event.text
    assert [(one.sequence, one.target) for one in decision.targets] == ([(4, -1)] if known else [])


@pytest.mark.parametrize("position", [110, 90])
def test_forged_batches_of_an_epoch_that_has_ended_take_the_copy_back_to_where_the_next_one_began(position: int):
    """The next one has sent nothing; the record that it came after is on record, and where it was to begin."""
    old = progress(3, 103, 3)
    begun = progress(NO_OFFSET, NO_OFFSET, NO_OFFSET, writer=NEW, position=position, before=(3, 103, 3))
    tail = Tail(start=0, high_watermark=7, batches=(own(0, 0, 4), marker(4), own(5, 4, 2)), since=0)
    state = state_of([*records_of((segment(0, 100, 0),)), old, begun])
    observed = Observed(partition=PLACE, progress=begun, map=state.map_of(PLACE), ids=(7,), tail=tail, start=50)
    last = Last(sequence=5, source=105, target=6)
    assert not_on_record(observed, last, 20) == ((104, 5), (105, 6))
    decision = behind_the_forged(observed, last)
    assert decision.position == position
    assert [(one.sequence, one.target) for one in decision.targets] == [(4, -1)]


def test_what_was_there_before_the_flow_began_anew_does_not_count():
    """Somebody deleted the internal topic; the flow began anew, and died."""
    known = progress(NO_OFFSET, NO_OFFSET, NO_OFFSET, writer=NEW, position=77)
    newest = replace(NEW, epoch=6)
    log = own(0, 0, 10), marker(10, newest)
    decision = taken_over(*log, segments=(), known=known, since=9, fence=newest, before=(OLD,))
    assert decision == Begin(position=77)


def test_what_the_map_has_outlived_and_a_former_leader_has_brought_back_is_not_copied_again_without_an_event():
    newest = replace(NEW, epoch=6)
    log = own(0, 0, 10), marker(10, newest)
    known = progress(NO_OFFSET, NO_OFFSET, NO_OFFSET, writer=NEW, position=77)
    decision = taken_over(*log, segments=(), known=known, since=9, fence=newest, before=(replace(OLD, epoch=3),))
    assert isinstance(decision, Begin)
    assert decision.event is not None
    assert (decision.position, decision.event.kind) == (77, Kind.MAY_REPEAT)
    assert "up to offset 9, which the offset map has outlived" in decision.event.text


def test_a_sole_writers_log_end_decides_when_retention_has_removed_everything():
    decision = taken_over(marker(14), start=14, known=progress(9, 109, 9))
    position, last, event = went_on(decision)
    assert (position, last) == (114, Last(sequence=13, source=113, target=13))
    assert "had the records up to source offset 113" in event
    assert "twice" not in event


def test_markers_that_nobody_sees_any_more_are_not_counted_as_records():
    fence = replace(OLD, epoch=7)
    decision = taken_over(marker(14, fence), start=14, known=progress(9, 109, 9), fence=fence)
    position, last, event = went_on(decision)
    assert (position, last) == (112, None)
    assert "up to 2 records from there on may be there twice" in event


def test_a_log_that_ends_right_behind_the_progress_says_that_nothing_followed():
    assert went_on(taken_over(marker(10), start=10, known=progress(9, 109, 9, position=130)))[0] == 130


def test_in_a_shared_topic_the_progress_decides_and_the_event_says_so():
    known = progress(9, 109, 9, position=130)
    decision = taken_over(foreign(20), marker(21), start=20, known=known, sole_writer=False)
    position, _, event = went_on(decision)
    assert position == 130
    assert "may be there twice" in event
    all_seen = taken_over(foreign(10, 11), marker(21), start=10, known=known, sole_writer=False)
    assert went_on(all_seen) == (130, Last(sequence=9, source=109, target=9), "")


def test_a_log_that_ends_before_the_progress_and_has_nothing_lost_its_tail():
    position, last, event = went_on(taken_over(marker(6), start=6, known=progress(9, 109, 9)))
    assert (position, last) == (106, None)
    assert "4 records that it had acknowledged, source offsets 106 to 109" in event


@pytest.mark.parametrize(("start", "position"), [(50, 50), (500, 110)])
def test_a_target_topic_that_was_made_anew_gets_what_the_configuration_says_and_nothing_less(start, position):
    known = progress(9, 109, 9, target_id="a" * 32)
    decision = decide(
        Observed(
            partition=PLACE,
            progress=known,
            map=state_of(records_of([segment(0, 100, 0)])).map_of(PLACE),
            ids=(7,),
            tail=Tail(start=0, high_watermark=1, batches=(marker(0),), since=0),
            start=start,
            target_id="b" * 32,
            fence=NEW,
        )
    )
    assert isinstance(decision, Begin)
    assert decision.position == position
    assert decision.event is not None
    assert decision.event.kind is Kind.TARGET_RECREATED


@pytest.mark.parametrize(("by_segment", "by_progress"), [(True, True), (True, False), (False, True)])
def test_a_newer_epoch_that_began_anew_has_another_history_of_the_source(by_segment, by_progress):
    known = progress(NO_OFFSET, NO_OFFSET, NO_OFFSET, writer=NEW, position=0, anew=by_progress)
    newest = replace(NEW, epoch=6)
    segments = (segment(0, 100, 0), *((segment(0, 0, writer=NEW, anew=True),) if by_segment else ()))
    decision = taken_over(own(0, 0, 10), marker(10, newest), segments=segments, known=known, fence=newest)
    assert went_on(decision)[0] == 0
    assert isinstance(decision, Resume)
    assert decision.anew, "the next epoch begins there too, and has as little to do with what older ones know"


AGAIN = progress(9, 9, 19, writer=NEW, anew=True)
"""The source was created again when 10 of its records were copied; 10 of the new one were copied behind them."""


@pytest.mark.parametrize(
    ("known", "lost"),
    [
        (AGAIN, (4, 19)),
        (progress(NO_OFFSET, NO_OFFSET, NO_OFFSET, writer=NEW, position=0, anew=True, reached=Reached(3, 10)), (4, 9)),
        (progress(9, 109, 9), (4, 9)),
    ],
)
def test_a_lost_tail_that_reaches_over_the_place_where_the_copy_began_anew_is_told(known, lost):
    """What was copied of the older source cannot be copied again."""
    again = segment(0, 0, 10 if known is AGAIN else NO_OFFSET, writer=NEW, anew=True)
    decision = taken_over(
        own(0, 0, 4),
        marker(4, NEWEST),
        segments=(segment(0, 100, 0), again),
        known=known,
        fence=NEWEST,
        log=EpochEnd(epoch=3, end=4) if known.reached.end > 0 else None,
    )
    assert isinstance(decision, Resume)
    assert (decision.position, decision.last) == (0, Last(sequence=3, source=103, target=3))
    assert decision.event is not None
    assert (decision.event.kind, decision.event.first, decision.event.last) == (Kind.TARGET_TAIL_LOST, *lost)
    assert "everything from source offset 0 on is copied again" in decision.event.text


@pytest.mark.parametrize("thinned", [False, True])
def test_a_tail_that_is_lost_down_to_where_the_map_is_not_exact_hides_nothing_of_the_newer_source(thinned):
    """The offsets of the older source say nothing of the newer one, which still has all of its own."""
    holes = pack([0, 10, 20], [0, 40, 60], thinned=True)
    exact, again = segment(50, 176), segment(0, 0, 100, writer=NEW, anew=True)
    old = Segments(partition=PLACE, writer=OLD, sequence=0, source=100, holes=holes) if thinned else exact.segments
    known = replace(AGAIN, target=109)
    state = state_of([old, segment(0, 100, 0).targets, *records_of([again]), known])
    tail = Tail(start=0, high_watermark=16, batches=(own(0, 0, 15), marker(15, NEWEST)), since=0)
    map_ = state.map_of(PLACE)
    decision = decide(Observed(partition=PLACE, progress=known, map=map_, ids=(7,), tail=tail, start=50, fence=NEWEST))
    assert isinstance(decision, Resume)
    assert (decision.position, decision.anew) == (0, True)
    assert "from source offset 0 on is copied again" in str(decision.event)


@pytest.mark.parametrize(("acknowledged", "position"), [(False, 110), (True, 0)])
def test_a_place_to_begin_that_was_corrected_before_anything_was_copied_there_does_not_count(acknowledged, position):
    """Ordered back to offset 0, and on to 110 again."""
    later, fence = replace(NEW, epoch=6), replace(NEW, epoch=7)
    corrected = segment(0, 0, 10 if acknowledged else NO_OFFSET, writer=NEW, anew=True)
    segments = (segment(0, 100, 0), corrected, segment(0, 110, writer=later, anew=True))
    known = progress(NO_OFFSET, NO_OFFSET, NO_OFFSET, later, position=110, anew=True)
    decision = taken_over(own(0, 0, 10), marker(10, fence), segments=segments, known=known, fence=fence)
    assert isinstance(decision, Resume)
    assert (decision.position, decision.event is None) == (position, not acknowledged)


def test_what_the_cleaner_removed_behind_the_place_where_the_copy_began_anew_is_not_lost():
    """Others have written newer values of the keys: nothing of the new source lies on the target any more."""
    segments = (segment(0, 100, 0), segment(0, 0, 10, writer=NEW, anew=True))
    batches = (own(0, 0, 10), foreign(21, 5), marker(26, NEWEST))
    known = replace(AGAIN, reached=Reached(3, 20))
    log = EpochEnd(epoch=3, end=27)
    decision = taken_over(*batches, segments=segments, known=known, fence=NEWEST, sole_writer=False, log=log)
    assert isinstance(decision, Resume)
    assert decision.position == 10
    assert decision.event is None or "may be there twice" in decision.event.text
    torn = taken_over(
        *batches, segments=segments, known=known, fence=NEWEST, sole_writer=False, log=log._replace(end=10)
    )
    assert went_on(torn)[0] == 0
    assert "offsets 10 to 19" in went_on(torn)[2]


def test_a_former_leader_that_comes_back_has_what_the_newer_epoch_copied_once_more():
    """Nobody acknowledged sequences 5 to 9; the leader that had them was away while epoch 5 copied them elsewhere."""
    newest = replace(NEW, epoch=6)
    there = segment(0, 105, 6, writer=NEW, unguarded=True)
    records = [*records_of([segment(0, 100, 0), there]), end(PLACE, OLD, 5)]
    known = progress(7, 112, 13, writer=NEW)
    state = state_of([*records, known])
    tail = Tail(start=0, high_watermark=11, batches=(own(0, 0, 10), marker(10, newest)), since=0)
    map_ = state.map_of(PLACE)
    decision = decide(Observed(partition=PLACE, progress=known, map=map_, ids=(7,), tail=tail, start=50, fence=newest))
    position, last, event = went_on(decision)
    assert (position, last) == (110, Last(sequence=9, source=109, target=9))
    assert "source offsets 110 to 112; those that the source still has are copied again" in event
    assert isinstance(decision, Resume)
    assert not decision.anew
    assert decision.targets == (end(PLACE, OLD, 10),)
    assert decision.void == (end(PLACE, OLD, 5).key, there.targets.key), "nothing of the newer one is there any more"
    nothing = progress(NO_OFFSET, NO_OFFSET, NO_OFFSET, newest, position=110)
    later = state_of([*records, *decision.targets, nothing])
    for key in decision.void:
        later.forget(key)
    assert [*later.map_of(PLACE).offsets(later.progress[PLACE], (7,))] == [(100, 0, 10)]


def test_what_was_taken_over_a_gap_is_copied_again_with_all_that_is_missing():
    """Sequences 0 to 9 were acknowledged; the log lost 4 to 9, and took 10 to 11 at offset 4 nevertheless."""
    known, over_the_gap = progress(9, 109, 9), own(4, 10, 2)
    decision = taken_over(own(0, 0, 4), over_the_gap, marker(6), known=known)
    position, last, event = went_on(decision)
    assert (position, last) == (104, None)
    assert "all from source offset 104 on is copied again" in event
    assert "from target offset 4 to 6 will be there twice" in event
    assert isinstance(decision, Resume)
    assert decision.anew, "a later takeover must not take the end of the old epoch for the position"
    assert taken_over(over_the_gap, marker(6), known=known, since=4) == ReadFrom(offset=0)
    assert went_on(taken_over(own(0, 10, 2), marker(2), known=known))[0] == 100, "nothing else is left"


IDLE = progress(NO_OFFSET, 109, 9, writer=NEW, position=110, next_sequence=0)
"""The newer epoch has sent nothing yet; the one before has all up to target offset 9 acknowledged."""


@pytest.mark.parametrize("known", [IDLE, replace(IDLE, source=NO_OFFSET, target=NO_OFFSET, reached=Reached(3, 10))])
def test_the_first_batch_of_an_epoch_over_a_torn_log_has_what_the_epoch_before_lost_copied_again(known):
    """Offsets 6 to 9 are lost; any leader takes the first batch of an epoch, here at offset 6."""
    segments, over_the_gap = (segment(0, 100, 0), segment(0, 110, writer=NEW)), own(6, 0, 2, writer=NEW)
    facts: dict[str, Any] = {"segments": segments, "known": known, "fence": NEWEST}
    decision = taken_over(own(0, 0, 6), over_the_gap, marker(8, NEWEST), **facts)
    position, last, event = went_on(decision)
    assert (position, last) == (106, None)
    assert "offsets from 6 on that it had acknowledged" in event
    assert "from target offset 6 to 8 will be there twice" in event
    assert isinstance(decision, Resume)
    assert decision.anew, "a later takeover must not take the end of the old epochs for the position"
    assert isinstance(taken_over(over_the_gap, marker(8, NEWEST), since=6, **facts), ReadFrom)
    assert went_on(taken_over(own(0, 0, 2, writer=NEW), marker(2, NEWEST), **facts))[0] == 100, "nothing else is left"


def test_headers_are_read_back_to_the_last_record_that_the_epoch_before_had_acknowledged():
    """Others have filled the gap: only what lies at that offset tells."""
    segments, newest = (segment(0, 100, 0), segment(0, 110, writer=NEW)), own(10, 0, 2, writer=NEW)
    facts: dict[str, Any] = {"segments": segments, "known": IDLE, "fence": NEWEST, "sole_writer": False}
    assert taken_over(newest, marker(12, NEWEST), since=10, **facts) == ReadFrom(offset=9)
    torn = taken_over(own(0, 0, 6), foreign(6, 4), newest, marker(12, NEWEST), **facts)
    assert went_on(torn)[:2] == (106, None)


@pytest.mark.parametrize("known", [IDLE, replace(IDLE, reached=Reached(3, 10))])
def test_the_first_batch_of_an_epoch_behind_all_of_the_epoch_before_is_no_gap(known):
    decision = taken_over(
        own(7, 7, 3),
        own(10, 0, 2, writer=NEW),
        marker(12, NEWEST),
        segments=(segment(0, 100, 0), segment(0, 110, writer=NEW)),
        known=known,
        fence=NEWEST,
        since=7,
    )
    assert went_on(decision) == (112, Last(sequence=1, source=111, target=11), "")


def test_what_others_wrote_in_between_is_no_gap():
    decision = taken_over(own(0, 0, 10), foreign(10, 5), own(15, 10, 2), marker(17), known=progress(9, 109, 9))
    assert went_on(decision)[0] == 112


def test_late_batches_of_old_data_do_not_hide_those_of_a_newer_epoch():
    """The fence does not hold for data that the broker has forgotten the producer of."""
    newest = replace(NEW, epoch=6)
    segments = (segment(0, 100, 0, unguarded=True), segment(0, 110, 10, writer=NEW, unguarded=True))
    late = own(15, 10, 2)
    decision = taken_over(late, marker(17, newest), segments=segments, since=15, fence=newest)
    assert decision == ReadFrom(offset=0)
    everything = (own(0, 0, 10), own(10, 0, 5, NEW), late, marker(17, newest))
    assert went_on(taken_over(*everything, segments=segments, fence=newest))[0] == 115


def test_a_target_that_fell_back_to_where_the_map_is_thinned_gets_records_twice_rather_than_none():
    holes = pack([0, 10, 20], [0, 40, 60], thinned=True)
    segments = Segments(partition=PLACE, writer=OLD, sequence=0, source=100, holes=holes)
    state = state_of([segments, segment(0, 100, 0).targets, progress(29, 169, 29)])
    for count, position in ((5, 105), (10, 110), (11, 141), (15, 145), (20, 150), (25, 165)):
        tail = Tail(start=0, high_watermark=count + 1, batches=(own(0, 0, count), marker(count)), since=0)
        progressed, known = state.progress[PLACE], state.map_of(PLACE)
        decision = decide(
            Observed(partition=PLACE, progress=progressed, map=known, ids=(7,), tail=tail, start=50, fence=NEW)
        )
        assert went_on(decision)[0] == position
        assert isinstance(decision, Resume)
        assert decision.event is not None
        assert decision.event.kind is Kind.TARGET_TAIL_LOST
        assert ("the offset map is thinned" in decision.event.text) == (position not in (141, 165))


def test_what_the_source_has_lost_too_is_told():
    decision = taken_over(own(0, 0, 5), marker(5), segments=(segment(20, 140, 20),), known=progress(25, 145, 25))
    assert isinstance(decision, Resume)
    assert decision.position == 140
    assert "cannot be copied again" in str(decision.event)


@pytest.mark.parametrize(("known", "to", "position"), [(9, 104, 104), (9, 200, 200), (7, 104, 104), (7, 200, 200)])
def test_a_partition_that_was_moved_and_whose_new_epoch_has_sent_nothing(known, to, position):
    moved = Progress(partition=PLACE, writer=NEW, generation=6, position=to, next_sequence=0, settled=True, anew=True)
    before = progress(known, 100 + known, known)
    segments = (segment(0, 100, 0), segment(0, to, writer=NEW, anew=True))
    state = state_of([*records_of(segments), end(PLACE, OLD, 10), before, moved])
    tail = Tail(start=0, high_watermark=12, batches=(own(7, 7, 3), marker(10), marker(11, NEWEST)), since=7)
    decision = decide(
        Observed(
            partition=PLACE,
            progress=state.progress[PLACE],
            map=state.map_of(PLACE),
            ids=(7,),
            tail=tail,
            start=50,
            fence=NEWEST,
        )
    )
    assert went_on(decision)[::2] == (position, "")


MOVED_IN = Inherited(partition=PLACE, spans=((0, 100),), end=100, points=((20, 20), (50, 50), (90, 90)))
"""MirrorMaker 2 had copied 100 records, each to its own offset."""
TOLD = replace(MOVED_IN, epochs=((0, 0), (2, 80)))
AT_THE_END = progress(NO_OFFSET, NO_OFFSET, NO_OFFSET, position=100, anew=True, reached=Reached(2, 100))


def lost_of_mirror_maker(decision: Decision) -> tuple[int, int, int, int]:
    """Where the copy goes on, where the copies that are left end, and which target offsets the event names."""
    assert isinstance(decision, Resume), decision
    left, event = decision.inherited, decision.event
    assert left is not None
    assert event is not None
    assert event.kind is Kind.TARGET_TAIL_LOST
    assert (left.until, left.end) == (decision.position, event.first)
    assert decision.anew, "what is copied again has nothing to do with what older epochs know"
    return decision.position, left.end, event.first, event.last


@pytest.mark.parametrize(("told", "kept", "position"), [((2, 85), 85, 51), ((0, 60), 60, 51), ((0, 90), 80, 51)])
def test_what_mirror_maker_had_copied_and_the_target_has_lost_is_copied_again(told, kept, position):
    """The flow has copied nothing yet; others may have filled what is missing."""
    for batches in ((marker(kept),), (foreign(kept, 100), marker(kept + 100))):
        decision = taken_over(
            *batches, segments=(), known=AT_THE_END, inherited=TOLD, inherited_log=EpochEnd(*told), since=0
        )
        assert lost_of_mirror_maker(decision) == (position, kept, kept, 99)
        assert isinstance(decision, Resume)
        assert f"everything from source offset {position} on is copied again" in str(decision.event)


def test_a_loss_that_reaches_below_what_the_flow_has_copied_takes_mirror_makers_copies_too():
    decision = taken_over(
        marker(60),
        segments=(segment(0, 100, 100),),
        known=progress(4, 104, 104, reached=Reached(2, 105)),
        inherited=replace(TOLD, epochs=((2, 0),)),
        inherited_log=EpochEnd(2, 60),
        log=EpochEnd(2, 60),
    )
    assert lost_of_mirror_maker(decision) == (51, 60, 60, 104)
    assert isinstance(decision, Resume)
    assert decision.last is None
    assert decision.void, "the flow's own copies have left the map"


def test_what_the_flow_has_written_in_the_place_of_what_was_lost_is_copied_again():
    """As lanes of older releases did, which did not know the leader epoch of what was there."""
    known = replace(AT_THE_END, writer=NEW, reached=Reached(end=100), cut=60)
    decision = taken_over(
        own(60, 0, 20, NEW),
        marker(80, NEWEST),
        segments=(segment(0, 100, writer=NEW, anew=True),),
        known=known,
        inherited=MOVED_IN,
        fence=NEWEST,
    )
    assert isinstance(decision, Resume)
    assert decision.inherited is not None
    assert (decision.position, decision.inherited.end, decision.anew) == (51, 60, True)
    assert decision.event is not None
    assert "offsets 60 to 99, which MirrorMaker 2 had copied" in decision.event.text


@pytest.mark.parametrize("cleaned", [False, True])
def test_what_retention_has_removed_of_mirror_makers_copies_is_not_lost(cleaned):
    decision = taken_over(
        marker(100),
        segments=(),
        known=AT_THE_END,
        inherited=TOLD,
        inherited_log=EpochEnd(2, 101),
        start=100 if cleaned else 0,
    )
    assert decision == Begin(position=100, anew=True)


def test_of_a_record_without_leader_epochs_the_end_of_the_log_tells():
    """The markers of MirrorMaker 2's own transactions were there, those of the flow's fences were not."""
    known = replace(AT_THE_END, reached=Reached(end=100))
    of_mirror_maker = marker(99)._replace(producer_id=OTHER)
    assert taken_over(of_mirror_maker, marker(100), segments=(), known=known, inherited=MOVED_IN) == Begin(
        position=100, anew=True
    )
    torn = taken_over(marker(59, OLD), marker(60), segments=(), known=known, inherited=MOVED_IN, start=40)
    assert lost_of_mirror_maker(torn) == (51, 59, 59, 99)


def test_where_only_a_marker_of_mirror_makers_was_lost_nothing_is_copied_again():
    known = replace(AT_THE_END, reached=Reached(2, 101))
    whole = replace(TOLD, end=101, points=((99, 99),))
    decision = taken_over(marker(100), segments=(), known=known, inherited=whole, inherited_log=EpochEnd(2, 100))
    assert isinstance(decision, Resume)
    assert (decision.position, decision.event) == (100, None)
    assert decision.inherited == replace(whole, end=100)
