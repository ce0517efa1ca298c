"""Records that say themselves which clusters they have come through, in a header.

Purpose: loop protection where no registry helps: chains with other tools, and rings under identity naming. Each flow
adds its source to ``sparkmirror.provenance``, a list of cluster ids parted by commas, the birthplace first; records
that name its target are left out.

Invariants: what comes out is what a fetch answer of a source with such records would be, without compression: an index
of sound batches, whose offsets are those of the source. A batch that cannot be opened ends it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from sparkmirror.batches import layout
from sparkmirror.batches.codec import Codec
from sparkmirror.batches.codecs import DEFAULT_LIMIT
from sparkmirror.batches.index import Bytes, Indexed, Longs
from sparkmirror.batches.kernels import index as rows
from sparkmirror.batches.kernels import pour
from sparkmirror.batches.kernels import provenance as kernels
from sparkmirror.batches.kernels.select import KEPT, LOOP
from sparkmirror.batches.opening import codec_of, damaged, open_batch
from sparkmirror.batches.select import Kept
from sparkmirror.errors import BatchError

HEADER_NAME = "sparkmirror.provenance"

ROOM = 64 << 20
"""Bytes of records that are opened at a time; what lies behind them is left to the next answer."""

_NAME = np.frombuffer(HEADER_NAME.encode(), np.uint8)

Ways: TypeAlias = Mapping[tuple[str, ...], npt.NDArray[np.bool_]]
"""Clusters that batches have come through before the source, and which batches of an index."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Provenance:
    """What a flow writes and looks for; both are cluster ids.

    Attributes:
        source: is added to each record.
        target: records that name it are left out.
    """

    source: str
    target: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Marked:
    """An answer whose records have the header.

    Attributes:
        indexed: its batches, up to the first that was not opened.
        kept: which of them go to the target.
        codec: what the source's batches are compressed with, as the first of them is that is; these are not.
        error: why the batch behind them cannot be opened, or None.
    """

    indexed: Indexed
    kept: Kept
    codec: Codec
    error: BatchError | None = None


def mark(
    indexed: Indexed, kept: Kept, flow: Provenance, ways: Ways | None = None, limit: int = DEFAULT_LIMIT
) -> Marked:
    """Adds the header to every record of the kept batches, and leaves out those that have been on the target.

    Args:
        indexed: an answer.
        kept: what ``keep`` decided for it.
        flow: what it writes and looks for.
        ways: what records without the header have come through, where that is known.
        limit: the most bytes that one batch may decompress to.
    """
    plain, codec, error = _opened(indexed, kept, limit)
    count = len(plain)
    reasons = kept.reasons[:count].copy()  # it is written to, and is the caller's
    texts, spans = _texts(flow, ways or {}, count)
    own, target = (np.frombuffer(each.encode(), np.uint8) for each in (flow.source, flow.target))
    out = np.empty(_room(plain, reasons, len(texts)), np.uint8)
    table = plain.table.copy()
    reached, size = kernels.mark(plain.data, plain.table, reasons, _NAME, own, target, texts, spans, out, table)
    if reached < count:
        error = damaged(plain.table, int(reached))
        reasons, table = reasons[:reached], np.ascontiguousarray(table[:, :reached])
    reasons[(reasons == KEPT) & (table[rows.COUNT] == 0)] = LOOP
    found = replace(indexed, data=out[:size], table=table, end=int(size))
    return Marked(indexed=found, kept=replace(kept, reasons=reasons), codec=codec, error=error)


def _room(plain: Indexed, reasons: npt.NDArray[np.uint8], longest: int) -> int:
    """The most bytes that the kept batches take; a count that lies is not believed."""
    mine = plain.table[:, reasons == KEPT]
    records = np.minimum(mine[rows.COUNT], mine[rows.SIZE] // pour.LEAST + 1).sum()
    return int(mine[rows.SIZE].sum() + records * (kernels.OVERHEAD + len(_NAME) + longest))


def _texts(flow: Provenance, ways: Ways, count: int) -> tuple[Bytes, Longs]:
    """The values of new headers, side by side, and where each batch's lies."""
    text = flow.source.encode()
    spans = np.tile(np.array([[0], [len(text)]], np.int64), (1, count))
    for way, mask in ways.items():
        value = ",".join((*way, flow.source)).encode()
        spans[:, mask[:count]] = [[len(text)], [len(text) + len(value)]]
        text += value
    return np.frombuffer(text, np.uint8), spans


def _opened(indexed: Indexed, kept: Kept, limit: int) -> tuple[Indexed, Codec, BatchError | None]:
    """The same batches without compression, as many as there is room for; the first kept one's codec that has one."""
    closed = kept.mask & ((indexed.magic < 2) | ((indexed.attributes & layout.CODEC_MASK) != 0))
    if not closed.any():
        return indexed, Codec.NONE, None
    codec = next((c for n in np.flatnonzero(closed).tolist() if (c := codec_of(indexed, n))), Codec.NONE)
    parts: list[Bytes] = []
    table, at = indexed.table.copy(), 0
    gap = np.zeros(layout.HEADER, np.uint8)
    for n in range(len(indexed)):
        start, size = table[rows.START, n], 0
        table[rows.START, n] = at
        if not kept.mask[n]:
            continue
        if closed[n]:
            try:
                opened = open_batch(indexed, n, limit)
            except BatchError as error:
                return _first(indexed, parts, table, n), codec, error
            records = opened.records[opened.at :]
            if indexed.magic[n] < 2:
                table[:, n] = opened.table[:, opened.column]
                table[rows.START, n] = at
            parts += [gap, records]
            size = layout.HEADER + len(records)
        else:
            size = int(table[rows.SIZE, n])
            parts.append(indexed.data[start : start + size])
        table[rows.SIZE, n] = size
        at += size
        if at > ROOM:
            return _first(indexed, parts, table, n + 1), codec, None
    return _first(indexed, parts, table, len(indexed)), codec, None


def _first(indexed: Indexed, parts: list[Bytes], table: Longs, count: int) -> Indexed:
    data = np.concatenate(parts) if parts else np.empty(0, np.uint8)
    return replace(indexed, data=data, table=np.ascontiguousarray(table[:, :count]))
