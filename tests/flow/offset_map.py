"""The oracle for the offset map, how many entries a map may have, and what the product says of offsets."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from sparkmirror.config import load
from sparkmirror.flow.translating import open_translator
from sparkmirror.lab.offset_map import Entries, OffsetsOf, check, journal, offsets, segments, translate
from sparkmirror.model import TopicPartition
from sparkmirror.offsets.translation import Translation

__all__ = ["check", "check_entries", "journal", "offsets", "segments", "told", "translate"]


def told(file: Path, topic: str, offsets: Iterable[int]) -> dict[int, Translation]:
    """What ``sparkmirror offsets`` says of source offsets of the only partition of a topic."""
    (flow,) = load([str(file)]).flows
    with open_translator(flow) as translator:
        return {offset: translator.translate(TopicPartition(topic, 0), offset) for offset in offsets}


def check_entries(topic: str, entries: Entries, here: OffsetsOf, runs: int) -> None:
    """One entry where the records begin and one behind each hole; each run after the first may begin with one more.

    Where records are too old for brokers to remember who wrote them, there may be one more that says so.
    """
    pieces = segments(entries, topic)
    old = Counter(
        key[2]
        for key, value in entries.items()
        if key[0] == "segments" and key[1] == topic and value.get("unguarded", False)
    )
    for partition, offsets_here in here.items():
        wanted = [b for a, b in zip([None, *offsets_here], offsets_here, strict=False) if a is None or b != a + 1]
        starts = [piece[0] for piece in pieces.get(partition, [])]
        assert set(wanted) <= set(starts), f"{topic}-{partition}: no entry at {sorted(set(wanted) - set(starts))[:10]}"
        spare = len(starts) - len(wanted)
        most = runs - 1 + min(1, old[partition])
        assert 0 <= spare <= most, f"{topic}-{partition}: {spare} entries too many, {starts[:20]} for {wanted[:20]}"
