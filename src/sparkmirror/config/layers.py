"""Which of a flow's keys make up one client, and which of them count.

The order is that of ``MirrorConnectorConfig.sourceConsumerConfig`` and its siblings in Kafka 4.3.1, with Connect's
``producer.override.`` on top for the client that writes the records.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from sparkmirror.config.entries import Entry
from sparkmirror.config.keys import ROLES

_OVERRIDDEN = (("source", "consumer"), ("target", "producer"), ("target", "admin"))
"""The clients that a Connect worker would make, and so let a connector override."""

_MEANT = (("source", "consumer"), ("target", "producer"), ("source", "admin"), ("target", "admin"))
"""The clients that people mean when they set a key for a flow."""


def client_entries(flat: Mapping[str, Entry], side: str, role: str) -> dict[str, Entry]:
    """The keys of one client without any prefix; of equal ones the strongest.

    Args:
        flat: a flow's keys, as a connector would get them.
        side: ``source`` or ``target``.
        role: ``consumer``, ``producer`` or ``admin``.
    """
    merged: dict[str, Entry] = {}
    for prefix in _prefixes(side, role):
        for key, entry in flat.items():
            name = key.removeprefix(prefix)
            if name != key and name in ROLES[role]:
                merged[name] = entry
    return merged


def _prefixes(side: str, role: str) -> tuple[str, ...]:
    """Weakest first."""
    override = (f"{role}.override.",) if (side, role) in _OVERRIDDEN else ()
    return (f"{side}.cluster.", f"{role}.", f"{side}.{role}.", *override)


def shadowed(flat: Mapping[str, Entry], prefix: str) -> Iterator[tuple[Entry, Entry, str]]:
    """Keys of a flow that lose to a key of a cluster or of the top level, which people do not expect.

    Args:
        flat: a flow's keys.
        prefix: ``A->B.``, as the keys of the flow begin in the file.

    Yields:
        The loser, the winner, and the key that would win.
    """
    for side, role in _MEANT:
        winners = client_entries(flat, side, role)
        for name, winner in winners.items():
            for weak in _prefixes(side, role)[:-1]:
                loser = flat.get(weak + name)
                weaker = loser is not None and loser.key.startswith(prefix) and not winner.key.startswith(prefix)
                if loser is not None and weaker and loser.raw.strip() != winner.raw.strip():
                    yield loser, winner, f"{prefix}{side}.{role}.{name}"
