"""Where groups of the source go on at the target, as far as the flow back has put the records there that they read.

A group that reads ``B.orders`` on A reads the copy of ``orders`` on B. When the group moves to B it goes on in
``orders`` itself. The map that tells where is that of the flow ``B->A``, and lies on A. The same holds for single
records of other topics that the flow back has written to A: where names are kept, and where records that others wrote
to copies are brought home (`offsets.interleaved`).

Invariants: the map is read after the offsets of groups, so it is never older than what is translated with it; an offset
that the map does not reach yet leads to where the map ends, never beyond, and is marked. A group that the flow back
itself has placed here is not taken beyond where it stands there.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping
from dataclasses import replace

from sparkmirror.duties.checked_maps import CheckedMaps
from sparkmirror.duties.duty import Sides
from sparkmirror.duties.flow_back import Back, FlowBackRecord, left_by_ended, newest, other_side, taken_from_target
from sparkmirror.duties.lost_groups import UNREADABLE, Placed
from sparkmirror.duties.past_markers import PastMarkers
from sparkmirror.kafka import admin
from sparkmirror.kafka.groups import UNLISTED_MS, Committed, Offsets, fetch_offsets
from sparkmirror.kafka.leaders import OffsetSpec
from sparkmirror.model import NO_OFFSET, TopicPartition
from sparkmirror.offsets.group_commits import Commits
from sparkmirror.offsets.group_records import FlowCommit, GroupSeen, UpstreamOffset, commits_of
from sparkmirror.offsets.inherited import Inherited
from sparkmirror.offsets.interleaved import FlowBack, not_beyond, upstream_of
from sparkmirror.offsets.left_offsets import Moved, moved_here
from sparkmirror.offsets.map import OffsetMap
from sparkmirror.offsets.track import FAR
from sparkmirror.offsets.translation import NotYet, Place, Reason, translate

Upstream = Mapping[str, Mapping[TopicPartition, UpstreamOffset]]
"""By group and partition of the source."""

POLL_SECONDS = 0.5
ENDS_MS = 10_000
"""A partition without a leader has no readers either, and is not waited for longer."""

UNCHECKED = UpstreamOffset(NO_OFFSET, Reason.UNCHECKED.name, exact=False)

NOWHERE = Committed(NO_OFFSET)
_NOTHING = NotYet(Reason.NOTHING_MIRRORED)
IN_RING = UpstreamOffset(NO_OFFSET, Reason.RING.name, exact=False)
"""Nothing tells where such an offset leads to, so it is not translated, also when the source is gone."""


class UpstreamOffsets:
    """Translates what groups have committed where the flow back has put records.

    Args:
        sides: the flow and its clusters.
        timeout_ms: of each question; as the flow is configured without.
    """

    def __init__(self, sides: Sides, timeout_ms: int | None = None) -> None:
        self._sides = sides
        self._timeout_ms = timeout_ms or sides.flow.admin_timeout_ms
        self._record = FlowBackRecord(sides, timeout_ms)
        self._maps = CheckedMaps(sides)
        self._past_markers = PastMarkers(sides)
        self._taken: set[tuple[str, TopicPartition, FlowCommit]] = set()

    def of(
        self, offsets: Mapping[str, Offsets], known: Mapping[str, GroupSeen], *, patience_s: float = 0.0
    ) -> dict[str, dict[TopicPartition, UpstreamOffset]]:
        """Where each committed offset leads to, for those that the flow back knows.

        Args:
            offsets: what groups have committed on the source.
            known: what is on record of them, by key.
            patience_s: how long the flow back is waited for, which puts on record once a second how far it is.

        Raises:
            SparkmirrorError: a cluster cannot be asked, or a record there is not one of ours.
        """
        places = {place for own in offsets.values() for place in own}
        deadline = time.monotonic() + patience_s
        while True:
            back = self._record.read(places)
            translated, unchecked = self._translated(offsets, back)
            found = with_unchecked(translated, offsets, known, back.unchecked | unchecked)
            if not any(_may_change(one) for own in found.values() for one in own.values()):
                return found
            if time.monotonic() >= deadline:
                return found
            time.sleep(POLL_SECONDS)

    def order(self) -> int:
        """The order of the flow back's newest operation, see `FlowBackRecord.order`.

        Raises:
            SparkmirrorError: a cluster cannot be asked, or a record there is not one of ours.
        """
        return self._record.order()

    def placed(self, since_ms: int) -> Placed:
        """Where operations of the flow back have put groups since, see `FlowBackRecord.placed`.

        Raises:
            SparkmirrorError: a cluster cannot be asked, or a record there is not one of ours.
        """
        return self._record.placed(since_ms)

    def moved(self) -> Moved:
        """When operations of the flow back have moved groups to the source last.

        Raises:
            SparkmirrorError: a cluster cannot be asked, or a record there is not one of ours.
        """
        return self._record.moved()

    def taken_from_target(self) -> Commits:
        """Where groups stand on the target since operations of the flow back took them from there, if nobody used them.

        Only what is not on record as a commit of the flow's, and each of them once. None while an operation of the
        flow back is placing groups: it writes what the flow has committed for them itself.

        Raises:
            SparkmirrorError: a cluster cannot be asked, or a record there is not one of ours.
        """
        store, back = self._sides.store, self._record.state()
        if store is None or back is None or newest(back.ledger.operation).placing:
            return {}
        known = commits_of(store.state.committed.values())
        found = [
            (group, place, commit)
            for group, own in taken_from_target(self._sides.flow, back, store.state).items()
            for place, commit in own.items()
            if (group, place, commit) not in self._taken
            and ((before := known.get(group, {}).get(place)) is None or before.at(commit.downstream) is None)
        ]
        if not found:
            return {}
        groups, timeout_ms = sorted({group for group, *_ in found}), min(self._timeout_ms, UNLISTED_MS)
        there = fetch_offsets(self._sides.target, groups, timeout_ms).found
        still: dict[str, dict[TopicPartition, FlowCommit]] = {}
        for group, place, commit in found:
            if there.get(group, {}).get(place, NOWHERE).offset == commit.downstream:
                still.setdefault(group, {})[place] = commit
        self._taken |= {one for one in found if one[0] in there}
        return still

    def _translated(
        self, offsets: Mapping[str, Offsets], back: Back
    ) -> tuple[dict[str, dict[TopicPartition, UpstreamOffset]], frozenset[TopicPartition]]:
        """Where offsets lead to, and where that is not certain, since the copy's leader does not answer."""
        checked = self._maps.of(set(back.copies))
        own = checked.maps
        back = self._past_markers.of(back, own)
        inherited = {} if self._sides.store is None else self._sides.store.state.inherited
        here = self._moved_here()
        found = decide(offsets, back, own, inherited, here)
        open_ended = {place for places in found.values() for place, one in places.items() if _is_open(one)}
        if open_ended:
            ended = self._ended(back, open_ended)
            found = decide(offsets, replace(back, copies={**back.copies, **ended}), own, inherited, here)
        return found, checked.unchecked

    def _moved_here(self) -> frozenset[str]:
        """The groups that an operation of the flow back has moved to the source, and none of this flow's away since.

        One that is under way asks this when it is resumed too, and finds the same as before it has moved a group.
        """
        own = () if self._sides.store is None else left_by_ended(self._sides.store.state)
        return moved_here(own, self._record.moved())

    def _ended(self, back: Back, places: Collection[TopicPartition]) -> dict[TopicPartition, FlowBack]:
        """The flow back's part of those of the partitions whose other side it has read to its end."""
        there = {place: other_side(self._sides.flow, place) for place in places}
        timeout_ms = min(self._timeout_ms, ENDS_MS)
        ends = admin.find_offsets(self._sides.target, sorted(there.values()), OffsetSpec.LATEST, timeout_ms=timeout_ms)
        return {
            place: replace(one, ended=True)
            for place, other in there.items()
            for one in (back.copies[place],)
            if other in ends.found and one.offsets.position >= ends.found[other]
        }


def decide(
    offsets: Mapping[str, Offsets],
    back: Back,
    own: Mapping[TopicPartition, OffsetMap],
    inherited: Mapping[TopicPartition, Inherited],
    here: Collection[str] = (),
) -> dict[str, dict[TopicPartition, UpstreamOffset]]:
    """Where each committed offset leads to. Pure.

    Args:
        offsets: what groups have committed on the source.
        back: what the flow back has put there.
        own: the flow's own maps of the same partitions.
        inherited: what MirrorMaker 2 copied of them before the flow took over.
        here: groups that operations have moved to the source: what they have on the target is older.
    """
    found: dict[str, dict[TopicPartition, UpstreamOffset]] = {}
    for group, committed in offsets.items():
        if in_ring := committed.keys() & back.ring:
            found.setdefault(group, {}).update(dict.fromkeys(in_ring, IN_RING))
        for place in committed.keys() & back.copies.keys() - back.ring:
            at, known = committed[place].offset, own.get(place)
            plain = _NOTHING if known is None else translate(known, at, inherited.get(place))
            one = upstream_of(back.copies[place], at, known, plain)
            commit = back.commit(group, place, at)
            placed = commit is not None and commit.downstream == at and group not in here
            one = not_beyond(one, at, commit)
            log = back.copies[place].log_before(one.offset)
            found.setdefault(group, {})[place] = replace(one, placed=placed, log=log)
    return found


def with_unchecked(
    found: Mapping[str, Mapping[TopicPartition, UpstreamOffset]],
    offsets: Mapping[str, Offsets],
    known: Mapping[str, GroupSeen],
    unchecked: Collection[TopicPartition],
) -> dict[str, dict[TopicPartition, UpstreamOffset]]:
    """The same, but what is on record in partitions that may have lost what the flow back had put there. Pure.

    Args:
        found: where offsets lead to, if nothing is lost.
        offsets: what groups have committed on the source.
        known: what is on record of them, by key.
        unchecked: as in `Back`.
    """
    rows = upstream_on_record(known, offsets) if unchecked else {}
    return {
        group: {
            place: rows.get(group, {}).get(place, UNCHECKED) if place in unchecked else one
            for place, one in own.items()
        }
        for group, own in found.items()
    }


def upstream_on_record(
    known: Mapping[str, GroupSeen], found: Mapping[str, Offsets]
) -> dict[str, dict[TopicPartition, UpstreamOffset]]:
    """What is on record of where offsets lead to by the map of the flow the other way, as far as it still holds.

    A group that has read on since goes on there too, and reads again what it read since. That of one that was set back
    holds no more, and of one that is new in such a partition nothing is known: neither is put behind what it has not
    read.

    Args:
        known: what is on record, by key.
        found: what the source answered now, by group.
    """
    rows = {
        (one.group, TopicPartition(one.topic, number)): (offset, one.upstream.get(number))
        for one in known.values()
        for number, (offset, _) in one.offsets.items()
    }
    shared = {place for (_, place), (_, upstream) in rows.items() if upstream is not None}
    kept: dict[str, dict[TopicPartition, UpstreamOffset]] = {}
    for group, own in found.items():
        for place in own.keys() & shared:
            before, upstream = rows.get((group, place), (FAR, None))
            if own[place].offset < before:
                kept.setdefault(group, {})[place] = UNREADABLE
            elif upstream is not None:
                same = own[place].offset == before
                one = replace(upstream, exact=upstream.exact and same, placed=upstream.placed and same)
                kept.setdefault(group, {})[place] = one
    return kept


def _may_change(one: UpstreamOffset) -> bool:
    """Whether the flow back may tell more in a moment."""
    return not one.exact and one != IN_RING


def _is_open(one: UpstreamOffset) -> bool:
    return one.name == Place.END.name and not one.exact
