"""What a flow shows of itself, from the progress of its partitions. Pure, but for the wall clock."""

from __future__ import annotations

from collections.abc import Sequence

from sparkmirror.events import now_ms
from sparkmirror.flow.view import FlowView
from sparkmirror.offsets.records import Progress


def flow_view(
    name: str,
    state: str,
    progress: Sequence[Progress],
    *,
    rate: tuple[float, float],
    rpo_ms: int | None,
    lanes: int,
    partitions: int,
    unbegun: bool,
    events: tuple[str, ...],
) -> FlowView:
    """The view of one flow at this moment.

    Args:
        name: of the flow.
        state: of the flow.
        progress: the newest of each partition, as far as this run wrote it.
        rate: records and bytes per second.
        rpo_ms: age of the recovery point.
        lanes: that run.
        partitions: that are copied.
        unbegun: whether one of them is stopped and has no position yet, so that its lag is not known.
        events: for the operator, the newest last.
    """
    known = [p for p in progress if p.end >= 0]
    lag = sum(max(0, p.end - p.position) for p in known)
    oldest = min((p.newest_ms for p in known if p.end > p.position and p.newest_ms >= 0), default=None)
    lag_ms = 0 if lag == 0 else None if oldest is None else max(0, now_ms() - oldest)
    return FlowView(
        name=name,
        state=state,
        records_per_s=rate[0],
        bytes_per_s=rate[1],
        lag_records=lag if known and not unbegun else None,
        lag_ms=lag_ms if known and not unbegun else None,
        rpo_ms=rpo_ms,
        lanes=lanes,
        partitions=partitions,
        events=events,
    )
