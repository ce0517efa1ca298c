"""The flow's recovery point as its driver knows it.

Lanes tell the earliest recovery point of what they copy with each sign of life, so 10,000 idle partitions cost nothing.
Of a partition that no lane has, the newest progress tells it, or a floor: what its lost lane had told, or what the run
before had told of the whole flow.

Invariant: a floor never says more than was true of its partition, and ends when a lane tells.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace

from sparkmirror.events import Event
from sparkmirror.flow.recovery_limit import Alarm
from sparkmirror.flow.shift import LaneOfShifts
from sparkmirror.model import TopicPartition
from sparkmirror.offsets.records import Life, Progress
from sparkmirror.offsets.recovery import UNKNOWN_MS, RecoveryPoint, age_ms
from sparkmirror.offsets.state import JournalState


class Recovery:
    """Follows one flow.

    Args:
        limit_ms: ``rpo.limit.ms``, or None for no limit.
        known: the internal topic as it was when the flow was opened.

    Attributes:
        point: the flow's recovery point and whose it is; None while there is no partition.
        waiting: records that the target lacks, or -1 where one partition is not known.
        floors: recovery points of partitions that no lane has told of yet.
    """

    def __init__(self, limit_ms: int | None, known: JournalState) -> None:
        self.point: RecoveryPoint | None = None
        self.waiting = -1
        self.floors = _floors(known)
        self._told: dict[str, RecoveryPoint] = {}
        self._alarm = Alarm(limit_ms, known.events) if limit_ms is not None else None

    def look(
        self,
        lanes: Iterable[LaneOfShifts],
        told: Callable[[str], RecoveryPoint | None],
        pairs: Collection[TopicPartition],
        progress: Mapping[TopicPartition, Progress],
        now_ms: int,
    ) -> Event | None:
        """Takes what is known at this moment; gives what its operator must know of the limit.

        Args:
            lanes: that run now.
            told: what a shift told last.
            pairs: the partitions that the flow copies.
            progress: the newest of each.
            now_ms: the wall clock.
        """
        points: list[RecoveryPoint] = []
        copied: set[TopicPartition] = set()
        before, self._told = self._told, {}
        for lane in lanes:
            point = told(lane.current.plan.shift) or before.get(lane.name)
            if point is not None:
                self._told[lane.name] = point
                self._forget_floors(lane.partitions)
            points += _points(lane, point)
            copied |= lane.partitions
        points += [RecoveryPoint(self._of(p, progress), p) for p in pairs if p not in copied]
        self.point = min(points, default=None)
        self.waiting = _waiting(progress.get(p) for p in pairs)
        return None if self._alarm is None else self._alarm.look(self.point, now_ms)

    def lose(self, lane: LaneOfShifts) -> None:
        """A lane died: its partitions are where it told last, whatever is on record of the idle ones."""
        point = self._told.get(lane.name)
        if point is not None:
            self.floors |= dict.fromkeys(lane.partitions, point.time_ms)

    def mark(self, life: Life) -> Life:
        """A sign of life with what is known of the recovery point."""
        if self.point is None:
            return life
        return replace(life, recovery_ms=self.point.time_ms, behind=str(self.point.partition), waiting=self.waiting)

    def age_ms(self, now_ms: int) -> int | None:
        """How old the recovery point is; None where it is not known."""
        return None if self.point is None else age_ms(self.point.time_ms, now_ms)

    def _of(self, partition: TopicPartition, progress: Mapping[TopicPartition, Progress]) -> int:
        known = progress.get(partition)
        if known is None:
            return UNKNOWN_MS
        return max(known.recovery_ms, self.floors.get(partition, UNKNOWN_MS))

    def _forget_floors(self, partitions: Iterable[TopicPartition]) -> None:
        if self.floors:
            for partition in partitions:
                self.floors.pop(partition, None)


def _floors(known: JournalState) -> dict[TopicPartition, int]:
    """What the run before told of the flow holds for the partitions of which a lane of that run has told.

    Of one whose start alone is on record it may have been told before that was decided.
    """
    life = known.life
    if life is None or life.recovery_ms == UNKNOWN_MS:
        return {}
    return {
        p: life.recovery_ms for p, each in known.progress.items() if each.generation == life.generation and each.lane
    }


def _points(lane: LaneOfShifts, told: RecoveryPoint | None) -> list[RecoveryPoint]:
    """What a lane told, or before that with what it was sent out."""
    if not lane.partitions:
        return []
    if told is not None:
        return [told]
    return [RecoveryPoint(p.recovery_ms, p.source) for p in lane.current.plan.partitions if p.source in lane.partitions]


def _waiting(progress: Iterable[Progress | None]) -> int:
    total = 0
    for each in progress:
        if each is None or each.end < 0:
            return -1
        total += max(0, each.end - each.position)
    return total
