"""What a failover now would mean for each consumer group: where it would go on, and what it would read again or miss.

Pure: from one look at both sides (`duties.groups`) and from the records that were compared (`failover.verifying`).

Invariants: whatever keeps an offset from going on has its reason, that of `Standing`; records are those that the mirror
copied, not offsets, wherever the map can tell.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace

from sparkmirror.config import FlowConfig
from sparkmirror.duties.groups import GroupLine, Observed, Standing, explain_group, refusal, translations
from sparkmirror.failover.verifying import Finding, Question, Verdict
from sparkmirror.kafka.groups import OFFSETS_TOPIC
from sparkmirror.model import NO_OFFSET, TopicPartition
from sparkmirror.offsets.interleaved import ordered_out
from sparkmirror.offsets.map import OffsetMap
from sparkmirror.offsets.translation import Place

SEEN_BEFORE = (
    f"would go on by what was seen of it before {OFFSETS_TOPIC} of the source lost its end: later commits are lost"
)

_HARMLESS = frozenset(
    {Standing.NO_CONSUMERS, Standing.NO_OFFSETS, Standing.NOT_COPIED, Standing.ACTIVE_THERE, Standing.PLACED}
)
_NOT_THERE = frozenset({Standing.UNREADABLE_THERE, Standing.OTHER_KIND_THERE})
"""Where a translation is of no use, if the flow commits on the target."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Offset:
    """One committed offset of a group, or the group as a whole where that is the matter.

    Attributes:
        line: where it stands.
        finding: what the records say of its translation; None where there is none.
        hindrance: why the group would not go on there, or "".
        repeats: records that it would read again, since the target has an older offset.
        skips: records that it would miss: the target has a later offset, or has them no more, or they were never
            copied; of the latter offsets, so at most so many.
        ahead: records that it has read and the mirror has not copied: it would have to wait for them, or they are lost.
        lost: whether the source has lost it with the end of ``__consumer_offsets``: it is what was seen before.
    """

    line: GroupLine
    finding: Finding | None = None
    hindrance: str = ""
    repeats: int = 0
    skips: int = 0
    ahead: int = 0
    lost: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupOutcome:
    """One group.

    Attributes:
        group: its name.
        offsets: each that it has committed.
    """

    group: str
    offsets: tuple[Offset, ...]

    @property
    def verdicts(self) -> Counter[Verdict]:
        """How many offsets have each verdict."""
        return Counter(one.finding.verdict for one in self.offsets if one.finding is not None)

    @property
    def repeats(self) -> int:
        """Records that it would read again."""
        return sum(one.repeats for one in self.offsets)

    @property
    def skips(self) -> int:
        """Records that it would miss."""
        return sum(one.skips for one in self.offsets)

    @property
    def ahead(self) -> int:
        """Records that it has read and the mirror has not copied."""
        return sum(one.ahead for one in self.offsets)

    @property
    def copied(self) -> int:
        """How many of its offsets are of topics that the flow copies."""
        of_copies = (one.line for one in self.offsets if one.line.partition is not None)
        return sum(line.standing is not Standing.NOT_COPIED for line in of_copies)

    @property
    def problems(self) -> tuple[str, ...]:
        """What would go wrong, one line for each reason."""
        found: dict[str, list[Offset]] = {}
        for one in self.offsets:
            for reason in _reasons(one):
                found.setdefault(reason, []).append(one)
        return tuple(f"group {self.group}: {_where(some)}{reason}" for reason, some in found.items())


def unlisted(observed: Observed, wanted: Collection[str]) -> tuple[str, ...]:
    """Why not all groups of the source are rehearsed, or not all that are asked for; empty where all are listed."""
    if not observed.leaderless or (wanted and observed.source.keys() >= set(wanted)):
        return ()
    numbers = ", ".join(map(str, observed.leaderless[:5]))
    where = f"cluster {observed.flow.source.alias}: {OFFSETS_TOPIC} has no leader for partitions {numbers}"
    return (f"{where}: groups there are not listed, and not rehearsed (start the brokers that have these partitions)",)


def names_of(observed: Observed, wanted: tuple[str, ...]) -> tuple[str, ...]:
    """The groups that are rehearsed: those that the flow chooses, or the ones that are asked for."""
    flow, listed = observed.flow, observed.source
    return wanted or tuple(sorted(name for name in listed if refusal(flow, listed[name]) is not Standing.FILTERED))


def questions(observed: Observed, groups: tuple[str, ...]) -> dict[tuple[str, TopicPartition], Question]:
    """What is to be verified, by group and partition of the source: what the maps say, whatever retention has left."""
    chosen, found = set(groups), {}
    for known in translations(replace(observed, log_starts={})):
        here, offset = known.place.partition, known.committed.offset
        if known.place.group in chosen and known.lies is not Place.EMPTY:
            question = Question(here, known.target.partition, offset, known.offset, known.lies, _back(observed, here))
            found[known.place.group, here] = question
    return found


def moves_yet(observed: Observed, groups: tuple[str, ...]) -> bool:
    """Whether another look, a moment later, may say something better of a flow that runs."""
    passing = {Standing.AHEAD, Standing.UNSETTLED}
    if observed.flow.groups.sync_enabled:
        passing |= {Standing.GOES_BACK, Standing.FURTHER_THERE}
    return any(line.standing in passing for group in groups for line in explain_group(observed, group))


def outcomes(
    observed: Observed,
    groups: tuple[str, ...],
    findings: Mapping[Question, Finding],
    ranges: Mapping[TopicPartition, tuple[int, int]],
) -> tuple[GroupOutcome, ...]:
    """What becomes of each group.

    Args:
        observed: the newest look.
        groups: which.
        findings: what the records say.
        ranges: what the source has of its partitions: from, and up to.
    """
    asked = questions(observed, groups)
    found = []
    for group in groups:
        offsets = []
        for line in explain_group(observed, group):
            question = None if line.partition is None else asked.get((group, line.partition))
            finding = None if question is None else findings.get(question)
            lost = (group, line.partition) in observed.lost
            one = replace(_offset(observed, line, finding, ranges), lost=lost)
            offsets.append(one if question is None else replace(one, line=_by_the_maps(line, question)))
        found.append(GroupOutcome(group=group, offsets=tuple(offsets)))
    return tuple(found)


def _offset(
    observed: Observed,
    line: GroupLine,
    finding: Finding | None,
    ranges: Mapping[TopicPartition, tuple[int, int]],
) -> Offset:
    here, flow = line.partition, observed.flow
    offsets = None if here is None else observed.maps.get(here)
    if here is None or offsets is None:
        return Offset(line=line, finding=finding, hindrance=_hindrance(flow, line, ranges))
    now = observed.offsets[line.group][here].offset
    known = flow.groups.sync_enabled and NO_OFFSET not in (line.there, line.translated)
    usable = known and line.standing not in (Standing.ACTIVE_THERE, Standing.LEFT_BEHIND)
    back = _back(observed, here)
    missed = 0 if finding is None else finding.skipped + (0 if leaves_out(flow) else _left_out(offsets, finding))
    if NO_OFFSET not in (line.translated, line.committed):
        missed = max(missed, ordered_out(offsets, line.committed, back))
    if line.standing is Standing.LEFT_BEHIND and line.there != NO_OFFSET:  # it goes by what it has on the target
        missed = _between(offsets, back, line.there, _log_start(observed, line))
    return Offset(
        line=line,
        finding=finding,
        hindrance=_hindrance(flow, line, ranges),
        repeats=_between(offsets, back, max(line.there, _log_start(observed, line)), line.translated) if usable else 0,
        skips=missed + (_between(offsets, back, line.translated, line.there) if usable else 0),
        ahead=max(0, now - offsets.position) if offsets.position != NO_OFFSET else 0,
    )


def _by_the_maps(line: GroupLine, question: Question) -> GroupLine:
    """The same, with the translation that was verified, whatever the copy's log has lost to retention."""
    return replace(line, translated=question.translated)


def _log_start(observed: Observed, line: GroupLine) -> int:
    """The first offset that the copy still has; what lies before it nobody reads again."""
    start = None if line.target is None else observed.log_starts.get(line.target)
    return NO_OFFSET if start is None else start


def leaves_out(flow: FlowConfig) -> bool:
    """Whether a flow leaves records out on purpose: dead letters, and what was on the target before."""
    return flow.dead_letters.active or flow.tells_writers or flow.provenance_header


def _hindrance(flow: FlowConfig, line: GroupLine, ranges: Mapping[TopicPartition, tuple[int, int]]) -> str:
    standing = line.standing
    if standing in _HARMLESS or (standing is Standing.NOTHING_MIRRORED and not _awaits(line, ranges)):
        return ""
    if standing in _NOT_THERE:
        return line.text if flow.groups.sync_enabled else ""
    if not standing.has_offset:
        return line.text
    if flow.groups.sync_enabled and line.there == NO_OFFSET:
        return "nothing is committed for it on the target yet"
    return ""


def _awaits(line: GroupLine, ranges: Mapping[TopicPartition, tuple[int, int]]) -> bool:
    """Whether the source has records that the group has not read."""
    if line.partition is None or line.partition not in ranges:
        return True
    start, end = ranges[line.partition]
    return end > max(start, line.committed)


def _back(observed: Observed, here: TopicPartition) -> OffsetMap | None:
    """The map of the flow back, where that has put records into a partition of the source."""
    found = observed.back.copies.get(here)
    return None if found is None else found.offsets


def _between(offsets: OffsetMap, back: OffsetMap | None, first: int, end: int) -> int:
    """How many records of both flows lie from one target offset to before another; offsets where the map is silent."""
    if first >= end:
        return 0
    since, until = offsets.target_to_source(first), offsets.target_to_source(end)
    if since is None or until is None:
        return end - first
    return offsets.count(since, until) + (0 if back is None else back.count(first, end))


def _left_out(offsets: OffsetMap, finding: Finding) -> int:
    """How many source offsets from the first record on that was never copied up to the next that was."""
    if finding.left_out == NO_OFFSET:
        return 0
    following = next(offsets.settled(finding.left_out - 1), None)
    return 1 if following is None else following.source - finding.left_out


def _reasons(one: Offset) -> Iterator[str]:
    if one.hindrance:
        ahead = f", by {one.ahead}" if one.ahead and one.line.standing is Standing.AHEAD else ""
        yield f"would not go on: {one.hindrance}{ahead}"
    if one.finding is not None and one.finding.verdict in (Verdict.WRONG, Verdict.UNREADABLE):
        yield f"its translation {'is ' if one.finding.verdict is Verdict.WRONG else ''}{one.finding.text}"
    if one.skips:
        yield f"would skip {one.skips} records"
    if one.lost:
        yield SEEN_BEFORE


def _where(some: list[Offset]) -> str:
    """The partitions that a reason is about."""
    places = [str(one.line.partition) for one in some if one.line.partition is not None]
    more = f" and {len(places) - 1} more" if len(places) > 1 else ""
    return f"{places[0]}{more}: " if places else ""
