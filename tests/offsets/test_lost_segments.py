"""An internal topic that has lost records of the offset map: nothing is told too far, and what may be wrong is said."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sparkmirror.model import Writer
from sparkmirror.offsets.map import OffsetMap
from sparkmirror.offsets.records import Progress
from sparkmirror.offsets.segments import MapRecord, Segments, Targets
from sparkmirror.offsets.state import JournalState, state_of
from tests.offsets.test_condensing import IDS, PLACE, Copy

LATER = Writer(producer_id=7, epoch=2)


def copied(copy: Copy, answers: int) -> list[MapRecord]:
    return [record for _ in range(answers) for record in copy.answer(others=copy.chance.random() < 0.5)]


def check(copy: Copy, mapped: OffsetMap, records: int) -> int:
    """Nothing leads too far, what is called exact is, and gives how many records are not called exact."""
    unsure = 0
    for source, target in copy.lies[:records]:
        there, back = mapped.source_to_target(source), mapped.target_to_source(target)
        assert there is not None
        assert back is not None
        assert there <= target
        assert back <= source
        assert there == target or not mapped.is_exact(source)
        assert back == source or not mapped.is_exact_back(target)
        unsure += not mapped.is_exact(source)
    return unsure


def of(state: JournalState, progress: Progress) -> OffsetMap:
    return state.map_of(PLACE).offsets(progress, IDS)


@settings(max_examples=60, deadline=None)
@given(st.randoms(use_true_random=False), st.integers(1, 6), st.integers(1, 6), st.integers(0, 6), st.booleans())
def test_lost_segments_leave_only_what_lay_there_inexact(chance: Random, before: int, lost: int, later: int, settled):
    copy = Copy(chance)
    kept = [*copied(copy, before)]
    gone = copied(copy, lost)
    behind = len(copy.lies)
    kept += copied(copy, later)
    progress = replace(copy.progress(len(copy.lies)), settled=settled)
    state = state_of([*kept, progress])
    mapped = of(state, progress)
    check(copy, mapped, len(copy.lies))
    if later and not any(isinstance(one, Targets) for one in gone):
        assert all(mapped.is_exact(source) for source, _ in copy.lies[behind:])
    assert bool(state.map_of(PLACE).lost(IDS)) == any(isinstance(one, Segments) and _jumps(one) for one in gone)
    # The next start puts on record what only the progress told; joined and thinned the map says no more than before.
    again = state_of([*kept, *state.endings(), progress])
    check(copy, of(again, progress), len(copy.lies))
    copy.state = again
    copy.condense(neighbours=2)
    check(copy, of(again, progress), len(copy.lies))


@settings(max_examples=60, deadline=None)
@given(st.randoms(use_true_random=False), st.integers(1, 4), st.integers(1, 4), st.integers(1, 4))
def test_a_progress_among_lost_segments_ends_the_copy_where_its_sequence_number_says(
    chance: Random, before: int, lost: int, later: int
):
    """Segments are written ahead of progress: those of a lost part of the topic are missing, later ones are there."""
    copy = Copy(chance)
    kept = copied(copy, before)
    first = len(copy.lies)
    gone = copied(copy, lost)
    last = len(copy.lies)
    kept += [one for one in gone if isinstance(one, Targets)]
    kept += [one for one in copied(copy, later) if isinstance(one, Segments)]
    progress = copy.progress(chance.randint(first, last))
    state = state_of([*kept, progress])
    mapped = of(state, progress)
    check(copy, mapped, progress.next_sequence)
    end = mapped.source_to_target(progress.position)
    assert end is not None
    assert end == progress.target + 1 or not mapped.is_exact(progress.position)
    assert end <= progress.target + 1


def _jumps(one: Segments) -> bool:
    return one.source != one.after + 1 or bool(one.holes.packed)


@pytest.mark.parametrize("missing", [Segments, Targets])
def test_an_epoch_that_is_over_stays_inexact_where_segments_were_lost(missing):
    copy = Copy(Random(3))
    kept = copied(copy, 3)
    kept += [one for one in copied(copy, 3) if not isinstance(one, missing)]
    progress = replace(copy.progress(len(copy.lies)), settled=True, target_id="t")
    start = [*kept, progress, *state_of([*kept, progress]).endings()]
    fresh = replace(progress, writer=LATER, generation=2, sequence=-1, source=-1, target=-1, next_sequence=0)
    state = state_of([*start, fresh])
    gone = [one for one in start if one.key in state.outdated]
    assert check(copy, of(state, fresh), len(copy.lies)) > 0
    assert check(copy, of(state_of([one for one in [*start, fresh] if one not in gone]), fresh), len(copy.lies)) > 0


def test_a_whole_map_is_exact_whatever_progress_comes_with_it():
    copy = Copy(Random(4))
    kept = copied(copy, 9)
    for records in (1, 5, len(copy.lies)):
        progress = copy.progress(records)
        state = state_of([*kept, progress])
        assert check(copy, of(state, progress), records) == 0
        assert not state.map_of(PLACE).lost(IDS)
        assert state.endings() == []
