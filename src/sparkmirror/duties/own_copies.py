"""Which target topics are a flow's copies, and which are others' topics that have the name of one.

Whoever creates a topic on the source chooses the name of its copy, and with it a topic of the target: what the source
says of the properties, the rights and the partitions of that topic must not reach one that was there before, nor may a
deletion.

A target topic is the flow's copy where
    * the flow copies to it, by progress with the topic's id, and it held no records of others when it began
      (``duty_records.OccupiedTopic``); what MirrorMaker 2 copied and the flow took over has such progress;
    * it is empty, or holds heartbeats alone, and is about to be copied to;
    * the file says that the flow may begin behind records of others there (``topics.append``, ``start.positions``).

Invariant: what cannot be known is not the flow's.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from sparkmirror.config import FlowConfig
from sparkmirror.duties.duty import Change, Sides, Sign
from sparkmirror.duties.flow_back import FlowBackRecord
from sparkmirror.duties.heartbeat_copies import hold_heartbeats
from sparkmirror.duties.topics import is_heartbeats, unclaimed
from sparkmirror.errors import SparkmirrorError
from sparkmirror.kafka import admin
from sparkmirror.kafka.admin import TopicDescription
from sparkmirror.kafka.leaders import OffsetSpec
from sparkmirror.model import Alias, TopicPartition
from sparkmirror.offsets.records import Progress
from sparkmirror.offsets.state import JournalState


@dataclass(frozen=True, slots=True, kw_only=True)
class NotOurs:
    """A target topic with the name of a copy, whose properties and rights are left alone."""

    cluster: Alias
    source: str
    topic: str

    @property
    def change(self) -> Change:
        """A line for the topic."""
        detail = (
            f"holds records that this flow has not copied, or held some when the flow began: its properties and ACLs "
            f"do not follow {self.source} of the source; set topics.append = {self.source} if it is the copy"
        )
        return Change(cluster=self.cluster, sign=Sign.NOTE, what=f"topic {self.topic}", detail=detail)


def of_others(
    sides: Sides, pairs: Iterable[tuple[str, str]], target: Mapping[str, TopicDescription]
) -> tuple[NotOurs, ...]:
    """Those of the target topics that are not the flow's copies, in order.

    Args:
        sides: of the flow.
        pairs: source topics with the names of their copies.
        target: the topics of the target.

    Raises:
        SparkmirrorError: the target cannot be asked.
    """
    there = [(source, copy) for source, copy in pairs if copy in target]
    if not there:
        return ()
    first = _owned(sides, there, target)
    filled = _filled(sides, {copy: target[copy] for (_, copy), own in first.items() if own is None})
    # A flow puts its position on record before it copies: what holds records now may be what it has just begun.
    again = _owned(sides, [pair for pair in there if pair[1] in filled], target) if filled else {}
    others = [pair for pair, own in first.items() if own is False or (pair[1] in filled and not again[pair])]
    alias, due = sides.flow.target.alias, _unclaimed(sides.flow, others, target)
    beats = _beats(sides, [pair for pair in due if first[pair] is None], target)
    return tuple(NotOurs(cluster=alias, source=source, topic=copy) for source, copy in sorted(due) if copy not in beats)


def held_before(
    flow: FlowConfig, state: JournalState, pairs: Iterable[tuple[str, str]], target: Mapping[str, TopicDescription]
) -> frozenset[str]:
    """Those of the target topics that held records of others when the flow began, and are not its copies.

    Args:
        flow: the flow.
        state: of it.
        pairs: source topics with the names of their copies.
        target: the topics of the target.

    Raises:
        ConfigError: an expression of the flow cannot be used.
    """
    there = [(source, copy) for source, copy in pairs if copy in target]
    others = [pair for pair, own in _by_record(state, there, target).items() if own is False]
    return frozenset(copy for _, copy in _unclaimed(flow, others, target))


def brought_there(
    back: FlowBackRecord, pairs: Iterable[tuple[str, str]], source_ids: Mapping[str, str]
) -> frozenset[str]:
    """Those of the source topics that the flow back writes: they are copies of the target's own topics themselves.

    So what the source says of them comes from whoever may change those copies, not from whoever chose a name. Where the
    record of the flow back cannot be read, there are none.

    Args:
        back: what the flow back has on record.
        pairs: source topics with the names of their copies.
        source_ids: of the source topics, "" where the brokers have none.
    """
    some = list(pairs)
    if not some or not back.shares_topics:
        return frozenset()
    try:
        state = back.state()
    except SparkmirrorError:
        return frozenset()
    return frozenset() if state is None else written_by(state, some, source_ids)


def written_by(back: JournalState, pairs: Iterable[tuple[str, str]], source_ids: Mapping[str, str]) -> frozenset[str]:
    """The same by the state of the flow back. Pure."""
    copied = copied_topics(back.progress.values())
    return frozenset(
        here
        for here, there in pairs
        if there in copied and here in source_ids and (not copied[there] or source_ids[here] in {"", *copied[there]})
    )


def copied_topics(progress: Iterable[Progress]) -> dict[str, frozenset[str]]:
    """The source topics that have progress on record, with the ids of the topics that they were copied to."""
    found: dict[str, frozenset[str]] = {}
    for one in progress:
        ids = {one.target_id} if one.target_id else set()
        found[one.partition.topic] = found.get(one.partition.topic, frozenset()) | ids
    return found


def is_own(
    state: JournalState, copied: Mapping[str, frozenset[str]], source: str, topic: str, topic_id: str
) -> bool | None:
    """Whether a target topic is the flow's copy, by what is on record; None where the flow has copied nothing to it.

    Args:
        state: of the flow.
        copied: its source topics, with the ids of those that they were copied to.
        source: the source topic.
        topic: the target topic.
        topic_id: its id, "" where the brokers have none.
    """
    ids = copied.get(source)
    if ids is None or (ids and topic_id and topic_id not in ids):
        return None
    return not any(
        one.topic == topic and (one.topic_id == topic_id or not (one.topic_id and topic_id))
        for one in state.occupied.values()
    )


def _owned(
    sides: Sides, pairs: Iterable[tuple[str, str]], target: Mapping[str, TopicDescription]
) -> dict[tuple[str, str], bool | None]:
    state = JournalState()
    if sides.store is not None:
        sides.store.follow()
        state = sides.store.state
    return _by_record(state, pairs, target)


def _by_record(
    state: JournalState, pairs: Iterable[tuple[str, str]], target: Mapping[str, TopicDescription]
) -> dict[tuple[str, str], bool | None]:
    copied = copied_topics(state.progress.values())
    return {pair: is_own(state, copied, *pair, _id_of(target[pair[1]])) for pair in pairs}


def _unclaimed(
    flow: FlowConfig, pairs: Sequence[tuple[str, str]], target: Mapping[str, TopicDescription]
) -> list[tuple[str, str]]:
    """Those of which the file does not say that the flow may begin behind records of others there."""
    places = (TopicPartition(source, number) for source, copy in pairs for number in target[copy].partitions)
    due = {place.topic for place in unclaimed(flow, places)}
    return [pair for pair in pairs if pair[0] in due]


def _beats(sides: Sides, pairs: Iterable[tuple[str, str]], target: Mapping[str, TopicDescription]) -> frozenset[str]:
    """The target topics that hold heartbeats alone, of those that have the names of copies of heartbeats."""
    named = (copy for source, copy in pairs if is_heartbeats(sides.flow, source))
    places = [TopicPartition(copy, number) for copy in named for number in target[copy].partitions]
    return hold_heartbeats(sides.target, places, sides.flow.admin_timeout_ms)


def _id_of(topic: TopicDescription) -> str:
    return topic.topic_id.hex if topic.topic_id.int else ""


def _filled(sides: Sides, topics: Mapping[str, TopicDescription]) -> frozenset[str]:
    """Those of the topics that hold records, or of which that cannot be known."""
    places = [TopicPartition(name, number) for name, topic in topics.items() for number in topic.partitions]
    if not places:
        return frozenset()
    timeout_ms = sides.flow.admin_timeout_ms
    ends = admin.find_offsets(sides.target, places, OffsetSpec.LATEST, timeout_ms=timeout_ms)
    used = [place for place, end in ends.found.items() if end > 0]
    firsts = admin.find_offsets(sides.target, used, OffsetSpec.EARLIEST, timeout_ms=timeout_ms) if used else None
    if firsts is None:
        return frozenset(place.topic for place in ends.failed)
    held = (place for place, first in firsts.found.items() if first < ends.found[place])
    return frozenset(place.topic for place in (*held, *ends.failed, *firsts.failed))
