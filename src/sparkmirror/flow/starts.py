"""Where partitions begin that have no position on record.

As ``start.positions`` says, else ``start.position``, else the consumer's ``auto.offset.reset``.

Invariant: a partition whose start cannot be is not begun elsewhere: it stands still and says what the source has.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

from sparkmirror.config import AutoOffsetReset, Beginning, FlowConfig
from sparkmirror.errors import BrokerError, LinkError
from sparkmirror.events import Event, Kind
from sparkmirror.kafka import admin
from sparkmirror.kafka.cluster import Cluster
from sparkmirror.model import NO_OFFSET, TopicPartition

Offsets = Mapping[TopicPartition, int]


def find_starts(
    config: FlowConfig,
    source: Cluster,
    wanted: Sequence[TopicPartition],
    oldest: Offsets,
    ends: Offsets,
    timeout_ms: int,
) -> tuple[dict[TopicPartition, int], dict[TopicPartition, Event]]:
    """Finds where partitions begin.

    Args:
        config: of the flow.
        source: asked for the offsets of times.
        wanted: the partitions, each with an oldest offset and an end.
        oldest: where their logs begin.
        ends: where they end.
        timeout_ms: for each question.

    Returns:
        the starts, and why others cannot begin where the file says.
    """
    starts: dict[TopicPartition, int] = {}
    refused: dict[TopicPartition, Event] = {}
    by_time: dict[int, list[TopicPartition]] = defaultdict(list)
    for here in wanted:
        place = config.start.of(here.topic, here.partition)
        if place is not None and place.kind is Beginning.TIMESTAMP:
            by_time[place.value].append(here)
        elif place is not None and place.kind is Beginning.OFFSET:
            starts[here] = place.value
            if not oldest[here] <= place.value <= ends[here]:
                refused[here] = _out_of_range(place.value, oldest[here], ends[here])
        else:
            starts[here] = ends[here] if begins_at_end(config, here) else oldest[here]
    for moment, some in by_time.items():
        found = admin.find_offsets(source, some, moment, timeout_ms=timeout_ms)
        starts |= {here: ends[here] if offset == NO_OFFSET else offset for here, offset in found.found.items()}
        refused |= {here: _unanswered(failure) for here, failure in found.failed.items()}
    return starts, refused


def begins_at_end(config: FlowConfig, partition: TopicPartition) -> bool:
    """Whether a partition without a position begins at the end of its log."""
    place = config.start.of(partition.topic, partition.partition)
    if place is None:
        return config.auto_offset_reset is AutoOffsetReset.LATEST
    return place.kind is Beginning.LATEST


def begins_later(config: FlowConfig, partition: TopicPartition) -> bool:
    """Whether a partition without a position may begin behind the first record of its log."""
    place = config.start.of(partition.topic, partition.partition)
    if place is None:
        return config.auto_offset_reset is AutoOffsetReset.LATEST
    return place.kind is not Beginning.EARLIEST


def _out_of_range(offset: int, first: int, end: int) -> Event:
    text = (
        f"start.positions says that it begins at offset {offset}, and the source has offsets {first} to {end}: correct "
        "it there, or write earliest or latest"
    )
    return Event(kind=Kind.STOPPED, text=text)


def _unanswered(failure: BrokerError | LinkError) -> Event:
    return Event(kind=Kind.STOPPED, text=f"the offset of its start cannot be found: {failure}")
