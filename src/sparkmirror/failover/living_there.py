"""Which groups live on the target of a flow that was held, when it is released.

A group that was moved to the target lives there once a consumer has used it. It lives there too before any has, where
applications have gone to the target: records that the flow did not write lie behind what it has copied, and the group
that stands before them has not read them yet. After a false alarm nobody has used the group, and nobody has written.
A group of which the target has lost what it had there tells neither: it stays where it was moved to, and is named.

Invariants: only copies of the flow tell, and partitions in which it has committed for the group itself; what another
flow commits for a group of the same name, or the group's use of other topics, says nothing of this flow's source.
"""

from __future__ import annotations

import sys
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from sparkmirror.config import Isolation
from sparkmirror.duties.duty import Sides
from sparkmirror.duties.flow_back import placed_in
from sparkmirror.duties.known_maps import KnownMaps
from sparkmirror.duties.lost_groups import Merged, ask_with_lost, parted_in, with_lost
from sparkmirror.duties.topics import remote_topic
from sparkmirror.failover import look
from sparkmirror.failover.moves import Standing
from sparkmirror.failover.plan import some
from sparkmirror.kafka import admin
from sparkmirror.kafka.groups import OFFSETS_TOPIC, Offsets
from sparkmirror.kafka.leaders import OffsetSpec
from sparkmirror.kafka.opened_records import extent
from sparkmirror.kafka.reading import Span, read_records
from sparkmirror.model import TopicPartition
from sparkmirror.offsets.group_commits import Commits, landed, merged
from sparkmirror.offsets.group_records import commits_of, tried_of
from sparkmirror.offsets.left_offsets import used
from sparkmirror.offsets.state import JournalState

MOST = 1_000
"""Offsets that are read of one partition: so many control records do not come at once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Living:
    """Which groups live on the target.

    Attributes:
        groups: their names.
        lost: those of them that were moved there, and of which nobody knows it: what they had there is gone.
    """

    groups: frozenset[str]
    lost: frozenset[str] = frozenset()


def living_there(sides: Sides, state: JournalState, back: JournalState | None = None) -> Living:
    """The groups on record that have members on the target, have been used there, or have to read there.

    Args:
        sides: the flow and its clusters.
        state: what is on record of the flow.
        back: of the flow back, about these clusters, where that can be read.

    Raises:
        SparkmirrorError: the target cannot be asked.
    """
    moved = {one.group for one in state.left.values()}
    names = {*(one.group for one in state.groups.values()), *moved}
    there, seen = _standing(sides, state, back, names)
    copies = {TopicPartition(remote_topic(sides.flow, each.topic), each.partition): each for each in state.progress}
    records = state.committed.values()
    commits = merged(commits_of(records), landed(tried_of(records), there.offsets))
    offsets, before = (_own(each, copies, commits) for each in (there.offsets, seen.offsets))
    found = {*used(offsets, commits), *used(before, commits), *(name for name in names if there.is_active(name))}
    found |= there.unreadable.keys() | seen.unknown
    absent = admin.absent(sides.target, _gone(moved - found, offsets, commits), sides.flow.admin_timeout_ms)
    lost = frozenset(
        name
        for name in moved - found
        if has_lost(offsets.get(name, {}), commits.get(name, {}), absent) or any(name == one for one, _ in seen.lost)
    )
    unused = {name: offsets[name] for name in moved - found - lost if name in offsets}
    return Living(groups=frozenset(found | lost | _waited_for(sides, state, unused, copies)), lost=lost)


def told_of_lost(groups: Sequence[str], there: str) -> str:
    """What a release says of groups that were moved, and of which the target has lost what they had there."""
    return (
        f"{len(groups)} groups that were moved to {there} have an offset less there, or an older one: deleted, "
        f"expired, or lost with the end of {OFFSETS_TOPIC}. What they have read there is not known: they count as "
        f"living there, and stay as they are ({some(groups)}). sparkmirror offsets --group NAME --apply puts one where "
        "it stands on the source, kafka-consumer-groups.sh --reset-offsets where its consumers have come to"
    )


def has_lost(there: Offsets, commits: Collection[TopicPartition], absent: Collection[TopicPartition]) -> bool:
    """Whether a group that was moved to the target has nothing there, or not where the flow has put it. Pure.

    Args:
        there: what it has there.
        commits: where the flow has put it.
        absent: partitions that do not exist there any more, with which a cluster forgets offsets.
    """
    return (not there and not commits) or any(place not in there and place not in absent for place in commits)


def _gone(groups: Collection[str], offsets: Mapping[str, Offsets], commits: Commits) -> set[TopicPartition]:
    """Where groups have nothing any more, and the flow has committed for them."""
    return {place for name in groups for place in commits.get(name, {}) if place not in offsets.get(name, {})}


def _standing(
    sides: Sides, state: JournalState, back: JournalState | None, names: Collection[str]
) -> tuple[Standing, Merged]:
    """How groups stand on the target, and with what the flow back has seen of them before the target has lost it."""
    target, timeout_ms = sides.target, sides.flow.admin_timeout_ms
    before = None if back is None else back.groups_seen
    if back is None or before is None:
        there = look.standing_there(target, names, timeout_ms)
        return there, Merged(offsets=there.offsets)
    there, log = ask_with_lost(
        target, lambda: look.standing_there(target, names, timeout_ms), before, min(timeout_ms, look.ASK_MS)
    )
    known = (one for one in back.groups.values() if one.group in there.offsets)
    return there, with_lost(known, there.offsets, log, placed_in(state, before.moved_ms), parted_in(back))


def _own(found: Mapping[str, Offsets], copies: Collection[TopicPartition], commits: Commits) -> dict[str, Offsets]:
    """Of what groups have, that in copies of the flow, and where the flow has committed for them."""
    return {
        group: {place: one for place, one in own.items() if place in copies or place in commits.get(group, {})}
        for group, own in found.items()
    }


def _waited_for(
    sides: Sides,
    state: JournalState,
    offsets: Mapping[str, Offsets],
    copies: Mapping[TopicPartition, TopicPartition],
) -> set[str]:
    """The groups for which records of others lie in the copies that they read, behind what the flow has copied."""
    places = {place for own in offsets.values() for place in own if place in copies}
    written = others_behind(sides, state, {place: copies[place] for place in places})
    return {group for group, own in offsets.items() if any(written.get(place, -1) >= own[place][0] for place in own)}


def others_behind(
    sides: Sides, state: JournalState, copies: Mapping[TopicPartition, TopicPartition]
) -> dict[TopicPartition, int]:
    """The last offset at which others have written to copies, behind what the flow has there, where they have.

    A partition that does not answer counts as written to: a group that stays where it is skips nothing.

    Args:
        sides: the flow and its clusters.
        state: what is on record of it.
        copies: partitions of the target, each with that of the source.

    Raises:
        SparkmirrorError: the target cannot be read.
    """
    timeout_ms = sides.flow.admin_timeout_ms
    present = sorted(copies.keys() - admin.absent(sides.target, copies, timeout_ms))
    if not present:
        return {}
    starts = admin.find_offsets(sides.target, present, OffsetSpec.EARLIEST, timeout_ms=timeout_ms).found
    ends = admin.find_offsets(sides.target, sorted(starts), OffsetSpec.LATEST, timeout_ms=timeout_ms).found
    silent = dict.fromkeys((place for place in present if place not in ends), sys.maxsize)
    known = {place: state.progress[copies[place]] for place in ends}
    spans = {
        place: Span(max(starts[place], known[place].reached.end, known[place].target + 1), ends[place])
        for place in ends
    }
    some = {place: span for place, span in spans.items() if span.end - span.first > 0}
    few = {place: span for place, span in some.items() if span.end - span.first <= MOST}
    maps = KnownMaps(sides).of({copies[place] for place in few})
    mine: Collection[int] = {one for each in maps.values() for one in each.producer_ids}
    everything = Isolation.READ_UNCOMMITTED  # an open transaction is somebody's too, and must not be waited for
    found = read_records(sides.target, few, extent, timeout_ms, everything, mine).found if few else {}
    last = {place: records[-1].last for place, records in found.items() if records}
    return silent | last | {place: span.end - 1 for place, span in some.items() if place not in found}
