"""Whether the target's own logs still have what the flow back has read of them, before the places of groups there.

A group that reads copies of the flow back goes on in the originals, where the map of that flow says. The map is of the
log as it was: a log that has lost its end since (one replica and a power failure, an unclean election) may have other
records at these offsets, and a topic that was deleted and created again has. So the leaders are asked each time, with
the topic id and the leader epochs that are on record with the place.

A place may lie behind what the flow back has read: the flow's own copies lie between, which it did not bring. The log
is asked about up to there only, as its leader epochs from there on are not on record; ``duties.lost_copies`` tells what
became of the copies.

Invariants: no place lies beyond the first record that is lost, as far as the epochs on record tell; a place is proven
only where topic id and leader epoch are known, and the leader says that the epoch goes up to it.

References: OffsetForLeaderEpoch (KIP-101, KIP-279, KIP-320), topic ids (KIP-516).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace

from sparkmirror.kafka.cluster import Cluster
from sparkmirror.kafka.epochs import CopiedLog, meeting_points
from sparkmirror.kafka.reading import Span
from sparkmirror.kafka.rounds import Results
from sparkmirror.kafka.topic_ids import ids_of_topics
from sparkmirror.model import NO_OFFSET, TopicPartition
from sparkmirror.offsets.group_records import LogBefore, UpstreamOffset
from sparkmirror.offsets.source_history import UNDEFINED, Alike, Looked
from sparkmirror.offsets.translation import Place

Upstream = Mapping[str, Mapping[TopicPartition, UpstreamOffset]]
"""By group and partition of the source."""

Log = tuple[TopicPartition, LogBefore]
"""A partition of the target, and which log of it is meant."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnLogs:
    """Where groups go on by the map of the flow back, in logs that the target still has.

    Attributes:
        upstream: where offsets lead to, and not beyond what is lost.
        lost: by group and partition of the source, where the loss begins that lies before the place on record; 0 where
            the topic was deleted and created again.
        unproven: groups and partitions of the source where nothing tells whether something is lost.
    """

    upstream: Upstream
    lost: Mapping[tuple[str, TopicPartition], int] = field(default_factory=dict)
    unproven: frozenset[tuple[str, TopicPartition]] = frozenset()


def look(target: Cluster, upstream: Upstream, names: Mapping[str, str], timeout_ms: int) -> OwnLogs:
    """Asks the target's leaders.

    Args:
        target: the cluster that groups go to.
        upstream: where offsets lead to by the map of the flow back, as it is on record.
        names: of topics of the source, to those on the target.
        timeout_ms: until a leader that has not answered says nothing.

    Raises:
        SparkmirrorError: the target does not say which topics it has.
    """
    asked = to_ask(upstream, names)
    ids = ids_of_topics(target, {place.topic for place, _ in asked}, timeout_ms) if asked else {}
    again = {log for log in asked if _is_another(log, ids)}
    known = [log for log in asked if log not in again and _can_tell(log, ids)]
    return decide(upstream, names, dict.fromkeys(again, 0) | _same_up_to(target, known, asked, timeout_ms))


def to_ask(upstream: Upstream, names: Mapping[str, str]) -> dict[Log, int]:
    """The logs that places lie in, each with how far it is asked about. Pure; the arguments are those of `look`."""
    asked: dict[Log, int] = {}
    for _, _, log, one in _places(upstream, names):
        asked[log] = max(_read_before(one), asked.get(log, 0))
    return asked


def decide(upstream: Upstream, names: Mapping[str, str], same: Mapping[Log, int]) -> OwnLogs:
    """Where groups go on. Pure.

    Args:
        upstream: as in `look`.
        names: as in `look`.
        same: up to which offset each log still is what it was: all of it where that is how far it is asked about, or
            beyond; 0 where the topic was created again; none of those that nobody knows of.
    """
    lost: dict[tuple[str, TopicPartition], int] = {}
    unproven = set[tuple[str, TopicPartition]]()
    for group, place, log, one in _places(upstream, names):
        if log not in same:
            unproven.add((group, place))
        elif not same[log] or same[log] < _read_before(one):
            lost[group, place] = same[log]
    return OwnLogs(
        upstream={
            group: {
                place: _at_the_loss(one, lost[group, place]) if (group, place) in lost else one
                for place, one in own.items()
            }
            for group, own in upstream.items()
        },
        lost=lost,
        unproven=frozenset(unproven),
    )


def _places(upstream: Upstream, names: Mapping[str, str]) -> Iterator[tuple[str, TopicPartition, Log, UpstreamOffset]]:
    """Group, partition of the source, log and place, where there is a log before the place."""
    for group, own in upstream.items():
        for place, one in own.items():
            if one.offset > 0 and place.topic in names:
                yield group, place, (TopicPartition(names[place.topic], place.partition), one.log), one


def _read_before(one: UpstreamOffset) -> int:
    """Up to where the flow back has read the log before a place."""
    return one.offset if one.log.read == NO_OFFSET else min(one.offset, one.log.read)


def _at_the_loss(one: UpstreamOffset, begin: int) -> UpstreamOffset:
    return replace(one, offset=begin, name=(Place.TORN if begin else Place.BEGIN).name, exact=False)


def _is_another(log: Log, ids: Mapping[str, str]) -> bool:
    place, before = log
    return bool(before.topic_id) and ids.get(place.topic, "") not in ("", before.topic_id)


def _can_tell(log: Log, ids: Mapping[str, str]) -> bool:
    place, before = log
    return bool(before.topic_id and before.epochs and ids.get(place.topic))


def _same_up_to(target: Cluster, logs: Collection[Log], furthest: Mapping[Log, int], timeout_ms: int) -> dict[Log, int]:
    """Up to where logs are what they were, as far as leaders answer: a question names one log of each partition.

    A leader that has not answered is not asked again.
    """
    found: dict[Log, int] = {}
    waiting = list(logs)
    while waiting:
        now = dict(waiting)
        asked = {place: _as_copied(before, furthest[place, before]) for place, before in now.items()}
        points = meeting_points(target, asked, _unseen, timeout_ms).found
        found |= {(place, now[place]): one.end for place, one in points.items() if one.end != UNDEFINED}
        waiting = [(place, before) for place, before in waiting if place in points and now[place] != before]
    return found


def _as_copied(before: LogBefore, furthest: int) -> CopiedLog:
    history = tuple(one for one in before.epochs if one.offset != NO_OFFSET)
    return CopiedLog(epoch=before.epochs[-1].epoch, position=furthest, history=history)


def _unseen(spans: Mapping[TopicPartition, Span]) -> Results[TopicPartition, Looked]:
    """The records that the flow back has copied lie on the source, which may be gone: epochs alone tell."""
    return Results(found={place: Looked(Alike.UNKNOWN, span.end) for place, span in spans.items()}, failed={})
