"""The records that duties keep in a flow's internal topic; part of ``offsets.records``, which says how they are read.

    ["duty", name]                                                         what a duty's newest round did
    ["acl", type, name, pattern, principal, host, operation, permission]   a binding that was created on the target
    ["occupied", topic]                                                    a target topic that held records of others

Invariant: a binding is on record only after the target has taken it, so nothing that was there before is on record.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from sparkmirror.offsets import json_text
from sparkmirror.offsets.json_text import count, moment, number, text, texts

ACL_WORDS = 7


@dataclass(frozen=True, slots=True, kw_only=True)
class DutyRound:
    """The newest round of a duty.

    Attributes:
        name: of the duty.
        time_ms: when it ended, milliseconds since 1970.
        interval_s: seconds between rounds.
        changed: how many changes it made.
        problems: what it could not do, and why.
    """

    name: str
    time_ms: int
    interval_s: float
    changed: int = 0
    problems: tuple[str, ...] = ()

    @property
    def key(self) -> str:
        """The record's key."""
        return json_text.write(["duty", self.name])

    def value(self) -> str:
        """The record's value."""
        return json_text.write(
            {
                "v": json_text.VERSION,
                "time_ms": self.time_ms,
                "interval_s": self.interval_s,
                "changed": self.changed,
                "problems": list(self.problems),
            }
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class AclRecord:
    """An ACL binding that was created on the target.

    Attributes:
        binding: type, name, pattern, principal, host, operation, permission, in Kafka's own words.
        time_ms: when it was created, milliseconds since 1970.
    """

    binding: tuple[str, ...]
    time_ms: int

    @property
    def key(self) -> str:
        """The record's key."""
        return acl_key(self.binding)

    def value(self) -> str:
        """The record's value."""
        return json_text.write({"v": json_text.VERSION, "time_ms": self.time_ms})


@dataclass(frozen=True, slots=True, kw_only=True)
class OccupiedTopic:
    """A target topic that held records of others when the flow began to copy to it: it is not the flow's alone.

    Attributes:
        topic: its name.
        topic_id: of it; "" where the brokers have none.
        time_ms: when the flow began, milliseconds since 1970.
    """

    topic: str
    topic_id: str
    time_ms: int

    @property
    def key(self) -> str:
        """The record's key."""
        return json_text.write(["occupied", self.topic])

    def value(self) -> str:
        """The record's value."""
        return json_text.write({"v": json_text.VERSION, "topic_id": self.topic_id, "time_ms": self.time_ms})


DutyRecord = DutyRound | AclRecord | OccupiedTopic


def acl_key(binding: tuple[str, ...]) -> str:
    """The key of an `AclRecord`."""
    return json_text.write(["acl", *binding])


def _duty(name: list[Any], data: dict[str, Any]) -> DutyRound:
    return DutyRound(
        name=name[1],
        time_ms=moment(data["time_ms"]),
        interval_s=number(data["interval_s"]),
        changed=count(data["changed"]),
        problems=texts(data["problems"]),
    )


def _acl(name: list[Any], data: dict[str, Any]) -> AclRecord:
    return AclRecord(binding=tuple(name[1:]), time_ms=moment(data["time_ms"]))


def _occupied(name: list[Any], data: dict[str, Any]) -> OccupiedTopic:
    return OccupiedTopic(topic=name[1], topic_id=text(data["topic_id"]), time_ms=moment(data["time_ms"]))


READERS: dict[str, Callable[[list[Any], dict[str, Any]], DutyRecord]] = {
    "duty": _duty,
    "acl": _acl,
    "occupied": _occupied,
}
"""The readers of these kinds, for ``records.parse``."""
