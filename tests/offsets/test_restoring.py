"""What the owner of an internal topic puts there again, once that has lost its end."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sparkmirror.model import Writer
from sparkmirror.offsets.condensing import condense
from sparkmirror.offsets.inherited import ELSEWHERE_KEY, Elsewhere
from sparkmirror.offsets.records import STOPPED_KEY, FlowRecord, Progress, Record, Stopped
from sparkmirror.offsets.restoring import Lacking, lacking
from sparkmirror.offsets.segments import Bounded, Moved, Ordered, Parted, Segments, Targets
from sparkmirror.offsets.state import JournalState
from tests.offsets.test_lost_between_epochs import IDS, INHERITED, PLACE, Flow, check, read

OLDER = Writer(producer_id=7, epoch=1)


def restored(flow: Flow, known: JournalState, *, over: bool = False) -> Lacking:
    """Puts on record again what the topic lacks, by what its owner knows."""
    found = lacking(known, read(flow.journal), IDS, over=over)
    flow.journal += [*found.records, *found.keys]
    for record in found.records:
        known.take(record)  # as an owner reads what it has written
    return found


@settings(max_examples=100, deadline=None)
@given(st.randoms(use_true_random=False), st.integers(1, 4), st.booleans())
def test_what_the_owner_has_read_is_there_again_and_the_map_is_exact(chance: Random, epochs: int, joined: bool):
    flow = Flow(chance)
    for _ in range(epochs):
        flow.run(chance.randint(1, 5))
    kept = chance.randint(0, len(flow.journal) - 1)
    if joined:
        condensed = condense(read(flow.journal), IDS, 1 << 20, neighbours=2)
        flow.journal += [*condensed.records, *condensed.void]
    known = read(flow.journal)
    del flow.journal[kept:]
    later = len(flow.journal)
    flow.publish()
    for record in flow.journal[later:]:
        assert not isinstance(record, str)
        known.take(record)
    assert not restored(flow, known).waits
    assert check(flow) == 0
    assert lacking(known, read(flow.journal), IDS) == Lacking()


def test_what_a_lane_may_still_write_again_waits_until_it_is_acknowledged():
    flow = Flow(Random(3))
    flow.run(2)
    kept = len(flow.journal)
    flow.answer()
    flow.journal = [*flow.journal[:kept], *(one for one in flow.journal[kept:] if not hasattr(one, "settled"))]
    known = read(flow.journal)
    del flow.journal[kept:]
    found = lacking(known, read(flow.journal), IDS)
    assert found == Lacking(waits=True)
    flow.publish()
    known.take(flow.journal[-1])  # type: ignore[arg-type]  # a record
    assert not restored(flow, known).waits
    assert check(flow) == 0


@settings(max_examples=100, deadline=None)
@given(st.randoms(use_true_random=False), st.integers(1, 4), st.booleans())
def test_once_nobody_else_writes_all_that_is_known_is_there_again_progress_too(
    chance: Random, epochs: int, ordered: bool
):
    """Partitions that stood still have no lane that would write their progress again."""
    flow = Flow(chance)
    for _ in range(epochs):
        flow.run(chance.randint(0, 3))
    flow.begin()
    if ordered:
        flow.journal.append(Segments(partition=PLACE, writer=flow.writer, sequence=0, source=flow.source, anew=True))
    flow.publish()
    known = read(flow.journal)
    kept = chance.randint(0, len(flow.journal) - 1)
    del flow.journal[kept:]
    assert not restored(flow, known, over=True).waits
    assert lacking(known, read(flow.journal), IDS, over=True) == Lacking()
    assert {one.restored for one in flow.journal[kept:] if isinstance(one, Progress)} <= {True}
    left = read(flow.journal)
    assert (left.progress, left.acknowledged) == (known.progress, known.acknowledged)
    assert check(flow) == 0


@pytest.mark.parametrize("seed", range(5))
def test_what_a_partition_had_copied_that_has_been_idle_since_the_start_is_there_again(seed: int):
    flow = Flow(Random(seed))
    flow.run(1)
    kept = len(flow.journal)
    flow.answer()
    flow.publish()
    flow.begin()
    flow.publish()
    known = read(flow.journal)
    del flow.journal[kept:]
    flow.publish()
    known.take(flow.journal[-1])  # type: ignore[arg-type]  # a record
    assert check(flow) > 0
    assert not restored(flow, known).waits
    assert check(flow) == 0


def test_what_is_not_of_a_line_and_was_removed_before_the_loss_is_removed_again():
    flow = Flow(Random(4))
    flow.run(1)
    others = (
        Moved(partition=PLACE, writer=OLDER),
        Ordered(partition=PLACE, writer=OLDER, stood=4, source=9),
        Bounded(partition=PLACE, source=1, target=2),
    )
    flow.journal += others
    kept = len(flow.journal)
    flow.journal += [one.key for one in others]
    known = read(flow.journal)
    del flow.journal[kept:]
    assert set(restored(flow, known).keys) == {one.key for one in others}
    assert lacking(known, read(flow.journal), IDS) == Lacking()


def test_what_was_removed_before_the_loss_is_removed_again():
    flow = Flow(Random(4))
    flow.run(3)
    gone = next(one for one in flow.journal if isinstance(one, Targets))
    kept = len(flow.journal)
    flow.journal.append(gone.key)
    known = read(flow.journal)
    del flow.journal[kept:]
    found = restored(flow, known)
    assert found.keys == (gone.key,)


def test_what_is_not_of_a_line_is_there_again():
    flow = Flow(Random(5))
    flow.run(1)
    kept = len(flow.journal)
    others: list[Record] = [
        Parted(partition=PLACE, writer=OLDER, source=4),
        Moved(partition=PLACE, writer=OLDER),
        Ordered(partition=PLACE, writer=OLDER, stood=4, source=9),
        Bounded(partition=PLACE, source=1, target=2),
        replace(INHERITED, spans=((0, 3),)),
    ]
    flow.journal += others
    known = read(flow.journal)
    del flow.journal[kept:]
    assert set(restored(flow, known).records) == set(others)
    assert lacking(known, read(flow.journal), IDS) == Lacking()


def test_a_flow_that_has_its_positions_back_from_mirror_maker_is_not_handed_over_again():
    """Its start took the mark away; the next one would be refused."""
    flow = Flow(Random(6))
    flow.journal.append(Elsewhere(topic="connect-offsets", time_ms=9))
    kept = len(flow.journal)
    flow.journal.append(ELSEWHERE_KEY)
    flow.run(2)
    known = read(flow.journal)
    del flow.journal[kept:]
    assert read(flow.journal).elsewhere is not None
    assert ELSEWHERE_KEY in restored(flow, known).keys
    left = read(flow.journal)
    assert left.elsewhere is None
    assert lacking(known, left, IDS) == Lacking()


def test_the_newest_start_is_there_again_behind_the_rest_and_the_clean_end_that_it_took_away_is_gone_again():
    flow = Flow(Random(6))
    before = FlowRecord(source_alias="A", source_id="a", target_alias="B", target_id="b", naming="n", generation=1)
    newest, ended = replace(before, generation=2), Stopped(generation=1, time_ms=9)
    flow.journal += [before, ended]
    kept = len(flow.journal)
    flow.journal += [newest, STOPPED_KEY]
    flow.run(2)
    known = read(flow.journal)
    del flow.journal[kept:]
    found = restored(flow, known)
    assert found.records[-1] == newest
    assert STOPPED_KEY in found.keys
    left = read(flow.journal)
    assert (left.flow, left.stopped, left.lacks_start) == (newest, None, False)
    assert lacking(known, left, IDS) == Lacking()
