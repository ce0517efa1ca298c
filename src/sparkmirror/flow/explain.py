"""Why a topic is copied, or is not: by which rule, to what name, since where, and how it stands.

Invariants: `explain_topic` is pure and gives the first reason that decides, in the order in which a flow itself
decides; `look` only asks. What cannot be asked is said, and is no reason.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from sparkmirror.config import FlowConfig, MirrorConfig
from sparkmirror.config.expressions import compile_list
from sparkmirror.duties import topics
from sparkmirror.duties.missing_topics import Observed, Skip, decide, not_home
from sparkmirror.errors import SparkmirrorError
from sparkmirror.events import now_ms
from sparkmirror.flow.homecoming import left_there
from sparkmirror.flow.sides import BOTH, connected, record
from sparkmirror.flow.status import told
from sparkmirror.flow.view import FlowStatus, PartitionStatus
from sparkmirror.kafka import admin
from sparkmirror.kafka.admin import TopicDescription
from sparkmirror.model import TopicPartition
from sparkmirror.naming import Decision, policy_for, should_replicate, topic_filter
from sparkmirror.offsets.orders import topic_key
from sparkmirror.offsets.state import JournalState


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """What was found out about one topic in one flow.

    Attributes:
        topic: its name on the source.
        source: the topic as the source has it; None where it does not, or this user may not see it.
        targets: the topics of the target, by name.
        skipped: why the topics duty would leave it out although it is chosen, or "".
        known: the flow's internal topic; None where the flow was never started.
        now_ms: this moment.
    """

    topic: str
    source: TopicDescription | None
    targets: Mapping[str, TopicDescription]
    skipped: str
    known: JournalState | None
    now_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """Of one topic in one flow.

    Attributes:
        flow: ``source->target``.
        topic: its name on the source.
        target_topic: its name on the target; "" where the flow does not choose it.
        copied: whether it is copied now, or will be when the flow runs; None where that is not known.
        rule: which rule chose it or did not.
        lines: what else is to be known, such as since where, and how it stands.
    """

    flow: str
    topic: str
    target_topic: str = ""
    copied: bool | None = None
    rule: str = ""
    lines: tuple[str, ...] = ()


def explain(config: MirrorConfig, topic: str) -> tuple[Explanation, ...]:
    """Explains a topic for every flow of the configuration."""
    return tuple(_explain(flow, topic) for flow in config.flows)


def _explain(flow: FlowConfig, topic: str) -> Explanation:
    try:
        return explain_topic(flow, look(flow, topic))
    except SparkmirrorError as failure:
        return Explanation(flow=str(flow.name), topic=topic, rule="not known", lines=(str(failure),))


def look(flow: FlowConfig, topic: str) -> Seen:
    """Asks both clusters about a topic.

    Raises:
        SparkmirrorError: one of them cannot be asked.
    """
    with connected(flow, role="explain", needs=BOTH) as sides:
        found = admin.list_topics(sides.source, timeout_ms=flow.admin_timeout_ms)
        targets = admin.list_topics(sides.target, timeout_ms=flow.admin_timeout_ms)
        homeward = {name: found[name] for name in topics.homeward(flow, found)}
        known = record(sides)
        begun = topics.NOTHING_BEGUN if known is None else topics.begun_in(flow, known.progress, targets)
        observed = Observed(
            flow=flow, source=topics.choose(flow, found), homeward=homeward, target=targets, begun=begun
        )
        skips = {action.source: action.reason for action in decide(observed) if isinstance(action, Skip)}
        if topic in homeward:
            skips[topic] = not_home(observed, topic) or left_there(sides, observed, topic)
        return Seen(
            topic=topic,
            source=found.get(topic),
            targets=targets,
            skipped=skips.get(topic, ""),
            known=known,
            now_ms=now_ms(),
        )


def explain_topic(flow: FlowConfig, seen: Seen) -> Explanation:
    """Decides on what was seen."""
    policy = policy_for(flow.policy, flow.source.alias)
    decision = should_replicate(seen.topic, flow, policy, topic_filter(flow))
    rule = _rule(flow, seen.topic, decision)
    if not decision.read:
        return Explanation(flow=str(flow.name), topic=seen.topic, copied=False, rule=rule, lines=_leftovers(flow, seen))
    target = topics.remote_topic(flow, seen.topic)
    reserved = flow.dead_letters.active and flow.dead_letters.topic == target
    if reserved:
        rule = f"it would be copied onto the flow's dead letters, {target}"
    hindrance = rule if reserved else _hindrance(flow, seen)
    return Explanation(
        flow=str(flow.name),
        topic=seen.topic,
        target_topic=target,
        copied=not hindrance,
        rule=rule,
        lines=tuple(line for line in ("" if reserved else hindrance, *_standing(flow, seen, target)) if line),
    )


def _rule(flow: FlowConfig, topic: str, decision: Decision) -> str:
    if decision is Decision.CHOSEN:
        return f"{decision.value}: {_first(flow.topics, topic)}"
    if decision is Decision.EXCLUDED:
        return f"{decision.value}: {_first(flow.topics_exclude, topic)}"
    if decision is Decision.NOT_INCLUDED:
        return f"{decision.value}: {', '.join(flow.topics) or 'it is empty'}"
    return str(decision.value)


def _first(expressions: tuple[str, ...], topic: str) -> str:
    """The first expression of a list that matches."""
    for expression in expressions:
        compiled = compile_list([expression], file="", key="")
        if compiled is not None and compiled.matches(topic):
            return expression
    return ""


def _hindrance(flow: FlowConfig, seen: Seen) -> str:
    """Why a topic that is chosen is not copied all the same, or ""."""
    if seen.source is None:
        right = f"DESCRIBE on Topic {seen.topic}"
        return f"cluster {flow.source.alias} has no such topic, or this user may not see it ({right})"
    if seen.skipped:
        return seen.skipped
    if seen.known is None:
        return "the flow was never started"
    if topic_key(seen.topic) in seen.known.paused:
        order = seen.known.paused[topic_key(seen.topic)]
        return f"it is paused by {order.by}: sparkmirror resume copies it again"
    return ""


def _leftovers(flow: FlowConfig, seen: Seen) -> tuple[str, ...]:
    """What an earlier configuration has copied."""
    known = seen.known
    if known is None or not any(place.topic == seen.topic for place in known.progress):
        return ()
    return (f"it was copied before: {flow.target.alias} keeps what it has",)


def _standing(flow: FlowConfig, seen: Seen, target: str) -> list[str]:
    """How far the copy is."""
    lines = []
    if target not in seen.targets:
        lines.append(f"cluster {flow.target.alias} has no topic {target} yet")
    if seen.known is None:
        return lines
    status = told(flow, seen.known, now_ms=seen.now_ms)
    partitions = [part for part in status.partitions if part.topic == seen.topic]
    if not partitions and seen.source is not None:
        lines.append(_awaited(flow, status))
    lines += [_partition_line(part, seen.known) for part in partitions]
    missing = sorted(set(seen.source.partitions if seen.source else ()) - {part.partition for part in partitions})
    if partitions and missing:
        lines.append(f"partitions {', '.join(map(str, missing))} are not copied yet: {_awaited(flow, status)}")
    return lines


def _awaited(flow: FlowConfig, status: FlowStatus) -> str:
    if status.state not in ("running", "starting"):
        return f"the flow is {status.state}: it finds the topic when it runs"
    if not flow.refresh_topics_enabled:
        return "refresh.topics.enabled is false: it is found when the flow starts the next time"
    return f"it is found within refresh.topics.interval.seconds, {flow.refresh_topics_interval_s:g} s"


def _partition_line(part: PartitionStatus, known: JournalState) -> str:
    offsets = known.maps.get(TopicPartition(part.topic, part.partition))
    first = None if offsets is None else offsets.first
    since = "" if first is None else f", copied from source offset {first} on"
    lag = "" if part.lag_records is None else f", {part.lag_records} records behind"
    trouble = f": {part.event}" if part.event else ""
    return f"partition {part.partition}: next is {part.position}{lag}{since}{trouble}"
