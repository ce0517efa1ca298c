"""What an internal topic that has lost its end lacks of the offset map, by what its owner has read before: pure.

Invariants:
    * Only what a lane does not write again is written: its last segment is acknowledged (``offsets.condensing``).
    * What was removed before the loss, and is there again, is removed again.
    * The record of the newest start is there again, and a clean end that it had taken away is gone again: without the
      two, an earlier run's end would vouch for what the newest run leaves. So is the mark that the flow's positions are
      with MirrorMaker 2, by which the next start would be refused.
    * Progress stays as it is: a lane writes newer progress meanwhile. What only that of an older epoch told of the map
      is written in its place, as a start does. Once nobody else writes, progress that is gone is there again too: of a
      partition that stood still no lane has written any since. It says that it was restored, so that nobody takes it
      for newer than the loss: segments that its owner had not read stay lost.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

from sparkmirror.model import NO_OFFSET, TopicPartition
from sparkmirror.offsets.condensing import Half, halves
from sparkmirror.offsets.inherited import ELSEWHERE_KEY, Inherited
from sparkmirror.offsets.map import PartitionMap
from sparkmirror.offsets.records import STOPPED_KEY, FlowRecord, Progress
from sparkmirror.offsets.segments import MapRecord, Segments, Targets, TargetsKey
from sparkmirror.offsets.state import JournalState


class Lacking(NamedTuple):
    """What to write, what to remove, and whether something waits until it is acknowledged."""

    records: tuple[MapRecord | Inherited | Progress | FlowRecord, ...] = ()
    keys: tuple[str, ...] = ()
    waits: bool = False


def lacking(known: JournalState, left: JournalState, ids: Sequence[int], *, over: bool = False) -> Lacking:
    """What the topic lacks.

    Args:
        known: what its owner knows.
        left: what the topic says, read to the same end.
        ids: the flow's producer ids in the order in which they were registered.
        over: whether nobody but the owner writes any more.
    """
    records, keys, waits = list[MapRecord | Inherited | Progress | FlowRecord](), list[str](), False
    for half in halves(known, ids):
        there = left.map_of(half.partition).half(half.writer, is_source=half.is_source)
        for count, block in half.line.stored():
            if there.get(block.sequence) == block:
                continue
            if over or count + block.holes.records <= half.settled:
                records.append(half.record(block))
            else:
                waits = True
        if not half.is_source:
            records += _ends(half, left)
    records += (one for one in (*known.endings(), *_over(known, left)) if not _has(left, one))
    keys += _removed(known, left, ids)
    for partition in known.maps:
        records += known.maps[partition].others_than(left.map_of(partition), partition)
    records += [one for here, one in known.taken_over.items() if left.taken_over.get(here) != one]
    records += _progress(known, left) if over else ()
    if known.flow is not None and left.flow != known.flow:
        records.append(known.flow)  # behind the rest, without which nothing would tell that the topic had lost its end
    if known.stopped is None and left.stopped is not None:
        keys.append(STOPPED_KEY)
    if known.elsewhere is None and left.elsewhere is not None:
        keys.append(ELSEWHERE_KEY)
    return Lacking(tuple(records), tuple(keys), waits)


def of_partitions(
    known: JournalState, partitions: Collection[TopicPartition], ids: Sequence[int]
) -> Iterator[MapRecord]:
    """All that is known of the map of partitions that nobody else writes, whatever of it the topic lacks.

    An end of an epoch goes on record behind it: without what lies before that, the epoch would seem to go straight on.
    """
    for half in halves(known, ids):
        if half.partition in partitions:
            yield from (half.record(block) for _, block in half.line.stored())
    for partition in known.maps.keys() & partitions:
        yield from known.maps[partition].others_than(PartitionMap(), partition)


def _ends(half: Half, left: JournalState) -> Iterator[Targets]:
    """Ends of an epoch that are gone."""
    there = left.map_of(half.partition).pieces_of(half.writer).end_sequences
    for sequence in half.pieces.end_sequences:
        if sequence not in there:
            yield Targets(partition=half.partition, writer=half.writer, sequence=sequence, target=NO_OFFSET)


def _over(known: JournalState, left: JournalState) -> Iterator[MapRecord]:
    """The ends of epochs behind which newer ones have sent nothing yet, where the progress that told them is gone."""
    for partition, progress in known.acknowledged.items():
        last = left.last(partition)
        if last is None or (last.writer, last.sequence) != (progress.writer, progress.sequence):
            yield from known.map_of(partition).closing(progress)


def _progress(known: JournalState, left: JournalState) -> Iterator[Progress]:
    """The newest progress of partitions where that is gone, behind that of the epoch which had the last record."""
    for partition, newest in known.progress.items():
        before = known.acknowledged.get(partition)
        if before is not None and left.acknowledged.get(partition) != before:
            yield replace(before, restored=True)
        if left.progress.get(partition) != newest:
            sent = newest.sequence != NO_OFFSET
            there = newest if sent else replace(newest, source=NO_OFFSET, target=NO_OFFSET)
            yield replace(there, restored=True)


def _has(state: JournalState, record: MapRecord) -> bool:
    if not isinstance(record, Segments | Targets):
        return state.map_of(record.partition).has(record)
    pieces = state.map_of(record.partition).pieces_of(record.writer)
    if isinstance(record, Targets) and record.target == NO_OFFSET:
        return record.sequence in pieces.end_sequences
    line = pieces.targets if isinstance(record, Targets) else pieces.sources
    return record.sequence in line.taken()


def _removed(known: JournalState, left: JournalState, ids: Sequence[int]) -> Iterator[str]:
    """The keys of what is there again."""
    for half in halves(left, ids):
        here = _known_map(known, half.partition)
        there = here.half(half.writer, is_source=half.is_source)
        ends = () if half.is_source else here.pieces_of(half.writer).end_sequences
        for _, block in half.line.stored():
            if block.sequence not in there and block.sequence not in ends:
                yield half.key(block.sequence)
        if not half.is_source:
            for sequence in half.pieces.end_sequences:
                if sequence not in there and sequence not in ends:
                    yield TargetsKey(half.partition, half.writer, sequence).text
    for partition, there_again in left.maps.items():
        yield from _known_map(known, partition).removed_since(there_again, partition)


def _known_map(state: JournalState, partition: TopicPartition) -> PartitionMap:
    return state.maps.get(partition, PartitionMap())
