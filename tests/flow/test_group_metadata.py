"""The metadata of a group's offsets goes with them to the target."""

from __future__ import annotations

from contextlib import suppress

import pytest
from confluent_kafka import KafkaException, TopicPartition

from tests.flow.running import Running, client_of, commit, create_topic, until, write_file
from tests.flow.test_torn_while_idle import write

pytestmark = pytest.mark.kafka


def test_metadata_that_is_committed_anew_at_the_same_offset_follows(cluster_a, cluster_b, topic, tmp_path):
    name = topic("metadata")
    group = f"{name}-g"
    create_topic(cluster_a, name, 1)
    write(cluster_a, name, [b"%d" % number for number in range(5)])
    settings = {
        "groups": f"{name}-.*",
        "tasks.max": "1",
        "sync.group.offsets.enabled": "true",
        "sync.group.offsets.interval.seconds": "1",
        "refresh.groups.interval.seconds": "1",
    }
    file = write_file(tmp_path / "mm2.properties", {name: cluster_a, "b": cluster_b}, {f"{name}->b": name}, settings)

    def there() -> tuple[int, str | None]:
        found = TopicPartition(f"{name}.{name}", 0)
        with client_of(cluster_b, group) as consumer, suppress(KafkaException):  # a coordinator that is being made
            (found,) = consumer.committed([found], timeout=30)
        return found.offset, found.metadata

    with Running(file, log=tmp_path / "mirror.log") as mirror:
        for metadata in ("first", "second"):
            commit(cluster_a, group, name, {0: 3}, metadata)
            until(lambda: there() == (3, metadata), metadata, 60)  # noqa: B023 - at once
        mirror.stop_in_time()
