"""The twins of the kernels for messages of magic 0 and 1; see ``oracle``."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Sequence

from tests.batches import oracle
from tests.batches.oracle import Record, Row


def message_size(data: bytes, at: int, stop: int) -> int | None:
    """The bytes of the message at ``at``; None when it cannot be one or does not end before ``stop``."""
    if stop - at < 26:
        return None
    (length,) = struct.unpack_from(">i", data, at + 8)
    return 12 + length if 14 <= length <= stop - at - 12 else None


def survey(data: bytes, at: int, stop: int) -> tuple[int, int]:
    """(messages, offset field of the last); (-1, 0) when a length cannot be."""
    messages = last = 0
    while at < stop:
        size = message_size(data, at, stop)
        if size is None:
            return -1, 0
        (last,) = struct.unpack_from(">q", data, at)
        messages, at = messages + 1, at + size
    return messages, last


def key_and_value(message: bytes) -> tuple[bytes | None, bytes | None, int] | None:
    """(key, value, where the value begins) of a message; None where they do not fit it."""
    at, found = 26 if message[16] == 1 else 18, []
    for _ in range(2):
        if len(message) - at < 4:
            return None
        (size,) = struct.unpack_from(">i", message, at)
        at += 4
        if size > len(message) - at:
            return None
        found.append(None if size < 0 else message[at : at + size])
        at += max(0, size)
    return found[0], found[1], at - len(found[1] or b"")


def value_of(data: bytes, at: int, stop: int) -> tuple[int, int]:
    """(position, size) of a message's value; size -1 for null, position -1 where the fields do not fit."""
    if message_size(data, at, stop) is None:
        return -1, 0
    read = key_and_value(data[at:stop])
    return (-1, 0) if read is None else (at + read[2], -1 if read[1] is None else len(read[1]))


def convert(
    data: bytes, at: int, stop: int, base: int, is_checked: int, is_stamped: int, stamp: int
) -> tuple[int, int, list[Record]]:
    """(what is wrong or 0, source offset, records) of messages side by side."""
    found: list[Record] = []
    before = -1
    while at < stop:
        size = message_size(data, at, stop)
        if size is None:
            return 1, before + 1, found
        message, at = data[at : at + size], at + size
        offset, _, crc = struct.unpack_from(">qiI", message)
        offset, magic, read = oracle.wrapped(base + offset), message[16], key_and_value(message)
        faults = (
            (2, is_checked and crc != zlib.crc32(message[16:])),
            (3, magic > 1),
            (4, message[17] & 7),
            (6, offset <= before),
            (5, read is None),
        )
        for why, is_so in faults:
            if is_so:
                return why, offset, found
        time = -1 if magic == 0 else stamp if is_stamped else struct.unpack_from(">q", message, 18)[0]
        key, value, _ = read or (None, None, 0)
        found.append(Record(offset, time, 0, oracle.tail(key, value, ())))
        before = offset
    return 0, before, found


def unwrapped(row: Row, messages: bytes) -> list[Record] | None:
    """The records in a compressed message, which decompresses to ``messages``; None where they contradict it."""
    count, last = survey(messages, 0, len(messages))
    if count < 1 or not 0 <= last <= row.last:
        return None
    base = row.last - last if row.magic == 1 else 0
    is_stamped = row.magic == 1 and row.attributes & 8
    why, _, found = convert(messages, 0, len(messages), base, 1, is_stamped, row.max_time)
    return None if why or found[0].offset < row.first else found


def together(rows: Sequence[Row], reasons: Sequence[int], first: int, stop: int, most: int) -> int:
    """The column after the plain old messages that stand side by side from ``first`` on and have ``most`` bytes."""
    n = first + 1
    while n < stop and reasons[n] == oracle.KEPT and rows[n].magic < 2 and not rows[n].codec:
        if rows[n].start + rows[n].size - rows[first].start > most:
            break
        n += 1
    return n
