"""Commits translated offsets on the target, so that a group can go on there without being told anything.

Invariants: a group that has members on the target is never touched; brokers refuse it, should one join meanwhile. An
offset on the target goes forward only, unless the group went back at the source since it was looked at last; that a
group went back while it was active on the target is forgotten, since it has a life of its own there. The metadata of
the commit is kept.

Reference: ``MirrorCheckpointTask.syncGroupOffset``, which never goes back (KIP-545).
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sparkmirror.duties.checkpoints_topic import CheckpointsTopic
from sparkmirror.duties.duty import Change, Result, Sides, Sign
from sparkmirror.duties.group_look import GroupLook
from sparkmirror.duties.groups import GroupPlace, Known, Observed, Standing, obstacle, translations
from sparkmirror.errors import BrokerError
from sparkmirror.kafka.groups import HAS_MEMBERS, Committed, commit_offsets
from sparkmirror.model import Alias, TopicPartition

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitOffsets:
    """Offsets to be committed for one group.

    Attributes:
        cluster: the target.
        group: the group.
        offsets: by partition of the target.
        upstream: the same places on the source, by partition of the target.
        new: whether the target has no such group.
        back: the partitions that go back.
    """

    cluster: Alias
    group: str
    offsets: Mapping[TopicPartition, Committed]
    upstream: Mapping[TopicPartition, int]
    new: bool = False
    back: tuple[TopicPartition, ...] = ()

    @property
    def change(self) -> Change | None:
        """A group that is new on the target, or goes back there; going forward happens all the time."""
        what = f"group {self.group}"
        if self.new:
            detail = f"offsets of {len(self.offsets)} partitions"
            return Change(cluster=self.cluster, sign=Sign.ADD, what=what, detail=detail)
        if self.back:
            told = ", ".join(f"{place} to {self.offsets[place].offset}" for place in self.back)
            return Change(
                cluster=self.cluster, sign=Sign.CHANGE, what=what, detail=f"goes back as at the source: {told}"
            )
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Hindered:
    """A group whose offsets are not committed for a reason that somebody should mend."""

    group: str
    reason: str

    @property
    def change(self) -> None:
        """Nothing is changed."""
        return


Action = CommitOffsets | Hindered


class GroupOffsets:
    """The duty of one flow."""

    name = "group offsets"

    def __init__(self, sides: Sides) -> None:
        told = sides.flow.groups
        self.interval_s = told.sync_interval_s if told.sync_enabled else None
        self._sides = sides
        self._groups = GroupLook(sides)
        self._before: dict[GroupPlace, int] | None = None

    def look(self) -> Sequence[Action]:
        """Translates what groups have committed, and compares with what they have on the target.

        Raises:
            SparkmirrorError: a cluster cannot be asked.
        """
        before = self._from_checkpoints() if self._before is None else self._before
        observed = self._groups.look(target=True)
        actions = decide(observed, before)
        waiting = {
            GroupPlace(one.group, place) for one in actions if isinstance(one, CommitOffsets) for place in one.offsets
        }
        seen = {known.target: known.committed.offset for known in translations(observed)}
        self._before = before | {place: offset for place, offset in seen.items() if place not in waiting}
        return actions

    def apply(self, actions: Sequence[Action]) -> Sequence[Result]:
        """Commits; a group that has got members meanwhile is left alone, and so has no result.

        Raises:
            SparkmirrorError: the target cannot be asked.
        """
        commits = {one.group: one for one in actions if isinstance(one, CommitOffsets)}
        wanted = {group: one.offsets for group, one in commits.items()}
        done = commit_offsets(self._sides.target, wanted, self._sides.flow.admin_timeout_ms)
        results = [
            Result(action=one, failure=f"group {one.group}: {one.reason}")
            for one in actions
            if isinstance(one, Hindered)
        ]
        for group, action in commits.items():
            failure = done.failed.get(group)
            if isinstance(failure, BrokerError) and failure.code in HAS_MEMBERS:
                log.debug("group %s has got members on %s: %s", group, action.cluster, failure)
                continue
            if failure is None and self._before is not None:
                self._before |= {GroupPlace(group, place): offset for place, offset in action.upstream.items()}
            results.append(Result(action=action, failure="" if failure is None else str(failure)))
        return results

    def _from_checkpoints(self) -> dict[GroupPlace, int]:
        """Where groups were on the source when they were written last, as the checkpoints topic tells it."""
        topic = CheckpointsTopic(self._sides)
        topic.follow()
        return {place: checkpoint.upstream for place, checkpoint in topic.newest.items()}


def decide(observed: Observed, before: Mapping[GroupPlace, int]) -> tuple[Action, ...]:
    """What is to be committed.

    Args:
        observed: a look that asked the target too.
        before: by group and partition of the target, where the group was on the source when it was looked at last.
    """
    by_group: dict[str, list[Known]] = {}
    for known in translations(observed):
        by_group.setdefault(known.place.group, []).append(known)
    actions: list[Action] = []
    for group, translated in by_group.items():
        hindered = obstacle(observed, group)
        if hindered is None:
            actions += _commits(observed, group, translated, before)
        elif hindered[0] is Standing.UNREADABLE_THERE:
            actions.append(Hindered(group=group, reason=hindered[1]))
    return (*actions, *(Hindered(group=group, reason=reason) for group, reason in sorted(observed.unreadable.items())))


def _commits(
    observed: Observed, group: str, known: Sequence[Known], before: Mapping[GroupPlace, int]
) -> list[CommitOffsets]:
    there = observed.there.get(group, {})
    wanted: list[Known] = []
    back: list[TopicPartition] = []
    for one in known:
        place = one.target.partition
        if place not in there or there[place].offset < one.offset:
            wanted.append(one)
        elif there[place].offset > one.offset and before.get(one.target, -1) > one.committed.offset:
            wanted.append(one)
            back.append(place)
    if not wanted:
        return []
    return [
        CommitOffsets(
            cluster=observed.flow.target.alias,
            group=group,
            offsets={one.target.partition: Committed(one.offset, one.committed.metadata) for one in wanted},
            upstream={one.target.partition: one.committed.offset for one in wanted},
            new=group not in observed.target,
            back=tuple(back),
        )
    ]
