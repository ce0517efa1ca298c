"""A cluster that nobody answers for, and when it was asked."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

from sparkmirror.config import ClientSettings
from sparkmirror.kafka.cluster import Cluster
from sparkmirror.kafka.codes import broker_error

SETTINGS = ClientSettings(bootstrap_servers=("127.0.0.1:1",), retry_backoff_ms=20, retry_backoff_max_ms=50)
TOPIC_AUTHORIZATION_FAILED = 29
PAUSES = (0.02, 0.04, 0.05, 0.05)
"""What these settings ask for between the first five attempts."""


class Unreachable(Cluster):
    """A cluster whose every request fails at once; nothing is connected. Its fifth exchange is refused for good.

    Attributes:
        asked: when, on the monotonic clock.
    """

    def __init__(self, loop: Any = None) -> None:
        super().__init__("A", SETTINGS, role="test", loop=loop)
        self.asked: list[float] = []

    async def exchange(self, *request: Any, **more: Any) -> Any:  # noqa: ARG002 - as of any cluster
        self.asked.append(time.monotonic())
        if len(self.asked) > len(PAUSES):
            raise broker_error(TOPIC_AUTHORIZATION_FAILED, "A")
        raise self.link_error(ConnectionError("nobody is there"))

    def can_send(self, node: int) -> bool:  # noqa: ARG002 - as of any cluster
        return True

    def send(self, request: Any, node: int, done: Callable[[Any], None], timeout_ms: int | None = None) -> None:  # noqa: ARG002 - as of any cluster
        self.asked.append(time.monotonic())
        done(self.link_error(ConnectionError("nobody is there")))


def assert_paused(asked: Sequence[float]) -> None:
    """Each pause is as long as `PAUSES` say, or longer on a busy machine."""
    assert len(asked) > len(PAUSES)
    assert all(there - here >= pause for (here, there), pause in zip(pairwise(asked), PAUSES, strict=False))
