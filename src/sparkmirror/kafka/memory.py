"""How long the brokers of a cluster remember a producer that wrote: by the times of its records, not by idleness.

References: ``producer.id.expiration.ms`` (KIP-854, Kafka 3.4); before that ``transactional.id.expiration.ms`` counted
(``kafka.log.LogManager``).
"""

from __future__ import annotations

from collections.abc import Mapping

from sparkmirror.kafka.cluster import Cluster
from sparkmirror.kafka.settings import broker_settings

DAY_MS = 86_400_000
"""Kafka's default, taken where the brokers may not be asked."""

_KEYS = ("producer.id.expiration.ms", "transactional.id.expiration.ms")


def memory_ms(cluster: Cluster, timeout_ms: int) -> int:
    """The shortest memory of all brokers, in milliseconds; `DAY_MS` or less where one does not tell.

    Raises:
        LinkError: no broker answers.
    """
    told = broker_settings(cluster, _KEYS, timeout_ms)
    return min((_memory(settings or {}) for settings in told.values()), default=DAY_MS)


def _memory(settings: Mapping[str, str | None]) -> int:
    values = (settings.get(key) for key in _KEYS)
    return next((int(value) for value in values if value), DAY_MS)
