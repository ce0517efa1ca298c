"""Both logs of a partition as plain data: what was copied, what compaction took since, what others wrote."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import dataclass

from sparkmirror.failover.verifying import Aim, Finding, Logs, Question, Seen, begin, judge
from sparkmirror.model import NO_OFFSET, TopicPartition
from sparkmirror.offsets.map import OffsetMap

HERE, THERE = TopicPartition("orders", 0), TopicPartition("A.orders", 0)
SOURCE_ID = "the-source"


def record(offset: int, value: bytes | None = None, **attributes: object) -> Seen:
    """A record that differs from those at other offsets unless it is told its value."""
    told = {"key": b"k", "value": b"%d" % offset if value is None else value, "time": 1_000, "stamped": False}
    return Seen(offset=offset, **(told | attributes))  # type: ignore[arg-type]  # what a case names


@dataclass(frozen=True)
class Side:
    """A log: its records by offset, where it begins and ends."""

    records: Mapping[int, Seen]
    start: int
    end: int

    def first(self, offset: int) -> Seen | None:
        known = sorted(self.records)
        place = bisect_left(known, offset)
        return self.records[known[place]] if place < len(known) else None


def answer(question: Question, offsets: OffsetMap, source: Side, target: Side) -> Finding:
    """Reads for as long as it is asked to."""
    step = begin(question, offsets, Logs(source.start, source.end, target.start, target.end))
    turns = 0
    while isinstance(step, Aim):
        turns += 1
        assert turns < 10
        step = judge(question, step, source.first(step.source), target.first(step.target), offsets, SOURCE_ID)
    return step


def copied(offsets: OffsetMap, source: Mapping[int, Seen], target_end: int | None = None) -> tuple[Side, Side]:
    """Both sides where the target has what the map says."""
    there = {}
    for stretch in offsets.settled(NO_OFFSET):
        for step in range(stretch.length):
            seen = source.get(stretch.source + step)
            if seen is not None:
                at = stretch.target + step
                there[at] = Seen(at, seen.time, seen.stamped, seen.key, seen.value, seen.headers)
    last = offsets.end()
    assert last is not None
    end = last.target + 1 if target_end is None else target_end
    return Side(source, min(source), max(source) + 1), Side(there, 0, end)
