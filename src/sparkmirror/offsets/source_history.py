"""Where the source's log parts from what was copied of it, by the leader epochs of both: pure.

A leader knows where each of its leader epochs ends; the copy knows at which offset it has met each of them first. The
greatest epoch that both have ends for each at some offset, and up to the lesser one the two are the same (KIP-279). The
leader's answer alone does not tell: one that was deposed comes back by an unclean election with records that were never
copied, and its epoch ends behind them.

A log whose disk is an older copy has given out epochs again, for other records: the first one begins at the end of that
copy, and may have begun there before. So where a log has lost something, the records of the greatest epoch that both
have are compared with what was copied, and where its first ones are others those of the next below. A log that has
begun an epoch with the same records has all that lies before it too; what lies in the epoch is the same up to the first
record that differs. Where nothing can be seen, since those records are gone, or those of the two lie at other offsets
(markers of transactions), an epoch of such a log does not count: that it begins at the same offset on both sides says
nothing, since the disk may have been copied there. Where no epoch counts, nothing is believed.

A position that a takeover has found in the target's log may lie in an epoch of which the flow's topic has lost the
record. There the records behind the point that epochs tell are compared too.

Invariants: the point is never behind the first difference as far as epochs and these records tell; where nothing
differs there is none before the position; a point that is not that of a difference is not called proven.

References: KIP-101, KIP-279, KIP-320; ``LeaderEpochFileCache.endOffsetFor``, ``OffsetsForLeaderEpochUtils``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import NamedTuple, TypeAlias

UNDEFINED = -1


class EpochEnd(NamedTuple):
    """The greatest epoch of a log that is not above the one asked for, and the offset after its last record.

    Both are -1 where the log knows none: the epoch asked for is above all of its own. Of two logs: the greatest epoch
    that both have, and up to where they are the same. Where they are the same up to an offset and nobody has said which
    epoch that is, only ``epoch`` is -1.

    Attributes:
        epoch: the greatest epoch.
        end: the offset after its last record.
        proven: whether the two differ there; not so where what lies behind could not be compared.
    """

    epoch: int
    end: int
    proven: bool = True


NOBODY_KNOWS = EpochEnd(UNDEFINED, UNDEFINED)


class Begun(NamedTuple):
    """A leader epoch of the source that was copied, and the offset after what was copied before it.

    The epoch may begin further on: compaction leaves gaps.
    """

    epoch: int
    offset: int


class Ask(NamedTuple):
    """The leader has to be asked where this epoch ends."""

    epoch: int


class Look(NamedTuple):
    """The records from an offset to before another, of an epoch, have to be compared with what was copied.

    Of no epoch (`UNDEFINED`) where the record does not know which was copied there.
    """

    epoch: int
    first: int
    end: int


class Alike(Enum):
    """Whether the first records of a span are those that were copied."""

    SAME = auto()
    OTHER = auto()
    UNKNOWN = auto()


class Looked(NamedTuple):
    """How records of a span compare.

    Attributes:
        alike: the first of them.
        end: where they are the same, up to where.
        differs: whether one of them differs, there or behind; else the span ends there, or the source's log.
        proven: whether it is the first one; not so where not all before it could be compared.
    """

    alike: Alike
    end: int
    differs: bool = False
    proven: bool = True


Finding: TypeAlias = EpochEnd | Ask | Look


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """What is known of one partition.

    Attributes:
        history: the epochs that were copied, in order.
        epoch: of the batch left of the position, or a later one.
        position: up to which the source was copied.
        certain: whether ``epoch`` is surely so; else the position is further on than what was known with it. A history
            without that epoch is not complete either.
        restored: whether the log may be an older copy of its disk that has caught up: then records are compared though
            epochs say that nothing is missing.
        newest: the newest epoch of the log, or -1 while it is not asked for, or where its leader knows none.
        answers: what the leader has told, by the epoch that was asked for.
        looked: how its records compare, by epoch.
    """

    history: Sequence[Begun]
    epoch: int
    position: int
    certain: bool = True
    restored: bool = False
    newest: int = UNDEFINED
    answers: Mapping[int, EpochEnd]
    looked: Mapping[int, Looked] = field(default_factory=dict)


def compare(seen: Compared) -> Finding:
    """The greatest epoch that both have, and up to where they are the same; or what to find out next.

    The end is at or beyond the position where nothing differs. `NOBODY_KNOWS` where the leader knows no epochs.
    """
    met = _by_epochs(seen)
    certain = seen.certain and (not seen.history or any(one.epoch == seen.epoch for one in seen.history))
    if certain or not isinstance(met, EpochEnd) or met == NOBODY_KNOWS or met.end >= seen.position:
        return met
    # The flow's topic may have lost the begin of an epoch that was copied behind that point.
    looked = seen.looked.get(UNDEFINED)
    if looked is None:
        return Look(UNDEFINED, met.end, seen.position)
    if looked.alike is Alike.SAME and looked.end > met.end:
        return EpochEnd(UNDEFINED, looked.end, looked.proven)
    return met._replace(proven=met.proven and looked.alike is not Alike.UNKNOWN)


def _by_epochs(seen: Compared) -> Finding:
    """As `compare`, where the history is complete."""
    told = seen.answers.get(seen.epoch)
    if told is None:
        return Ask(seen.epoch)
    if told.end == UNDEFINED:
        return NOBODY_KNOWS if seen.newest == UNDEFINED else _shared(seen, seen.newest, seen.position, went_back=True)
    if told.epoch == seen.epoch:
        met: Finding = told
    else:
        met = _meeting(seen, told)
    if not isinstance(met, EpochEnd):
        return met
    if met.end >= seen.position:
        return _shared(seen, met.epoch, seen.position, went_back=False) if seen.restored else met
    return _shared(seen, met.epoch, met.end, went_back=False)


def _meeting(seen: Compared, told: EpochEnd) -> Finding:
    """The leader does not have the epoch asked for, and ``told`` of the next below: down to one that both have."""
    while (mine := _at_most(seen, told.epoch)) is not None and mine.epoch != told.epoch:
        answer = seen.answers.get(mine.epoch)
        if answer is None:
            return Ask(mine.epoch)
        if not UNDEFINED < answer.epoch < told.epoch:
            break  # another leader by now
        told = answer
    return EpochEnd(told.epoch, min(told.end, _end(seen, told.epoch)))


def _shared(seen: Compared, newest: int, point: int, *, went_back: bool) -> Finding:
    """The greatest epoch at or below ``newest`` that began with the records that were copied, and up to where it goes.

    All that the leader is asked for is at or below its newest epoch, so there is an end in each answer.

    Args:
        seen: what is known.
        newest: of both, or of the log.
        point: they are not the same beyond that.
        went_back: whether the log is an older copy of its disk. Where it is not known to be, epochs are believed.
    """
    mine, compared = _at_most(seen, newest), True
    while mine is not None:
        answer = seen.answers.get(mine.epoch)
        if answer is None:
            return Ask(mine.epoch)
        point = min(point, answer.end, _end(seen, mine.epoch))
        if mine.epoch == 0:
            return EpochEnd(0, point, compared)  # the first of any log
        looked = None
        if answer.epoch == mine.epoch and mine.offset < point:
            looked = seen.looked.get(mine.epoch)
            if looked is None:
                return Look(mine.epoch, mine.offset, point)
            went_back = went_back or looked.alike is Alike.OTHER
            if looked.alike is Alike.SAME or not went_back:
                return _up_to(mine.epoch, point, looked, compared=compared)
            compared = compared and looked.alike is Alike.OTHER
        if went_back:
            left = seen.answers.get(mine.epoch - 1)
            if left is None:
                return Ask(mine.epoch - 1)
            point = min(point, left.end, mine.offset)
        mine = _at_most(seen, mine.epoch - 1)
    return EpochEnd(newest, 0, proven=False) if went_back else EpochEnd(newest, point)


def _up_to(epoch: int, point: int, looked: Looked, *, compared: bool) -> EpochEnd:
    """The point of two logs that have begun an epoch with the same records, as far as anything is known of these."""
    return EpochEnd(epoch, looked.end, looked.proven) if looked.differs else EpochEnd(epoch, point, compared)


def _at_most(seen: Compared, epoch: int) -> Begun | None:
    """The greatest copied epoch that is not above ``epoch``."""
    return max((one for one in seen.history if one.epoch <= epoch), default=None)


def _end(seen: Compared, epoch: int) -> int:
    """Where an epoch ends in what was copied: where the next one begins, or at the position."""
    return min([seen.position, *(one.offset for one in seen.history if one.epoch > epoch)])
