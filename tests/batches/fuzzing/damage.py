"""Damage to answers that gets past the checksums: in fields, varints, lengths, counts, streams and their order.

Blind changes of bytes end at the checksum, or in a codec. So each change is made where a kernel will read it, and the
batch is sealed again: length and CRC32C, or CRC32 for messages of magic 0 and 1, also for those that lie in another.
"""

from __future__ import annotations

import random
import struct
import zlib
from collections.abc import Callable, Sequence
from typing import Final, TypeAlias

import numpy as np

from sparkmirror.batches import Codec
from sparkmirror.batches.codecs import CodecError, decompress
from tests.batches import oracle
from tests.batches.streams import STREAMS

Damage: TypeAlias = Callable[[bytes, random.Random], bytes]

_SPECIAL_BYTES: Final = (0, 1, 2, 0x7F, 0x80, 0xFE, 0xFF)
_SPECIAL: Final = (0, 1, -1, 2, -2, 3, 63, 64, -64, -65, 127, 128, 2**15, 2**31 - 1, -(2**31), 2**31, 2**35, 2**62)
_SPECIAL_VARINTS: Final = (*_SPECIAL, 2**63 - 1, -(2**63), 2**63 - 62, 2**63 - 100)
_FIELDS: Final = (
    (0, "q"),
    (12, "i"),
    (21, "h"),
    (23, "i"),
    (27, "q"),
    (35, "q"),
    (43, "q"),
    (51, "h"),
    (53, "i"),
    (57, "i"),
)
_OLD_FIELDS: Final = ((0, "q"), (8, "i"), (16, "b"), (17, "b"), (18, "q"), (26, "i"), (18, "i"), (22, "i"), (30, "i"))
_BITS: Final = {"b": 8, "h": 16, "i": 32, "q": 64}
_LIMIT: Final = 1 << 20


def damaged(answer: bytes, others: Sequence[bytes], rng: random.Random) -> bytes:
    """The answer, changed in one place to four."""
    parts = pieces(answer)
    for _ in range(rng.choice([1, 1, 1, 2, 4])):
        if not parts or rng.random() < 0.15:
            parts = _rearranged(parts, pieces(rng.choice(others)), rng)
            continue
        at = rng.randrange(len(parts))
        change = _in_message if _magic(parts[at]) < 2 else _in_batch
        parts[at] = change(parts[at], rng)
    out = b"".join(parts)
    return out[: rng.randrange(len(out) + 1)] if rng.random() < 0.03 else out


def pieces(answer: bytes) -> list[bytes]:
    """The batches of an answer by their length fields; what is left over is the last piece."""
    found, at = [], 0
    while at < len(answer):
        length = int.from_bytes(answer[at + 8 : at + 12], "big", signed=True)
        whole = at + 17 <= len(answer) and 5 <= length <= len(answer) - at - 12
        stop = at + 12 + length if whole else len(answer)
        found.append(answer[at:stop])
        at = stop
    return found


def _magic(piece: bytes) -> int:
    return piece[16] if len(piece) >= 26 else 2


def _rearranged(parts: list[bytes], others: list[bytes], rng: random.Random) -> list[bytes]:
    """Pieces taken out, doubled, exchanged, or put in from another answer."""
    parts = list(parts)
    what = rng.randrange(5)
    if what == 0 and parts:
        parts.pop(rng.randrange(len(parts)))
    elif what == 1 and parts:
        parts.insert(rng.randrange(len(parts) + 1), rng.choice(parts))
    elif what == 2:
        rng.shuffle(parts)
    elif what == 3 and others:
        parts.insert(rng.randrange(len(parts) + 1), rng.choice(others))
    else:
        parts.insert(rng.randrange(len(parts) + 1), rng.randbytes(rng.choice([1, 16, 30, 70])))
    if rng.random() < 0.7:
        parts = _in_order(parts)
    return parts[:12]


def _in_order(parts: list[bytes]) -> list[bytes]:
    """The pieces with base offsets that ascend: they lie outside the checksum."""
    out, offset = [], 0
    for part in parts:
        ordered = struct.pack(">q", offset) + part[8:] if len(part) >= 26 else part
        delta = struct.unpack_from(">i", part, 23)[0] if len(part) >= 61 and part[16] == 2 else 0
        offset = min(offset + max(0, delta) + 1, 2**62)
        out.append(ordered)
    return out


# ------------------------------------------------------------------------------------------------------ batches


def _in_batch(batch: bytes, rng: random.Random) -> bytes:
    if len(batch) < 61:
        return _flipped(batch, rng)
    what = rng.random()
    if what < 0.3:
        changed = _with_field(batch, rng.choice(_FIELDS), rng)
    elif what < 0.7:
        changed = _in_payload(batch, rng)
    elif what < 0.85:
        changed = batch[:61] + _in_stream(batch[61:], rng)
    elif what < 0.93:
        changed = _in_another_codec(batch, rng)
    else:
        changed = batch[:12] + _flipped(batch[12:], rng)
    return oracle.sealed(changed) if rng.random() < 0.97 else changed


def _with_field(batch: bytes, place: tuple[int, str], rng: random.Random) -> bytes:
    at, kind = place
    if at + _BITS[kind] // 8 > len(batch):
        return batch
    (now,) = struct.unpack_from(">" + kind, batch, at)
    value = rng.choice([*_SPECIAL, now + 1, now - 1, now ^ 1 << rng.randrange(_BITS[kind]), 2**63 - 1, -(2**63)])
    half = 1 << _BITS[kind] - 1
    data = bytearray(batch)
    struct.pack_into(">" + kind, data, at, (value + half) % (2 * half) - half)
    return bytes(data)


def _opened(codec: int, stream: bytes) -> bytes | None:
    if codec == 0:
        return stream
    try:
        return decompress(Codec(codec), np.frombuffer(stream, np.uint8), _LIMIT).tobytes()
    except (CodecError, ValueError):
        return None


def _packed(codec: int, payload: bytes, rng: random.Random) -> bytes:
    forms = STREAMS[Codec(codec)]
    return forms[rng.choice(list(forms))](payload)


def _in_payload(batch: bytes, rng: random.Random) -> bytes:
    """A change to the records themselves, under whatever compression there is."""
    codec = batch[22] & 7
    payload = _opened(codec, batch[61:])
    if payload is None:
        return batch[:61] + _in_stream(batch[61:], rng)
    for _ in range(rng.choice([1, 1, 2])):
        change = rng.choice((_in_varint, _in_varint, _in_varint, _in_records, _in_stream))
        payload = change(payload, rng)
    return batch[:61] + _packed(codec, payload, rng)


def _in_another_codec(batch: bytes, rng: random.Random) -> bytes:
    """The records in another stream, and the codec's bits changed with it, or not."""
    payload = _opened(batch[22] & 7, batch[61:])
    codec = rng.randrange(5)
    stream = batch[61:] if payload is None else _packed(codec, payload, rng)
    named = codec if rng.random() < 0.6 else rng.randrange(8)
    return batch[:22] + bytes([batch[22] & 0xF8 | named]) + batch[23:61] + stream


class _Varint:
    """Where a number lies in a payload, and in which record."""

    __slots__ = ("begin", "end", "record", "value")

    def __init__(self, begin: int, end: int, value: int, record: int) -> None:
        self.begin, self.end, self.value, self.record = begin, end, value, record


def _varints(payload: bytes) -> tuple[list[_Varint], list[int]]:
    """The numbers of all records, and where the records begin; as far as the payload can be understood."""
    found: list[_Varint] = []
    starts = [0]
    while starts[-1] < len(payload) and len(starts) < 200:
        at = starts[-1]
        length, at = oracle.read_varint(payload, at, len(payload))
        if at < 0 or not 0 < length <= len(payload) - at:
            break
        found.append(_Varint(starts[-1], at, length, len(starts) - 1))
        _of_record(payload, at + 1, at + length, len(starts) - 1, found)
        starts.append(at + length)
    return found, starts


def _of_record(payload: bytes, at: int, end: int, record: int, found: list[_Varint]) -> None:
    """Time delta, offset delta, key and value length, header count, and then the lengths in the headers."""
    numbers = 0
    while at < end and numbers < 15:
        value, after = oracle.read_varint(payload, at, end)
        if after < 0:
            return
        found.append(_Varint(at, after, value, record))
        holds_bytes = numbers in {2, 3} or numbers > 4
        at = after + max(0, value) if holds_bytes else after
        numbers += 1


def _in_varint(payload: bytes, rng: random.Random) -> bytes:
    """Another number, the same one stretched, or one without an end; the record's length is mended or is not."""
    found, _ = _varints(payload)
    if not found:
        return _flipped(payload, rng)
    chosen = rng.choice(found)
    now = payload[chosen.begin : chosen.end]
    what = rng.random()
    if what < 0.6:
        new = oracle.varint(rng.choice([*_SPECIAL_VARINTS, chosen.value + 1, chosen.value - 1, -chosen.value]))
    elif what < 0.8:
        new = (
            now[:-1]
            + bytes([now[-1] | 0x80])
            + b"\x80" * rng.randint(0, max(0, 9 - len(now)))
            + bytes([rng.choice([0, 1])])
        )
    else:
        new = rng.choice([b"\xff", b"\x80"]) * rng.randint(5, 12)
    out = payload[: chosen.begin] + new + payload[chosen.end :]
    length = next(each for each in found if each.record == chosen.record)
    if length is chosen or rng.random() < 0.3:
        return out
    mended = oracle.varint(length.value + len(new) - len(now))
    return out[: length.begin] + mended + out[length.end :]


def _in_records(payload: bytes, rng: random.Random) -> bytes:
    """Records left out, doubled, or in another order."""
    _, starts = _varints(payload)
    parts = [payload[a:b] for a, b in zip(starts, [*starts[1:], len(payload)], strict=True)]
    at, other = rng.randrange(len(parts)), rng.randrange(len(parts))
    what = rng.randrange(3)
    if what == 0:
        parts[at], parts[other] = parts[other], parts[at]
    elif what == 1:
        parts.insert(at, parts[other])
    else:
        parts.pop(at)
    return b"".join(parts)


def _in_stream(stream: bytes, rng: random.Random) -> bytes:
    """Bytes changed, cut off at either end, doubled, or followed by others."""
    what = rng.random()
    if what < 0.4:
        return _flipped(stream, rng)
    at = rng.randrange(len(stream) + 1)
    if what < 0.7:
        return stream[:at]
    if what < 0.75:
        return stream[at:]
    if what < 0.85:
        return stream + stream
    return stream + rng.choice([b"\0", b"\0" * 9, rng.randbytes(5), stream[:at]])


def _flipped(data: bytes, rng: random.Random) -> bytes:
    out = bytearray(data)
    for _ in range(rng.choice([1, 1, 2, 5]) if data else 0):
        near = min(len(out), 24)
        at = rng.choice([rng.randrange(len(out)), rng.randrange(near), len(out) - 1 - rng.randrange(near)])
        out[at] = rng.choice([*_SPECIAL_BYTES, rng.randrange(256), out[at] ^ 1 << rng.randrange(8)])
    return bytes(out)


# ------------------------------------------------------------------------------------------------------ magic 0 and 1


def _in_message(message: bytes, rng: random.Random) -> bytes:
    """A change to a message's fields, or to those inside it."""
    begin = 22 + 8 * min(1, message[16])
    codec = message[17] & 7
    what = rng.random()
    if codec in {1, 2, 3} and what < 0.6 and len(message) > begin + 4:
        changed = _in_wrapped(message, begin + 4, codec, rng)
    elif what < 0.9:
        changed = _with_field(message, rng.choice(_OLD_FIELDS), rng)
    else:
        changed = message[:16] + _flipped(message[16:], rng)
    return _sealed_message(changed) if rng.random() < 0.95 else changed


def _in_wrapped(message: bytes, at: int, codec: int, rng: random.Random) -> bytes:
    """A change inside a compressed message, whose key is null: to its stream, or to a message in it."""
    inner = _opened(codec, message[at:]) if rng.random() < 0.7 else None
    if inner is None:
        stream = _in_stream(message[at:], rng)
    else:
        parts = pieces(inner) or [b""]
        n = rng.randrange(len(parts))
        what = rng.random()
        if what < 0.6 and len(parts[n]) >= 26:
            parts[n] = _in_message(parts[n], rng)
        elif what < 0.75:
            parts = [part for i, part in enumerate(parts) if i != n]
        elif what < 0.9:
            parts.insert(n, parts[n])
        else:
            parts.insert(n, rng.choice([parts[-1], parts[0][: rng.randrange(len(parts[0]) + 1)], message]))
        stream = _packed(codec, b"".join(parts), rng)
    size = len(stream) if rng.random() < 0.97 else rng.choice(_SPECIAL[:12])
    return message[: at - 4] + struct.pack(">i", size) + stream


def _sealed_message(message: bytes) -> bytes:
    body = message[16:]
    return message[:8] + struct.pack(">iI", len(body) + 4, zlib.crc32(body)) + body
