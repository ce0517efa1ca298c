"""Fetching from a broker that does not answer."""

from __future__ import annotations

import time

from sparkmirror.config import Isolation
from sparkmirror.copy.fetch import Fetcher, limits_of
from sparkmirror.kafka.cluster import new_loop
from sparkmirror.kafka.signal import Signal
from tests.copy.making import partition
from tests.kafka.unreachable import PAUSES, SETTINGS, Unreachable, assert_paused


def test_attempts_are_as_far_apart_as_the_settings_say():
    loop = new_loop("fetching")
    source, signal = Unreachable(loop), Signal(loop)
    fetcher = Fetcher(source, limits_of(SETTINGS, Isolation.READ_COMMITTED, 1 << 20), 1 << 20, signal.set)
    wanted = partition()
    wanted.source_node = 1

    async def fetch() -> None:
        deadline = time.monotonic() + 60
        fetcher.update(wanted)
        while len(source.asked) <= len(PAUSES) and time.monotonic() < deadline:
            fetcher.request_more(0)
            assert list(fetcher.answers()) == []
            await signal.wait(1.0)

    try:
        loop.run(fetch)
        assert_paused(source.asked)
        assert list(fetcher.unreachable) == [1]
    finally:
        source.close()
        loop.close()
