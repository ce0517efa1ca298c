"""What goes on record of a partition that was taken over, or that the source does not have any more."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from sparkmirror.events import Event, Kind
from sparkmirror.flow.on_record import Run, departed, progress_at
from sparkmirror.flow.positions import Resumed
from sparkmirror.model import NO_OFFSET, Reached, TopicPartition, Writer
from sparkmirror.offsets.records import Progress, SourceEpoch
from sparkmirror.offsets.recovery import UNKNOWN_MS
from sparkmirror.offsets.state import state_of

HERE, NEW = TopicPartition("orders", 0), Writer(producer_id=7, epoch=4)
BEFORE = Progress(
    partition=HERE,
    writer=Writer(producer_id=7, epoch=3),
    generation=2,
    position=500,
    next_sequence=90,
    sequence=89,
    source=499,
    target=620,
    end=510,
    leader_epoch=3,
    topic_id="aa",
    target_id="bb",
    records=90,
    bytes=900,
    newest_ms=44,
    recovery_ms=55,
    time_ms=66,
    lane="lane-0.0",
    released=True,
    error="given back",
    cut=600,
)


def at(
    position: int,
    before: Progress | None = BEFORE,
    first_generation: int = 2,
    ahead: SourceEpoch | None = None,
    **facts: Any,
) -> Progress:
    where = Resumed(position=position, writer=NEW, reached=Reached(5, 640), **facts)
    state = state_of([record for record in (before, ahead) if record is not None])
    return progress_at(HERE, where, state, Run(ids=(7,), generation=3, first_generation=first_generation))


@pytest.mark.parametrize("position", [400, 500, 600])
def test_the_new_epoch_has_sent_nothing_and_is_nobodys_yet(position):
    found = at(position, anew=True)
    assert (found.writer, found.generation, found.position, found.next_sequence) == (NEW, 3, position, 0)
    assert (found.sequence, found.source, found.target, found.cut) == (NO_OFFSET,) * 4
    assert (found.settled, found.released, found.error, found.lane, found.anew) == (True, False, "", "", True)
    assert found.reached == Reached(5, 640)


def test_what_is_known_of_the_source_stays_and_when_it_was_asked_too():
    found = at(500)
    assert (found.end, found.leader_epoch, found.topic_id, found.target_id) == (510, 3, "aa", "bb")
    assert (found.newest_ms, found.recovery_ms, found.time_ms) == (44, 55, 66)


def test_a_position_further_back_has_no_recovery_point():
    found = at(400)
    assert (found.newest_ms, found.recovery_ms, found.time_ms, found.leader_epoch) == (-1, UNKNOWN_MS, 66, 3)


def test_a_position_further_on_may_lie_in_a_later_leader_epoch_of_the_source():
    """Or the end of the older one would look like a tail that the source has lost."""
    later = SourceEpoch(partition=HERE, epoch=5, offset=550, topic_id="aa")
    assert (at(600, ahead=later).leader_epoch, at(600, ahead=later).recovery_ms) == (5, 55)
    assert at(600).leader_epoch == 3, "a later epoch would be on record"
    assert at(600, ahead=replace(later, topic_id="zz")).leader_epoch == 3, "that of another topic of the name"
    assert at(500, ahead=later).leader_epoch == 3, "progress knows its own position"


@pytest.mark.parametrize(("first_generation", "records"), [(2, 90), (3, 0)])
def test_only_what_this_run_has_copied_counts(first_generation, records):
    found = at(400, first_generation=first_generation)
    assert (found.records, found.bytes) == (records, 10 * records)


def test_the_event_of_a_loss_is_on_record_with_it():
    event = Event(kind=Kind.TARGET_TAIL_LOST, text="lost", first=600)
    assert at(400, event=event).events == (event,)
    assert at(400, None, event=event).position == 400


def test_the_newest_is_the_one_that_goes_back():
    assert state_of([BEFORE, at(400)]).progress[HERE].position == 400
    late = replace(BEFORE, position=510)
    assert state_of([BEFORE, at(400), late]).progress[HERE].position == 400, "a former lane's last word comes late"


@pytest.mark.parametrize("error", ["given back", ""])
@pytest.mark.parametrize(
    ("kind", "leaves"), [(Kind.SOURCE_DELETED, True), (Kind.SOURCE_SHRANK, True), (Kind.UNAUTHORIZED, False)]
)
def test_a_partition_whose_source_was_deleted_stands_still_no_longer(kind: Kind, leaves: bool, error: str):
    before, event = replace(BEFORE, error=error), Event(kind=kind, text="what became of it")
    state = state_of([before])
    written = departed(state, {HERE: event, TopicPartition("never copied", 0): event})
    gone = replace(before, error="", events=(event,), restored=True)  # a driver writes it, maybe behind a loss
    assert written == ((gone,) if leaves and error else ())
    for record in written:
        state.take(record)
        assert state.progress[HERE].error == ""
        assert departed(state, {HERE: event}) == ()
