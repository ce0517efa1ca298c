"""What a Fetch answer brings for one partition, made ready to be sent: runs of batches, holes, positions.

Pure. A *run* is consecutive batches that may go as they are, without a hole between them; a *prepared* batch had to be
opened and is written anew. Sequence numbers are given here, in source order.

Invariants: the items and the dropped batches cover the answer's offsets without a gap; every item that does not
continue where the one before it ended opens a segment; batches that are too old for the broker to remember their
writer lie in segments that say so.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from sparkmirror import batches
from sparkmirror.copy.guard import FORGOTTEN
from sparkmirror.errors import BatchError
from sparkmirror.model import NO_OFFSET, TopicPartition, Writer
from sparkmirror.offsets.pieces import STRIDE
from sparkmirror.offsets.records import SourceEpoch
from sparkmirror.offsets.recovery import Answer
from sparkmirror.offsets.segments import SEQUENCES, Opening, Segments, segments_of

BATCH_BYTES = 1 << 20
SMALL_BYTES = 32 << 10
SMALL_COMPRESSED_BYTES = 8 << 10
"""Batches below these sizes are merged when several wait; opening a compressed one costs more than it saves."""

Aborted: TypeAlias = tuple[tuple[int, int], ...]


@dataclass(slots=True)
class Ticket:
    """Stands for segments that are being written; batches beyond them wait until it is ``acknowledged``."""

    acknowledged: bool = False


@dataclass(slots=True, eq=False)
class Unconfirmed:
    """An answer by name, whose topic's id is still to be confirmed; see ``topic_id_check``.

    Attributes:
        ticket: what its batches wait for; None if it brought none.
        ahead: what is to be put on record before they are sent.
        answer: where the log ended, for the recovery point; None if it did not say.
        confirmed: whether the topic is the planned one.
    """

    ticket: Ticket | None = None
    ahead: Sequence[Segments | SourceEpoch] = ()
    answer: Answer | None = None
    confirmed: bool = False


@dataclass(slots=True)
class Run:
    """Batches of an answer that may go as they are, without a hole between them; all small or all large.

    Attributes:
        records: the answer's bytes.
        index, kept: of the answer.
        at, stop: the columns that wait; ``at`` moves as they are sent.
        small: whether they are merged when several wait.
        sequence: of the first record of column ``at``.
        arrived: on the monotonic clock.
        ticket: what must be acknowledged first, or None.
        flagged: whether the segment that they lie in says that it holds unguarded batches.
    """

    records: bytes | memoryview
    index: batches.Indexed
    kept: batches.Kept
    at: int
    stop: int
    small: bool
    sequence: int
    arrived: float
    ticket: Ticket | None = None
    flagged: bool = False

    @property
    def held(self) -> int:
        """Bytes from ``at`` to ``stop``."""
        if self.at == self.stop:
            return 0
        start, size = self.index.start, self.index.size
        return int(start[self.stop - 1] + size[self.stop - 1] - start[self.at])


@dataclass(slots=True)
class Prepared:
    """One batch that was written anew, with the sequence number in it; ``batches``: of so many of the source."""

    payload: memoryview
    sequence: int
    count: int
    source: int
    last_source: int
    end: int
    newest_ms: int
    arrived: float
    batches: int = 1
    ticket: Ticket | None = None
    flagged: bool = False

    @property
    def held(self) -> int:
        """Bytes of the batch."""
        return len(self.payload)


Item: TypeAlias = Run | Prepared


@dataclass(slots=True)
class Arrival:
    """One answer for one partition.

    Attributes:
        items: to be sent, in order.
        openings: where pieces of the offset map begin in it, in order.
        segments: the record that says so, to be written ahead; None without any.
        end: the source offset to fetch from next.
        next_sequence: after the last item.
        continues_at: the source offset that continues the last segment.
        flagged: whether that segment says that it holds unguarded batches, as do all that begin in it.
        dropped: batches not copied, on purpose.
        obstacle: why the batch at ``end`` cannot be copied, or None.
    """

    items: list[Item] = field(default_factory=list)
    openings: list[Opening] = field(default_factory=list)
    segments: Segments | None = None
    end: int = NO_OFFSET
    next_sequence: int = 0
    continues_at: int = NO_OFFSET
    flagged: bool = False
    dropped: int = 0
    obstacle: BatchError | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where the copy of a partition stands when an answer comes.

    Attributes:
        position: the source offset that was asked for.
        until: copy nothing from here on, or `NO_OFFSET`.
        next_sequence: for the next record.
        continues_at: the source offset that continues the current segment; `NO_OFFSET` if none is open.
        flagged: whether the current segment says that it holds unguarded batches.
        old_ms: batches whose newest timestamp is below this are, or will soon be, unguarded; see ``copy.guard``.
        partition: of the source.
        writer: producer id and epoch.
        before: the source offset of the last record of an older epoch, where that epoch has none yet.
        anew: whether that epoch is, for its segments.
        left_out: source offsets of records that are too large and have been seen to elsewhere.
        batch_bytes: how large a batch may become that is made of several.
        small, small_compressed: bytes below which an uncompressed, or a compressed, batch is merged with its neighbours
            when several wait.
    """

    partition: TopicPartition
    position: int
    until: int
    next_sequence: int
    continues_at: int
    writer: Writer
    before: int = NO_OFFSET
    anew: bool = False
    flagged: bool = False
    old_ms: int = FORGOTTEN
    left_out: frozenset[int] = frozenset()
    batch_bytes: int = BATCH_BYTES
    small: int = SMALL_BYTES
    small_compressed: int = SMALL_COMPRESSED_BYTES


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """What a flow asks of every batch of a partition.

    Attributes:
        target: the target topic's facts.
        read_committed: whether aborted data is dropped.
        loops: producer ids whose batches came from the target (see ``batches.producers``).
        decompression_limit: the most bytes that one source batch may decompress to.
        provenance: what each record's header is to name, and to be dropped for; None for no header.
    """

    target: batches.TargetTopic
    read_committed: bool
    loops: npt.NDArray[np.int64]
    decompression_limit: int = batches.DEFAULT_LIMIT
    provenance: batches.Provenance | None = None

    def without(self, loops: npt.NDArray[np.int64]) -> Rules:
        """The same rules with the producers of ``loops`` dropped."""
        if loops is self.loops:
            return self
        return replace(self, loops=loops)


def arrival(
    index: batches.Indexed,
    records: bytes | memoryview,
    aborted: Aborted,
    place: Place,
    rules: Rules,
    ways: batches.Ways | None = None,
) -> Arrival:
    """Drops what must not be copied, opens what cannot go as it is, and gives out sequence numbers.

    Args:
        index: of ``records``.
        records: the bytes of the answer.
        aborted: (producer id, first offset) of aborted transactions.
        place: where the copy stands.
        rules: what the flow asks.
        ways: what batches have come through before the source, where their records do not tell.

    A batch that cannot be copied is the arrival's ``obstacle``; what lies before it is taken.
    """
    index, kept, obstacle = _keep(index, aborted, place, rules)
    if rules.provenance is not None:
        marked = batches.mark(index, kept, rules.provenance, ways, rules.decompression_limit)
        index, kept, obstacle = marked.indexed, marked.kept, marked.error or (obstacle if _all(marked, index) else None)
        records, rules = memoryview(index.data), _as_compressed(rules, marked.codec)
    codes = batches.needs(index, kept, rules.target)
    found, kept_count = batches.stretches(
        index, kept, codes, small=place.small, small_compressed=place.small_compressed, until=place.until
    )
    taken = len(index) if place.until == NO_OFFSET else int(np.searchsorted(index.base_offset, place.until))
    made = _Making(index, records, kept, place, taken)
    arrived = made.arrival
    arrived.obstacle = obstacle
    arrived.end, arrived.dropped = max(place.position, _end(index, taken)), taken - kept_count
    for stretch in found:
        try:
            made.add(stretch, rules)
        except BatchError as error:
            arrived.obstacle = error
            arrived.end = max(place.position, int(index.base_offset[made.column]))
            break
    if arrived.openings:
        arrived.segments = segments_of(
            place.partition, place.writer, arrived.openings, unguarded=arrived.flagged, anew=place.anew
        )
    return arrived


def _all(marked: batches.Marked, index: batches.Indexed) -> bool:
    return len(marked.indexed) == len(index)


def _as_compressed(rules: Rules, codec: batches.Codec) -> Rules:
    """The same rules, with the codec that what was opened is compressed with again."""
    if rules.target.codec is not None or codec is batches.Codec.NONE:
        return rules
    return replace(rules, target=replace(rules.target, codec=codec))


def _keep(
    index: batches.Indexed, aborted: Aborted, place: Place, rules: Rules
) -> tuple[batches.Indexed, batches.Kept, BatchError | None]:
    """Decides which batches stay; where one makes that impossible, for those before it."""

    def decide(some: batches.Indexed) -> batches.Kept:
        transactions = aborted if rules.read_committed else None
        return batches.keep(some, start_offset=place.position, aborted=transactions, dropped_producers=rules.loops)

    try:
        return index, decide(index), None
    except BatchError as error:
        before = int(np.searchsorted(index.base_offset, error.offset))
        sound = replace(index, table=np.ascontiguousarray(index.table[:, :before]))
        return sound, decide(sound), error


def _end(index: batches.Indexed, taken: int) -> int:
    """The offset after the first ``taken`` batches, and after what is missing behind them where the next one tells."""
    if taken < len(index):
        return int(index.base_offset[taken])
    return int(index.last_offset[-1]) + 1 if taken else NO_OFFSET


class _Making:
    """An arrival while it is put together of the first ``taken`` columns; ``column`` is the first that is not in it."""

    def __init__(
        self, index: batches.Indexed, records: bytes | memoryview, kept: batches.Kept, place: Place, taken: int
    ) -> None:
        self._index = index
        self._records = records
        self._kept = kept
        self._place = place
        self._now = time.monotonic()
        self.column = 0
        newest = index.max_timestamp[:taken][kept.mask[:taken]]
        self._old = bool(newest.size and newest.min() < place.old_ms)
        self.arrival = Arrival(
            next_sequence=place.next_sequence, continues_at=place.continues_at, flagged=place.flagged
        )

    def add(self, stretch: batches.Stretch, rules: Rules) -> None:
        """Adds a stretch.

        Raises:
            BatchError: a batch that must be written anew cannot be; those before it are in.
        """
        self.column = stretch.first
        before = self.arrival.next_sequence
        if stretch.kind == batches.Kind.OPEN:
            self._open(stretch, rules)
        else:
            self._run(stretch)
        if before // STRIDE != self.arrival.next_sequence // STRIDE:
            self.arrival.continues_at = NO_OFFSET  # a segment without a hole: see `STRIDE`

    def _run(self, stretch: batches.Stretch) -> None:
        """Adds batches that may go as they are."""
        index, made = self._index, self.arrival
        self._segment(made.next_sequence, int(index.base_offset[stretch.first]))
        made.items.append(
            Run(
                records=self._records,
                index=index,
                kept=self._kept,
                at=stretch.first,
                stop=stretch.stop,
                small=stretch.kind == batches.Kind.SMALL,
                sequence=made.next_sequence,
                arrived=self._now,
                flagged=made.flagged,
            )
        )
        made.next_sequence = (made.next_sequence + stretch.records) % SEQUENCES
        made.continues_at = int(index.last_offset[stretch.stop - 1]) + 1

    def _open(self, stretch: batches.Stretch, rules: Rules) -> None:
        """Adds batches that must be written anew, as many in one as fit; one of them may become several."""
        writer = self._place.writer
        made = batches.merge_all(
            batches.Run(indexed=self._index, kept=self._kept, first=stretch.first, stop=stretch.stop),
            rules.target,
            batches.Stamp(producer_id=writer.producer_id, epoch=writer.epoch, sequence=self.arrival.next_sequence),
            batch_size=self._place.batch_bytes,
            decompression_limit=rules.decompression_limit,
            left_out=self._place.left_out,
        )
        for merging in made:
            for piece in merging.batches:
                self._prepared(piece, merging.column, is_last=piece is merging.batches[-1])
            self.column = merging.column

    def _prepared(self, piece: batches.Merged, stop: int, *, is_last: bool) -> None:
        """Adds a batch that was written anew from the columns up to ``stop``, the last one of these or not."""
        made, runs = self.arrival, piece.runs.T.tolist()
        stops = [record for record, _ in runs[1:]] + [piece.count]
        for (record, source), stop_record in zip(runs, stops, strict=True):
            self._segment((made.next_sequence + record) % SEQUENCES, source)
            made.continues_at = source + stop_record - record
        made.items.append(
            Prepared(
                payload=piece.batch,
                sequence=made.next_sequence,
                count=piece.count,
                source=piece.first_offset,
                last_source=piece.last_offset,
                end=int(self._index.last_offset[stop - 1]) + 1 if is_last else piece.last_offset + 1,
                newest_ms=piece.max_timestamp,
                arrived=self._now,
                batches=int(self._kept.mask[self.column : stop].sum()),
                flagged=made.flagged,
            )
        )
        made.next_sequence = (made.next_sequence + piece.count) % SEQUENCES

    def _segment(self, sequence: int, source: int) -> None:
        """Opens a segment, unless ``source`` continues the one before and that one says what it holds."""
        made = self.arrival
        if source != made.continues_at or (self._old and not made.flagged):
            made.flagged = self._old
            after = made.continues_at - 1
            if made.continues_at == NO_OFFSET:
                after = self._place.before if sequence == 0 else NO_OFFSET
            made.openings.append(Opening(sequence, source, after))
