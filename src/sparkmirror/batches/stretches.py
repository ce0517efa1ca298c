"""The kept batches of an answer, cut where the copying of them changes.

Purpose: one entry for thousands of neighbours that are treated alike, so that the copy loop works on a few of them.

Invariants: the stretches cover every kept batch below ``until`` once, in order. Within one that is not to be opened
there is no hole: each batch begins at the offset after the one before it.
"""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from sparkmirror.batches.index import Indexed
from sparkmirror.batches.kernels import stretches as kernels
from sparkmirror.batches.select import Kept


class Kind(IntEnum):
    """How the batches of a stretch are treated."""

    LARGE = kernels.LARGE
    """Each goes by itself, as it is."""
    SMALL = kernels.SMALL
    """They may go as they are, and are better merged."""
    OPEN = kernels.OPEN
    """They must be opened, or lie between others that must and are better merged with them; with or without holes."""


class Stretch(NamedTuple):
    """Columns ``first`` up to ``stop``, their kind, and how many records their headers tell of.

    Where they are opened that is 0, and dropped batches may lie between them.
    """

    first: int
    stop: int
    kind: int
    records: int


def stretches(
    indexed: Indexed,
    kept: Kept,
    codes: npt.NDArray[np.uint8],
    *,
    small: int,
    small_compressed: int,
    until: int = -1,
) -> tuple[list[Stretch], int]:
    """Cuts the kept batches of an answer into stretches.

    Args:
        indexed: the answer.
        kept: what ``keep`` decided for it.
        codes: what ``needs`` decided for it.
        small: uncompressed batches below this many bytes are small.
        small_compressed: compressed batches below this many bytes are small.
        until: leave out batches that begin at this source offset or above; -1 for none.

    Returns:
        The stretches, and the number of batches in them.
    """
    found, count, taken = kernels.cut(indexed.table, kept.reasons, codes, until, small, small_compressed)
    return [Stretch(*column) for column in found[:, :count].T.tolist()], taken
