"""Brokers that end sessions after seconds (KIP-368): lanes and drivers log in again, nothing is lost or sent twice."""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import pytest

from sparkmirror import config
from sparkmirror.config import FlowConfig
from sparkmirror.kafka import admin
from sparkmirror.lab.cluster import LabCluster, start
from sparkmirror.model import TopicPartition
from tests.copy.staging import PARTITIONS, Stage, read

pytestmark = pytest.mark.kafka

SESSION_S, TOKEN_S, HELD_S = 3, 10, 13
LOST = "the broker closed the connection"
"""A client logs in again 0.15 to 0.45 s before a session ends here; a machine that stands still for longer is late."""


@pytest.fixture(scope="module")
def fleeting() -> Iterator[LabCluster]:
    sessions = {"connections.max.reauth.ms": str(SESSION_S * 1000)}
    with start("fleeting", security=["SASL_SCRAM", "SASL_OAUTH"], config=sessions) as cluster:
        assert cluster.token_endpoint is not None
        cluster.token_endpoint.lifetime_s = TOKEN_S
        yield cluster


@pytest.fixture(scope="module")
def lab_flow(fleeting: LabCluster, tmp_path_factory: pytest.TempPathFactory) -> FlowConfig:
    """From the cluster to itself: A logs in with a password, B with tokens."""
    keys = {f"A.{key}": value for key, value in fleeting.client_properties("SASL_SCRAM").items()}
    keys |= {f"B.{key}": value for key, value in fleeting.client_properties("SASL_OAUTH").items()}
    keys |= {"clusters": "A,B", "A->B.enabled": "true", "replication.factor": "1"}
    file = tmp_path_factory.mktemp("fleeting") / "mm2.properties"
    file.write_text("\n".join(f"{key}={value}" for key, value in keys.items()))
    (flow,) = config.load([file]).flows
    return flow


def logins(caplog: pytest.LogCaptureFixture) -> tuple[Counter[str], list[str], int]:
    """How often each connection logged in, what was said of failures, in kafka-python's own words, and how many
    connections were late."""
    done: Counter[str] = Counter()
    failed: list[str] = []
    late = 0
    for record in caplog.records:
        text = record.getMessage()
        if not record.name.startswith("kafka."):
            continue
        if ": Authenticated" in text:
            done[text.partition(" host=[")[2].partition("]")[0]] += 1
        if record.levelno >= logging.WARNING and "credentials in the clear" not in text:
            late += LOST in text and "Connection lost" in text
            if LOST not in text:
                failed.append(text)
    return done, failed, late


def test_lanes_and_drivers_outlive_their_sessions(
    fleeting: LabCluster, stage: Stage, threads: ThreadPoolExecutor, caplog: pytest.LogCaptureFixture
):
    endpoint = fleeting.token_endpoint
    assert endpoint is not None
    there = stage.config
    back = replace(there, source=there.target, target=there.source)  # reads with tokens, writes with a password
    plans = stage.plans()
    caplog.set_level(logging.INFO, logger="kafka")
    lanes = [
        threads.submit(stage.run, stage.shift("lane-0", plans[:1]), there),
        threads.submit(stage.run, stage.shift("lane-1", plans[1:]), back),
    ]
    plain: dict[str, Any] = {"bootstrap.servers": fleeting.bootstrap_servers}
    ends = time.monotonic() + HELD_S
    written = 0
    while time.monotonic() < ends:
        stage.produce(PARTITIONS * 20, **plain)
        written += 20
        for alias in ("A", "B"):
            assert admin.cluster_id(stage.clusters(alias), 5_000) == fleeting.cluster_id
        assert not any(lane.done() for lane in lanes)
        time.sleep(0.1)
    done, failed, late = logins(caplog)  # before they are closed: in the middle of a login that would count as failed
    stage.drain()
    receipts = [receipt for lane in lanes for receipt in lane.result(60)]
    assert [receipt.error for receipt in receipts] == [""] * PARTITIONS
    assert sum(receipt.position for receipt in receipts) > 0
    assert (failed, late <= 2) == ([], True)
    held = [times for times in done.values() if times >= HELD_S // SESSION_S]
    assert len(held) >= 6 - late, "a driver's two connections and two of each lane lived through several sessions"
    assert len(endpoint.issued) >= 1 + HELD_S // TOKEN_S, "the token is replaced too"
    lanes_again = stage.going_on(tuple(receipts))
    stage.run(stage.shift("rest", lanes_again, once=True))
    for place in stage.places():
        here = read(fleeting.bootstrap_servers, place)
        copied = read(fleeting.bootstrap_servers, TopicPartition(stage.target_topic, place.partition))
        assert len(here) == written
        assert [record.content for record in copied] == [record.content for record in here]
