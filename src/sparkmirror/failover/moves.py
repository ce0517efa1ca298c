"""Where each group goes on at the target when the flow has been stopped, and whether it arrived there. Pure.

Invariants: nothing is guessed: a place without a translation is left out with the reason; a group that has members on
the target is not touched; an offset on the target never goes back, since a group that is further there has read there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from sparkmirror.kafka.groups import Committed, GroupKind, GroupListing, Offsets
from sparkmirror.model import NO_OFFSET, TopicPartition
from sparkmirror.offsets.inherited import Inherited
from sparkmirror.offsets.map import OffsetMap
from sparkmirror.offsets.translation import Place, Translated, still_there, translate_at_the_end


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """How groups stand on the cluster that they are to be moved to.

    Attributes:
        listed: the groups that there are.
        offsets: what they have committed.
        unreadable: why that is not known, for some of them.
    """

    listed: Mapping[str, GroupListing] = field(default_factory=dict)
    offsets: Mapping[str, Offsets] = field(default_factory=dict)
    unreadable: Mapping[str, str] = field(default_factory=dict)

    def at(self, group: str, partition: TopicPartition) -> int:
        """What a group has committed, or `NO_OFFSET`."""
        return self.offsets.get(group, {}).get(partition, Committed(NO_OFFSET)).offset

    def hindrance(self, group: str) -> str:
        """Why a group is not moved there; "" for one that may be."""
        listing = self.listed.get(group)
        if listing is None:
            return ""
        if listing.kind in (GroupKind.SHARE, GroupKind.STREAMS):
            return f"on the target there is a {listing.kind.value} group with its name"
        if listing.active:
            return f"it has members on the target ({listing.state}) and is not touched"
        return f"what it has on the target cannot be read: {self.unreadable[group]}" if group in self.unreadable else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sight:
    """What is known of both sides when groups are moved.

    Attributes:
        offsets: what each group has committed on the source, as it was seen last.
        seen_ms: when that was, milliseconds since 1970.
        renamed: the names on the target of the source topics that the flow copies.
        maps: of the source partitions of which something is mirrored.
        inherited: what MirrorMaker 2 copied of some of them.
        oldest: the first offset that target partitions still have.
        there: how the groups stand on the target.
    """

    offsets: Mapping[str, Offsets]
    seen_ms: Mapping[str, int]
    renamed: Mapping[str, str]
    maps: Mapping[TopicPartition, OffsetMap]
    inherited: Mapping[TopicPartition, Inherited]
    oldest: Mapping[TopicPartition, int]
    there: Standing


@dataclass(frozen=True, slots=True, kw_only=True)
class MovedPlace:
    """One partition of a group.

    Attributes:
        partition: of the source.
        target: the same on the target; None where the flow does not copy it.
        committed: on the source, as it was seen last, with its metadata.
        offset: where the group goes on at the target, or `NO_OFFSET`.
        before: what the group had committed there, or `NO_OFFSET`.
        ahead: records that the group had read at the source and that never came to the target.
        exact: whether nothing is read twice.
        text: what lies at the offset, or why there is none.
    """

    partition: TopicPartition
    target: TopicPartition | None
    committed: Committed
    offset: int = NO_OFFSET
    before: int = NO_OFFSET
    ahead: int = 0
    exact: bool = True
    text: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupMove:
    """One group.

    Attributes:
        group: its name.
        seen_ms: when its offsets were seen on the source last, milliseconds since 1970.
        places: its partitions, in order.
        hindrance: why it is not moved at all, or "".
    """

    group: str
    seen_ms: int
    places: tuple[MovedPlace, ...]
    hindrance: str = ""

    @property
    def wanted(self) -> dict[TopicPartition, Committed]:
        """What it is to have on the target."""
        return {
            place.target: Committed(place.offset, place.committed.metadata)
            for place in self.places
            if place.target is not None and place.offset != NO_OFFSET and not self.hindrance
        }

    @property
    def left_out(self) -> tuple[MovedPlace, ...]:
        """The partitions of copied topics without an offset on the target."""
        return tuple(place for place in self.places if place.target is not None and place.offset == NO_OFFSET)

    @property
    def uncopied(self) -> tuple[str, ...]:
        """The topics that it reads and that the flow does not copy."""
        return tuple(sorted({place.partition.topic for place in self.places if place.target is None}))


def decide(sight: Sight) -> tuple[GroupMove, ...]:
    """Where every group goes on, by name in order."""
    return tuple(
        GroupMove(
            group=group,
            seen_ms=sight.seen_ms[group],
            places=tuple(_place(sight, group, partition) for partition in sorted(sight.offsets[group])),
            hindrance=sight.there.hindrance(group),
        )
        for group in sorted(sight.offsets)
    )


def landed(moves: Sequence[GroupMove], now: Mapping[str, Offsets], ends: Mapping[TopicPartition, int]) -> list[str]:
    """What is wrong with the groups on the target, a line for each; empty where all can start.

    Args:
        moves: what was to be done.
        now: what the groups have committed there.
        ends: of the target partitions.
    """
    wrong = []
    for move in moves:
        found = now.get(move.group, {})
        for place, wanted in move.wanted.items():
            has = found.get(place, Committed(NO_OFFSET)).offset
            if has != wanted.offset:
                shown = "nothing" if has == NO_OFFSET else str(has)
                wrong.append(f"group {move.group}, {place}: it has {shown} committed and not {wanted.offset}")
            elif place not in ends:
                wrong.append(f"group {move.group}, {place}: the partition does not answer, so nobody can read it now")
            elif has > ends[place]:
                wrong.append(f"group {move.group}, {place}: {has} is beyond the end of the log, {ends[place]}")
    return wrong


def _place(sight: Sight, group: str, partition: TopicPartition) -> MovedPlace:
    committed = sight.offsets[group][partition]
    name = sight.renamed.get(partition.topic)
    if name is None:
        return MovedPlace(
            partition=partition, target=None, committed=committed, text="the flow does not copy the topic"
        )
    target = TopicPartition(name, partition.partition)
    before = sight.there.at(group, target)
    offsets = sight.maps.get(partition)
    if offsets is None:
        text = "nothing of the partition is mirrored"
        return MovedPlace(partition=partition, target=target, committed=committed, before=before, text=text)
    result = still_there(
        translate_at_the_end(offsets, committed.offset, sight.inherited.get(partition)), sight.oldest.get(target)
    )
    ahead = max(0, committed.offset - offsets.position) if offsets.position != NO_OFFSET else 0
    if not isinstance(result, Translated):
        text = result.reason.value
        return MovedPlace(
            partition=partition, target=target, committed=committed, before=before, ahead=ahead, text=text
        )
    further = before > result.offset
    return MovedPlace(
        partition=partition,
        target=target,
        committed=committed,
        offset=before if further else result.offset,
        before=before,
        ahead=ahead,
        exact=further or result.place is not Place.APPROXIMATE,
        text="the group is further on the target and stays there" if further else result.place.value,
    )
