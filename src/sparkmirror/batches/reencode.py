"""One batch written anew: trimmed, its holes closed, its times made the records' own, with another codec, or split.

Purpose: what is done with a batch that has no place beside others in a new one.

Invariants: as for ``merge``. As few parts as the limit allows are not promised: when compression does not do what was
hoped for, the number of records is halved.
"""

from __future__ import annotations

import numpy as np

from sparkmirror.batches import layout
from sparkmirror.batches.codec import Codec
from sparkmirror.batches.index import Bytes, Longs
from sparkmirror.batches.kernels import pour as kernels
from sparkmirror.batches.opening import Opened, damaged
from sparkmirror.batches.sealing import Merged, Stamp, new_state, seal
from sparkmirror.batches.select import TargetTopic
from sparkmirror.errors import RecordTooLargeError


def reencode(
    opened: Opened, codec: Codec, target: TargetTopic, stamp: Stamp, *, skip_before: int, left_out: frozenset[int]
) -> tuple[Merged, ...]:
    """Writes a batch anew, as several where one would be too large.

    Args:
        opened: the batch.
        codec: what the new ones are compressed with.
        target: what the target topic asks for.
        stamp: of the first new batch; further ones follow from it.
        skip_before: records with source offsets below it are left out.
        left_out: source offsets of records that are too large and have been seen to elsewhere.

    Returns:
        The new batches; none when no record was left.

    Raises:
        BatchError: the batch's records do not fit its header.
        RecordTooLargeError: some of them are too large for the topic even alone.
    """
    parts = _Parts(opened, codec, target, skip_before)
    made = parts.all(stamp, left_out)
    if parts.too_large:
        raise _refusal(parts.too_large, target.max_message_bytes)
    return made


def _refusal(too_large: dict[int, int], limit: int) -> RecordTooLargeError:
    offsets, size = tuple(too_large), next(iter(too_large.values()))
    more = f"; {len(offsets) - 1} more of its source batch are too large" if len(offsets) > 1 else ""
    return RecordTooLargeError(
        offset=offsets[0],
        offsets=offsets,
        reason=f"the record is larger than the target topic's max.message.bytes, {limit}: "
        f"by itself it takes a batch of {size} bytes{more}",
        remedy="raise max.message.bytes on the target topic, or name a topic for dead letters",
    )


class _Parts:
    """A batch that becomes one or several.

    Attributes:
        too_large: source offset and size as a batch of each record that does not fit and that nobody knew of.
    """

    def __init__(self, opened: Opened, codec: Codec, target: TargetTopic, skip_before: int) -> None:
        self.too_large: dict[int, int] = {}
        self._opened, self._codec, self._target, self._skip = opened, codec, target, skip_before
        plain = len(opened.records) - opened.at
        # A count that lies may not make us allocate for it.
        self._whole = layout.HEADER + plain + kernels.GROWTH * min(opened.count, plain // kernels.LEAST + 1)
        self._room = self._whole if codec is not Codec.NONE else min(self._whole, target.max_message_bytes)

    def all(self, stamp: Stamp, left_out: frozenset[int]) -> tuple[Merged, ...]:
        """All its records, in order, in batches that the topic allows."""
        done: list[Merged] = []
        part, count = 0, self._opened.count
        most = count
        while part < count:
            out = np.empty(self._room, np.uint8)  # for each part, since an uncompressed one stays in it
            state, runs, reached = self._pour(out, part, most)
            records = int(state[kernels.RECORDS])
            merged = self._seal(out, state, runs, stamp) if records else None
            if merged is not None:
                done.append(merged)
                stamp = stamp.after(records)
            elif records > 1:
                most = records // 2
                continue
            elif records or reached < count:
                self._pass_over(reached - records, left_out)
                reached += not records
            part = reached
        return tuple(done)

    def _pour(self, out: Bytes, part: int, most: int) -> tuple[Longs, Longs, int]:
        opened = self._opened
        state, runs = new_state(), np.empty((2, min(most, len(out) // kernels.LEAST + 1)), np.int64)
        source = opened.records, opened.at, opened.table, opened.column
        why, reached = kernels.pour_records(*source, self._skip, part, most, out, len(out), state, runs)
        if why == kernels.DAMAGED:
            raise damaged(opened.table, opened.column)
        return state, runs, int(reached)

    def _seal(self, out: Bytes, state: Longs, runs: Longs, stamp: Stamp) -> Merged | None:
        limit, level = self._target.max_message_bytes, self._target.levels.get(self._codec)
        return seal(out, state, runs, self._codec, stamp, limit, plain_limit=self._target.room, level=level)

    def _pass_over(self, record: int, left_out: frozenset[int]) -> None:
        """Notes a record that does not fit, unless the caller knows of it."""
        state, _, _ = self._pour(np.empty(self._whole, np.uint8), record, 1)
        offset = int(state[kernels.FIRST_OFFSET])
        if offset not in left_out:
            self.too_large[offset] = int(state[kernels.AT])
