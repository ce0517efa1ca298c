"""What others wrote to copies of the flow forth, where applications are, and the flow back does not bring.

Invariants: a record of a flow from the cluster that came back is no other's; nothing is said of heartbeats. Of a copy
that the flow back reads for what others wrote to it, it brings nothing before it has begun with it; of a partition that
the flow forth does not know, as the original has none, it brings nothing at all. Nor does it bring what lies before the
first record of the flow forth: a mirror that registers nowhere may have copied that. Where a file says so, or the flow
forth has taken the copy over from one, that is no other's; where the original has got the partition only when others
had written to the copy's, it is.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from enum import Enum
from typing import Any

from sparkmirror.config import FlowConfig, Isolation
from sparkmirror.copy.origins import brought_from
from sparkmirror.duties import topics
from sparkmirror.duties.duty import Sides
from sparkmirror.duties.known_maps import KnownMaps
from sparkmirror.duties.records_of_others import MOST_OFFSETS, gaps, joined, own_producers
from sparkmirror.failover import divergence
from sparkmirror.failover.divergence import Divergent
from sparkmirror.flow.extra_partitions import BROUGHT_HOME, without_original
from sparkmirror.flow.homecoming import due
from sparkmirror.kafka import admin
from sparkmirror.kafka.leaders import OffsetSpec
from sparkmirror.kafka.reading import Span
from sparkmirror.model import NO_OFFSET, TopicPartition
from sparkmirror.naming import append_filter
from sparkmirror.offsets.map import Stretch
from sparkmirror.offsets.state import JournalState


class Cause(Enum):
    """Why what others wrote to a copy is not brought; the value is what records of operations have."""

    NOT_BROUGHT = "not-brought"
    NO_ORIGINAL = "no-original"
    """The original has no such partition."""

    BEFORE_COPIES = "before-copies"
    """It lies before the first record that the flow which makes the copy has put there."""

    UNKNOWN_MAKER = "unknown-maker"
    """Nobody has on record who makes the copy: there may be no such records."""


Unbrought = Mapping[TopicPartition, Cause]


def left_here(forth: Sides, back: Sides) -> tuple[TopicPartition, ...]:
    """The copies that others have written to, and of which the flow back does not bring that, in order.

    Raises:
        SparkmirrorError: the target of forth cannot be asked.
    """
    assert forth.store is not None
    assert back.store is not None
    back.store.follow()
    reached = reached_of(forth.flow, forth.store.state)
    extra = _unknown_to(forth, {place.topic for place in reached})
    left = candidates(forth.flow, back.flow, [*reached, *extra], back.store.state.progress)
    return _with_records(forth, {place: reached.get(place) for place in left})


def wanting(forth: Sides, back: Sides) -> Unbrought:
    """Those of them that readers miss on the cluster that came back: as names are kept, or as it is to be brought.

    Under renaming nothing else is brought, as in MirrorMaker 2.

    Raises:
        SparkmirrorError: the target of forth cannot be asked.
    """
    if not forth.flow.policy.keeps_names and not back.flow.brings_home:
        return {}
    left = left_here(forth, back)
    if not forth.flow.policy.keeps_names:
        names = set(topics.homeward(back.flow, {place.topic for place in left}))
        left = tuple(place for place in left if place.topic in names)
    extra = without_original(back, left)
    found = {place: Cause.NO_ORIGINAL if place in extra else Cause.NOT_BROUGHT for place in left}
    before = () if forth.flow.policy.keeps_names else _before_copies(forth, back)
    return dict(sorted((dict.fromkeys(before, Cause.BEFORE_COPIES) | found).items()))


def troubles(places: Unbrought, here: str, there: str) -> tuple[str, ...]:
    """What is told of them, a line for each.

    Args:
        places: partitions of copies.
        here: the cluster that has the copies.
        there: the one that the flow back writes to.
    """
    said = {
        Cause.NOT_BROUGHT: (
            f"what others have written on {here} to this copy has not been brought to {there}: no group has an exact "
            "place in it"
        ),
        Cause.NO_ORIGINAL: (
            f"what others have written on {here} to this copy has not been brought to {there}, where its original has "
            "no such partition: no group has a place in it. Give the original as many partitions as the copy has, and "
            "have nobody write to the new ones before these records are there"
        ),
        Cause.BEFORE_COPIES: (
            f"what others have written on {here} to this copy before its first copied record has not been brought to "
            f"{there}, and never is: no group has an exact place in it. It was there when its original got the "
            f"partition, or the topic: have a producer write these records on {there} once more, if they are wanted "
            f"there; topics.append says that another mirror has copied them"
        ),
        Cause.UNKNOWN_MAKER: (
            f"nobody has on record on {here} who makes this copy, as where MirrorMaker 2 does: what others may have "
            f"written to it has not been brought to {there}, and no group has an exact place in it"
        ),
    }
    return tuple(f"{place}: {said[cause]}" for place, cause in places.items())


def told_last(flow: FlowConfig, state: JournalState) -> tuple[str, ...]:
    """What the flow's driver said last of copies that it does not bring home, where their cluster is gone. Pure.

    Args:
        flow: the flow.
        state: of its internal topic.
    """
    events = () if state.life is None or not flow.brings_home else state.life.events
    return tuple(f"{flow.name} said last: {text}" for text in events if BROUGHT_HOME in text)


def rows_of(places: Unbrought) -> list[list[Any]]:
    """For the record."""
    return [[*place, cause.value] for place, cause in places.items()]


def of_rows(rows: Iterable[Sequence[Any]]) -> dict[TopicPartition, Cause]:
    """From the record; earlier releases have told no cause, and later ones may tell another."""
    known = {cause.value: cause for cause in Cause}
    return {
        TopicPartition(topic, number): known.get(cause[0], Cause.NOT_BROUGHT) if cause else Cause.NOT_BROUGHT
        for topic, number, *cause in rows
    }


def _before_copies(forth: Sides, back: Sides) -> tuple[TopicPartition, ...]:
    """The copies with records of others before the first copied one that the flow back has not brought, in order.

    Raises:
        SparkmirrorError: the target of forth cannot be asked.
    """
    assert forth.store is not None
    assert back.store is not None
    known, timeout_ms = forth.store.state.flow, forth.flow.admin_timeout_ms
    state, homeward = forth.store.state, back.store.state.progress
    begun = before_copies(forth.flow, back.flow, state, own_producers(forth, state), homeward)
    if not begun or known is None:
        return ()
    starts = admin.find_offsets(forth.target, sorted(begun), OffsetSpec.EARLIEST, timeout_ms=timeout_ms).found
    spans = {place: Span(start, begun[place]) for place, start in starts.items() if start < begun[place]}
    maps = KnownMaps(back).of(set(spans))
    looked_at = [
        Divergent(place, *gap)
        for place, span in sorted(spans.items())
        for gap in not_in(maps[place].settled() if place in maps else (), span)
    ]
    mirrors = brought_from(forth.target, known.target_id, known.source_id) if looked_at else ()
    found = divergence.with_records(forth.target, looked_at, mirrors, timeout_ms)
    return tuple(sorted({one.partition for one in found}))


def before_copies(
    forth: FlowConfig,
    back: FlowConfig,
    state: JournalState,
    ids: tuple[int, ...],
    begun: Collection[TopicPartition],
) -> dict[TopicPartition, int]:
    """Where the first copied record lies in copies of which the flow back brings home what others wrote. Pure.

    Not where the flow forth goes on behind another mirror.

    Args:
        forth: the flow that makes the copies.
        back: the flow back.
        state: what is on record of the former.
        ids: its producers, in order.
        begun: the partitions of copies that the flow back has begun with.
    """
    appended, found = append_filter(forth), dict[TopicPartition, int]()
    for here, progress in state.progress.items():
        copy = TopicPartition(topics.remote_topic(forth, here.topic), here.partition)
        if copy not in begun or here in state.inherited or appended.matches(here.topic) or here not in state.maps:
            continue
        first = next(state.maps[here].offsets(progress, ids, parted=False).settled(), None)
        if first is not None and first.target > 0:
            found[copy] = first.target
    names = set(topics.homeward(back, {copy.topic for copy in found}))
    return {copy: offset for copy, offset in found.items() if copy.topic in names}


def not_in(stretches: Iterable[Stretch], span: Span) -> Iterator[Span]:
    """The offsets of a span that no stretch has copied from, in order. Pure."""
    first = span.first
    for stretch in stretches:
        if first < min(stretch.source, span.end):
            yield Span(first, min(stretch.source, span.end))
        first = max(first, stretch.source + stretch.length)
    if first < span.end:
        yield Span(first, span.end)


def unbegun(forth: Sides, back: Sides) -> tuple[TopicPartition, ...]:
    """Those that the flow back brings as soon as it has looked for topics, in order; not where there is no original.

    Raises:
        SparkmirrorError: a cluster cannot be asked.
    """
    left = wanting(forth, back).items() if back.flow.brings_home else ()
    return tuple(due(back, [place for place, cause in left if cause is not Cause.BEFORE_COPIES]))


def of_unknown_makers(back: Sides) -> Unbrought:
    """Copies of which the flow back would bring what others wrote, if it were on record who makes them, in order.

    MirrorMaker 2 may make them, which registers nowhere, or the record of the flow that does is lost.

    Raises:
        SparkmirrorError: the source of the flow back cannot be asked.
    """
    flow, timeout_ms = back.flow, back.flow.admin_timeout_ms
    listed = admin.list_topics(back.source, timeout_ms=timeout_ms)
    names = topics.homeward(flow, listed)
    places = [TopicPartition(name, number) for name in names for number in sorted(listed[name].partitions)]
    left = [place for place in places if place not in back.progress]
    starts = admin.find_offsets(back.source, left, OffsetSpec.EARLIEST, timeout_ms=timeout_ms).found
    ends = admin.find_offsets(back.source, sorted(starts), OffsetSpec.LATEST, timeout_ms=timeout_ms).found
    return {place: Cause.UNKNOWN_MAKER for place, end in sorted(ends.items()) if end > starts[place]}


def reached_of(flow: FlowConfig, state: JournalState) -> dict[TopicPartition, int]:
    """The ends of the copies when a flow's last records were acknowledged; 0 where nothing was copied. Pure.

    Not of heartbeats, nor of copies of which the record does not tell that.
    """
    return {
        TopicPartition(topics.remote_topic(flow, place.topic), place.partition): max(0, one.reached.end)
        for place, one in state.progress.items()
        if (one.reached.end != NO_OFFSET or (one.target == NO_OFFSET and place not in state.inherited))
        and not topics.is_heartbeats(flow, place.topic)
    }


def candidates(
    forth: FlowConfig, back: FlowConfig, copies: Iterable[TopicPartition], begun: Collection[TopicPartition]
) -> tuple[TopicPartition, ...]:
    """The copies of which the flow back does not bring what others wrote to them, in order. Pure.

    Args:
        forth: the flow that makes the copies.
        back: the flow back.
        copies: their partitions.
        begun: the partitions that the flow back has a position of.
    """
    places = sorted(copies)
    if forth.policy.keeps_names:
        brought = set(topics.wanted(back, {place.topic for place in places}))
        return tuple(place for place in places if place.topic not in brought)
    return tuple(place for place in places if not back.brings_home or place not in begun)


def _unknown_to(forth: Sides, names: Collection[str]) -> tuple[TopicPartition, ...]:
    """The partitions of copies of which the flow that makes them has nothing on record: it writes none of theirs."""
    assert forth.store is not None
    state = forth.store.state
    own = {
        TopicPartition(topics.remote_topic(forth.flow, place.topic), place.partition)
        for place in (*state.progress, *state.inherited)
    }
    known = admin.list_topics(forth.target, sorted(names), forth.flow.admin_timeout_ms) if names else {}
    there = (TopicPartition(name, number) for name, topic in known.items() for number in topic.partitions)
    return tuple(sorted(place for place in there if place not in own))


def _with_records(forth: Sides, reached: Mapping[TopicPartition, int | None]) -> tuple[TopicPartition, ...]:
    """Those that have a record of others behind the first copy, between two copies too.

    Args:
        forth: the flow that makes the copies.
        reached: the ends of the copies when its last records were acknowledged; None for partitions of which it has
            nothing on record.
    """
    assert forth.store is not None
    known, timeout_ms = forth.store.state.flow, forth.flow.admin_timeout_ms
    if not reached or known is None:
        return ()
    places = sorted(reached)
    ends = admin.find_offsets(
        forth.target, places, OffsetSpec.LATEST, Isolation.READ_COMMITTED, timeout_ms=timeout_ms
    ).found
    starts = admin.find_offsets(forth.target, sorted(ends), OffsetSpec.EARLIEST, timeout_ms=timeout_ms).found
    ids = own_producers(forth, forth.store.state)
    copied_from = {
        TopicPartition(topics.remote_topic(forth.flow, here.topic), here.partition): here
        for here in forth.store.state.progress
    }
    spans = {}
    for place, start in starts.items():
        log, end = Span(start, ends[place]), reached[place]
        spans[place] = (log,) if end is None else unmapped(forth.store.state, copied_from[place], ids, end, log)
    looked_at = [Divergent(place, *span) for place, some in sorted(spans.items()) for span in some]
    mirrors = brought_from(forth.target, known.target_id, known.source_id) if looked_at else ()
    found = divergence.with_records(forth.target, looked_at, mirrors, timeout_ms)
    return tuple(sorted({one.partition for one in found}))


def unmapped(
    state: JournalState, here: TopicPartition, ids: tuple[int, ...], reached: int, log: Span
) -> tuple[Span, ...]:
    """Where records of others may lie in a copy: where the map knows none of the flow's. Pure.

    Of a map that is thinned so far that it tells of few of them, only what lies behind the last copy.

    Args:
        state: of the flow that makes the copies.
        here: the partition that is copied.
        ids: the producers of that flow, in order.
        reached: the end of the copy when the flow's last record was acknowledged.
        log: what the copy's log has.
    """
    inherited, progress, behind = state.inherited.get(here), state.progress.get(here), Span(reached, log.end)
    offsets = state.maps[here].offsets(progress, ids, parted=False) if here in state.maps else None
    first = next(offsets.settled(), None) if offsets is not None else None
    begin = reached if first is None else first.target
    begin = begin if inherited is None else min(max(begin, inherited.end), reached)
    spans = joined(gaps(offsets, begin, log.end), log.first)
    whole = sum(span.end - span.first for span in spans) <= MOST_OFFSETS
    return tuple(spans if whole else joined([behind], log.first))
