"""Parts of the offset map: records of one writer epoch, one after the other, as far as they hold. Pure."""

from __future__ import annotations

from typing import NamedTuple

from sparkmirror.model import Writer
from sparkmirror.offsets.pieces import Pieces
from sparkmirror.offsets.track import FAR


class Part(NamedTuple):
    """Records of one writer epoch, one after the other.

    Attributes:
        pieces: of the epoch.
        first, stop: from which count to before which.
        known: whether their place on the target is.
        writer: whose epoch it is.
        lacking: whether what was copied between the part before and this one is lost from the map.
        certain: before which source offset it counts for sure: an order had the copy go back there, and whether it
            copied all again is lost from the map.
        ended: whether it is known where the epoch has ended, or it goes on.
    """

    pieces: Pieces
    first: int
    stop: int
    known: bool
    writer: Writer
    lacking: bool = False
    certain: int = FAR
    ended: bool = True


def source_of(part: Part, count: int) -> int:
    """The source offset of a count; where that is not exact, one that is not beyond."""
    offset = part.pieces.sources.offset_of(count)
    assert offset is not None  # a part begins at a segment
    return offset


def target_of(part: Part, count: int) -> int:
    """The target offset of a count of a known part; where that is not exact, one that is not beyond."""
    offset = part.pieces.targets.offset_of(count)
    assert offset is not None  # a known part begins at a point
    return offset
