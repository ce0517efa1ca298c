"""Several flows in one process, from one MirrorMaker 2 file: shifts, new topics and partitions, choosing flows."""

from __future__ import annotations

from contextlib import ExitStack

import pytest
from confluent_kafka.admin import ConfigResource

from sparkmirror.lab.referee import compare
from tests.flow import offset_map
from tests.flow.running import Running, add_partitions, admin_of, count, create_topic, ends, until, write_file
from tests.flow.traffic import Traffic

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.slow]

SHIFTS = 4


def shifts_of(cluster, internal, topic):
    """How many shifts its slowest lane had: the newest one of a partition names itself, ``lane-0.7`` is the eighth.

    A partition that was taken over has an older record too, of the writer epoch before. The first record of all is the
    driver's and names none.
    """
    newest: dict[int, tuple[int, str]] = {}
    for key, value in offset_map.journal(cluster, internal).items():
        if key[:2] == ("progress", topic):
            newest[key[2]] = max(newest.get(key[2], (0, "")), (value["time_ms"], value["lane"]))
    return min(int(lane.rpartition(".")[2]) + 1 if lane else 0 for _, lane in newest.values())


def config_of(cluster, topic):
    resource = ConfigResource(ConfigResource.Type.TOPIC, topic)
    admin = admin_of(cluster)
    return {name: entry.value for name, entry in admin.describe_configs([resource])[resource].result(60).items()}


@pytest.mark.long
def test_three_flows_in_one_process_stay_exact_over_many_shifts_and_pick_up_what_is_new(
    cluster_a, cluster_b, cluster_c, topic, tmp_path
):
    stem = topic("three")
    there, back = f"{stem}-there", f"{stem}-back"
    create_topic(cluster_a, there, 3, {"retention.ms": "123456789", "max.message.bytes": "2000000"})
    create_topic(cluster_b, back, 2)
    file = write_file(
        tmp_path / "mm2.properties",
        {"a": cluster_a, "b": cluster_b, "c": cluster_c},
        {"a->b": f"{stem}-.*", "b->a": f".*{stem}-.*", "a->c": f"{stem}-.*"},
        {"shift.max.ms": "3000"},
    )
    new = f"{stem}-new"
    writers = [Traffic(cluster_a, there, 3), Traffic(cluster_b, back, 2), Traffic(cluster_a, new, 2, nulls=False)]
    with Running(file, log=tmp_path / "run.log", spark=True) as mirror:
        with ExitStack() as writing:
            writing.enter_context(writers[0].large())
            writing.enter_context(writers[1].transactions())
            until(lambda: count(cluster_b, f"a.{there}") and count(cluster_a, f"b.{back}"), "both ways")
            until(lambda: count(cluster_c, f"a.{there}"), "the third flow")
            create_topic(cluster_a, new, 2, {"cleanup.policy": "compact,delete"})
            add_partitions(cluster_a, there, 5)
            writing.enter_context(writers[2].small())
            late = writing.enter_context(Traffic(cluster_a, there, 5, mark="late-").small())
            until(lambda: count(cluster_b, f"a.{new}") and count(cluster_c, f"a.{new}"), "the new topic")
            until(lambda: ends(cluster_b, f"a.{there}").get(4), "the added partitions")
            until(lambda: shifts_of(cluster_b, "sparkmirror.a.b.internal", there) >= SHIFTS, "shifts of a->b")
            until(lambda: shifts_of(cluster_a, "sparkmirror.b.a.internal", back) >= SHIFTS, "shifts of b->a")
        on_a = writers[0].written + late.written + writers[2].written
        until(lambda: count(cluster_b, f"a.{there}", f"a.{new}") >= on_a, "all of A on B")
        until(lambda: count(cluster_c, f"a.{there}", f"a.{new}") >= on_a, "all of A on C")
        until(lambda: count(cluster_a, f"b.{back}") >= writers[1].written, "all of B on A")
        mirror.stop_in_time()
    assert "lost" not in mirror.output
    assert "stands still" not in mirror.output
    copies = {there: f"a.{there}", new: f"a.{new}"}
    for cluster in (cluster_b, cluster_c):
        results = compare(cluster_a.bootstrap_servers, cluster.bootstrap_servers, copies)
        assert [result.difference for result in results] == ["", ""]
        assert sum(result.records for result in results) == on_a
        copied = config_of(cluster, f"a.{there}")
        assert (copied["retention.ms"], copied["max.message.bytes"]) == ("123456789", "2000000")
        assert config_of(cluster, f"a.{new}")["cleanup.policy"] == "compact,delete"
    (returned,) = compare(cluster_b.bootstrap_servers, cluster_a.bootstrap_servers, {back: f"b.{back}"})
    assert (returned.difference, returned.records) == ("", writers[1].written)
    # What came from there does not go back; heartbeats of other tests may, where they call the cluster otherwise.
    known = set(admin_of(cluster_a).list_topics(timeout=60).topics)
    assert not {name for name in known if name.startswith("b.a.") and not name.endswith("heartbeats")}
    for name in (there, new):
        assert offset_map.check(cluster_a, cluster_b, name, f"a.{name}", "sparkmirror.a.b.internal")
    assert offset_map.check(cluster_b, cluster_a, back, f"b.{back}", "sparkmirror.b.a.internal")


def test_clusters_and_flow_choose_what_runs(cluster_a, cluster_b, cluster_c, topic, tmp_path):
    name = topic("chosen")
    create_topic(cluster_a, name, 1)
    written = Traffic(cluster_a, name, 1).some("small", 20)
    file = write_file(
        tmp_path / "mm2.properties",
        {"a": cluster_a, "b": cluster_b, "c": cluster_c},
        {"a->b": name, "a->c": name, "b->a": name},
    )
    with Running(file, log=tmp_path / "clusters.log", options=("--once", "--clusters", "b")) as mirror:
        assert mirror.wait() == 0, mirror.tail()
    assert count(cluster_b, f"a.{name}") == written
    assert ends(cluster_c, f"a.{name}") == {}
    with Running(file, log=tmp_path / "flow.log", options=("--once", "--flow", "a->c")) as mirror:
        assert mirror.wait() == 0, mirror.tail()
    assert count(cluster_c, f"a.{name}") == written
    assert count(cluster_b, f"a.{name}") == written
