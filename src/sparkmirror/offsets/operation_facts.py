"""What each fact of an operation's record is; part of ``offsets.ledger``.

Whoever may write to a flow's internal topic may put anything into such a record, and commands go by it. So each fact is
looked at where the record is read, by one table: whoever uses a fact takes its shape for granted.

Invariant: each fact that ``failover`` writes has a row here. One without a row is a later release's: nobody reads it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from sparkmirror.model import is_topic_name
from sparkmirror.offsets import json_text
from sparkmirror.offsets.json_text import INT32, count, flag, integer, moment, number, rows, signed, text, texts

STEPS = frozenset(
    "COMPARING SAVING FENCING CATCHING_UP IDLING STOPPING MOVING VERIFYING RELEASING UNDOING DONE ABANDONED".split()
)
"""The names in ``failover.states``: a record with another is none of this version."""

FENCES, KEPT = frozenset({"idle", "acl"}), frozenset({"", "keep-topic", "export", "discard"})
"""How producers are kept from the source, and what becomes of records that only one cluster has."""

Reader = Callable[[Any], object]
"""Raises ValueError, or another of `json_text.UNREADABLE`, where a value is not of its kind."""


def one_of(known: frozenset[str], value: Any) -> str:
    """A text of those that are known.

    Raises:
        ValueError: it is none.
    """
    name = text(value)
    if name not in known:
        raise ValueError(f"none of {', '.join(sorted(known))}")
    return name


def _topic(value: Any) -> str:
    name = text(value)
    if not is_topic_name(name):
        raise ValueError("no topic has such a name")
    return name


def _partition(value: Any) -> int:
    return integer(value, INT32, 0)


def _epoch(value: Any) -> int:
    return integer(value, INT32)


def _step(value: Any) -> str:
    return one_of(STEPS, value)


def _row(*parts: Reader) -> Reader:
    """A list of so many parts, each of its kind."""

    def read(value: Any) -> None:
        found = list(rows(value))
        if len(found) != len(parts):
            raise ValueError(f"a row of {len(parts)} parts is missing")
        for part, each in zip(parts, found, strict=True):
            part(each)

    return read


def _all(part: Reader) -> Reader:
    """A list of any length."""

    def read(value: Any) -> None:
        for each in rows(value):
            part(each)

    return read


def _or_nothing(part: Reader) -> Reader:
    """The same, or an empty list."""

    def read(value: Any) -> None:
        if value != []:
            part(value)

    return read


def _by_name(part: Reader, name: Reader = text) -> Reader:
    """An object."""

    def read(value: Any) -> None:
        if type(value) is not dict:
            raise ValueError("an object is missing")
        for key, each in value.items():
            name(key)
            part(each)

    return read


def _pairs(value: Any) -> None:
    """Partition and offset in turn."""
    found = list(rows(value))
    if len(found) % 2:
        raise ValueError("an offset is missing")
    for each in found[::2]:
        _partition(each)
    for each in found[1::2]:
        signed(each)


def _options(value: Any) -> None:
    one_of(FENCES, value["fence"])
    number(value["idle_s"])
    number(value["timeout_s"])


def _hold(value: Any) -> None:
    """An order that held the flow; its order has come with a later release."""
    _row(text, text, moment, text, *([moment] if len(value) > _HOLD else []))(value)


def _unbrought(value: Any) -> None:
    """A partition; why nothing brings what others wrote to it has come with a later release."""
    _row(_topic, _partition, *([text] if len(value) > len(_PLACE) else []))(value)


_HOLD = 4
_PLACE = (_topic, _partition)
_BROUGHT_BACK = _all(_row(text, moment, texts))
_PLACES, _PARTED = _all(_row(*_PLACE)), _all(_row(*_PLACE, signed, signed))
_KEPT = _by_name(_by_name(_pairs))

FACTS: Mapping[str, Reader] = {
    "active": texts,
    "again": _KEPT,
    "answers": flag,
    "apart": texts,
    "back": _or_nothing(_row(text, count, text, moment)),
    "begun": _all(count),
    "between": _all(_row(*_PLACE, signed)),
    "brought": _all(_row(*_PLACE, _epoch, signed, signed, text)),
    "came_back": texts,
    "came_since": _all(_row(*_PLACE, count)),
    "changing": texts,
    "committing": flag,
    "directory": text,
    "divergent": _all(_row(*_PLACE, signed, signed, count, _epoch)),
    "divergent_as": lambda value: one_of(KEPT, value),
    "earlier": _KEPT,
    "ended_before": _row(text, moment),
    "fence": rows,  # `failover.fence.rules_of` takes those of its own form alone
    "forgotten": _all(_row(text, *_PLACE, signed)),
    "given_up": text,
    "gone": _all(_row(text, *_PLACE)),
    "held_before": _hold,
    "home_fence": rows,
    "ids": _by_name(text, _topic),
    "interruptions": _all(_row(_step, moment, text, text, moment, text)),
    "kept": _all(count),
    "left_before": texts,
    "lifted": _by_name(_by_name(moment, _topic)),
    "lost_copies": _all(_row(*_PLACE, *_PLACE, signed, signed, signed)),
    "lost_start": flag,
    "map_lacks": texts,
    "moved": texts,
    "moved_before": texts,
    "names": _by_name(text),
    "not_home": texts,
    "not_taken": _all(_row(text, text)),
    "onward": _all(_row(*_PLACE, count)),
    "options": _options,
    "parted": _PARTED,
    "problems": texts,
    "recreated": _all(_topic),
    "returned": _BROUGHT_BACK,
    "saved": count,
    "strange": _all(_row(text, _topic)),
    "source_parted": _PARTED,
    "source_recreated": _all(_topic),
    "taken_back": _BROUGHT_BACK,
    "times": _by_name(_row(moment, moment), _step),
    "torn": _all(_row(*_PLACE, signed)),
    "tried": _all(_row(text, *_PLACE, signed, signed, signed, count)),
    "unasked": texts,
    "unbrought": _all(_unbrought),
    "unfollowed": _or_nothing(_row(text, moment, moment)),
    "unsettled": _all(_row(*_PLACE, text)),
    "unsettled_forth": _PLACES,
    "unsure": _all(_row(text, *_PLACE)),
    "untold": texts,
}


def check(facts: Mapping[str, Any]) -> None:
    """Sees that each fact is what it is to be.

    Raises:
        ValueError: one is not; the message names it.
    """
    for name, value in facts.items():
        reader = FACTS.get(name)
        if reader is not None:
            try:
                reader(value)
            except json_text.UNREADABLE as failure:
                raise ValueError(f"the fact {name} of an operation is of another form: {failure}") from failure
