"""The policies that stop a partition, or go on where the copy stood, instead of the defaults; and taking them back."""

from __future__ import annotations

import pytest

from tests.flow.running import Running, create_topic, until, write_file
from tests.flow.test_events import PATIENCE_SECONDS, delete_records, delete_topic, of_kind, read_all, records, write

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

STRICT = {
    "on.source.retention": "stop",
    "on.source.recreated": "stop",
    "on.target.recreated": "position",
    "heartbeats.replication.enabled": "false",  # another test's may have been made anew
}


def test_partitions_stand_still_until_the_policy_lets_them_go_on(cluster_a, cluster_c, topic, tmp_path):
    overtaken, anew, refilled, waiting = (
        topic(f"policy-{name}") for name in ("overtaken", "anew", "refilled", "waiting")
    )
    names = (overtaken, anew, refilled, waiting)
    for name in names:
        create_topic(cluster_a, name)
        write(cluster_a, name, (0,), records(20))
    place, clusters, flows = tmp_path / "mm2.properties", {"a": cluster_a, "c": cluster_c}, {"a->c": ",".join(names)}

    def holds(name: str, wanted: list[bytes]) -> None:
        until(lambda: read_all(cluster_c, f"a.{name}") == {0: wanted}, f"{name} is copied", PATIENCE_SECONDS)

    file = write_file(place, clusters, flows, STRICT)
    with Running(file, log=tmp_path / "first.log", options=("--once",)) as first:
        assert first.wait() == 0, first.tail()
    for name in (overtaken, refilled):
        write(cluster_a, name, (0,), records(30, 20))
    delete_records(cluster_a, overtaken, 40)
    delete_topic(cluster_c, f"a.{refilled}")
    delete_topic(cluster_a, anew)
    create_topic(cluster_a, anew)
    write(cluster_a, anew, (0,), records(5, 1_000))

    with Running(file, log=tmp_path / "strict.log") as mirror:
        holds(refilled, records(30, 20))
        (gap,) = until(lambda: of_kind(file, overtaken, "source-retention"), "the gap is told of", PATIENCE_SECONDS)
        (other,) = until(lambda: of_kind(file, anew, "source-recreated"), "the topic is told of", PATIENCE_SECONDS)
        (refill,) = of_kind(file, refilled, "target-recreated")
        write(cluster_a, waiting, (0,), records(10, 20))
        holds(waiting, records(30))
        mirror.stop_in_time()
    assert (gap.first, gap.last) == (20, 39)
    assert "stands still until on.source.retention is continue" in gap.text
    assert "stands still until on.source.recreated is continue" in other.text
    assert "going on from offset 20" in refill.text
    assert read_all(cluster_c, f"a.{overtaken}") == read_all(cluster_c, f"a.{anew}") == {0: records(20)}

    with Running(write_file(place, clusters, flows), log=tmp_path / "last.log", options=("--once",)) as last:
        assert last.wait() == 0, last.tail()
    holds(overtaken, [*records(20), *records(10, 40)])
    holds(anew, [*records(20), *records(5, 1_000)])
    holds(refilled, records(30, 20))
