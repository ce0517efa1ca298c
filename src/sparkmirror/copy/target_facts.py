"""What a target topic asks of the batches that are written to it. Pure.

A plan carries these facts to a lane, which makes and guards its batches by them. They can change while the flow runs;
a partition whose facts are out of date is planned again.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from sparkmirror.events import Kind
from sparkmirror.kafka.codes import MESSAGE_TOO_LARGE, kind_of

STAMPED_SECONDS = 1.0
"""Answers older than this do not show any more that a topic sets its own timestamps."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetFacts:
    """What a target topic asks of a batch: bytes, whether it sets timestamps itself, and its codec, "" for any."""

    max_message_bytes: int
    log_append_time: bool
    codec: str = ""

    def changes(self, now: TargetFacts) -> str:
        """What differs now, as a topic's properties."""
        pairs = zip(_properties(self), _properties(now), strict=True)
        return ", ".join(f"{name} from {before} to {after}" for (name, before), (_, after) in pairs if before != after)


def _properties(facts: TargetFacts) -> tuple[tuple[str, str], ...]:
    return (
        ("max.message.bytes", str(facts.max_message_bytes)),
        ("message.timestamp.type", timestamp_type(log_append_time=facts.log_append_time)),
        ("compression.type", facts.codec or "producer"),
    )


def timestamp_type(*, log_append_time: bool) -> str:
    """The value of ``message.timestamp.type``."""
    return "LogAppendTime" if log_append_time else "CreateTime"


class Planned(Protocol):
    """The part of a plan that says how large a batch may be."""

    @property
    def target_topic(self) -> str:
        """Where it goes."""

    @property
    def max_message_bytes(self) -> int:
        """The topic's limit when that was planned."""


def refusal(code: int, explained: str, payload: memoryview, plan: Planned) -> tuple[str, Kind]:
    """Why a partition stops whose batch was refused for good, and what that is about.

    A batch within the limit that was planned with is too large only if that limit has changed.
    """
    size, limit = len(payload), plan.max_message_bytes
    if code != MESSAGE_TOO_LARGE or size > limit:
        return explained, kind_of(code)
    text = (
        f"the target topic {plan.target_topic} refused a batch of {size} bytes as too large, and its max.message.bytes "
        f"was {limit} when this was planned; planned again for what the limit is now"
    )
    return text, Kind.TARGET_CHANGED
