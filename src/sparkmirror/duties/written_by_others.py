"""How many records others have written to partitions between two offsets, and up to where; markers are no records."""

from __future__ import annotations

import math
import time
from collections.abc import Collection, Mapping
from typing import NamedTuple

from sparkmirror.config import Isolation
from sparkmirror.kafka.cluster import Cluster
from sparkmirror.kafka.opened_records import extent
from sparkmirror.kafka.reading import Span, read_up_to
from sparkmirror.model import TopicPartition

AT_ONCE_BYTES = 1 << 20
"""Of a partition at a time; many are read side by side."""


class Written(NamedTuple):
    """Records of others in one copy.

    Attributes:
        end: the offset behind the last of them; the first one that was looked at where there is none.
        records: how many they are; what was not read counts by its offsets.
    """

    end: int
    records: int = 0

    def more(self, found: Written) -> Written:
        """These, and what was found behind them."""
        return Written(found.end, self.records + found.records) if found.records else self

    def left(self, position: int) -> int:
        """How many of them at most a flow has not brought home that stands at this offset of the copy."""
        return max(0, min(self.records, self.end - position))


def written(
    source: Cluster,
    spans: Mapping[TopicPartition, Span],
    without: Collection[int],
    timeout_ms: int,
    *,
    isolation: Isolation = Isolation.READ_UNCOMMITTED,
    most: float = math.inf,
    seconds: float = math.inf,
) -> dict[TopicPartition, Written]:
    """What others have written between two offsets.

    Args:
        source: where.
        spans: from where to where; each lies within what its log has.
        without: producers whose records do not count.
        timeout_ms: of each question.
        isolation: whether records of transactions that were aborted, or are open, count too.
        most: records of a partition that are counted; behind so many, offsets stand for records.
        seconds: that are spent on it; what is not read by then counts by its offsets.

    Raises:
        SparkmirrorError: a partition cannot be read.
    """
    until = time.monotonic() + seconds
    found = {place: Written(span.first) for place, span in spans.items()}
    rest = {place: span for place, span in spans.items() if span.first < span.end}
    while rest and time.monotonic() < until:
        read = read_up_to(source, rest, extent, timeout_ms, AT_ONCE_BYTES, isolation, without).complete()
        for place, part in read.items():
            if part.records:
                count = sum(each.records for each in part.records)
                found[place] = found[place].more(Written(part.records[-1].last + 1, count))
            rest[place] = Span(part.end, spans[place].end)
            if found[place].records > most:
                found[place] = _with_unread(found[place], rest[place])
                rest[place] = Span(spans[place].end, spans[place].end)
        rest = {place: span for place, span in rest.items() if span.first < span.end}
    return found | {place: _with_unread(found[place], span) for place, span in rest.items()}


def _with_unread(found: Written, rest: Span) -> Written:
    return found.more(Written(rest.end, rest.end - rest.first))
