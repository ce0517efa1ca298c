"""Which batches of a fetch answer go to the target, and what has to be done to them.

Purpose: the decisions, vectorised. Control batches, aborted transactions, batches that came from the target, empty
batches and those below the position are dropped; each of the rest gets a code that says whether it passes through.

Invariants: decided from headers alone, except for the type of control records. What is dropped is a hole in the offset
map, see ``segments``.

References: KIP-98 (aborted transactions in fetch answers); design section 3 (when to open a batch).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum, IntFlag
from functools import cached_property

import numpy as np
import numpy.typing as npt

from sparkmirror.batches.codec import Codec
from sparkmirror.batches.index import Indexed, Longs
from sparkmirror.batches.kernels import index as rows
from sparkmirror.batches.kernels import select as kernels
from sparkmirror.errors import BatchError


class Reason(IntEnum):
    """Why a batch is dropped."""

    KEPT = kernels.KEPT
    BEFORE = kernels.BEFORE
    """Its offsets end below the position."""
    CONTROL = kernels.CONTROL
    EMPTY = kernels.EMPTY
    """Compaction took all its records."""
    LOOP = kernels.LOOP
    """A mirror wrote it, and it came from the target."""
    ABORTED = kernels.ABORTED


class Need(IntFlag):
    """What keeps a batch from being passed through; several may be true of one batch."""

    PASS = kernels.PASS
    TRIM = kernels.TRIM
    """The position lies inside it."""
    THIN = kernels.THIN
    """Compaction took some of its records."""
    LOG_APPEND_TIME = kernels.LOG_APPEND_TIME
    """Its records' time is the broker's, and the target would show their own."""
    RECOMPRESS = kernels.RECOMPRESS
    TOO_LARGE = kernels.TOO_LARGE
    """Above the target topic's max.message.bytes."""
    OLD_MAGIC = kernels.OLD_MAGIC
    """Written before Kafka 0.11: a message of magic 0 or 1, see ``legacy``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetTopic:
    """What the target topic asks of a batch.

    Attributes:
        log_append_time: whether ``message.timestamp.type`` is LogAppendTime.
        max_message_bytes: the topic's limit for a whole batch.
        codec: what every batch shall be compressed with, or None to leave that as it is.
        enforced: whether the brokers compress with ``codec`` whatever comes otherwise, and then look at its size.
        levels: how hard a codec tries, where it is told.
    """

    log_append_time: bool
    max_message_bytes: int
    codec: Codec | None = None
    enforced: bool = False
    levels: Mapping[Codec, int] = field(default_factory=dict)

    @property
    def room(self) -> int:
        """Bytes that a batch may have before compression so that it fits, even if compression makes it grow."""
        grows = self.enforced and self.codec is not Codec.NONE
        return self.max_message_bytes - (self.max_message_bytes // 16 if grows else 0)


@dataclass(frozen=True, kw_only=True)
class Kept:
    """Which batches of an index stay.

    Attributes:
        reasons: uint8 per batch, a ``Reason``.
        start_offset: the position that it was decided for.
    """

    reasons: npt.NDArray[np.uint8]
    start_offset: int

    @cached_property
    def mask(self) -> npt.NDArray[np.bool_]:
        """True for each batch that stays."""
        return self.reasons == kernels.KEPT


def producers(producer_ids: Sequence[int] | set[int] | frozenset[int]) -> Longs:
    """Producer ids in the form that ``keep`` and ``unknown_producers`` search: ascending int64."""
    return np.array(sorted(producer_ids), np.int64)


def of_producers(kept: Kept, indexed: Indexed, producer_ids: Longs) -> Kept:
    """The same without the batches of all other producers (see ``producers``)."""
    others = kept.mask & ~np.isin(indexed.producer_id, producer_ids)
    return Kept(reasons=np.where(others, np.uint8(Reason.LOOP), kept.reasons), start_offset=kept.start_offset)


NO_PRODUCERS: Longs = producers(())
_NO_TRANSACTIONS: Longs = np.empty((2, 0), np.int64)


def unknown_producers(indexed: Indexed, known: Longs) -> Longs:
    """The producer ids in an index that ``known`` (see ``producers``) does not have, each once."""
    found, count = kernels.strangers(indexed.table, known)
    return found[:count]


def keep(
    indexed: Indexed,
    *,
    start_offset: int,
    aborted: Sequence[tuple[int, int]] | None = None,
    dropped_producers: Longs = NO_PRODUCERS,
) -> Kept:
    """Decides which batches of a fetch answer go to the target.

    Args:
        indexed: the whole answer of one partition: the transactions that it aborted are told for it as a whole.
        start_offset: the position, that is the first source offset to copy.
        aborted: (producer id, first offset) of each aborted transaction as a read_committed answer lists them; None
            or nothing under read_uncommitted.
        dropped_producers: ids (see ``producers``) whose batches are dropped as loops.

    Raises:
        BatchError: the end marker of an aborted transaction cannot be read.
    """
    transactions = _by_first_offset(aborted) if aborted else _NO_TRANSACTIONS
    reasons, fault = kernels.drop(indexed.data, indexed.table, start_offset, dropped_producers, transactions)
    if fault >= 0:
        offset = int(indexed.table[rows.FIRST, fault])
        raise BatchError(offset=offset, reason="the end marker of an aborted transaction cannot be read")
    return Kept(reasons=reasons, start_offset=start_offset)


def _by_first_offset(aborted: Sequence[tuple[int, int]]) -> Longs:
    ordered = sorted((first, producer) for producer, first in aborted)
    return np.ascontiguousarray(np.array(ordered, np.int64).T)


def needs(indexed: Indexed, kept: Kept, target: TargetTopic) -> npt.NDArray[np.uint8]:
    """Says for each kept batch what keeps it from passing through; see ``Need``. 0 for batches that are dropped."""
    return _classified(indexed.table, kept.reasons, kept.start_offset, target)


def need(indexed: Indexed, kept: Kept, target: TargetTopic, column: int) -> Need:
    """What keeps one batch from passing through, as ``needs`` says for all."""
    one = slice(column, column + 1)
    table = np.ascontiguousarray(indexed.table[:, one])
    return Need(int(_classified(table, kept.reasons[one], kept.start_offset, target)[0]))


def _classified(
    table: Longs, reasons: npt.NDArray[np.uint8], start_offset: int, target: TargetTopic
) -> npt.NDArray[np.uint8]:
    codec = -1 if target.codec is None else int(target.codec)
    codes: npt.NDArray[np.uint8] = kernels.classify(
        table, reasons, start_offset, int(target.log_append_time), codec, target.max_message_bytes
    )
    return codes
