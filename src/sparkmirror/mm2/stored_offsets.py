"""MirrorMaker 2's own positions, as Kafka Connect stores them: the last source offset that was copied.

    key     JSON ["<connector>",{"cluster":"<source alias>","partition":<number>,"topic":"<topic>"}]
    value   JSON {"offset":<last offset copied>}, or nothing: the position was removed

Connect writes them with its JsonConverter, without schemas, and looks them up by the bytes of their keys, so the order
of the fields is a part of the name: it is that of Java's ``HashMap`` for these three words. MirrorMaker 2 goes on at
the stored offset + 1.

Invariant: what other connectors have stored in the same topic is none of these, and is left alone.

References: ``MirrorUtils.wrapPartition``, ``MirrorSourceTask.initializeConsumer``, ``OffsetStorageWriter.doFlush``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass

from sparkmirror.model import Alias, TopicPartition

LONGEST_NAME = 249
"""Characters of a topic's name."""

_FAR_PLANES = re.compile("[\U00010000-\U0010ffff]")


@dataclass(frozen=True, slots=True, kw_only=True)
class Owner:
    """Whose positions they are: the connector's name, and the alias of its source."""

    connector: str
    cluster: Alias

    def __str__(self) -> str:
        return f"connector {self.connector!r} with source {self.cluster!r}"


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredOffset:
    """One position.

    Attributes:
        owner: whose it is.
        partition: of the source.
        offset: of the last record that was copied; None where the position was removed.
    """

    owner: Owner
    partition: TopicPartition
    offset: int | None

    @property
    def key(self) -> bytes:
        """The record's key."""
        place = {
            "cluster": self.owner.cluster,
            "partition": self.partition.partition,
            "topic": self.partition.topic,
        }
        return _json([self.owner.connector, place])

    @property
    def value(self) -> bytes | None:
        """The record's value."""
        return None if self.offset is None else _json({"offset": self.offset})


def read_stored_offset(key: bytes, value: bytes | None) -> StoredOffset | None:
    """Reads a record; None for one of another connector, such as those for checkpoints and heartbeats.

    Raises:
        ValueError: it is a position of a MirrorSourceConnector, and its value is not.
    """
    found = _read_key(key)
    if found is None:
        return None
    owner, partition = found
    offset = None if value is None else _read_value(key, value)
    if isinstance(offset, ValueError):
        raise offset
    return StoredOffset(owner=owner, partition=partition, offset=offset)


def is_position(key: bytes) -> bool:
    """Whether a record with this key is a position of a MirrorSourceConnector, or removes one."""
    return _read_key(key) is not None


class Newest:
    """What holds after records that were written one after the other: the newest of each key.

    A value that is no position is refused only where no newer record has taken its place.

    Attributes:
        key_bytes: of the keys that are held.
    """

    def __init__(self) -> None:
        self.key_bytes = 0
        self._held: dict[tuple[Owner, TopicPartition], int | ValueError | None] = {}
        self._owners: dict[Owner, Owner] = {}

    def __len__(self) -> int:
        """How many positions there are, removed ones among them."""
        return len(self._held)

    def add(self, key: bytes, value: bytes | None) -> None:
        """Takes the next record."""
        found = _read_key(key)
        if found is None:
            return
        owner, partition = found
        place = self._owners.setdefault(owner, owner), partition
        self.key_bytes += 0 if place in self._held else len(key)
        self._held[place] = None if value is None else _read_value(key, value)

    def update(self, newer: Newest) -> None:
        """Takes what holds after further records."""
        self._held.update(newer._held)

    def positions(self) -> dict[Owner, dict[TopicPartition, int]]:
        """The positions by owner and partition.

        Raises:
            ValueError: one cannot be read.
        """
        found: dict[Owner, dict[TopicPartition, int]] = {}
        for (owner, partition), held in self._held.items():
            if isinstance(held, ValueError):
                raise held
            if held is not None:
                found.setdefault(owner, {})[partition] = held
        return found


def newest(records: Iterable[tuple[bytes, bytes | None]]) -> dict[Owner, dict[TopicPartition, int]]:
    """What holds after all records, in the order in which they were written: by owner and partition.

    Raises:
        ValueError: a position cannot be read.
    """
    held = Newest()
    for key, value in records:
        held.add(key, value)
    return held.positions()


def _json(value: object) -> bytes:
    """As Jackson writes it: UTF-8, but for characters beyond the first plane. Names have no control characters."""
    text = json.dumps(value, separators=(",", ":"), ensure_ascii=False)
    return _FAR_PLANES.sub(lambda match: _escaped(match[0]), text).encode()


def _escaped(found: str) -> str:
    units = found.encode("utf-16-be")
    return "".join(f"\\u{int.from_bytes(units[at : at + 2]):04X}" for at in range(0, len(units), 2))


def _read_key(key: bytes) -> tuple[Owner, TopicPartition] | None:
    try:
        match json.loads(key):
            case [str(connector), {"cluster": str(cluster), "partition": int(number), "topic": str(topic), **others}]:
                if others or isinstance(number, bool) or not 0 <= number < 2**31 or len(topic) > LONGEST_NAME:
                    return None
                for name in (connector, cluster, topic):
                    name.encode()  # half a character is none of Connect's
                return Owner(connector=connector, cluster=Alias(cluster)), TopicPartition(topic, number)
    except (ValueError, RecursionError):
        pass
    return None


def _read_value(key: bytes, value: bytes) -> int | ValueError:
    try:
        match json.loads(value):
            case {"offset": int(offset)} if not isinstance(offset, bool) and -1 <= offset < 2**63:
                return offset
    except (ValueError, RecursionError):
        pass
    shown = key[:300].decode(errors="replace")
    return ValueError(
        f"the position of {shown} is not a number under offset: {value[:80]!r}; write what it was before, or remove "
        "it with a record without a value under this key: the partition is not taken over then"
    )
