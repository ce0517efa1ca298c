"""Flows that cannot begin, or not wholly, beside one that can: each says why, and the other one copies meanwhile."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest
from confluent_kafka.admin import AclOperation, ResourcePatternType, ResourceType

from sparkmirror import config
from sparkmirror.flow.status import read
from sparkmirror.lab.cluster import LabCluster, start
from tests.flow.rights import GUARDED, allow
from tests.flow.running import Running, create_topic, reaches, until, write_file
from tests.flow.test_events import records, write

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

TOPIC, PREFIXED = ResourceType.TOPIC, ResourcePatternType.PREFIXED
READ, WRITE, CREATE = AclOperation.READ, AclOperation.WRITE, AclOperation.CREATE
DESCRIBE, DESCRIBE_CONFIGS = AclOperation.DESCRIBE, AclOperation.DESCRIBE_CONFIGS


@pytest.fixture(scope="module")
def guarded() -> Iterator[LabCluster]:
    with start("guarded", security=("SASL_PLAIN",), config=GUARDED) as running:
        allow(running, TOPIC, "sparkmirror.", CREATE, READ, WRITE, DESCRIBE_CONFIGS, pattern=PREFIXED)
        allow(running, ResourceType.TRANSACTIONAL_ID, "sparkmirror.", WRITE, DESCRIBE, pattern=PREFIXED)
        yield running


def test_a_flow_whose_source_is_away_and_one_without_rights_keep_no_other_from_copying(
    cluster_a: LabCluster, cluster_b: LabCluster, guarded: LabCluster, topic: Callable[..., str], tmp_path: Path
):
    well, new, kept, hidden = (topic(stem) for stem in ("well", "new", "kept", "hidden"))
    for name in (well, new, kept):
        create_topic(cluster_a, name)
        write(cluster_a, name, (0,), records(20))
    create_topic(guarded, f"a.{kept}")
    allow(guarded, TOPIC, f"a.{kept}", READ, DESCRIBE, DESCRIBE_CONFIGS)
    create_topic(guarded, hidden)
    write(guarded, hidden, (0,), records(20))
    allow(guarded, TOPIC, hidden, DESCRIBE, DESCRIBE_CONFIGS)
    clusters: dict[str, LabCluster | Mapping[str, str]] = {
        "a": cluster_a,
        "b": cluster_b,
        "g": guarded.client_properties("SASL_PLAIN"),
        "x": {"bootstrap.servers": "127.0.0.1:1"},
    }
    flows = {"a->b": well, "x->b": ".*", "a->g": f"{new},{kept}", "g->b": hidden}
    no_more = {"a->g.heartbeats.replication.enabled": "false"}  # tests leave many on a, and status shows 20 events
    file = write_file(tmp_path / "mm2.properties", clusters, flows, no_more)

    def told(flow: str, *words: str) -> bool:
        (found,) = (each for each in read(config.load([str(file)])) if each.name == flow)
        return any(all(word in f"{event.place} {event.text}" for word in words) for event in found.events)

    with Running(file, log=tmp_path / "run.log") as mirror:
        reaches(cluster_b, f"a.{well}", 20)
        output = " ".join(mirror.output.split())
        assert f"[x->b] {file}: x.bootstrap.servers: cluster x at 127.0.0.1:1: no connection" in output
        assert f"[g->b] {file}: g.sasl.jaas.config: cluster g at " in output
        assert f"user mirror is not allowed to READ Topic {hidden}" in output
        until(lambda: told("a->g", new, "AUTHORIZATION_FAILED", f"Topic a.{new}"), "CREATE is missing")
        until(lambda: told("a->g", kept, "TOPIC_AUTHORIZATION_FAILED", "WRITE"), "WRITE is missing")
        until(lambda: told("g->b", hidden, "TOPIC_AUTHORIZATION_FAILED", "READ"), "READ is missing")
        write(cluster_a, well, (0,), records(20))
        reaches(cluster_b, f"a.{well}", 40)

        allow(guarded, TOPIC, hidden, READ)
        allow(guarded, TOPIC, f"a.{kept}", WRITE)
        allow(guarded, TOPIC, f"a.{new}", CREATE, READ, WRITE, DESCRIBE_CONFIGS)
        for cluster, name in ((cluster_b, f"g.{hidden}"), (guarded, f"a.{kept}"), (guarded, f"a.{new}")):
            reaches(cluster, name, 20)
        assert mirror.stop(seconds=40) == 1, mirror.tail()
    assert "x->b was stopped before it could begin" in mirror.output
    assert "Traceback" not in mirror.output
