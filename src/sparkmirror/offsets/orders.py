"""What an operator has ordered of a running flow: records of its internal topic, so that a restart keeps them.

    ["paused", topic]   a topic of the source is not copied
    ["rate"]            how many bytes the flow may copy in a second
    ["move", topic, partition]   where a partition of the source goes on
    ["discover"]        the flow looks for topics now, and not at its interval

The newest order of a key holds; the one that takes an order back is a tombstone.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from sparkmirror.model import TopicPartition
from sparkmirror.offsets import json_text
from sparkmirror.offsets.json_text import INT32, VERSION, count, integer, moment, text


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicOrder:
    """A topic is not copied until somebody says otherwise.

    Attributes:
        topic: its name on the source.
        time_ms: when it was ordered, milliseconds since 1970.
        by: who ordered it, for people.
    """

    topic: str
    time_ms: int
    by: str

    @property
    def key(self) -> str:
        """The record's key."""
        return topic_key(self.topic)

    def value(self) -> str:
        """The record's value."""
        return json_text.write({"v": VERSION, "time_ms": self.time_ms, "by": self.by})


@dataclass(frozen=True, slots=True, kw_only=True)
class RateOrder:
    """The flow copies so much in a second, whatever its configuration says.

    Attributes:
        bytes_per_s: of batches, as they are fetched; None for no limit.
        time_ms: when it was ordered, milliseconds since 1970.
        by: who ordered it, for people.
    """

    bytes_per_s: int | None
    time_ms: int
    by: str

    @property
    def key(self) -> str:
        """The record's key."""
        return RATE_KEY

    def value(self) -> str:
        """The record's value."""
        return json_text.write({"v": VERSION, "bytes_per_s": self.bytes_per_s, "time_ms": self.time_ms, "by": self.by})


@dataclass(frozen=True, slots=True, kw_only=True)
class MoveOrder:
    """A partition goes on elsewhere. Its tombstone is written in one batch with what makes it so.

    Attributes:
        partition: of the source.
        to: the next source offset to copy.
        topic_id: of the source topic that is meant, which holds for no other of the name; "" where brokers are too old.
        time_ms: when it was ordered, milliseconds since 1970.
        by: who ordered it, for people.
        leader_epoch: the newest of the source's log when ``to`` was looked at, or -1. A log that has that epoch up to
            there is the one that was meant.
        target_id: of the target topic that was there then, or "".
    """

    partition: TopicPartition
    to: int
    topic_id: str
    time_ms: int
    by: str
    leader_epoch: int = -1
    target_id: str = ""

    @property
    def key(self) -> str:
        """The record's key."""
        return json_text.write(["move", self.partition.topic, self.partition.partition])

    def value(self) -> str:
        """The record's value."""
        said = {"v": VERSION, "to": self.to, "topic_id": self.topic_id, "leader_epoch": self.leader_epoch}
        there = {"target_id": self.target_id} if self.target_id else {}
        return json_text.write(said | there | {"time_ms": self.time_ms, "by": self.by})


@dataclass(frozen=True, slots=True, kw_only=True)
class HoldOrder:
    """The flow copies nothing until it is released: its target has been switched to, or is about to be.

    Attributes:
        operation: whose order it is, see ``failover.ledger``.
        reason: for people.
        time_ms: when it was ordered, milliseconds since 1970.
        by: who ordered it, for people.
        order_ms: of that operation, see ``offsets.ledger``.
    """

    operation: str
    reason: str
    time_ms: int
    by: str
    order_ms: int = 0

    @property
    def order(self) -> int:
        """`order_ms`; the time where a release before has not put that on record."""
        return self.order_ms or self.time_ms

    @property
    def key(self) -> str:
        """The record's key."""
        return HOLD_KEY

    def value(self) -> str:
        """The record's value."""
        said = {"v": VERSION, "operation": self.operation, "reason": self.reason}
        return json_text.write(said | {"time_ms": self.time_ms, "by": self.by, "order_ms": self.order_ms})


@dataclass(frozen=True, slots=True, kw_only=True)
class DiscoverOrder:
    """The flow looks for topics and partitions at once. One that it has obeyed stays on record, and means nothing more.

    Attributes:
        time_ms: when it was ordered, milliseconds since 1970.
        by: who ordered it, for people.
    """

    time_ms: int
    by: str

    @property
    def key(self) -> str:
        """The record's key."""
        return DISCOVER_KEY

    def value(self) -> str:
        """The record's value."""
        return json_text.write({"v": VERSION, "time_ms": self.time_ms, "by": self.by})


Order = TopicOrder | RateOrder | MoveOrder | HoldOrder | DiscoverOrder

DISCOVER_KEY = json_text.write(["discover"])
RATE_KEY = json_text.write(["rate"])
HOLD_KEY = json_text.write(["held"])


def topic_key(topic: str) -> str:
    """The key of a `TopicOrder`."""
    return json_text.write(["paused", topic])


def topic_order(name: list[Any], data: dict[str, Any]) -> TopicOrder:
    """Reads one."""
    return TopicOrder(topic=name[1], time_ms=moment(data["time_ms"]), by=text(data["by"]))


def rate_order(_name: list[Any], data: dict[str, Any]) -> RateOrder:
    """Reads one."""
    limit = data["bytes_per_s"]
    return RateOrder(
        bytes_per_s=None if limit is None else count(limit), time_ms=moment(data["time_ms"]), by=text(data["by"])
    )


def move_order(name: list[Any], data: dict[str, Any]) -> MoveOrder:
    """Reads one."""
    return MoveOrder(
        partition=TopicPartition(name[1], name[2]),
        to=integer(data["to"]),
        topic_id=text(data["topic_id"]),
        time_ms=moment(data["time_ms"]),
        by=text(data["by"]),
        leader_epoch=integer(data["leader_epoch"], INT32),
        target_id=text(data.get("target_id", "")),
    )


def hold_order(_name: list[Any], data: dict[str, Any]) -> HoldOrder:
    """Reads one."""
    return HoldOrder(
        operation=text(data["operation"]),
        reason=text(data["reason"]),
        time_ms=moment(data["time_ms"]),
        by=text(data["by"]),
        order_ms=moment(data.get("order_ms", 0)),
    )


def discover_order(_name: list[Any], data: dict[str, Any]) -> DiscoverOrder:
    """Reads one."""
    return DiscoverOrder(time_ms=moment(data["time_ms"]), by=text(data["by"]))


READERS: dict[str, Callable[[list[Any], dict[str, Any]], Order]] = {
    "discover": discover_order,
    "held": hold_order,
    "paused": topic_order,
    "rate": rate_order,
    "move": move_order,
}
