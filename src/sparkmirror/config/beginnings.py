"""Where a flow begins to copy: at a place that the file names, or where MirrorMaker 2 left off.

    start.position = earliest | latest | timestamp:2026-11-01T00:00:00Z
    start.positions = orders:latest, payments:timestamp:2026-11-01T00:00:00Z, orders:0:1500

Invariant: these count for partitions that have no position on record, and for no other.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import Enum

from sparkmirror.config.entries import LONG_MAX, Entry, Reader
from sparkmirror.config.mirror_topics import Side
from sparkmirror.errors import ConfigError
from sparkmirror.model import NO_OFFSET, FlowName

CONNECTOR = "MirrorSourceConnector"
"""The name of MirrorMaker 2's connector where it runs by itself."""

POSITION, POSITIONS = "start.position", "start.positions"
_MOMENT = "timestamp:"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_PLACES = "possible: earliest, latest, timestamp:2026-11-01T00:00:00Z"
_SHAPES = (
    "write topic:place or topic:partition:place, parted by commas; a place is earliest, latest, "
    "timestamp:2026-11-01T00:00:00Z, or, for one partition, an offset"
)
_WHOLE = re.compile("[0-9]{1,19}")
_INT32 = 2**31 - 1


class Beginning(Enum):
    """What kind of place a start is."""

    EARLIEST = "earliest"
    LATEST = "latest"
    TIMESTAMP = "timestamp"
    OFFSET = "offset"


@dataclass(frozen=True, slots=True, kw_only=True)
class StartPlace:
    """A place in a source log; ``value`` is the offset, or the time in milliseconds since 1970."""

    kind: Beginning
    value: int = NO_OFFSET


@dataclass(frozen=True, slots=True, kw_only=True)
class StartPlaces:
    """Where partitions begin that have no position on record.

    Attributes:
        position: all of them; None where ``auto.offset.reset`` of the consumer says it.
        topics: those of some topics.
        partitions: some of them; these win.
    """

    position: StartPlace | None = None
    topics: tuple[tuple[str, StartPlace], ...] = ()
    partitions: tuple[tuple[str, int, StartPlace], ...] = ()

    def of(self, topic: str, partition: int) -> StartPlace | None:
        """What the file says of a partition, or None."""
        by_partition = {(name, number): place for name, number, place in self.partitions}
        return by_partition.get((topic, partition)) or dict(self.topics).get(topic) or self.position

    def chosen(self, topic: str, partition: int) -> bool:
        """Whether the file names a place other than the oldest record, which only its author can have computed."""
        place = self.of(topic, partition)
        return place is not None and place.kind is not Beginning.EARLIEST

    @property
    def shown(self) -> tuple[str, str]:
        """As a file would say it: ``start.position`` and ``start.positions``."""
        places = [f"{topic}:{_shown(place)}" for topic, place in self.topics]
        places += [f"{topic}:{number}:{_shown(place)}" for topic, number, place in self.partitions]
        return _shown(self.position) if self.position else "as auto.offset.reset", ", ".join(places)


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredPositions:
    """Where MirrorMaker 2 keeps its own positions, for moving in and out.

    Attributes:
        connector: the name of its MirrorSourceConnector.
        topic: Kafka Connect's topic of offsets; "" where the file does not tell.
        group: Kafka Connect's group of workers; "" where the file does not tell.
        takeover: whether the first start of a flow goes on from them without an order.
    """

    connector: str = CONNECTOR
    topic: str = ""
    group: str = ""
    takeover: bool = True


def places_of_offsets(topic: str, flow: FlowName) -> tuple[Side, ...]:
    """Where Kafka Connect's topic of offsets can be: MirrorMaker 2 by itself has its own on the target."""
    return (Side.TARGET,) if topic == _own_topic(flow) else (Side.TARGET, Side.SOURCE)


def _own_topic(flow: FlowName) -> str:
    return f"mm2-offsets.{flow.source}.internal"


def read_stored_positions(reader: Reader, flow: FlowName) -> StoredPositions:
    """By the file; MirrorMaker 2's own names where it runs by itself. A key that is empty says that it is not known."""
    connector = reader.text("mm2.connector.name") or CONNECTOR
    by_itself = connector == CONNECTOR

    def told(key: str, default: str) -> str:
        return reader.text(key) or ("" if reader.entry(key) or not by_itself else default)

    return StoredPositions(
        connector=connector,
        topic=told("mm2.offsets.topic", _own_topic(flow)),
        group=told("mm2.group", f"{flow.source}-mm2"),
        takeover=reader.boolean("mm2.takeover.enabled", default=True),
    )


def read_start_places(reader: Reader) -> StartPlaces:
    """Reads both keys.

    Raises:
        ConfigError: a place that is none, or one that is given twice.
    """
    text, entry = reader.text(POSITION), reader.entry(POSITION)
    position = None
    if text and entry is not None:
        position = _place(text)
        if position is None or position.kind is Beginning.OFFSET:
            raise entry.wrong(f"{entry.tell(text)} is no place to start", _PLACES)
    topics: dict[str, StartPlace] = {}
    partitions: dict[tuple[str, int], StartPlace] = {}
    for topic, number, place in _listed(reader):
        if number is None:
            topics[topic] = place
        else:
            partitions[topic, number] = place
    return StartPlaces(
        position=position,
        topics=tuple(topics.items()),
        partitions=tuple((topic, number, place) for (topic, number), place in partitions.items()),
    )


def _listed(reader: Reader) -> Iterator[tuple[str, int | None, StartPlace]]:
    entry = reader.entry(POSITIONS)
    if entry is None:
        return
    seen: set[tuple[str, int | None]] = set()
    for text in reader.listing(POSITIONS, ()):
        topic, _, rest = text.partition(":")
        number, _, behind = rest.partition(":")
        one = _WHOLE.fullmatch(number) is not None and behind != ""
        found = (topic, int(number), _place(behind)) if one else (topic, None, _place(rest))
        yield _checked(entry, text, found, seen)
        seen.add(found[:2])


def _checked(
    entry: Entry, text: str, found: tuple[str, int | None, StartPlace | None], seen: set[tuple[str, int | None]]
) -> tuple[str, int | None, StartPlace]:
    topic, number, place = found
    if not topic or place is None or (number is not None and number > _INT32):
        raise _wrong(entry, text, "is no start of a topic or partition")
    if number is None and place.kind is Beginning.OFFSET:
        raise _wrong(entry, text, "gives an offset and no partition")
    if (topic, number) in seen:
        raise _wrong(entry, text, "names a place that is given already")
    return topic, number, place


def _wrong(entry: Entry, text: str, reason: str) -> ConfigError:
    return entry.wrong(f"{entry.tell(text)} {reason}", _SHAPES)


def _place(text: str) -> StartPlace | None:
    if text in (Beginning.EARLIEST.value, Beginning.LATEST.value):
        return StartPlace(kind=Beginning(text))
    if _WHOLE.fullmatch(text) is not None and int(text) <= LONG_MAX:
        return StartPlace(kind=Beginning.OFFSET, value=int(text))
    if not text.startswith(_MOMENT):
        return None
    try:
        moment = datetime.fromisoformat(text.removeprefix(_MOMENT))
    except ValueError:
        return None
    if moment.tzinfo is None or moment < _EPOCH:
        return None
    return StartPlace(kind=Beginning.TIMESTAMP, value=milliseconds(moment))


def milliseconds(moment: datetime) -> int:
    """Since 1970, exactly: a float would be one off now and then."""
    return (moment - _EPOCH) // timedelta(milliseconds=1)


def _shown(place: StartPlace) -> str:
    if place.kind is Beginning.OFFSET:
        return str(place.value)
    return place.kind.value if place.kind is not Beginning.TIMESTAMP else f"{place.kind.value}:{place.value} ms"
