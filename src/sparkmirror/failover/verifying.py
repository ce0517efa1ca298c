"""Whether a translated offset leads to the record that a group would have read next, by the records of both sides.

Pure. `begin` says what is to be read first, `judge` what the records mean, or what is to be read next;
`failover.readings` reads.

    the next record            the first one at the committed offset or behind it that is mirrored, and the one at the
                               translated offset
    the last record before     of a group that has read all that is mirrored: the last mirrored record on both sides;
                               no record need lie where such a group goes on

Where compaction took one of the two, the next pair that is there on both sides counts, as for a reader. Where two flows
write to one topic the next record may be one that the flow back has put on the source: its map knows the other one.

Invariants: `Verdict.VERIFIED` is given only where one record was read on each side and they are equal; `Verdict.WRONG`
only where records that are there, or a target that ends too early, contradict the translation. What retention or
compaction took is neither.

Reference: what arrives of a record is said in ``docs/guarantees.md``: key, value, headers, timestamp. A target topic
with ``message.timestamp.type=LogAppendTime`` shows its broker's time; provenance adds a header, see
``batches.provenance``.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import Enum
from typing import TypeAlias

from sparkmirror.batches import HEADER_NAME
from sparkmirror.model import NO_OFFSET, TopicPartition
from sparkmirror.offsets.map import OffsetMap, Stretch
from sparkmirror.offsets.translation import Place

TURNS = 4
"""So many pairs of records are read for one offset at most."""

Headers: TypeAlias = tuple[tuple[bytes, bytes | None], ...]

_PROVENANCE = HEADER_NAME.encode()
_NOT_EXACT = frozenset({Place.APPROXIMATE, Place.TAKEN_OVER})


class Verdict(Enum):
    """What the comparison of records says of a translated offset."""

    VERIFIED = "verified"
    WRONG = "WRONG"
    GONE = "not verifiable: gone"
    INEXACT = "not verifiable: MirrorMaker 2 copied it"
    THINNED = "not verifiable: the offset map is thinned there"
    UNREADABLE = "could not be read"
    LATE = "not verified: the time was over"


@dataclass(frozen=True, slots=True)
class Seen:
    """One record, with digests in the place of what may be large.

    Attributes:
        offset: in its log.
        time: milliseconds since 1970.
        stamped: whether its broker set the time.
        key, value: digests; None where there is none.
        headers: in order, with repeated keys.
    """

    offset: int
    time: int
    stamped: bool
    key: bytes | None
    value: bytes | None
    headers: Headers = ()


@dataclass(frozen=True, slots=True)
class Logs:
    """What both logs of a partition have: from the first offset to before the end."""

    source_start: int
    source_end: int
    target_start: int
    target_end: int


@dataclass(frozen=True, slots=True)
class Question:
    """A translated offset.

    Attributes:
        here, there: the partition on the source and on the target.
        committed: on the source.
        translated: on the target.
        place: what is said to lie there.
        back: the map of the flow back, where that has put records into the same partition.
    """

    here: TopicPartition
    there: TopicPartition
    committed: int
    translated: int
    place: Place
    back: OffsetMap | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Aim:
    """What is read next: the first record at each of two offsets, or behind it.

    Attributes:
        source, target: the offsets.
        before: whether it is the record before the committed offset, so that only this very one counts.
        turn: counts them.
        left_out: the first record of the source that the group has not read and that was never copied.
    """

    source: int
    target: int
    before: bool = False
    turn: int = 1
    left_out: int = NO_OFFSET


@dataclass(frozen=True, slots=True)
class Finding:
    """The answer.

    Attributes:
        verdict: the answer.
        detail: why, or "".
        source, target: the records that were compared, or `NO_OFFSET`.
        before: whether they are those before the committed offset.
        left_out: a record of the source that the group has not read and that was never copied, or `NO_OFFSET`.
        skipped: records that the group has not read, and that the target has no more while the source has them.
    """

    verdict: Verdict
    detail: str = ""
    source: int = NO_OFFSET
    target: int = NO_OFFSET
    before: bool = False
    left_out: int = NO_OFFSET
    skipped: int = 0

    @property
    def text(self) -> str:
        """In words."""
        return self.verdict.value + (f" ({self.detail})" if self.detail else "")


Step: TypeAlias = Aim | Finding


def begin(question: Question, offsets: OffsetMap, logs: Logs) -> Step:
    """What is to be read first, or why nothing need be read.

    Args:
        question: the translated offset.
        offsets: of its partition.
        logs: what is there at all.
    """
    if question.place in _NOT_EXACT:
        return Finding(Verdict.INEXACT)
    if question.place is Place.THINNED:
        return Finding(Verdict.THINNED)
    last = offsets.end()
    if question.place is Place.END or (question.place is Place.BACK_BEHIND and _is_behind(question, last)):
        if last is None:
            return Finding(Verdict.GONE, "nothing of the partition is mirrored yet")
        # The translated offset is what is asked about: the record before it, and no other. Where the flow back writes
        # too, what it has not brought may lie between.
        aim = Aim(last.source, question.translated - 1 if question.back is None else last.target, before=True)
    else:
        aim = Aim(question.committed, question.translated)
    finding = _out_of_reach(question, aim, logs)
    return aim if finding is None else replace(finding, skipped=_gone(question, offsets, logs))


def judge(
    question: Question, aim: Aim, here: Seen | None, there: Seen | None, offsets: OffsetMap, source_id: str
) -> Step:
    """What two records mean.

    Args:
        question: the translated offset.
        aim: what was read.
        here: the first record of the source there or behind; None where there is none.
        there: the same of the target.
        offsets: of the partition.
        source_id: the source's cluster id, which provenance headers name.
    """
    if aim.before:
        return _judge_before(aim, here, there, source_id)
    if here is None:
        return Finding(Verdict.GONE, "the source has no record there any more", left_out=aim.left_out)
    brought = question.back is not None and question.back.has(here.offset, here.offset)
    if not brought and not offsets.mirrored(here.offset):
        return _not_copied(aim, here.offset, offsets)
    if not _is_exact(question, here.offset, offsets, brought=brought):
        return _behind(aim, here.offset, offsets)
    partner = _partner(question, here.offset, offsets, brought=brought)
    if partner is None:
        return Finding(Verdict.GONE, "the target has not acknowledged the record yet", left_out=aim.left_out)
    if question.translated > partner:
        text = f"source offset {here.offset} lies at {partner}, before the translated offset: it would be skipped"
        return Finding(Verdict.WRONG, text, here.offset, partner, left_out=aim.left_out)
    if there is None:
        return Finding(Verdict.GONE, "the target has no record there any more", left_out=aim.left_out)
    if there.offset == partner:
        return _compared(aim, here, there, source_id)
    if there.offset < partner:
        return _early(question, aim, here, there, partner, offsets)
    return _behind(aim, _source_of(offsets, there.offset), offsets, here.offset)


def difference(here: Seen, there: Seen, source_id: str) -> tuple[str, ...]:
    """The parts of a record that are not the same on the target."""
    found = [name for name in ("key", "value") if getattr(here, name) != getattr(there, name)]
    if not _same_headers(here.headers, there.headers, source_id):
        found.append("headers")
    if not there.stamped and here.time != there.time:
        found.append("timestamp")
    return tuple(found)


def _out_of_reach(question: Question, aim: Aim, logs: Logs) -> Finding | None:
    """Why one of the two records cannot be there."""
    if max(aim.target, question.translated - 1) >= logs.target_end:
        text = f"{question.there} ends at {logs.target_end}: the target has lost what it had acknowledged"
        return Finding(Verdict.WRONG, text, aim.source, aim.target, before=aim.before)
    if aim.source < logs.source_start:
        return Finding(Verdict.GONE, f"{question.here} begins at {logs.source_start}", before=aim.before)
    if aim.target < logs.target_start:
        return Finding(Verdict.GONE, f"{question.there} begins at {logs.target_start}", before=aim.before)
    if aim.source >= logs.source_end:
        text = f"{question.here} ends at {logs.source_end}: the source has lost what was copied"
        return Finding(Verdict.GONE, text, before=aim.before)
    return None


def _is_behind(question: Question, last: Stretch | None) -> bool:
    """Whether a group has read all that is mirrored."""
    return last is None or last.source < question.committed


def _is_exact(question: Question, offset: int, offsets: OffsetMap, *, brought: bool) -> bool:
    if brought and question.back is not None:
        return question.back.is_exact_back(offset)
    return offsets.is_exact(offset)


def _partner(question: Question, offset: int, offsets: OffsetMap, *, brought: bool) -> int | None:
    """Where a record of the source lies on the target: copied there, or brought from there."""
    if brought and question.back is not None:
        return question.back.target_to_source(offset)
    return offsets.source_to_target(offset)


def _gone(question: Question, offsets: OffsetMap, logs: Logs) -> int:
    """How many records that the group would read at the source the target has no more."""
    if question.translated >= logs.target_start or question.committed < logs.source_start:
        return 0
    until = offsets.target_to_source(logs.target_start)
    copied = 0 if until is None else offsets.count(question.committed, until)
    return copied + (0 if question.back is None else question.back.count(question.translated, logs.target_start))


def _judge_before(aim: Aim, here: Seen | None, there: Seen | None, source_id: str) -> Finding:
    for side, seen, offset in (("source", here, aim.source), ("target", there, aim.target)):
        if seen is None or seen.offset != offset:
            return Finding(Verdict.GONE, f"the {side} no longer has the last record before it", before=True)
    assert here is not None
    assert there is not None
    return _compared(aim, here, there, source_id)


def _compared(aim: Aim, here: Seen, there: Seen, source_id: str) -> Finding:
    parts = difference(here, there, source_id)
    verdict = Verdict.WRONG if parts else Verdict.VERIFIED
    detail = f"source offset {here.offset} and target offset {there.offset} differ in {', '.join(parts)}"
    return Finding(verdict, detail if parts else "", here.offset, there.offset, aim.before, aim.left_out)


def _not_copied(aim: Aim, source: int, offsets: OffsetMap) -> Step:
    """The source has a record there that is not on the target: it comes yet, or never."""
    last = offsets.end()
    if last is None or source > last.source:
        return Finding(Verdict.GONE, "what was copied from there on is gone at the source", left_out=aim.left_out)
    return _behind(replace(aim, left_out=source) if aim.left_out == NO_OFFSET else aim, source, offsets)


def _early(question: Question, aim: Aim, here: Seen, there: Seen, partner: int, offsets: OffsetMap) -> Step:
    """The target has a record before the one in question: read already, gone at the source, or somebody else's."""
    if not question.place.exact:
        return _next(aim, here.offset, partner)
    origin = _source_of(offsets, there.offset)
    read_before = origin < question.committed and offsets.source_to_target(origin) == there.offset
    if read_before and offsets.mirrored(origin) and offsets.is_exact_back(there.offset):
        text = f"target offset {there.offset} is source offset {origin}, which the group has read"
        return Finding(Verdict.WRONG, text, origin, there.offset, left_out=aim.left_out)
    return _next(aim, here.offset, partner)


def _behind(aim: Aim, source: int, offsets: OffsetMap, least: int = 0) -> Step:
    """The first mirrored pair at or behind a source offset."""
    pair = next(offsets.settled(max(source, least) - 1), None)
    if pair is None:
        return Finding(Verdict.GONE, "no mirrored record behind it is left on both sides", left_out=aim.left_out)
    return _next(aim, pair.source, pair.target)


def _next(aim: Aim, source: int, target: int) -> Step:
    if aim.turn == TURNS:
        return Finding(Verdict.GONE, "no mirrored record near it is left on both sides", left_out=aim.left_out)
    return replace(aim, source=source, target=target, turn=aim.turn + 1)


def _source_of(offsets: OffsetMap, target: int) -> int:
    """The source offset of what the mirror has put at a target offset, or behind it; -1 below the map."""
    found = offsets.target_to_source(target)
    return NO_OFFSET if found is None else found


def _same_headers(here: Headers, there: Headers, source_id: str) -> bool:
    """Whether the target has the source's headers, but for the one in which the flow adds the source to the way."""
    if here == there:
        return True
    ways = [value or b"" for key, value in there if key == _PROVENANCE]
    marked = bool(ways) and ways[-1].rpartition(b",")[2] == source_id.encode()
    return marked and _without_way(here) == _without_way(there)


def _without_way(headers: Headers) -> Headers:
    return tuple(header for header in headers if header[0] != _PROVENANCE)
