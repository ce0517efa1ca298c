"""A batch that goes to the target as it lies in the log, but for its header.

Purpose: base offset 0, no leader epoch, the writer's id, epoch and sequence; the transactional bit, the delete-horizon
bit, the LogAppendTime bit and unknown attribute bits cleared; the checksum carried over.

Invariants:
    - Records, base timestamp and max timestamp are not touched. Under the delete-horizon bit the base timestamp field
      holds the horizon and record times are relative to it, so clearing the bit alone keeps every record's time.
    - Only for batches whose ``needs`` code is PASS: as many records as offsets, no broker's time to keep.

References: KIP-98 (header), KIP-534 (delete horizon).
"""

from __future__ import annotations

import numpy as np

from sparkmirror.batches.kernels.pass_through import restamp
from sparkmirror.errors import BatchError


def rewrite(
    buffer: bytearray | memoryview, start: int, size: int, *, producer_id: int, epoch: int, sequence: int
) -> memoryview:
    """Rewrites the header of one batch in place.

    Args:
        buffer: writable; the batch is changed in it.
        start: where the batch starts, in bytes.
        size: the whole batch in bytes, as ``index`` found it.
        producer_id: the writer's producer id.
        epoch: its epoch, 0 to 32767.
        sequence: the sequence of the first record, 0 to 2**31 - 1.

    Returns:
        The batch inside the buffer, ready to be sent.

    Raises:
        BatchError: the batch does not lie inside the buffer.
        ValueError: the buffer cannot be written to.
    """
    view = memoryview(buffer)
    if view.readonly:
        raise ValueError("a batch is rewritten in place: the buffer has to be writable, such as a bytearray")
    if not restamp(np.frombuffer(view, np.uint8), start, size, producer_id, epoch, sequence):
        raise BatchError(offset=-1, reason=f"no batch of {size} bytes lies at {start} in {view.nbytes} bytes")
    return view[start : start + size]
