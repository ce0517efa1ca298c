"""Whether two readers of a topic, or the two sides of a mirror, show the same records: pure, on what was read.

What differs is told by topic, partition, record, offsets and field. Records are compared one to one in their order, so
a missing record shows as a difference of the one that took its place.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import zip_longest

from sparkmirror.lab.readers import Place, Seen

SHOWN = 80

MIRRORED = ("timestamp_type", "timestamp_ms", "key", "value", "headers")
"""What a mirror keeps of a record; offsets it maps."""


def reader_differences(ours: Mapping[Place, Sequence[Seen]], theirs: Mapping[Place, Sequence[Seen]]) -> list[str]:
    """Compares everything that two readers show of the same topics, offsets included.

    Returns:
        the first difference of each partition, in words; empty when there is none.
    """
    return _differences({place: (place, place) for place in ours.keys() | theirs.keys()}, ours, theirs, Seen._fields)


def mirror_differences(
    source: Mapping[Place, Sequence[Seen]], target: Mapping[Place, Sequence[Seen]], copies: Mapping[str, str]
) -> list[str]:
    """Compares what a mirror keeps: order, key, value, headers, timestamp and its type.

    Args:
        source: what a reader saw on the source.
        target: what it saw on the target.
        copies: source topic to target topic; others are not looked at.

    Returns:
        the first difference of each partition, in words; empty when there is none.
    """
    origin = {copy: topic for topic, copy in copies.items()}
    places = {place for place in source if place[0] in copies}
    places |= {(origin[copy], number) for copy, number in target if copy in origin}
    return _differences({(t, n): ((t, n), (copies[t], n)) for t, n in places}, source, target, MIRRORED)


def _differences(
    pairs: Mapping[Place, tuple[Place, Place]],
    ours: Mapping[Place, Sequence[Seen]],
    theirs: Mapping[Place, Sequence[Seen]],
    fields: Sequence[str],
) -> list[str]:
    found = {place: _first(ours.get(one, ()), theirs.get(other, ()), fields) for place, (one, other) in pairs.items()}
    return [f"{topic} partition {number}: {words}" for (topic, number), words in sorted(found.items()) if words]


def _first(ours: Sequence[Seen], theirs: Sequence[Seen], fields: Sequence[str]) -> str:
    for number, (one, other) in enumerate(zip_longest(ours, theirs)):
        if one is None or other is None:
            return f"{len(ours)} records against {len(theirs)}: only one side has {_short(one or other)}"
        changed = [field for field in fields if getattr(one, field) != getattr(other, field)]
        if changed:
            words = "; ".join(
                f"{field} {_short(getattr(one, field))} against {_short(getattr(other, field))}" for field in changed
            )
            return f"record {number}, offset {one.offset} against {other.offset}: {words}"
    return ""


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}… ({len(text)} characters)"
