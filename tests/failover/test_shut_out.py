"""Whom a fence keeps out beside producers: mirrors that write copies of third clusters."""

from __future__ import annotations

from pathlib import Path

import pytest

from sparkmirror.config import FlowConfig, load
from sparkmirror.failover import switching
from sparkmirror.failover.look import SourceState
from sparkmirror.failover.procedure import Fence, Options
from sparkmirror.model import TopicPartition
from tests.flow.running import write_file

NAMES_KEPT = {"replication.policy.class": "org.apache.kafka.connect.mirror.IdentityReplicationPolicy"}


def flow_of(directory: Path, settings: dict[str, str]) -> FlowConfig:
    a, b = ({"bootstrap.servers": f"localhost:{port}"} for port in (1, 2))
    (flow,) = load([write_file(directory / "mm2.properties", {"a": a, "b": b}, {"a->b": ".*"}, settings)]).flows
    return flow


@pytest.mark.parametrize(
    ("fence", "settings", "topics", "named"),
    [
        pytest.param(Fence.ACL, {}, ["c.orders", "orders"], "c.orders", id="a copy of a third cluster"),
        pytest.param(Fence.ACL, {}, ["d.c.orders", "c.orders"], "c.orders, d.c.orders", id="of two"),
        pytest.param(Fence.IDLE, {}, ["c.orders"], "", id="nothing is denied"),
        pytest.param(Fence.ACL, {}, ["orders", "b.orders", "a.orders"], "", id="none of a third one"),
        pytest.param(Fence.ACL, NAMES_KEPT, ["c.orders"], "", id="no name tells"),
    ],
)
def test_the_plan_names_the_copies_whose_mirrors_would_stand_still(tmp_path, fence, settings, topics, named):
    source = SourceState(ends={TopicPartition(name, number): 1 for name in topics for number in (0, 1)})
    flow, options = flow_of(tmp_path, settings), Options(fence=fence)
    found = switching._mirrors_shut_out(flow, source, options, "my file")
    assert len(found) == bool(named)
    for text in found:
        assert f"denied to everybody on a too: {named}. Mirrors that make them stand still" in text
        assert "sparkmirror release 'my file' --flow 'a->b' --fence-only" in text
