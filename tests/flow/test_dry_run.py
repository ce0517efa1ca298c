"""What a start would change: told in full, and nothing is changed by telling."""

from __future__ import annotations

import json

import pytest

from sparkmirror import config
from sparkmirror.flow.dry_run import preview
from tests.flow.running import Running, add_partitions, admin_of, create_topic, write_file
from tests.flow.test_once import produce
from tests.invoking import sparkmirror


def lines(file) -> list[str]:
    (found,) = preview(config.load([file]))
    assert found.failure == ""
    return [change.text for change in found.changes]


@pytest.mark.kafka
def test_a_plan_tells_what_a_run_then_does_and_changes_nothing(cluster_a, cluster_b, topic, tmp_path):
    stem = topic("plan")
    create_topic(cluster_a, f"{stem}-new", 2, {"retention.ms": "123456789"})
    create_topic(cluster_a, f"{stem}-old", 3)
    create_topic(cluster_b, f"{stem}.{stem}-old", 1)
    settings = {
        "errors.tolerance": "all",
        "errors.deadletterqueue.topic.name": f"{stem}-letters",
        "errors.deadletterqueue.topic.replication.factor": "1",
    }
    clusters, flows = {stem: cluster_a, "b": cluster_b}, {f"{stem}->b": f"{stem}-.*"}
    file = write_file(tmp_path / "mm2.properties", clusters, flows, settings)
    before = set(admin_of(cluster_b).list_topics(timeout=30).topics)
    told = lines(file)
    assert set(admin_of(cluster_b).list_topics(timeout=30).topics) == before
    assert [line.split("  ")[0] for line in told[:2]] == [
        f"+ b: topic sparkmirror.{stem}.b.control.internal",
        f"+ b: topic sparkmirror.{stem}.b.internal",
    ]
    creation = next(line for line in told if f"{stem}-new" in line)
    assert creation.startswith(f"+ b: topic {stem}.{stem}-new  partitions: 2, replication factor: 1")
    assert "retention.ms: 123456789" in creation
    assert f"~ b: topic {stem}.{stem}-old  partitions: 1 -> 3" in told
    assert any(line.startswith(f"+ b: topic {stem}-letters") for line in told)

    produce(cluster_a, f"{stem}-new", partitions=2)
    with Running(file, log=tmp_path / "run.log", options=("--once",)) as mirror:
        assert mirror.wait() == 0, mirror.tail()
    assert [line for line in lines(file) if not line.startswith("!")] == []

    add_partitions(cluster_a, f"{stem}-new", 5)
    ran = sparkmirror("plan", file, "--json")
    assert ran.returncode == 0, ran.stderr
    (flow,) = json.loads(ran.stdout)["flows"]
    assert flow["name"] == f"{stem}->b"
    assert [change for change in flow["changes"] if change["sign"] != "!"] == [
        {"cluster": "b", "sign": "~", "what": f"topic {stem}.{stem}-new", "detail": "partitions: 2 -> 5"}
    ]


@pytest.mark.kafka
def test_a_cluster_that_cannot_be_asked_is_named_and_ends_with_1(cluster_a, tmp_path):
    clusters = {"a": cluster_a, "b": {"bootstrap.servers": "127.0.0.1:9"}}
    file = write_file(tmp_path / "mm2.properties", clusters, {"a->b": ".*"}, {"admin.timeout.ms": "3000"})
    ran = sparkmirror("plan", file)
    assert ran.returncode == 1
    told = " ".join(ran.stdout.split())
    assert told.startswith(f"a->b: what a start would change is not known: {file}: b.bootstrap.servers: cluster b at ")
