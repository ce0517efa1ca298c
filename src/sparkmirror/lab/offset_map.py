"""An oracle for the offset map: the segments on the internal topic against the records of both logs.

Reads with librdkafka and json alone, so that a mistake in `sparkmirror.offsets` is not repeated here. Both logs must
hold the same records in the same order (the referee says so): the n-th record here is the n-th one there.

A partition that was taken over has segments of several writer epochs. What a newer epoch's first segment says holds
from there on, whatever older ones said: the target may have lost its tail meanwhile; but an epoch that is over, has
no target offset at all and did not begin anew has nothing there. Of two epochs the newer one is that of the producer
id that was registered later, then the greater one (docs/internal-topics.md).
"""

from __future__ import annotations

import bisect
import json
from collections.abc import Container, Iterable, Mapping, Sequence
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
    by_writer: dict[int, dict[tuple[int, int], list[tuple[int, int | None]]]] = {}
    anew: set[tuple[int, int]] = set()
    for key, value in entries.items():
        if key[0] == "segment" and key[1] == topic:
            _, _, partition, producer, epoch, _ = key
            pieces = by_writer.setdefault(partition, {}).setdefault((age.get(producer, 0), epoch), [])
            pieces.append((value["source"], value["target"]))
            if value.get("anew"):
                anew.add((age.get(producer, 0), epoch))
    return {partition: _layered(writers, anew) for partition, writers in by_writer.items()}


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
