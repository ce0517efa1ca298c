"""Whether the offset that a group has on the target goes forward, goes back, or stays. Pure.

An offset that is further than its translation has one of three causes. The group was set back at the source. The target
lost the end of its log, and what was copied again lies lower. Or a consumer has used the group on the target. In the
first two cases nobody has read there, and a group that stays skips records; in the third it must stay. What tells them
apart is the flow's own record of what it has committed (`group_records.GroupCommitted`).

Invariants: an offset goes back only if the flow itself has committed that very offset last; so what a consumer has
committed never goes back. One that is certainly too far, by the flow's own commit, never stays. Where the translation
is approximate, one that may still be right stays, unless the group went back at the source.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import Enum
from typing import NamedTuple

from sparkmirror.model import NO_OFFSET, TopicPartition
from sparkmirror.offsets.group_records import FlowCommit, GroupCommitted


class Downstream(NamedTuple):
    """A committed offset of the source, and its translation.

    Attributes:
        upstream: on the source.
        offset: on the target; never beyond the right one.
        furthest: the greatest offset that the right one may be; the same where the translation is exact.
    """

    upstream: int
    offset: int
    furthest: int


class Verdict(Enum):
    """What becomes of an offset on the target."""

    FORWARD = "it has an older offset, or none"
    LEVEL = "it is there"
    BACK_WITH_SOURCE = "the group was set back at the source"
    BACK_WITH_COPY = "its record lies lower on the target now"
    LEFT = "it is further, by a commit that is not the flow's"

    @property
    def goes_back(self) -> bool:
        """Whether it goes back."""
        return self in (Verdict.BACK_WITH_SOURCE, Verdict.BACK_WITH_COPY)

    @property
    def commits(self) -> bool:
        """Whether the translation is to be committed."""
        return self is Verdict.FORWARD or self.goes_back


def judge(there: int, wanted: Downstream, commit: FlowCommit | None) -> Verdict:
    """What becomes of the offset that a group without members has on the target.

    Args:
        there: that offset, or `NO_OFFSET`.
        wanted: where it is to be.
        commit: what the flow itself has committed there last, as far as is on record.
    """
    if there == NO_OFFSET or there < wanted.offset:
        return Verdict.FORWARD
    if there == wanted.offset:
        return Verdict.LEVEL
    if commit is None or commit.downstream != there:
        return Verdict.LEFT
    if wanted.upstream < commit.upstream:
        return Verdict.BACK_WITH_SOURCE
    return Verdict.BACK_WITH_COPY if there > wanted.furthest else Verdict.LEVEL


Commits = Mapping[str, Mapping[TopicPartition, FlowCommit]]
"""By group and partition of the target."""

NO_COMMITS: Commits = {}


def merged(*some: Commits) -> dict[str, dict[TopicPartition, FlowCommit]]:
    """All commits together; of one partition the last one counts."""
    found: dict[str, dict[TopicPartition, FlowCommit]] = {}
    for commits in some:
        for group, own in commits.items():
            found.setdefault(group, {}).update(own)
    return found


def without(commits: Commits, void: Iterable[tuple[str, TopicPartition]]) -> dict[str, dict[TopicPartition, FlowCommit]]:
    """All commits but those of these groups and partitions."""
    gone = set(void)
    return {
        group: {place: commit for place, commit in own.items() if (group, place) not in gone}
        for group, own in commits.items()
    }


def records(
    known: Mapping[str, GroupCommitted], new: Commits, void: Iterable[tuple[str, TopicPartition]] = ()
) -> tuple[tuple[GroupCommitted, ...], tuple[str, ...]]:
    """What is to be written so that these commits are on record, and the keys of the records that are to be removed.

    Args:
        known: what is on record, by key.
        new: commits that the target has taken.
        void: groups and partitions of which the target no longer has the flow's commit.
    """
    changed: dict[str, GroupCommitted] = {}
    for group, place, commit in (
        *((group, place, None) for group, place in void),
        *((group, place, commit) for group, own in new.items() for place, commit in own.items()),
    ):
        one = GroupCommitted(group=group, topic=place.topic, commits={})
        before = changed.get(one.key) or known.get(one.key) or one
        rows = {number: row for number, row in before.commits.items() if number != place.partition}
        rows |= {} if commit is None else {place.partition: commit}
        changed[one.key] = GroupCommitted(group=group, topic=place.topic, commits=rows)
    kept = tuple(one for key, one in changed.items() if one.commits and one != known.get(key))
    return kept, tuple(key for key, one in changed.items() if not one.commits and key in known)


def void(
    commits: Commits, there: Mapping[str, Mapping[TopicPartition, tuple[int, str]]], unknown: Iterable[str]
) -> list[tuple[str, TopicPartition]]:
    """Where the target has another offset than the flow has committed last, or none: a consumer has used the group.

    Args:
        commits: the flow's, as they are on record.
        there: what the target has, offsets with their metadata.
        unknown: the groups of which that is not known.
    """
    untold = set(unknown)
    return [
        (group, place)
        for group, own in commits.items()
        if group not in untold
        for place, commit in own.items()
        if there.get(group, {}).get(place, (NO_OFFSET, ""))[0] != commit.downstream
    ]
