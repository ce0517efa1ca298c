"""Record batches: bytes to bytes, pure.

The map of the room, in the order in which a batch meets it:

    layout          where the fields of a batch lie
    index           the batches of a fetch answer, found and checked in one call
    select          which of them go to the target (``keep``), and what keeps one from passing through (``needs``)
    stretches       neighbours that are treated alike
    pass_through    a new header on a batch that nobody opens
    merge           small batches into one; trimming, thinned batches, broker time, other codecs, splitting
    opening         a batch's records, whatever they are compressed with
    codecs          compression in the framings of Kafka's clients (``codec``: their numbers)

Files named ``*_kernel`` hold the loops (Numba); ``kernel`` says how they are compiled; they are made of ``crc``,
``varint`` and ``words``. Each kernel has a plain-Python twin in the tests.
"""

from sparkmirror.batches.codec import Codec
from sparkmirror.batches.codecs import DEFAULT_LIMIT
from sparkmirror.batches.index import Indexed, index
from sparkmirror.batches.kernel import fill_cache, warm
from sparkmirror.batches.merge import Merged, Merging, Run, Stamp, merge
from sparkmirror.batches.pass_through import rewrite
from sparkmirror.batches.select import (
    NO_PRODUCERS,
    Kept,
    Need,
    Reason,
    TargetTopic,
    keep,
    needs,
    producers,
    unknown_producers,
)
from sparkmirror.batches.stretches import Kind, Stretch, stretches

__all__ = [
    "DEFAULT_LIMIT",
    "NO_PRODUCERS",
    "Codec",
    "Indexed",
    "Kept",
    "Kind",
    "Merged",
    "Merging",
    "Need",
    "Reason",
    "Run",
    "Stamp",
    "Stretch",
    "TargetTopic",
    "fill_cache",
    "index",
    "keep",
    "merge",
    "needs",
    "producers",
    "rewrite",
    "stretches",
    "unknown_producers",
    "warm",
]
