"""What a flow knows of the time when MirrorMaker 2 copied in its place; part of ``offsets.records``.

    ["inherited", topic, partition]   which offsets MirrorMaker 2 copied, and where some of them are on the target
    ["elsewhere"]                     positions are not the flow's own any more: they were handed over

MirrorMaker 2's offset syncs say of single records where they lie. Between two of them nothing is exact: an offset goes
to the record after the nearest sync below it, which is never too far, and may be earlier than it need be.

Invariants: points grow on both sides; none lies at or behind the last takeover, from where on the map is exact. What
the target has lost of it since counts no more (`Inherited.cut`).

Reference: ``OffsetSyncStore.translateDownstream``.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any

from sparkmirror.model import NO_OFFSET, NOTHING_BEFORE, CopiedBefore, TopicPartition
from sparkmirror.offsets import json_text
from sparkmirror.offsets.json_text import INT32, flag, integer, moment, rows, signed, text
from sparkmirror.offsets.source_history import EpochEnd

NEWEST, SPREAD = 128, 128
"""So many of the newest points are kept, and so many spread over the others."""

ELSEWHERE_KEY = json_text.write(["elsewhere"])

_FAR = 2**63

Point = tuple[int, int]
"""A record's offset on the source and on the target."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Inherited:
    """What MirrorMaker 2 copied of a partition.

    Attributes:
        partition: of the source.
        spans: from which source offset to before which it copied, each time; the flow itself copied the others.
        end: where the target ended at the last takeover, or `NO_OFFSET`: what the flow copied then lies behind it.
        points: some records' places, in order.
        epochs: the leader epochs of the target's log below ``end``, each with the offset at which it begins; older
            releases have put none on record.
        time_ms: when it was taken over, milliseconds since 1970.
        source_id, target_id: of the topics that have these offsets; "" where brokers are too old, or an older release
            has put none on record.
    """

    partition: TopicPartition
    spans: tuple[tuple[int, int], ...]
    end: int
    points: tuple[Point, ...] = ()
    epochs: tuple[tuple[int, int], ...] = ()
    time_ms: int = 0
    source_id: str = ""
    target_id: str = ""

    @property
    def key(self) -> str:
        """The record's key."""
        return json_text.write(["inherited", *self.partition])

    def value(self) -> str:
        """The record's value."""
        return json_text.write(
            {
                "v": json_text.VERSION,
                "spans": [list(span) for span in self.spans],
                "end": self.end,
                "points": [list(point) for point in self.points],
                "epochs": [list(epoch) for epoch in self.epochs],
                "time_ms": self.time_ms,
                "source_id": self.source_id,
                "target_id": self.target_id,
            }
        )

    def is_of(self, source_id: str, target_id: str) -> bool:
        """Whether its offsets are those of these topics, as far as that is known: a topic created again has others."""
        pairs = (self.source_id, source_id), (self.target_id, target_id)
        return all("" in pair or pair[0] == pair[1] for pair in pairs)

    @property
    def bounds(self) -> CopiedBefore:
        """From where to where it goes, for records that tell whether this one is missing."""
        return CopiedBefore(self.spans[0][0], self.until, self.end)

    @property
    def until(self) -> int:
        """The source offset at which the flow took over last."""
        return self.spans[-1][1]

    @property
    def leader_epoch(self) -> int:
        """The newest leader epoch of what MirrorMaker 2 copied, or -1 where none is on record."""
        return self.epochs[-1][0] if self.epochs else -1

    def kept(self, told: EpochEnd) -> int:
        """Up to which target offset a log has what was there at the takeover.

        Args:
            told: where `leader_epoch` ends, as the log's leader says.
        """
        later = [begin for epoch, begin in self.epochs if epoch > told.epoch]
        return max(0, min([self.end, told.end, *later]))

    def cut(self, target: int, source: int) -> Inherited:
        """What is left where the target's log has lost all from ``target`` on, and ``source`` is copied next."""
        spans = [(since, min(until, source)) for since, until in self.spans if since < source]
        if not spans or spans[-1][1] != source:
            spans.append((source, source))
        return replace(
            self,
            spans=tuple(spans),
            end=target,
            points=tuple(point for point in self.points if point[1] < target),
            epochs=tuple(epoch for epoch in self.epochs if epoch[1] < target),
        )

    def parted(self, source: int) -> Inherited:
        """What is left where the source's log has other records from that offset on; the target has lost nothing."""
        spans = tuple((since, min(until, source)) for since, until in self.spans if since < source)
        points = tuple(point for point in self.points if point[0] < source)
        return replace(self, spans=spans or ((source, source),), points=points)

    def covers(self, offset: int) -> bool:
        """Whether MirrorMaker 2 copied what lies at a source offset."""
        return any(since <= offset < until for since, until in self.spans)

    def translate(self, offset: int) -> int | None:
        """A target offset that everything from ``offset`` on lies at or behind; None below the first point.

        Exact for a record of a point, else that of the record after the nearest point below.
        """
        place = bisect_right(self.points, (offset, _FAR)) - 1
        if place < 0:
            return None
        source, target = self.points[place]
        return target if source == offset else target + 1

    def translate_back(self, offset: int) -> int:
        """A source offset that everything which lies at or behind a target offset came from, or from behind it.

        Exact for a record of a point, else that of the record after the nearest point below.
        """
        place = bisect_right(self.points, offset, key=lambda point: point[1]) - 1
        if place < 0:
            return self.spans[0][0]
        source, target = self.points[place]
        return source if target == offset else source + 1

    def after(self, before: Inherited) -> Inherited:
        """This together with what was known of earlier times."""
        ((since, _),) = self.spans
        spans = tuple(span for span in before.spans if span[1] <= since and span[0] < span[1])
        return replace(self, spans=(*spans, *self.spans), points=joined(before.points, self.points))


def bounds_of(inherited: Inherited | None) -> CopiedBefore:
    """The bounds of what MirrorMaker 2 copied, if it has copied something."""
    return NOTHING_BEFORE if inherited is None else inherited.bounds


def as_told(
    known: Inherited | None, told: CopiedBefore, partition: TopicPartition, source_id: str, target_id: str
) -> Inherited | None:
    """What is known of MirrorMaker 2's copies where the newest record of them may be lost: no point is known of that.

    Args:
        known: what is on record.
        told: the bounds that the newest progress has.
        partition: of the source.
        source_id: of the topic on the source.
        target_id: of the topic on the target.
    """
    if told.until == NO_OFFSET or (known is not None and told.until <= known.until):
        return known
    since = told.since if known is None else known.until
    lost = Inherited(
        partition=partition,
        spans=((since, told.until),),
        end=told.end,
        source_id=source_id,
        target_id=target_id,
    )
    return lost if known is None else lost.after(known)


def points_of(syncs: Iterable[Point], since: int, until: int) -> tuple[Point, ...]:
    """The points of what MirrorMaker 2 told, in the order in which it told it, that lie from ``since`` to ``until``.

    A sync whose source offset lies below that of the one before makes all earlier ones void, as for MirrorMaker 2.
    """
    kept: list[Point] = []
    for source, target in syncs:
        if kept and (source < kept[-1][0] or target < kept[-1][1]):
            kept.clear()
        if since <= source < until and (not kept or (source > kept[-1][0] and target > kept[-1][1])):
            kept.append((source, target))
    return tuple(kept)


def joined(some: Iterable[Point], others: Iterable[Point]) -> tuple[Point, ...]:
    """Points together, as many as are to be kept; where they contradict each other the greater ones count."""
    kept: list[Point] = []
    for point in sorted({*some, *others}, reverse=True):
        if not kept or (point[0] < kept[-1][0] and point[1] < kept[-1][1]):
            kept.append(point)
    kept.reverse()
    older, newer = kept[:-NEWEST], kept[-NEWEST:]
    step = max(1, -(-len(older) // SPREAD))
    return (*older[::step], *newer)


@dataclass(frozen=True, slots=True, kw_only=True)
class Elsewhere:
    """The positions on record do not hold: MirrorMaker 2 has them.

    Attributes:
        topic: where they are.
        time_ms: since when, milliseconds since 1970.
        pending: whether they are being taken over from there, so that only a part may be on record.
        unasked: whether that takeover was nobody's order, so that the next start finishes it without one.
    """

    topic: str
    time_ms: int
    pending: bool = False
    unasked: bool = False

    @property
    def key(self) -> str:
        """The record's key."""
        return ELSEWHERE_KEY

    def value(self) -> str:
        """The record's value."""
        return json_text.write(
            {
                "v": json_text.VERSION,
                "topic": self.topic,
                "time_ms": self.time_ms,
                "pending": self.pending,
                "unasked": self.unasked,
            }
        )


MovingRecord = Inherited | Elsewhere


def _inherited(name: list[Any], data: dict[str, Any]) -> Inherited:
    _, topic, partition = name
    spans = tuple((signed(since), signed(until)) for since, until in rows(data["spans"]))
    if not spans:
        raise ValueError("no span")
    return Inherited(
        partition=json_text.place(topic, partition),
        spans=spans,
        end=integer(data["end"]),
        points=tuple((signed(source), signed(target)) for source, target in rows(data["points"])),
        epochs=tuple((integer(epoch, INT32), signed(begin)) for epoch, begin in rows(data.get("epochs", []))),
        time_ms=moment(data["time_ms"]),
        source_id=text(data.get("source_id", "")),
        target_id=text(data.get("target_id", "")),
    )


def _elsewhere(_name: list[Any], data: dict[str, Any]) -> Elsewhere:
    return Elsewhere(
        topic=text(data["topic"]),
        time_ms=moment(data["time_ms"]),
        pending=flag(data["pending"]),
        unasked=flag(data.get("unasked", False)),
    )


READERS: dict[str, Callable[[list[Any], dict[str, Any]], MovingRecord]] = {
    "inherited": _inherited,
    "elsewhere": _elsewhere,
}
"""The readers of these kinds, for ``records.parse``."""
