"""How many lanes a flow may have, and when its partitions are packed anew. Pure.

In this process Spark is given as many slots as the lanes need. On a cluster lanes share what executors have: every flow
alike, and an eighth stays free, in which the successors of shifts start before their predecessors end, in turn.

Invariants: no more lanes are packed than can run; a change of the room counts only when it has lasted, since a lost
executor comes back within seconds, and packing anew makes every lane pause.
"""

from __future__ import annotations

from dataclasses import dataclass

from sparkmirror.copy.plan import lane_count

SPARE_PART = 8
SETTLE_SECONDS = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Room:
    """What a flow may use of Spark now.

    Attributes:
        lanes: how many lanes it is packed into.
        most: how many can run at all, such as those of new partitions beside the others.
    """

    lanes: int
    most: int


def room_in_cluster(slots: int, flows: int) -> Room:
    """A flow's share of a cluster.

    Args:
        slots: how many tasks its executors can run at once.
        flows: how many flows share them.
    """
    spare = max(1, slots // SPARE_PART)
    return Room(lanes=max(1, (slots - spare) // flows), most=max(1, slots // flows))


def room_here(tasks_max: int | None, cores: int, flows: int, spare: int) -> Room:
    """A flow's share of this process.

    Args:
        tasks_max: the flow's own, or None.
        cores: of this machine.
        flows: how many share them.
        spare: slots that Spark gets beside those of the lanes and their successors.
    """
    lanes = tasks_max if tasks_max is not None else max(1, cores // flows)
    return Room(lanes=lanes, most=2 * lanes + spare)


@dataclass(frozen=True, slots=True, kw_only=True)
class Packing:
    """How the partitions of a flow are packed, and how they could be.

    Attributes:
        lanes: lanes that run, extra ones included.
        extras: lanes that came beside the others since.
        packed: lanes that the last packing made.
        could: lanes that the same partitions would be packed into now.
        most: lanes that can run now.
        seconds: since the last packing.
        changed: seconds since ``could`` or ``most`` changed last.
        patience: seconds that extra lanes stay beside the others.
    """

    lanes: int
    extras: int
    packed: int
    could: int
    most: int
    seconds: float
    changed: float
    patience: float


def must_pack_anew(now: Packing) -> bool:
    """Whether to drain all lanes and pack their partitions anew."""
    if now.extras and now.seconds > now.patience:
        return True
    settled = min(now.seconds, now.changed) > SETTLE_SECONDS
    return settled and (now.could > now.packed or now.lanes > now.most)


@dataclass(slots=True)
class Packed:
    """The last packing of a flow, compared with what would be possible since.

    Attributes:
        at: when it was, on the monotonic clock.
        lanes: how many lanes it made.
        partitions: of how many partitions.
    """

    at: float
    lanes: int = 0
    partitions: int = 0
    _possible: tuple[int, int] = (0, 0)
    _changed: float = 0.0

    def compare(
        self, room: Room, tasks_max: int | None, *, lanes: int, extras: int, patience: float, now: float
    ) -> Packing:
        """What `must_pack_anew` decides from; to be called about once a second."""
        possible = (lane_count(tasks_max, room.lanes, self.partitions), room.most)
        if possible != self._possible:
            self._possible, self._changed = possible, now
        return Packing(
            lanes=lanes,
            extras=extras,
            packed=self.lanes,
            could=possible[0],
            most=room.most,
            seconds=now - self.at,
            changed=now - self._changed,
            patience=patience,
        )
