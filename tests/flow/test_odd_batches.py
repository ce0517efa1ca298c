"""Odd batches that brokers take and Java reads, with Kafka's own consumer as the referee on both sides."""

from __future__ import annotations

import pytest

from sparkmirror.lab.jars import jars
from sparkmirror.lab.readers import read_with_java
from sparkmirror.spark.gateway import Gateway
from tests.batches.building import one
from tests.batches.odd import ODD
from tests.flow.running import Running, create_topic, write_file
from tests.raw_batches import produce

pytestmark = pytest.mark.kafka


def test_java_reads_of_odd_batches_on_the_target_what_it_reads_on_the_source(
    cluster_a, cluster_b, lab_cluster, topic, tmp_path
):
    """Each waits beside another one like it and sound ones, so that all of them would be merged."""
    name = topic("odd")
    create_topic(cluster_a, name, len(ODD), {"retention.ms": "-1"})  # their times are old
    for number, odd in enumerate(ODD.values()):
        for batch in (one(0), odd.batch, odd.batch, one(0)):
            produce(lab_cluster("A"), name, batch, number)
    file = write_file(tmp_path / "mm2.properties", {"a": cluster_a, "b": cluster_b}, {"a->b": name})
    with Running(file, log=tmp_path / "run.log", options=("--once",)) as mirror:
        assert mirror.wait() == 0, mirror.tail()
    with Gateway(jars(), options=("-Xmx128m",)) as gateway:
        source = read_with_java(gateway, cluster_a.bootstrap_servers, [name])
        target = read_with_java(gateway, cluster_b.bootstrap_servers, [f"a.{name}"])
    for number, (kind, odd) in enumerate(ODD.items()):
        assert target[f"a.{name}", number] == source[name, number], kind
        if odd.records is not None:
            assert len(source[name, number]) == 2 + 2 * len(odd.records), kind
