"""What a start of the flows would change on their clusters, as a diff; nothing is changed.

Invariants: only questions are asked, of source and target; a flow whose clusters cannot be asked says so and keeps no
other flow from its diff; what a duty would do is what its own ``look`` gives, so the diff cannot differ from the deed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial

from sparkmirror.config import FlowConfig, MirrorConfig
from sparkmirror.duties import dead_letters, roster
from sparkmirror.duties.creations import TopicCreations
from sparkmirror.duties.duty import Change, Sides, Sign
from sparkmirror.duties.internal_topics import missing_internal_topics
from sparkmirror.duties.missing_topics import creation
from sparkmirror.duties.topics import is_heartbeats, withheld
from sparkmirror.errors import ConfigError, LinkError, SparkmirrorError
from sparkmirror.events import Event
from sparkmirror.flow import unasked
from sparkmirror.flow.connections import placed
from sparkmirror.flow.homecoming import left_there
from sparkmirror.flow.occupied import Occupied, TargetLogs
from sparkmirror.flow.planner import Pairs
from sparkmirror.flow.sides import BOTH, connected, record
from sparkmirror.kafka import admin
from sparkmirror.kafka.leaders import OffsetSpec
from sparkmirror.model import NO_OFFSET, TopicPartition
from sparkmirror.offsets.state import JournalState

AT_ONCE = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Preview:
    """What the start of one flow would change.

    Attributes:
        flow: ``source->target``.
        changes: in the order in which they would be made.
        failure: why that is not known in full, or "".
    """

    flow: str
    changes: tuple[Change, ...] = ()
    failure: str = ""


def preview(config: MirrorConfig) -> tuple[Preview, ...]:
    """Asks the clusters of every flow, side by side.

    Args:
        config: what would be run.

    Returns:
        One preview per flow, in the order of the configuration.
    """
    with ThreadPoolExecutor(min(AT_ONCE, max(1, len(config.flows)))) as pool:
        return tuple(pool.map(partial(_preview_flow, config.file), config.flows))


def _preview_flow(file: str, flow: FlowConfig) -> Preview:
    found: list[Change] = []
    failure = ""
    try:
        with connected(flow, role="plan", needs=BOTH) as sides:
            known = record(sides)
            if known is None:
                sides.store = None
            topics = TopicCreations(sides)
            found += _topic_changes(sides, topics)
            found += _beginnings(sides, known or JournalState(), topics.observed.pairs, file)
            found += _duty_changes(sides)
    except LinkError as trouble:
        failure = str(placed(trouble, file, flow))
    except SparkmirrorError as trouble:
        failure = str(trouble)
    return Preview(flow=str(flow.name), changes=tuple(dict.fromkeys(found)), failure=failure)


def _topic_changes(sides: Sides, topics: TopicCreations) -> Iterator[Change]:
    flow, alias = sides.flow, sides.flow.target.alias
    for topic in missing_internal_topics(flow, sides.target):
        yield creation(alias, topic, before=("of sparkmirror itself",))
    yield from _shown(topics.look())
    listed = admin.list_topics(sides.source, timeout_ms=flow.admin_timeout_ms)
    for name, decision in withheld(flow, listed):
        detail = f"not copied: {decision.value}"
        yield Change(cluster=flow.source.alias, sign=Sign.NOTE, what=f"topic {name}", detail=detail)
    doubt = left_there(sides, topics.observed)
    if doubt:
        detail = f"nothing that others wrote to them is brought home: {doubt}"
        yield Change(cluster=alias, sign=Sign.NOTE, what=f"copies of {flow.name.back}", detail=detail)
    letters = dead_letters.missing_dead_letter_topic(topics.observed, sides.source)
    if letters is not None:
        yield creation(alias, letters, before=("for records that fit nowhere",))


def _beginnings(sides: Sides, known: JournalState, pairs: Pairs, file: str) -> Iterator[Change]:
    """What a start would take over from MirrorMaker 2, and the topics that it would not begin with."""
    alias, inherited = sides.flow.target.alias, set[str]()
    try:
        found = unasked.find(sides, known, file)
    except ConfigError as refusal:
        yield Change(cluster=alias, sign=Sign.NOTE, what="a start is refused", detail=str(refusal))
        return
    if found is not None:
        inherited = {one.here.topic for one in found.copied}
        detail = f"{len(found.copied)} partitions of {len(inherited)} topics, at its positions in {found.stored.topic}"
        yield Change(cluster=alias, sign=Sign.NOTE, what="a start takes over from MirrorMaker 2", detail=detail)
    fresh = [(here, there) for here, there in pairs if here.topic not in inherited and _unplaced(known, here)]
    noted = set[str]()
    for here, event in _occupied(sides, fresh).items():
        if here.topic not in noted:
            noted.add(here.topic)
            yield Change(cluster=alias, sign=Sign.NOTE, what=f"topic {here.topic} is not copied", detail=event.text)


def _unplaced(known: JournalState, here: TopicPartition) -> bool:
    return here not in known.maps and (here not in known.progress or known.progress[here].position == NO_OFFSET)


def _occupied(sides: Sides, fresh: Pairs) -> Mapping[TopicPartition, Event]:
    """The partitions that would not begin because of what their target topics hold."""
    flow, timeout_ms, places = sides.flow, sides.flow.admin_timeout_ms, [here for here, _ in fresh]
    first = admin.find_offsets(sides.source, places, OffsetSpec.EARLIEST, timeout_ms=timeout_ms).found
    ends = admin.find_offsets(sides.source, list(first), OffsetSpec.LATEST, timeout_ms=timeout_ms).found
    filled = {here.topic for here, end in ends.items() if first[here] < end}
    ids = (admin.cluster_id(sides.source, timeout_ms), admin.cluster_id(sides.target, timeout_ms))
    logs = TargetLogs(flow, sides.source, sides.target, *ids)
    due = [pair for pair in fresh if pair[0].topic in filled or is_heartbeats(flow, pair[0].topic)]
    return Occupied(flow, logs).look(due)


def _duty_changes(sides: Sides) -> Iterator[Change]:
    for duty in (*roster.upkeep(sides), *roster.pulse(sides)):
        yield from _shown(duty.look())


def _shown(actions: Sequence[object]) -> Iterable[Change]:
    changes = (getattr(action, "change", None) for action in actions)
    return (change for change in changes if change is not None)
