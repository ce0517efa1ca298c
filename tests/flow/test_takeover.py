"""What a takeover makes of records that are held against the source; on real clusters: `test_forged_batches`."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sparkmirror.duties.copied_records import Held
from sparkmirror.events import Kind
from sparkmirror.flow.on_record import Run, taken_over
from sparkmirror.flow.positions import Resumed
from sparkmirror.flow.takeover import _behind_others, _from_there
from sparkmirror.model import NO_RECORD, UNKNOWN_RECORD
from sparkmirror.offsets.segments import Segments
from sparkmirror.offsets.state import state_of
from sparkmirror.offsets.tail import Tail
from sparkmirror.offsets.takeover import Observed, Resume, decide
from tests.offsets.segments import records_of
from tests.offsets.test_takeover import NEW, PLACE, own, progress, segment


def observed() -> Observed:
    """Records up to sequence number 9 are in the log, and up to 3 on record."""
    known = progress(3, 103, 3)
    mapped = state_of([*records_of((segment(0, 100),)), known]).map_of(PLACE)
    tail = Tail(start=0, high_watermark=10, batches=(own(0, 0, 10),), since=0)
    return Observed(partition=PLACE, progress=known, map=mapped, ids=(7,), tail=tail, start=50)


@pytest.mark.parametrize(
    ("held", "lacks", "kind"),
    [
        (Held.SAME, False, None),
        (Held.GONE, False, None),
        (Held.CLEANED, False, None),
        (Held.OTHER, False, Kind.FORGED_BATCH),
        (Held.SAME, True, None),
        (Held.GONE, True, None),
        (Held.CLEANED, True, Kind.MAY_REPEAT),
        (Held.OTHER, True, Kind.MAY_REPEAT),
    ],
)
def test_a_log_with_other_records_than_the_map_has_goes_on_behind_the_record_on_record(
    held: Held, lacks: bool, kind: Kind | None
):
    believed = decide(observed())
    assert isinstance(believed, Resume)
    assert believed.position == 110
    decision = _behind_others(observed(), believed, held, lacks=lacks)
    if kind is None:
        assert decision is None
    else:
        assert decision is not None
        assert decision.event is not None
        assert (decision.position, decision.event.kind, decision.anew) == (104, kind, True)


def test_where_the_source_has_deleted_what_would_tell_all_that_it_has_is_copied_again_and_the_event_says_so():
    believed = decide(observed())
    assert isinstance(believed, Resume)
    assert _behind_others(observed(), believed, Held.GONE, lacks=True, start=109) is None, "its log ends before that"
    assert _behind_others(observed(), believed, Held.GONE, lacks=False, start=120) is None
    decision = _behind_others(observed(), believed, Held.GONE, lacks=True, start=120)
    assert decision is not None
    assert decision.event is not None
    assert (decision.position, decision.event.kind, decision.anew) == (120, Kind.MAY_REPEAT, True)
    assert "source offset 109, which the source has deleted; everything from source offset 120" in decision.event.text
    assert "of offsets 104 to 119, which the source has deleted, nothing tells any more" in decision.event.text
    goes_on = _from_there(Resumed(position=110, writer=NEW), decision, 120)
    assert (goes_on.position, goes_on.anew, goes_on.last) == (120, True, UNKNOWN_RECORD)
    assert _from_there(goes_on, decision, 90).last == NO_RECORD


def test_a_group_at_what_the_source_has_deleted_is_led_to_no_place_behind_its_own():
    """The copies of it may still be there, behind the record on record; the map has none of their places."""
    known, believed = progress(3, 103, 3), decide(observed())
    assert isinstance(believed, Resume)
    decision = _behind_others(observed(), believed, Held.GONE, lacks=True, start=120)
    assert decision is not None
    state = state_of([*records_of((segment(0, 100, 0),)), known])
    goes_on = _from_there(Resumed(position=110, writer=NEW), decision, 120)
    run = Run(ids=(7,), generation=5, first_generation=5)
    for one in taken_over(state, run, {PLACE: goes_on}, [decision]).records:
        state.take(one)
    offsets = state.map_of(PLACE).offsets(state.progress[PLACE], run.ids)
    assert (offsets.source_to_target(103), offsets.is_exact(103)) == (3, True)
    assert (offsets.source_to_target(105), offsets.is_exact(105)) == (4, False)
    last = goes_on.last
    for one in records_of((segment(0, 120, 11, NEW),)):
        state.take(replace(one, after=last.before_source if isinstance(one, Segments) else last.before_target))
    state.take(progress(0, 120, 11, writer=NEW, anew=True, before=last.before, first=(120, 11)))
    offsets = state.map_of(PLACE).offsets(state.progress[PLACE], run.ids)
    assert (offsets.source_to_target(105), offsets.is_exact(105)) == (4, False)
    assert (offsets.source_to_target(120), offsets.is_exact(120)) == (11, True)


@pytest.mark.parametrize("held", [Held.OTHER, Held.CLEANED])
def test_what_the_source_has_deleted_behind_the_record_on_record_is_named(held: Held):
    believed = decide(observed())
    assert isinstance(believed, Resume)
    decision = _behind_others(observed(), believed, held, lacks=True, start=106)
    assert decision is not None
    assert decision.event is not None
    assert decision.position == 106
    assert "of offsets 104 to 105, which the source has deleted, nothing tells any more" in decision.event.text
