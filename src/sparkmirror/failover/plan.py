"""What an operation would do, and what speaks against it: decided before anything is changed. Pure.

Invariant: whatever would lose or disturb something that the operator may not know of is a refusal, which only
``--force`` overrules; the words say what would be lost.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from shlex import quote

from sparkmirror.failover.look import PartitionState, SourceState
from sparkmirror.failover.moves import GroupMove
from sparkmirror.failover.states import Kind
from sparkmirror.kafka.groups import OFFSETS_TOPIC
from sparkmirror.model import NO_OFFSET, FlowName
from sparkmirror.offsets.group_records import GroupsSeen
from sparkmirror.offsets.orders import HoldOrder

SHOWN = 5
"""So many names are given in a line."""

RUNNING, STARTING, HELD = "running", "starting", "held"
DRAIN_SECONDS, SETTLE_SECONDS = 4.0, 10.0
"""What stopping takes: of a flow that runs, and of one whose driver is dead."""

GROUPS_PER_SECOND = 50.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """An operation before it begins.

    Attributes:
        kind: of it.
        flow: ``source->target``.
        state: of the flow, as ``status`` tells it.
        source: the source cluster.
        partitions: of the flow.
        moves: of the groups, by what is known now.
        seconds: that it takes, about; without the time that producers and consumers are waited for.
        refusals: what speaks against it.
        warnings: what its operator should know.
    """

    kind: Kind
    flow: str
    state: str
    source: SourceState
    partitions: tuple[PartitionState, ...]
    moves: tuple[GroupMove, ...]
    seconds: float
    refusals: tuple[str, ...]
    warnings: tuple[str, ...]

    @property
    def missing(self) -> int:
        """Source offsets that the target is known to lack now."""
        return sum(each.missing for each in self.partitions)


def decide(
    kind: Kind,
    flow: str,
    state: str,
    source: SourceState,
    partitions: tuple[PartitionState, ...],
    moves: tuple[GroupMove, ...],
    *,
    paused: Sequence[str] = (),
    against: Sequence[str] = (),
    notes: Sequence[str] = (),
) -> Plan:
    """Puts a plan together.

    Args:
        kind: of the operation.
        flow: ``source->target``.
        state: of the flow, as ``status`` tells it.
        source: the source cluster.
        partitions: of the flow.
        moves: of its groups.
        paused: topics that an operator has paused.
        against: what else speaks against it.
        notes: what else its operator should know.
    """
    refuse = _against_failover if kind is Kind.FAILOVER else _against_switchover
    settling = DRAIN_SECONDS if state in (RUNNING, STARTING) else SETTLE_SECONDS
    return Plan(
        kind=kind,
        flow=flow,
        state=state,
        source=source,
        partitions=partitions,
        moves=moves,
        seconds=settling + 1.0 + len(moves) / GROUPS_PER_SECOND,
        refusals=(*against, *refuse(state, source, partitions, paused), *_hindered(moves)),
        warnings=(
            *notes,
            *_unfound(kind, partitions),
            *_warnings(partitions, moves, source, paused),
            *(_unlisted(source) if kind is Kind.FAILOVER else ()),  # it does not wait for them
        ),
    )


def _against_failover(
    state: str, source: SourceState, partitions: Sequence[PartitionState], _paused: Sequence[str]
) -> list[str]:
    if not source.answers:
        return []
    missing = sum(each.missing for each in partitions)
    takes = f" and took {source.produced} records in the last seconds" if source.produced else ""
    lost = f"{missing} of its records are not on the target" if missing else "everything it had is on the target"
    more = ", and what it takes from now on would be missing too" if source.produced else ""
    remedy = "switchover loses nothing" if state == RUNNING else "start the flow, and use switchover: it loses nothing"
    in_part = f" in part ({_said_of_silent(source)})" if source.silent else ""
    return [f"the source answers{in_part}{takes}: {lost}{more} ({remedy})"]


def _against_switchover(
    state: str, source: SourceState, partitions: Sequence[PartitionState], paused: Sequence[str]
) -> list[str]:
    found = []
    if not source.answers:
        found.append(f"the source does not answer: {source.failure} (failover is for a source that is gone)")
    if state != RUNNING:
        remedy = "sparkmirror release" if state == HELD else "sparkmirror run"
        found.append(f"the flow is {state}, and has to run to copy what is left ({remedy})")
    standing = [f"{each.partition} ({each.standing})" for each in partitions if each.standing]
    if standing:
        found.append(f"partitions stand still: {some(standing)}")
    if paused:
        found.append(f"topics are paused: {some(paused)} (sparkmirror resume)")
    if source.silent:
        found.append(f"the source answers in part: {_said_of_silent(source)}")
    return [*found, *_unlisted(source)]


def _hindered(moves: Sequence[GroupMove]) -> list[str]:
    found = []
    active = [move.group for move in moves if move.hindrance and move.active]
    if active:
        found.append(f"groups live on the target and would not be moved: {some(active)} (stop their members there)")
    others = [f"{move.group} ({move.hindrance})" for move in moves if move.hindrance and not move.active]
    if others:
        found.append(f"groups would not be moved: {some(others)} (--force leaves them out)")
    return found


def _unfound(kind: Kind, partitions: Sequence[PartitionState]) -> list[str]:
    names = sorted({each.partition.topic for each in partitions if not each.found and each.missing})
    if not names:
        return []
    then = "nothing of them is on the target" if kind is Kind.FAILOVER else "it is told to look before it is waited for"
    return [f"the flow has not found topics yet: {some(names)} ({then})"]


def _warnings(
    partitions: Sequence[PartitionState],
    moves: Sequence[GroupMove],
    source: SourceState,
    paused: Sequence[str],
) -> list[str]:
    found = []
    unknown = [str(each.partition) for each in partitions if each.end == NO_OFFSET]
    if unknown:
        found.append(f"the end of the source was never seen of {some(unknown)}: what is missing there is not known")
    partly = [f"{move.group} (also reads {some(move.uncopied)})" for move in moves if move.uncopied]
    if partly:
        found.append(f"groups read topics that the flow does not copy: {some(partly)}")
    found += _unplaced(moves, source)
    again = [
        f"{move.group} at {place.partition} ({place.text})"
        for move in moves
        for place in move.inexact
        if place.offset != NO_OFFSET
    ]
    if again:
        found.append(f"groups may read some records twice: {some(again)}")
    further = [f"{move.group} at {place.partition} ({place.text})" for move in moves for place in move.further]
    if further:
        found.append(f"groups are left further on the target than they are on the source: {some(further)}")
    apart = [f"{move.group} at {place.partition} ({place.text})" for move in moves for place in move.apart]
    if apart:
        found.append(f"groups stand on both clusters and are not moved: {some(apart)}")
    skipping = [f"{move.group} at {place.partition} ({place.text})" for move in moves for place in move.skipping]
    if skipping:
        found.append(f"groups would skip what the target does not have: {some(skipping)}")
    members = [listing.name for listing in source.listed if listing.active]
    if members:
        found.append(f"groups have members on the source: {some(members)}")
    if paused:
        found.append(f"topics are paused, and lack what came since: {some(paused)}")
    return found


def _said_of_silent(source: SourceState) -> str:
    (place, why), *_ = sorted(source.silent.items())
    return f"{len(source.silent)} partitions are without a leader that answers, {place} among them: {why}"


def _unlisted(source: SourceState) -> list[str]:
    """Of groups that no broker lists."""
    if source.unlisted:
        return [f"the source does not list its groups: {source.unlisted}"]
    if not source.leaderless:
        return []
    without = f"{source.leaderless} partitions of {OFFSETS_TOPIC} have no leader"
    return [f"the source does not list all its groups: {without} (start the brokers that have them)"]


def _unplaced(moves: Sequence[GroupMove], source: SourceState) -> list[str]:
    """The groups that have no translation, with and without an offset on the target already."""
    found = []
    if kinds := [f"{each.name} ({each.kind.value})" for each in source.untranslated]:
        found.append(f"groups of the source are of a kind whose offsets nobody translates, and stay: {some(kinds)}")
    without = [
        f"{move.group} at {place.partition} ({place.text})"
        for move in moves
        for place in move.left_out
        if place.before == NO_OFFSET
    ]
    kept = [each for move in moves for each in move.kept]
    if kept:
        found.append(f"groups keep their offsets on the target, and may skip records or read some again: {some(kept)}")
    if without:
        later = "; the source is asked once more when groups are moved" if source.answers else ""
        found.append(f"there is no offset on the target for {some(without)}{later}")
    return found


def held_before(flow: FlowName, held: HoldOrder | None) -> tuple[str, ...]:
    """What an operation does not find on the target, where an earlier one holds the flow still."""
    if held is None:
        return ()
    since = f"{datetime.fromtimestamp(held.time_ms / 1000, UTC):%Y-%m-%dT%H:%M:%SZ}"
    said = f"{flow} has been stopped since {since} by {held.reason}"
    return (f"{said}: what {flow.source} took after that is not on {flow.target}",)


def back_held(back: FlowName, held: HoldOrder | None, file: str) -> tuple[str, ...]:
    """What is told of an operation of a flow while an earlier one holds the flow back still.

    Args:
        back: the flow back, from where applications go to where they are.
        held: what stops it; None where nothing does, or nobody could tell.
        file: the configuration file, for the command.
    """
    if held is None:
        return ()
    then = f"nothing that {back.source} takes is copied to {back.target}, and groups are not followed on {back.source}"
    risk = f"a failover to {back.target} would go by what is on record since the hold"
    release = f"sparkmirror release {quote(file)} --flow '{back}'"
    return (f"{back} is still stopped by {held.reason}: {then}; {risk}. When groups are moved, {release} ends that",)


def back_unknown(back: FlowName, file: str) -> tuple[str, ...]:
    """The same where nobody can tell, since the record of the flow back lies on a cluster that is gone."""
    said = f"whether an earlier operation still stops {back} is not known, since its record lies on {back.target}"
    then = f"nothing that {back.source} takes is copied to {back.target}, and groups are not followed on {back.source}"
    release = f"sparkmirror release {quote(file)} --flow '{back}'"
    ends = f"when {back.target} is there again, {release} ends that, or says that {back} is not held"
    return (f"{said}. If it is, {then}: {ends}",)


def unseen_losses(flow: FlowName, seen: GroupsSeen | None) -> tuple[str, ...]:
    """What is told where this user may not see the topic that holds the offsets of groups."""
    if seen is None or not seen.origin.cluster_id or seen.origin.offsets_id or seen.log:
        return ()
    said = f"whether {flow.source} has lost offsets of groups with the end of {OFFSETS_TOPIC} cannot be seen"
    return (f"{said}: allow DESCRIBE on Topic {OFFSETS_TOPIC} to this user",)


def without(flow: FlowName, topics: Sequence[str]) -> tuple[str, ...]:
    """What is told of topics that a flow has copied, and that the file leaves out."""
    if not topics:
        return ()
    said = f"this file leaves out topics that {flow} has copied: groups are not moved there, and records not compared"
    return (f"{said}: {some(topics)}",)


def without_since(flow: FlowName, topics: Sequence[str]) -> tuple[str, ...]:
    """What is told of topics that the newest run of a flow has copied, and that the file leaves out since."""
    if not topics:
        return ()
    said = f"this file leaves out topics that the newest run of {flow} has copied"
    then = "nothing is waited for there, records are not compared, and groups are not moved, or to no exact place"
    remedy = "give the file that it runs with, or run it with this one first"
    return (f"{said}: {then}: {some(topics)} ({remedy})",)


def groups_without_since(flow: FlowName, groups: Sequence[str]) -> tuple[str, ...]:
    """What is told of groups that a flow translates, and that the file leaves out since."""
    if not groups:
        return ()
    said = f"this file leaves out groups that {flow} translates, by its record: they are moved all the same"
    return (f"{said}: {some(groups)} (give the file that it runs with, or run it with this one first)",)


def groups_without(flow: FlowName, groups: Sequence[str]) -> tuple[str, ...]:
    """What is told of groups that are on record still, and that a flow does not translate any more."""
    if not groups:
        return ()
    said = f"neither this file nor the newest run of {flow} translates groups that are on record: they are not moved"
    return (f"{said}: {some(groups)}",)


def some(names: Sequence[str]) -> str:
    """The first of them, and how many more there are."""
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return ", ".join(names[:SHOWN]) + more
