"""Topic ids (KIP-516): two topics of one name, one after the other, have different ones."""

from __future__ import annotations

from collections.abc import Iterable

from sparkmirror.kafka.admin import list_topics
from sparkmirror.kafka.cluster import Cluster
from sparkmirror.kafka.rounds import ADMIN_MS


def ids_of_topics(cluster: Cluster, topics: Iterable[str], timeout_ms: int = ADMIN_MS) -> dict[str, str]:
    """The topics' ids as they are now, in hexadecimal; "" where the brokers are too old to have them.

    Args:
        cluster: where.
        topics: which; one that is not there is not in the answer.
        timeout_ms: of each request.
    """
    found = list_topics(cluster, sorted(topics), timeout_ms)
    return {name: in_hexadecimal(topic.topic_id) for name, topic in found.items()}


def in_hexadecimal(identity: object) -> str:
    """An id as a description of a topic has it; "" where the brokers are too old to have one."""
    hexadecimal = getattr(identity, "hex", "")
    return "" if not hexadecimal or int(hexadecimal, 16) == 0 else str(hexadecimal)
