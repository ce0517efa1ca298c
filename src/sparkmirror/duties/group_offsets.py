"""Commits translated offsets on the target, so that a group can go on there without being told anything.

Invariants: a group that has members on the target is never touched; brokers refuse it, should one join meanwhile. An
offset on the target goes back only if the flow itself has committed it, and nobody since: along with the source's, or
when its record lies lower on the target now (`offsets.group_commits`). None is committed below the log start of the
copy. What a group has left behind on the source, since an operation has taken it to the target, takes it nowhere there
(`offsets.left_offsets`). A commit is on record before it is made, and as made when the target has taken it; one that is
replaced there by another's leaves the record, and so does one that the target has lost. The metadata of the commit is
kept, and follows where a consumer commits the same offset anew with other metadata. Nothing is committed once a
failback has begun to place groups, nor after it what was decided before (`flow_back`); nor in a topic that the target
had before and that is not the flow's copy (`own_copies`): a group of that name there reads the target's own records.

Reference: ``MirrorCheckpointTask.syncGroupOffset``, which never goes back (KIP-545).
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from sparkmirror.duties.duty import Change, Result, Sides, Sign
from sparkmirror.duties.flow_back import NO_OPERATION, LastOperation, OutdatedError
from sparkmirror.duties.group_look import GroupLook
from sparkmirror.duties.groups import (
    BackUnreadable,
    InRing,
    Known,
    Observed,
    Stalled,
    Standing,
    committable,
    has_new_metadata,
    may_lie_below,
    obstacle,
    unread,
    untold,
    verdict_on,
)
from sparkmirror.duties.notes import Notes
from sparkmirror.errors import BrokerError
from sparkmirror.kafka.groups import HAS_MEMBERS, ChangedError, Committed, Offsets, commit_offsets
from sparkmirror.model import Alias, TopicPartition
from sparkmirror.offsets import group_commits
from sparkmirror.offsets.group_commits import (
    Commits,
    Verdict,
    fallen_back,
    landed,
    merged,
    records,
    void,
)
from sparkmirror.offsets.group_records import FlowCommit

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
        back: the partitions that go back, and why.
        operation: the newest one of the flow back that this was decided after.
    """

    cluster: Alias
    group: str
    offsets: Mapping[TopicPartition, Committed]
    upstream: Mapping[TopicPartition, int]
    new: bool = False
    back: Mapping[TopicPartition, Verdict] = field(default_factory=dict)
    operation: LastOperation = NO_OPERATION

    @property
    def change(self) -> Change | None:
        """A group that is new on the target, or goes back there; going forward happens all the time."""
        what = f"group {self.group}"
        if self.new:
            detail = f"offsets of {len(self.offsets)} partitions"
            return Change(cluster=self.cluster, sign=Sign.ADD, what=what, detail=detail)
        if self.back:
            told = (f"{place} to {self.offsets[place].offset} ({why.value})" for place, why in self.back.items())
            detail = f"goes back: {', '.join(told)}"
            return Change(cluster=self.cluster, sign=Sign.CHANGE, what=what, detail=detail)
        return None

    @property
    def commits(self) -> dict[TopicPartition, FlowCommit]:
        """The same for the record."""
        return {place: FlowCommit(one.offset, self.upstream[place]) for place, one in self.offsets.items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class Hindered:
    """A group whose offsets are not committed for a reason that somebody should mend."""

    group: str
    reason: str

    @property
    def change(self) -> None:
        """Nothing is changed."""
        return


@dataclass(frozen=True, slots=True, kw_only=True)
class OfOthers:
    """A topic that is not the flow's copy, in which groups of the source would get offsets on the target."""

    cluster: Alias
    source: str
    topic: str

    @property
    def change(self) -> Change:
        """A line for the topic."""
        detail = (
            f"held records of others when the flow began: no offsets of groups are committed there; set "
            f"topics.append = {self.source} if it is the copy"
        )
        return Change(cluster=self.cluster, sign=Sign.NOTE, what=f"topic {self.topic}", detail=detail)


@dataclass(frozen=True, slots=True, kw_only=True)
class PutOnRecord:
    """The record of the flow's own commits is behind what the target has.

    Attributes:
        commits: that the target has taken in an earlier round, and that could not be put on record then; and earlier
            ones that it has again, since it has lost what came after.
        void: groups and partitions that have another offset on the target now.
        settled: groups of which it is seen which commits that were about to be made the target has taken.
    """

    commits: Commits
    void: tuple[tuple[str, TopicPartition], ...]
    settled: tuple[str, ...] = ()

    @property
    def change(self) -> None:
        """It changes no setting."""
        return


Action = CommitOffsets | Hindered | OfOthers | PutOnRecord | BackUnreadable | Stalled | InRing


class GroupOffsets:
    """The duty of one flow."""

    name = "group offsets"

    def __init__(self, sides: Sides) -> None:
        told = sides.flow.groups
        self.interval_s = told.sync_interval_s if told.sync_enabled else None
        self._sides = sides
        self._groups = GroupLook(sides)
        self._there: Mapping[str, Offsets] = {}
        self._notes: Notes[OfOthers] = Notes()

    def look(self) -> Sequence[Action]:
        """Translates what groups have committed, and compares with what they have on the target.

        Raises:
            SparkmirrorError: a cluster cannot be asked.
        """
        seen = self._groups.look(target=True)
        seen = self._groups.with_log_starts(seen, log_starts_needed(seen))
        self._there = seen.there
        found = decide(seen)
        self._notes.stand(one for one in found if isinstance(one, OfOthers))
        return found

    def apply(self, actions: Sequence[Action]) -> Sequence[Result]:
        """Commits, and then puts on record what the target has taken.

        A group that has got members meanwhile, or that others have committed for, is left alone, and so has no result;
        nor has one that was not committed since a failback has gone on meanwhile.

        Raises:
            SparkmirrorError: the target cannot be asked, or the flow's internal topic cannot be written.
        """
        commits = {one.group: one for one in actions if isinstance(one, CommitOffsets)}
        wanted = {group: one.offsets for group, one in commits.items()}
        seen = next((one.operation for one in commits.values()), NO_OPERATION)
        timeout_ms = self._sides.flow.admin_timeout_ms
        self._put_on_record({}, [one for one in actions if isinstance(one, PutOnRecord)], trying=commits)
        target = self._sides.target
        done = commit_offsets(target, wanted, timeout_ms, prove=lambda: self._groups.prove(seen), there=self._there)
        results = [
            Result(action=one, failure=f"group {one.group}: {one.reason}")
            for one in actions
            if isinstance(one, Hindered)
        ]
        results += unread(actions, self._sides.flow)
        results += [Result(action=one) for one in actions if isinstance(one, OfOthers) and self._notes.tell(one)]
        taken: dict[str, Mapping[TopicPartition, FlowCommit]] = {}
        refused: list[str] = []
        for group, action in commits.items():
            failure = done.failed.get(group)
            if isinstance(failure, BrokerError) and failure.code in HAS_MEMBERS:
                log.debug("group %s has got members on %s: %s", group, action.cluster, failure)
                refused.append(group)
                continue
            if isinstance(failure, ChangedError):
                log.debug("group %s has been used on %s: %s", group, action.cluster, failure)
                refused.append(group)
                continue
            if isinstance(failure, OutdatedError):
                log.debug("group %s is not committed: %s", group, failure, extra={"flow": str(self._sides.flow.name)})
                continue
            if failure is None:
                taken[group] = action.commits
            results.append(Result(action=action, failure="" if failure is None else str(failure)))
        if refused and self._sides.store is not None:
            self._sides.store.follow()  # that these were tried is on record, and what stands there is not the flow's
        self._put_on_record(taken, [PutOnRecord(commits={}, void=(), settled=tuple(refused))] if refused else ())
        return results

    def _put_on_record(
        self, taken: Commits, behind: Sequence[PutOnRecord] = (), trying: Mapping[str, CommitOffsets] | None = None
    ) -> None:
        """Writes what the target has taken, what it has not any more, and what is about to be committed."""
        store = self._sides.store
        assert store is not None  # a flow that does its duties was started
        made = merged(*(one.commits for one in behind), taken)
        replaced = [each for one in behind for each in one.void]
        settled = [group for one in behind for group in one.settled]
        written, removed = records(store.state.committed, made, replaced, settled)
        store.write(written, tombstones=removed)
        if trying:
            if written or removed:
                store.follow()
            tried = group_commits.trying(store.state.committed, {group: one.commits for group, one in trying.items()})
            store.write(tried)


def log_starts_needed(observed: Observed) -> set[TopicPartition]:
    """The copies whose log start has to be known before `decide`, with the same argument."""
    open_ones = {group for group in observed.offsets if obstacle(observed, group) is None}
    return {
        known.target.partition
        for known in committable(observed)
        if known.place.group in open_ones and may_lie_below(known, verdict_on(observed, known))
    }


def decide(observed: Observed) -> tuple[Action, ...]:
    """What is to be committed.

    Args:
        observed: a look that asked the target too.
    """
    by_group: dict[str, list[Known]] = {}
    for known in committable(observed):
        by_group.setdefault(known.place.group, []).append(known)
    actions: list[Action] = []
    for group, translated in by_group.items():
        hindered = obstacle(observed, group)
        if hindered is None:
            actions += _commits(observed, group, translated)
        elif hindered[0] is Standing.UNREADABLE_THERE:
            actions.append(Hindered(group=group, reason=hindered[1]))
    outdated = tuple(void(observed.commits, observed.there, observed.unreadable_there))
    settled = tuple(group for group in observed.tried if group not in observed.unreadable_there)
    fallen = fallen_back(observed.commits, observed.there)
    if outdated or settled or fallen:
        made = merged(landed(observed.tried, observed.there), fallen)
        actions.append(PutOnRecord(commits=made, void=outdated, settled=settled))
    actions += untold(observed)
    alias, renamed = observed.flow.target.alias, observed.renamed
    actions += [OfOthers(cluster=alias, source=one, topic=renamed[one]) for one in sorted(observed.others)]
    return (*actions, *(Hindered(group=group, reason=reason) for group, reason in sorted(observed.unreadable.items())))


def _commits(observed: Observed, group: str, known: Sequence[Known]) -> list[CommitOffsets]:
    verdicts = {one.target.partition: verdict_on(observed, one) for one in known}
    wanted = [one for one in known if verdicts[one.target.partition].commits or has_new_metadata(observed, one)]
    if not wanted:
        return []
    return [
        CommitOffsets(
            cluster=observed.flow.target.alias,
            group=group,
            offsets={one.target.partition: Committed(one.offset, one.committed.metadata) for one in wanted},
            upstream={one.target.partition: one.committed.offset for one in wanted},
            new=group not in observed.target,
            back={place: verdict for place, verdict in verdicts.items() if verdict.goes_back},
            operation=observed.operation,
        )
    ]
