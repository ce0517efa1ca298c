"""Where two partitions first differ, in words.

Reads both partitions side by side once more and keeps no more than a window of records per side in memory. From the
windows at the first difference it tells a changed record from a missing, an extra and a misplaced one.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from itertools import islice

from confluent_kafka import Message

from sparkmirror.lab.records import Extent, Reader, Row, row_of

WINDOW = 1_000
SHOWN_BYTES = 40
FIELDS = ("timestamp", "key", "value", "headers")


def first_difference(
    source: tuple[str, str], target: tuple[str, str], partition: int, here: Extent, there: Extent
) -> str:
    """Describes the first difference between one partition on two clusters.

    Args:
        source: bootstrap servers and topic of the source.
        target: bootstrap servers and topic of the target.
        partition: the partition, the same number on both sides.
        here: what to read on the source.
        there: what to read on the target.

    Returns:
        One sentence naming topic, partition, offsets and fields; "" when there is no difference.
    """
    with (
        Reader(*source, {partition: here}) as source_reader,
        Reader(*target, {partition: there}) as target_reader,
    ):
        source_side, target_side = _records(source_reader), _records(target_reader)
        for count, (ours, theirs) in enumerate(_pairs(source_side, target_side)):
            if ours is None or theirs is None or row_of(ours) != row_of(theirs):
                place = f"{source[1]}-{partition}, record {count}"
                return f"{place}: {_describe(_window(ours, source_side), _window(theirs, target_side))}"
    return ""


def _records(reader: Reader) -> Iterator[Message]:
    for messages in reader:
        yield from messages


def _pairs(
    source_side: Iterator[Message], target_side: Iterator[Message]
) -> Iterator[tuple[Message | None, Message | None]]:
    while True:
        ours, theirs = next(source_side, None), next(target_side, None)
        if ours is None and theirs is None:
            return
        yield ours, theirs


def _window(first: Message | None, rest: Iterator[Message]) -> deque[Message]:
    return deque() if first is None else deque((first, *islice(rest, WINDOW)))


def _describe(ours: deque[Message], theirs: deque[Message]) -> str:
    if not theirs:
        return f"the target ends here, the source goes on with {_name(ours[0], 'source')}"
    if not ours:
        return f"the source ends here, the target goes on with {_name(theirs[0], 'target')}"
    later_there = _find(row_of(ours[0]), theirs)
    later_here = _find(row_of(theirs[0]), ours)
    both = f"{_name(ours[0], 'source')} against {_name(theirs[0], 'target')}"
    if later_there and later_here:
        return f"out of order: the source's record lies {later_there} further on the target; {both}"
    if later_here:
        return f"{later_here} records are missing on the target; {both}"
    if later_there:
        return f"{later_there} records too many on the target; {both}"
    changed = _fields(row_of(ours[0]), row_of(theirs[0]))
    return f"{changed}; source offset {ours[0].offset()}, target offset {theirs[0].offset()}"


def _find(row: Row, messages: deque[Message]) -> int:
    return next((index for index, message in enumerate(messages) if row_of(message) == row), 0)


def _fields(ours: Row, theirs: Row) -> str:
    return ", ".join(
        f"{name} is {_short(mine)} on the source and {_short(other)} on the target"
        for name, mine, other in zip(FIELDS, ours, theirs, strict=True)
        if mine != other
    )


def _name(message: Message, side: str) -> str:
    timestamp, key, value, _ = row_of(message)
    return f"{side} offset {message.offset()} (key {_short(key)}, value {_short(value)}, timestamp {timestamp})"


def _short(value: object) -> str:
    if isinstance(value, bytes) and len(value) > SHOWN_BYTES:
        return f"{value[:SHOWN_BYTES]!r}… ({len(value)} bytes)"
    return repr(value)
