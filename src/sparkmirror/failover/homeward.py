"""Where groups go on at the cluster that they came from, by the maps of both flows. Pure.

A copy's offset goes back through the map of the flow that made the copy; an offset of what was written here goes on
through the map of the flow that brings it there. Where both flows are about the same topic, both maps decide
(`offsets.interleaved`).

Invariants: nothing is guessed; a group at the end of a copy goes behind what only the other cluster has, where that was
put aside, since the flow does too; a group that has members there is not touched, nor one that stood here already when
groups were taken here, and was left alone then: these are two groups of one name. A group goes on where it stands here,
also where it is further there: that dates from before its consumers came here. But one that this operation has moved
already, and that has been committed there since, stays, unless it has the very offset that it had before (`earlier`).
Where the log here has lost copies, a group that may not have
read them reads them there.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import overload

from sparkmirror.failover.divergence import Divergent, find
from sparkmirror.failover.earlier import NOTHING_EARLIER, Earlier
from sparkmirror.failover.moves import (
    APART,
    GONE,
    GroupMove,
    MovedPlace,
    Standing,
    as_it_stands,
    in_doubt,
    is_open,
    left_out_as_absent,
    not_copied,
    not_there,
    used,
    used_since,
    with_again,
    with_lost,
)
from sparkmirror.failover.tried import NONE_OPEN, Open, Unsure
from sparkmirror.kafka.groups import Committed, Offsets
from sparkmirror.kafka.reading import Span
from sparkmirror.model import NO_OFFSET, TopicPartition
from sparkmirror.offsets.group_commits import Commits
from sparkmirror.offsets.inherited import Inherited
from sparkmirror.offsets.interleaved import FlowBack, left_out, meet_at_the_end, ordered_out_before, upstream_of
from sparkmirror.offsets.map import OffsetMap
from sparkmirror.offsets.track import FAR
from sparkmirror.offsets.translation import (
    NotYet,
    Place,
    Reason,
    Translated,
    Translation,
    in_empty,
    still_there,
    translate_at_the_end,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Way:
    """One flow's part.

    Attributes:
        names: of the topics here, to those on the cluster that groups go to.
        maps: by the flow's source partitions.
        inherited: what MirrorMaker 2 copied of them.
    """

    names: Mapping[str, str]
    maps: Mapping[TopicPartition, OffsetMap] = field(default_factory=dict)
    inherited: Mapping[TopicPartition, Inherited] = field(default_factory=dict)

    def there(self, here: TopicPartition) -> TopicPartition | None:
        """The partition on the cluster that groups go to."""
        name = self.names.get(here.topic)
        return None if name is None else TopicPartition(name, here.partition)


@dataclass(frozen=True, slots=True, kw_only=True)
class HomewardSight:
    """What is known of both sides when groups go home.

    Attributes:
        offsets: what each group has committed here.
        seen_ms: when it was asked for.
        copies: of the flow that came from there: its maps are those of topics there.
        local: of the flow that goes there.
        beyond: by partition there, the end of what was put aside.
        aside: what was put aside, of partitions there.
        others: by partition there, from which offsets on others have written between what was brought, see
            `not_brought`.
        unwritten: partitions here, and offsets from which on only mirrors have written up to the first record that the
            flow to there has copied, see `before_the_first`.
        seen_there: what the flow that came from there has seen groups at there, as it is on record.
        since: by partition there, the first record that came when groups had been moved, which is not put aside.
        onward: by partition there, the first record of a third cluster that is not here: the flow from there copies it.
        recreated: topics there that were made anew since they were copied: the copies' maps say nothing of them.
        parted: by partition there, where its log parts from what was copied of it: it has lost the rest.
        oldest: the first offset that partitions there still have.
        absent: partitions that do not exist there.
        empty: the ends of partitions there that have no record.
        there: how the groups stand there.
        moved: the groups that the operation has moved already.
        unsure: the places of which nobody knows whether it has.
        tried: as in ``moves.Sight``.
        earlier: where they stood before.
        commits: what the flow that goes there has committed there last, as it is on record.
        lost: by partition here, from which offset on its log has lost what had been copied into it.
        settled: whether all groups have been moved: where one stands by the operation's commit, it goes on there, also
            where the flow that goes there has passed more markers since.
        apart: groups that the operation before has found here too and not taken here.
        ring: partitions here to which records from there come through other clusters.
        stood: what the flow that came from there has committed here last, with where the group stood there.
        doubtful: partitions here of which the flow that goes there may have brought more than is on record.
        unsettled: partitions there of which the flow that came from there may have copied more than is on record.
        unbrought: partitions here that others have written to, where no flow brings that there.
        narrowed: topics here that the flow that goes there has copied, and that the file leaves out: what was brought
            there of them is on no map of `local`.
        seen_before: groups and partitions here where the offset was lost, and `offsets` is what was seen before.
        gone: by group the partitions in which it was taken here, and has no offset any more.
    """

    offsets: Mapping[str, Offsets]
    seen_ms: int
    copies: Way
    local: Way
    beyond: Mapping[TopicPartition, int] = field(default_factory=dict)
    aside: tuple[Divergent, ...] = ()
    others: Mapping[TopicPartition, tuple[int, ...]] = field(default_factory=dict)
    unwritten: frozenset[tuple[TopicPartition, int]] = frozenset()
    seen_there: Mapping[str, Offsets] = field(default_factory=dict)
    since: Mapping[TopicPartition, int] = field(default_factory=dict)
    onward: Mapping[TopicPartition, int] = field(default_factory=dict)
    recreated: frozenset[str] = frozenset()
    parted: Mapping[TopicPartition, int] = field(default_factory=dict)
    oldest: Mapping[TopicPartition, int] = field(default_factory=dict)
    absent: frozenset[TopicPartition] = frozenset()
    empty: Mapping[TopicPartition, int] = field(default_factory=dict)
    there: Standing = field(default_factory=Standing)
    moved: frozenset[str] = frozenset()
    unsure: Unsure = frozenset()
    tried: Open = field(default_factory=lambda: NONE_OPEN)
    earlier: Earlier = NOTHING_EARLIER
    commits: Commits = field(default_factory=dict)
    lost: Mapping[TopicPartition, int] = field(default_factory=dict)
    stood: Commits = field(default_factory=dict)
    doubtful: frozenset[TopicPartition] = frozenset()
    unsettled: frozenset[TopicPartition] = frozenset()
    unbrought: frozenset[TopicPartition] = frozenset()
    ring: frozenset[TopicPartition] = frozenset()
    apart: frozenset[str] = frozenset()
    settled: bool = False
    narrowed: frozenset[str] = frozenset()
    seen_before: frozenset[tuple[str, TopicPartition]] = frozenset()
    gone: Mapping[str, frozenset[TopicPartition]] = field(default_factory=dict)


def decide(sight: HomewardSight) -> tuple[GroupMove, ...]:
    """Where every group goes on, by name in order."""
    return tuple(
        GroupMove(
            group=group,
            seen_ms=sight.seen_ms,
            places=tuple(_places(sight, group)),
            hindrance=sight.there.hindrance(group),
            active=sight.there.is_active(group),
        )
        for group in sorted({*sight.offsets, *sight.gone})
    )


def _places(sight: HomewardSight, group: str) -> Iterator[MovedPlace]:
    own = sight.offsets.get(group, {})
    for here in sorted({*own, *sight.gone.get(group, ())}):
        if here in own:
            placed = with_again(_with_doubt(sight, _place(sight, group, here)), group, sight.earlier)
            yield with_lost(placed, group, sight.seen_before)
        else:
            yield _gone(sight, group, here)


def _gone(sight: HomewardSight, group: str, here: TopicPartition) -> MovedPlace:
    """Where a group has nothing here any more: what it has read here is not known, so it stays where it is there."""
    there = _there(sight, here)
    before = NO_OFFSET if there is None else sight.there.at(group, there)
    return MovedPlace(
        partition=here, target=there, committed=Committed(NO_OFFSET), before=before, exact=False, gone=True, text=GONE
    )


def _there(sight: HomewardSight, here: TopicPartition) -> TopicPartition | None:
    """The partition there of which one here is a copy, or which is its copy."""
    return sight.copies.there(here) or sight.local.there(here)


def _place(sight: HomewardSight, group: str, here: TopicPartition) -> MovedPlace:
    committed = sight.offsets[group][here]
    there = _there(sight, here)
    if there is None:
        return MovedPlace(partition=here, target=None, committed=committed, text="no flow has to do with the topic")
    before = sight.there.at(group, there)
    found = MovedPlace(partition=here, target=there, committed=committed, before=before)
    if there in sight.absent:
        return left_out_as_absent(found, there)
    if here in sight.ring:
        return replace(found, exact=False, text=Reason.RING.value)
    at = min(committed.offset, sight.lost.get(here, committed.offset))  # behind it lie other records than it meant
    plain, offsets = _on(sight, here, at), sight.local.maps.get(here)
    back = _copied(sight, here)
    met = meet_at_the_end(plain, back, offsets, at, sight.beyond.get(there, 0))
    result = _no_further(in_empty(met, sight.empty.get(there)), sight.since.get(there), Place.CAME_SINCE)
    result = _no_further(result, sight.onward.get(there), Place.OF_OTHERS)
    if there.topic in sight.recreated:
        return _recreated(found, result, sight.beyond.get(there, 0))
    stood = _stood(sight, group, here, committed.offset)
    if stood is not None and committed.offset >= sight.lost.get(here, FAR):
        return _placed(sight, group, found, Translated(stood, Place.STOOD), 0)
    if isinstance(result, NotYet):
        return replace(found, exact=False, text=result.reason.value)
    result = _as_far_as_known(sight, here, _since_it_came(sight, group, here, result))
    result = _no_further(result, _unread(sight, group, here), Place.OF_OTHERS)
    left = (0 if (here, at) in sight.unwritten else _left_out(sight, here, at)) + _lost(sight, here, at)
    found = replace(found, ahead=_ahead(sight, here, committed.offset))
    if stood is not None and stood < result.offset and not _is_aside(sight, there, stood, result.offset):
        return _placed(sight, group, found, Translated(stood, Place.AS_IT_LEFT), left)
    found = replace(found, skipped=_uncopied(sight, group, here, there, result.offset))
    result = result if at == committed.offset else Translated(result.offset, Place.LOST)
    return _placed(sight, group, found, result, left)


def _left_out(sight: HomewardSight, here: TopicPartition, at: int) -> int:
    """How many offsets at most a group skips there, as `left_out` tells."""
    plain, offsets, brought = _on(sight, here, at), sight.local.maps.get(here), _copied(sight, here, with_lost=True)
    upstream = None if brought is None else upstream_of(brought, at, offsets, plain)
    return left_out(offsets, at, plain, upstream)


def before_the_first(sight: HomewardSight) -> tuple[Divergent, ...]:
    """Where groups stand before the first record that the flow there has copied, and would skip what lies between.

    No map tells markers, such as that of a fence behind the last copy, from what the flow has not copied. Pure.
    """
    found = set[Divergent]()
    for own in sight.offsets.values():
        for here, committed in own.items():
            at = min(committed.offset, sight.lost.get(here, committed.offset))
            plain, offsets = _on(sight, here, at), sight.local.maps.get(here)
            first = None if offsets is None else offsets.first()
            is_first = isinstance(plain, Translated) and plain.place is Place.FIRST
            if first is not None and is_first and _left_out(sight, here, at):
                found.add(Divergent(here, at, first.source))
    return tuple(sorted(found))


def _ahead(sight: HomewardSight, here: TopicPartition, committed: int) -> int:
    """How many offsets a group stands beyond all that the flow that goes there has of a log: its end is lost here."""
    offsets = sight.local.maps.get(here) if here.topic in sight.local.names else None
    return 0 if offsets is None or offsets.position == NO_OFFSET else max(0, committed - offsets.position)


def _with_doubt(sight: HomewardSight, place: MovedPlace) -> MovedPlace:
    """The same, told as not exact where a map may end too early, or where not all that lies here is brought there.

    A group goes on before what is not on the map, so it reads that again and skips nothing.
    """
    if place.used or (place.offset == NO_OFFSET and place.partition not in sight.unbrought):
        return place
    if place.offset != NO_OFFSET and place.partition in sight.doubtful:
        place = replace(place, exact=False, text=f"{place.text}, as far as the flow there is on record")
    if place.offset != NO_OFFSET and sight.copies.there(place.partition) in sight.unsettled:
        place = replace(place, exact=False, text=f"{place.text}, as far as the flow from there is on record")
    if place.offset != NO_OFFSET and place.partition.topic in sight.narrowed:
        place = replace(place, exact=False, text=f"{place.text}; {NARROWED}")
    if place.partition in sight.unbrought:
        place = replace(place, exact=False, text=f"{place.text}; what others wrote here is not brought there")
    return place


NARROWED = "the file leaves the topic out, so what the flow there has brought of it does not count"


def not_brought(sight: HomewardSight) -> tuple[Divergent, ...]:
    """Where others may have written there between what was brought, behind where groups stood before they left.

    That is asked only of what the flow from there does not copy: of the rest its map tells. Where a group stood in the
    midst of such a range, what lies behind is one more. Pure.
    """
    stood: dict[TopicPartition, set[int]] = {}
    for group, own in sight.offsets.items():
        for here in own:
            offset = _stood_by(sight, group, here)
            if offset is not None:
                stood.setdefault(here, set()).add(offset)
    return tuple(sorted(one for here, starts in stood.items() for one in _between(sight, here, starts)))


def _between(sight: HomewardSight, here: TopicPartition, starts: Collection[int]) -> Iterator[Divergent]:
    there, inherited = sight.local.there(here), sight.local.inherited.get(here)
    assert there is not None  # or no group stood there
    begin = max(min(starts), NO_OFFSET if inherited is None else inherited.end)
    source = sight.local.maps[here].target_to_source(begin)
    stretches = list(sight.local.maps[here].settled(NO_OFFSET if source is None else source - 1))
    if not stretches:
        return
    spans = [Span(one.target, one.target + one.length) for one in stretches]
    for one in find({there: begin}, {there: spans[-1].end}, {there: spans}):
        yield one
        yield from (one._replace(first=start) for start in starts if one.first < start < one.end)


def _stood_by(sight: HomewardSight, group: str, here: TopicPartition) -> int | None:
    """Where a group stood there by a commit of its own, in what only the flow that goes there has to do with."""
    there = sight.local.there(here)
    if there is None or sight.copies.there(here) is not None or here not in sight.local.maps:
        return None
    now, commit = sight.there.at(group, there), sight.commits.get(group, {}).get(there)
    if now != NO_OFFSET and (commit is None or commit.at(now) is None):
        return now
    seen = sight.seen_there.get(group, {}).get(there)
    return None if seen is None else seen.offset


def _unread(sight: HomewardSight, group: str, here: TopicPartition) -> int | None:
    """The first offset there at which others have written, and that the group had not read before it left."""
    stood, there = _stood_by(sight, group, here), sight.local.there(here)
    if stood is None or there is None:
        return None
    return min((offset for offset in sight.others.get(there, ()) if offset >= stood), default=None)


@overload
def _no_further(result: Translated, offset: int | None, place: Place) -> Translated: ...


@overload
def _no_further(result: Translation, offset: int | None, place: Place) -> Translation: ...


def _no_further(result: Translation, offset: int | None, place: Place) -> Translation:
    """The same, but not beyond a record there that the group has not read: no map of what was brought knows it."""
    if offset is None or isinstance(result, NotYet) or result.offset <= offset:
        return result
    return Translated(offset, place)


def _as_far_as_known(sight: HomewardSight, here: TopicPartition, result: Translated) -> Translated:
    """The same, but not beyond what is on record of the flow that came from there, where it may have copied more.

    Behind its position lie records that a group may not have read in their copies, which no map knows.
    """
    there = sight.copies.there(here)
    offsets = None if there is None else sight.copies.maps.get(there)
    if there not in sight.unsettled or offsets is None or result.offset <= offsets.position:
        return result
    return Translated(max(0, offsets.position), Place.UNSETTLED)


def _since_it_came(sight: HomewardSight, group: str, here: TopicPartition, result: Translated) -> Translated:
    """The same; where it is approximate, no earlier than where a group stood there that was not set back here since."""
    there, commit = sight.copies.there(here), sight.stood.get(group, {}).get(here)
    if result.place is not Place.APPROXIMATE or there is None or commit is None:
        return result
    if sight.offsets[group][here].offset < commit.downstream or commit.upstream >= sight.parted.get(there, FAR):
        return result
    return Translated(max(result.offset, commit.upstream), Place.APPROXIMATE)


def _stood(sight: HomewardSight, group: str, here: TopicPartition, committed: int) -> int | None:
    """Where a group stood there before it left, if nobody has used it here since, and the log there still has that.

    From there on it has read nothing, neither there nor here: what was written here since was brought behind that.
    """
    there, commit = _there(sight, here), sight.stood.get(group, {}).get(here)
    own = None if commit is None else commit.at(committed)
    if there is None or own is None:
        return None
    return own.upstream if own.upstream < sight.parted.get(there, FAR) else None


def _is_aside(sight: HomewardSight, there: TopicPartition, start: int, stop: int) -> bool:
    """Whether something between two offsets there was put aside: groups go behind that."""
    return any(one.partition == there and one.first < stop and start < one.end for one in sight.aside)


def _uncopied(sight: HomewardSight, group: str, here: TopicPartition, there: TopicPartition, until: int) -> int:
    """How many offsets at most orders left out before the place of a group there, behind where it stood there.

    Nobody has read them here, and no group that was used here goes back to them. Of a group that never stood there only
    those right before its place count: nobody knows where it has begun here.
    """
    offsets = None if sight.copies.there(here) is None else sight.copies.maps.get(there)
    if offsets is None:
        return 0
    brought = sight.local.maps.get(here) if sight.local.there(here) == there else None
    commit = sight.stood.get(group, {}).get(here)
    left = None if commit is None else commit.upstream
    return ordered_out_before(offsets, left, min(until, sight.parted.get(there, FAR)), brought)


def _placed(sight: HomewardSight, group: str, found: MovedPlace, result: Translated, left: int) -> MovedPlace:
    assert found.target is not None
    oldest = sight.oldest.get(found.target)
    there = still_there(result, oldest)
    absent = left + there.offset - result.offset
    placed = replace(
        found,
        offset=there.offset,
        exact=result.place.exact,
        skipped=absent + found.skipped,
        text=there.place.value + not_there(absent) + not_copied(found.skipped),
    )
    commit = sight.commits.get(group, {}).get(found.target)
    if group in sight.apart and found.before not in (NO_OFFSET, None if commit is None else commit.downstream):
        return as_it_stands(replace(found, apart=True, text=APART), oldest)
    moved = not is_open(found, group, sight.tried)
    if moved and sight.earlier.is_back(group, found.target, found.before, placed.offset, commit):
        return replace(placed, again=True)
    if moved and group in sight.moved and used_since(found.before, placed.offset, commit):
        return used(found, sure=not in_doubt(found, group, sight.unsure, sight.tried), oldest=oldest)
    if sight.settled and commit is not None and found.before < placed.offset:
        by_operation = (commit.downstream, commit.upstream) == (found.before, found.committed.offset)
        is_left = oldest is None or found.before >= oldest
        return replace(placed, offset=found.before) if by_operation and is_left else placed
    if placed.before > placed.offset:
        return replace(placed, text=f"{placed.text} (back from {placed.before}, where it stood before it left)")
    return placed


def _recreated(found: MovedPlace, result: Translation, aside: int) -> MovedPlace:
    """In a topic that was made anew: at what the flow that goes there has put next, or behind what was put aside."""
    offset = result.offset if isinstance(result, Translated) else aside
    return replace(found, offset=offset, exact=False, text="the topic was deleted and created again there")


def _copied(sight: HomewardSight, here: TopicPartition, *, with_lost: bool = False) -> FlowBack | None:
    """What the flow that came from there has put into a partition here; it has ended.

    Args:
        sight: what is known.
        here: the partition.
        with_lost: also of what is not there any more.
    """
    there = sight.copies.there(here)
    offsets = None if there is None else sight.copies.maps.get(there)
    if there is None or offsets is None or there.topic in sight.recreated:
        return None
    if there in sight.parted and not with_lost:
        offsets = offsets.below(sight.parted[there])
    return FlowBack(offsets=offsets, inherited=sight.copies.inherited.get(there), ended=True, lost=sight.lost.get(here))


def _lost(sight: HomewardSight, here: TopicPartition, committed: int) -> int:
    """How many records that a group has not read are not there any more."""
    there = sight.copies.there(here)
    offsets = None if there is None else sight.copies.maps.get(there)
    if there is None or offsets is None or there not in sight.parted:
        return 0
    source, end = offsets.target_to_source(committed), offsets.end()
    if end is None:
        return 0
    return offsets.count(max(sight.parted[there], NO_OFFSET if source is None else source), end.source + 1)


def _on(sight: HomewardSight, here: TopicPartition, committed: int) -> Translation:
    """By the map of the flow that goes there."""
    offsets = sight.local.maps.get(here) if here.topic in sight.local.names else None
    if offsets is None:
        return NotYet(Reason.NOTHING_MIRRORED)
    return translate_at_the_end(offsets, committed, sight.local.inherited.get(here))
