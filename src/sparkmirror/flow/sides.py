"""The two sides of a flow, for its duties and for whoever asks about it or changes it beside its driver."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager

from sparkmirror.config import FlowConfig
from sparkmirror.duties.duty import Sides
from sparkmirror.kafka import admin
from sparkmirror.kafka.cluster import Cluster
from sparkmirror.kafka.store import Store
from sparkmirror.naming import internal_topic
from sparkmirror.offsets.state import JournalState


@contextmanager
def connected(flow: FlowConfig, *, role: str, started: bool = True) -> Iterator[Sides]:
    """The two sides, with connections that are closed in the end.

    Args:
        flow: the flow.
        role: for the clients' names.
        started: whether the flow has its internal topic; where that is not known, `record` tells.
    """
    with (
        closing(Cluster(flow.source.alias, flow.source.admin, role=role)) as source,
        closing(Cluster(flow.target.alias, flow.target.admin, role=role)) as target,
    ):
        store = Store(target, internal_topic(flow.name), flow.admin_timeout_ms) if started else None
        yield Sides(flow=flow, source=source, target=target, store=store)


def record(sides: Sides) -> JournalState | None:
    """What the flow's internal topic says, read to its end; None where the flow was never started.

    Raises:
        SparkmirrorError: the target cannot be asked, or the topic not read.
    """
    flow = sides.flow
    if sides.store is None or not admin.list_topics(sides.target, [internal_topic(flow.name)], flow.admin_timeout_ms):
        return None
    sides.store.follow()
    return sides.store.state
