"""Whether what is on record of a partition may be believed as it is, or the target's own log must be read first: pure.

A position on record is exact only if whoever wrote it had nothing unacknowledged, and if the target still has what was
acknowledged then. Everything else is taken over.
"""

from __future__ import annotations

from dataclasses import dataclass

from sparkmirror.model import NO_OFFSET
from sparkmirror.offsets.records import Progress


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """What is known of one partition before it is handed out.

    Attributes:
        progress: the newest on record, or None.
        mapped: whether segments are on record.
        handed_out: whether this run handed it out, and it did not come back settled.
        exact_after: the newest generation that may have copied more than its progress says.
        end: the target partition's end, or None if it cannot be told.
        target_id: of the target topic, or "" where brokers have no topic ids.
        sole_writer: whether nobody but the flow writes the target topic.
        lost_runs: whether runs had the flow of which nothing is on record.
        unexplained: whether the target partition has batches of the flow though nothing is on record of it.
    """

    progress: Progress | None
    mapped: bool = False
    handed_out: bool = False
    exact_after: int = 0
    end: int | None = None
    target_id: str = ""
    sole_writer: bool = True
    lost_runs: bool = False
    unexplained: bool = False


def distrust(seen: Seen) -> str:
    """Why the partition must be taken over; "" if what is on record holds, or if there is nothing."""
    progress = seen.progress
    if seen.handed_out:
        return "it was handed out and did not come back"
    if progress is None:
        return _distrust_unknown(seen)
    if progress.generation <= seen.exact_after:
        return "a run that had it did not end cleanly, and nothing is on record of it since"
    if not progress.settled:
        return "batches were not acknowledged when it stopped"
    if progress.target_id and seen.target_id and progress.target_id != seen.target_id:
        return "the target topic was deleted and made anew"
    if seen.end is None:
        return "the end of the target is not known"
    known = max(progress.target + 1, progress.reached.end)
    if seen.end < known:
        return f"the target ends at offset {seen.end} and had {known} acknowledged: it lost its tail"
    tells = progress.reached.end != NO_OFFSET or progress.target == NO_OFFSET  # older releases did not say how far
    if seen.sole_writer and tells and seen.end > max(0, known):
        return f"the target ends at offset {seen.end} and had {max(0, known)} acknowledged: something was written since"
    return ""


def _distrust_unknown(seen: Seen) -> str:
    if seen.lost_runs and seen.end != 0:
        return "a run of which nothing is on record may have copied it"
    if seen.unexplained:
        return "the target's log has batches of the flow, and nothing is on record of them"
    return "it was begun and no progress is on record" if seen.mapped else ""
