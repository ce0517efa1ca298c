"""A target that grants what the documentation names and no more: it is enough, also to take partitions over."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator

import pytest
from confluent_kafka.admin import AclOperation, ResourcePatternType, ResourceType

from sparkmirror.lab.cluster import LabCluster, start
from tests.flow.exact import repeats
from tests.flow.rights import GUARDED, allow, forbid
from tests.flow.running import Running, create_topic, until, write_file
from tests.flow.test_events import PATIENCE_SECONDS, of_kind, read_all, records, write

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

PREFIXED = ResourcePatternType.PREFIXED
READ, WRITE, CREATE = AclOperation.READ, AclOperation.WRITE, AclOperation.CREATE
DESCRIBE, DESCRIBE_CONFIGS = AclOperation.DESCRIBE, AclOperation.DESCRIBE_CONFIGS

RIGHTS = (
    (ResourceType.TOPIC, "a.", (CREATE, READ, WRITE, DESCRIBE_CONFIGS)),
    (ResourceType.TOPIC, "sparkmirror.", (CREATE, READ, WRITE, DESCRIBE_CONFIGS)),
    (ResourceType.TRANSACTIONAL_ID, "sparkmirror.", (WRITE, DESCRIBE)),
)
"""As docs/operations.md has them, but for ALTER, which new partitions need; READ and WRITE imply DESCRIBE."""


@pytest.fixture(scope="module")
def guarded() -> Iterator[LabCluster]:
    with start("guarded", security=("SASL_PLAIN",), config=GUARDED) as running:
        for kind, prefix, operations in RIGHTS:
            allow(running, kind, prefix, *operations, pattern=PREFIXED)
        yield running


def test_the_rights_that_are_named_are_enough_and_lost_ones_heal(cluster_a, guarded, topic, tmp_path):
    name = topic("rights")
    copy = f"a.{name}"
    create_topic(cluster_a, name)
    write(cluster_a, name, (0,), records(50))
    clusters = {"a": cluster_a, "g": guarded.client_properties("SASL_PLAIN")}
    file = write_file(tmp_path / "mm2.properties", clusters, {"a->g": name})

    def holds(number: int) -> None:
        until(lambda: read_all(guarded, copy) == {0: records(number)}, f"{number} records", PATIENCE_SECONDS)

    with Running(file, log=tmp_path / "run.log") as mirror:
        holds(50)
        for worker in mirror.lane_workers():
            os.kill(worker, signal.SIGKILL)
        write(cluster_a, name, (0,), records(50, 50))
        holds(100)

        forbid(guarded, ResourceType.TOPIC, "a.", WRITE, pattern=PREFIXED)
        write(cluster_a, name, (0,), records(20, 100))
        (lost,) = until(lambda: of_kind(file, name, "unauthorized"), "the lost right is told of", PATIENCE_SECONDS)
        assert "TOPIC_AUTHORIZATION_FAILED" in lost.text
        allow(guarded, ResourceType.TOPIC, "a.", WRITE, pattern=PREFIXED)
        holds(120)

        forbid(guarded, ResourceType.TRANSACTIONAL_ID, "sparkmirror.", WRITE, pattern=PREFIXED)
        for worker in mirror.lane_workers():
            os.kill(worker, signal.SIGKILL)
        until(lambda: "TRANSACTIONAL_ID_AUTHORIZATION_FAILED" in mirror.output, "that is told too", PATIENCE_SECONDS)
        write(cluster_a, name, (0,), records(20, 120))
        allow(guarded, ResourceType.TRANSACTIONAL_ID, "sparkmirror.", WRITE, pattern=PREFIXED)
        holds(140)
        mirror.stop_in_time()
    assert repeats(cluster_a, guarded, name, copy) == 0
    assert "Traceback" not in mirror.output
