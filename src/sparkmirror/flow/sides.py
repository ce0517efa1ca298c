"""The two sides of a flow, for its duties and for whoever asks about it or changes it beside its driver.

Invariant: a command that needs a cluster is told within seconds that it cannot be reached, and not after the deadlines
of what it would ask.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager

from sparkmirror.config import FlowConfig, Side
from sparkmirror.duties.duty import Sides
from sparkmirror.errors import SparkmirrorError
from sparkmirror.kafka import admin
from sparkmirror.kafka.cluster import Cluster
from sparkmirror.kafka.store import Store
from sparkmirror.naming import internal_topic
from sparkmirror.offsets.state import JournalState

REACH_MS = 5_000
"""How long a person waits to hear that a cluster cannot be reached."""

BOTH = (Side.SOURCE, Side.TARGET)


@contextmanager
def connected(flow: FlowConfig, *, role: str, started: bool = True, needs: Collection[Side] = ()) -> Iterator[Sides]:
    """The two sides, with connections that are closed in the end.

    Args:
        flow: the flow.
        role: for the clients' names.
        started: whether the flow has its internal topic; where that is not known, `record` tells.
        needs: the sides without which nothing can be done; they are asked for a moment first.

    Raises:
        LinkError: one of these cannot be reached.
        SparkmirrorError: both cannot.
    """
    with (
        closing(Cluster(flow.source.alias, flow.source.admin, role=role)) as source,
        closing(Cluster(flow.target.alias, flow.target.admin, role=role)) as target,
    ):
        _reach([{Side.SOURCE: source, Side.TARGET: target}[side] for side in needs])
        store = Store(target, internal_topic(flow.name), flow.admin_timeout_ms) if started else None
        yield Sides(flow=flow, source=source, target=target, store=store)


def _reach(clusters: Collection[Cluster]) -> None:
    """Asks clusters for a moment, side by side."""
    with ThreadPoolExecutor(max(1, len(clusters))) as pool:
        failures = [failure for failure in pool.map(_failure, clusters) if failure is not None]
    if len(failures) > 1:
        raise SparkmirrorError("; ".join(map(str, failures)))
    for failure in failures:
        raise failure


def _failure(cluster: Cluster) -> SparkmirrorError | None:
    try:
        admin.cluster_id(cluster, REACH_MS)
    except SparkmirrorError as failure:
        return failure
    return None


def record(sides: Sides) -> JournalState | None:
    """What the flow's internal topic says, read to its end; None where the flow was never started.

    Raises:
        SparkmirrorError: the target cannot be asked, or the topic not read.
    """
    flow = sides.flow
    if sides.store is None:
        return None
    # One that is hidden from this user must not look like a flow that has never run.
    if not admin.visible_topics(sides.target, [internal_topic(flow.name)], flow.admin_timeout_ms, right="READ"):
        return None
    sides.store.follow()
    return sides.store.state
