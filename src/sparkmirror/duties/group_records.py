"""Puts on record what groups have committed on the source, for the day when it cannot be asked any more.

Checkpoints tell of groups that the mirror has passed, at their own interval; a failover wants the last word of each
group, of those that are ahead of the mirror too, and how old it is.

Invariants: what is written is what the source answered; a group that is gone leaves the record, when its coordinator
has said that it has no offsets; one whose offsets cannot be read keeps what is known of it. A cluster that has lost the
offsets of all groups, as one that was set up again under the same address has, does not say that groups are gone: what
was seen of them before stays on record for a failover. The same holds for groups whose offsets it has lost with the end
of ``__consumer_offsets``, until they commit again.

Whoever may commit offsets on the source says how large they are: metadata is left out of the record where a group has
too much of it for a topic, and a record that is too large all the same, or that the target refuses for its size, keeps
nobody else's from being written; the group counts as one that could not be read.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from sparkmirror.duties import lost_groups
from sparkmirror.duties.duty import Result, Sides
from sparkmirror.duties.groups import Unreadable, untranslatable
from sparkmirror.duties.known_maps import KnownMaps
from sparkmirror.duties.lost_groups import NOT_ASKED, NOT_PARTED, NOT_PLACED, Asked, Merged, OffsetsLog, Parted, Placed
from sparkmirror.duties.notes import Notes
from sparkmirror.duties.upstream_offsets import Upstream, UpstreamOffsets, upstream_on_record
from sparkmirror.errors import BrokerError, SparkmirrorError
from sparkmirror.events import now_ms, wall_time
from sparkmirror.kafka.codes import MESSAGE_TOO_LARGE
from sparkmirror.kafka.groups import OFFSETS_TOPIC, UNLISTED_MS, Offsets, fetch_offsets, list_groups
from sparkmirror.kafka.rounds import Results
from sparkmirror.kafka.store import Store
from sparkmirror.kafka.topic_ids import ids_of_topics
from sparkmirror.model import NO_OFFSET, TopicPartition
from sparkmirror.naming import group_filter
from sparkmirror.offsets import condensing
from sparkmirror.offsets.group_commits import Commits, records
from sparkmirror.offsets.group_records import ExactTarget, GroupLeft, GroupSeen, GroupsSeen, UpstreamOffset
from sparkmirror.offsets.left_offsets import KnownOffsets, Moved, came_back, renewed
from sparkmirror.offsets.records import Progress
from sparkmirror.offsets.translation import exact

NO_UPSTREAM: Upstream = {}

METADATA_CHARACTERS = 500_000
"""Of what a group has committed for a topic: less than the internal topic takes of a record, in any script."""

ALONE = 1_000
"""A record of more partitions is written by itself, since only one of these can be too large."""

LARGEST_BYTES = 8 << 20
"""Of such a record: ``max.message.bytes`` of the internal topic, and a fourth of what is opened of a batch."""

LISTED_MS = 15_000
"""So long groups without a coordinator keep others from being put on record: a dead broker's have another by then, or
are not listed any more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Remember:
    """What is new.

    Attributes:
        seen: what groups have committed, where it has changed.
        gone: the keys of records that hold no more.
        at: when the source was asked.
    """

    seen: tuple[GroupSeen, ...]
    gone: tuple[str, ...]
    at: GroupsSeen

    @property
    def change(self) -> None:
        """It happens all the time and changes no setting."""
        return


@dataclass(frozen=True, slots=True, kw_only=True)
class NoUpstream:
    """The record of the flow back cannot be read: offsets of groups in its copies keep the translation they had."""

    reason: str

    @property
    def change(self) -> None:
        """Nothing is changed."""
        return


@dataclass(frozen=True, slots=True, kw_only=True)
class MetadataLeftOut:
    """A group has committed too much metadata for a topic: its offsets are put on record without it."""

    group: str
    topic: str

    @property
    def change(self) -> None:
        """It changes no setting."""
        return

    @property
    def text(self) -> str:
        """The message for the operator."""
        return (
            f"group {self.group} has committed more than {METADATA_CHARACTERS} characters of metadata for "
            f"{self.topic}: its offsets are on record without it, and a failover moves it without it"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftBehind:
    """What groups have left behind on the source is not what is on record of it.

    Attributes:
        known: what is on record, by key.
        found: what groups have committed on the source.
        back: when operations of the flow back have moved groups to the source.
        lost: the groups and partitions of which the source has lost that.
    """

    known: Mapping[str, GroupLeft]
    found: KnownOffsets
    back: Moved
    lost: frozenset[tuple[str, TopicPartition]] = frozenset()

    @property
    def change(self) -> None:
        """It changes no setting."""
        return


@dataclass(frozen=True, slots=True, kw_only=True)
class Taken:
    """Where groups stand on the target since operations of the flow back took them from there.

    Attributes:
        commits: what goes on record as the flow's: nobody has used these groups there since.
    """

    commits: Commits

    @property
    def change(self) -> None:
        """It changes no setting."""
        return


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetsLost:
    """The source has lost the offsets of groups with the topic that held them: what was seen before stays on record.

    Attributes:
        groups: whose.
        time_ms: when these were seen last, milliseconds since 1970.
        in_part: whether that topic has lost its end, and not all.
    """

    groups: tuple[str, ...]
    time_ms: int
    in_part: bool = False

    @property
    def change(self) -> None:
        """Nothing is changed."""
        return

    def text(self, source: str) -> str:
        """The message for the operator.

        Args:
            source: the alias of the cluster.
        """
        more = ", …" if len(self.groups) > 1 else ""
        why = "is another cluster than the one where groups were seen, or has lost its offsets of groups"
        return (
            f"{source} {f'has lost the end of {OFFSETS_TOPIC}' if self.in_part else why}: "
            f"{len(self.groups)} groups ({self.groups[0]}{more}) stay on record as they were seen at "
            f"{wall_time(self.time_ms)}, and a failover goes by that"
        )


Action = Remember | Unreadable | NoUpstream | MetadataLeftOut | LeftBehind | Taken | OffsetsLost

Translate: TypeAlias = Callable[[TopicPartition, int], ExactTarget | None]
"""What an offset of the source is on the target, where that is known exactly."""


Chooses: TypeAlias = Callable[[str], bool]
"""Whether a group of that name is asked."""


def untold(_place: TopicPartition, _offset: int) -> ExactTarget | None:
    """Nothing is put on record beside what is there."""
    return None


class GroupRecords:
    """The duty of one flow."""

    name = "groups on record"

    def __init__(self, sides: Sides) -> None:
        told = sides.flow.groups
        self.interval_s = told.sync_interval_s if told.sync_enabled or told.checkpoints_enabled else None
        self._sides = sides
        self._upstream = UpstreamOffsets(sides)
        self._maps = KnownMaps(sides)
        self._notes: Notes[MetadataLeftOut] = Notes()

    def look(self) -> Sequence[Action]:
        """Asks the source, and compares with what is on record.

        Raises:
            SparkmirrorError: a cluster cannot be asked, or an expression of the flow cannot be used.
        """
        sides, timeout_ms = self._sides, self._sides.flow.admin_timeout_ms
        known: Mapping[str, GroupSeen] = {}
        before: GroupsSeen | None = None
        left: Mapping[str, GroupLeft] = {}
        if sides.store is not None:
            sides.store.follow()
            known, before = sides.store.state.groups, sides.store.state.groups_seen
            left = dict(sides.store.state.left)  # as it was before the source was asked
        before = before or GroupsSeen(time_ms=0)
        at, settled = now_ms(), self._settled()
        fetched, log = committed_before(sides, known, before, timeout_ms)
        unreadable = {name: str(failure) for name, failure in fetched.failed.items()}
        asked = replace(lost_groups.ask(sides.source, topics_of_gone(known, fetched), timeout_ms), log=log)
        translate = self._translate(fetched.found)
        ids = ids_where_committed(sides, sides.progress, fetched.found, timeout_ms)
        parted = NOT_PARTED if sides.store is None else lost_groups.parted_in(sides.store.state)
        seen = Seen(
            found=fetched.found, unreadable=unreadable, at_ms=at, asked=asked, ids=ids, settled=settled, parted=parted
        )
        try:
            seen = replace(seen, back_ms=self._upstream.order(), placed=self._upstream.placed(before.moved_ms))
            merged = lost_groups.with_lost(
                _answered(known, fetched.found), fetched.found, log, seen.placed, seen.parted
            )
            behind = left_behind(left, merged, self._upstream.moved() if left else {})
            taken = self._upstream.taken_from_target()
            upstream = self._upstream.of(merged.offsets, known)
        except SparkmirrorError as failure:
            kept = upstream_on_record(known, fetched.found)
            return (*decide(known, before, seen, kept, translate), NoUpstream(reason=str(failure)))
        first = (Taken(commits=taken),) if taken else ()  # a failback waits until groups are put on record
        return (*first, *decide(known, before, seen, upstream, translate), *behind)

    def _settled(self) -> Moved:
        """When operations of the flow back that have ended have moved groups; that it is not known is told later."""
        try:
            return self._upstream.moved()
        except SparkmirrorError:
            return {}

    def _translate(self, found: Mapping[str, Offsets]) -> Translate:
        """Where committed offsets lie on the target, while the offset map is exact there; only once it grows large."""
        store = self._sides.store
        if store is None or condensing.size_of(store.state) < self._sides.flow.offset_map_bytes // 2:
            return untold
        maps = self._maps.of({place for own in found.values() for place in own})
        return lambda place, offset: exact(maps[place], offset) if place in maps else None

    def apply(self, actions: Sequence[Action]) -> Sequence[Result]:
        """Writes what is new.

        Raises:
            SparkmirrorError: the target cannot be written to.
        """
        assert self._sides.store is not None  # a flow that does its duties was started
        results: list[Result] = []
        self._notes.stand(action for action in actions if isinstance(action, MetadataLeftOut))
        for action in actions:
            if isinstance(action, Remember):
                results += self._remember(self._sides.store, action)
            elif isinstance(action, LeftBehind):
                self._put_on_record(action)
            elif isinstance(action, Taken):
                written, _ = records(self._sides.store.state.committed, action.commits)
                self._sides.store.write(written)
            elif isinstance(action, NoUpstream):
                failure = f"the record of {self._sides.flow.name.back} cannot be read: {action.reason}"
                results.append(Result(action=action, failure=failure))
            elif isinstance(action, MetadataLeftOut):
                results += [Result(action=action, failure=action.text)] if self._notes.tell(action) else []
            elif isinstance(action, OffsetsLost):
                results.append(Result(action=action, failure=action.text(str(self._sides.source.alias))))
            else:
                results.append(Result(action=action, failure=f"group {action.group}: {action.reason}"))
        return results

    def _remember(self, store: Store, action: Remember) -> Iterator[Result]:
        """Writes what groups have committed; a record that is too large is left out, and told by the group's name."""
        refused: dict[str, str] = {}
        for one in action.seen:
            if len(one.offsets) > ALONE and (reason := _write_alone(store, one)):
                refused[one.group] = reason
                yield Result(action=action, failure=f"group {one.group} is not on record for {one.topic}: {reason}")
        small = [one for one in action.seen if len(one.offsets) <= ALONE]
        before = store.state.groups_seen or GroupsSeen(time_ms=0)
        unread = {group: before.read_ms(group) for group in refused} | dict(action.at.unread)
        store.write([*small, replace(action.at, unread=unread)], tombstones=action.gone)
        yield Result(action=action)

    def _put_on_record(self, behind: LeftBehind) -> None:
        """Writes what has changed, but nothing over what an operation has put there meanwhile."""
        assert self._sides.store is not None
        self._sides.store.follow()
        now = self._sides.store.state.left
        still = {key: one for key, one in behind.known.items() if now.get(key) == one}
        gone = came_back(still, behind.back)
        stays = {key: one for key, one in still.items() if key not in gone}
        written, settled = renewed(stays, behind.found, behind.lost)
        self._sides.store.write(written, tombstones=[*gone, *settled])


def _write_alone(store: Store, one: GroupSeen) -> str:
    """Writes a record that may be too large; gives why it could not."""
    size = len(one.value().encode())
    if size > LARGEST_BYTES:
        return f"its record would have {size} bytes, and at most {LARGEST_BYTES} are written"
    try:
        store.write([one])
    except BrokerError as refusal:
        if refusal.code != MESSAGE_TOO_LARGE:
            raise
        return str(refusal)
    return ""


def left_behind(known: Mapping[str, GroupLeft], merged: Merged, back: Moved) -> tuple[LeftBehind, ...]:
    """What is to be put on record of what groups have left behind, if it has changed.

    Args:
        known: what is on record, by key.
        merged: what groups have committed on the source.
        back: when operations of the flow back have moved groups to the source.
    """
    changed = any((*renewed(known, merged.known, merged.lost), came_back(known, back)))
    return (LeftBehind(known=known, found=merged.known, back=back, lost=merged.lost),) if changed else ()


def _answered(known: Mapping[str, GroupSeen], found: Container[str]) -> Iterator[GroupSeen]:
    """What is on record of groups that have answered."""
    return (one for one in known.values() if one.group in found)


def committed_now(
    sides: Sides,
    known: Mapping[str, GroupSeen],
    timeout_ms: int,
    *,
    complete: bool = False,
    chosen: Chooses | None = None,
) -> Results[str, Offsets]:
    """What the groups that the flow translates have committed on the source: all that it lists, and all on record.

    Args:
        sides: the flow and its clusters.
        known: what is on record, by key.
        timeout_ms: of each question.
        complete: whether each group has to answer, those that are listed with what transactions commit for them, and
            none may be missing in the list.
        chosen: says which groups are asked; without, those of the flow as it is configured.

    Raises:
        SparkmirrorError: the source cannot be asked; or not all groups, or one of them, if ``complete``.
    """
    chosen = group_filter(sides.flow).matches if chosen is None else chosen
    listed = list_groups(sides.source, timeout_ms, complete=complete)
    names = [name for name, listing in listed.items() if chosen(name) and untranslatable(listing) is None]
    fetch_ms = timeout_ms if complete else min(timeout_ms, LISTED_MS)
    fetched = fetch_offsets(sides.source, names, fetch_ms, stable=complete)
    if complete:
        fetched.complete()
    unlisted = _unlisted(known, listed, chosen)
    others = fetch_offsets(sides.source, unlisted, min(timeout_ms, UNLISTED_MS))
    if complete:
        others.complete()
    return _both(fetched, others)


def committed_before(
    sides: Sides,
    known: Mapping[str, GroupSeen],
    before: GroupsSeen,
    timeout_ms: int,
    *,
    complete: bool = False,
    chosen: Chooses | None = None,
) -> tuple[Results[str, Offsets], OffsetsLog]:
    """What groups have committed, and how far the topic with their offsets went after that.

    Where it has lost something groups are asked once more: they may have answered before the loss. One whose partition
    does not say whether it has counts as one that has not answered.

    Args:
        sides: the flow and its clusters.
        known: what is on record, by key.
        before: when that was asked for.
        timeout_ms: of each question.
        complete: as for `committed_now`.
        chosen: likewise.

    Raises:
        SparkmirrorError: as `committed_now`.
    """
    fetched, log = lost_groups.ask_with_lost(
        sides.source,
        lambda: committed_now(sides, known, timeout_ms, complete=complete, chosen=chosen),
        before,
        timeout_ms if complete else min(timeout_ms, UNLISTED_MS),
    )
    unknown = {
        group: lost_groups.not_known(sides.source, group, log) for group in fetched.found if log.is_silent(group)
    }
    found = {group: own for group, own in fetched.found.items() if group not in unknown}
    fetched = Results(found=found, failed={**fetched.failed, **unknown})
    if complete:
        fetched.complete()
    return fetched, log


def _unlisted(known: Mapping[str, GroupSeen], listed: Container[str], chosen: Chooses) -> list[str]:
    """Groups on record that no broker lists: deleted, or in a partition of ``__consumer_offsets`` without a leader."""
    names = {one.group for one in known.values()}
    return sorted(name for name in names if name not in listed and chosen(name))


def _both(one: Results[str, Offsets], other: Results[str, Offsets]) -> Results[str, Offsets]:
    return Results(found={**one.found, **other.found}, failed={**one.failed, **other.failed})


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """What the source has answered.

    Attributes:
        found: what groups have committed.
        unreadable: why that is not known, for some of them.
        at_ms: when it was asked, milliseconds since 1970.
        asked: what it has said of itself.
        ids: of the topics that are copied.
        back_ms: the order of the newest operation of the flow back; 0 where that is not known.
        settled: when operations of the flow back that had ended before groups were asked had moved groups, by their
            order.
        placed: where operations of the flow back have put groups since they were put on record.
        parted: where logs of the source have lost their end.
    """

    found: Mapping[str, Offsets]
    unreadable: Mapping[str, str]
    at_ms: int
    asked: Asked = NOT_ASKED
    ids: Mapping[str, str] = field(default_factory=dict)
    back_ms: int = 0
    settled: Moved = field(default_factory=dict)
    placed: Placed = NOT_PLACED
    parted: Parted = NOT_PARTED


def topics_of_gone(known: Mapping[str, GroupSeen], fetched: Results[str, Offsets]) -> set[str]:
    """The topics on record in which groups have nothing any more."""
    has = {(group, place.topic) for group, own in fetched.found.items() for place in own}
    some = (one for one in known.values() if one.group not in fetched.failed)
    return {one.topic for one in some if (one.group, one.topic) not in has}


def ids_where_committed(
    sides: Sides, progress: Mapping[TopicPartition, Progress], found: Mapping[str, Offsets], timeout_ms: int
) -> dict[str, str]:
    """The ids of the copied topics in which groups have committed, as the source has them now.

    The flow may not have found yet that a topic was deleted and created again: what groups have committed in the new
    one is no place in the one that was copied. Of a topic that is not there the id is the one that was copied, and so
    it is before Kafka 2.8.

    Raises:
        SparkmirrorError: the source cannot be asked.
    """
    copied = {place.topic: progress[place].topic_id for own in found.values() for place in own if place in progress}
    now = ids_of_topics(sides.source, copied, timeout_ms) if any(copied.values()) else {}
    return {name: now.get(name) or known for name, known in copied.items()}


def decide(
    known: Mapping[str, GroupSeen],
    before: GroupsSeen,
    seen: Seen,
    upstream: Upstream = NO_UPSTREAM,
    translate: Translate = untold,
) -> tuple[Action, ...]:
    """What is to be written, and what is to be told; the arguments are those of `news`."""
    return (
        news(known, before, seen, upstream, translate),
        *(Unreadable(group=group, reason=reason) for group, reason in sorted(seen.unreadable.items())),
        *_with_much_metadata(seen),
        *lost(known, before, seen),
    )


def lost(known: Mapping[str, GroupSeen], before: GroupsSeen, seen: Seen) -> tuple[OffsetsLost, ...]:
    """What is reported of groups whose offsets the source has lost; the arguments are those of `news`."""
    if not lost_groups.is_another(before.origin, seen.asked.origin):
        return _lost_in_part(known, before, seen)
    groups = tuple(sorted({known[key].group for key in _gone(known, seen)}))
    return (OffsetsLost(groups=groups, time_ms=before.time_ms),) if groups else ()


def _lost_in_part(known: Mapping[str, GroupSeen], before: GroupsSeen, seen: Seen) -> tuple[OffsetsLost, ...]:
    groups = _groups_with_lost(_present(known, seen, NO_UPSTREAM))
    since = max(map(before.read_ms, groups), default=0)
    return (OffsetsLost(groups=tuple(sorted(groups)), time_ms=since, in_part=True),) if groups else ()


def _present(known: Mapping[str, GroupSeen], seen: Seen, upstream: Upstream) -> dict[str, GroupSeen]:
    """What the source has answered, by key, with what it has lost of that as it was seen before."""
    present = {
        one.key: replace(one, topic_id=seen.ids.get(one.topic, ""))
        for group, offsets in seen.found.items()
        for one in records_of(group, offsets, seen.at_ms, upstream.get(group, {}))
    }
    for key, one in known.items():
        torn = seen.asked.log.has_torn(one.group)
        if one.group in seen.unreadable:
            before = lost_groups.unanswered(one) if torn else None
        else:
            before = lost_groups.seen_before(one, present.get(key), torn=torn, placed=seen.placed, parted=seen.parted)
        present |= {} if before is None else {key: before}
    return present


def news(
    known: Mapping[str, GroupSeen],
    before: GroupsSeen,
    seen: Seen,
    upstream: Upstream = NO_UPSTREAM,
    translate: Translate = untold,
) -> Remember:
    """What is to be written.

    Args:
        known: what is on record, by key.
        before: when that was asked for.
        seen: what the source has answered.
        upstream: where offsets lead to by the map of the flow the other way.
        translate: where offsets of the source lie on the target, or None where that is not to be put on record.
    """
    present = {
        key: with_targets(one, known.get(key), translate) for key, one in _present(known, seen, upstream).items()
    }
    written = [one for key, one in present.items() if key not in known or not _same(known[key], one)]
    gone = [key for key in _gone(known, seen) if key not in present]
    kept = lost_groups.kept(known, gone, before.origin, seen.asked)
    lost = kept and lost_groups.is_another(before.origin, seen.asked.origin)
    at = GroupsSeen(
        time_ms=before.time_ms if lost else seen.at_ms,
        unread={group: before.read_ms(group) for group in (*seen.unreadable, *_groups_with_lost(present))},
        origin=before.origin if lost or lost_groups.is_hidden(before.origin, seen.asked.origin) else seen.asked.origin,
        log=seen.asked.log.ends,
        back_ms=max(before.back_ms, seen.back_ms),
        moved_ms=max(before.moved_ms, _moved_ms(seen)),
    )
    return Remember(seen=tuple(written), gone=tuple(sorted(set(gone) - kept)), at=at)


def _moved_ms(seen: Seen) -> int:
    """Up to which operation of the flow back all groups that were moved are on record as they stood after that."""
    until = min((at for group, at in seen.settled.items() if group in seen.unreadable), default=math.inf)
    return max((at for at in seen.settled.values() if at < until), default=0)


def _with_much_metadata(seen: Seen) -> Iterator[MetadataLeftOut]:
    """Of topics that are copied: offsets in others are not moved by a failover."""
    for group, offsets in sorted(seen.found.items()):
        for topic, size in sorted(_metadata_sizes(offsets).items()):
            if topic in seen.ids and size > METADATA_CHARACTERS:
                yield MetadataLeftOut(group=group, topic=topic)


def _metadata_sizes(offsets: Offsets) -> dict[str, int]:
    sizes: dict[str, int] = {}
    for place, committed in offsets.items():
        sizes[place.topic] = sizes.get(place.topic, 0) + len(committed.metadata)
    return sizes


def _groups_with_lost(present: Mapping[str, GroupSeen]) -> set[str]:
    return {one.group for one in present.values() if one.lost}


def _gone(known: Mapping[str, GroupSeen], seen: Seen) -> list[str]:
    """The keys of what the source has nothing of any more, of the groups that it could be asked for."""
    has = {(group, place.topic) for group, own in seen.found.items() for place in own}
    some = {key: one for key, one in known.items() if one.group not in seen.unreadable}
    return [key for key, one in some.items() if (one.group, one.topic) not in has]


def with_targets(seen: GroupSeen, known: GroupSeen | None, translate: Translate) -> GroupSeen:
    """What a group has committed, with what that is on the target: as it is known now, or was when it was the same.

    Args:
        seen: what the group has committed.
        known: what is on record of it.
        translate: as for `decide`.
    """
    targets: dict[int, ExactTarget] = {}
    for number, (offset, _) in seen.offsets.items():
        target = translate(TopicPartition(seen.topic, number), offset)
        if target is None and known is not None and known.offsets.get(number, (NO_OFFSET, ""))[0] == offset:
            target = known.targets.get(number)
        if target is not None:
            targets[number] = target
    return replace(seen, targets=targets)


def records_of(
    group: str, offsets: Offsets, at_ms: int, upstream: Mapping[TopicPartition, UpstreamOffset] | None = None
) -> tuple[GroupSeen, ...]:
    """What a group has committed, a record for each topic; without the metadata of a topic where that is too much.

    Args:
        group: its name.
        offsets: what it has committed.
        at_ms: when that was seen, milliseconds since 1970.
        upstream: where offsets lead to by the map of the flow the other way.
    """
    topics: dict[str, dict[int, tuple[int, str]]] = {}
    sizes = _metadata_sizes(offsets)
    for place, committed in offsets.items():
        metadata = committed.metadata if sizes[place.topic] <= METADATA_CHARACTERS else ""
        topics.setdefault(place.topic, {})[place.partition] = (committed.offset, metadata)
    known: dict[str, dict[int, UpstreamOffset]] = {}
    for place, one in (upstream or {}).items():
        known.setdefault(place.topic, {})[place.partition] = one
    return tuple(
        GroupSeen(group=group, topic=topic, offsets=topics[topic], time_ms=at_ms, upstream=known.get(topic, {}))
        for topic in sorted(topics)
    )


def _same(one: GroupSeen, other: GroupSeen) -> bool:
    rows = [(each.offsets, each.upstream, each.targets, each.topic_id, each.lost) for each in (one, other)]
    return rows[0] == rows[1]
