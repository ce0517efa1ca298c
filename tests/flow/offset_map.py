"""The oracle for the offset map, and how many entries a map may have."""

from __future__ import annotations

from sparkmirror.lab.offset_map import OffsetsOf, Pieces, check, journal, offsets, segments, translate

__all__ = ["check", "check_entries", "journal", "offsets", "segments", "translate"]


def check_entries(topic: str, pieces: Pieces, here: OffsetsOf, runs: int) -> None:
    """One entry where the records begin and one behind each hole; each run after the first may begin with one more."""
    for partition, offsets_here in here.items():
        wanted = [b for a, b in zip([None, *offsets_here], offsets_here, strict=False) if a is None or b != a + 1]
        starts = [piece[0] for piece in pieces.get(partition, [])]
        assert set(wanted) <= set(starts), f"{topic}-{partition}: no entry at {sorted(set(wanted) - set(starts))[:10]}"
        spare = len(starts) - len(wanted)
        assert 0 <= spare < runs, f"{topic}-{partition}: {spare} entries too many, {starts[:20]} for {wanted[:20]}"
