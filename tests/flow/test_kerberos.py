"""GSSAPI on a real cluster of Spark: the lanes log in from executors, with the keytab that the driver has read."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from sparkmirror.lab.cluster import LabCluster
from sparkmirror.lab.referee import compare
from sparkmirror.lab.spark_cluster import SparkCluster
from tests.flow.running import Running, count, create_topic, until, write_file
from tests.flow.traffic import Traffic
from tests.kafka.realm import SESSION_S, Realm, client_properties, kerberized, realm
from tests.spark.clusters import START_SECONDS, lanes, spark

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.slow]

__all__ = ["kerberized", "realm", "spark"]  # fixtures


def logged_in(spark: SparkCluster) -> list[int]:
    """The lanes' processes that have loaded GSSAPI: nothing but a login does."""
    copying = [pid for worker in spark.workers for pid in lanes(worker.pid)]
    return [pid for pid in copying if "gssapi" in Path(f"/proc/{pid}/maps").read_text()]


@pytest.mark.long
def test_lanes_log_in_from_executors_again_and_again(
    spark: SparkCluster, realm: Realm, kerberized: LabCluster, cluster_b: LabCluster, tmp_path: Path
):
    """The workers of Spark were started before the centre: executors learn of it from the run's own settings."""
    name = "tickets"
    create_topic(kerberized, name, 4)
    keytab = tmp_path / "moved.keytab"
    keytab.write_bytes((realm.place / "mirror.keytab").read_bytes())
    source = client_properties(kerberized, f'useKeyTab=true keyTab="{keytab}" principal=mirror')
    file = write_file(tmp_path / "mm2.properties", {"k": source, "b": cluster_b}, {"k->b": name}, {"tasks.max": "2"})
    options = ("--master", spark.url, "--conf", f"spark.executorEnv.KRB5_CONFIG={realm.place}/krb5.conf")
    with Running(file, log=tmp_path / "run.log", options=options, spark=True) as mirror:
        with Traffic(kerberized, name, 4, nulls=False).small(per_turn=4):
            until(lambda: count(cluster_b, f"k.{name}") > 100, "the copy runs", 240)
            keytab.unlink()  # only the driver has read it
            until(lambda: len(logged_in(spark)) == 2, "both lanes log in themselves", START_SECONDS)
            ends = time.monotonic() + 3 * SESSION_S
            while time.monotonic() < ends:  # the broker ends a session that does not log in again
                before = count(cluster_b, f"k.{name}")
                until(lambda: count(cluster_b, f"k.{name}") > before, "the copy goes on")  # noqa: B023 - called at once
        until(lambda: count(cluster_b, f"k.{name}") == count(kerberized, name), "all is copied")
        mirror.stop_in_time()
        assert "lost" not in mirror.output
    (result,) = compare(kerberized.bootstrap_servers, cluster_b.bootstrap_servers, {name: f"k.{name}"})
    assert result.difference == ""
