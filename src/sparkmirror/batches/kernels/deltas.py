"""Record times and their deltas, for kernels: sums that wrap around 64 bits, as Java's do.

Purpose: a batch may hold times as far apart as 64 bits reach, and then the delta between two of them wraps.

Invariants: the sums are unsigned. Numba tells LLVM that signed ones never wrap, and LLVM may take the sign of
``a - b`` for ``a < b``: a delta would be written with the wrong sign. Do not write them with plain operators.

References: org.apache.kafka.common.record.DefaultRecordBatch (record timestamps), numba.cpython.numbers
(_int_arith_flags).
"""

from __future__ import annotations

import numpy as np

from sparkmirror.batches.kernels.compiling import inner


@inner
def delta_of(time: int, base: int) -> int:
    """What a record of that time says in a batch with that base timestamp."""
    return np.int64(np.uint64(time) - np.uint64(base))


@inner
def time_of(base: int, delta: int) -> int:
    """The time of a record that says ``delta``."""
    return np.int64(np.uint64(base) + np.uint64(delta))
