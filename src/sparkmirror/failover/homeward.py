"""Where groups go on at the cluster that they came from, by the maps of both flows. Pure.

A copy's offset goes back through the map of the flow that made the copy; an offset of what was written here goes on
through the map of the flow that brings it there. Where names are kept both flows are about the same topic: the record
that a group would read next was born on one of the two clusters, and the map that knows it decides.

Invariants: nothing is guessed; a group at the end of a copy goes behind what only the other cluster has, where that was
put aside, since the flow does too; a group that has members there is not touched. A group goes on where it stands here,
also where it is further there: that dates from before its consumers came here. But one that this operation has moved
already, and that has been committed there since, stays.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from sparkmirror.failover.moves import GroupMove, MovedPlace, Standing
from sparkmirror.kafka.groups import Offsets
from sparkmirror.model import NO_OFFSET, TopicPartition
from sparkmirror.offsets.group_commits import Commits
from sparkmirror.offsets.inherited import Inherited
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
    translate_back,
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
        oldest: the first offset that partitions there still have.
        empty: the ends of partitions there that have no record.
        there: how the groups stand there.
        moved: the groups that the operation has moved already.
        commits: what the flow that goes there has committed there last, as it is on record.
    """

    offsets: Mapping[str, Offsets]
    seen_ms: int
    copies: Way
    local: Way
    beyond: Mapping[TopicPartition, int] = field(default_factory=dict)
    oldest: Mapping[TopicPartition, int] = field(default_factory=dict)
    empty: Mapping[TopicPartition, int] = field(default_factory=dict)
    there: Standing = field(default_factory=Standing)
    moved: frozenset[str] = frozenset()
    commits: Commits = field(default_factory=dict)


def decide(sight: HomewardSight) -> tuple[GroupMove, ...]:
    """Where every group goes on, by name in order."""
    return tuple(
        GroupMove(
            group=group,
            seen_ms=sight.seen_ms,
            places=tuple(_place(sight, group, here) for here in sorted(sight.offsets[group])),
            hindrance=sight.there.hindrance(group),
        )
        for group in sorted(sight.offsets)
    )


def _place(sight: HomewardSight, group: str, here: TopicPartition) -> MovedPlace:
    committed = sight.offsets[group][here]
    there = sight.copies.there(here) or sight.local.there(here)
    if there is None:
        return MovedPlace(partition=here, target=None, committed=committed, text="no flow has to do with the topic")
    before = sight.there.at(group, there)
    plain = in_empty(translate(sight, here, committed.offset), sight.empty.get(there))
    result = still_there(plain, sight.oldest.get(there))
    if isinstance(result, NotYet):
        return MovedPlace(partition=here, target=there, committed=committed, before=before, text=result.reason.value)
    found = MovedPlace(
        partition=here,
        target=there,
        committed=committed,
        offset=result.offset,
        before=before,
        exact=result.place.exact,
        text=result.place.value,
    )
    if _used_since(sight, group, found):
        return replace(found, offset=before, exact=True, text="committed there since the group was moved: left there")
    if before > result.offset:
        return replace(found, text=f"{found.text} (back from {before}, where it stood before it left)")
    return found


def _used_since(sight: HomewardSight, group: str, found: MovedPlace) -> bool:
    """Whether a group that was moved has been committed there since, by another than the flow."""
    assert found.target is not None
    commit = sight.commits.get(group, {}).get(found.target)
    own = commit is not None and commit.downstream == found.before
    return group in sight.moved and found.before not in (NO_OFFSET, found.offset) and not own


def translate(sight: HomewardSight, here: TopicPartition, committed: int) -> Translation:
    """Where an offset of this cluster leads on the other one."""
    back, on = _back(sight, here, committed), _on(sight, here, committed)
    if back is None or on is None:
        return back or on or NotYet(Reason.NOTHING_MIRRORED)
    if isinstance(back, Translated) and back.place is Place.RECORD:
        return back
    if isinstance(on, Translated) and (on.place is Place.RECORD or not _is_before_the_end(back)):
        return on
    return back


def _is_before_the_end(back: Translation) -> bool:
    """Whether copies lie behind the offset, so that the next record is one of them."""
    return isinstance(back, Translated) and back.place is not Place.END


def _back(sight: HomewardSight, here: TopicPartition, committed: int) -> Translation | None:
    there = sight.copies.there(here)
    offsets = None if there is None else sight.copies.maps.get(there)
    if there is None or offsets is None:
        return None
    found = translate_back(offsets, committed, sight.copies.inherited.get(there))
    if isinstance(found, Translated) and found.place is Place.END:
        return Translated(max(found.offset, sight.beyond.get(there, 0)), Place.END)
    return found


def _on(sight: HomewardSight, here: TopicPartition, committed: int) -> Translation | None:
    offsets = sight.local.maps.get(here) if here.topic in sight.local.names else None
    if offsets is None:
        return None
    return translate_at_the_end(offsets, committed, sight.local.inherited.get(here))
