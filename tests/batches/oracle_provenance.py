"""The twin of ``kernels.provenance.mark`` in plain Python: what a reader sees of the new batches."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from tests.batches.oracle import KEPT, Row, fields, parse

Headers = tuple[tuple[bytes, bytes | None], ...]


class Seen(NamedTuple):
    """A record of a batch, everything that a reader can tell."""

    attributes: int
    time_delta: int
    offset_delta: int
    key: bytes | None
    value: bytes | None
    headers: Headers


def seen(data: bytes, row: Row) -> list[Seen] | None:
    """The records of a batch without compression; None where they do not fill it."""
    at, stop, found = row.start + 61, row.start + row.size, []
    for _ in range(row.count):
        part = parse(data, at, stop)
        content = fields(part.tail) if part is not None else None
        if part is None or content is None:
            return None
        found.append(Seen(part.attributes, part.time_delta, part.offset_delta, *content))
        at = part.end
    return found if at == stop else None


def marked(record: Seen, name: bytes, own: bytes, target: bytes, way: bytes) -> Seen | None:
    """The record with the header; None for one that has been on the target."""
    named = [n for n, header in enumerate(record.headers) if header[0] == name]
    if any(target in (record.headers[n][1] or b"").split(b",") for n in named):
        return None
    headers = list(record.headers)
    if named:
        value = headers[named[-1]][1]
        headers[named[-1]] = (name, value + b"," + own if value else own)
    else:
        headers.append((name, way))
    return record._replace(headers=tuple(headers))


def mark(
    data: bytes,
    rows: Sequence[Row],
    reasons: Sequence[int],
    name: bytes,
    own: bytes,
    target: bytes,
    ways: Sequence[bytes],
) -> list[list[Seen] | None]:
    """The records of each new batch, None for one that is dropped; ends before the first that is damaged."""
    found: list[list[Seen] | None] = []
    for row, reason, way in zip(rows, reasons, ways, strict=True):
        if reason != KEPT:
            found.append(None)
            continue
        records = seen(data, row)
        if records is None:
            break
        new = (marked(record, name, own, target, way) for record in records)
        found.append([record for record in new if record is not None])
    return found
