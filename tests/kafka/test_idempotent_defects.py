"""An append that fails in a way that nobody foresaw holds up neither its loop nor the appends behind it."""

from __future__ import annotations

import pytest

from sparkmirror.config import ClientSettings
from sparkmirror.errors import LinkError
from sparkmirror.kafka.cluster import Cluster, new_loop
from sparkmirror.kafka.idempotent_journal import IdempotentJournal
from sparkmirror.model import Writer


class Failing(IdempotentJournal):
    """Fails so many times; nothing is connected."""

    failures = 0
    sent = 0

    async def _new_writer(self) -> Writer:
        return Writer(producer_id=7, epoch=0)

    async def _find_leader(self, timeout_ms: int) -> None:  # noqa: ARG002 - as of any journal
        await self.cluster.loop.sleep(0.001)
        self._leader = 1

    async def _produce(self, payload: bytes, attempt_ms: int) -> int:  # noqa: ARG002 - as of any journal
        await self.cluster.loop.sleep(0.001)
        self.sent += 1
        if self.sent <= self.failures:
            raise ValueError(payload)
        return self.sent


@pytest.mark.parametrize("failures", [0, 1, 3])
def test_a_batch_goes_again_whatever_its_request_failed_for(failures: int):
    loop = new_loop("test")
    settings = ClientSettings(bootstrap_servers=("127.0.0.1:1",), retry_backoff_ms=1)
    cluster = Cluster("A", settings, role="test", loop=loop)
    journal = Failing(cluster, "t")
    journal.failures = failures
    try:
        assert loop.run(journal.append, [("a", "1")], 20_000) == failures + 1
        assert loop.run(journal.append, [("a", "2")], 20_000) == failures + 2
        journal.failures = 10_000
        with pytest.raises(LinkError, match="within 0 s"):
            loop.run(journal.append, [("a", "3")], 200)
    finally:
        cluster.close()
        loop.close()
