"""How records of the internal topics are written: compact JSON, the values with a version; and how they are read.

Whoever may write to such a topic may put anything there. So what a record says is looked at where it is read, and is of
the type and in the range that the rest of the code takes for granted.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Iterable
from functools import lru_cache
from typing import Any

from sparkmirror.model import TopicPartition, Writer

VERSION = 1
_DECODE = json.JSONDecoder().raw_decode
_ENCODE = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False).encode
_LONG, _MOST_LISTS = 1 << 20, 1 << 20
"""Characters from which on lists and objects are counted first, and how many there may be: each takes 64 bytes or more,
for two characters. What we write has one for each partition, at most."""


INT32, INT64 = 2**31 - 1, 2**63 - 1
LAST_MOMENT = 253_402_214_400_000
"""The last day of the year 9999, in milliseconds since 1970."""

UNREADABLE = (ValueError, KeyError, IndexError, TypeError, AttributeError, RecursionError, OverflowError)
"""What reading JSON of others may raise: it is no JSON, too deep, or of other types."""


def write(value: Any) -> str:
    """Writes a key or a value."""
    return _ENCODE(value)


def place(topic: str, partition: int) -> TopicPartition:
    """A partition that a record names; records of one topic share the name."""
    return TopicPartition(sys.intern(topic), partition)


@lru_cache(4_096)
def writer(producer_id: int, epoch: int) -> Writer:
    """A writer that a record names; its records share it."""
    return Writer(producer_id=producer_id, epoch=epoch)


def read(text: str) -> Any:
    """Reads a key or a value, which has no spaces before or behind it.

    Raises:
        ValueError: it is no JSON, too deep, or takes far more memory than room.
    """
    if len(text) > _LONG and text.count("[") + text.count("{") > _MOST_LISTS:
        raise ValueError("it holds too many lists")
    try:
        value, end = _DECODE(text)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    if end != len(text):
        raise ValueError("more follows")
    return value


def integer(value: Any, most: int = INT64, least: int = -1) -> int:
    """A whole number in a range.

    Raises:
        ValueError: it is none.
    """
    if type(value) is not int or not least <= value <= most:
        raise ValueError(f"a whole number from {least} to {most} is missing")
    return value


def count(value: Any) -> int:
    """A number that is not negative.

    Raises:
        ValueError: it is none.
    """
    return integer(value, least=0)


def moment(value: Any) -> int:
    """Milliseconds since 1970, up to a year that calendars know; -1 for none.

    Raises:
        ValueError: it is none.
    """
    return integer(value, LAST_MOMENT)


def signed(value: Any) -> int:
    """A number as others choose it: a record's timestamp, an offset that a client has committed; or is only shown.

    Raises:
        ValueError: it is none.
    """
    return integer(value, least=-INT64 - 1)


def number(value: Any) -> float:
    """A number that is finite.

    Raises:
        ValueError: it is none.
    """
    if type(value) not in (int, float) or not math.isfinite(value):
        raise ValueError("a number is missing")
    return float(value)


def text(value: Any) -> str:
    """A text that can be written as UTF-8.

    Raises:
        ValueError: it is none.
    """
    if type(value) is not str:
        raise ValueError("a text is missing")
    if not value.isascii():
        value.encode()
    return value


def texts(value: Any) -> tuple[str, ...]:
    """A list of texts.

    Raises:
        ValueError: it is none.
    """
    return tuple(text(each) for each in rows(value))


def flag(value: Any) -> bool:
    """Yes or no.

    Raises:
        ValueError: it is neither.
    """
    if type(value) is not bool:
        raise ValueError("yes or no is missing")
    return value


def rows(value: Any) -> Iterable[Any]:
    """A list.

    Raises:
        ValueError: it is none.
    """
    if type(value) is not list:
        raise ValueError("a list is missing")
    return value
