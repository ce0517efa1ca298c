"""Which groups of the source are translated, to which offsets, and for each that is not: why.

Pure. `Observed` is one look at both clusters; `translations` says what the duties act upon, `explain_group` tells an
operator where a group stands.

Invariants: whatever keeps an offset of a group from the target has a `Standing` of its own, so that "nothing happens"
always has a reason. Where two flows write to one topic both maps decide (`offsets.interleaved`); and an offset that the
flow back itself has committed on the source is where the group stands on the target already, so nothing is committed,
unless an operation has moved the group to the source for good.
One that a group has left behind, since an operation has taken it to the target, moves it no further there. A
translation below the log start of the copy would be out of range, and ``auto.offset.reset`` could skip all there is: it
leads to the log start. A leader that was asked for that and does not answer leaves no translation.

Reference: MirrorMaker 2's ``MirrorCheckpointConnector.findConsumerGroups``, ``MirrorCheckpointTask``.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple

from sparkmirror.config import FlowConfig
from sparkmirror.duties.duty import Result
from sparkmirror.duties.flow_back import NO_BACK, NO_OPERATION, Back, LastOperation
from sparkmirror.kafka.groups import Committed, GroupKind, GroupListing, Offsets
from sparkmirror.model import NO_OFFSET, TopicPartition
from sparkmirror.naming import group_filter
from sparkmirror.offsets.group_commits import Commits, Verdict, judge
from sparkmirror.offsets.group_records import FlowCommit
from sparkmirror.offsets.inherited import Inherited
from sparkmirror.offsets.interleaved import meet, meet_at_the_end, not_beyond, upstream_of
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
    translate,
)

_CONSUMERS = ("consumer", "")


class GroupPlace(NamedTuple):
    """One partition of one group."""

    group: str
    partition: TopicPartition


@dataclass(frozen=True, slots=True, kw_only=True)
class Observed:
    """What a look saw.

    Attributes:
        flow: the flow.
        source: the groups of the source.
        offsets: what those have committed that the flow translates.
        lost: groups and partitions of which the source has lost that, and `offsets` has what was seen before.
        unreadable: why that is not known, for some of them.
        leaderless: partitions of ``__consumer_offsets`` of the source without a leader, whose groups are not listed.
        renamed: the names on the target of the source topics that the flow copies.
        maps: of the source partitions of which something is mirrored.
        unchecked: those of them of which the copy's leader does not say whether its log has lost something.
        inherited: what MirrorMaker 2 copied of some of them before the flow took over.
        back: what the flow the other way has put there, and where it has placed groups.
        under_way: of the source partitions in which a group is level with the flow's map and the flow back has put
            records, those of which the target may have copies that are not on the map.
        empty: of the source partitions of which nothing was mirrored and whose copies have no record, the copies' ends.
        earlier: by group and source partition what a group that is ahead of the mirror had committed when it was seen
            before; so a group that is always a little ahead is translated, one round late.
        target: the groups of the target; empty where the target was not asked.
        there: what the groups have committed there.
        unreadable_there: why that is not known, for some of them.
        commits: what the flow itself has committed there last, by group and partition of the target.
        tried: commits of its that were about to be made; where the target has taken one, `commits` has it too.
        left: what groups have left behind on the source, since operations have taken them to the target.
        here: groups that operations of the flow back have moved to the source: they live there, so what they commit is
            theirs, be it the very offset at which they were put.
        operation: the newest one of the flow back, as it was on record before anything else was looked at; none where
            the target was not asked.
        stalled: whether that is placing groups and has put nothing on record for long.
        log_starts: of the partitions of the target that were asked for it; None where the leader did not answer.
        others: source topics that lead to topics which the target had before, and which are not the flow's copies.
    """

    flow: FlowConfig
    source: Mapping[str, GroupListing]
    offsets: Mapping[str, Offsets]
    unreadable: Mapping[str, str] = field(default_factory=dict)
    leaderless: Sequence[int] = ()
    lost: frozenset[tuple[str, TopicPartition]] = frozenset()
    renamed: Mapping[str, str] = field(default_factory=dict)
    maps: Mapping[TopicPartition, OffsetMap] = field(default_factory=dict)
    unchecked: frozenset[TopicPartition] = frozenset()
    inherited: Mapping[TopicPartition, Inherited] = field(default_factory=dict)
    back: Back = NO_BACK
    under_way: frozenset[TopicPartition] = frozenset()
    empty: Mapping[TopicPartition, int] = field(default_factory=dict)
    earlier: Mapping[GroupPlace, Committed] = field(default_factory=dict)
    target: Mapping[str, GroupListing] = field(default_factory=dict)
    there: Mapping[str, Offsets] = field(default_factory=dict)
    unreadable_there: Mapping[str, str] = field(default_factory=dict)
    commits: Commits = field(default_factory=dict)
    tried: Commits = field(default_factory=dict)
    left: Left = field(default_factory=lambda: NOTHING_LEFT)
    here: frozenset[str] = frozenset()
    operation: LastOperation = NO_OPERATION
    stalled: bool = False
    log_starts: Mapping[TopicPartition, int | None] = field(default_factory=dict)
    others: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class Unreadable:
    """A group whose offsets cannot be read; reported at each round until they can."""

    group: str
    reason: str

    @property
    def change(self) -> None:
        """Nothing is changed."""
        return


@dataclass(frozen=True, slots=True, kw_only=True)
class BackUnreadable:
    """The record of the flow back cannot be read: no group is translated until it can."""

    reason: str

    @property
    def change(self) -> None:
        """Nothing is changed."""
        return


@dataclass(frozen=True, slots=True, kw_only=True)
class InRing:
    """Groups that have committed in topics of a ring: nothing of these is translated."""

    groups: tuple[str, ...]
    topics: tuple[str, ...]

    @property
    def change(self) -> None:
        """Nothing is changed."""
        return


@dataclass(frozen=True, slots=True, kw_only=True)
class Stalled:
    """An operation of the flow back began to place groups and does not go on: no offset is committed until it ends."""

    operation: str

    @property
    def change(self) -> None:
        """Nothing is changed."""
        return


class Standing(Enum):
    """Where a group, or one of its partitions, stands."""

    UNKNOWN = "the source has no such group"
    FILTERED = "not chosen: groups does not name it, or groups.exclude does"
    SHARE = "a share group: it has no offsets to translate, brokers keep the state of each record"
    STREAMS = "a streams group: its offsets belong to state that is not mirrored with them"
    NO_CONSUMERS = "not a group of consumers"
    UNREADABLE = "its offsets cannot be read"
    NO_OFFSETS = "it has committed no offset"
    NOT_COPIED = "the flow does not copy the topic"
    NOTHING_MIRRORED = Reason.NOTHING_MIRRORED.value
    AHEAD = Reason.AHEAD.value
    UNSETTLED = Reason.UNSETTLED.value
    BEFORE_SYNCS = Reason.BEFORE_SYNCS.value
    PLACED = Reason.PLACED.value
    PLACING = Reason.PLACING.value
    CHANGING = Reason.CHANGING.value
    RECREATED = Reason.RECREATED.value
    COPY_RECREATED = Reason.COPY_RECREATED.value
    PARTED = Reason.PARTED.value
    RING = Reason.RING.value
    BACK_UNREADABLE = Reason.BACK_UNREADABLE.value
    UNCHECKED = Reason.UNCHECKED.value
    UNDER_WAY = Reason.UNDER_WAY.value
    LOG_START_UNKNOWN = Reason.LOG_START_UNKNOWN.value
    UNREADABLE_THERE = "its offsets on the target cannot be read"
    OTHER_KIND_THERE = "on the target there is a group of another kind with its name"
    ACTIVE_THERE = "it has members on the target, which are never disturbed"
    OF_OTHERS = (
        "the target had the topic before, with records that are not the flow's: nothing is committed there; "
        "topics.append says that it is the copy"
    )
    LEFT_BEHIND = (
        "an operation has taken the group to the target, and this is what it has left behind: it stays where it is "
        "there until its consumers commit another offset here"
    )
    GOES_BACK = "on the target it is further, by the flow's own commit, and goes back at the next round"
    FURTHER_THERE = (
        "on the target it is further, by a commit that is not the flow's, and is left there: "
        "sparkmirror offsets --apply puts it at its translation"
    )
    LEVEL = "on the target it is there"
    TRANSLATED = "translated; the target has an older offset, or none"

    @property
    def has_offset(self) -> bool:
        """Whether there is an offset for the target."""
        return self in _TRANSLATED


_TRANSLATED = frozenset(
    {
        Standing.UNREADABLE_THERE,
        Standing.OTHER_KIND_THERE,
        Standing.ACTIVE_THERE,
        Standing.OF_OTHERS,
        Standing.LEFT_BEHIND,
        Standing.GOES_BACK,
        Standing.FURTHER_THERE,
        Standing.LEVEL,
        Standing.TRANSLATED,
    }
)
_STANDS = {
    Verdict.FORWARD: Standing.TRANSLATED,
    Verdict.LEVEL: Standing.LEVEL,
    Verdict.BACK_WITH_SOURCE: Standing.GOES_BACK,
    Verdict.BACK_WITH_COPY: Standing.GOES_BACK,
    Verdict.LEFT: Standing.FURTHER_THERE,
    Verdict.LEFT_BEHIND: Standing.LEFT_BEHIND,
}
_WHY = {reason: Standing[reason.name] for reason in Reason}


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """A committed offset of a group, and what it is on the target.

    Attributes:
        place: the group and the partition on the source.
        target: the same on the target.
        committed: on the source; of a group that is ahead of the mirror, what it had committed before.
        offset: on the target.
        lies: what lies there.
    """

    place: GroupPlace
    target: GroupPlace
    committed: Committed
    offset: int
    lies: Place

    @property
    def commit(self) -> FlowCommit:
        """The same as the flow would commit it."""
        return FlowCommit(self.offset, self.committed.offset)


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupLine:
    """What is to be said about one partition of a group, or about a group that is not translated at all.

    Attributes:
        group: the group.
        standing: where it stands.
        partition: of the source; None where the group as a whole is meant.
        target: the same on the target; None where the flow does not copy it.
        committed: the offset on the source, or `NO_OFFSET`.
        translated: the same on the target, or `NO_OFFSET`.
        there: the offset that the group has on the target now, or `NO_OFFSET`.
        detail: what a cluster said, or which kind or state it is.
    """

    group: str
    standing: Standing
    partition: TopicPartition | None = None
    target: TopicPartition | None = None
    committed: int = NO_OFFSET
    translated: int = NO_OFFSET
    there: int = NO_OFFSET
    detail: str = ""

    @property
    def text(self) -> str:
        """Why, in words."""
        return self.standing.value + (f" ({self.detail})" if self.detail else "")


def refusal(flow: FlowConfig, listing: GroupListing) -> Standing | None:
    """Why a group of the source is not translated at all; None for one that is.

    Raises:
        ConfigError: an expression of the flow cannot be used.
    """
    return untranslatable(listing) if group_filter(flow).matches(listing.name) else Standing.FILTERED


def untranslatable(listing: GroupListing) -> Standing | None:
    """Why nobody could translate a group's offsets, whatever the configuration says; None for one that has some."""
    if listing.kind is GroupKind.SHARE:
        return Standing.SHARE
    if listing.kind is GroupKind.STREAMS:
        return Standing.STREAMS
    return None if listing.protocol in _CONSUMERS else Standing.NO_CONSUMERS


def translations(observed: Observed) -> Iterator[Known]:
    """Every committed offset that is to be committed on the target, and where, by group and partition in order."""
    return _known(observed, _translated)


def committable(observed: Observed) -> Iterator[Known]:
    """The same without topics that are not the flow's copies: the records there are others', and so are the groups."""
    return (known for known in translations(observed) if known.place.partition.topic not in observed.others)


def translations_with_placed(observed: Observed) -> Iterator[Known]:
    """All translations with those that the flow back has placed on the source: the group stands on the target already.

    Nothing is committed for these, but whoever reads where the group goes on finds it nowhere else.
    """
    return _known(observed, _translated_or_placed)


def _known(
    observed: Observed, translated: Callable[[Observed, GroupPlace], tuple[Committed, Translation]]
) -> Iterator[Known]:
    for group in sorted(observed.offsets):
        for partition in sorted(observed.offsets[group]):
            place = GroupPlace(group, partition)
            committed, result = translated(observed, place)
            if isinstance(result, Translated):
                target = GroupPlace(group, _target(observed, partition))
                yield Known(place=place, target=target, committed=committed, offset=result.offset, lies=result.place)


def copies_of(observed: Observed, groups: Collection[str]) -> set[TopicPartition]:
    """The partitions of the target that offsets of these groups are translated to."""
    return {known.target.partition for known in translations(observed) if known.place.group in groups}


def may_lie_below(known: Known, verdict: Verdict) -> bool:
    """Whether the log start of the copy has to be known: an offset is to be committed, or retention may have passed it.

    Also one behind the last copy: markers and others' records lie behind that.

    Args:
        known: a translation.
        verdict: what becomes of the offset that is there.
    """
    return verdict.commits or (verdict is Verdict.LEVEL and known.lies is not Place.EMPTY)


def remembered(observed: Observed) -> dict[GroupPlace, Committed]:
    """What the next look needs to know of groups that are ahead of the mirror: the offset to wait for."""
    kept: dict[GroupPlace, Committed] = {}
    for group, offsets in observed.offsets.items():
        for partition, committed in offsets.items():
            place = GroupPlace(group, partition)
            if _plainly(observed, partition, committed) == NotYet(Reason.AHEAD):
                before = observed.earlier.get(place)
                waits = before is not None and before.offset <= committed.offset
                ahead = waits and _plainly(observed, partition, before) == NotYet(Reason.AHEAD)
                kept[place] = before if ahead and before is not None else committed
    return kept


def explain_group(observed: Observed, group: str) -> tuple[GroupLine, ...]:
    """Where a group stands: one line for each partition that it has committed, or one for the whole.

    Args:
        observed: a look that asked the target too.
        group: its name; it need not be one that there is.
    """
    listing = observed.source.get(group)
    if listing is None:
        return (GroupLine(group=group, standing=Standing.UNKNOWN),)
    refused = refusal(observed.flow, listing)
    if refused is not None:
        detail = f"protocol {listing.protocol}" if refused is Standing.NO_CONSUMERS else ""
        return (GroupLine(group=group, standing=refused, detail=detail),)
    if group in observed.unreadable:
        return (GroupLine(group=group, standing=Standing.UNREADABLE, detail=observed.unreadable[group]),)
    offsets = observed.offsets.get(group, {})
    if not offsets:
        return (GroupLine(group=group, standing=Standing.NO_OFFSETS),)
    return tuple(_line(observed, GroupPlace(group, partition)) for partition in sorted(offsets))


def obstacle(observed: Observed, group: str) -> tuple[Standing, str] | None:
    """Why nothing is committed for a group on the target, whatever its offsets; and what a cluster says of it."""
    listing = observed.target.get(group)
    if listing is not None and listing.kind in (GroupKind.SHARE, GroupKind.STREAMS):
        return Standing.OTHER_KIND_THERE, listing.kind.value
    if listing is not None and listing.active:
        return Standing.ACTIVE_THERE, listing.state
    if group in observed.unreadable_there:
        return Standing.UNREADABLE_THERE, observed.unreadable_there[group]
    if observed.operation.unreadable:
        return Standing.BACK_UNREADABLE, observed.operation.unreadable
    return (Standing.PLACING, "") if observed.operation.placing else None


def untold(observed: Observed) -> list[BackUnreadable | Stalled | InRing]:
    """What a round is to report where nothing is committed for many groups.

    Nothing tells what they have read: there is no record of the flow back, or a ring; or an operation places them.
    """
    reason = observed.back.unreadable or observed.operation.unreadable
    rows = [
        (group, place.topic) for group, own in observed.offsets.items() for place in own.keys() & observed.back.ring
    ]
    groups, topics = (tuple(sorted({row[column] for row in rows})) for column in (0, 1))
    ring = [InRing(groups=groups, topics=topics)] if rows else []
    stalled = [Stalled(operation=observed.operation.id)] if observed.stalled else []
    return [*([BackUnreadable(reason=reason)] if reason else []), *stalled, *ring]


def unread(actions: Sequence[object], flow: FlowConfig) -> list[Result]:
    """The same as results: nothing can be done about it here."""
    why = (
        f"no group offset is translated: the record of {flow.name.back}, which may write to the same topics or be "
        "placing groups, cannot be read"
    )
    found = [Result(action=one, failure=f"{why}: {one.reason}") for one in actions if isinstance(one, BackUnreadable)]
    waits = f"no group offset is committed: an operation of {flow.name.back} is placing groups and does not go on"
    remedy = "give its command again, or take it back with --abandon"
    found += [
        Result(action=one, failure=f"{waits}: {one.operation} ({remedy})")
        for one in actions
        if isinstance(one, Stalled)
    ]
    return [*found, *(Result(action=one, failure=_in_ring(one)) for one in actions if isinstance(one, InRing))]


def _in_ring(found: InRing) -> str:
    more = f" and {len(found.topics) - 1} more" if len(found.topics) > 1 else ""
    where = f"offsets of {len(found.groups)} groups are not translated in topic {found.topics[0]}{more}"
    return f"{where}: {Reason.RING.value}; set them on the target by hand, or name these groups in groups.exclude"


def _line(observed: Observed, place: GroupPlace) -> GroupLine:
    group, partition = place
    if partition.topic not in observed.renamed:
        committed = observed.offsets[group][partition].offset
        return GroupLine(group=group, standing=Standing.NOT_COPIED, partition=partition, committed=committed)
    found, result = _translated(observed, place)
    target = _target(observed, partition)
    there = observed.there.get(group, {}).get(target, Committed(NO_OFFSET)).offset
    standing, detail = _standing(observed, place, target, found, result, there)
    return GroupLine(
        group=group,
        standing=standing,
        partition=partition,
        target=target,
        committed=found.offset,
        translated=result.offset if isinstance(result, Translated) else NO_OFFSET,
        there=there,
        detail=detail,
    )


def _standing(
    observed: Observed,
    place: GroupPlace,
    target: TopicPartition,
    committed: Committed,
    result: Translation,
    there: int,
) -> tuple[Standing, str]:
    if isinstance(result, NotYet):
        return _WHY[result.reason], ""
    hindered = obstacle(observed, place.group)
    if hindered is not None:
        return hindered
    if place.partition.topic in observed.others:
        return Standing.OF_OTHERS, ""
    known = Known(
        place=place,
        target=GroupPlace(place.group, target),
        committed=committed,
        offset=result.offset,
        lies=result.place,
    )
    standing = _STANDS[verdict_on(observed, known)]
    if standing is Standing.LEFT_BEHIND:
        return standing, ""
    further = f"{there - result.offset} further; " if there > result.offset else ""
    return standing, further + result.place.value


def verdict_on(observed: Observed, known: Known) -> Verdict:
    """What becomes of the offset that a group without members has on the target."""
    (group, place), target = known.place, known.target.partition
    there = observed.there.get(group, {}).get(target, Committed(NO_OFFSET)).offset
    left = observed.left.has(group, place, known.committed.offset, observed.lost)
    return judge(there, known.commit, observed.commits.get(group, {}).get(target), left=left)


def has_new_metadata(observed: Observed, known: Known) -> bool:
    """Whether a group has committed the offset anew, with other metadata, that the target has by the flow's commit."""
    (group, place), target = known.place, known.target.partition
    there, commit = observed.there.get(group, {}).get(target), observed.commits.get(group, {}).get(target)
    if there is None or commit is None or observed.left.has(group, place, known.committed.offset, observed.lost):
        return False
    own = (there.offset, commit.downstream, commit.upstream) == (known.offset, known.offset, known.committed.offset)
    return own and there.metadata != known.committed.metadata


def _translated(observed: Observed, place: GroupPlace) -> tuple[Committed, Translation]:
    """What is translated, and to what: the offset that is committed now, else the one that was before."""
    committed, result = _by_maps(observed, place)
    return committed, _in_the_log(observed, place, result)


def _in_the_log(observed: Observed, place: GroupPlace, result: Translation) -> Translation:
    """The same, but not below the log start of the copy, where that was asked for."""
    if isinstance(result, NotYet) or (target := _target(observed, place.partition)) not in observed.log_starts:
        return result
    start = observed.log_starts[target]
    return NotYet(Reason.LOG_START_UNKNOWN) if start is None else still_there(result, start)


def _by_maps(observed: Observed, place: GroupPlace) -> tuple[Committed, Translation]:
    """The same, whatever the copy's log has lost to retention."""
    committed = observed.offsets[place.group][place.partition]
    placed = _placed(observed, place)
    if placed is not None and place.group not in observed.here:
        return committed, NotYet(Reason.PLACED)
    if (place.group, place.partition.topic) in observed.back.changing:
        return committed, NotYet(Reason.CHANGING)
    left = observed.left.has(place.group, place.partition, committed.offset, observed.lost)
    result = _plainly(observed, place.partition, committed, placed, left=left)
    before = observed.earlier.get(place)
    if result == NotYet(Reason.AHEAD) and before is not None and before.offset <= committed.offset:
        older = _plainly(observed, place.partition, before)
        if isinstance(older, Translated):
            return before, older
    return committed, result


def _translated_or_placed(observed: Observed, place: GroupPlace) -> tuple[Committed, Translation]:
    """The same, and what was placed by the flow back leads to where it stood there, as in a failover."""
    placed = _placed(observed, place)
    if placed is None:
        return _translated(observed, place)
    committed = observed.offsets[place.group][place.partition]
    return committed, _in_the_log(observed, place, _plainly(observed, place.partition, committed, placed))


def _placed(observed: Observed, place: GroupPlace) -> FlowCommit | None:
    """What the flow back itself has committed there last, if nobody has committed anything else since."""
    commit = observed.back.commit(place.group, place.partition, observed.offsets[place.group][place.partition].offset)
    if commit is None or place.partition.topic not in observed.renamed:
        return None
    return commit if commit.downstream == observed.offsets[place.group][place.partition].offset else None


def _plainly(
    observed: Observed,
    partition: TopicPartition,
    committed: Committed | None,
    placed: FlowCommit | None = None,
    *,
    left: bool = False,
) -> Translation:
    """What one offset of the source is on the target.

    Args:
        observed: what is known.
        partition: of the source.
        committed: there; None where nothing is.
        placed: what the flow back itself has committed there last, if that is it.
        left: whether that is what a group has left behind there. An operation has seen that nothing was left to be
            brought when it took the group from there: that the flow back has not gone on since says nothing new.
    """
    offsets = observed.maps.get(partition)
    if committed is None or offsets is None or partition.topic not in observed.renamed:
        return NotYet(Reason.NOTHING_MIRRORED)
    if partition in observed.back.ring:
        return NotYet(Reason.RING)
    end = observed.empty.get(partition) if committed.offset <= offsets.position else None
    found = translate(offsets, committed.offset, observed.inherited.get(partition))
    if observed.back.placing:
        return NotYet(Reason.PLACING)
    if observed.back.unreadable:
        return found if isinstance(found, NotYet) else NotYet(Reason.BACK_UNREADABLE)
    if partition in observed.unchecked | observed.back.unchecked:
        return found if isinstance(found, NotYet) else NotYet(Reason.UNCHECKED)
    back = observed.back.copies.get(partition)
    if left:
        return in_empty(meet_at_the_end(found, back, offsets, committed.offset), end)
    upstream = (
        None
        if back is None
        else not_beyond(upstream_of(back, committed.offset, offsets, found), committed.offset, placed)
    )
    settled = partition not in observed.under_way
    return in_empty(meet(found, upstream, offsets, committed.offset, settled=settled), end)


def _target(observed: Observed, partition: TopicPartition) -> TopicPartition:
    return TopicPartition(observed.renamed[partition.topic], partition.partition)
