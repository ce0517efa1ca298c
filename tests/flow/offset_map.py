"""An oracle for the offset map: the segments on the internal topic against the records of both logs.

Reads with librdkafka and json alone, so that a mistake in `sparkmirror.offsets` is not repeated here. Both logs must
hold the same records in the same order (the referee says so): the n-th record here is the n-th one there.
"""

from __future__ import annotations

import bisect
import json
from typing import Any

from sparkmirror.lab.cluster import LabCluster
from sparkmirror.lab.records import Reader, extents


def offsets(cluster: LabCluster, topic: str) -> dict[int, list[int]]:
    """The offsets of all committed records, by partition, in order."""
    found: dict[int, list[int]] = {partition: [] for partition in extents(cluster.bootstrap_servers, topic)}
    with Reader(cluster.bootstrap_servers, topic, extents(cluster.bootstrap_servers, topic)) as reader:
        for messages in reader:
            for message in messages:
                found[message.partition()].append(message.offset())  # type: ignore[index,arg-type]  # a record has both
    return found


def journal(cluster: LabCluster, topic: str) -> dict[tuple[Any, ...], dict[str, Any]]:
    """What an internal topic holds: the newest value of each key, tombstones gone."""
    newest: dict[tuple[Any, ...], dict[str, Any]] = {}
    with Reader(cluster.bootstrap_servers, topic, extents(cluster.bootstrap_servers, topic)) as reader:
        for messages in reader:
            for message in messages:
                key = tuple(json.loads(message.key() or b""))
                value = message.value()
                if value is None:
                    newest.pop(key, None)
                else:
                    newest[key] = json.loads(value)
    return newest


def segments(entries: dict[tuple[Any, ...], dict[str, Any]], topic: str) -> dict[int, list[tuple[int, int | None]]]:
    """(source offset, target offset) where each straight piece begins, by partition, in order."""
    found: dict[int, list[tuple[int, int | None]]] = {}
    for key, value in entries.items():
        if key[0] == "segment" and key[1] == topic:
            found.setdefault(key[2], []).append((value["source"], value["target"]))
    return {partition: sorted(pieces, key=lambda piece: piece[0]) for partition, pieces in found.items()}


def check(source: LabCluster, target: LabCluster, topic: str, target_topic: str, internal: str) -> int:
    """Translates the offset of every record and compares; gives how many were compared."""
    pieces = segments(journal(target, internal), topic)
    return translate(topic, pieces, offsets(source, topic), offsets(target, target_topic))


def translate(
    topic: str,
    pieces: dict[int, list[tuple[int, int | None]]],
    here: dict[int, list[int]],
    there: dict[int, list[int]],
) -> int:
    """Translates the source offsets ``here`` and compares with those that the same records have ``there``."""
    compared = 0
    for partition, source_offsets in here.items():
        assert len(source_offsets) == len(there[partition]), f"{topic}-{partition}: the logs differ"
        starts = [piece[0] for piece in pieces.get(partition, [])]
        for mine, theirs in zip(source_offsets, there[partition], strict=True):
            place = bisect.bisect_right(starts, mine) - 1
            assert place >= 0, f"{topic}-{partition}: no segment at or below source offset {mine}"
            first, mapped = pieces[partition][place]
            assert mapped is not None, f"{topic}-{partition}: the segment at {first} was never settled"
            assert mapped + mine - first == theirs, (
                f"{topic}-{partition}: source offset {mine} lies at {theirs}, "
                f"the segment ({first}, {mapped}) says {mapped + mine - first}"
            )
            compared += 1
    return compared


def check_entries(
    topic: str, pieces: dict[int, list[tuple[int, int | None]]], here: dict[int, list[int]], runs: int
) -> None:
    """One entry where the records begin and one behind each hole; each run after the first may begin with one more."""
    for partition, offsets_here in here.items():
        wanted = [b for a, b in zip([None, *offsets_here], offsets_here, strict=False) if a is None or b != a + 1]
        starts = [piece[0] for piece in pieces.get(partition, [])]
        assert set(wanted) <= set(starts), f"{topic}-{partition}: no entry at {sorted(set(wanted) - set(starts))[:10]}"
        spare = len(starts) - len(wanted)
        assert 0 <= spare < runs, f"{topic}-{partition}: {spare} entries too many, {starts[:20]} for {wanted[:20]}"
