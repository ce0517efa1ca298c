"""Which source offsets orders left out of a partition: pure.

An order has the copy go on further on, and what lies between is never copied. No hole of the map tells that from
markers, and from what compaction took. So the order's record says where the copy stood, and where it went on.

Invariants: what was copied before or since is not left out; where a log is another one by now, nothing older counts.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from sparkmirror.model import NO_OFFSET
from sparkmirror.offsets.track import FAR


class Span(NamedTuple):
    """Source offsets from ``first`` to before ``stop``."""

    first: int
    stop: int


class Reset(NamedTuple):
    """Why a writer epoch began anew.

    Attributes:
        stood: where the copy stood when an order had it go on elsewhere, or `NO_OFFSET` where none did.
        source: where it went on.
        parted: from which source offset on older epochs hold no more, or `FAR`.
    """

    stood: int
    source: int
    parted: int


def ordered_out(resets: Iterable[Reset]) -> tuple[Span, ...]:
    """What no epoch has copied, between the first and the last, since orders left it out.

    Args:
        resets: of the epochs that began anew, oldest first.
    """
    copied, begins = list[Span](), NO_OFFSET
    for reset in resets:
        if reset.stood != NO_OFFSET:
            copied.append(Span(begins, reset.stood))
            begins = reset.source
        elif reset.parted < begins:
            begins = reset.parted
        copied = [span._replace(stop=min(span.stop, reset.parted)) for span in copied]
    return _between(sorted((*copied, Span(begins, FAR))))


def _between(copied: Iterable[Span]) -> tuple[Span, ...]:
    """What lies between spans, of which the first begins before everything."""
    found, reached = list[Span](), NO_OFFSET
    for span in copied:
        if span.first < span.stop:
            if reached != NO_OFFSET and reached < span.first:
                found.append(Span(reached, span.first))
            reached = max(reached, span.stop)
    return tuple(found)
