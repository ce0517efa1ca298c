"""How long the brokers of a cluster remember a producer that wrote: by the times of its records, not by idleness.

The setting can be changed while brokers run, for one of them or for all.

References: ``producer.id.expiration.ms`` (KIP-854, Kafka 3.4); before that ``transactional.id.expiration.ms`` counted
(``kafka.log.LogManager``).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from sparkmirror.kafka.cluster import Cluster
from sparkmirror.kafka.settings import broker_settings, number

DAY_MS = 86_400_000
"""Kafka's default, taken where the brokers may not be asked."""

_KEYS = ("producer.id.expiration.ms", "transactional.id.expiration.ms")


def memories_ms(cluster: Cluster, timeout_ms: int) -> dict[int, int | None]:
    """The memory of each broker that is up, in milliseconds; None where one does not tell.

    Raises:
        LinkError: no broker answers.
    """
    told = broker_settings(cluster, _KEYS, timeout_ms)
    return {node: None if settings is None else _memory(settings) for node, settings in told.items()}


@dataclass(slots=True)
class Memory:
    """What the brokers of a cluster have told of it, the newest of each: one that is down comes back as it was."""

    _known: dict[int, int] = field(default_factory=dict)
    _untold: set[int] = field(default_factory=set)

    def take(self, told: Mapping[int, int | None]) -> None:
        """Takes an answer of `memories_ms`."""
        self._known.update({node: ms for node, ms in told.items() if ms is not None})
        self._untold = told.keys() - self._known.keys()

    @property
    def shortest_ms(self) -> int:
        """Of all brokers, also those that are down now; `DAY_MS` or less where one has never told."""
        known = self._known.values()
        return min([*known, DAY_MS] if self._untold or not known else known)


def _memory(settings: Mapping[str, str | None]) -> int | None:
    values = (settings.get(key) for key in _KEYS)
    told = next((value for value in values if value), str(DAY_MS))
    return number(told)
