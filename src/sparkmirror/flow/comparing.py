"""Compares what MirrorMaker 2 left on the target with the source, for the partitions of one flow.

Reads as little of both logs as says something (`inheriting`), many partitions at a time, and decides by
`sparkmirror.mm2.tail`.

Invariant: what cannot be read, or compared, is not guessed: it is a partition whose records may be there twice. A right
that is missing is an error, since somebody can give it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from hashlib import blake2b
from typing import Any

from sparkmirror.batches import TimestampType
from sparkmirror.config import FlowConfig, Isolation
from sparkmirror.duties.duty import Sides
from sparkmirror.errors import BrokerError
from sparkmirror.flow.inheriting import Arrived, Comparison, Copied, arrive, from_below, from_end, from_last, from_sync
from sparkmirror.kafka.codes import UNAUTHORIZED
from sparkmirror.kafka.opened_records import Row, rows
from sparkmirror.kafka.reading import read_records
from sparkmirror.kafka.rounds import Results, chunks
from sparkmirror.mm2.tail import Match, Matched, Seen, Undecided, match_below, match_from_end, match_from_sync
from sparkmirror.model import TopicPartition

AT_ONCE = 100
"""Partitions that are compared side by side: so many ends of logs are in memory."""


def isolation_of(flow: FlowConfig) -> Isolation:
    """What MirrorMaker 2 saw of the source: its default is another one than ours."""
    told = dict(flow.origins).get("source.consumer.isolation.level")
    return flow.isolation if told else Isolation.READ_UNCOMMITTED


def compare(sides: Sides, found: Sequence[Copied]) -> Iterator[Arrived]:
    """Compares what is to be compared: from the offset syncs first, which says most, from the end, then below.

    Of what MirrorMaker 2 had copied as a whole the last records are enough, where they agree.

    Raises:
        BrokerError: this user may not READ a topic or its copy.
        LinkError: a cluster does not answer.
    """
    for some in chunks([one for one in found if one.open or one.level], AT_ONCE):
        whole = [one for one in some if not one.torn]  # as far as the offset syncs tell
        matches = _compare(sides, [one for one in whole if one.level], from_last, _by_end)
        matches |= _compare(sides, _unsure(some, matches), from_sync, _by_sync)
        matches |= _compare(sides, _unsure(whole, matches), from_end, _by_end)
        below = _compare(sides, _unsure(some, matches), from_below, _by_below)
        matches = {**below, **matches, **{place: one for place, one in below.items() if isinstance(one, Matched)}}
        yield from (arrive(one, matches.get(one.here, _UNSEEN)) for one in some)
    yield from (arrive(one, None) for one in found if not (one.open or one.level))


_UNSEEN = Undecided("it was not compared")


def _unsure(some: Sequence[Copied], matches: Mapping[TopicPartition, Match]) -> list[Copied]:
    """Those of which no comparison has said where both sides agree."""
    found = ((one, matches.get(one.here, _UNSEEN)) for one in some)
    return [one for one, match in found if isinstance(match, Undecided) or not match.sure]


def _by_sync(one: Copied, asked: Comparison, source: Sequence[Seen], target: Sequence[Seen]) -> Match:
    assert one.anchor is not None  # from_sync gave something to read
    return match_from_sync(one.anchor, source, target, one.position, reaches=asked.source.end >= one.position)


def _by_below(one: Copied, asked: Comparison, source: Sequence[Seen], target: Sequence[Seen]) -> Match:
    reaches = asked.source.end >= one.position
    return match_below(source, target, one.position, whole=asked.whole, reaches=reaches)


def _by_end(one: Copied, asked: Comparison, source: Sequence[Seen], target: Sequence[Seen]) -> Match:
    return match_from_end(source, target, one.position, whole=asked.whole)


def _compare(
    sides: Sides,
    some: Sequence[Copied],
    choose: Callable[[Copied], Comparison | None],
    match: Callable[[Copied, Comparison, Sequence[Seen], Sequence[Seen]], Match],
) -> dict[TopicPartition, Match]:
    """Reads both sides of some partitions and compares them; what cannot be read says nothing."""
    asked = {one.here: (one, asking) for one in some if (asking := choose(one)) is not None}
    timeout_ms = sides.flow.admin_timeout_ms
    here = read_records(
        sides.source,
        {place: asking.source for place, (_, asking) in asked.items()},
        lambda table: seen(table, on_target=False),
        timeout_ms,
        isolation_of(sides.flow),
    )
    there = read_records(
        sides.target,
        {one.there: asking.target for one, asking in asked.values() if asking.target.first < asking.target.end},
        lambda table: seen(table, on_target=True),
        timeout_ms,
    )
    return {
        place: _unread(place, one, here, there) or match(one, asking, here.found[place], there.found.get(one.there, ()))
        for place, (one, asking) in asked.items()
    }


def _unread(
    place: TopicPartition,
    one: Copied,
    here: Results[TopicPartition, list[Seen]],
    there: Results[TopicPartition, list[Seen]],
) -> Undecided | None:
    failure = here.failed.get(place) or there.failed.get(one.there)
    if isinstance(failure, BrokerError) and failure.code in UNAUTHORIZED:
        raise failure  # once the right is there, nothing has to be repeated
    return None if failure is None else Undecided(f"it could not be read: {failure}")


def seen(table: Any, *, on_target: bool) -> list[Seen]:
    """The rows of a table, for a comparison; a time that the target's broker set is not the producer's."""
    return [
        Seen(
            row.offset,
            None if on_target and row.timestamp_type == TimestampType.LOG_APPEND_TIME else row.timestamp,
            _digest(row),
        )
        for row in rows(table)
    ]


def _digest(row: Row) -> bytes:
    digest = blake2b(digest_size=16)
    for part in (row.key, row.value, *(part for header in row.headers for part in header)):
        digest.update(b"-" if part is None else b"%d:" % len(part))
        digest.update(b"" if part is None else part)
    return digest.digest()
