"""Looks at groups as tests need them, on plain data."""

from __future__ import annotations

from dataclasses import replace

from sparkmirror.config import ClientSettings, Endpoint, FlowConfig
from sparkmirror.duties.groups import Observed
from sparkmirror.kafka.groups import Committed, GroupListing, Offsets
from sparkmirror.model import Alias, FlowName, TopicPartition
from sparkmirror.offsets.group_records import FlowCommit
from sparkmirror.offsets.map import OffsetMap
from tests.offsets.segments import offset_map

_NOWHERE = ClientSettings(bootstrap_servers=("localhost:1",))


def _endpoint(alias: str) -> Endpoint:
    return Endpoint(alias=Alias(alias), consumer=_NOWHERE, producer=_NOWHERE, admin=_NOWHERE)


FLOW = FlowConfig(name=FlowName(source=Alias("A"), target=Alias("B")), source=_endpoint("A"), target=_endpoint("B"))

HERE, THERE = TopicPartition("orders", 0), TopicPartition("A.orders", 0)


def straight(start: int, records: int, target: int, *, behind: int = 0) -> OffsetMap:
    """A map without a hole: so many records from ``start`` on lie from ``target`` on; the position may be behind."""
    return offset_map([(start, target, records)], start + records + behind)


MAP = straight(100, 50, 10)
"""Source 100 to 149 lies at 10 to 59."""

READERS = Observed(
    flow=FLOW,
    source={"readers": GroupListing(name="readers", state="Stable")},
    offsets={"readers": {HERE: Committed(120, "mine")}},
    renamed={"orders": "A.orders"},
    maps={HERE: MAP},
)
"""A group that lags; the target does not know it."""


def at(offset: int, observed: Observed = READERS) -> Observed:
    """The same with another committed offset at the source."""
    return replace(observed, offsets={"readers": {HERE: Committed(offset, "mine")}})


def with_target(offset: int | None, state: str = "Empty", observed: Observed = READERS) -> Observed:
    """The same with the group on the target."""
    there: Offsets = {} if offset is None else {THERE: Committed(offset, "mine")}
    listing = GroupListing(name="readers", state=state)
    return replace(observed, target={"readers": listing}, there={"readers": there})


def with_commit(downstream: int, upstream: int, observed: Observed = READERS) -> Observed:
    """The same where the flow has committed that on the target last."""
    return replace(observed, commits={"readers": {THERE: FlowCommit(downstream, upstream)}})
