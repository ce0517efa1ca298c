"""An oracle for the offset map: the segments on the internal topic against the records of both logs.

Reads with librdkafka and json alone, so that a mistake in `sparkmirror.offsets` is not repeated here: what is packed is
read byte by byte. Both logs must hold the same records in the same order (the referee says so): the n-th record here is
the n-th one there. It needs segments that were not thinned.

A partition that was taken over has segments of several writer epochs. What a newer epoch's first segment says holds
from there on, whatever older ones said: the target may have lost its tail meanwhile; but an epoch that is over, has
no target offset at all and did not begin anew has nothing there. Of two epochs the newer one is that of the producer
id that was registered later, then the greater one (docs/internal-topics.md).
"""

from __future__ import annotations

import base64
import bisect
import json
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from sparkmirror.errors import LabError
from sparkmirror.lab.cluster import LabCluster
from sparkmirror.lab.records import Reader, extents

REGISTRY = "sparkmirror.writers.internal"

Entries: TypeAlias = dict[tuple[Any, ...], dict[str, Any]]
"""An internal topic: the newest value of each key."""

Pieces: TypeAlias = dict[int, list[tuple[int, int | None]]]
"""By partition: (source offset, target offset) where each straight piece begins, in order."""

OffsetsOf: TypeAlias = dict[int, list[int]]
"""By partition: the offsets of all committed records, in order."""


def offsets(cluster: LabCluster, topic: str) -> OffsetsOf:
    """The offsets of all committed records."""
    found: OffsetsOf = {partition: [] for partition in extents(cluster.bootstrap_servers, topic)}
    with Reader(cluster.bootstrap_servers, topic, extents(cluster.bootstrap_servers, topic)) as reader:
        for messages in reader:
            for message in messages:
                found[message.partition()].append(message.offset())  # type: ignore[index,arg-type]  # a record has both
    return found


def journal(cluster: LabCluster, topic: str) -> Entries:
    """What an internal topic holds: the newest value of each key, in the order of the log, tombstones gone."""
    newest: Entries = {}
    with Reader(cluster.bootstrap_servers, topic, extents(cluster.bootstrap_servers, topic)) as reader:
        for messages in reader:
            for message in messages:
                key = tuple(json.loads(message.key() or b""))
                newest.pop(key, None)
                value = message.value()
                if value is not None:
                    newest[key] = json.loads(value)
    return newest


def registered(cluster: LabCluster) -> tuple[int, ...]:
    """The producer ids of all flows that write to a cluster, the one that was registered last at the end."""
    return tuple(key[1] for key in journal(cluster, REGISTRY) if key[0] == "writer")


def segments(entries: Entries, topic: str, producers: Sequence[int] = ()) -> Pieces:
    """Where each straight piece begins, as a reader of the topic takes it.

    Args:
        entries: of the flow's internal topic.
        topic: of the source.
        producers: ids in the order of their registration; only where the flow has changed one it matters.
    """
    age = {producer: number for number, producer in enumerate(producers)}
    halves: dict[int, dict[tuple[int, int], _Halves]] = {}
    for key, value in entries.items():
        if key[0] in ("segments", "targets") and key[1] == topic:
            kind, _, partition, producer, epoch, sequence = key
            here = halves.setdefault(partition, {}).setdefault((age.get(producer, 0), epoch), _Halves())
            here.take(kind, sequence, value)
    return {
        partition: _layered(
            {writer: each.pieces() for writer, each in writers.items() if each.sources},
            {writer for writer, each in writers.items() if each.anew},
        )
        for partition, writers in halves.items()
    }


@dataclass
class _Halves:
    """One writer epoch: points (sequence, offset) of both sides, and the sequences from which on nothing arrived."""

    sources: list[tuple[int, int]] = field(default_factory=list)
    targets: list[tuple[int, int | None]] = field(default_factory=list)
    anew: bool = False

    def take(self, kind: str, sequence: int, value: Mapping[str, Any]) -> None:
        if kind == "segments":
            self.sources += _points(sequence, value["source"], value)
            self.anew = self.anew or bool(value.get("anew"))
        elif value["target"] is None:
            self.targets.append((sequence, None))
        else:
            self.targets += _points(sequence, value["target"], value)

    def pieces(self) -> list[tuple[int, int | None]]:
        """Where a piece begins on either side, and what lies there; before sequences wrap."""
        here, there = sorted(set(self.sources)), sorted(self.targets, key=lambda point: point[0])
        begins = sorted({count for count, _ in [*here, *there] if count >= here[0][0]})
        return [(_at(here, count) or 0, _at(there, count)) for count in begins]


def _at(points: Sequence[tuple[int, int | None]], count: int) -> int | None:
    """What the last point at or before a count says of it."""
    place = bisect.bisect_right([point[0] for point in points], count) - 1
    if place < 0:
        return None
    begin, offset = points[place]
    return None if offset is None else offset + count - begin


def _points(sequence: int, offset: int, value: Mapping[str, Any]) -> list[tuple[int, int]]:
    """The points of a record, from its first one on."""
    found = [(sequence, offset)]
    for records, hole, repeats in _rows(base64.b64decode(value.get("holes", ""))):
        for _ in range(repeats):
            sequence, offset = sequence + records, offset + records + hole
            found.append((sequence, offset))
    return found


def _rows(packed: bytes) -> list[tuple[int, int, int]]:
    """Records, the size of the hole behind them, and how often that repeats (docs/internal-topics.md)."""
    numbers, number, shift = [], 0, 0
    for byte in packed:
        number |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            numbers.append(number)
            number = shift = 0
    heads, rest = numbers[1 : 1 + sum(numbers[:1])], iter(numbers[1 + sum(numbers[:1]) :])
    holes = [next(rest) if head & 2 else 1 for head in heads]
    return [(head >> 2, hole, next(rest) if head & 1 else 1) for head, hole in zip(heads, holes, strict=True)]


def _layered(
    writers: Mapping[tuple[int, int], Iterable[tuple[int, int | None]]], anew: Container[tuple[int, int]]
) -> list[tuple[int, int | None]]:
    whole: list[tuple[int, int | None]] = []
    for writer in sorted(writers):
        pieces = sorted(writers[writer], key=lambda piece: piece[0])
        if writer != max(writers) and writer not in anew and all(target is None for _, target in pieces):
            continue
        whole = [piece for piece in whole if piece[0] < pieces[0][0]] + pieces
    return whole


def check(source: LabCluster, target: LabCluster, topic: str, target_topic: str, internal: str) -> int:
    """Translates the offset of every record and compares; gives how many were compared.

    Raises:
        LabError: a record lies elsewhere, or the map does not say where.
    """
    pieces = segments(journal(target, internal), topic, registered(target))
    return translate(topic, pieces, offsets(source, topic), offsets(target, target_topic))


def translate(topic: str, pieces: Pieces, here: OffsetsOf, there: OffsetsOf) -> int:
    """Translates the source offsets ``here`` and compares with those that the same records have ``there``.

    Raises:
        LabError: as for ``check``.
    """
    compared = 0
    for partition, source_offsets in here.items():
        if len(source_offsets) != len(there[partition]):
            raise LabError(f"{topic}-{partition}: {len(source_offsets)} records against {len(there[partition])}")
        starts = [piece[0] for piece in pieces.get(partition, [])]
        for mine, theirs in zip(source_offsets, there[partition], strict=True):
            place = bisect.bisect_right(starts, mine) - 1
            if place < 0:
                raise LabError(f"{topic}-{partition}: no segment at or below source offset {mine}")
            first, mapped = pieces[partition][place]
            if mapped is None:
                raise LabError(f"{topic}-{partition}: the segment at {first} was never settled")
            if mapped + mine - first != theirs:
                raise LabError(
                    f"{topic}-{partition}: source offset {mine} lies at {theirs}, "
                    f"the segment ({first}, {mapped}) says {mapped + mine - first}"
                )
            compared += 1
    return compared
