"""Writes MirrorMaker 2's checkpoints: for each group and partition, what its committed offset is on the target.

Clients read them (``RemoteClusterUtils.translateOffsets``) to go on at the target where they were at the source. The
bytes and the rules are MirrorMaker 2's, the numbers are exact.

Invariant: a checkpoint is written when it is further on the target, when the group went back at the source, or when
the newest one is too far, since the target lost the end of its log and the record lies lower now. Otherwise it never
takes a group back. None names a record below the log start of the copy. What was written is read back from the topic,
so a restart changes nothing. A group that the flow back has placed on the source has a checkpoint too: that nothing is
committed for it must not leave an older one.

Reference: ``MirrorCheckpointTask.checkpointIsMoreRecent``, which knows the first two.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sparkmirror.duties.checkpoints_topic import CheckpointsTopic
from sparkmirror.duties.duty import Result, Sides, each
from sparkmirror.duties.group_look import GroupLook
from sparkmirror.duties.groups import (
    BackUnreadable,
    GroupPlace,
    InRing,
    Known,
    Observed,
    Stalled,
    Unreadable,
    may_lie_below,
    translations_with_placed,
    unread,
    untold,
)
from sparkmirror.duties.mirror_topics import CreateTopic
from sparkmirror.errors import SparkmirrorError
from sparkmirror.mm2.checkpoints import Checkpoint
from sparkmirror.model import TopicPartition
from sparkmirror.offsets.group_commits import Verdict, judge
from sparkmirror.offsets.group_records import FlowCommit


@dataclass(frozen=True, slots=True, kw_only=True)
class Emit:
    """A checkpoint is to be written."""

    checkpoint: Checkpoint

    @property
    def change(self) -> None:
        """It happens all the time and changes no setting."""
        return


Action = CreateTopic | Emit | Unreadable | BackUnreadable | Stalled | InRing


class Checkpoints:
    """The duty of one flow."""

    name = "checkpoints"

    def __init__(self, sides: Sides) -> None:
        told = sides.flow.groups
        self.interval_s = told.checkpoints_interval_s if told.checkpoints_enabled else None
        self._sides = sides
        self._groups = GroupLook(sides)
        self._topic = CheckpointsTopic(sides)

    def look(self) -> Sequence[Action]:
        """Translates what groups have committed, and compares with what the topic says.

        Raises:
            SparkmirrorError: a cluster cannot be asked.
        """
        there = self._topic.follow()
        seen = self._groups.look(target=False)
        seen = self._groups.with_log_starts(seen, log_starts_needed(seen, self._topic.newest))
        decided = decide(seen, self._topic.newest)
        return decided if there else (self._topic.creation, *decided)

    def apply(self, actions: Sequence[Action]) -> Sequence[Result]:
        """Creates the topic if need be, and writes the checkpoints at once.

        Raises:
            SparkmirrorError: the target cannot be asked.
        """
        creations = each([one for one in actions if isinstance(one, CreateTopic)], self._topic.create)
        emits = [one for one in actions if isinstance(one, Emit)]
        refused = [one for one in actions if isinstance(one, Unreadable)]
        failure = next((result.failure for result in creations if not result.done), "") or self._write(emits)
        return (
            *creations,
            *(Result(action=one, failure=failure) for one in emits),
            *(Result(action=one, failure=f"group {one.group}: {one.reason}") for one in refused),
            *unread(actions, self._sides.flow),
        )

    def _write(self, emits: Sequence[Emit]) -> str:
        try:
            self._topic.write(one.checkpoint for one in emits)
        except SparkmirrorError as failure:
            return str(failure)
        return ""


def log_starts_needed(observed: Observed, newest: Mapping[GroupPlace, Checkpoint]) -> set[TopicPartition]:
    """The copies whose log start has to be known before `decide`, with the same arguments."""
    return {
        one.target.partition
        for one in translations_with_placed(observed)
        if may_lie_below(one, _verdict(_checkpoint(one), newest.get(one.target)))
    }


def decide(observed: Observed, newest: Mapping[GroupPlace, Checkpoint]) -> tuple[Action, ...]:
    """What is to be written, given what the topic says by group and partition of the target."""
    return (
        *(
            Emit(checkpoint=checkpoint)
            for one in translations_with_placed(observed)
            for checkpoint in (_checkpoint(one),)
            if is_news(checkpoint, newest.get(one.target))
        ),
        *(Unreadable(group=group, reason=reason) for group, reason in sorted(observed.unreadable.items())),
        *untold(observed),
    )


def _checkpoint(known: Known) -> Checkpoint:
    return Checkpoint(
        group=known.place.group,
        partition=known.target.partition,
        upstream=known.committed.offset,
        downstream=known.offset,
        metadata=known.committed.metadata,
    )


def is_news(checkpoint: Checkpoint, last: Checkpoint | None) -> bool:
    """Whether the newest checkpoint is not right any more; only the flow writes them, so each may be taken back.

    Args:
        checkpoint: that would be written.
        last: the newest of the group and partition.
    """
    return (last is not None and checkpoint.upstream < last.upstream) or _verdict(checkpoint, last).commits


def _verdict(checkpoint: Checkpoint, last: Checkpoint | None) -> Verdict:
    if last is None:
        return Verdict.FORWARD
    wanted = FlowCommit(checkpoint.downstream, checkpoint.upstream)
    return judge(last.downstream, wanted, FlowCommit(last.downstream, last.upstream))
