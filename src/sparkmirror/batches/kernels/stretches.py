"""Which neighbouring batches are treated alike: the loop of ``stretches``.

Invariants: a stretch that is to be opened takes in the small batches between those that are; what lies behind the last
of them stays apart, since it may go as it is.
"""

from __future__ import annotations

import numpy as np

from sparkmirror.batches import layout
from sparkmirror.batches.index import Bytes, Longs
from sparkmirror.batches.kernels import index as rows
from sparkmirror.batches.kernels.compiling import FLAGS, LONG, TABLE, kernel
from sparkmirror.batches.kernels.select import KEPT

LARGE, SMALL, OPEN = 0, 1, 2
FIRST, STOP, KIND, RECORDS = 0, 1, 2, 3

_SIZE, _FIRST, _LAST, _COUNT = rows.SIZE, rows.FIRST, rows.LAST, rows.COUNT
_ATTRIBUTES, _CODEC = rows.ATTRIBUTES, layout.CODEC_MASK


@kernel(TABLE, FLAGS, FLAGS, LONG, LONG, LONG)
def cut(
    table: Longs, reasons: Bytes, codes: Bytes, until: int, small: int, small_compressed: int
) -> tuple[Longs, int, int]:
    """Cuts the kept batches into stretches; see ``stretches.stretches``.

    Returns:
        (stretches, count, taken): four rows (first column, column after the last, kind, records), how many of the
        columns hold a stretch, and the number of batches in them.
    """
    found = np.empty((4, table.shape[1]), np.int64)
    count, taken, column, following = 0, 0, -1, np.int64(-1)
    opened = -1  # the last stretch to be opened, as long as nothing but small batches came behind it
    for n in range(table.shape[1]):
        if reasons[n] != KEPT:
            continue
        if 0 <= until <= table[_FIRST, n]:
            break
        limit = small_compressed if table[_ATTRIBUTES, n] & _CODEC else small
        kind = OPEN if codes[n] else (SMALL if table[_SIZE, n] < limit else LARGE)
        taken += 1
        joins = count > 0 and kind != OPEN and kind == found[KIND, count - 1]
        if kind == OPEN and opened >= 0:
            found[STOP, opened] = n + 1
            count = opened + 1
        elif joins and column == n - 1 and following == table[_FIRST, n]:
            found[STOP, count - 1] = n + 1
            found[RECORDS, count - 1] += table[_COUNT, n]
        else:
            found[FIRST, count] = n
            found[STOP, count] = n + 1
            found[KIND, count] = kind
            found[RECORDS, count] = 0 if kind == OPEN else table[_COUNT, n]
            if kind != SMALL:
                opened = count if kind == OPEN else -1
            count += 1
        column, following = n, table[_LAST, n] + 1
    return found, count, taken
