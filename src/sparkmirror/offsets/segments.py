"""The records of the offset map; part of ``offsets.records``.

    ["segments", topic, partition, producer id, epoch, sequence]   from here on: a source offset, and holes behind it
    ["targets", topic, partition, producer id, epoch, sequence]    from here on: a target offset, and what others wrote

Invariants:
    * A segment says: a record with sequence ``q + n`` of that writer epoch has source offset ``source + n``; until the
      next segment of that epoch. It is written before a record beyond a hole is sent, so sequence numbers found in the
      target's log always translate back. Those of one answer are one record, `Segments`.
    * Where records lie on the target follows from their sequence numbers in the same way, by `Targets`: a new one is
      written, after the acknowledgement, only where a batch did not come to lie right behind the one before it.
    * Within one writer epoch source offsets grow with the sequence: a copy that goes back takes a new epoch, which is
      `anew`: what older epochs have from its first source offset on is not what the source has there now, or was
      copied once more (`Moved`).
"""

from __future__ import annotations

import binascii
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from sparkmirror.model import NO_OFFSET, TopicPartition, Writer
from sparkmirror.offsets import json_text
from sparkmirror.offsets.holes import NO_HOLES, Holes, check, pack
from sparkmirror.offsets.json_text import count, flag, integer

VERSION = json_text.VERSION
SEQUENCES = 1 << 31


@dataclass(frozen=True, slots=True, kw_only=True)
class Segments:
    """Straight pieces of the source's half of the offset map, one behind the other.

    Attributes:
        partition: of the source.
        writer: whose sequence numbers count.
        sequence, source: of the first record of the first piece.
        holes: up to the first record of the last piece.
        unguarded: batches in them may be too old for the broker's memory of the producer, see ``copy.retries``.
        anew: the epoch began where the source, or the target topic, is another one than older epochs knew.
        after: the source offset of the record before the first one, in this epoch or, where that is the first of all,
            in the one before; `NO_OFFSET` where it is not known. Where the map leads to another one, this topic has
            lost segments that lay between.
    """

    partition: TopicPartition
    writer: Writer
    sequence: int
    source: int
    holes: Holes = NO_HOLES
    unguarded: bool = False
    anew: bool = False
    after: int = NO_OFFSET

    @property
    def key(self) -> str:
        """The record's key."""
        return SegmentsKey(self.partition, self.writer, self.sequence).text

    def value(self) -> str:
        """The record's value."""
        flags = {name: True for name in ("unguarded", "anew") if getattr(self, name)}
        told = flags | _after_as_json(self.after)
        return json_text.write({"v": VERSION, "source": self.source} | _holes_as_json(self.holes) | told)


@dataclass(frozen=True, slots=True, kw_only=True)
class Targets:
    """Straight pieces of the target's half of the offset map, one behind the other.

    Attributes:
        partition, writer, sequence: as for `Segments`.
        target: offset of the first record, or `NO_OFFSET`: nothing of the epoch arrived from here on.
        holes: up to the first record of the last piece: what others wrote in between.
        after: as for `Segments`, a target offset.
        torn: points behind the last one are not known, since they were left out and then cut off with the log, or the
            log cleaner has removed the batches: what lies there is not exact.
    """

    partition: TopicPartition
    writer: Writer
    sequence: int
    target: int
    holes: Holes = NO_HOLES
    after: int = NO_OFFSET
    torn: bool = False

    @property
    def key(self) -> str:
        """The record's key."""
        return TargetsKey(self.partition, self.writer, self.sequence).text

    def value(self) -> str:
        """The record's value."""
        target = None if self.target == NO_OFFSET else self.target
        told = _after_as_json(self.after) | ({"torn": True} if self.torn else {})
        return json_text.write({"v": VERSION, "target": target} | _holes_as_json(self.holes) | told)


@dataclass(frozen=True, slots=True, kw_only=True)
class Parted:
    """Where the source's log parts from what older epochs knew, or the target's has lost it, when an epoch began anew.

    Its segments do not tell: it may have begun further on, and the first record that it copied may lie behind holes.

    Attributes:
        partition: of the source.
        writer: the epoch; older ones hold below the offset only.
        source: the offset.
    """

    partition: TopicPartition
    writer: Writer
    source: int

    @property
    def key(self) -> str:
        """The record's key."""
        return PartedKey(self.partition, self.writer).text

    def value(self) -> str:
        """The record's value."""
        return json_text.write({"v": VERSION, "source": self.source})


@dataclass(frozen=True, slots=True, kw_only=True)
class Moved:
    """An epoch that began where an order had it begin, and for no other reason: both logs are those that were known.

    Attributes:
        partition: of the source.
        writer: the epoch.
        source: where the order had it begin, which may be a hole; `NO_OFFSET` where an earlier release has not said it.
    """

    partition: TopicPartition
    writer: Writer
    source: int = NO_OFFSET

    @property
    def key(self) -> str:
        """The record's key."""
        return MovedKey(self.partition, self.writer).text

    def value(self) -> str:
        """The record's value."""
        told = {} if self.source == NO_OFFSET else {"source": self.source}
        return json_text.write({"v": VERSION} | told)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ordered:
    """An epoch that an order had begin elsewhere than where the copy stood, whatever else was why.

    Attributes:
        partition: of the source.
        writer: the epoch.
        stood: the source offset at which the copy would have gone on.
        source: where it went on: what lies between was left out, or was to be copied again.
    """

    partition: TopicPartition
    writer: Writer
    stood: int
    source: int

    @property
    def key(self) -> str:
        """The record's key."""
        return OrderedKey(self.partition, self.writer).text

    def value(self) -> str:
        """The record's value."""
        return json_text.write({"v": VERSION, "stood": self.stood, "source": self.source})


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounded:
    """Up to where records of the map were removed since neither log has what they told of: nothing is lost there.

    Attributes:
        partition: of the source.
        source, target: where the logs of the partition and of its copy started then.
    """

    partition: TopicPartition
    source: int
    target: int

    @property
    def key(self) -> str:
        """The record's key."""
        return BoundedKey(self.partition).text

    def value(self) -> str:
        """The record's value."""
        return json_text.write({"v": VERSION, "source": self.source, "target": self.target})


class Opening(NamedTuple):
    """Where a piece begins: the sequence number of its first record, and that record's source or target offset.

    Attributes:
        sequence, offset: of its first record.
        after: the offset of the record before that one in the same epoch; `NO_OFFSET` where it is not known.
    """

    sequence: int
    offset: int
    after: int = NO_OFFSET


def segments_of(
    partition: TopicPartition, writer: Writer, openings: Sequence[Opening], *, unguarded: bool, anew: bool
) -> Segments:
    """One record of pieces in order, of which there is at least one."""
    first = openings[0]
    return Segments(
        partition=partition,
        writer=writer,
        sequence=first.sequence,
        source=first.offset,
        holes=_packed(openings),
        unguarded=unguarded,
        anew=anew,
        after=first.after,
    )


def targets_of(partition: TopicPartition, writer: Writer, openings: Sequence[Opening]) -> Targets:
    """One record of pieces in order, of which there is at least one."""
    first = openings[0]
    return Targets(
        partition=partition,
        writer=writer,
        sequence=first.sequence,
        target=first.offset,
        holes=_packed(openings),
        after=first.after,
    )


def _packed(openings: Sequence[Opening]) -> Holes:
    if len(openings) == 1:
        return NO_HOLES
    first = openings[0].sequence
    return pack([(each.sequence - first) % SEQUENCES for each in openings], [each.offset for each in openings])


def _after_as_json(after: int) -> dict[str, Any]:
    return {} if after == NO_OFFSET else {"after": after}


def _holes_as_json(holes: Holes) -> dict[str, Any]:
    if not holes.packed:
        return {}
    packed = binascii.b2a_base64(holes.packed, newline=False).decode()
    thinned = {"thinned": True} if holes.thinned else {}
    return {"last": [holes.records, holes.offsets], "holes": packed} | thinned


def _holes(data: dict[str, Any]) -> Holes:
    if "holes" not in data:
        return NO_HOLES
    records, offsets = data["last"]
    packed = binascii.a2b_base64(data["holes"], strict_mode=True)
    holes = Holes(count(records), count(offsets), packed, flag(data.get("thinned", False)))
    check(holes)
    if holes.records >= SEQUENCES:
        raise ValueError("holes of the offset map have more records than an epoch has sequence numbers")
    return holes


class SegmentsKey(NamedTuple):
    """What the key of `Segments` names."""

    partition: TopicPartition
    writer: Writer
    sequence: int

    @property
    def text(self) -> str:
        """The key."""
        return json_text.write(["segments", *self.partition, self.writer.producer_id, self.writer.epoch, self.sequence])


class TargetsKey(NamedTuple):
    """What the key of `Targets` names."""

    partition: TopicPartition
    writer: Writer
    sequence: int

    @property
    def text(self) -> str:
        """The key."""
        return json_text.write(["targets", *self.partition, self.writer.producer_id, self.writer.epoch, self.sequence])


class PartedKey(NamedTuple):
    """What the key of `Parted` names."""

    partition: TopicPartition
    writer: Writer

    @property
    def text(self) -> str:
        """The key."""
        return json_text.write(["parted", *self.partition, self.writer.producer_id, self.writer.epoch])


class MovedKey(NamedTuple):
    """What the key of `Moved` names."""

    partition: TopicPartition
    writer: Writer

    @property
    def text(self) -> str:
        """The key."""
        return json_text.write(["moved", *self.partition, self.writer.producer_id, self.writer.epoch])


class OrderedKey(NamedTuple):
    """What the key of `Ordered` names."""

    partition: TopicPartition
    writer: Writer

    @property
    def text(self) -> str:
        """The key."""
        return json_text.write(["ordered", *self.partition, self.writer.producer_id, self.writer.epoch])


class BoundedKey(NamedTuple):
    """What the key of `Bounded` names."""

    partition: TopicPartition

    @property
    def text(self) -> str:
        """The key."""
        return json_text.write(["bounded", *self.partition])


def _segments(name: list[Any], data: dict[str, Any]) -> Segments:
    _, topic, partition, producer_id, epoch, sequence = name
    return Segments(
        partition=json_text.place(topic, partition),
        writer=json_text.writer(producer_id, epoch),
        sequence=sequence,
        source=count(data["source"]),
        holes=_holes(data),
        unguarded=flag(data.get("unguarded", False)),
        anew=flag(data.get("anew", False)),
        after=integer(data.get("after", NO_OFFSET)),
    )


def _targets(name: list[Any], data: dict[str, Any]) -> Targets:
    _, topic, partition, producer_id, epoch, sequence = name
    return Targets(
        partition=json_text.place(topic, partition),
        writer=json_text.writer(producer_id, epoch),
        sequence=sequence,
        target=NO_OFFSET if data["target"] is None else integer(data["target"]),
        holes=_holes(data),
        after=integer(data.get("after", NO_OFFSET)),
        torn=flag(data.get("torn", False)),
    )


def _parted(name: list[Any], data: dict[str, Any]) -> Parted:
    _, topic, partition, producer_id, epoch = name
    return Parted(
        partition=json_text.place(topic, partition),
        writer=json_text.writer(producer_id, epoch),
        source=integer(data["source"]),
    )


def _moved(name: list[Any], data: dict[str, Any]) -> Moved:
    _, topic, partition, producer_id, epoch = name
    return Moved(
        partition=json_text.place(topic, partition),
        writer=json_text.writer(producer_id, epoch),
        source=integer(data.get("source", NO_OFFSET)),
    )


def _ordered(name: list[Any], data: dict[str, Any]) -> Ordered:
    _, topic, partition, producer_id, epoch = name
    return Ordered(
        partition=json_text.place(topic, partition),
        writer=json_text.writer(producer_id, epoch),
        stood=count(data["stood"]),
        source=count(data["source"]),
    )


def _bounded(name: list[Any], data: dict[str, Any]) -> Bounded:
    _, topic, partition = name
    return Bounded(
        partition=json_text.place(topic, partition), source=integer(data["source"]), target=integer(data["target"])
    )


MapRecord = Segments | Targets | Parted | Moved | Ordered | Bounded
MapKey = SegmentsKey | TargetsKey | PartedKey | MovedKey | OrderedKey | BoundedKey

READERS: dict[str, Callable[[list[Any], dict[str, Any]], MapRecord]] = {
    "segments": _segments,
    "targets": _targets,
    "parted": _parted,
    "moved": _moved,
    "ordered": _ordered,
    "bounded": _bounded,
}
"""The readers of these kinds, for ``records.parse``."""
