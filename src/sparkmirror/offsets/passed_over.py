"""Epochs that an order had go back, and that have not copied again all that older ones had: pure.

An order to go back, and another one that corrects it, leave the older copies where they are: groups in between have to
be found there, and not behind what was copied once more.

Invariants:
    * Only an epoch counts that began by an order alone, or in the place of one that had sent nothing. One that began
      since a log is another one, or lost records, hides from there on what older epochs knew, as ever.
    * Each older epoch has an end on record. Where one has none, the internal topic has lost it: then the record counts
      that the next one names which is not passed over; where it names none, the older copies hold, and nothing is sure.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from sparkmirror.model import NO_OFFSET, Writer
from sparkmirror.offsets.pieces import Before, Pieces
from sparkmirror.offsets.track import FAR

NO_TURN = -1


class Turn(NamedTuple):
    """Epochs of which only the first one began anew, oldest first.

    Attributes:
        writers: of the epochs.
        first: the source offset at which they begin, as an order says, or that of the first record.
        end: before which source offset they end; `first` where nothing was acknowledged, `FAR` where that is not known.
        moved: whether they began by an order alone.
        holds: before which source offset they hold: where they end, or where the source's log parts from it;
            `NO_OFFSET` where nothing was acknowledged.
        sure: whether they ended there; else the end is lost from the map, and lies there or behind.
        behind: the number of the turn which has the record that they came after, by its name; `NO_TURN` where no name
            of it is on record.
    """

    writers: tuple[Writer, ...]
    first: int
    end: int
    moved: bool
    holds: int
    sure: bool = True
    behind: int = NO_TURN


def unfinished(turns: Sequence[Turn]) -> tuple[Turn, ...]:
    """Those that went back by an order alone, and ended, or stand, below what older ones had, or may have, copied."""
    return tuple(turn for number, turn in enumerate(turns) if turn.moved and _falls_short(turn, turns[:number]))


def _falls_short(turn: Turn, older: Sequence[Turn]) -> bool:
    if turn.end == FAR:
        return False
    return any(turn.end < one.holds < FAR or not one.sure for one in older)


def passed_over(turns: Sequence[Turn]) -> Mapping[Writer, bool]:
    """The epochs of the unfinished ones behind which the copy went on further on: the older ones hold there.

    Returns:
        whether it is sure that they are unfinished, by epoch.
    """
    left, begins, behind = set(unfinished(turns)), FAR, NO_TURN
    passed: dict[Writer, bool] = {}
    for number, turn in reversed(list(enumerate(turns))):
        newest = number == len(turns) - 1
        short = turn in left and (turn.end < begins or turn.end == turn.first)
        if newest or not short or behind == number:
            begins, behind = min(begins, turn.first), turn.behind
        else:
            sure = behind != NO_TURN or all(one.sure for one in turns[: number + 1])
            passed |= dict.fromkeys(turn.writers, sure)
    return passed


def with_lost_ends(
    turns: Sequence[Turn], pieces_of: Callable[[Writer], Pieces | None], before_of: Callable[[Turn], Before | None]
) -> tuple[Turn, ...]:
    """The same; those behind which others began, and of which no end is on record, end where they do at least.

    Args:
        turns: oldest first.
        pieces_of: what is on record of an epoch.
        before_of: the record that a turn came after.
    """
    found: list[Turn] = []
    named: dict[int, int] = {}
    for turn in turns:
        before = before_of(turn)
        behind = NO_TURN if before is None else _turn_of(before, found, pieces_of)
        found.append(turn._replace(behind=behind))
        if before is not None and behind != NO_TURN and (turn is turns[-1] or turn.end > turn.first):
            named[behind] = max(named.get(behind, NO_OFFSET), before.source + 1)
    for number, turn in enumerate(found[:-1]):
        if turn.end == FAR:
            end = max(turn.first, named.get(number, NO_OFFSET), *(_least_end(pieces_of(one)) for one in turn.writers))
            found[number] = turn._replace(end=end, holds=min(turn.holds, end), sure=False)
    return tuple(found)


def _turn_of(record: Before, turns: Sequence[Turn], pieces_of: Callable[[Writer], Pieces | None]) -> int:
    for number, turn in enumerate(turns):
        if any((pieces := pieces_of(writer)) is not None and pieces.has(record) for writer in turn.writers):
            return number
    return NO_TURN


def _least_end(pieces: Pieces | None) -> int:
    """Before which source offset an epoch has ended at least."""
    source = None if pieces is None else pieces.source_of(pieces.certain)
    return NO_OFFSET if source is None else source + 1


def idle(turns: Sequence[Turn]) -> tuple[Writer, ...]:
    """The newest epochs, as far as they began by an order alone and have sent nothing."""
    found: list[Writer] = []
    for turn in reversed(turns):
        if not turn.moved or not turn.sure or turn.end != turn.first:
            break
        found += turn.writers
    return tuple(found)


def turns_of(
    writers: Sequence[Writer],
    pieces_of: Callable[[Writer], Pieces | None],
    moved: Mapping[Writer, int],
    parted: Callable[[Writer], int],
    ended: Callable[[Writer], int],
) -> tuple[Turn, ...]:
    """Epochs with segments, oldest first, by where the position of the copy was reset.

    Args:
        writers: of the epochs, oldest first.
        pieces_of: what is on record of an epoch.
        moved: those that began by an order alone, and where; `NO_OFFSET` where that is not on record.
        parted: from which source offset on an epoch holds no more, or `FAR`.
        ended: before which source offset an epoch has ended in order, where no end of it is on record; or `FAR`.
    """
    turns: list[Turn] = []
    for writer in writers:
        pieces = pieces_of(writer)
        if pieces is None:
            continue
        first, end = pieces.first.offset, min(_end(pieces), ended(writer))
        if not turns or pieces.anew:
            turns.append(
                _begun(turns[-1] if turns else None, writer, pieces, moved, end)._replace(
                    holds=_holds(first, end, parted(writer))
                )
            )
        else:
            before = _up_to(turns[-1], first) if pieces.supersedes else turns[-1]
            turns[-1] = before._replace(
                writers=(*before.writers, writer),
                end=max(before.end, end),
                holds=max(before.holds, _holds(first, end, parted(writer))),
            )
    return tuple(turns)


def _begun(before: Turn | None, writer: Writer, pieces: Pieces, moved: Mapping[Writer, int], end: int) -> Turn:
    """The turn of an epoch that began anew; before its first record there may be holes."""
    first = pieces.first.offset
    idle = before is not None and before.moved and before.end == before.first <= first
    ordered = moved.get(writer, NO_OFFSET)
    if before is not None and idle and writer not in moved and pieces.before is not None and pieces.before.known:
        ordered = max(before.first, pieces.before.source + 1)
    begins = first if ordered == NO_OFFSET else min(ordered, first)
    ends = begins if end == first else end
    return Turn(writers=(writer,), first=begins, end=ends, moved=idle or writer in moved, holds=NO_OFFSET)


def up_to(turns: Sequence[Turn], limit: int) -> tuple[Turn, ...]:
    """The same where they hold below a source offset only; those that had sent nothing are passed over as ever."""
    passed = {turn for turn in unfinished(turns) if turn.end == turn.first}
    return tuple(
        turn._replace(first=NO_OFFSET, end=NO_OFFSET)
        if turn in passed
        else turn._replace(holds=_below(turn.holds, limit))
        for turn in turns
    )


def _below(holds: int, limit: int) -> int:
    """What an epoch holds below a source offset; nothing tells that it got there where nothing tells how far it got."""
    return holds if holds == FAR else min(holds, limit)


def _up_to(turn: Turn, first: int) -> Turn:
    """The same where the next epoch went on at ``first``; the end of the one before need not be on record."""
    if turn.end < FAR:
        return turn
    return turn._replace(end=first, holds=min(turn.holds, first))


def _holds(first: int, end: int, parted: int) -> int:
    return NO_OFFSET if end == first else min(end, parted)


def _end(pieces: Pieces) -> int:
    stop = max((known.stop for known in pieces.known()), default=None)
    if stop is None:
        return pieces.first.offset
    last = None if stop == FAR else pieces.source_of(stop - 1)
    return FAR if last is None else last + 1
