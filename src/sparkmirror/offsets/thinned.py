"""Where a copy goes on whose target fell back so far that the offset map is thinned there: pure.

What a takeover needs is never thinned (``condensing``), so only a target that lost far more than the last batches of
its log comes here. Records are repeated rather than lost.
"""

from __future__ import annotations

from collections.abc import Sequence

from sparkmirror.events import Event, Kind
from sparkmirror.offsets.pieces import Pieces


def go_on(pieces: Pieces, count: int, target: int, began: Sequence[int] = ()) -> tuple[int, Event]:
    """The position, and what the operator should know.

    Args:
        pieces: of the writer epoch.
        count: of the last record that the target has.
        target: its target offset.
        began: source offsets at which newer writers began anew.
    """
    piece = pieces.sources.piece_of(count)
    assert piece is not None  # a count before all segments is handled before
    position = min([piece.offset_of(count) + 1, *began])
    text = (
        f"the target lost the end of its log from offset {target + 1} on, so far back that the offset map is thinned "
        f"there: all from source offset {position} on is copied again; up to {piece.end - piece.begin} records before "
        f"target offset {target + 1} will be there twice"
    )
    return position, Event(kind=Kind.TARGET_TAIL_LOST, text=text, first=target + 1)
