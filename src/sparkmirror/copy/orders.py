"""What the driver orders of running lanes: topics to leave alone, how fast to copy, what the target asks by now.

Invariant: orders are told as a whole, so a lane that missed some knows all with the newest.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from sparkmirror.copy.target_facts import TargetFacts
from sparkmirror.model import TopicPartition
from sparkmirror.offsets import json_text
from sparkmirror.offsets.json_text import count, flag, number, rows, signed, text, texts


@dataclass(frozen=True, slots=True, kw_only=True)
class Orders:
    """To all lanes of a flow.

    Attributes:
        paused: source topics that are not fetched now.
        moving: source partitions that go on elsewhere: whoever copies them gives them back.
        share: bytes per second for a lane that `shares` does not name; None for no limit.
        shares: bytes per second, by the lane's name.
        facts: target topics that ask for something else than some running plan says: whoever copies to them under
            another plan gives the partitions back, to be planned again.
        guarded_ms: as in a `ShiftPlan`, by now; None where nobody has looked since.
    """

    paused: frozenset[str] = frozenset()
    moving: frozenset[TopicPartition] = frozenset()
    share: float | None = None
    shares: Mapping[str, float] = field(default_factory=dict)
    facts: Mapping[str, TargetFacts] = field(default_factory=dict)
    guarded_ms: int | None = None

    def rate(self, shift: str) -> float | None:
        """Bytes per second for the lane of a shift; None for no limit."""
        return self.shares.get(shift.rpartition(".")[0], self.share)

    def text(self) -> str:
        """As the value of a control record."""
        said = {
            "v": 1,
            "paused": sorted(self.paused),
            "moving": [[each.topic, each.partition] for each in sorted(self.moving)],
            "share": self.share,
            "shares": dict(self.shares),
            "facts": {topic: [f.max_message_bytes, f.log_append_time, f.codec] for topic, f in self.facts.items()},
            "guarded_ms": self.guarded_ms,
        }
        return json.dumps(said, separators=(",", ":"))


NO_ORDERS = Orders()


def read(told: str) -> Orders:
    """What the value of a control record says.

    Raises:
        ValueError: it is none.
    """
    try:
        said = json_text.read(told)
        share, guarded_ms = said["share"], said["guarded_ms"]
        return Orders(
            paused=frozenset(texts(said["paused"])),
            moving=frozenset(
                TopicPartition(text(topic), count(partition)) for topic, partition in rows(said["moving"])
            ),
            share=None if share is None else number(share),
            shares={text(lane): number(some) for lane, some in said["shares"].items()},
            facts={text(topic): _facts(*row) for topic, row in said["facts"].items()},
            guarded_ms=None if guarded_ms is None else signed(guarded_ms),
        )
    except json_text.UNREADABLE as failure:
        raise ValueError("no orders") from failure


def _facts(max_message_bytes: Any, log_append_time: Any, codec: Any) -> TargetFacts:
    return TargetFacts(
        max_message_bytes=signed(max_message_bytes),
        log_append_time=flag(log_append_time),
        codec=text(codec),
    )
