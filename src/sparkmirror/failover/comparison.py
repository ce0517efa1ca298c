"""What the cluster that came back has, compared with what was copied from it and with what was brought back to it.

*Forth* is the flow that copied from that cluster, *back* the one to it.

Invariants: what is compared does not change any more, since no transaction is open below the ends that count; every
committed record that neither flow accounts for is found, whether the flow forth had found its topic or not; a position
counts only as far as the log is still the one that it was in. What a mirror has brought from a third cluster is not
what only this one has: the flow forth copies it, so nothing is found behind the first of it (`mirrors`).

References: KIP-101 (leader epochs), KIP-516 (topic ids).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sparkmirror.config import Isolation
from sparkmirror.copy.origins import brought_from, writers_to
from sparkmirror.duties import topics
from sparkmirror.duties.duty import Sides
from sparkmirror.duties.known_maps import KnownMaps
from sparkmirror.duties.lost_copies import lost_copies
from sparkmirror.errors import BrokerError
from sparkmirror.failover import divergence, doubt, look, unbrought
from sparkmirror.failover.divergence import Divergent
from sparkmirror.failover.mirrors import Mirrors, mirrors_of
from sparkmirror.failover.others import homeward_ends
from sparkmirror.failover.unbrought import Unbrought
from sparkmirror.flow.parting import LostCopies, Parting, parted_logs, recreated_topics
from sparkmirror.kafka import admin
from sparkmirror.kafka.codes import UNKNOWN_TOPIC_OR_PARTITION
from sparkmirror.kafka.epochs import newest_epochs
from sparkmirror.kafka.leaders import OffsetSpec
from sparkmirror.kafka.reading import Span
from sparkmirror.kafka.topic_ids import ids_of_topics
from sparkmirror.model import NO_OFFSET, TopicPartition
from sparkmirror.naming import policy_for
from sparkmirror.offsets.map import OffsetMap
from sparkmirror.offsets.source_history import UNDEFINED
from sparkmirror.offsets.track import FAR


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """The result.

    Attributes:
        found: what only the cluster that came back has, in order.
        recreated: topics there that were deleted and created again since they were copied: nothing there was copied.
        parted: where its logs part from what was copied, in order.
        onward: the first offset behind what was copied that a mirror from a third cluster has written: all from there
            on is left to the flow forth, and no group goes behind it.
        between: the same, where others have written behind it too.
        ids: of the topics there as they were compared, by name; "" before Kafka 2.8.
        lost: what the cluster that applications are on has lost of what was copied to it, in order.
        unsettled: partitions there of which the flow forth may have copied more than is on record, in order.
        unbrought: copies that others have written to, where that is not brought to the cluster that came back though
            the names are the same, or though the flow back is to bring it, in order, and why.
        since: by partition there, the first record that came when groups had been moved: all from there on is left
            to groups and to the flow.
    """

    found: tuple[Divergent, ...] = ()
    recreated: tuple[str, ...] = ()
    parted: tuple[Parting, ...] = ()
    onward: Mapping[TopicPartition, int] = field(default_factory=dict)
    between: Mapping[TopicPartition, int] = field(default_factory=dict)
    ids: Mapping[str, str] = field(default_factory=dict)
    lost: tuple[LostCopies, ...] = ()
    unsettled: tuple[TopicPartition, ...] = ()
    unbrought: Unbrought = field(default_factory=dict)
    since: Mapping[TopicPartition, int] = field(default_factory=dict)

    @property
    def remarks(self) -> tuple[object, ...]:
        """What is said of it beside what was found: where that is the same, nothing has changed."""
        return (self.parted, self.onward, self.between, self.lost, self.unsettled, self.unbrought)

    @property
    def facts(self) -> dict[str, Any]:
        """For the record; only ids of topics that something is said of."""
        named = {one.partition.topic for one in self.found}
        return {
            "divergent": [one.row for one in self.found],
            "recreated": list(self.recreated),
            "parted": [one.row for one in self.parted],
            "onward": [[*place, offset] for place, offset in self.onward.items()],
            "between": [[*place, offset] for place, offset in self.between.items()],
            "ids": {name: topic_id for name, topic_id in self.ids.items() if name in named},
            "lost_copies": [one.row for one in self.lost],
            "unsettled_forth": [list(place) for place in self.unsettled],
            "unbrought": unbrought.rows_of(self.unbrought),
            "came_since": [[*place, offset] for place, offset in self.since.items()],
        }

    @staticmethod
    def of(facts: Mapping[str, Any]) -> Comparison:
        """From the record."""
        return Comparison(
            found=tuple(map(Divergent.of, facts.get("divergent", ()))),
            recreated=tuple(facts.get("recreated", ())),
            parted=tuple(map(Parting.of, facts.get("parted", ()))),
            onward={TopicPartition(topic, number): offset for topic, number, offset in facts.get("onward", ())},
            between={TopicPartition(topic, number): offset for topic, number, offset in facts.get("between", ())},
            ids=facts.get("ids", {}),
            lost=tuple(map(LostCopies.of, facts.get("lost_copies", ()))),
            unsettled=tuple(TopicPartition(*row) for row in facts.get("unsettled_forth", ())),
            unbrought=unbrought.of_rows(facts.get("unbrought", ())),
            since={TopicPartition(topic, number): offset for topic, number, offset in facts.get("came_since", ())},
        )

    def troubles(self, here: str, there: str) -> tuple[str, ...]:
        """What somebody has to look at, a line for each.

        Args:
            here: where applications are.
            there: the cluster that came back.
        """
        again = (
            f"topic {name} was deleted and created again on {there} since it was copied: all it has is on {there} "
            "only, and no group has an exact place in it"
            for name in self.recreated
        )
        between = (
            f"{place}: others have written on {there} behind what a mirror has brought there from offset {offset} on: "
            f"what they wrote behind it is not put aside, and goes on to {here}"
            for place, offset in self.between.items()
        )
        lost = (one.said(here, there) for one in self.lost)
        unsettled = (
            f"{place}: how far it had been copied to {here} is not known, as the log there was not read or has lost "
            f"its end: no group goes further than the record says, and {here} may have some of what is put aside"
            for place in self.unsettled
        )
        others = unbrought.troubles(self.unbrought, here, there)
        parted = (one.said(here, there) for one in self.parted)
        return (*again, *parted, *lost, *between, *unsettled, *others)


def ends(forth: Sides) -> dict[TopicPartition, int]:
    """The ends of the logs, with what open transactions have written.

    Raises:
        SparkmirrorError: the cluster cannot be asked.
    """
    return look.source_ends(forth, committed=False)


def lost_at_home(forth: Sides, before: Comparison, timeout_ms: int) -> dict[str, int]:
    """What the cluster that came back has lost of what was copied from it, beyond what was seen when it was compared.

    Args:
        forth: the flow from there, which is held.
        before: what was seen then.
        timeout_ms: of each question.

    Returns:
        from which offset on, by partition; 0 for a topic that was deleted and created again, by its name.

    Raises:
        SparkmirrorError: the cluster cannot be asked.
    """
    assert forth.store is not None
    progress, known = forth.store.state.progress, {one.partition: one.offset for one in before.parted}
    recreated = recreated_topics(progress, _topic_ids(forth))
    parted = parted_logs(forth, progress, of_the_newest_run(forth, ends(forth)), recreated, timeout_ms)
    again = [name for name in recreated if name not in before.recreated]
    lost = {str(one.partition): one.offset for one in parted if one.offset < known.get(one.partition, FAR)}
    return dict.fromkeys(again, 0) | lost


def stable(forth: Sides, log_ends: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
    """Up to where no transaction is open now.

    Raises:
        SparkmirrorError: the cluster cannot be asked.
    """
    places, timeout_ms = list(log_ends), forth.flow.admin_timeout_ms
    return admin.list_offsets(
        forth.source, places, OffsetSpec.LATEST, isolation=Isolation.READ_COMMITTED, timeout_ms=timeout_ms
    )


def leader_epochs(forth: Sides) -> dict[TopicPartition, int]:
    """Of the logs as they are now; to be asked before their `ends`. Partitions without an answer are not there.

    Raises:
        SparkmirrorError: the cluster cannot be asked.
    """
    timeout_ms = forth.flow.admin_timeout_ms
    places = topics.places(forth.flow, admin.list_topics(forth.source, timeout_ms=timeout_ms), forth.progress)
    return newest_epochs(forth.source, places, timeout_ms)


def compare(
    forth: Sides,
    back: Sides,
    log_ends: Mapping[TopicPartition, int],
    epochs: Mapping[TopicPartition, int] | None = None,
) -> Comparison:
    """Compares.

    Args:
        forth: the flow from the cluster that came back, and its clusters.
        back: the flow to it, and its clusters.
        log_ends: of its partitions; what lies behind them is not looked at. No transaction is open below them, or
            what it has written is not found.
        epochs: the leader epochs of its logs before these ends; none where nothing is to be done with the result.

    Raises:
        SparkmirrorError: a cluster cannot be asked.
    """
    assert forth.store is not None
    forth.store.follow()
    log_ends = of_the_newest_run(forth, log_ends)
    ids = _topic_ids(forth)
    recreated = recreated_topics(forth.store.state.progress, ids)
    state, timeout_ms = forth.store.state, forth.flow.admin_timeout_ms
    parted = parted_logs(forth, state.progress, log_ends, recreated, timeout_ms)
    points = {one.partition: one.offset for one in parted}
    positions = {
        place: 0 if place.topic in recreated else max(0, min(one.position, points.get(place, one.position)))
        for place, one in forth.store.state.progress.items()
        if not policy_for(forth.flow.policy, forth.flow.source.alias).is_heartbeats_topic(place.topic)
    }
    if writes_originals(forth, back):
        brought = _brought_to(back)
        positions |= {place: 0 for place in log_ends if place in brought and place not in positions}
    shared = set(positions if writes_originals(forth, back) else homeward_ends(forth.flow, positions))
    mirrored = _mirrored(forth, back, {place: positions[place] for place in shared}) if shared else {}
    found, onward, between = _of_others(forth, back, divergence.find(positions, log_ends, mirrored))
    epochs = epochs or {}
    found = tuple(one._replace(leader_epoch=epochs.get(one.partition, UNDEFINED)) for one in found)
    return Comparison(
        found=found,
        recreated=recreated,
        parted=parted,
        onward=onward,
        between=between,
        ids=ids,
        lost=lost_here(forth),
        unsettled=tuple(sorted(doubt.in_doubt(forth))),
        unbrought=unbrought.wanting(forth, back),
    )


def of_the_newest_run(forth: Sides, log_ends: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
    """Without the topics that the flow forth was not to copy when it was stopped: to the flow they are new.

    Args:
        forth: the flow.
        log_ends: of the topics that it is to copy now.
    """
    assert forth.store is not None
    told, begun = forth.store.state.flow, forth.store.state.progress
    if told is None or not told.topics:  # releases before have not told it
        return dict(log_ends)
    names = {place.topic for place in log_ends}
    known = {*topics.read(topics.as_told(forth.flow, told), names, begun), *(place.topic for place in begun)}
    return {place: end for place, end in log_ends.items() if place.topic in known}


def lost_here(sides: Sides, timeout_ms: int | None = None) -> tuple[LostCopies, ...]:
    """What a flow's target has lost of the copies, as far as the flow has not found it yet, in order.

    Args:
        sides: the flow and its clusters.
        timeout_ms: of each question; as the flow is configured without.

    Raises:
        SparkmirrorError: the target cannot be asked about one of them; one that was deleted says nothing.
    """
    assert sides.store is not None
    sides.store.follow()
    flow, state = sides.flow, sides.store.state
    policy = policy_for(flow.policy, flow.source.alias)
    progress = {place: one for place, one in state.progress.items() if not policy.is_heartbeats_topic(place.topic)}
    torn = lost_copies(flow, sides.target, progress, timeout_ms or flow.admin_timeout_ms)
    for failure in torn.failed.values():
        if not isinstance(failure, BrokerError) or failure.code != UNKNOWN_TOPIC_OR_PARTITION:
            raise failure
    maps = KnownMaps(sides).of(set(torn.found))
    lost = []
    for place, offset in sorted(torn.found.items()):
        last, first = maps[place].end(), maps[place].first()
        if last is None or first is None or last.target < offset:
            continue
        source = maps[place].target_to_source(offset)
        copy = TopicPartition(topics.remote_topic(flow, place.topic), place.partition)
        begin = first.source if source is None else source
        lost.append(LostCopies(partition=place, copy=copy, offset=offset, first=begin, last=last.source))
    return tuple(lost)


def _of_others(
    forth: Sides, back: Sides, ranges: Sequence[Divergent]
) -> tuple[tuple[Divergent, ...], dict[TopicPartition, int], dict[TopicPartition, int]]:
    """What of these no mirror has written, up to the first record that the flow forth copies on; and where that lies.

    Returns:
        what was found, in order; the first record of these mirrors by partition; and the same, where others have
        written behind it.
    """
    if not ranges:
        return (), {}, {}
    mirrors, timeout_ms = mirrors_there(forth, back), forth.flow.admin_timeout_ms
    onward = divergence.first_of(forth.source, ranges, mirrors.onward, timeout_ms)
    before, behind = divergence.parted_at(ranges, onward)
    found = divergence.with_records(forth.source, before, mirrors.every, timeout_ms)
    others = divergence.with_records(forth.source, behind, mirrors.every, timeout_ms)
    return found, onward, {one.partition: onward[one.partition] for one in others}


def writes_originals(forth: Sides, back: Sides) -> bool:
    """Whether the flow back writes to the topics that the flow forth copies."""
    return forth.flow.policy.keeps_names or back.flow.brings_home


def shares_topics(forth: Sides, back: Sides) -> bool:
    """Whether the flow back writes to topics that the flow forth reads: these, or copies of which it brings home."""
    return writes_originals(forth, back) or forth.flow.brings_home


def mirrors_there(forth: Sides, back: Sides) -> Mirrors:
    """The producers of all flows to the cluster that came back, and those whose records the flow forth copies on.

    Raises:
        SparkmirrorError: the cluster that came back cannot be asked.
    """
    assert forth.store is not None
    known = forth.store.state.flow
    if known is None:
        return Mirrors()
    writers = writers_to(forth.source, known.source_id)
    return mirrors_of(writers, known.target_id, drops_returned=shares_topics(forth, back))


def brought_home(forth: Sides) -> frozenset[int]:
    """The producers that have brought records to the cluster that came back from where applications are.

    Raises:
        SparkmirrorError: the cluster that came back cannot be asked.
    """
    assert forth.store is not None
    known = forth.store.state.flow
    return frozenset() if known is None else brought_from(forth.source, known.source_id, known.target_id)


def _topic_ids(forth: Sides) -> dict[str, str]:
    assert forth.store is not None
    return ids_of_topics(forth.source, {place.topic for place in forth.store.state.progress})


def _brought_to(back: Sides) -> set[TopicPartition]:
    """The partitions that the flow back has begun to write to."""
    assert back.store is not None
    back.store.follow()
    return {
        TopicPartition(topics.remote_topic(back.flow, place.topic), place.partition)
        for place in back.store.state.progress
    }


def _mirrored(forth: Sides, back: Sides, positions: Mapping[TopicPartition, int]) -> dict[TopicPartition, list[Span]]:
    """The offsets of what was mirrored back into the very topics behind these positions."""
    copies = {
        TopicPartition(topics.remote_topic(forth.flow, place.topic), place.partition): place for place in positions
    }
    return {
        copies[copy]: list(_behind(offsets, positions[copies[copy]]))
        for copy, offsets in KnownMaps(back).of(set(copies)).items()
    }


def _behind(offsets: OffsetMap, position: int) -> Iterator[Span]:
    """Where the records of a map lie at or behind a target offset."""
    source = offsets.target_to_source(position)
    for each in offsets.settled(NO_OFFSET if source is None else source - 1):
        yield Span(each.target, each.target + each.length)
