"""The next batch of a queue: one as it is, several small ones merged, or one that was written anew.

Pure. Waiting decides, there is no linger: a lone batch goes at once as it is; small ones that wait together become one.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from itertools import islice

import numpy as np

from sparkmirror import batches
from sparkmirror.copy.arrivals import Item, Prepared, Rules, Run
from sparkmirror.errors import BatchError
from sparkmirror.model import NO_OFFSET, Writer
from sparkmirror.offsets.records import SEQUENCES


@dataclass(slots=True)
class Outgoing:
    """One batch as it is sent.

    Attributes:
        payload: ready for the wire.
        sequence, count: its first sequence number and how many records it holds.
        source, last_source: source offsets of its first and last record.
        end: the position once it is acknowledged.
        batches: how many source batches it holds; ``opened``: whether its records were written anew.
        held: bytes of source data behind it.
        arrived: when its oldest part was fetched, on the monotonic clock.
        base_offset: the target's answer, or `NO_OFFSET`.
        sent: whether an answer is owed.
    """

    payload: memoryview
    sequence: int
    count: int
    source: int
    last_source: int
    end: int
    batches: int
    held: int
    newest_ms: int
    arrived: float
    opened: bool = False
    base_offset: int = NO_OFFSET
    sent: bool = True


def next_outgoing(waiting: deque[Item], writer: Writer, rules: Rules, limit: int) -> Outgoing:
    """Takes the next batch from ``waiting``, which must not be empty and whose first ticket is acknowledged.

    Args:
        waiting: what is queued, oldest first; what is taken is removed.
        writer: producer id and epoch for the header.
        rules: what the flow asks.
        limit: bytes that a merged batch may have.

    Raises:
        BatchError: the batch at the head cannot be merged; one further behind ends the batch that is made before it.
    """
    head = waiting[0]
    if isinstance(head, Prepared):
        waiting.popleft()
        return _prepared(head)
    together = _together(waiting, limit)
    if together > 1 or (head.stop - head.at > 1 and head.small):
        return _merged(waiting, together, writer, rules, limit)
    return _passed(waiting, head, writer)


def _together(waiting: deque[Item], limit: int) -> int:
    """How many items at the head may be merged into one batch: small runs that wait for nothing."""
    count = size = 0
    for item in waiting:
        ready = item.ticket is None or item.ticket.acknowledged
        if isinstance(item, Prepared) or not item.small or not ready or size >= limit:
            break
        size += item.held
        count += 1
    return count


def _prepared(item: Prepared) -> Outgoing:
    return Outgoing(
        payload=item.payload,
        sequence=item.sequence,
        count=item.count,
        source=item.source,
        last_source=item.last_source,
        end=item.end,
        batches=1,
        held=item.held,
        newest_ms=item.newest_ms,
        arrived=item.arrived,
        opened=True,
    )


def _passed(waiting: deque[Item], run: Run, writer: Writer) -> Outgoing:
    """The next batch of ``run``, its header rewritten in a copy: the answer's bytes belong to other batches too."""
    index, at = run.index, run.at
    start, size, count = int(index.start[at]), int(index.size[at]), int(index.count[at])
    own = bytearray(memoryview(run.records)[start : start + size])
    payload = batches.rewrite(own, 0, size, producer_id=writer.producer_id, epoch=writer.epoch, sequence=run.sequence)
    batch = Outgoing(
        payload=payload,
        sequence=run.sequence,
        count=count,
        source=int(index.base_offset[at]),
        last_source=int(index.last_offset[at]),
        end=int(index.last_offset[at]) + 1,
        batches=1,
        held=size,
        newest_ms=int(index.max_timestamp[at]),
        arrived=run.arrived,
    )
    run.at, run.sequence = at + 1, (run.sequence + count) % SEQUENCES
    if run.at == run.stop:
        waiting.popleft()
    return batch


def _merged(waiting: deque[Item], together: int, writer: Writer, rules: Rules, limit: int) -> Outgoing:
    runs = [item for item in islice(waiting, together) if isinstance(item, Run)]
    first, sequence = runs[0], runs[0].sequence
    stamp = batches.Stamp(producer_id=writer.producer_id, epoch=writer.epoch, sequence=sequence)
    pieces, merging = _merge(runs, stamp, rules, limit)
    made = merging.batches[0]
    taken = held = end = 0
    for place, run in enumerate(runs[: min(merging.run + 1, len(pieces))]):
        stop = pieces[place].stop if place < merging.run else merging.column
        if stop > run.at:
            before = run.held
            taken, end = taken + stop - run.at, int(run.index.last_offset[stop - 1]) + 1
            run.at = stop
            held += before - run.held
        if run.at == run.stop:
            waiting.popleft()
        else:
            run.sequence = (sequence + made.count) % SEQUENCES
    return Outgoing(
        payload=made.batch,
        sequence=sequence,
        count=made.count,
        source=made.first_offset,
        last_source=made.last_offset,
        end=end,
        batches=taken,
        held=held,
        newest_ms=made.max_timestamp,
        arrived=first.arrived,
    )


def _merge(
    runs: list[Run], stamp: batches.Stamp, rules: Rules, limit: int
) -> tuple[list[batches.Run], batches.Merging]:
    """Merges what is sound: a batch that cannot be opened ends it, and is met again when it is the first."""

    def together(pieces: list[batches.Run]) -> batches.Merging:
        return batches.merge(
            pieces, rules.target, stamp, batch_size=limit, decompression_limit=rules.decompression_limit
        )

    pieces = [batches.Run(indexed=run.index, kept=run.kept, first=run.at, stop=run.stop) for run in runs]
    try:
        return pieces, together(pieces)
    except BatchError as error:
        sound = _up_to(error.offset, runs)
        if not sound:
            raise
        return sound, together(sound)


def _up_to(offset: int, runs: list[Run]) -> list[batches.Run]:
    """The batches that begin below a source offset."""
    found = []
    for run in runs:
        stop = run.at + int(np.searchsorted(run.index.base_offset[run.at : run.stop], offset))
        if stop > run.at:
            found.append(batches.Run(indexed=run.index, kept=run.kept, first=run.at, stop=stop))
    return found
