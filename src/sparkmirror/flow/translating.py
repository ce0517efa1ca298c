"""Offsets of one side of a flow as offsets of the other: of single places, and of all that a group has committed.

    with open_translator(flow) as translator:
        translator.translate(TopicPartition("orders", 0), 1_234)
        translator.translate_group("billing")

Invariants: every answer is exact at the moment of the question, or marked as approximate, or says why there is none
(`offsets.translation`); it is never a record that the other side no longer has, nor of a source topic or a log that is
another one by now, as far as that side answers (`Translator.unchecked`). Only `Translator.apply` changes anything, and
only for a group that has no members there.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace

from sparkmirror.config import FlowConfig, Side
from sparkmirror.duties.checked_maps import CheckedMaps
from sparkmirror.duties.duty import Sides
from sparkmirror.duties.empty_partitions import ends_of_empty
from sparkmirror.duties.flow_back import Back, FlowBackRecord, placed_in
from sparkmirror.duties.group_records import LISTED_MS
from sparkmirror.duties.groups import untranslatable
from sparkmirror.duties.lost_copies import recreated_copies
from sparkmirror.duties.lost_groups import NOT_PLACED, Merged, ask_with_lost, not_known, parted_in, with_lost
from sparkmirror.duties.past_markers import PastMarkers
from sparkmirror.duties.topics import remote_topic
from sparkmirror.duties.under_way import Level, is_level, on_record, under_way
from sparkmirror.errors import BrokerError, LinkError, SparkmirrorError
from sparkmirror.flow.parting import look_for_partings
from sparkmirror.flow.sides import connected, record
from sparkmirror.kafka import admin
from sparkmirror.kafka.cluster import Cluster
from sparkmirror.kafka.groups import (
    HAS_MEMBERS,
    OFFSETS_TOPIC,
    Committed,
    commit_offsets,
    fetch_offsets,
    list_groups,
)
from sparkmirror.kafka.leaders import OffsetSpec
from sparkmirror.kafka.liveness import is_alive
from sparkmirror.model import NO_OFFSET, TopicPartition
from sparkmirror.offsets.interleaved import FlowBack, meet, upstream_of
from sparkmirror.offsets.map import OffsetMap
from sparkmirror.offsets.translation import (
    NotYet,
    Reason,
    Translated,
    Translation,
    back_to_what_is_left,
    behind_what_was_lost,
    in_empty,
    in_what_is_left,
    still_there,
    translate,
    translate_back,
)

PATIENCE_SECONDS, POLL_SECONDS = 3.0, 0.5
"""A lane puts on record once a second what it has written."""

_OLDEST_MS = 10_000
"""A partition without a leader has no readers either, and is not waited for longer."""


SEEN_BEFORE = f"as it was seen before {OFFSETS_TOPIC} lost its end: later commits are lost"


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """What a group has committed for one partition, and what it is on the other side.

    Attributes:
        partition: where it is committed.
        other: the same partition on the other side; None where the flow does not copy the topic.
        committed: the offset.
        metadata: that was committed with it.
        result: the translation; None where the flow does not copy the topic.
        there: what the group has on the other side now, or `NO_OFFSET`.
        lost: whether the source has lost the offset with the end of ``__consumer_offsets``: it is what was seen before.
    """

    partition: TopicPartition
    other: TopicPartition | None
    committed: int
    metadata: str = ""
    result: Translation | None = None
    there: int = NO_OFFSET
    lost: bool = False

    @property
    def offset(self) -> int:
        """The offset on the other side, or `NO_OFFSET`."""
        return self.result.offset if isinstance(self.result, Translated) else NO_OFFSET

    @property
    def text(self) -> str:
        """What lies at the offset, or why there is none."""
        if self.result is None:
            return "the flow does not copy the topic"
        said = self.result.place.value if isinstance(self.result, Translated) else self.result.reason.value
        return f"{said}, {SEEN_BEFORE}" if self.lost else said


@contextmanager
def open_translator(flow: FlowConfig) -> Iterator[Translator]:
    """A translator with its connections, which are closed in the end.

    Raises:
        SparkmirrorError: the target cannot be asked, or the flow was never started.
    """
    with connected(flow, role="translator", needs=[Side.TARGET]) as sides:
        if record(sides) is None:
            raise SparkmirrorError(
                f"flow {flow.name}: it was never started, so nothing is translated yet (sparkmirror run starts it)"
            )
        yield Translator(sides)


class Translator:
    """Translates the offsets of one flow.

    Args:
        sides: the flow and its clusters, connected.

    Attributes:
        unchecked: what the newest question could not be sure of, and why; or "".
    """

    def __init__(self, sides: Sides) -> None:
        self.unchecked = ""
        self._sides = sides
        self._maps = CheckedMaps(sides)
        self._flow_back = FlowBackRecord(sides)

    def translate(self, partition: TopicPartition, offset: int, *, reverse: bool = False) -> Translation:
        """Translates one offset.

        Args:
            partition: on the source; of the copy, if ``reverse``.
            offset: of the next record to read there.
            reverse: from the target to the source.

        Raises:
            SparkmirrorError: a cluster cannot be asked.
        """
        return self._translate({partition: offset}, reverse=reverse)[partition]

    def translate_group(self, group: str, topics: Collection[str] = (), *, reverse: bool = False) -> tuple[Line, ...]:
        """Translates all that a group has committed, on the source or, if ``reverse``, on the target.

        Args:
            group: its name.
            topics: only these, by their names where it has committed; all without.
            reverse: from the target to the source.

        Raises:
            SparkmirrorError: a cluster cannot be asked, or the group is none whose offsets can be translated.
        """
        here, there = self._ends(reverse=reverse)
        merged = self._committed(here, group, reverse=reverse)
        own = merged.offsets[group]
        chosen = {place: each for place, each in own.items() if not topics or place.topic in topics}
        without = set(topics) - {place.topic for place in chosen}
        if without or not chosen:
            where = f" for {', '.join(sorted(without))}: topics have the names that they have there" if without else ""
            raise SparkmirrorError(f"cluster {here.alias}: group {group} has committed nothing{where}")
        others = self._others({place.topic for place in chosen}, reverse=reverse)
        found = self._translate(
            {place: each.offset for place, each in chosen.items() if place.topic in others}, reverse=reverse
        )
        standing = fetch_offsets(there, [group], self._sides.flow.admin_timeout_ms).complete().get(group, {})
        lines = (
            self._line(place, each, others.get(place.topic), found, standing) for place, each in sorted(chosen.items())
        )
        return tuple(replace(line, lost=(group, line.partition) in merged.lost) for line in lines)

    def apply(self, group: str, lines: Sequence[Line], *, reverse: bool = False) -> int:
        """Commits the translations of a group on the other side, where it goes on from then on.

        Args:
            group: its name.
            lines: what `translate_group` gave.
            reverse: as it was given there.

        Returns:
            how many offsets were committed.

        Raises:
            SparkmirrorError: the group has members there, or the cluster refuses the commit.
        """
        _, there = self._ends(reverse=reverse)
        offsets = {
            line.other: Committed(line.offset, line.metadata)
            for line in lines
            if line.other is not None and line.offset != NO_OFFSET
        }
        if not offsets:
            return 0
        done = commit_offsets(there, {group: offsets}, self._sides.flow.admin_timeout_ms)
        failure = done.failed.get(group)
        if isinstance(failure, BrokerError) and failure.code in HAS_MEMBERS:
            raise SparkmirrorError(
                f"cluster {there.alias}: group {group} has members there, and nothing was changed: stop them first"
            ) from failure
        if failure is not None:
            raise failure
        return len(offsets)

    def _ends(self, *, reverse: bool) -> tuple[Cluster, Cluster]:
        """Where is translated from, and to."""
        sides = self._sides
        return (sides.target, sides.source) if reverse else (sides.source, sides.target)

    def _committed(self, cluster: Cluster, group: str, *, reverse: bool) -> Merged:
        """What a group has committed, with what was seen of it before where that cluster has lost it.

        The flow that copies from there has that on record: of the target that is the flow back, if there is one.
        """
        assert self._sides.store is not None
        self._sides.store.follow()
        own, timeout_ms = self._sides.store.state, self._sides.flow.admin_timeout_ms
        state = self._flow_back.state() if reverse else own
        if state is None:
            return Merged(offsets={group: self._offsets(cluster, group)})
        before = state.groups_seen
        found, log = ask_with_lost(cluster, lambda: {group: self._offsets(cluster, group)}, before, timeout_ms)
        placed, since_ms = NOT_PLACED, 0 if before is None else before.moved_ms
        with suppress(SparkmirrorError):
            placed = placed_in(own, since_ms) if reverse else self._flow_back.placed(since_ms)
        known = (one for one in state.groups.values() if one.group == group)
        merged = with_lost(known, found, log, placed, parted_in(state))
        if group in merged.unknown:
            raise not_known(cluster, group, log)
        return merged

    def _offsets(self, cluster: Cluster, group: str) -> Mapping[TopicPartition, Committed]:
        timeout_ms = self._sides.flow.admin_timeout_ms
        listing = list_groups(cluster, timeout_ms).get(group)
        if listing is None:  # it may be that of a broker that is away
            listing = list_groups(cluster, min(timeout_ms, LISTED_MS), complete=True).get(group)
        if listing is None:
            raise SparkmirrorError(f"cluster {cluster.alias}: there is no group {group}, or this user may not see it")
        hindrance = untranslatable(listing)
        if hindrance is not None:
            raise SparkmirrorError(f"cluster {cluster.alias}: group {group}: {hindrance.value}")
        return fetch_offsets(cluster, [group], timeout_ms).complete()[group]

    def _others(self, topics: Collection[str], *, reverse: bool) -> dict[str, str]:
        """The names on the other side of those of the topics that the flow has copied."""
        assert self._sides.store is not None
        self._sides.store.follow()
        state = self._sides.store.state
        known = {place.topic for place in (*state.maps, *state.progress, *state.inherited)}
        copies = {topic: remote_topic(self._sides.flow, topic) for topic in known}
        names = {copy: topic for topic, copy in copies.items()} if reverse else copies
        return {topic: names[topic] for topic in topics if topic in names}

    def _translate(self, wanted: Mapping[TopicPartition, int], *, reverse: bool) -> dict[TopicPartition, Translation]:
        """Translates; what is just coming on record is waited for."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while True:
            found = self._translate_now(wanted, reverse=reverse)
            if NotYet(Reason.UNDER_WAY) not in found.values() or time.monotonic() > deadline:
                return found
            time.sleep(POLL_SECONDS)

    def _translate_now(
        self, wanted: Mapping[TopicPartition, int], *, reverse: bool
    ) -> dict[TopicPartition, Translation]:
        """Reads the map after the offsets that it is given, so that it is never older than they are."""
        assert self._sides.store is not None
        names = self._others({place.topic for place in wanted}, reverse=reverse)
        others = {
            place: TopicPartition(names[place.topic], place.partition) for place in wanted if place.topic in names
        }
        origins = {place: others[place] if reverse else place for place in others}
        store, timeout_ms = self._sides.store, min(self._sides.flow.admin_timeout_ms, _OLDEST_MS)
        state, recorded = store.state, on_record(store.state)
        copied = {origin: state.progress[origin] for origin in set(origins.values()) if origin in state.progress}
        source = look_for_partings(self._sides, copied, timeout_ms)
        self.unchecked = source.unchecked
        again = recreated_copies(self._sides.flow, self._sides.target, copied, timeout_ms)
        checked = self._maps.of(set(origins.values()))
        maps = checked.maps
        oldest = self._oldest(list(others.values()), reverse=reverse)
        back = self._flow_back.shared(set(origins.values()))
        back = back if reverse else PastMarkers(self._sides).of(back, maps)
        both = back.copies.keys() & maps.keys()
        shared = {origin: wanted[place] for place, origin in origins.items() if origin in both}
        if reverse:
            now = self._sides.store.state.progress  # as of the maps: a lane may have met more since the first look
            met = {origin: now[origin].copies_end for origin in shared if origin in now}
            open_ones = self._flow_back.under_way(shared, back.copies, met)
        else:
            level = {
                origin: Level(self._copy(origin), maps[origin], back.copies[origin].copies_end)
                for origin, offset in shared.items()
                if is_level(maps[origin], offset)
            }
            open_ones = under_way(self._sides.target, level, recorded, timeout_ms, lambda: is_alive(store))
        way = to_source if reverse else to_target
        found: dict[TopicPartition, Translation] = {}
        for place, offset in wanted.items():
            origin = origins.get(place)
            if origin is None or origin not in maps:
                found[place] = NotYet(Reason.NOTHING_MIRRORED)
            elif origin.topic in source.recreated:
                found[place] = NotYet(Reason.RECREATED)
            elif origin in again:
                found[place] = NotYet(Reason.COPY_RECREATED)
            elif origin in back.ring:
                found[place] = NotYet(Reason.RING)
            else:
                flow, settled = self._flow(maps[origin], origin), origin not in open_ones
                lost = Lost(target=checked.lost.get(origin), source=source.parted.get(origin))
                plain = way(flow, back.copies.get(origin), offset, lost, settled=settled)
                unsure = origin in checked.unchecked or (origin in back.unchecked and not reverse)
                doubt = _doubt(back, unsure=unsure) if isinstance(plain, Translated) else None
                known = plain if doubt is None else NotYet(doubt)
                found[place] = still_there(known, oldest.get(others[place]))
        empty = {} if reverse else self._ends_of_empty({others[place]: maps.get(origins[place]) for place in others})
        return {
            place: in_empty(one, empty.get(others[place]) if place in others else None) for place, one in found.items()
        }

    def _copy(self, origin: TopicPartition) -> TopicPartition:
        return TopicPartition(remote_topic(self._sides.flow, origin.topic), origin.partition)

    def _ends_of_empty(self, copies: Mapping[TopicPartition, OffsetMap | None]) -> Mapping[TopicPartition, int]:
        """The ends of those of the copies that have no record and never got one; each with its map, if it has one."""
        places = [copy for copy, offsets in copies.items() if offsets is None or not len(offsets)]
        return ends_of_empty(self._sides.target, places, self._sides.flow.admin_timeout_ms)

    def _flow(self, offsets: OffsetMap, origin: TopicPartition) -> FlowBack:
        """What the flow itself has put on the target, of a partition of the source."""
        assert self._sides.store is not None
        state = self._sides.store.state
        progress = state.progress.get(origin)
        reached = NO_OFFSET if progress is None else progress.reached.end
        return FlowBack(offsets=offsets, reached=reached, inherited=state.inherited.get(origin))

    def _oldest(self, places: Sequence[TopicPartition], *, reverse: bool) -> Mapping[TopicPartition, int]:
        """The first offset that each partition of the other side still has; nothing where the source is away."""
        _, there = self._ends(reverse=reverse)
        try:
            timeout_ms = min(self._sides.flow.admin_timeout_ms, _OLDEST_MS)
            return admin.find_offsets(there, places, OffsetSpec.EARLIEST, timeout_ms=timeout_ms).found
        except LinkError:
            if reverse:
                return {}
            raise

    def _line(
        self,
        place: TopicPartition,
        committed: Committed,
        other: str | None,
        found: Mapping[TopicPartition, Translation],
        standing: Mapping[TopicPartition, Committed],
    ) -> Line:
        there = None if other is None else TopicPartition(other, place.partition)
        now = NO_OFFSET if there is None else standing.get(there, Committed(NO_OFFSET)).offset
        return Line(
            partition=place,
            other=there,
            committed=committed.offset,
            metadata=committed.metadata,
            result=found.get(place),
            there=now,
        )


def _doubt(back: Back, *, unsure: bool) -> Reason | None:
    """Why what is on record says nothing certain of a partition of the source."""
    if back.unreadable:
        return Reason.BACK_UNREADABLE
    return Reason.UNCHECKED if unsure else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Lost:
    """From which offsets on both logs of a partition are not those any more that were copied; None where they are.

    Attributes:
        target: of the copy.
        source: of the original.
    """

    target: int | None = None
    source: int | None = None


def to_target(flow: FlowBack, back: FlowBack | None, committed: int, lost: Lost, *, settled: bool) -> Translation:
    """An offset of the source on the target. Pure.

    Args:
        flow: what it has put on the target, without what is lost there.
        back: what the flow the other way has put on the source.
        committed: the offset.
        lost: where the logs have lost their ends.
        settled: whether all that the flow has put on the target is on its record.
    """
    return in_what_is_left(_both(flow, back, committed, settled=settled), committed, lost.source)


def to_source(flow: FlowBack, back: FlowBack | None, committed: int, lost: Lost, *, settled: bool) -> Translation:
    """An offset of the target on the source: what the flow has put there came from the source. Pure.

    Args:
        flow: as for `to_target`.
        back: as for `to_target`.
        committed: the offset.
        lost: where the logs have lost their ends.
        settled: whether all that the flow the other way has put on the source is on its record.
    """
    at = committed if lost.target is None else min(committed, lost.target)
    ends = [lost.source]
    if back is None:
        found = translate_back(flow.offsets, at, flow.inherited)
    else:
        found = _both(back, flow, at, settled=settled)
        ends.append(back.lost)
    found = found if at == committed else behind_what_was_lost(found)
    return back_to_what_is_left(found, min((end for end in ends if end is not None), default=None))


def _both(flow: FlowBack, back: FlowBack | None, committed: int, *, settled: bool) -> Translation:
    """An offset on the other cluster, by the map of a flow to there and that of the flow back."""
    found = translate(flow.offsets, committed, flow.inherited)
    upstream = None if back is None else upstream_of(back, committed, flow.offsets, found)
    return meet(found, upstream, flow.offsets, committed, settled=settled)
