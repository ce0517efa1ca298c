"""A run that is killed, one that ends in order before it has copied what was left in doubt, and one that goes on."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.flow.logs import read
from tests.flow.running import Running, count, create_topic, until, write_file
from tests.flow.test_torn_while_idle import write

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

NAMES_KEPT = {"replication.policy.class": "org.apache.kafka.connect.mirror.IdentityReplicationPolicy"}
RECORDS = [b"%06d" % number + b"x" * 500 for number in range(60_000)]


@pytest.mark.parametrize(
    ("settings", "narrowed"), [({}, False), (NAMES_KEPT, True)], ids=["renamed, at once", "kept, with other topics"]
)
def test_what_was_in_doubt_stays_so_until_it_is_settled(cluster_a, cluster_b, topic, tmp_path, settings, narrowed):
    name, other = topic("early"), topic("other")
    copy = name if settings else f"{name}.{name}"
    create_topic(cluster_a, name)
    create_topic(cluster_a, other)
    write(cluster_a, name, RECORDS)

    def file(topics: str) -> Path:
        clusters = {name: cluster_a, "b": cluster_b}
        return write_file(
            tmp_path / f"{topics}.properties", clusters, {f"{name}->b": topics}, {"tasks.max": "1"} | settings
        )

    whole = file(f"{name},{other}")
    with Running(whole, log=tmp_path / "killed.log") as killed:
        until(lambda: count(cluster_b, copy) > 0, "the copy begins")
        killed.kill()
    assert count(cluster_b, copy) > 0
    with Running(file(other) if narrowed else whole, log=tmp_path / "ended.log") as ended:
        until(lambda: "did not end cleanly" in ended.output, "it has the flow")
        if narrowed:
            until(lambda: "running" in ended.output, "it runs")
        ended.stop_in_time()
    with Running(whole, log=tmp_path / "last.log", options=("--once",)) as last:
        assert last.wait() == 0, last.tail()
    assert [record.value for record in read(cluster_b, copy)[0]] == RECORDS
