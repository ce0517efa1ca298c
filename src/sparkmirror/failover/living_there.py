"""Which groups live on the target of a flow that was held, when it is released.

A group that was moved to the target lives there once a consumer has used it. It lives there too before any has, where
applications have gone to the target: records that the flow did not write lie behind what it has copied, and the group
that stands before them has not read them yet. After a false alarm nobody has used the group, and nobody has written.

Invariants: only copies of the flow tell, and partitions in which it has committed for the group itself; what another
flow commits for a group of the same name, or the group's use of other topics, says nothing of this flow's source.
"""

from __future__ import annotations

import sys
from collections.abc import Collection, Mapping
from typing import Any

from sparkmirror.config import Isolation
from sparkmirror.duties.duty import Sides
from sparkmirror.duties.known_maps import KnownMaps
from sparkmirror.duties.topics import remote_topic
from sparkmirror.failover import look
from sparkmirror.kafka import admin
from sparkmirror.kafka.groups import Offsets
from sparkmirror.kafka.leaders import OffsetSpec
from sparkmirror.kafka.reading import Span, read_records
from sparkmirror.model import TopicPartition
from sparkmirror.offsets.group_commits import landed, merged
from sparkmirror.offsets.group_records import commits_of, tried_of
from sparkmirror.offsets.left_offsets import used
from sparkmirror.offsets.state import JournalState

MOST = 1_000
"""Offsets that are read of one partition: so many control records do not come at once."""


def living_there(sides: Sides, state: JournalState) -> set[str]:
    """The groups on record that have members on the target, have been used there, or have to read there.

    Raises:
        SparkmirrorError: the target cannot be asked.
    """
    moved = {one.group for one in state.left.values()}
    names = {*(one.group for one in state.groups.values()), *moved}
    there = look.standing_there(sides.target, names, sides.flow.admin_timeout_ms)
    copies = {TopicPartition(remote_topic(sides.flow, each.topic), each.partition): each for each in state.progress}
    records = state.committed.values()
    commits = merged(commits_of(records), landed(tried_of(records), there.offsets))
    offsets = {
        group: {place: own[place] for place in own.keys() & (copies.keys() | commits.get(group, {}).keys())}
        for group, own in there.offsets.items()
    }
    found = {*used(offsets, commits), *(name for name in names if there.is_active(name)), *there.unreadable}
    return found | _waited_for(sides, state, {name: offsets[name] for name in moved - found if name in offsets}, copies)


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
    found = read_records(sides.target, few, _offsets, timeout_ms, everything, mine).found if few else {}
    last = {place: max(offsets) for place, offsets in found.items() if offsets}
    return silent | last | {place: span.end - 1 for place, span in some.items() if place not in found}


def _offsets(table: Any) -> list[int]:
    return [int(each) for each in table.column("offset").to_pylist()]
