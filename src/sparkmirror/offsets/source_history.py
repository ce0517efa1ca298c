"""Where the source's log parts from what was copied of it, by the leader epochs of both: pure.

A leader knows where each of its leader epochs ends; the copy knows at which offset it has met each of them first. The
greatest epoch that both have ends for each at some offset, and up to the lesser one the two are the same (KIP-279). The
leader's answer alone does not tell: one that was deposed comes back by an unclean election with records that were never
copied, and its epoch ends behind them.

A log that does not know an epoch which it gave out before went back as a whole: its disk is an older copy. Then it may
have given out the same epochs again, for other records. So also the beginnings are compared, down to an epoch that
begins at the same offset on both sides; a copy that began in the midst of one does not know that one's begin.

Invariants: the point is never behind the first difference as far as epochs tell; where nothing differs there is none
before the position.

References: KIP-101, KIP-279, KIP-320; ``LeaderEpochFileCache.endOffsetFor``, ``OffsetsForLeaderEpochUtils``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

UNDEFINED = -1


class EpochEnd(NamedTuple):
    """The greatest epoch of a log that is not above the one asked for, and the offset after its last record.

    Both are -1 where the log knows none: the epoch asked for is above all of its own.
    """

    epoch: int
    end: int


NOBODY_KNOWS = EpochEnd(UNDEFINED, UNDEFINED)


class Begun(NamedTuple):
    """A leader epoch of the source, and the first offset at which the copy has met a batch of it."""

    epoch: int
    offset: int


class Ask(NamedTuple):
    """The leader has to be asked where this epoch ends."""

    epoch: int


Finding: TypeAlias = EpochEnd | Ask


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """What is known of one partition.

    Attributes:
        history: the epochs that were copied, in order.
        epoch: of the batch left of the position, or a later one.
        position: up to which the source was copied.
        newest: the newest epoch of the log, or -1 while it is not asked for, or where its leader knows none.
        answers: what the leader has told, by the epoch that was asked for.
    """

    history: Sequence[Begun]
    epoch: int
    position: int
    newest: int = UNDEFINED
    answers: Mapping[int, EpochEnd]


def compare(seen: Compared) -> Finding:
    """The greatest epoch that both have, and up to where they are the same; or which epoch to ask for next.

    The end is at or beyond the position where nothing differs. `NOBODY_KNOWS` where the leader knows no epochs.
    """
    told = seen.answers.get(seen.epoch)
    if told is None:
        return Ask(seen.epoch)
    if told.end == UNDEFINED:
        return NOBODY_KNOWS if seen.newest == UNDEFINED else _gone_back(seen)
    if told.epoch == seen.epoch:
        return told
    return _meeting(seen, told)


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


def _gone_back(seen: Compared) -> Finding:
    """The leader's newest epoch is below one that was copied: its log is an older copy, and may have other records.

    All that it is asked for now is at or below that epoch, so there is an end in each answer.
    """
    mine, point = _at_most(seen, seen.newest), seen.position
    while mine is not None:
        answer = seen.answers.get(mine.epoch)
        if answer is None:
            return Ask(mine.epoch)
        point = min(point, answer.end, _end(seen, mine.epoch))
        if mine.epoch == 0:
            return EpochEnd(0, point)  # the first of any log
        left = seen.answers.get(mine.epoch - 1)
        if left is None:
            return Ask(mine.epoch - 1)
        if answer.epoch == mine.epoch and left.end == mine.offset:
            return EpochEnd(mine.epoch, point)
        point = min(point, left.end, mine.offset)
        mine = _at_most(seen, mine.epoch - 1)
    return EpochEnd(seen.newest, min([point, *(one.offset for one in seen.history)]))


def _at_most(seen: Compared, epoch: int) -> Begun | None:
    """The greatest copied epoch that is not above ``epoch``."""
    return max((one for one in seen.history if one.epoch <= epoch), default=None)


def _end(seen: Compared, epoch: int) -> int:
    """Where an epoch ends in what was copied: where the next one begins, or at the position."""
    return min([seen.position, *(one.offset for one in seen.history if one.epoch > epoch)])
