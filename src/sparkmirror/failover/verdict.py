"""Whether a failover of one flow would work now: decided from one look. Pure.

Invariants: what would go wrong is a problem, and one problem is enough; what an operator should only know is a note.
What could not be looked at is a problem too, never a silence.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from sparkmirror.config import FlowConfig
from sparkmirror.duties import topics
from sparkmirror.failover.group_outcomes import GroupOutcome, leaves_out
from sparkmirror.failover.missing_rights import Lack
from sparkmirror.failover.old_groups import not_followed
from sparkmirror.failover.recovery_point import RecoveryPoint
from sparkmirror.failover.verifying import Verdict
from sparkmirror.flow.connections import Connection
from sparkmirror.flow.states import FlowState
from sparkmirror.flow.status import NEVER_STARTED, UNREADABLE
from sparkmirror.model import NO_OFFSET, TopicPartition
from sparkmirror.offsets.state import JournalState

RUNNING = FlowState.RUNNING.value
UNVERIFIABLE = (Verdict.GONE, Verdict.INEXACT, Verdict.THINNED)


@dataclass(slots=True, kw_only=True)
class Look:
    """What was seen of a flow; what a look did not come to keeps its default.

    Attributes:
        flow: the flow.
        connections: of its clients.
        state: of the flow, as ``sparkmirror status`` tells it.
        known: its internal topic; None where it was never started, or could not be read.
        ranges: what the source has of the partitions that it copies: from, and up to.
        copies: the topics that it copies, with the names that they have on the target.
        absent: copies that the target does not have, or that this user may not see.
        leaderless: partitions of copies that nobody could read or write now.
        asked: whether the source told its ends; without them the recovery point is that of the flow's own record.
        point: the recovery point.
        lacks: rights that are missing.
        groups: what becomes of each group.
        took_ms: milliseconds by step.
        failures: why it could not be looked at everything.
        late: whether the time was over before everything was looked at.
    """

    flow: FlowConfig
    connections: tuple[Connection, ...] = ()
    state: str = UNREADABLE
    known: JournalState | None = None
    ranges: Mapping[TopicPartition, tuple[int, int]] = field(default_factory=dict)
    copies: Mapping[str, str] = field(default_factory=dict)
    absent: tuple[str, ...] = ()
    leaderless: tuple[TopicPartition, ...] = ()
    asked: bool = False
    point: RecoveryPoint = field(default_factory=RecoveryPoint)
    lacks: tuple[Lack, ...] = ()
    groups: tuple[GroupOutcome, ...] = ()
    took_ms: Mapping[str, int] = field(default_factory=dict)
    failures: tuple[str, ...] = ()
    late: bool = False

    def cluster_id(self, alias: str) -> str:
        """The id of a cluster, as it told it; "" where it did not."""
        return next((str(one.found.cluster_id) for one in self.connections if one.alias == alias and one.found), "")

    @property
    def verdicts(self) -> Counter[Verdict]:
        """How many translated offsets have each verdict."""
        return sum((group.verdicts for group in self.groups), Counter())

    @property
    def offsets(self) -> int:
        """How many offsets of copied topics the groups have committed."""
        return sum(group.copied for group in self.groups)


def problems(look: Look) -> tuple[str, ...]:
    """What would go wrong, or could not be looked at."""
    return tuple(
        dict.fromkeys(
            (
                *(str(one.failure) for one in look.connections if one.failure is not None),
                *look.failures,
                *_of_the_flow(look),
                *_of_the_copies(look),
                *(lack.text for lack in look.lacks if lack.vital),
                *(problem for group in look.groups for problem in group.problems),
                *_of_the_record(look),
                *_of_the_time(look),
            )
        )
    )


def notes(look: Look) -> tuple[str, ...]:
    """What an operator should know, and what keeps no failover from working."""
    found = [lack.text for lack in look.lacks if not lack.vital]
    if look.known is not None and not look.asked:
        found.append("the source was not asked: what would be missing is told by the flow's own record")
    if look.groups and not look.flow.groups.sync_enabled:
        found.append(
            "no offsets are committed on the target meanwhile (sync.group.offsets.enabled is false): sparkmirror "
            "failover and switchover commit them; groups that start there without these need sparkmirror offsets "
            "--apply, or clients that translate"
        )
    paused, waiting = () if look.known is None else look.known.paused.values(), _paused_behind(look)
    found += [f"{one.topic} is paused, and nothing of it waits" for one in paused if one.topic not in waiting]
    if left_out := sum(_leaves_out(group) for group in look.groups) if leaves_out(look.flow) else 0:
        found.append(f"{left_out} offsets lie at records that the flow leaves out (dead letters, or of other mirrors)")
    return tuple(found)


def _of_the_record(look: Look) -> Iterator[str]:
    """Of groups that a failover finds on the flow's record when the source is gone, as they are there."""
    if look.groups and (why := not_followed(look.flow)):
        yield why


def recovery_ms(look: Look) -> int:
    """How long reading the record, translating and verifying took: most of what a failover does."""
    return sum(look.took_ms.get(step, 0) for step in ("record", "groups", "verifying"))


def standing_still(look: Look) -> dict[TopicPartition, str]:
    """The partitions that do not go on, in order, and why; those of topics that the flow leaves out count no more."""
    known = {} if look.known is None else look.known.progress
    without = topics.left_out(look.flow, known)
    return {place: known[place].error for place in sorted(known) if known[place].error and place.topic not in without}


def _of_the_flow(look: Look) -> Iterator[str]:
    if look.known is None:
        if look.state == NEVER_STARTED:
            yield "the flow was never started"
        return
    if look.state != RUNNING:
        yield f"the flow does not run: it is {look.state}"
    record, flow = look.known.flow, look.flow
    if record is not None:
        for end, recorded in ((flow.source, record.source_id), (flow.target, record.target_id)):
            now = look.cluster_id(end.alias)
            if now and now != recorded:
                yield f"{end.alias} is cluster {now} now, and the flow's record is of cluster {recorded}"
    if look.known.elsewhere is not None:
        yield f"the flow's positions are with MirrorMaker 2, in {look.known.elsewhere.topic}"
    if look.known.later:
        yield "the flow's record holds records of a later release, which may know more"


def _of_the_copies(look: Look) -> Iterator[str]:
    if look.known is None:
        return
    alias = look.flow.target.alias
    still = standing_still(look)
    for place in list(still)[:1]:
        yield f"{_counted(place, len(still))} stands still: {still[place]}"
    for topic, records in sorted(_paused_behind(look).items()):
        yield f"{topic} is paused, and {records} of its records are not copied"
    found = sorted(one.partition for one in look.point.partitions if one.partition not in look.known.progress)
    found = [place for place in found if look.copies.get(place.topic) not in look.absent]
    if found:
        yield f"{_counted(found[0], len(found))} is not copied yet"
    for name in look.absent[:1]:
        more = f" and {len(look.absent) - 1} more" if len(look.absent) > 1 else ""
        yield f"cluster {alias} has no topic {name}{more}, or this user may not see it"
    for place in look.leaderless[:1]:
        yield f"cluster {alias}: {_counted(place, len(look.leaderless))} has no leader"


def _of_the_time(look: Look) -> Iterator[str]:
    if late := look.verdicts[Verdict.LATE]:
        yield f"the time was over: {late} offsets were not verified (--timeout gives more)"
    elif look.late:
        yield "the time was over before everything was looked at (--timeout gives more)"


def _paused_behind(look: Look) -> dict[str, int]:
    """The paused topics of which something waits, and how many records."""
    paused = {order.topic for order in look.known.paused.values()} if look.known is not None else set()
    found: Counter[str] = Counter()
    for one in look.point.partitions:
        if one.partition.topic in paused:
            found[one.partition.topic] += one.records
    return dict(found)


def _leaves_out(group: GroupOutcome) -> int:
    return sum(one.finding is not None and one.finding.left_out != NO_OFFSET for one in group.offsets)


def _counted(place: TopicPartition, count: int) -> str:
    return f"{place} and {count - 1} more" if count > 1 else str(place)
