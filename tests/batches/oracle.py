"""What the kernels of ``batches/`` have to answer, in plain Python: for sound bytes and for damaged ones alike.

One twin per kernel. Slow on purpose, and without a trick: numbers are Python's and wrap only where ``wrapped`` says so,
checksums come from libraries, sets are sets.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Final, NamedTuple

import crc32c

SOUND, BAD_LENGTH, BAD_MAGIC, BAD_CRC, BAD_COUNT, BAD_CODEC, BAD_ORDER, CUT_SHORT = range(8)
BAD_OLD_CRC = 8
KEPT, BEFORE, CONTROL, EMPTY, LOOP, ABORTED = range(6)
TRIM, THIN, LOG_APPEND_TIME, RECOMPRESS, TOO_LARGE, OLD_MAGIC = 1, 2, 4, 8, 16, 32
LARGE, SMALL, OPEN = range(3)
DONE, FULL, MORE_RUNS, CLOSED, DAMAGED = range(5)

HEADER: Final = struct.Struct(">qiibIhiqqqhii")
LAST: Final = 2**63 - 1

Header = tuple[str, bytes | None]


def wrapped(number: int) -> int:
    """What 64 bits hold of a sum, as Java adds."""
    return (number + 2**63) % 2**64 - 2**63


# ----------------------------------------------------------------------------------------------------------- varints


def read_varint(data: bytes, at: int, stop: int) -> tuple[int, int]:
    """(value, position after it); (0, -1) for a number that does not end before ``stop`` or within ten bytes."""
    word = 0
    for n in range(10):
        if at + n >= stop:
            return 0, -1
        byte = data[at + n]
        word |= (byte & 127) << 7 * n
        if byte < 128:
            word %= 2**64
            return (word >> 1) ^ -(word & 1), at + n + 1
    return 0, -1


def varint(value: int) -> bytes:
    """A number as Kafka writes it."""
    word, out = ((value << 1) ^ (value >> 63)) % 2**64, bytearray()
    while word > 127:
        out.append(word & 127 | 128)
        word >>= 7
    out.append(word)
    return bytes(out)


# ----------------------------------------------------------------------------------------------------------- records


class Part(NamedTuple):
    """A record as merging sees it: ``tail`` is everything from the key's length on."""

    attributes: int
    time_delta: int
    offset_delta: int
    tail: bytes
    end: int


def parse(data: bytes, at: int, stop: int) -> Part | None:
    """The record at ``at``; None when it does not fit its own length or the batch."""
    length, body = read_varint(data, at, stop)
    if body < 0 or not 1 <= length <= stop - body:
        return None
    end = body + length
    time, after = read_varint(data, body + 1, end)
    delta, rest = read_varint(data, after, end) if after >= 0 else (0, -1)
    if rest < 0 or end - rest < 3:
        return None
    return Part(data[body], time, delta, data[rest:end], end)


class Record(NamedTuple):
    """A record with absolute offset and time; key, value and headers are still packed in ``tail``."""

    offset: int
    time: int
    attributes: int
    tail: bytes

    def encode(self, number: int, base_time: int) -> bytes:
        """As the record ``number`` of a batch with that base timestamp."""
        deltas = varint(wrapped(self.time - base_time)) + varint(number)
        body = bytes([self.attributes]) + deltas + self.tail
        return varint(len(body)) + body


def tail(key: bytes | None, value: bytes | None, headers: Sequence[Header]) -> bytes:
    """Key, value and headers as a record holds them."""

    def field(content: bytes | None) -> bytes:
        return varint(-1) if content is None else varint(len(content)) + content

    packed = b"".join(field(name.encode()) + field(content) for name, content in headers)
    return field(key) + field(value) + varint(len(headers)) + packed


def fields(packed: bytes) -> tuple[bytes | None, bytes | None, tuple[tuple[bytes, bytes | None], ...]] | None:
    """Key, value and headers of a record; None where they do not fill it exactly."""
    at = 0

    def number() -> int | None:
        nonlocal at
        value, after = read_varint(packed, at, len(packed))
        at = after if after >= 0 else len(packed) + 1
        return value if after >= 0 else None

    def content() -> tuple[bool, bytes | None]:
        nonlocal at
        size = number()
        if size is None or size > len(packed) - at:
            return False, None
        if size < 0:
            return True, None
        at += size
        return True, packed[at - size : at]

    (has_key, key), (has_value, value) = content(), content()
    count = number() if has_key and has_value else None
    if count is None or count < 0:
        return None
    headers: list[tuple[bytes, bytes | None]] = []
    while len(headers) < count:
        (has_name, name), (has_content, of_header) = content(), content()
        if not has_name or not has_content or name is None:
            return None
        headers.append((name, of_header))
    return (key, value, tuple(headers)) if at == len(packed) else None


# ----------------------------------------------------------------------------------------------------------- the index


@dataclass(frozen=True, slots=True)
class Row:
    """A column of the index's table."""

    start: int
    size: int
    first: int
    last: int
    count: int
    attributes: int
    magic: int
    producer: int
    epoch: int
    sequence: int
    base_time: int
    max_time: int
    leader_epoch: int

    @property
    def codec(self) -> int:
        return self.attributes & 7


def walk(data: bytes) -> tuple[list[Row], int, int]:
    """(sound batches, why the walk ended, where)."""
    found: list[Row] = []
    at = 0
    while at < len(data):
        length = struct.unpack_from(">i", data, at + 8)[0] if at + 17 <= len(data) else None
        if length is not None and length < 14:
            return found, BAD_LENGTH, at
        if length is None or at + 12 + length > len(data):
            return found, SOUND if found else CUT_SHORT, at
        before = found[-1].last if found else -1
        row = _column(data, at, 12 + length, before)
        if isinstance(row, int):
            return found, row, at
        if row.first <= before or row.last < row.first:
            return found, BAD_ORDER, at
        found.append(row)
        at += row.size
    return found, SOUND, at


def _column(data: bytes, at: int, size: int, before: int) -> Row | int:
    magic = data[at + 16]
    if magic < 2:
        return _old_column(data, at, size, before)
    if magic > 2:
        return BAD_MAGIC
    if size < 61:
        return BAD_LENGTH
    first, _, leader, _, crc, bits, delta, base, newest, producer, epoch, sequence, count = HEADER.unpack_from(data, at)
    if crc != crc32c.crc32c(data[at + 21 : at + size]):
        return BAD_CRC
    if first < 0 or delta < 0 or first + delta >= LAST or not 0 <= count <= delta + 1 or (count == 0 and size > 61):
        return BAD_COUNT
    if count == 0 and size > 61:
        return BAD_COUNT
    if bits & 7 > 4:
        return BAD_CODEC
    place = (at, size, first, first + delta, count, bits & 0xFFFF, 2)
    return Row(*place, producer, epoch, sequence, base, newest, leader)


def _old_column(data: bytes, at: int, size: int, before: int) -> Row | int:
    offset, _, crc, magic, bits = struct.unpack_from(">qiIBB", data, at)
    if crc != zlib.crc32(data[at + 16 : at + size]):
        return BAD_OLD_CRC
    if bits & 7 > 3:
        return BAD_CODEC
    if offset >= LAST:
        return BAD_COUNT
    time = struct.unpack_from(">q", data, at + 18)[0] if magic else -1
    first, count = (before + 1, -1) if bits & 7 else (offset, 1)
    return Row(at, size, first, offset, count, bits, magic, -1, -1, -1, time, time, -1)


# ----------------------------------------------------------------------------------------------------------- decisions


def drop(
    data: bytes, rows: Sequence[Row], start: int, loops: Iterable[int], aborted: Sequence[tuple[int, int]]
) -> tuple[list[int], int]:
    """(reason of each batch, column of an unreadable end marker or -1); ``aborted``: (producer id, first offset)."""
    queue = sorted(aborted, key=lambda entry: (entry[1], entry[0]))
    open_, reasons, looping = set[int](), list[int](), set(loops)
    for n, row in enumerate(rows):
        reasons.append(_reason(row, start, looping))
        if not aborted or row.producer < 0:
            continue
        while queue and queue[0][1] <= row.last:
            open_.add(queue.pop(0)[0])
        if row.producer not in open_:
            continue
        if row.attributes & 32:
            kind = marker(data, row.start + 61, row.start + row.size) if row.count else 1
            if kind is None or row.codec:
                return reasons, n
            if kind == 0:
                open_.remove(row.producer)
        elif row.attributes & 16 and reasons[n] == KEPT:
            reasons[n] = ABORTED
    return reasons, -1


def _reason(row: Row, start: int, loops: set[int]) -> int:
    if row.last < start:
        return BEFORE
    if row.attributes & 32 and row.magic == 2:
        return CONTROL
    if row.count == 0:
        return EMPTY
    return LOOP if row.producer >= 0 and row.producer in loops else KEPT


def marker(data: bytes, at: int, stop: int) -> int | None:
    """The type of a control record; None where its key cannot be read."""
    _, at = read_varint(data, at, stop)
    at += 1
    for _ in range(3):
        size, at = read_varint(data, at, stop) if at > 0 else (0, -1)
    if at < 0 or not 4 <= size <= stop - at:
        return None
    version, kind = struct.unpack_from(">hh", data, at)
    return None if version < 0 or kind < 0 else int(kind)


def classify(
    rows: Sequence[Row], reasons: Sequence[int], start: int, broker_time: bool, codec: int, limit: int
) -> list[int]:
    """What keeps each batch from passing through; ``codec`` -1 leaves codecs as they are."""
    codes = []
    for row, reason in zip(rows, reasons, strict=True):
        code = 0
        if reason == KEPT and row.magic < 2:
            code = OLD_MAGIC
        elif reason == KEPT:
            code |= TRIM if row.first < start else 0
            code |= THIN if row.count != row.last - row.first + 1 else 0
            code |= LOG_APPEND_TIME if row.attributes & 8 and not broker_time else 0
            code |= RECOMPRESS if codec not in {-1, row.codec} else 0
            code |= TOO_LARGE if row.size > limit else 0
        codes.append(code)
    return codes


def strangers(rows: Sequence[Row], known: Iterable[int]) -> set[int]:
    """The producer ids that are not known."""
    return {row.producer for row in rows if row.producer >= 0} - set(known)


def cut(
    rows: Sequence[Row], reasons: Sequence[int], codes: Sequence[int], until: int, small: int, small_compressed: int
) -> tuple[list[tuple[int, int, int, int]], int]:
    """(stretches as (first, stop, kind, records), batches in them)."""
    kinds: dict[int, int] = {}
    for n, row in enumerate(rows):
        if reasons[n] == KEPT and until >= 0 and row.first >= until:
            break
        if reasons[n] == KEPT:
            kinds[n] = OPEN if codes[n] else SMALL if row.size < (small_compressed if row.codec else small) else LARGE
    found: list[tuple[int, int, int, int]] = []
    for is_large, group in groupby(kinds, lambda n: kinds[n] == LARGE):
        columns = list(group)
        opened = [n for n in columns if kinds[n] == OPEN]
        if is_large or not opened:
            found += _alike(rows, columns, LARGE if is_large else SMALL)
            continue
        found += _alike(rows, [n for n in columns if n < opened[0]], SMALL)
        found.append((opened[0], opened[-1] + 1, OPEN, 0))
        found += _alike(rows, [n for n in columns if n > opened[-1]], SMALL)
    return found, len(kinds)


def _alike(rows: Sequence[Row], columns: Sequence[int], kind: int) -> list[tuple[int, int, int, int]]:
    """Batches of one kind, cut where something lies between two of them."""
    found: list[tuple[int, int, int, int]] = []
    for n in columns:
        first, stop, _, records = found[-1] if found else (-1, -1, kind, 0)
        if stop == n and rows[n - 1].last + 1 == rows[n].first:
            found[-1] = (first, n + 1, kind, records + rows[n].count)
        else:
            found.append((n, n + 1, kind, rows[n].count))
    return found


# ----------------------------------------------------------------------------------------------------------- pouring


class Poured(NamedTuple):
    """How pouring ended, at which record of the source batch, and the records of the new batch."""

    why: int
    record: int
    found: list[Record]

    @property
    def runs(self) -> list[tuple[int, int]]:
        """(number in the new batch, source offset) of each record that does not follow the one before."""
        before = [record.offset + 1 for record in self.found]
        return [(n, r.offset) for n, r in enumerate(self.found) if n == 0 or r.offset != before[n - 1]]

    @property
    def size(self) -> int:
        """Of the new batch, header included."""
        return 61 + len(packed(self.found))


def pour(
    row: Row,
    payload: bytes,
    into: Sequence[Record] = (),
    *,
    start: int = 0,
    part: int = 0,
    most: int = LAST,
    room: int = LAST,
    most_runs: int = LAST,
) -> Poured:
    """Pours a batch's records behind those of ``into``, as far as position, number, bytes and runs allow."""
    at, before, poured = 0, -1, Poured(DONE, row.count, list(into))
    size, runs = poured.size, len(poured.runs)
    for i in range(row.count):
        parsed = parse(payload, at, len(payload))
        if parsed is None or not before < parsed.offset_delta <= row.last - row.first:
            return poured._replace(why=DAMAGED, record=i)
        at, before = parsed.end, parsed.offset_delta
        time = row.max_time if row.attributes & 8 else wrapped(row.base_time + parsed.time_delta)
        record = Record(row.first + before, time, parsed.attributes, parsed.tail)
        if i < part or record.offset < start:
            continue
        if len(poured.found) == most:
            return poured._replace(why=FULL, record=i)
        runs += not poured.found or record.offset != poured.found[-1].offset + 1
        poured.found.append(record)
        size += len(record.encode(len(poured.found) - 1, poured.found[0].time))
        if runs > most_runs or size > room:
            poured.found.pop()
            return poured._replace(why=MORE_RUNS if runs > most_runs else FULL, record=i)
    return poured if at == len(payload) else poured._replace(why=DAMAGED)


def records(row: Row, payload: bytes) -> list[Record] | None:
    """The records of an opened batch of magic 2 as a reader sees them; None when they contradict its header."""
    poured = pour(row, payload)
    return poured.found if poured.why == DONE else None


def packed(found: Sequence[Record]) -> bytes:
    """Records as those of one new batch, uncompressed."""
    return b"".join(record.encode(n, found[0].time) for n, record in enumerate(found))


def measure(rows: Sequence[Row], reasons: Sequence[int], first: int, stop: int) -> tuple[int, int]:
    """(bytes that the kept batches may take when poured, records); old messages count as one, whole."""
    size = count = 0
    for row, reason in zip(rows[first:stop], reasons[first:stop], strict=True):
        if reason == KEPT:
            size += row.size - (61 if row.magic == 2 else 0)
            count += row.count if row.magic == 2 else 1
    return size + 17 * count, count


def sealed(batch: bytes) -> bytes:
    """The batch with the length and checksum that its bytes have."""
    body = batch[21:]
    return batch[:8] + struct.pack(">i", len(batch) - 12) + batch[12:17] + struct.pack(">I", crc32c.crc32c(body)) + body


def seal(payload: bytes, found: Sequence[Record], codec: int, writer: tuple[int, int, int]) -> bytes:
    """A new batch of records that lie in ``payload``, compressed with ``codec``."""
    times = [record.time for record in found]
    stamps = (len(found) - 1, times[0], max(times))
    return sealed(HEADER.pack(0, 0, -1, 2, 0, codec, *stamps, *writer, len(found)) + payload)


def restamp(batch: bytes, writer: tuple[int, int, int]) -> bytes:
    """The batch with another writer, and nothing in its header that the source's broker put there."""
    bits = struct.pack(">h", batch[22] & 7)
    head = struct.pack(">q", 0) + batch[8:12] + struct.pack(">i", -1) + batch[16:21] + bits + batch[23:43]
    return sealed(head + struct.pack(">qhi", *writer) + batch[57:])
