"""Where each group goes on at the target when the flow has been stopped, and whether it arrived there. Pure.

Invariants: nothing is guessed: a place without a translation is left out with the reason; a group that has members on
the target is not touched; an offset on the target goes back only if the flow itself has committed it last
(`offsets.group_commits`). One that is further by another's commit stays, since a consumer may have read there, and is
never told as exact; where others have set a group back or gone on since it was moved, it stays too, unless it has the
very offset that it had before (`earlier`). So does a group that an earlier operation has taken to the target and that
has not been used on the source since (`offsets.left_offsets`), unless the target's log has lost the record at which the
flow has put it. Whatever stays before the first record that is left is told.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from sparkmirror.failover.earlier import NOTHING_EARLIER, Earlier, Row
from sparkmirror.failover.tried import NONE_OPEN, Open, Unsure
from sparkmirror.kafka.groups import Committed, GroupKind, GroupListing, Offsets
from sparkmirror.model import NO_OFFSET, TopicPartition
from sparkmirror.offsets.group_commits import Commits, Verdict, judge
from sparkmirror.offsets.group_records import FlowCommit, UpstreamOffset
from sparkmirror.offsets.inherited import Inherited
from sparkmirror.offsets.interleaved import left_out, meet
from sparkmirror.offsets.left_offsets import NOTHING_LEFT, Left
from sparkmirror.offsets.map import OffsetMap
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

    def is_active(self, group: str) -> bool:
        """Whether a group has members there, so that it is its members that keep it from being moved."""
        listing = self.listed.get(group)
        return listing is not None and listing.active and listing.kind not in (GroupKind.SHARE, GroupKind.STREAMS)

    def hindrance(self, group: str) -> str:
        """Why a group is not moved there; "" for one that may be."""
        listing = self.listed.get(group)
        if listing is not None and listing.kind in (GroupKind.SHARE, GroupKind.STREAMS):
            return f"on the target there is a {listing.kind.value} group with its name"
        if listing is not None and listing.active:
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
        absent: target partitions that do not exist.
        empty: the ends of target partitions without a record, where nothing was ever mirrored.
        there: how the groups stand on the target.
        originals: of the source topics that are copies of the target's own, the names that these have there.
        upstream: by group where offsets lead to by the map of the flow the other way, as it is on record.
        own_lost: by group and partition of the source, where the target's own log has lost its end before the place
            that is on record there; `upstream` leads no further.
        unproven: groups and partitions of the source where nobody can tell whether it has.
        back: the name of that flow.
        commits: what the flow itself has committed on the target last, as it is on record.
        left: what groups have left behind on the source, since operations have taken them to the target.
        outdated: groups and topics where what was committed was seen in an older topic of the name.
        moved: groups that the operation has moved already, or earlier ones since the flow is held.
        returned: groups that operations of the flow back have brought to the source since the flow is held, and which
            operation that was: what they have done there is not on record.
        unfollowed: groups of which nobody knows what they have done on the source since the flow was held.
        recreated: source topics that were deleted and created again since they were copied.
        copy_recreated: source partitions of which the copy was: nothing of what was copied lies there.
        parted: where logs of the source part from what was copied of them.
        earlier: where groups stood that the operation itself has moved.
        lost: groups and partitions where the source has lost what was committed, and `offsets` is what was seen before.
        unasked: groups of which a source that answers has not said what they have there now.
        lost_start: whether the flow's internal topic had lost the records of its starts, and what was there before.
        unsure: places of which nobody knows whether the operation has moved them; `moved` has their groups too.
        tried: places that it was about to change when it was broken off, of groups that it has moved in part.
        unsettled: source partitions of which more may have been copied than is on record, since the target's log could
            not be read.
        homeward: copies of which only what others wrote goes home, where nobody has waited for that.
        unbrought: copies that others have written to, and of which nothing brings that to the target.
    """

    offsets: Mapping[str, Offsets]
    seen_ms: Mapping[str, int]
    renamed: Mapping[str, str]
    maps: Mapping[TopicPartition, OffsetMap]
    inherited: Mapping[TopicPartition, Inherited]
    oldest: Mapping[TopicPartition, int]
    there: Standing
    empty: Mapping[TopicPartition, int] = field(default_factory=dict)
    originals: Mapping[str, str] = field(default_factory=dict)
    upstream: Mapping[str, Mapping[TopicPartition, UpstreamOffset]] = field(default_factory=dict)
    own_lost: Mapping[tuple[str, TopicPartition], int] = field(default_factory=dict)
    unproven: frozenset[tuple[str, TopicPartition]] = frozenset()
    back: str = ""
    commits: Commits = field(default_factory=dict)
    left: Left = field(default_factory=lambda: NOTHING_LEFT)
    outdated: frozenset[tuple[str, str]] = frozenset()
    moved: frozenset[str] = frozenset()
    returned: Mapping[str, str] = field(default_factory=dict)
    unfollowed: frozenset[str] = frozenset()
    recreated: frozenset[str] = frozenset()
    copy_recreated: frozenset[TopicPartition] = frozenset()
    parted: Mapping[TopicPartition, int] = field(default_factory=dict)
    absent: frozenset[TopicPartition] = frozenset()
    unsettled: frozenset[TopicPartition] = frozenset()
    homeward: frozenset[TopicPartition] = frozenset()
    unbrought: frozenset[TopicPartition] = frozenset()
    unsure: Unsure = frozenset()
    tried: Open = field(default_factory=lambda: NONE_OPEN)
    earlier: Earlier = NOTHING_EARLIER
    lost: frozenset[tuple[str, TopicPartition]] = frozenset()
    unasked: frozenset[str] = frozenset()
    lost_start: bool = False


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
        exact: whether nothing is read twice; False too where there is no offset and it may be.
        further: offsets that the group stands beyond its translation, by a commit that is not the flow's: it stays
            there, and skips what it has not read of them.
        used: whether others have committed on the target since the operation moved the group, or an earlier operation
            has taken it there and it has committed nothing on the source since: it stays there.
        skipped: offsets that the group has not read and that it passes, so many at most: they were never copied, or
            are gone there.
        absent: whether the target's partition does not exist, so that nothing can be committed for it.
        again: whether the operation has moved the group, and it has what it had before that again, or nothing; or an
            earlier one has, and it has nothing.
        lost: whether the cluster that the group leaves has lost what it had committed there: it goes by what was seen
            before.
        gone: whether an operation had taken the group to the cluster that it leaves, and it has no offset there.
        passed: whether an operation had moved the group there, nobody has used it since, and the log there has lost the
            record at which it stood: it goes on at the first one that is left.
        late: where what it has on the cluster that it has left leads to after the end of the operation, if that is not
            what it has where it went; else `NO_OFFSET`.
        doubtful: whether others have committed there, and nobody knows whether the group had been moved by then.
        apart: whether a group of its name stands there that is another one: both stay where they are.
        torn: whether the target's own log has lost what lay there, or is another one by now.
        text: what lies at the offset, or why there is none.
    """

    partition: TopicPartition
    target: TopicPartition | None
    committed: Committed
    offset: int = NO_OFFSET
    before: int = NO_OFFSET
    ahead: int = 0
    exact: bool = True
    further: int = 0
    used: bool = False
    skipped: int = 0
    absent: bool = False
    again: bool = False
    lost: bool = False
    gone: bool = False
    passed: bool = False
    late: int = NO_OFFSET
    doubtful: bool = False
    apart: bool = False
    torn: bool = False
    text: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupMove:
    """One group.

    Attributes:
        group: its name.
        seen_ms: when its offsets were seen on the source last, milliseconds since 1970.
        places: its partitions, in order.
        hindrance: why it is not moved at all, or "".
        active: whether that is for its members on the target.
    """

    group: str
    seen_ms: int
    places: tuple[MovedPlace, ...]
    hindrance: str = ""
    active: bool = False

    @property
    def wanted(self) -> dict[TopicPartition, Committed]:
        """What it is to have on the target."""
        return {
            place.target: Committed(place.offset, place.committed.metadata)
            for place in self.places
            if place.target is not None and place.offset != NO_OFFSET and not self.hindrance
        }

    @property
    def missing(self) -> dict[TopicPartition, Committed]:
        """What of that it has not."""
        has = {place.target: place.before for place in self.places}
        return {target: committed for target, committed in self.wanted.items() if has[target] != committed.offset}

    @property
    def found(self) -> dict[TopicPartition, Committed]:
        """What it had there when this was decided."""
        return {p.target: Committed(p.before) for p in self.places if p.target is not None and p.before != NO_OFFSET}

    @property
    def commits(self) -> dict[TopicPartition, FlowCommit]:
        """What goes on record as the flow's when the target has what it is to have.

        Also what it had already, or it would count as a consumer's when the group is looked at again; but not what a
        consumer has committed there.
        """
        wanted = self.wanted
        return {
            place.target: FlowCommit(place.offset, place.committed.offset)
            for place in self.places
            if place.target is not None and place.target in wanted and not place.further and not place.used
        }

    @property
    def left(self) -> dict[TopicPartition, int]:
        """What it leaves behind on the source when the target has what it is to have.

        Not where a consumer's commit on the target was further already: the group was not moved there, and the report
        says so again. Nor where nobody knows whether it was.
        """
        wanted, doubtful = self.wanted, {place.target for place in self.doubtful}
        return {
            place.partition: place.committed.offset
            for place in self.places
            if place.target in wanted and not place.further and place.target not in doubtful
        }

    @property
    def left_on_record(self) -> dict[TopicPartition, int]:
        """The same, with `NO_OFFSET` where it stands further on the target: that it was moved there is on record.

        Not of one that is left alone as another group of its name.
        """
        stays = () if self.kept and not self.left else self.further
        return {place.partition: NO_OFFSET for place in stays} | self.left

    @property
    def void(self) -> list[tuple[str, TopicPartition]]:
        """Where a commit of the flow's that is on record is not what the target has: others have committed since."""
        return [(self.group, place.target) for place in self.further if place.target is not None]

    @property
    def changed(self) -> list[Row]:
        """Where it gets another offset than the one that it has, and that one."""
        missing, found = self.missing, self.found
        return [(self.group, place, has.offset) for place, has in found.items() if place in missing]

    @property
    def again(self) -> list[Row]:
        """Where it is moved once more, and what it has there."""
        places = () if self.hindrance else self.places
        return [(self.group, p.target, p.before) for p in places if p.target is not None and p.again]

    @property
    def is_there(self) -> bool:
        """Whether the target has every offset that it is to have."""
        return not self.missing

    @property
    def left_out(self) -> tuple[MovedPlace, ...]:
        """The partitions of copied topics without an offset on the target."""
        return tuple(place for place in self.places if place.target is not None and place.offset == NO_OFFSET)

    @property
    def kept(self) -> tuple[str, ...]:
        """Where it keeps what it has on the target, and nobody knows what it skips, for people.

        It has no translation there, or others have used it and nobody knows whether it had been moved by then.
        """
        if self.hindrance:
            return ()
        return tuple(
            f"{self.group} at {place.partition} ({place.text}; it stays at offset {place.before})"
            for place in self.places
            if place.before != NO_OFFSET and (place in self.left_out or place.doubtful)
        )

    @property
    def doubtful(self) -> tuple[MovedPlace, ...]:
        """The partitions in which others have committed, and nobody knows whether it had been moved by then."""
        return () if self.hindrance else tuple(place for place in self.places if place.doubtful)

    @property
    def absent(self) -> tuple[MovedPlace, ...]:
        """The partitions that do not exist on the target."""
        return () if self.hindrance else tuple(place for place in self.places if place.absent)

    @property
    def inexact(self) -> tuple[MovedPlace, ...]:
        """The partitions in which the group may read some records twice."""
        return tuple(place for place in self.places if not place.exact and not place.further)

    @property
    def further(self) -> tuple[MovedPlace, ...]:
        """The partitions in which the group is left beyond its translation, since others have committed there."""
        return () if self.hindrance else tuple(place for place in self.places if place.further)

    @property
    def apart(self) -> tuple[MovedPlace, ...]:
        """The partitions in which a group of its name stands there that is another one: both stay where they are."""
        return () if self.hindrance else tuple(place for place in self.places if place.apart)

    @property
    def torn(self) -> tuple[MovedPlace, ...]:
        """The partitions in which the target's own log has lost what lay where the group would go on."""
        return () if self.hindrance else tuple(place for place in self.places if place.torn)

    @property
    def skipping(self) -> tuple[MovedPlace, ...]:
        """The partitions in which the group misses what the target does not have."""
        return () if self.hindrance else tuple(place for place in self.places if place.skipped)

    @property
    def uncopied(self) -> tuple[str, ...]:
        """The topics that it reads and that the flow does not copy."""
        return tuple(sorted({place.partition.topic for place in self.places if place.target is None}))


@dataclass(frozen=True, slots=True)
class Count:
    """How many groups are moved: the one figure of plan, screen and report.

    Attributes:
        groups: that get at least one offset on the other cluster, or have it there already.
        offsets: that they get.
        known: all groups that were looked at.
    """

    groups: int
    offsets: int
    known: int

    @property
    def text(self) -> str:
        """In words."""
        return f"{self.groups} of {self.known} groups, with {self.offsets} offsets"


def count(moves: Sequence[GroupMove], failed: Collection[str] = ()) -> Count:
    """How many groups are moved.

    Args:
        moves: what is to be done.
        failed: groups for which it could not be done.
    """
    wanted = [move.wanted for move in moves if move.wanted and move.group not in failed]
    return Count(len(wanted), sum(map(len, wanted)), len(moves))


def decide(sight: Sight) -> tuple[GroupMove, ...]:
    """Where every group goes on, by name in order."""
    return tuple(
        GroupMove(
            group=group,
            seen_ms=sight.seen_ms[group],
            places=tuple(
                _as_it_is_known(sight, group, _place(sight, group, partition))
                for partition in sorted(sight.offsets[group])
            ),
            hindrance=sight.there.hindrance(group),
            active=sight.there.is_active(group),
        )
        for group in sorted(sight.offsets)
    )


def forgotten(
    commits: Commits, moves: Sequence[GroupMove], now: Mapping[str, Offsets] | None = None
) -> dict[str, list[TopicPartition]]:
    """What the flow has committed on the target for groups, or for topics of theirs, that are not on record any more.

    Their owners have deleted them, or they have expired at the source; the target keeps the offset, and their readers
    go on there.

    Args:
        commits: what the flow has committed on the target last.
        moves: of all groups that are on record.
        now: what groups have committed on the target; without, what is not the flow's any more is in it too.
    """
    known = {(move.group, place.target) for move in moves for place in move.places}
    found: dict[str, list[TopicPartition]] = {}
    for group, own in sorted(commits.items()):
        for place, commit in sorted(own.items()):
            there = commit.downstream if now is None else now.get(group, {}).get(place, Committed(NO_OFFSET)).offset
            if (group, place) not in known and commit.at(there) is not None:
                found.setdefault(group, []).append(place)
    return found


def landed(
    moves: Sequence[GroupMove],
    now: Mapping[str, Offsets],
    starts: Mapping[TopicPartition, int],
    ends: Mapping[TopicPartition, int],
) -> list[str]:
    """What is wrong with the groups on the target, a line for each; empty where all can start.

    Args:
        moves: what was to be done.
        now: what the groups have committed there.
        starts: the first offset that target partitions have, as far as they answer.
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
            elif has < starts.get(place, has):
                wrong.append(
                    f"group {move.group}, {place}: {has} lies before the first record that is left, {starts[place]}: "
                    "its consumers begin by auto.offset.reset; kafka-consumer-groups.sh --reset-offsets --to-offset "
                    f"{starts[place]} sets it there"
                )
    return wrong


def _place(sight: Sight, group: str, partition: TopicPartition) -> MovedPlace:
    committed = sight.offsets[group][partition]
    name = sight.renamed.get(partition.topic) or sight.originals.get(partition.topic)
    if name is None:
        return MovedPlace(
            partition=partition, target=None, committed=committed, text="the flow does not copy the topic"
        )
    target = TopicPartition(name, partition.partition)
    found = partial(
        MovedPlace, partition=partition, target=target, committed=committed, before=sight.there.at(group, target)
    )
    upstream = sight.upstream.get(group, {}).get(partition)
    if partition.topic not in sight.renamed:
        return _in_the_original(sight, group, found(), upstream)
    if partition.topic in sight.recreated or (group, partition.topic) in sight.outdated:
        text = "the topic was deleted and created again on the source since it was copied: no place is known"
        return found(exact=False, text=text)
    if partition in sight.copy_recreated:
        return found(exact=False, text=Reason.COPY_RECREATED.value)
    offsets = sight.maps.get(partition)
    at = min(committed.offset, sight.parted.get(partition, committed.offset))
    plain: Translation = NotYet(Reason.NOTHING_MIRRORED)
    if offsets is not None:
        plain = translate_at_the_end(offsets, at, sight.inherited.get(partition))
    result = meet(plain, upstream, offsets, at, settled=partition not in sight.unsettled)
    if result == NotYet(Reason.UNDER_WAY) and isinstance(plain, Translated):
        result = Translated(plain.offset, Place.UNSETTLED)
    position = NO_OFFSET if offsets is None else offsets.position
    ahead = max(0, committed.offset - min(at, position)) if position != NO_OFFSET else 0
    exact = result.place.exact if isinstance(result, Translated) else upstream is None
    exact = exact and at == committed.offset
    skipped = left_out(offsets, at, plain, upstream) if isinstance(result, Translated) else 0
    placed = _placed(sight, group, found(ahead=ahead, exact=exact, skipped=skipped), result)
    return placed if _is_by_own_map(result, plain) else _as_its_log_is_known(sight, group, placed)


def _is_by_own_map(result: Translation, plain: Translation) -> bool:
    """Whether a group goes on at a copy of the flow's own: what is lost of these is known."""
    return result == plain or (
        isinstance(plain, Translated)
        and plain.place is not Place.END
        and isinstance(result, Translated)
        and result.offset == plain.offset
    )


def _as_its_log_is_known(sight: Sight, group: str, place: MovedPlace) -> MovedPlace:
    """The same; not exact where the target's own log has lost what lay there, or where nobody can tell."""
    if place.offset == NO_OFFSET:
        return place
    begin = sight.own_lost.get((group, place.partition))
    if begin is not None and place.offset >= begin:
        return replace(place, exact=False, torn=True)
    if (group, place.partition) in sight.unproven and not place.used:
        return replace(place, exact=False, text=f"{place.text}, {UNPROVEN}")
    return place


def _in_the_original(sight: Sight, group: str, found: MovedPlace, upstream: UpstreamOffset | None) -> MovedPlace:
    """By the map of the flow back, which lies on the source and was asked while that was there."""
    if upstream is None:
        text = f"a copy that {sight.back} made, of which no offsets are on record"
        return replace(found, exact=False, text=text)
    if upstream.offset == NO_OFFSET:
        return replace(found, exact=False, text=Reason[upstream.name].value)
    result = Translated(upstream.offset, Place[upstream.name])
    placed = _as_its_log_is_known(sight, group, _placed(sight, group, replace(found, exact=upstream.exact), result))
    if placed.exact or upstream.exact or placed.further or placed.torn:
        return placed
    behind = f", as far as {sight.back} is on record: some records before it may be read again"
    return replace(placed, text=placed.text + behind)


def _placed(sight: Sight, group: str, found: MovedPlace, result: Translation) -> MovedPlace:
    assert found.target is not None
    result = in_empty(result, sight.empty.get(found.target))
    if not isinstance(result, Translated):
        return replace(found, exact=False, text=result.reason.value)
    if found.target in sight.absent:
        return left_out_as_absent(replace(found, exact=True, ahead=0, skipped=0), found.target)
    oldest = sight.oldest.get(found.target)
    there = still_there(result, oldest)
    commit = sight.commits.get(group, {}).get(found.target)
    if group in sight.returned and found.before != NO_OFFSET:
        return _lives_there(replace(found, ahead=0, exact=False, text="where it stood there"), oldest, commit)
    here = sight.upstream.get(group, {}).get(found.partition)
    if here is not None and here.placed and found.before != NO_OFFSET:
        return _lives_there(replace(found, ahead=0, exact=True, text=LIVES_THERE), oldest, commit)
    skipped = found.skipped + there.offset - result.offset
    placed_there = replace(found, offset=there.offset, skipped=skipped, text=there.place.value + not_there(skipped))
    moved = not is_open(found, group, sight.tried)
    is_back = moved and sight.earlier.is_back(group, found.target, found.before, there.offset, commit)
    if is_back or has_lost_its_place(sight, group, found):
        return replace(placed_there, again=True)
    told = (group, found.target) in sight.tried or (group, found.target) in sight.unsure
    known = commit is not None or told
    placed = found.before < there.offset or known  # what was left further has no commit of the flow's
    if moved and group in sight.moved and placed and used_since(found.before, there.offset, commit):
        return used(found, sure=not in_doubt(found, group, sight.unsure, sight.tried), oldest=oldest)
    left = sight.left.has(group, found.partition, found.committed.offset, sight.lost)
    verdict = judge(found.before, FlowCommit(there.offset, found.committed.offset), commit, left=left)
    if verdict is Verdict.LEFT_BEHIND:
        return _lives_there(replace(found, text=verdict.value), oldest, commit)
    if verdict is Verdict.LEFT:
        return _left(replace(found, skipped=0), found.before - there.offset)
    if not verdict.goes_back:
        return placed_there
    return replace(placed_there, text=f"{placed_there.text} (back from {found.before}: {verdict.value})")


def has_lost_its_place(sight: Sight, group: str, found: MovedPlace) -> bool:
    """Whether an operation has taken the group to the target, and it has nothing there any more.

    It goes by what it has left behind on the source: its consumers would begin wherever ``auto.offset.reset`` says.
    """
    left = sight.left.has(group, found.partition, found.committed.offset, sight.lost)
    return left and found.before == NO_OFFSET


def lost_their_offsets(decided: Iterable[GroupMove], here: str, there: str) -> tuple[str, ...]:
    """What is told of groups that go home, have no offset any more where they were, and none there either."""
    return tuple(
        f"group {move.group} at {place.partition} on {here}: {place.text}; on {there} it has no offset either"
        for move in decided
        if not move.hindrance
        for place in move.places
        if place.gone and place.before == NO_OFFSET
    )


def as_they_stand(decided: Iterable[GroupMove], apart: Collection[str]) -> tuple[GroupMove, ...]:
    """The same when the operation has ended and commits nothing any more: groups go on at what they have there.

    Args:
        decided: where groups would go on by what they have now on the cluster that they have left.
        apart: the groups that were not moved, of which that is told.
    """
    return tuple(
        move
        if move.is_there or move.group in apart
        else replace(move, places=tuple(_as_it_stands_late(place, move.missing) for place in move.places))
        for move in decided
    )


def _as_it_stands_late(place: MovedPlace, missing: Collection[TopicPartition | None]) -> MovedPlace:
    if place.target not in missing:
        return place
    text = f"where it stands there; what it has where it was leads to {place.offset} by now"
    return replace(place, offset=place.before, exact=False, late=place.offset, text=text)


def have_members(listed: Mapping[str, GroupListing], left: str) -> tuple[str, ...]:
    """What is told at the end of groups that are in use on the cluster that they have left.

    Args:
        listed: the groups there that the operation deals with.
        left: its name.
    """
    then = "stop them, what they read there is read again"
    return tuple(f"group {name} has members on {left}: {then}" for name, each in sorted(listed.items()) if each.active)


def kept(decided: Iterable[GroupMove], there: str) -> tuple[str, ...]:
    """What is told of groups that keep what they have on the cluster that they go to, whatever they skip there."""
    return tuple(
        f"group {each} on {there} may skip records or read some again" for move in decided for each in move.kept
    )


def further_on_return(decided: Iterable[GroupMove], groups: Collection[str], there: str) -> tuple[str, ...]:
    """What is told of groups that come back to a cluster that they had left, and are held further on there.

    It is most often their own commit from before they left, which came when nobody could see it any more: they skip
    what their owners have set them back over since.

    Args:
        decided: where groups go on.
        groups: those that operations had brought to where they are now.
        there: the cluster.
    """
    return tuple(
        f"group {move.group} at {place.partition} comes back to {there}, and stays {place.text}"
        for move in decided
        if move.group in groups
        for place in move.further
    )


LIVES_THERE = "it stands there, and its offset on the source is where the flow back has put it"
_SHOWN = 3

UNPROVEN = (
    "and it is not known whether the log there still has what lay before that: what was written in place of lost "
    "records is skipped"
)
APART = "a group of that name stands there and was not moved: its offset stays"
GONE = (
    "an operation had taken it there, and its offset is gone: deleted, expired, or lost with the end of "
    "__consumer_offsets; what it has read since is not known. kafka-consumer-groups.sh --reset-offsets on the cluster "
    "that it goes to puts it where its consumers have come to"
)
SEEN_BEFORE = (
    "by what was seen of the group before __consumer_offsets lost its end there: later commits are lost. Where the "
    "topic has lost its end too, it goes on there, and copies of what was lost that it had not read are skipped"
)
SEEN_LAST = "by what was seen of the group last: what it has now where it leaves could not be asked"
BROUGHT_BACK = (
    "but it was brought back to where it left since the flow is held, and what it did there is not on record: what it "
    "has read since is read again, what it has set back is skipped"
)
NOT_FOLLOWED = (
    "but what it did where it leaves since the flow was held is not on record: if it was there, what it has read since "
    "is read again, what it has set back is skipped"
)
ON_WHAT_IS_LEFT = "by what the flow's internal topic has not lost: what is on record of the group may be old"
USED = "committed there since the group was moved: left there"
MOVED_AGAIN = "once more: it had what it had before it was moved, or nothing"
MOVED_OR_NOT = "others have committed there, and whether the group had been moved by then is not known"


def used(found: MovedPlace, *, sure: bool, oldest: int | None) -> MovedPlace:
    """The place where a group stands since others have committed there, whether it was moved by then or not."""
    stays = replace(found, text=USED) if sure else replace(found, exact=False, doubtful=True, text=MOVED_OR_NOT)
    return as_it_stands(stays, oldest)


def as_it_stands(found: MovedPlace, oldest: int | None) -> MovedPlace:
    """The same where the group keeps what it has there; told where the log has lost that record.

    Args:
        found: the place, with the reason for which it stays.
        oldest: the first offset that the log there still has; None where that is not known.
    """
    gone = 0 if oldest is None else max(0, oldest - found.before)
    behind = f", before the first record that is left, {oldest}" if gone else ""
    return replace(found, offset=found.before, skipped=gone, used=True, text=found.text + behind)


def _lives_there(found: MovedPlace, oldest: int | None, commit: FlowCommit | None) -> MovedPlace:
    """Where a group goes on that an operation has taken there: where it stands, if that is left or not the flow's.

    What it has left behind on the source leads it nowhere, so it goes no further than to the first record that is left.
    """
    is_flows = commit is not None and commit.at(found.before) is not None
    if oldest is None or found.before >= oldest or not is_flows:
        return as_it_stands(found, oldest)
    gone = oldest - found.before
    return replace(found, offset=oldest, skipped=gone, passed=True, text=Place.OLDEST.value + not_there(gone))


def is_open(found: MovedPlace, group: str, tried: Open) -> bool:
    """Whether an operation that was broken off has not come to a place: it has what it had when it was tried."""
    return found.target is not None and tried.get((group, found.target)) == found.before


def in_doubt(found: MovedPlace, group: str, unsure: Unsure, tried: Open) -> bool:
    """Whether nobody knows whether an operation has moved a place in which others have committed."""
    return found.target is not None and ((group, found.target) in unsure or (group, found.target) in tried)


def used_since(there: int, wanted: int, commit: FlowCommit | None) -> bool:
    """Whether a group that was moved has been committed there since, by another than the flow.

    An earlier commit of the flow's is there again where the target has lost the last one, or where the group's owner
    has set it back to that offset: it goes back as one of the flow's, and forward over nothing.

    Args:
        there: what it has.
        wanted: what it would get.
        commit: what the flow itself has committed there last.
    """
    if there in (NO_OFFSET, wanted):
        return False
    if commit is None or there < wanted:
        return commit is None or commit.downstream != there
    return commit.at(there) is None


def with_again(place: MovedPlace, group: str, earlier: Earlier) -> MovedPlace:
    """The same; not exact where it is moved once more, or was: a consumer may have been there meanwhile."""
    moved = place.target is not None and (group, place.target) in earlier.again
    if not place.again and (not moved or place.used or place.offset == NO_OFFSET):
        return place
    return replace(place, exact=False, text=f"{place.text}, {MOVED_AGAIN}")


def _as_it_is_known(sight: Sight, group: str, place: MovedPlace) -> MovedPlace:
    known = with_lost(with_again(_with_others(sight, place), group, sight.earlier), group, sight.lost)
    known = _inexact(known, SEEN_LAST) if group in sight.unasked else known
    known = _inexact(known, BROUGHT_BACK) if group in sight.returned else known
    known = _inexact(known, NOT_FOLLOWED) if group in sight.unfollowed else known
    return _inexact(known, ON_WHAT_IS_LEFT) if sight.lost_start else known


def _with_others(sight: Sight, place: MovedPlace) -> MovedPlace:
    """The same; not exact where what others wrote to a copy before the place of a group may not be home."""
    if place.target is None or place.used or place.passed:
        return place
    if place.partition in sight.unbrought:
        return replace(place, exact=False, text=f"{place.text}; what others wrote here is not brought there")
    if place.offset == NO_OFFSET:
        return place
    if place.partition in sight.homeward and (place.ahead or place.partition not in sight.maps):
        return replace(place, exact=False, text=f"{place.text}; what others wrote before it may not be home")
    return place


def _inexact(place: MovedPlace, why: str) -> MovedPlace:
    """The same for a group of which what is on record may not be what it has on the cluster that it leaves."""
    if place.target is None or place.offset == NO_OFFSET:
        return place
    return replace(place, exact=False, text=f"{place.text}, {why}")


def with_lost(place: MovedPlace, group: str, lost: Collection[tuple[str, TopicPartition]]) -> MovedPlace:
    """The same; not exact where the cluster that the group leaves has lost what it had committed there."""
    if (group, place.partition) not in lost or place.target is None or place.used or place.passed:
        return place
    return replace(place, exact=False, lost=True, text=f"{place.text}, {SEEN_BEFORE}")


def seen_before_a_loss(decided: Iterable[GroupMove]) -> tuple[str, ...]:
    """What is told of groups that go by what was seen before the cluster that they leave has lost it."""
    return tuple(
        f"group {move.group} at {place.partition}: {place.text}"
        for move in decided
        if not move.hindrance
        for place in move.places
        if place.lost
    )


def told_of_passed(decided: Iterable[GroupMove], there: str) -> tuple[str, ...]:
    """What is told of groups that were moved, and whose records the log there has lost since; a line for all.

    Args:
        decided: where groups went on, as it was decided when that was found.
        there: the cluster that they were moved to.
    """
    names = [
        f"{move.group} at {place.partition} ({place.skipped} offsets)"
        for move in decided
        if not move.hindrance
        for place in move.places
        if place.passed
    ]
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    what = f"{there} has lost the records at which groups stood since they were moved"
    return (f"{what}, and they go on at the first that is left: {', '.join(names[:_SHOWN])}{more}",) if names else ()


def told_of_own_lost(decided: Iterable[GroupMove], there: str, back: str) -> tuple[str, ...]:
    """What is told of groups in topics of the cluster that they go to, where these have lost records; a line for all.

    Args:
        decided: where groups go on.
        there: that cluster.
        back: the flow that had read the records there.
    """
    names = [f"{move.group} at {place.target} (offset {place.offset})" for move in decided for place in move.torn]
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    what = f"{there} has lost records of its own topics since {back} has read them, or the topics were created again"
    then = "groups go on where the loss begins, or stay where others have put them"
    return (f"{what}: {then}: {', '.join(names[:_SHOWN])}{more}",) if names else ()


def said_of_again(decided: Sequence[GroupMove]) -> str:
    """What is said when groups that were moved are about to be moved once more."""
    return f"{len(decided)} groups do not have the offsets any more to which they were moved: they are moved once more"


def left_out_as_absent(found: MovedPlace, target: TopicPartition) -> MovedPlace:
    """A place whose partition does not exist where groups go to: brokers would refuse what is committed for it."""
    return replace(found, absent=True, text=f"{target} does not exist there")


def not_there(skipped: int) -> str:
    """What is said of offsets that a group misses, behind what lies where it goes on; "" for none."""
    return f", and up to {skipped} offsets before it are not there: what lay at them is skipped" if skipped else ""


def not_copied(skipped: int) -> str:
    """What is said of offsets that a group misses where it returns to, since they were never copied; "" for none."""
    return f", and up to {skipped} offsets before it were never copied: what lies at them is skipped" if skipped else ""


def _left(found: MovedPlace, further: int) -> MovedPlace:
    """The place where the group stands, so many offsets beyond its translation: it is not the flow's to change."""
    text = (
        f"{further} offsets further on the target than its translation, {found.before - further}, by a commit that is "
        "not the flow's, and left there: what it has not read of them is skipped; kafka-consumer-groups.sh "
        f"--reset-offsets --to-offset {found.before - further} sets it back"
    )
    return replace(found, offset=found.before, exact=False, further=further, text=text)
