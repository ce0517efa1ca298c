"""Which rights a flow needs on each of its clusters, and what for: the least that its configuration can do with.

Invariants: pure; a right is there only while the configuration switches the duty on that needs it; nothing is ever to
be denied. Names are as narrow as an ACL can be for what the flow's expressions may choose, see ``reach``.

Reference: the rights that each request asks for are in Kafka's documentation, "Authorization Primitives"; what another
right implies is left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from sparkmirror.config import Drift, FlowConfig, PolicyKind, Side, places_of_offsets
from sparkmirror.duties import heartbeats, offset_syncs, topics
from sparkmirror.duties.reach import ALL, Reach, reach, smallest
from sparkmirror.kafka.acls import CLUSTER_NAME, Operation, PatternType, ResourceType
from sparkmirror.kafka.groups import OFFSETS_TOPIC
from sparkmirror.naming import WRITERS_TOPIC, control_topic, internal_topic, policy_for

TOPIC, GROUP = ResourceType.TOPIC, ResourceType.GROUP
CLUSTER, TRANSACTIONAL_ID = ResourceType.CLUSTER, ResourceType.TRANSACTIONAL_ID
READ, WRITE, CREATE = Operation.READ, Operation.WRITE, Operation.CREATE
DELETE, ALTER, DESCRIBE = Operation.DELETE, Operation.ALTER, Operation.DESCRIBE
DESCRIBE_CONFIGS, ALTER_CONFIGS = Operation.DESCRIBE_CONFIGS, Operation.ALTER_CONFIGS

HOMEWARD = "bringing home what others wrote to copies"

BACK = "consumer groups in copies that the flow back made"

TRANSACTIONAL_IDS = "sparkmirror."
"""With what the transactional ids of all flows begin, see ``copy.registrations``."""

OPERATIONS = "operations: failover, switchover and failback commit the offsets of groups"

COORDINATORS = "seeing that no group is hidden or lost"

_IMPLIED_BY = {DESCRIBE: frozenset({READ, WRITE, DELETE, ALTER}), DESCRIBE_CONFIGS: frozenset({ALTER_CONFIGS})}
"""What Kafka's authorizer takes for granted with other rights (``AuthorizerData``, ``StandardAuthorizerData``)."""


@dataclass(frozen=True, slots=True, order=True)
class Right:
    """One thing that the mirror's user must be allowed to do.

    Attributes:
        kind, name, pattern: with what.
        operation: what.
        reason: which part of the flow does it.
    """

    kind: ResourceType
    name: str
    pattern: PatternType
    operation: Operation
    reason: str


TAKING_OVER = "taking over from MirrorMaker 2, at the first start only"

HANDING_OVER = "handing over to MirrorMaker 2"


def rights(flow: FlowConfig, side: Side, *, hand_over: bool = False) -> tuple[Right, ...]:
    """What the user of a flow must be allowed to do on one side, in order.

    Args:
        flow: the flow.
        side: of it.
        hand_over: also what ``sparkmirror hand-over`` needs.
    """
    found = [*(_source(flow) if side is Side.SOURCE else _target(flow)), *_taking_over(flow, side)]
    return least([*found, *(_handing_over(flow, side) if hand_over else ())])


def pulse_rights(flow: FlowConfig, side: Side) -> tuple[Right, ...]:
    """The same for a pair of clusters that gets heartbeats alone: its source is never asked for anything."""
    return least(_heartbeats(flow)) if side is Side.TARGET else ()


def least(found: Iterable[Right]) -> tuple[Right, ...]:
    """The rights without those that another one covers, in order."""
    each = set(found)
    return tuple(sorted(right for right in each if not _is_covered(right, each)))


def source_topics(flow: FlowConfig) -> tuple[Reach, ...]:
    """What covers the topics that the flow may copy."""
    found = list(reach(flow.topics))
    if flow.heartbeats_replication:
        found.append(_named(heartbeats.topic_of(flow)))
    return smallest(found)


def target_topics(flow: FlowConfig) -> tuple[Reach, ...]:
    """What covers their copies."""
    return smallest([_copy(flow, each) for each in source_topics(flow) if not _is_homeward(flow, each)])


def homeward_topics(flow: FlowConfig) -> tuple[Reach, ...]:
    """What covers the copies of the target's topics that the flow reads for what others wrote to them."""
    if not flow.brings_home:
        return ()
    chosen = reach(flow.topics)
    return smallest([*(_homeward_copy(flow, each) for each in chosen), *(c for c in chosen if _is_homeward(flow, c))])


def originals(flow: FlowConfig) -> tuple[Reach, ...]:
    """What covers the originals of these copies on the target."""
    if not flow.brings_home:
        return ()
    chosen = reach(flow.topics)
    if flow.policy.kind is PolicyKind.OWN:
        return (ALL,)
    every = topics.copy_of(flow, "")
    if any(each.pattern is PatternType.PREFIXED and every.startswith(each.name) for each in chosen):
        return (ALL,)  # it may choose every copy by the copy's name
    named = [replace(each, name=topics.remote_topic(flow, each.name)) for each in chosen if _is_homeward(flow, each)]
    return smallest([*chosen, *(each if each.name else ALL for each in named)])


def _source(flow: FlowConfig) -> Iterator[Right]:
    copied = source_topics(flow)
    yield from _allow(TOPIC, copied, "copying", READ, DESCRIBE)
    yield from _allow(TOPIC, copied, "creating topics with their properties", DESCRIBE_CONFIGS)
    if flow.sync_topic_configs_enabled:
        yield from _allow(TOPIC, copied, "topic configs", DESCRIBE_CONFIGS)
    if flow.brings_home:
        yield from _allow(TOPIC, homeward_topics(flow), HOMEWARD, READ, DESCRIBE)
        yield from _allow(TOPIC, [_named(internal_topic(flow.name.back))], HOMEWARD, READ, DESCRIBE)
    writers = [_named(WRITERS_TOPIC)]
    yield from _allow(TOPIC, writers, "telling batches of other mirrors", READ, DESCRIBE, DESCRIBE_CONFIGS)
    if flow.tells_writers:
        every = [Reach(TRANSACTIONAL_IDS, PatternType.PREFIXED)]
        yield from _allow(TRANSACTIONAL_ID, every, "confirming that these are mirrors", DESCRIBE)
    if flow.groups.checkpoints_enabled or flow.groups.sync_enabled:
        yield from _allow(GROUP, reach(flow.groups.include), "consumer groups", DESCRIBE)
        yield from _allow(TOPIC, [_named(OFFSETS_TOPIC)], COORDINATORS, DESCRIBE)
        yield from _allow(TOPIC, [_named(internal_topic(flow.name.back))], BACK, READ, DESCRIBE)
    if flow.acls.enabled:
        yield from _cluster("ACLs", DESCRIBE)
    if flow.offset_syncs.enabled and flow.offset_syncs.location is Side.SOURCE:
        yield from _offset_syncs(flow)


def _target(flow: FlowConfig) -> Iterator[Right]:
    copies = target_topics(flow)
    yield from _allow(TOPIC, copies, "copying", READ, WRITE, DESCRIBE, DESCRIBE_CONFIGS)
    yield from _allow(TOPIC, copies, "creating topics and partitions", CREATE, ALTER)
    yield from _allow(TOPIC, originals(flow), HOMEWARD, READ, WRITE, DESCRIBE, DESCRIBE_CONFIGS)
    if flow.sync_topic_configs_enabled:
        yield from _allow(TOPIC, copies, "topic configs", DESCRIBE_CONFIGS)
        if flow.sync_topic_configs_drift is Drift.MEND:
            yield from _allow(TOPIC, copies, "topic configs", ALTER_CONFIGS)
    if flow.sync_topic_deletes_enabled:
        yield from _allow(TOPIC, copies, "topic deletes", DELETE)
    own = [_named(name) for name in (internal_topic(flow.name), control_topic(flow.name), WRITERS_TOPIC)]
    yield from _allow(TOPIC, own, "sparkmirror's own topics", READ, WRITE, CREATE, DESCRIBE, DESCRIBE_CONFIGS)
    mine = [Reach(f"{TRANSACTIONAL_IDS}{flow.name}.", PatternType.PREFIXED)]
    yield from _allow(TRANSACTIONAL_ID, mine, "producer ids, and shutting out old writers", WRITE, DESCRIBE)
    yield from _cluster("how long brokers remember producers", DESCRIBE_CONFIGS)
    if flow.dead_letters.active:
        yield from _allow(TOPIC, [_named(flow.dead_letters.topic)], "dead letters", WRITE, CREATE, DESCRIBE)
    if flow.heartbeats.enabled:
        yield from _heartbeats(flow)
    if flow.offset_syncs.enabled and flow.offset_syncs.location is Side.TARGET:
        yield from _offset_syncs(flow)
    if flow.groups.checkpoints_enabled:
        name = policy_for(flow.policy, flow.source.alias).checkpoints_topic(flow.source.alias)
        yield from _allow(TOPIC, [_named(name)], "checkpoints", READ, WRITE, CREATE, DESCRIBE)
    yield from _allow(GROUP, reach(flow.groups.include), OPERATIONS, READ)
    if flow.groups.sync_enabled:
        yield from _allow(GROUP, reach(flow.groups.include), "group offsets", READ, DESCRIBE)
        yield from _allow(TOPIC, [_named(OFFSETS_TOPIC)], COORDINATORS, DESCRIBE)
    if flow.acls.enabled:
        yield from _cluster("ACLs", DESCRIBE, ALTER)


def _heartbeats(flow: FlowConfig) -> Iterator[Right]:
    return _allow(TOPIC, [_named(heartbeats.topic_of(flow))], "heartbeats", WRITE, CREATE, DESCRIBE)


def _offset_syncs(flow: FlowConfig) -> Iterator[Right]:
    yield from _allow(TOPIC, [_named(offset_syncs.topic_of(flow))], "offset syncs", WRITE, CREATE, DESCRIBE)


def _taking_over(flow: FlowConfig, side: Side) -> Iterator[Right]:
    """What the first start asks, beside what copying needs; see ``flow.unasked`` and ``flow.moving_in``."""
    stored = flow.stored_positions
    if not (stored.takeover and stored.topic):
        return
    yield from _positions(flow, side, TAKING_OVER, READ, DESCRIBE)
    if flow.offset_syncs.location is side:
        yield from _allow(TOPIC, [_named(offset_syncs.topic_of(flow))], TAKING_OVER, READ, DESCRIBE)


def _handing_over(flow: FlowConfig, side: Side) -> Iterator[Right]:
    """What ``flow.moving_out`` asks and writes, beside what a start needs."""
    creating = (CREATE,) if side is Side.TARGET else ()
    yield from _positions(flow, side, HANDING_OVER, READ, WRITE, *creating, DESCRIBE)


def _positions(flow: FlowConfig, side: Side, reason: str, *operations: Operation) -> Iterator[Right]:
    """Kafka Connect's topic of offsets, and the group of its workers, where they can be."""
    stored = flow.stored_positions
    if side in places_of_offsets(stored.topic, flow.name):
        yield from _allow(TOPIC, [_named(stored.topic)], reason, *operations)
        if stored.group:
            yield from _allow(GROUP, [_named(stored.group)], reason, DESCRIBE)


def _copy(flow: FlowConfig, of: Reach) -> Reach:
    if of.pattern is PatternType.LITERAL and of != ALL:
        return _named(topics.remote_topic(flow, of.name))
    if flow.policy.keeps_names:
        return of
    if flow.policy.kind is PolicyKind.OWN:
        return ALL
    return Reach(topics.remote_topic(flow, "" if of == ALL else of.name), PatternType.PREFIXED)


def _is_homeward(flow: FlowConfig, of: Reach) -> bool:
    """Whether all that is covered are copies of the target's topics."""
    return of != ALL and topics.is_homeward(flow, of.name)


def _homeward_copy(flow: FlowConfig, original: Reach) -> Reach:
    if original.pattern is PatternType.LITERAL and original != ALL:
        return _named(topics.copy_of(flow, original.name))
    if flow.policy.kind is PolicyKind.OWN:
        return ALL
    return Reach(topics.copy_of(flow, "" if original == ALL else original.name), PatternType.PREFIXED)


def _named(name: str) -> Reach:
    return Reach(name, PatternType.LITERAL)


def _allow(kind: ResourceType, where: Iterable[Reach], reason: str, *operations: Operation) -> Iterator[Right]:
    for place in where:
        yield from (Right(kind, place.name, place.pattern, operation, reason) for operation in operations)


def _cluster(reason: str, *operations: Operation) -> Iterator[Right]:
    return _allow(CLUSTER, [_named(CLUSTER_NAME)], reason, *operations)


def _is_covered(right: Right, all_of_them: Iterable[Right]) -> bool:
    """Whether another right says the same of more names, or implies it."""
    place, implying = Reach(right.name, right.pattern), _IMPLIED_BY.get(right.operation, frozenset())
    for other in all_of_them:
        there = Reach(other.name, other.pattern)
        if other.kind != right.kind or not there.covers(place):
            continue
        if other.operation in implying or (other.operation == right.operation and there != place):
            return True
    return False
