"""Whether the offset that a group has on the target goes forward, goes back, or stays. Pure.

An offset that is further than its translation has one of three causes. The group was set back at the source. The target
lost the end of its log, and what was copied again lies lower. Or a consumer has used the group on the target. In the
first two cases nobody has read there, and a group that stays skips records; in the third it must stay. What tells them
apart is the flow's own record of what it has committed (`group_records.GroupCommitted`).

A group that an operation has taken to the target lives there: what it has left behind on the source moves it nowhere
(`left_offsets`). Where an operation of the flow back has taken it from the target again, the offset at which it stands
there counts as one of the flow's, since nobody has read on there (`duties.flow_back.taken_from_target`).

Invariants: an offset goes back only if the flow itself has committed that very offset, and nobody else has been seen to
commit since, so one that a consumer has committed never does; and one of the flow's never stays beyond its translation,
which is never too far, so that nothing is skipped. Where the offset map was thinned since, such a group reads some
records again. A commit is on record before it is made, as one that is tried: a reader that finds that offset on the
target knows that it is the flow's. Until it is on record as made, the one before counts too, also where it lies
above: the target may have lost the later one, and a consumer that has come from there to that very offset reads some
records again. A target that loses the end of ``__consumer_offsets`` has an earlier commit of the flow's: these stay on
record as long as they lie below the last, and are gone with it once another's is there. One that the target has lost
leaves the record in the round that finds the earlier one, since a consumer that reads on from there may come to it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from enum import Enum

from sparkmirror.model import NO_OFFSET, TopicPartition
from sparkmirror.offsets.group_records import FlowCommit, GroupCommitted


class Verdict(Enum):
    """What becomes of an offset on the target."""

    FORWARD = "it has an older offset, or none"
    LEVEL = "it is there"
    BACK_WITH_SOURCE = "the group was set back at the source"
    BACK_WITH_COPY = "its translation is lower now"
    LEFT = "it is further, by a commit that is not the flow's"
    LEFT_BEHIND = "an operation has taken the group there, and it goes on where it stands"

    @property
    def goes_back(self) -> bool:
        """Whether it goes back."""
        return self in (Verdict.BACK_WITH_SOURCE, Verdict.BACK_WITH_COPY)

    @property
    def commits(self) -> bool:
        """Whether the translation is to be committed."""
        return self is Verdict.FORWARD or self.goes_back


def judge(there: int, wanted: FlowCommit, commit: FlowCommit | None, *, left: bool = False) -> Verdict:
    """What becomes of the offset that a group without members has on the target.

    Args:
        there: that offset, or `NO_OFFSET`.
        wanted: what would be committed now.
        commit: what the flow itself has committed there last and before, as far as is on record.
        left: whether what the group has committed on the source is what it has left behind there.
    """
    verdict = _by_offsets(there, wanted, commit)
    return Verdict.LEFT_BEHIND if left and verdict not in (Verdict.LEVEL, Verdict.BACK_WITH_COPY) else verdict


def _by_offsets(there: int, wanted: FlowCommit, commit: FlowCommit | None) -> Verdict:
    if there == NO_OFFSET or there < wanted.downstream:
        return Verdict.FORWARD
    if there == wanted.downstream:
        return Verdict.LEVEL
    own = None if commit is None else commit.at(there)
    if own is None:
        return Verdict.LEFT
    return Verdict.BACK_WITH_SOURCE if wanted.upstream < own.upstream else Verdict.BACK_WITH_COPY


Commits = Mapping[str, Mapping[TopicPartition, FlowCommit]]
"""By group and partition of the target."""

NO_COMMITS: Commits = {}

Void = Iterable[tuple[str, TopicPartition]]
"""Groups and partitions of which the target no longer has the flow's commit."""


def merged(*some: Commits) -> dict[str, dict[TopicPartition, FlowCommit]]:
    """All commits together; of one partition the last one counts, with those before it."""
    found: dict[str, dict[TopicPartition, FlowCommit]] = {}
    for commits in some:
        for group, own in commits.items():
            before = found.setdefault(group, {})
            before |= {place: commit.after(before.get(place)) for place, commit in own.items()}
    return found


def trying(known: Mapping[str, GroupCommitted], new: Commits) -> tuple[GroupCommitted, ...]:
    """What is to be written before commits are made: a driver that dies after the target has taken them knows them.

    Args:
        known: what is on record, by key.
        new: the commits.
    """
    changed: dict[str, GroupCommitted] = {}
    for group, own in new.items():
        for place, commit in own.items():
            one = GroupCommitted(group=group, topic=place.topic, commits={})
            before = changed.get(one.key) or known.get(one.key) or one
            changed[one.key] = replace(before, tried={**before.tried, place.partition: commit})
    return tuple(changed.values())


def landed(tried: Commits, there: Mapping[str, Mapping[TopicPartition, tuple[int, str]]]) -> Commits:
    """Those of the commits that were about to be made that the target has taken.

    Args:
        tried: the commits.
        there: what groups have on the target, offsets with their metadata.
    """
    return {
        group: {
            place: commit
            for place, commit in own.items()
            if there.get(group, {}).get(place, (NO_OFFSET, ""))[0] == commit.downstream
        }
        for group, own in tried.items()
    }


def records(
    known: Mapping[str, GroupCommitted], new: Commits, void: Void = (), settled: Iterable[str] = ()
) -> tuple[tuple[GroupCommitted, ...], tuple[str, ...]]:
    """What is to be written so that these commits are on record, and the keys of the records that are to be removed.

    Args:
        known: what is on record, by key.
        new: commits that the target has taken.
        void: what is no longer there.
        settled: groups of which it is known which commits that were about to be made the target has taken.
    """
    groups = set(settled)
    changed = {key: replace(one, tried={}) for key, one in known.items() if one.tried and one.group in groups}
    for group, place, commit in (
        *((group, place, None) for group, place in void),
        *((group, place, commit) for group, own in new.items() for place, commit in own.items()),
    ):
        one = GroupCommitted(group=group, topic=place.topic, commits={})
        before = changed.get(one.key) or known.get(one.key) or one
        rows = {number: row for number, row in before.commits.items() if number != place.partition}
        if commit is not None:
            rows[place.partition] = commit.after(before.commits.get(place.partition))
        tried = {number: row for number, row in before.tried.items() if number != place.partition}
        changed[one.key] = replace(one, commits=rows, tried=tried)
    kept = tuple(one for key, one in changed.items() if (one.commits or one.tried) and one != known.get(key))
    return kept, tuple(key for key, one in changed.items() if not one.commits and not one.tried and key in known)


def void(
    commits: Commits, there: Mapping[str, Mapping[TopicPartition, tuple[int, str]]], unknown: Iterable[str]
) -> list[tuple[str, TopicPartition]]:
    """Where the target has none of the flow's commits that are on record: a consumer has used the group.

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
        if commit.at(there.get(group, {}).get(place, (NO_OFFSET, ""))[0]) is None
    ]


def fallen_back(
    commits: Commits, there: Mapping[str, Mapping[TopicPartition, tuple[int, str]]]
) -> dict[str, dict[TopicPartition, FlowCommit]]:
    """Where the target has an earlier commit of the flow's, and that: it has lost the end of ``__consumer_offsets``.

    Args:
        commits: the flow's, as they are on record.
        there: what the target has, offsets with their metadata.
    """
    found: dict[str, dict[TopicPartition, FlowCommit]] = {}
    for group, own in commits.items():
        for place in own.keys() & there.get(group, {}).keys():
            one = own[place].at(there[group][place][0])
            if one is not None and one is not own[place]:
                found.setdefault(group, {})[place] = one
    return found
