"""Record batches: bytes to bytes, pure.

The map of the room, in the order in which a batch meets it:

    layout          where the fields of a batch lie
    index           the batches of a fetch answer, found and checked in one call
    select          which of them go to the target (``keep``), and what keeps one from passing through (``needs``)
    stretches       neighbours that are treated alike
    provenance      a header on each record that tells its way (``mark``), for those who ask for it
    pass_through    a new header on a batch that nobody opens
    merge           many batches into one, whatever has to be done to each of them
    reencode        one batch written anew: trimmed, closed up, re-timed, recompressed, or split
    sealing         how a new batch ends: compressed, with the writer's header
    opening         a batch's records, whatever they are compressed with and however old they are
    legacy          messages of magic 0 and 1 as records of magic 2
    columns         records as an Arrow table: what its columns are
    decode          batches to columns (``decode_parts``: opened and side by side)
    encode          columns to batches (``encode_rows``: every kind of Arrow column as one)
    codecs          compression in the framings of Kafka's clients (``codec``: their numbers, ``lz4_frames``: what Java
                    passes over in a frame)

The loops are Numba functions in ``kernels``, one file for each of the names above that has some. Each has a
plain-Python twin in the tests.
"""

from sparkmirror.batches.codec import Codec
from sparkmirror.batches.codecs import DEFAULT_LIMIT
from sparkmirror.batches.columns import TimestampType, column_schema
from sparkmirror.batches.decode import decode, decode_by_chunk
from sparkmirror.batches.encode import NO_WRITER, Encoded, encode
from sparkmirror.batches.index import Indexed, index
from sparkmirror.batches.kernels.compiling import fill_cache, warm
from sparkmirror.batches.merge import Merging, Run, merge, merge_all
from sparkmirror.batches.pass_through import rewrite
from sparkmirror.batches.provenance import HEADER_NAME, Marked, Provenance, Ways, mark
from sparkmirror.batches.sealing import Merged, Stamp
from sparkmirror.batches.select import (
    NO_PRODUCERS,
    Kept,
    Need,
    Reason,
    TargetTopic,
    keep,
    needs,
    of_producers,
    producers,
    unknown_producers,
)
from sparkmirror.batches.stretches import Kind, Stretch, stretches

__all__ = [
    "DEFAULT_LIMIT",
    "HEADER_NAME",
    "NO_PRODUCERS",
    "NO_WRITER",
    "Codec",
    "Encoded",
    "Indexed",
    "Kept",
    "Kind",
    "Marked",
    "Merged",
    "Merging",
    "Need",
    "Provenance",
    "Reason",
    "Run",
    "Stamp",
    "Stretch",
    "TargetTopic",
    "TimestampType",
    "Ways",
    "column_schema",
    "decode",
    "decode_by_chunk",
    "encode",
    "fill_cache",
    "index",
    "keep",
    "mark",
    "merge",
    "merge_all",
    "needs",
    "of_producers",
    "producers",
    "rewrite",
    "stretches",
    "unknown_producers",
    "warm",
]
