"""The batches of one fetch answer, found and checked in one call.

Purpose: what every later step works on: a table with a column per batch, over the buffer as it came from the socket.

Invariants:
    - Nothing is copied, and there is no Python object per batch.
    - Every batch in the table has a right checksum, plausible counts and a known codec. What a compressed message of
      magic 0 or 1 holds is checked when it is opened (see ``legacy``).
    - A cut-off last batch is left out (``incomplete``): the next fetch brings it whole.

References: org.apache.kafka.clients.consumer.internals.CompletedFetch; KIP-74 (the first batch always comes whole).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from sparkmirror.batches.kernels import index as rows
from sparkmirror.errors import BatchError

Buffer: TypeAlias = bytes | bytearray | memoryview
Longs: TypeAlias = npt.NDArray[np.int64]
Bytes: TypeAlias = npt.NDArray[np.uint8]

_REASONS = {
    rows.BAD_LENGTH: "the batch's length field cannot be right",
    rows.BAD_MAGIC: "the batch has an unknown magic byte",
    rows.BAD_CRC: "the batch is corrupt: its bytes do not match its CRC32C",
    rows.BAD_COUNT: "the batch's offsets and record count contradict each other",
    rows.BAD_CODEC: "the batch names a compression codec that does not exist",
    rows.BAD_ORDER: "the batch's offsets are not above those of the batch before it",
    rows.CUT_SHORT: "the batch is longer than the answer that should hold it whole",
    rows.BAD_OLD_CRC: "the message is corrupt: its bytes do not match its CRC32",
}
_REMEDY = "compare the partition's replicas with kafka-dump-log; a restored replica or a start position behind it helps"


@dataclass(frozen=True, slots=True, kw_only=True)
class Indexed:
    """The sound batches of a buffer, in log order. All arrays have one entry per batch.

    Attributes:
        data: the whole buffer as uint8.
        table: int64, one row per header field; the properties below name the rows.
        fault: why the walk ended early, a code of ``kernels.index``; see ``error``.
        end: where in the buffer the walk ended.
    """

    data: Bytes
    table: Longs
    fault: int
    end: int

    def __len__(self) -> int:
        return self.table.shape[1]

    @property
    def start(self) -> Longs:
        """Where the batch starts in ``data``, in bytes."""
        return self.table[rows.START]

    @property
    def size(self) -> Longs:
        """The whole batch in bytes, header included."""
        return self.table[rows.SIZE]

    @property
    def base_offset(self) -> Longs:
        """The source offset that the batch begins at.

        A compressed message of magic 0 or 1 does not tell: there it is the offset after the batch before it, or 0 for
        the first of an answer. No record of it lies below.
        """
        return self.table[rows.FIRST]

    @property
    def last_offset(self) -> Longs:
        """The source offset that it ends at, whether a record is left there or not."""
        return self.table[rows.LAST]

    @property
    def count(self) -> Longs:
        """Records in the batch; -1 for a compressed message of magic 0 or 1."""
        return self.table[rows.COUNT]

    @property
    def attributes(self) -> Longs:
        """The attribute bits, see ``layout``; of magic 0 and 1 the attributes byte."""
        return self.table[rows.ATTRIBUTES]

    @property
    def magic(self) -> Longs:
        """The version of the batch's format, 0 to 2."""
        return self.table[rows.MAGIC]

    @property
    def producer_id(self) -> Longs:
        """The producer's id, or -1."""
        return self.table[rows.PRODUCER]

    @property
    def epoch(self) -> Longs:
        """The producer's epoch, or -1."""
        return self.table[rows.EPOCH]

    @property
    def base_sequence(self) -> Longs:
        """The sequence of the first record, or -1."""
        return self.table[rows.SEQUENCE]

    @property
    def base_timestamp(self) -> Longs:
        """The field of that name in ms: the first record's time, or the delete horizon under attribute bit 6."""
        return self.table[rows.BASE_TIME]

    @property
    def max_timestamp(self) -> Longs:
        """The newest record's time in ms; all records' time where the broker set it."""
        return self.table[rows.MAX_TIME]

    @property
    def leader_epoch(self) -> Longs:
        """The epoch of the leader that appended the batch."""
        return self.table[rows.LEADER_EPOCH]

    @property
    def incomplete(self) -> bool:
        """Whether the buffer ends in a cut-off batch."""
        return self.fault == rows.SOUND and self.end < self.data.shape[0]

    @property
    def error(self) -> BatchError | None:
        """The first batch that is not sound. Those before it may be copied; then the partition has to stop."""
        if self.fault == rows.SOUND:
            return None
        return BatchError(offset=self._faulty_offset(), reason=_REASONS[self.fault], remedy=_REMEDY)

    def _faulty_offset(self) -> int:
        """What its header says, unless that cannot be: then the offset after the batch before it."""
        told = int.from_bytes(self.data[self.end : self.end + 8].tobytes(), "big", signed=True)
        return max(told, int(self.table[rows.LAST, -1]) + 1) if len(self) else told


def index(buffer: Buffer) -> Indexed:
    """Finds and checks the batches of one partition's part of a fetch answer.

    Args:
        buffer: batches one after the other, as they came; it is referred to, not copied.

    Returns:
        The table of the sound batches; ``error`` says whether a corrupt one ended it.
    """
    data = np.frombuffer(buffer, np.uint8)
    table, count, fault, end = rows.walk(data)
    if count < table.shape[1]:
        table = np.ascontiguousarray(table[:, :count])
    return Indexed(data=data, table=table, fault=fault, end=end)
