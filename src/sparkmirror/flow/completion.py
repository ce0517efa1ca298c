"""Whether a copy is complete: everything that the source had at one moment is on the target.

The source's ends are asked first, once; the flow's own progress on its internal topic then says when its positions have
passed them. What is produced meanwhile is not waited for, so the wait ends under load too. Heartbeats are waited for
only where they are named: the other flow of a pair makes their topic when it starts, and this one finds it at its next
look.

Invariants: `outstanding` is pure; a partition that the flow has not found yet counts as not copied, unless it is empty,
and so does one of a topic that was deleted and created again; one that stands still is not complete, wherever it
stands, nor one whose copy the target does not have any more, which the flow may find only when it writes there again; a
copy that others wrote to, and that the flow is to bring home and has not begun with, counts by their records; a topic
that somebody has paused is named.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from types import MappingProxyType

from sparkmirror.config import MirrorConfig, Side
from sparkmirror.copy.origins import brought_from
from sparkmirror.duties import topics
from sparkmirror.duties.checked_maps import has_lost
from sparkmirror.duties.duty import Sides
from sparkmirror.duties.known_maps import KnownMaps
from sparkmirror.duties.lost_copies import lost_copies
from sparkmirror.duties.written_by_others import written
from sparkmirror.errors import ConfigError, SparkmirrorError
from sparkmirror.flow.extra_partitions import without_original
from sparkmirror.flow.homecoming import Obstacles, due
from sparkmirror.flow.sides import connected, record
from sparkmirror.kafka import admin
from sparkmirror.kafka.admin import TopicDescription
from sparkmirror.kafka.leaders import OffsetSpec
from sparkmirror.kafka.reading import Span
from sparkmirror.kafka.topic_ids import in_hexadecimal
from sparkmirror.model import NO_OFFSET, TopicPartition
from sparkmirror.offsets.orders import topic_key
from sparkmirror.offsets.state import JournalState

LOOK_SECONDS = 1.0

ASK_MS = 10_000
"""For one answer of the source at least, however short the wait is: a broker that has died has another by then."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Left:
    """What a flow has not copied yet, of what its source had when it was asked.

    Attributes:
        flow: ``source->target``.
        records: offsets that are missing, over all partitions.
        partitions: that are not complete.
        worst: the partition that lacks most, or "".
        trouble: why nothing is known, or why it does not come to an end, or "".
    """

    flow: str
    records: int = 0
    partitions: int = 0
    worst: str = ""
    trouble: str = ""

    @property
    def complete(self) -> bool:
        """Whether everything is there."""
        return not self.partitions and not self.trouble


def wait(
    config: MirrorConfig, wanted: tuple[str, ...], timeout_s: float, tell: Callable[[tuple[Left, ...]], None]
) -> tuple[Left, ...]:
    """Waits until every flow has copied what its source has now.

    Args:
        config: names the flows.
        wanted: only these topics of the sources; all when empty.
        timeout_s: seconds to wait at most, 0 for one look.
        tell: is given each look.

    Returns:
        the last look.

    Raises:
        ConfigError: no flow copies one of the topics.
        SparkmirrorError: a source cannot be asked for its ends.
    """
    deadline = time.monotonic() + timeout_s
    with ExitStack() as stack:
        looks = [_Look(stack.enter_context(connected(flow, role="wait", needs=[Side.SOURCE]))) for flow in config.flows]
        for look in looks:
            look.begin(wanted, lambda: deadline - time.monotonic())
        _check_wanted(config, looks, wanted)
        while True:
            left = tuple(look.left() for look in looks)
            tell(left)
            if all(one.complete for one in left) or time.monotonic() + LOOK_SECONDS > deadline:
                return left
            time.sleep(LOOK_SECONDS)


def _check_wanted(config: MirrorConfig, looks: Sequence[_Look], wanted: tuple[str, ...]) -> None:
    for topic in wanted:
        if not any(place.topic == topic for look in looks for place in look.ranges):
            raise ConfigError(
                file=config.file,
                key="topics",
                reason=f"no flow copies a topic named {topic}",
                remedy=f"sparkmirror explain --topic {topic} tells why",
            )


class _Look:
    """One flow that is waited for."""

    def __init__(self, sides: Sides) -> None:
        self._sides = sides
        self._obstacles = Obstacles(sides)
        self.ranges: dict[TopicPartition, tuple[int, int]] = {}
        self._ids: dict[str, str] = {}

    def begin(self, wanted: tuple[str, ...], left_s: Callable[[], float]) -> None:
        """Asks the source what it has now.

        Args:
            wanted: only these topics; all when empty.
            left_s: seconds until the wait is over.

        Raises:
            SparkmirrorError: it does not say so.
        """
        flow, source = self._sides.flow, self._sides.source
        known = record(self._sides) if flow.brings_home else None
        listed = admin.list_topics(source, timeout_ms=asking_ms(flow.admin_timeout_ms, left_s()))
        begun = known.progress if known is not None else ()
        places = [
            place
            for place in topics.places(flow, listed, begun)
            if (place.topic in wanted if wanted else not topics.is_heartbeats(flow, place.topic))
        ]
        timeout_ms = asking_ms(flow.admin_timeout_ms, left_s())
        starts = admin.list_offsets(source, places, OffsetSpec.EARLIEST, timeout_ms=timeout_ms)
        timeout_ms = asking_ms(flow.admin_timeout_ms, left_s())
        ends = admin.list_offsets(source, places, OffsetSpec.LATEST, isolation=flow.isolation, timeout_ms=timeout_ms)
        self.ranges = {place: (starts[place], ends[place]) for place in places}
        if known is not None:
            self.ranges |= unbegun(self._sides, known, listed, wanted, left_s)
        self._ids = {place.topic: in_hexadecimal(listed[place.topic].topic_id) for place in places}

    def left(self) -> Left:
        """Asks the flow's own record how far it is."""
        flow = self._sides.flow
        try:
            known = record(self._sides)
            left = outstanding(str(flow.name), self.ranges, known, self._ids)
            if known is None:
                return left
            if not left.complete:
                held_up = self._held_up()
                return outstanding(str(flow.name), self.ranges, known, self._ids, held_up=held_up) if held_up else left
            gone = gone_copies(self._sides, known, self.ranges)
            return outstanding(str(flow.name), self.ranges, known, self._ids, gone)
        except SparkmirrorError as failure:
            return Left(flow=str(flow.name), partitions=len(self.ranges), trouble=str(failure))

    def _held_up(self) -> Mapping[TopicPartition, str]:
        """Why nothing of copies goes home, as far as the clusters tell: what is missing is known without."""
        with suppress(SparkmirrorError):
            return self._obstacles.look(self.ranges)
        return {}


def unbegun(
    sides: Sides,
    known: JournalState,
    listed: Mapping[str, TopicDescription],
    wanted: Collection[str],
    left_s: Callable[[], float],
) -> dict[TopicPartition, tuple[int, int]]:
    """Copies of which the flow brings home what others wrote as soon as it has looked for topics, and what that is.

    Also partitions of copies that their originals have not: nothing brings that home before they have.

    Args:
        sides: the flow and its clusters.
        known: its internal topic, read to its end.
        listed: the topics of the source.
        wanted: only these of them; all when empty.
        left_s: seconds until the wait is over; what is not read by then counts as records of others.

    Returns:
        of each partition, as many offsets as others have written records, up to the last of them.

    Raises:
        SparkmirrorError: a cluster cannot be asked.
    """
    flow, source = sides.flow, sides.source
    names = [name for name in topics.homeward(flow, listed) if not wanted or name in wanted]
    copies = [TopicPartition(name, number) for name in names for number in sorted(listed[name].partitions)]
    left = [place for place in copies if place not in known.progress]
    begins = dict.fromkeys(without_original(sides, left), 0) | due(sides, left)
    if not begins or known.flow is None:
        return {}
    timeout_ms = asking_ms(flow.admin_timeout_ms, left_s())
    starts = admin.list_offsets(source, list(begins), OffsetSpec.EARLIEST, timeout_ms=timeout_ms)
    ends = admin.list_offsets(source, list(begins), OffsetSpec.LATEST, isolation=flow.isolation, timeout_ms=timeout_ms)
    makers = brought_from(source, known.flow.source_id, known.flow.target_id)
    spans = {place: Span(min(max(starts[place], at), ends[place]), ends[place]) for place, at in begins.items()}
    seconds = asking_ms(flow.admin_timeout_ms, left_s()) / 1000
    found = written(source, spans, makers, timeout_ms, isolation=flow.isolation, seconds=seconds)
    return {place: (one.end - one.records, one.end) for place, one in found.items()}


def gone_copies(sides: Sides, known: JournalState, places: Collection[TopicPartition]) -> dict[TopicPartition, str]:
    """Of which partitions the target has lost what was copied, or does not say so, and why.

    Args:
        sides: the flow and its clusters.
        known: its internal topic, read to its end.
        places: partitions of the source.

    Raises:
        SparkmirrorError: the target cannot be asked.
    """
    flow, target, timeout_ms = sides.flow, sides.target, min(ASK_MS, sides.flow.admin_timeout_ms)
    there = {
        place: TopicPartition(topics.remote_topic(flow, place.topic), place.partition)
        for place in places
        if place in known.progress and (len(known.map_of(place)) or place in known.inherited)
    }
    absent = admin.absent(target, there.values(), timeout_ms)
    found = {place: f"its copy {copy} does not exist" for place, copy in there.items() if copy in absent}
    lost = lost_copies(flow, target, {p: known.progress[p] for p in there if p not in found}, timeout_ms)
    maps = KnownMaps(sides).of(set(lost.found))
    found |= {
        place: f"{target.alias} has lost what had been copied to {there[place]} from offset {offset} on"
        for place, offset in lost.found.items()
        if has_lost(maps[place], known.inherited.get(place), offset)
    }
    failed = {place: f"whether {there[place]} has all is not known: {why}" for place, why in lost.failed.items()}
    return found | failed


def asking_ms(timeout_ms: int, left_s: float) -> int:
    """How long the source is asked: no longer than is waited for all, but as long as an election may take. Pure.

    Args:
        timeout_ms: for a question, as it is configured.
        left_s: seconds until the wait is over.
    """
    return min(timeout_ms, max(ASK_MS, int(1000 * left_s)))


def outstanding(
    flow: str,
    ranges: Mapping[TopicPartition, tuple[int, int]],
    known: JournalState | None,
    ids: Mapping[str, str] = MappingProxyType({}),
    gone: Mapping[TopicPartition, str] = MappingProxyType({}),
    held_up: Mapping[TopicPartition, str] = MappingProxyType({}),
) -> Left:
    """What is missing of these source offsets.

    Args:
        flow: its name.
        ranges: what the source had: from, and up to.
        known: the flow's internal topic, or None where it was never started.
        ids: of the topics of the source as they are now, "" where nobody can tell: how far another topic of the name
            was copied says nothing.
        gone: partitions of which the target does not have what was copied, and why.
        held_up: partitions of which nothing is copied, and why.
    """
    if known is None:
        return Left(flow=flow, partitions=len(ranges), trouble="it was never started")
    paused = sorted({place.topic for place in ranges if topic_key(place.topic) in known.paused})
    behind: dict[TopicPartition, int] = {}
    still: dict[TopicPartition, str] = {}
    for place, (start, end) in ranges.items():
        progress = known.progress.get(place)
        if progress is not None and ids.get(place.topic, "") not in ("", progress.topic_id) and progress.topic_id:
            progress = None
        missing = end - max(start, NO_OFFSET if progress is None else progress.position)
        if progress is not None and progress.error:
            still[place] = progress.error
        if missing > 0 or place in still or place in gone:
            behind[place] = max(0, missing)
    troubles = [f"paused: {', '.join(paused)}"] if paused and behind else []
    troubles += [f"{place} stands still: {why}" for place, why in sorted(still.items())[:1]]
    troubles += [f"{place}: {why}" for place, why in sorted(gone.items())[:1] if place in behind]
    troubles += [f"{place}: {why}" for place, why in sorted(held_up.items()) if place in behind][:1]
    return Left(
        flow=flow,
        records=sum(behind.values()),
        partitions=len(behind),
        worst=str(max(sorted(behind), key=lambda place: behind[place])) if behind else "",
        trouble="; ".join(troubles),
    )
