"""The dead-letter topic of a flow: there before a lane needs it, and large enough for what it gets.

Invariants: one that exists is used as it is. One that is created takes whatever the source's topics take, since a
record that fits nowhere stops its partition after all, and keeps it until somebody deletes it: its records have the
times that they had at the source, by which retention would find them old on their first day.

Reference: org.apache.kafka.connect.runtime.errors.DeadLetterQueueReporter (one partition, the configured replication).
"""

from __future__ import annotations

import logging

from sparkmirror.config import FlowConfig
from sparkmirror.duties.missing_topics import Observed
from sparkmirror.errors import BrokerError, LinkError
from sparkmirror.kafka import admin
from sparkmirror.kafka.admin import NewTopic
from sparkmirror.kafka.cluster import Cluster
from sparkmirror.kafka.configs import describe_configs
from sparkmirror.kafka.settings import number
from sparkmirror.model import MAX_MESSAGE_BYTES

log = logging.getLogger(__name__)

GROWTH = 2
"""How much larger a dead letter may be than its batch at the source: it has more headers, and other code packed it."""

_INT_MAX = 2**31 - 1


def ensure_dead_letter_topic(observed: Observed, source: Cluster, target: Cluster) -> None:
    """Creates the dead-letter topic of a flow that has one, if the target lacks it.

    Args:
        observed: a round of the topics duty.
        source: asked how large records may be there.
        target: where the topic is.

    Raises:
        BrokerError: it cannot be created.
        LinkError: a cluster cannot be asked.
    """
    flow, wanted = observed.flow, missing_dead_letter_topic(observed, source)
    if wanted is None:
        return
    failed = admin.create_topics(target, [wanted], flow.admin_timeout_ms).failed
    for failure in failed.values():
        if not isinstance(failure, BrokerError) or failure.code != admin.TOPIC_ALREADY_EXISTS:
            raise _explained(failure, wanted)
    admin.wait_for_leaders(target, {wanted.name: 1}, flow.admin_timeout_ms).complete()
    log.info("created the dead-letter topic %s", wanted.name, extra={"flow": str(flow.name)})


def missing_dead_letter_topic(observed: Observed, source: Cluster) -> NewTopic | None:
    """The topic to create, if the flow has dead letters and the target lacks it.

    Raises:
        LinkError: the source cannot be asked.
    """
    flow = observed.flow
    if not flow.dead_letters.active or flow.dead_letters.topic in observed.target:
        return None
    return decide(flow, _limits(flow, source, list(observed.source)))


def decide(flow: FlowConfig, limits: list[int]) -> NewTopic:
    """The topic to create, for source topics with these ``max.message.bytes``."""
    largest = min(_INT_MAX, GROWTH * max([MAX_MESSAGE_BYTES, *limits]))
    return NewTopic(
        name=flow.dead_letters.topic,
        partitions=1,
        replication_factor=flow.dead_letters.replication_factor,
        configs=(("max.message.bytes", str(largest)), ("retention.ms", "-1")),
    )


def _limits(flow: FlowConfig, source: Cluster, topics: list[str]) -> list[int]:
    """What the source's topics allow, as far as it is told."""
    described = describe_configs(source, topics, flow.admin_timeout_ms)
    entries = [configs["max.message.bytes"].value for configs in described.found.values()]
    limits = (number(value) for value in entries if value)
    return [limit for limit in limits if limit is not None]


def _explained(failure: BrokerError | LinkError, wanted: NewTopic) -> BrokerError | LinkError:
    if isinstance(failure, BrokerError) and failure.code == admin.INVALID_REPLICATION_FACTOR:
        return BrokerError(
            code=failure.code,
            name=failure.name,
            cluster=failure.cluster,
            topic=wanted.name,
            remedy=f"set errors.deadletterqueue.topic.replication.factor (it is {wanted.replication_factor}) to the "
            "number of brokers at most, or to -1",
        )
    return failure
