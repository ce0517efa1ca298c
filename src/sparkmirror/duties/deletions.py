"""Follows deletions: the copy of a topic goes when its source topic is gone, where the flow's file asks for that.

Deleting cannot be undone, so the source's word alone is not enough. A copy is deleted only if all of this holds:

    * the flow copied the topic, and still chooses it: it has progress on record, and the filters name it;
    * the source has no such topic in this look, in the one before, and once more just before the deletion; it says so
      of the very name, since a list leaves out what this user may not see;
    * the source lists other topics than internal ones, and is the cluster that was copied from;
    * the copy is the topic that was written, by its id, and no internal topic, and nothing else is copied there;
    * it held no records of others when the flow began to copy to it, or the file says that it is the copy all the same;
    * it holds none that others have written to it since, such as applications after a switchover.

Invariants: `decide` is pure; what is not known for sure deletes nothing; nothing is deleted on the source, ever.

What follows is the copying's matter: the partitions have no source topic any more and leave the flow; a topic that the
source creates again is found like any new one, and copied from its beginning.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from sparkmirror.config import FlowConfig
from sparkmirror.duties.duty import Change, Result, Sides, Sign
from sparkmirror.duties.notes import Notes
from sparkmirror.duties.own_copies import copied_topics, held_before
from sparkmirror.duties.records_of_others import Others, with_records_of_others
from sparkmirror.duties.topics import remote_topic, wanted
from sparkmirror.errors import BrokerError
from sparkmirror.events import Event, Kind, now_ms
from sparkmirror.kafka import admin
from sparkmirror.kafka.admin import TopicDescription
from sparkmirror.kafka.cluster import Cluster
from sparkmirror.kafka.codes import GONE
from sparkmirror.kafka.metadata import describe_topics
from sparkmirror.model import Alias, TopicPartition
from sparkmirror.naming import policy_for
from sparkmirror.offsets.records import Happened
from sparkmirror.offsets.state import JournalState


@dataclass(frozen=True, slots=True, kw_only=True)
class Observed:
    """What a look saw.

    Attributes:
        flow: the flow.
        copied: source topics that the flow copied, with the ids of the topics that it wrote, as far as they are known.
        known_source: the id of the cluster that was copied from, "" where it is not on record.
        source_id: the id of the cluster that answered.
        source: the topics that it lists, without internal ones.
        gone: those of ``copied`` that it says it has not.
        target: the copies of those, where they exist.
        held_before: those of the copies that held records of others when the flow began to copy to them.
        written_since: why one of the copies of topics that were gone before, too, has records of others now, or may.
    """

    flow: FlowConfig
    copied: Mapping[str, frozenset[str]]
    known_source: str
    source_id: str
    source: frozenset[str]
    gone: frozenset[str]
    target: Mapping[str, TopicDescription]
    held_before: frozenset[str] = frozenset()
    written_since: Mapping[str, Others] = field(default_factory=dict)

    @property
    def doubt(self) -> str:
        """Why the source's word does not count; "" where it does."""
        if self.known_source and self.known_source != self.source_id:
            return f"it is cluster {self.source_id} now, and the flow copied from {self.known_source}"
        if not self.source:
            return "it lists no topics: was the right to DESCRIBE them taken from this user, or its metadata lost?"
        return ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Delete:
    """A copy whose source topic is gone."""

    cluster: Alias
    topic: str
    source: str

    @property
    def change(self) -> Change:
        """A line for the copy."""
        detail = f"deleted: its source topic {self.source} is gone"
        return Change(cluster=self.cluster, sign=Sign.REMOVE, what=f"topic {self.topic}", detail=detail)


@dataclass(frozen=True, slots=True, kw_only=True)
class Keep:
    """A topic that stays though its source topic is gone, or all of them where the source's word does not count.

    ``written_to`` is the source topic where the copy stays for records of others: that goes on record as an event.
    """

    cluster: Alias
    topic: str
    reason: str
    written_to: str = ""

    @property
    def change(self) -> Change:
        """A line for the topic."""
        what = f"topic {self.topic}" if self.topic else "all topics"
        return Change(cluster=self.cluster, sign=Sign.NOTE, what=what, detail=f"not deleted: {self.reason}")

    def happened(self, time_ms: int) -> Happened:
        """The event."""
        text = f"the copy {self.topic} on {self.cluster} is not deleted: {self.reason}"
        event = Event(kind=Kind.NOTE, text=text, time_ms=time_ms)
        return Happened(partition=TopicPartition(self.written_to, 0), event=event)


Action = Delete | Keep


class TopicDeletions:
    """The duty.

    Args:
        sides: what it works with.
    """

    name = "topic deletions"

    def __init__(self, sides: Sides) -> None:
        flow = sides.flow
        self.interval_s = flow.refresh_topics_interval_s if flow.sync_topic_deletes_enabled else None
        self._sides = sides
        self._before: frozenset[str] = frozenset()
        self._written: Mapping[str, Others] = {}
        self._notes: Notes[Keep] = Notes()

    def look(self) -> tuple[Action, ...]:
        """Observes and decides; the first look never finds anything to delete.

        Raises:
            SparkmirrorError: a cluster cannot be asked.
        """
        store = self._sides.store
        if store is None:
            return ()
        store.follow()
        if store.state.lacks_start:  # nothing tells whether this is the cluster that was copied from
            self._before = frozenset()
            return ()
        observed = observe(self._sides, store.state, self._before, self._written)
        found = decide(observed, self._before)
        self._before = frozenset() if observed.doubt else observed.gone
        self._written = observed.written_since
        self._notes.stand(action for action in found if isinstance(action, Keep))
        return found

    def apply(self, actions: Sequence[Action]) -> tuple[Result, ...]:
        """Deletes what is still gone; what stays is told once while that lasts.

        Raises:
            LinkError: the source cannot be asked once more.
        """
        return tuple(self._results(actions))

    def _results(self, actions: Sequence[Action]) -> Iterator[Result]:
        kept = [action for action in actions if isinstance(action, Keep) and self._notes.tell(action)]
        events = [action.happened(now_ms()) for action in kept if action.written_to]
        if events and self._sides.store is not None:
            self._sides.store.write(events)
        yield from (Result(action=action) for action in kept)
        timeout_ms = self._sides.flow.admin_timeout_ms
        deletions = [action for action in actions if isinstance(action, Delete)]
        gone = gone_of(self._sides.source, {action.source for action in deletions}, timeout_ms)
        due = [action for action in deletions if action.source in gone]
        failed = admin.delete_topics(self._sides.target, [action.topic for action in due], timeout_ms).failed
        for action in due:
            failure = failed.get(action.topic)
            if not (isinstance(failure, BrokerError) and failure.code in GONE):
                yield Result(action=action, failure=str(failure) if failure else "")


def observe(sides: Sides, state: JournalState, before: frozenset[str], written: Mapping[str, Others]) -> Observed:
    """Looks at both clusters.

    Args:
        sides: the clusters.
        state: of the flow.
        before: the source topics that were gone in the look before: only their copies may go, and are read.
        written: what the look before has found of records of others.

    Raises:
        BrokerError: the source is too old to have an id.
        LinkError: one of the clusters cannot be asked.
    """
    flow, timeout_ms = sides.flow, sides.flow.admin_timeout_ms
    copied = copied_topics(state.progress.values())
    source_id = admin.cluster_id(sides.source, timeout_ms)
    is_internal = policy_for(flow.policy, flow.source.alias).is_internal_topic
    listed = frozenset(name for name in admin.list_topics(sides.source, timeout_ms=timeout_ms) if not is_internal(name))
    missing = [topic for topic in wanted(flow, copied) if topic not in listed]
    gone = gone_of(sides.source, missing, timeout_ms) if listed else frozenset()
    pairs = [(topic, remote_topic(flow, topic)) for topic in sorted(gone)]
    target = admin.list_topics(sides.target, [copy for _, copy in pairs], timeout_ms)
    return Observed(
        flow=flow,
        copied=copied,
        known_source=state.flow.source_id if state.flow else "",
        source_id=source_id,
        source=listed,
        gone=gone,
        target=target,
        held_before=held_before(flow, state, pairs, target),
        written_since=with_records_of_others(
            sides, state, [pair for pair in pairs if pair[0] in before], target, written
        ),
    )


def gone_of(source: Cluster, topics: Collection[str], timeout_ms: int) -> frozenset[str]:
    """Those of the topics of which the source says that it has none of that name.

    Raises:
        LinkError: it cannot be asked.
    """
    views = source.run(describe_topics, source, topics, timeout_ms) if topics else {}
    return frozenset(name for name, view in views.items() if view.code in GONE)


def decide(observed: Observed, before: frozenset[str]) -> tuple[Action, ...]:
    """Which copies go.

    Args:
        observed: this look.
        before: the source topics that were gone in the look before.
    """
    cluster = observed.flow.target.alias
    if observed.doubt:
        reason = f"the word of cluster {observed.flow.source.alias} does not count: {observed.doubt}"
        return (Keep(cluster=cluster, topic="", reason=reason),)
    return tuple(_decisions(observed, before, cluster))


def _decisions(observed: Observed, before: frozenset[str], cluster: Alias) -> Iterator[Action]:
    flow = observed.flow
    others = {remote_topic(flow, topic): topic for topic in wanted(flow, observed.source)}
    for source in sorted(observed.gone & before):
        topic = remote_topic(flow, source)
        if topic in observed.target:
            reason = _reason_to_keep(observed, source, topic, others)
            written_to = source if topic in observed.written_since else ""
            yield (
                Keep(cluster=cluster, topic=topic, reason=reason, written_to=written_to)
                if reason
                else Delete(cluster=cluster, topic=topic, source=source)
            )


def _reason_to_keep(observed: Observed, source: str, topic: str, others: Mapping[str, str]) -> str:
    """Why a copy stays whose source topic is gone; "" where nothing speaks for it."""
    flow, description = observed.flow, observed.target[topic]
    ids = observed.copied.get(source, frozenset())
    if topic in others:
        return f"{others[topic]} is copied there too"
    if description.internal or policy_for(flow.policy, flow.source.alias).is_internal_topic(topic):
        return "it is an internal topic"
    if topic == flow.dead_letters.topic:
        return "it holds the flow's dead letters"
    if description.topic_id.int and ids and description.topic_id.hex not in ids:
        return f"it is not the topic that {source} was copied to, but one that was made since under the same name"
    if topic in observed.held_before:
        return (
            f"it held records of others when the flow began to copy {source} to it; delete it yourself where nobody "
            f"needs these, or set topics.append = {source} if it is the copy"
        )
    if topic in observed.written_since:
        return f"{observed.written_since[topic].reason}; delete it yourself where nobody needs these"
    return ""
