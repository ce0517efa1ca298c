"""One look at the groups of a flow: what they committed on the source, what the map says, how it is on the target.

Invariants: nothing is changed; the maps are read after the offsets, so that they are never older than what is
translated with them; an offset in a topic is never translated by the map of an older topic of the name; a mirror that
is just behind a group is given a few seconds to come to where the group was. Where the flow back may have put records
into the same topics and its record cannot be read, nothing is translated. The newest operation is read before all else,
so that one which begins in the midst of a look counts as later.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Mapping, Sequence, Set
from contextlib import suppress
from dataclasses import replace

from sparkmirror.duties.checked_maps import Checked, CheckedMaps
from sparkmirror.duties.duty import Sides
from sparkmirror.duties.empty_partitions import ends_of_empty, never_mirrored
from sparkmirror.duties.flow_back import NO_OPERATION, FlowBackRecord, LastOperation
from sparkmirror.duties.groups import GroupPlace, Observed, refusal, remembered
from sparkmirror.duties.known_maps import KnownMaps
from sparkmirror.duties.lost_groups import NOT_PLACED, Merged, ask_with_lost, not_known, parted_in, with_lost
from sparkmirror.duties.own_copies import brought_there, held_before
from sparkmirror.duties.past_markers import PastMarkers
from sparkmirror.duties.topics import remote_topic, wanted
from sparkmirror.duties.under_way import NOTHING_ON_RECORD, Level, OnRecord, is_level, on_record, under_way
from sparkmirror.errors import BrokerError, SparkmirrorError
from sparkmirror.events import now_ms
from sparkmirror.kafka import admin
from sparkmirror.kafka.codes import GONE
from sparkmirror.kafka.groups import (
    UNLISTED_MS,
    Committed,
    GroupList,
    fetch_known,
    fetch_offsets,
    list_groups,
)
from sparkmirror.kafka.leaders import OffsetSpec
from sparkmirror.kafka.liveness import is_alive
from sparkmirror.kafka.topic_ids import ids_of_topics
from sparkmirror.model import TopicPartition
from sparkmirror.offsets.group_commits import landed, merged
from sparkmirror.offsets.group_records import GroupCommitted, commits_of, tried_of
from sparkmirror.offsets.inherited import Inherited
from sparkmirror.offsets.left_offsets import NOTHING_LEFT, Moved, left_of, moved_here
from sparkmirror.offsets.map import OffsetMap

PATIENCE_SECONDS = 3.0
"""Lanes say every second how far they are."""

LOG_START_MS = 3_000
"""A leader that does not answer has no readers either: its groups wait for the next round, and no others for it."""

_POLL_SECONDS = 0.5


class GroupLook:
    """Looks at the groups of one flow, again and again.

    Args:
        sides: the flow and its clusters.
        patience_s: how long the mirror is waited for when a group is ahead of it; 0 for one look at what there is.
    """

    def __init__(self, sides: Sides, *, patience_s: float = PATIENCE_SECONDS) -> None:
        self._sides = sides
        self._patience_s = patience_s
        self._maps = KnownMaps(sides)
        self._checked = CheckedMaps(sides)
        self._flow_back = FlowBackRecord(sides)
        self._past_markers = PastMarkers(sides)
        self._listed = GroupList({})
        self._listed_at: float | None = None
        self._earlier: dict[GroupPlace, Committed] = {}
        self._empty: dict[TopicPartition, int] = {}
        self._still: frozenset[tuple[GroupPlace, int, int]] = frozenset()

    def look(self, *, target: bool) -> Observed:
        """Looks.

        Args:
            target: whether the target's groups are looked at too.

        Raises:
            SparkmirrorError: a cluster cannot be asked, or an expression of the flow cannot be used.
        """
        sides = self._sides
        operation, moved = self._operation() if target else (NO_OPERATION, {})
        committed = self._committed()
        listed = self._groups()
        chosen = [name for name, listing in listed.items() if refusal(sides.flow, listing) is None]
        merged, unreadable = self._ask(chosen)
        offsets = merged.offsets
        topics = {place.topic for own in offsets.values() for place in own}
        renamed = {topic: remote_topic(sides.flow, topic) for topic in wanted(sides.flow, topics)}
        places = {place for own in offsets.values() for place in own if place.topic in renamed}
        back = self._flow_back.shared(places, committed)
        known = self._on_record()
        checked = self._maps_of(places)
        observed = Observed(
            flow=sides.flow,
            source=listed,
            offsets=offsets,
            lost=merged.lost,
            unreadable=unreadable,
            leaderless=listed.leaderless,
            renamed=renamed,
            maps=checked.maps,
            unchecked=checked.unchecked,
            back=self._past_markers.of(back, checked.maps),
            inherited=self._inherited(),
            earlier=self._earlier,
            commits={} if sides.store is None else commits_of(sides.store.state.committed.values()),
            tried={} if sides.store is None else tried_of(sides.store.state.committed.values()),
            left=NOTHING_LEFT if sides.store is None else left_of(sides.store.state.left, moved),
            here=moved_here(() if sides.store is None else sides.store.state.left.values(), moved),
            operation=operation,
            stalled=operation.stalls(now_ms()),
            others=self._others(renamed),
        )
        observed = replace(self._patiently(observed), empty=self._find_empty(observed))
        observed = replace(observed, under_way=self._under_way(observed, known))
        self._earlier, self._still = remembered(observed), _ahead(observed)
        return self._with_target(observed, chosen) if target else observed

    def with_log_starts(self, observed: Observed, places: Collection[TopicPartition]) -> Observed:
        """The same look with the log starts of copies, in one bulk request; one that does not exist has none.

        Args:
            observed: a look.
            places: partitions of the target; without any nothing is asked.

        Raises:
            SparkmirrorError: the target cannot be asked at all.
        """
        if not places:
            return observed
        timeout_ms = min(LOG_START_MS, self._sides.flow.admin_timeout_ms)
        asked = admin.find_offsets(self._sides.target, sorted(places), OffsetSpec.EARLIEST, timeout_ms=timeout_ms)
        silent = [
            place for place, why in asked.failed.items() if not (isinstance(why, BrokerError) and why.code in GONE)
        ]
        return replace(observed, log_starts={**asked.found, **dict.fromkeys(silent)})

    def prove(self, seen: LastOperation) -> None:
        """Sees that what a look has led to may still be committed, right before it is.

        Args:
            seen: the newest operation as the look has it.

        Raises:
            SparkmirrorError: as `FlowBackRecord.prove`.
        """
        self._flow_back.prove(seen, self._sides.prove)

    def _operation(self) -> tuple[LastOperation, Moved]:
        """The newest operation of the flow back, and when such have moved groups to the source."""
        try:
            return self._flow_back.operation(), self._flow_back.moved()
        except SparkmirrorError as failure:
            return LastOperation(unreadable=str(failure)), {}

    def _ask(self, groups: Sequence[str]) -> tuple[Merged, dict[str, str]]:
        """What groups have committed, as it was seen before where the source has lost that, and why it is not known.

        Whether it has lost something is asked in each look: the round that puts groups on record may have been before.
        """
        source, store, timeout_ms = self._sides.source, self._sides.store, self._sides.flow.admin_timeout_ms
        if store is None:
            fetched = fetch_offsets(source, groups, timeout_ms)
            return Merged(offsets=fetched.found), {name: str(why) for name, why in fetched.failed.items()}
        store.follow()
        before = store.state.groups_seen
        fetched, log = ask_with_lost(
            source, lambda: fetch_offsets(source, groups, timeout_ms), before, min(timeout_ms, UNLISTED_MS)
        )
        known, placed = [one for one in store.state.groups.values() if one.group in fetched.found], NOT_PLACED
        if log.torn or any(one.lost for one in known):
            with suppress(SparkmirrorError):  # it counts as lost then, and nothing is committed
                placed = self._flow_back.placed(0 if before is None else before.moved_ms)
        merged = with_lost(known, fetched.found, log, placed, parted_in(store.state))
        failed = {**fetched.failed, **{group: not_known(source, group, log) for group in merged.unknown}}
        return merged, {name: str(why) for name, why in failed.items()}

    def _committed(self) -> Mapping[str, GroupCommitted]:
        """What the flow back has committed until now; that it cannot be read is found again where it is needed."""
        try:
            return self._flow_back.commits_on_record()
        except SparkmirrorError:
            return {}

    def _maps_of(self, places: Set[TopicPartition]) -> Checked:
        """The maps; where the flow back writes too, without copies that are gone: others may have written there."""
        found = self._checked.of(places) if self._flow_back.shares_topics else Checked(self._maps.of(places))
        return found._replace(maps=self._of_these_topics(found.maps))

    def _of_these_topics(self, maps: dict[TopicPartition, OffsetMap]) -> dict[TopicPartition, OffsetMap]:
        """The maps of topics that are still there: that of another topic of the name says nothing of its offsets."""
        known = self._sides.progress
        told = {place: known[place].topic_id for place in maps if place in known and known[place].topic_id}
        timeout_ms = self._sides.flow.admin_timeout_ms
        ids = ids_of_topics(self._sides.source, {place.topic for place in told}, timeout_ms) if told else {}
        other = {place for place, before in told.items() if ids.get(place.topic, "") not in ("", before)}
        return {place: offsets for place, offsets in maps.items() if place not in other}

    def _groups(self) -> GroupList:
        """The groups of the source, looked for anew when it is time."""
        told = self._sides.flow.groups
        old = self._listed_at is None or (
            told.refresh_enabled and time.monotonic() - self._listed_at >= told.refresh_interval_s
        )
        if old:
            self._listed = list_groups(self._sides.source, self._sides.flow.admin_timeout_ms)
            self._listed_at = None if self._listed.leaderless else time.monotonic()
        return self._listed

    def _patiently(self, observed: Observed) -> Observed:
        """Waits for the mirror, but for no group that stands still ahead of a mirror that stands still."""
        deadline = time.monotonic() + self._patience_s
        while not _ahead(observed) <= self._still and time.monotonic() < deadline:
            time.sleep(_POLL_SECONDS)
            behind = self._maps_of({place.partition for place in remembered(observed)})
            unchecked = behind.unchecked | observed.unchecked
            observed = replace(observed, maps={**observed.maps, **behind.maps}, unchecked=unchecked)
        return observed

    def _on_record(self) -> OnRecord:
        store = self._sides.store
        if store is None:
            return NOTHING_ON_RECORD
        store.follow()
        return on_record(store.state)

    def _others(self, renamed: Mapping[str, str]) -> frozenset[str]:
        """The source topics that lead to topics which the target had before, and which are not the flow's copies.

        One that the flow back writes leads to the target's own records in any case: the maps of both flows tell these.
        """
        sides = self._sides
        known = set() if sides.store is None else {one.topic for one in sides.store.state.occupied.values()}
        pairs = [(here, there) for here, there in renamed.items() if there in known]
        if not pairs or sides.store is None:
            return frozenset()
        timeout_ms = sides.flow.admin_timeout_ms
        target = admin.list_topics(sides.target, sorted({there for _, there in pairs}), timeout_ms)
        held = held_before(sides.flow, sides.store.state, pairs, target)
        left = [pair for pair in pairs if pair[1] in held]
        ids = ids_of_topics(sides.source, {here for here, _ in left}, timeout_ms) if left else {}
        return frozenset(here for here, _ in left) - brought_there(self._flow_back, left, ids)

    def _under_way(self, observed: Observed, known: OnRecord) -> frozenset[TopicPartition]:
        """Of the partitions where that matters, those of which the target may have copies that are not on the map."""
        maps = {place: offsets for place, offsets in observed.maps.items() if place in observed.back.copies}
        level = {
            place: Level(
                copy=TopicPartition(observed.renamed[place.topic], place.partition),
                offsets=maps[place],
                met=observed.back.copies[place].copies_end,
            )
            for own in observed.offsets.values()
            for place, committed in own.items()
            if place in maps and is_level(maps[place], committed.offset)
        }
        sides, store = self._sides, self._sides.store
        timeout_ms = sides.flow.admin_timeout_ms
        return under_way(sides.target, level, known, timeout_ms, lambda: store is not None and is_alive(store))

    def _find_empty(self, observed: Observed) -> dict[TopicPartition, int]:
        """Partitions in which groups have committed and of which neither side has anything."""
        flow = self._sides.flow
        copies = {TopicPartition(observed.renamed[p.topic], p.partition): p for p in never_mirrored(observed.maps)}
        self._empty = ends_of_empty(self._sides.target, copies, flow.admin_timeout_ms, self._empty)
        return {copies[copy]: end for copy, end in self._empty.items()}

    def _with_target(self, observed: Observed, chosen: Iterable[str]) -> Observed:
        target, timeout_ms = self._sides.target, self._sides.flow.admin_timeout_ms
        groups = list_groups(target, timeout_ms)
        known = {*observed.commits, *observed.tried}
        fetched = fetch_known(target, {*chosen} & groups.keys() | known, groups, timeout_ms)
        return replace(
            observed,
            target=groups,
            there=fetched.found,
            commits=merged(observed.commits, landed(observed.tried, fetched.found)),
            unreadable_there={name: str(failure) for name, failure in fetched.failed.items()},
        )

    def _inherited(self) -> dict[TopicPartition, Inherited]:
        """What MirrorMaker 2 copied, as the look before this has read it."""
        return {} if self._sides.store is None else dict(self._sides.store.state.inherited)


def _ahead(observed: Observed) -> frozenset[tuple[GroupPlace, int, int]]:
    """The places where a group is ahead of the mirror, with what it has committed and where the mirror is."""
    return frozenset(
        (place, observed.offsets[place.group][place.partition].offset, observed.maps[place.partition].position)
        for place in remembered(observed)
    )
