"""A flow that was stopped for longer than the source keeps records: every partition goes on, and says from where."""

from __future__ import annotations

import pytest
from confluent_kafka import TopicPartition

from tests.flow.running import Running, admin_of, create_topic, reaches, write_file
from tests.flow.test_events import of_kind, records, write

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

PARTITIONS = 12
"""Many of one lane, so that they are overtaken at the same moment."""


def test_every_partition_that_retention_has_overtaken_goes_on_from_its_oldest_record(
    cluster_a, cluster_b, topic, tmp_path
):
    name = topic("overtaken")
    create_topic(cluster_a, name, PARTITIONS)
    everywhere = range(PARTITIONS)
    settings = {"tasks.max": "1", "heartbeats.replication.enabled": "false"}
    file = write_file(tmp_path / "mm2.properties", {"a": cluster_a, "b": cluster_b}, {"a->b": name}, settings)
    write(cluster_a, name, everywhere, records(20))
    with Running(file, log=tmp_path / "before.log") as mirror:
        reaches(cluster_b, f"a.{name}", 20 * PARTITIONS)
        mirror.stop_in_time()
    write(cluster_a, name, everywhere, records(30, 20))
    overtaken = [TopicPartition(name, number, 35) for number in everywhere]
    for deleted in admin_of(cluster_a).delete_records(overtaken).values():
        deleted.result(60)
    with Running(file, log=tmp_path / "after.log") as mirror:
        reaches(cluster_b, f"a.{name}", 35 * PARTITIONS)
        write(cluster_a, name, everywhere, records(5, 50))
        reaches(cluster_b, f"a.{name}", 40 * PARTITIONS)
        mirror.stop_in_time()
    told = of_kind(file, name, "source-retention")
    assert sorted((event.partition, event.first, event.last) for event in told) == [
        (number, 20, 34) for number in everywhere
    ]
