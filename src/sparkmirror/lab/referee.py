"""The referee: do two topics on two clusters hold the same records?

Compares key, value, headers, timestamp, partition and order of every committed record, with librdkafka on both sides.
Offsets are not compared: a mirror may leave holes out. Used by the tests, the demo and the benchmark.

How: both sides are read at once, and each partition is condensed into a BLAKE2b digest over its records in order;
this needs no memory and works for any interleaving of partitions. Only when two digests differ are those two
partitions read once more, side by side, to name the first difference (:mod:`sparkmirror.lab.difference`).

Invariant: a record's bytes in the digest say where each field ends, so records never run into each other. They are
what ``marshal`` version 2 writes for a tuple, fixed by its content alone. Do not raise the version: from 3 on the
bytes depend on reference counts.
"""

from __future__ import annotations

import hashlib
import marshal
from collections import defaultdict
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from sparkmirror.lab.difference import first_difference
from sparkmirror.lab.records import Extent, Reader, Row, extents, row_of, size_of

MARSHAL_VERSION = 2
LIST_HEADER_BYTES = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """What the referee found for one topic.

    Attributes:
        topic: the topic's name on the source.
        target_topic: its name on the target.
        records: committed records on the source.
        target_records: committed records on the target.
        bytes: bytes of keys and values on the source.
        difference: the first difference in words, or "" when both sides are equal.
    """

    topic: str
    target_topic: str
    records: int
    target_records: int
    bytes: int
    difference: str

    @property
    def equal(self) -> bool:
        """True when both sides hold the same records, partition by partition and in the same order."""
        return not self.difference


@dataclass(slots=True)
class _Condensed:
    """One partition, read to its end."""

    digest: bytes = b""
    records: int = 0
    bytes: int = 0


def compare(source: str, target: str, topics: Mapping[str, str], *, timeout_s: float = 60.0) -> tuple[Comparison, ...]:
    """Compares topics of two clusters, record by record.

    Args:
        source: bootstrap servers of the source.
        target: bootstrap servers of the target.
        topics: source topic to target topic.
        timeout_s: how long a side may give no sign of life.

    Returns:
        One comparison per topic, in the order of ``topics``.

    Raises:
        LabError: a cluster does not answer, or answers with an error.
    """
    return tuple(_compare_topic(source, target, name, topics[name], timeout_s) for name in topics)


def _compare_topic(source: str, target: str, topic: str, target_topic: str, timeout_s: float) -> Comparison:
    sides = ((source, topic), (target, target_topic))
    ranges = [extents(servers, name, timeout_s=timeout_s) for servers, name in sides]
    with ThreadPoolExecutor(max_workers=len(sides)) as pool:
        jobs = [
            pool.submit(_condense, servers, name, extent_of, timeout_s)
            for (servers, name), extent_of in zip(sides, ranges, strict=True)
        ]
        here, there = (job.result() for job in jobs)
    difference = _partitions_differ(topic, target_topic, *ranges)
    for partition in ranges[0]:
        if difference:
            break
        if here[partition] != there[partition]:
            difference = first_difference(sides[0], sides[1], partition, ranges[0][partition], ranges[1][partition])
    return Comparison(
        topic=topic,
        target_topic=target_topic,
        records=sum(part.records for part in here.values()),
        target_records=sum(part.records for part in there.values()),
        bytes=sum(part.bytes for part in here.values()),
        difference=difference,
    )


def _partitions_differ(topic: str, target_topic: str, here: Mapping[int, Extent], there: Mapping[int, Extent]) -> str:
    for name, extent_of, side in ((topic, here, "source"), (target_topic, there, "target")):
        if not extent_of:
            return f"there is no topic {name} on the {side}"
    if here.keys() == there.keys():
        return ""
    return f"{topic} has {len(here)} partitions on the source, {target_topic} has {len(there)} on the target"


def _condense(servers: str, topic: str, extent_of: dict[int, Extent], timeout_s: float) -> dict[int, _Condensed]:
    digests = {partition: hashlib.blake2b() for partition in extent_of}
    found = {partition: _Condensed() for partition in extent_of}
    with Reader(servers, topic, extent_of, timeout_s=timeout_s) as reader:
        for messages in reader:
            rows: defaultdict[int, list[Row]] = defaultdict(list)
            for message in messages:
                rows[message.partition()].append(row_of(message))  # type: ignore[index]  # a record has a partition
            for partition, some in rows.items():
                digests[partition].update(memoryview(marshal.dumps(some, MARSHAL_VERSION))[LIST_HEADER_BYTES:])
                found[partition].records += len(some)
                found[partition].bytes += sum(map(size_of, some))
    for partition, digest in digests.items():
        found[partition].digest = digest.digest()
    return found
