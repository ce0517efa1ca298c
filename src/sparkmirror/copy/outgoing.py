"""The next batch of a queue: one as it is, several small ones merged, or one that was written anew.

Pure. Waiting decides, there is no linger: a lone batch goes at once as it is; small ones that wait together become one.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, replace
from itertools import islice
from typing import TypeAlias

from sparkmirror import batches
from sparkmirror.batches.layout import CODEC_MASK
from sparkmirror.copy import distance
from sparkmirror.copy.arrivals import Item, Prepared, Rules, Run, Ticket
from sparkmirror.model import NO_OFFSET, Writer
from sparkmirror.offsets.segments import SEQUENCES

NO_PAYLOAD = memoryview(b"")
LEAST_USE = 4
"""Of batches of one small record, no more than a fourth may be left when they are merged; the rest were headers."""


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
        poured: bytes before compression, if it was merged until it was full, else 0.
        ticket: what must be acknowledged first, or None: a segment that says that it is unguarded.
        flagged: whether the segments that it lies in say that they hold unguarded batches.
        open: whether it was sent and may have been appended, though nothing acknowledged it.
        leader_epoch: of the leader that it was sent to last, and when, in seconds on the clock of ``copy.lease``.
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
    poured: int = 0
    ticket: Ticket | None = None
    flagged: bool = False
    open: bool = False
    leader_epoch: int = -1
    sent_at: float = 0.0

    @property
    def surely_missing(self) -> bool:
        """Whether the target does not have it, for sure."""
        return not self.sent and not self.open and self.base_offset == NO_OFFSET

    def release(self) -> int:
        """Lets its bytes go, since it is never sent again; how many bytes it held."""
        held, self.held, self.payload = self.held, 0, NO_PAYLOAD
        return held


Waiting: TypeAlias = Item | Outgoing
"""What waits in a queue; only its head may be a batch that was made ahead."""


def on_record(waiting: Waiting) -> bool:
    """Whether the segments that a batch waits for are."""
    return waiting.ticket is None or waiting.ticket.acknowledged


def next_outgoing(
    waiting: deque[Waiting], writer: Writer, rules: Rules, limit: int, room: int = 0, far: bool = True
) -> Outgoing:
    """Takes the next batch from ``waiting``, which must not be empty and whose first ticket is acknowledged.

    Args:
        waiting: what is queued, oldest first; what is taken is removed.
        writer: producer id and epoch for the header.
        rules: what the flow asks.
        limit: bytes that a merged batch may have.
        room: bytes before compression, if that is more; a guess, so what comes out too large is made anew.
        far: whether the target is; if not, what was held to be small for that reason is looked at again.

    Raises:
        BatchError: the batch at the head has to be changed and cannot be, which no batch of a run has to.
    """
    head = waiting[0]
    if isinstance(head, Outgoing):
        waiting.popleft()
        return head
    if isinstance(head, Prepared):
        waiting.popleft()
        return _prepared(head)
    room = limit if rules.target.enforced else max(room, limit)  # brokers that compress anew look at the size again
    together = _together(waiting, LEAST_USE * room)
    if (together > 1 or (head.stop - head.at > 1 and head.small)) and (far or _is_small_for_a_near_target(head)):
        return _merged(waiting, together, writer, rules, limit, room)
    return _passed(waiting, head, writer)


def _together(waiting: deque[Waiting], limit: int) -> int:
    """How many items at the head may be merged into one batch: small runs that wait for nothing."""
    count = size = 0
    for item in waiting:
        ready = item.ticket is None or item.ticket.acknowledged
        if not isinstance(item, Run) or not item.small or not ready or size >= limit:
            break
        size += item.held
        count += 1
    return count


def _is_small_for_a_near_target(run: Run) -> bool:
    compressed = int(run.index.attributes[run.at]) & CODEC_MASK
    limit = distance.NEAR.compressed if compressed else distance.NEAR.plain
    return run.held < limit * (run.stop - run.at)


def _prepared(item: Prepared) -> Outgoing:
    return Outgoing(
        payload=item.payload,
        sequence=item.sequence,
        count=item.count,
        source=item.source,
        last_source=item.last_source,
        end=item.end,
        batches=item.batches,
        held=item.held,
        newest_ms=item.newest_ms,
        arrived=item.arrived,
        opened=True,
        flagged=item.flagged,
    )


def _passed(waiting: deque[Waiting], run: Run, writer: Writer) -> Outgoing:
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
        flagged=run.flagged,
    )
    run.at, run.sequence = at + 1, (run.sequence + count) % SEQUENCES
    if run.at == run.stop:
        waiting.popleft()
    return batch


def _merged(waiting: deque[Waiting], together: int, writer: Writer, rules: Rules, limit: int, room: int) -> Outgoing:
    runs = [item for item in islice(waiting, together) if isinstance(item, Run)]
    first, sequence = runs[0], runs[0].sequence
    stamp = batches.Stamp(producer_id=writer.producer_id, epoch=writer.epoch, sequence=sequence)
    merging = _merge(runs, stamp, _with_room(rules, room), room)
    while room > limit and len(merging.batches[0].batch) > limit:
        room = distance.room(limit, room, len(merging.batches[0].batch))
        merging = _merge(runs, stamp, _with_room(rules, room), room)
    made = merging.batches[0]
    flagged = all(run.flagged for run in runs[: merging.run + 1])
    taken = held = end = 0
    for place, run in enumerate(runs[: merging.run + 1]):
        stop = run.stop if place < merging.run else merging.column
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
        poured=room if merging.run < len(runs) else 0,
        flagged=flagged,
    )


def _with_room(rules: Rules, room: int) -> Rules:
    """The same rules as if the target took larger batches; what is made by them must be looked at."""
    if room <= rules.target.max_message_bytes:
        return rules
    return replace(rules, target=replace(rules.target, max_message_bytes=room))


def _merge(runs: list[Run], stamp: batches.Stamp, rules: Rules, limit: int) -> batches.Merging:
    return batches.merge(
        [batches.Run(indexed=run.index, kept=run.kept, first=run.at, stop=run.stop) for run in runs],
        rules.target,
        stamp,
        batch_size=limit,
        decompression_limit=rules.decompression_limit,
    )
