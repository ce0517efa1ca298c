"""Reads on both sides of a flow what `failover.verifying` wants to see of translated offsets.

Invariants: nothing is written; both clusters are asked side by side, in bulk, and a partition that cannot be read is a
finding of its own offsets alone; what is not read when the time is over is told as such. No record is kept, only what
`Seen` has of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

from sparkmirror.batches import HEADER_NAME, TimestampType
from sparkmirror.config import Isolation
from sparkmirror.duties.duty import Sides
from sparkmirror.errors import BrokerError, LinkError
from sparkmirror.failover.clock import Clock
from sparkmirror.failover.verifying import Aim, Finding, Headers, Logs, Question, Seen, Verdict, begin, judge
from sparkmirror.kafka import admin
from sparkmirror.kafka.cluster import Cluster
from sparkmirror.kafka.leaders import OffsetSpec
from sparkmirror.kafka.opened_records import Row
from sparkmirror.kafka.rounds import Results, chunks
from sparkmirror.kafka.spots import Spot, read_spots
from sparkmirror.model import TopicPartition
from sparkmirror.offsets.map import OffsetMap

AT_ONCE = 2_000
"""Offsets that are verified side by side; between such pieces the time is looked at."""

HEADER_BYTES, LARGE_HEADERS = 100, 64 << 10
"""What each header takes besides its bytes, and from where on those of a record are kept as a digest."""

WAY = HEADER_NAME.encode()

_LATE = Finding(Verdict.LATE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Extents:
    """Where logs of one cluster begin and end; of some it may not be known, and why."""

    starts: Results[TopicPartition, int]
    ends: Results[TopicPartition, int]

    def failure(self, place: TopicPartition) -> BrokerError | LinkError | None:
        """Why the extent of a partition is not known."""
        return self.starts.failed.get(place) or self.ends.failed.get(place)


def extents(
    cluster: Cluster, places: Iterable[TopicPartition], clock: Clock, isolation: Isolation = Isolation.READ_UNCOMMITTED
) -> Extents:
    """Asks for the extents of logs.

    Raises:
        LinkError: no broker could be asked.
    """
    wanted = sorted(set(places))
    starts = admin.find_offsets(cluster, wanted, OffsetSpec.EARLIEST, timeout_ms=clock.step_ms)
    ends = admin.find_offsets(cluster, wanted, OffsetSpec.LATEST, isolation, timeout_ms=clock.step_ms)
    return Extents(starts=starts, ends=ends)


def verify(
    sides: Sides, questions: Iterable[Question], maps: Mapping[TopicPartition, OffsetMap], source_id: str, clock: Clock
) -> dict[Question, Finding]:
    """Answers each question.

    Args:
        sides: the flow and its clusters.
        questions: translated offsets; each is asked once.
        maps: of their partitions, as they were when the offsets were translated.
        source_id: the source's cluster id.
        clock: says when the time is over.

    Raises:
        LinkError: a cluster cannot be asked at all.
    """
    asked = list(dict.fromkeys(questions))
    found: dict[Question, Finding] = {}
    for some in chunks(asked, AT_ONCE):
        if clock.over:
            found |= dict.fromkeys(some, _LATE)
        else:
            found |= _verify(sides, some, maps, source_id, clock)
    return found


def _verify(
    sides: Sides, asked: Sequence[Question], maps: Mapping[TopicPartition, OffsetMap], source_id: str, clock: Clock
) -> dict[Question, Finding]:
    steps = _begun(sides, asked, maps, clock)
    with ThreadPoolExecutor(2) as pool:
        while aims := {question: step for question, step in steps.items() if isinstance(step, Aim)}:
            if clock.over:
                steps |= dict.fromkeys(aims, _LATE)
                break
            here = {question: Spot(question.here, aim.source) for question, aim in aims.items()}
            there = {question: Spot(question.there, aim.target) for question, aim in aims.items()}
            reading = pool.submit(_read, sides.source, here.values(), clock, sides.flow.isolation)
            on_target = _read(sides.target, there.values(), clock, Isolation.READ_UNCOMMITTED)
            on_source = reading.result()
            for question, aim in aims.items():
                failure = on_source.failed.get(here[question]) or on_target.failed.get(there[question])
                if failure is not None:
                    steps[question] = Finding(Verdict.UNREADABLE, str(failure), before=aim.before)
                    continue
                seen, copy = on_source.found[here[question]], on_target.found[there[question]]
                steps[question] = judge(question, aim, seen, copy, maps[question.here], source_id)
    return {question: step for question, step in steps.items() if isinstance(step, Finding)}


def _begun(
    sides: Sides, asked: Sequence[Question], maps: Mapping[TopicPartition, OffsetMap], clock: Clock
) -> dict[Question, Aim | Finding]:
    here = extents(sides.source, (one.here for one in asked), clock, sides.flow.isolation)
    there = extents(sides.target, (one.there for one in asked), clock)
    steps: dict[Question, Aim | Finding] = {}
    for one in asked:
        failure = here.failure(one.here) or there.failure(one.there)
        if failure is not None:
            steps[one] = Finding(Verdict.UNREADABLE, str(failure))
            continue
        logs = Logs(
            source_start=here.starts.found[one.here],
            source_end=here.ends.found[one.here],
            target_start=there.starts.found[one.there],
            target_end=there.ends.found[one.there],
        )
        steps[one] = begin(one, maps[one.here], logs)
    return steps


def _read(cluster: Cluster, spots: Iterable[Spot], clock: Clock, isolation: Isolation) -> Results[Spot, Seen | None]:
    return read_spots(cluster, list(dict.fromkeys(spots)), seen, clock.step_ms, isolation)


def seen(row: Row) -> Seen:
    """What is kept of a record."""
    return Seen(
        offset=row.offset,
        time=row.timestamp,
        stamped=row.timestamp_type == TimestampType.LOG_APPEND_TIME,
        key=_digest(row.key),
        value=_digest(row.value),
        headers=_kept(row.headers),
    )


def _kept(headers: tuple[tuple[Any, Any | None], ...]) -> Headers:
    """The headers of a record; of large ones those that tell of its way, before a digest of the others."""
    if sum(len(key) + len(value or b"") + HEADER_BYTES for key, value in headers) <= LARGE_HEADERS:
        return tuple((bytes(key), None if value is None else bytes(value)) for key, value in headers)
    digest, ways = blake2b(digest_size=16), list[tuple[bytes, bytes | None]]()
    for key, value in headers:
        if len(key) == len(WAY) and bytes(key) == WAY and len(value or b"") <= LARGE_HEADERS:
            ways.append((WAY, None if value is None else bytes(value)))
            continue
        for part in (key, value):
            digest.update(b"-" if part is None else b"%d:" % len(part))
            digest.update(b"" if part is None else part)
    return (*ways, (b"", digest.digest()))


def _digest(data: Any | None) -> bytes | None:
    return None if data is None else blake2b(data, digest_size=16).digest()
