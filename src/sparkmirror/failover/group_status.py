"""What each group would read again or miss if it started on the target at this moment, by what is on record.

The source is not asked, so this works while it is away: what groups have committed is on record, as it was seen last.

Invariant: what is not known is None: a group without an offset on the target begins where its consumers' settings say.
"""

from __future__ import annotations

from dataclasses import dataclass

from sparkmirror.config import FlowConfig
from sparkmirror.duties.known_maps import KnownMaps
from sparkmirror.failover import look, moves
from sparkmirror.failover.moves import GroupMove
from sparkmirror.flow.sides import connected, record
from sparkmirror.model import NO_OFFSET


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupStatus:
    """One group.

    Attributes:
        group: its name.
        seen_ms: when the source was asked for its offsets last, milliseconds since 1970.
        partitions: of copied topics that it has committed.
        repeats: offsets that it would read again, since the target has an older one of it; None where it has none.
        ahead: offsets that it has read and that are not on the target.
        further: offsets that it would skip: it stands beyond its translation there, by a commit that is not the flow's.
        skipped: offsets, at most, that it would skip since the target does not have them.
        left_out: partitions that have no offset on the target, whatever is done.
        hindrance: why a failover would not move it, or "".
        lost: partitions in which the source has lost what it had committed; what was seen before counts.
    """

    group: str
    seen_ms: int
    partitions: int
    repeats: int | None
    ahead: int
    further: int
    skipped: int
    left_out: int
    hindrance: str = ""
    lost: int = 0

    @property
    def remark(self) -> str:
        """What is to be said of it, for people."""
        if self.hindrance or not self.lost:
            return self.hindrance
        return f"the source has lost its offsets in {self.lost} partitions: it goes by what was seen before"


def group_status(flow: FlowConfig) -> tuple[GroupStatus, ...]:
    """Every group on record, by name in order; none for a flow that was never started.

    Raises:
        SparkmirrorError: the target cannot be asked.
    """
    with connected(flow, role="status") as sides:
        if record(sides) is None:
            return ()
        return tuple(map(status_of, moves.decide(look.sight(sides, KnownMaps(sides)))))


def status_of(move: GroupMove) -> GroupStatus:
    """What a move says of its group."""
    places = [place for place in move.places if place.target is not None]
    placed = [place for place in places if place.offset != NO_OFFSET]
    known = all(place.before != NO_OFFSET for place in placed)
    return GroupStatus(
        group=move.group,
        seen_ms=move.seen_ms,
        partitions=len(places),
        repeats=sum(max(0, p.offset - p.before) for p in placed if not p.passed) if known else None,
        ahead=sum(place.ahead for place in places),
        further=sum(place.further for place in places),
        skipped=sum(place.skipped for place in places),
        left_out=len(places) - len(placed),
        hindrance=move.hindrance,
        lost=sum(place.lost for place in places),
    )
