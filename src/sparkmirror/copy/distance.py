"""What is worth merging, by how far away the target is.

Purpose: at most five batches of a partition are unacknowledged, so it moves five of them in a round trip, however small
they are. Over 100 ms that is 0.8 MB/s for batches of 16 KiB and 52 MB/s for batches of 1 MiB. Opening batches to merge
them costs CPU time, and compressed ones cost much of it. So a batch is merged with its neighbours where five of its
size in each round trip are slower than opening them.

Pure. What is measured is the least round trip of a connection (``kafka.transport``), so a slow phase does not count,
and a leader elsewhere brings its own.

Invariant: for a near target the thresholds are those of ``arrivals``, whatever else is true.
"""

from __future__ import annotations

from dataclasses import dataclass

from sparkmirror.copy.arrivals import SMALL_BYTES, SMALL_COMPRESSED_BYTES

IN_FLIGHT_PER_PARTITION = 5
"""Brokers remember the last five batches of a producer (``ProducerStateEntry.NUM_BATCHES_TO_RETAIN``)."""

FAR_SECONDS = 0.020
"""From this round trip on a target is far. Below it a busy broker takes longer than the line."""

MERGED_PER_SECOND = 300_000_000
RECOMPRESSED_PER_SECOND = 45_000_000
"""Bytes of batches, as they lie in the source, that one lane merges; the second of compressed ones."""

FULL = 0.98
MOST_ROOM = 8


@dataclass(frozen=True, slots=True)
class Small:
    """Bytes below which a batch is merged with its neighbours when several wait.

    Attributes:
        plain: of an uncompressed batch.
        compressed: of a compressed one.
    """

    plain: int = SMALL_BYTES
    compressed: int = SMALL_COMPRESSED_BYTES


NEAR = Small()


def is_far(round_trip: float) -> bool:
    """Whether the line, and not the broker, decides how long an answer takes; ``round_trip`` in seconds."""
    return round_trip >= FAR_SECONDS


def small(round_trip: float, limited: int, batch_bytes: int) -> Small:
    """What is small for one partition.

    Args:
        round_trip: seconds to its target leader and back.
        limited: partitions of the lane that wait for an answer before they can send on; they share its CPU time.
        batch_bytes: how large a merged batch may become. Above half of it two have no room in one.
    """
    if not is_far(round_trip):
        return NEAR
    share = round_trip / IN_FLIGHT_PER_PARTITION / max(1, limited)
    most = batch_bytes // 2
    return Small(
        plain=max(NEAR.plain, min(most, int(MERGED_PER_SECOND * share))),
        compressed=max(NEAR.compressed, min(most, int(RECOMPRESSED_PER_SECOND * share))),
    )


def room(batch_bytes: int, poured: int, sealed: int) -> int:
    """Bytes to pour into the next batch, before compression, so that it comes out about full.

    Args:
        batch_bytes: how large it may become.
        poured: what the last one held before compression.
        sealed: what it came to.
    """
    wanted = int(FULL * batch_bytes * poured / sealed)
    return min(max(batch_bytes, wanted), MOST_ROOM * batch_bytes)
