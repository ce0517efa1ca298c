"""Tracebacks that a library, or a background task, only logs."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest


class Crashes(logging.Handler):
    """Collects them."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.seen: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        failure = record.exc_info[1] if record.exc_info else None
        if failure is not None and "NetworkSelector closed" not in str(failure):  # what was under way at the end
            self.seen.append(f"{record.name}: {record.getMessage()}: {failure!r}")


@pytest.fixture
def crashes() -> Iterator[Crashes]:
    handler = Crashes()
    root = logging.getLogger()
    root.addHandler(handler)
    yield handler
    root.removeHandler(handler)
