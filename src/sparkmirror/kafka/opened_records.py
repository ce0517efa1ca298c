"""The records of a fetch answer of topics of applications, opened bit by bit: whoever writes there may write anything.

A batch of some kilobytes may open to 256 MiB, and an answer has room for thousands. A true one may open to that, too:
none is passed over that the copy itself would open.

Invariants:
    - Batches that open to `LIGHT_BYTES` at most are opened side by side. A larger one is opened alone, and no other one
      in the process at the same time.
    - Whoever takes the records is given chunks of about `CHUNK_BYTES`, or a larger record, and is to keep none of them.
    - A record takes no more memory than its bytes, however many headers they are: see `MANY_HEADERS`.
    - Nothing is open between two steps, so that a network loop can have its turn there.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from hashlib import blake2b
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from sparkmirror import batches
from sparkmirror.batches import columns
from sparkmirror.errors import BatchError
from sparkmirror.kafka.cluster import Cluster
from sparkmirror.kafka.rounds import Deadline

if TYPE_CHECKING:
    import pyarrow as pa

LIGHT_BYTES: Final = 4 << 20
CHUNK_BYTES: Final = 1 << 20
STEP_BYTES: Final = 16 << 20
"""Of records in one step, which take some tens of milliseconds; a large batch takes up to a second."""

ROUND_BYTES: Final = 256 << 20
"""Of records that are taken of all partitions of an answer; the rest is fetched again, after those that have less."""

MANY_HEADERS = 100_000
"""Of a record with more the headers stay packed: a batch may hold one of 100 million."""

_alone: Final = threading.Lock()

Taker = Callable[[Any], bool]
"""Takes records, given as an Arrow table (``batches.column_schema``), and says whether it wants more of them."""

Mask = npt.NDArray[np.bool_]


@dataclass(slots=True, kw_only=True)
class OpenedRecords:
    """Batches of one partition, while they are opened.

    Attributes:
        index: the answer.
        kept: what is left of it, from its first offset on.
        offset: where to go on; behind the last batch when all is read.
        until: records with this offset or a greater one are left out.
        heavy: the next batch that opens to more than `LIGHT_BYTES`.
        opened: bytes that have been taken.
    """

    index: batches.Indexed
    kept: batches.Kept
    offset: int
    until: int | None = None
    heavy: int | None = None
    opened: int = 0

    @property
    def over(self) -> bool:
        """Whether all is read."""
        return not len(self.index) or self.offset > int(self.index.last_offset[-1])

    def step(self, take: Taker) -> None:
        """Opens some batches, or one that is large, and gives their records.

        Raises:
            BatchError: a batch cannot be opened; what lies before it was taken.
        """
        left = self.kept.mask & (self.index.last_offset >= self.offset)
        heavy = self.heavy if self.heavy is not None and left[self.heavy] else None
        before = left if heavy is None else left & (np.arange(len(left)) < heavy)
        if before.any():
            self._take_light(before, take)
        elif heavy is None:
            self.offset = int(self.index.last_offset[-1]) + 1
        else:
            self.opened += LIGHT_BYTES
            with _alone:
                self._take(left & (np.arange(len(left)) == heavy), batches.DEFAULT_LIMIT, take)

    def _take_light(self, some: Mask, take: Taker) -> None:
        end = self.opened + STEP_BYTES
        try:
            self._take(some, LIGHT_BYTES, lambda table: take(table) and self.opened < end)
        except BatchError as damage:
            column = max(int(np.searchsorted(self.index.base_offset, damage.offset, side="right")) - 1, 0)
            if not some[column]:
                raise
            self.heavy = column

    def _take(self, some: Mask, limit: int, take: Taker) -> None:
        reasons = np.where(self.kept.mask & ~some, np.uint8(batches.Reason.BEFORE), self.kept.reasons)
        kept = batches.Kept(reasons=reasons, start_offset=max(self.offset, self.kept.start_offset))
        chunks = batches.decode_by_chunk(
            self.index,
            kept,
            until=self.until,
            decompression_limit=limit,
            chunk_bytes=CHUNK_BYTES,
            most_headers=MANY_HEADERS,
        )
        for chunk in chunks:
            self.offset = int(chunk.column(columns.OFFSET)[-1].as_py()) + 1
            self.opened += int(chunk.nbytes)
            if not take(_table(chunk)):
                return
        self.offset = max(self.offset, int(self.index.last_offset[some][-1]) + 1)


async def in_turn(cluster: Cluster, readings: Iterable[Iterator[int]], deadline: Deadline) -> None:
    """Does the steps of partitions of an answer by turns, first one of each, which is a light one.

    It ends when all are done, when `ROUND_BYTES` have been taken, or when the time is over.

    Args:
        cluster: whose loop has its turn between the steps.
        readings: do a step each time, and give the bytes that it took.
        deadline: when the time is over.
    """
    going, taken = list(readings), 0
    while going and taken < ROUND_BYTES:
        unfinished = []
        for reading in going:
            size = next(reading, None)
            if size is None:
                continue
            taken += size
            unfinished.append(reading)
            await cluster.loop.sleep(0)
            if deadline.passed:
                return
        going = unfinished


def _table(chunk: pa.RecordBatch) -> pa.Table:
    import pyarrow as pa

    return pa.Table.from_batches([chunk])


Headers = tuple[tuple[Any, Any | None], ...]
"""Names and values, each a bytes-like object."""


class Row(NamedTuple):
    """A record whose bytes still lie in the table: they are read through the buffer protocol, and not copied.

    Of packed headers there is one instead, which has a digest of them; they are ``packed`` themselves.
    """

    offset: int
    timestamp: int
    timestamp_type: int
    key: memoryview | None
    value: memoryview | None
    headers: Headers
    packed: memoryview | None


def rows(table: Any) -> Iterator[Row]:
    """The records of a table."""
    for chunk in table.to_batches():
        named = (chunk.column(name) for name in (columns.OFFSET, columns.TIMESTAMP, columns.TIMESTAMP_TYPE))
        keys, values, headers = (chunk.column(name) for name in (columns.KEY, columns.VALUE, columns.HEADERS))
        ends = headers.offsets.to_pylist()
        offsets, times, types = (column.to_pylist() for column in named)
        for row, (key, value) in enumerate(zip(_blobs(keys), _blobs(values), strict=True)):
            own = headers.values.slice(ends[row], ends[row + 1] - ends[row])
            yield Row(offsets[row], times[row], types[row], key, value, *_headers(own))


def _blobs(array: Any) -> Iterator[memoryview | None]:
    """The values of a binary array, where they lie: each of Arrow's scalars has a copy."""
    _, ends, data = array.buffers()
    bounds = np.frombuffer(ends, np.int32)[array.offset : array.offset + len(array) + 1].tolist()
    view = memoryview(b"" if data is None else data)
    for there, (first, end) in zip(array.is_valid().to_pylist(), pairwise(bounds), strict=True):
        yield view[first:end] if there else None


def _headers(own: Any) -> tuple[Headers, memoryview | None]:
    """Those of one record, given as an array of structures, and the packed ones."""
    keys, values = (list(_blobs(own.field(name))) for name in (columns.KEY, columns.VALUE))
    headers = tuple(zip(keys, values, strict=True))
    if headers and headers[0][0] is None:
        packed = headers[0][1]
        return ((b"", blake2b(packed or b"", digest_size=16).digest()),), packed
    return headers, None


class Extent(NamedTuple):
    """Of records whose offsets are enough: which are the first and the last one, and how many there are."""

    first: int
    last: int
    records: int


def extent(table: Any) -> list[Extent]:
    """That of a table; nothing of one without a record."""
    offsets = table.column(columns.OFFSET)
    return [Extent(offsets[0].as_py(), offsets[-1].as_py(), table.num_rows)] if table.num_rows else []
