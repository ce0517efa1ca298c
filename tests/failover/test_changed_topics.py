"""The file of an operation names other topics than the flow has copied: nothing of that goes unsaid."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from sparkmirror.config import FlowConfig, load
from sparkmirror.duties.topics import left_out_since
from sparkmirror.failover import plan
from sparkmirror.lab.cluster import LabCluster
from sparkmirror.model import TopicPartition
from sparkmirror.offsets.records import FlowRecord
from tests.failover.test_changed_home import Home, marked
from tests.flow import offset_map
from tests.flow.running import Running, commit, committed, create_topic, until, write_file
from tests.flow.test_torn_while_idle import mirrored, write
from tests.invoking import sparkmirror

TOLD = FlowRecord(
    source_alias="a",
    source_id="x",
    target_alias="b",
    target_id="y",
    naming="DefaultReplicationPolicy .",
    generation=1,
    topics=("orders", "bills"),
)
BEGUN = [TopicPartition(name, 0) for name in ("orders", "bills", "older")]


def flow_of(directory: Path, topics: str) -> FlowConfig:
    a, b = ({"bootstrap.servers": f"localhost:{port}"} for port in (1, 2))
    (flow,) = load([write_file(directory / "mm2.properties", {"a": a, "b": b}, {"a->b": topics})]).flows
    return flow


@pytest.mark.parametrize(
    ("topics", "told", "found"),
    [
        ("orders|bills", TOLD, []),
        pytest.param("orders", TOLD, ["bills"], id="the file was changed, and the flow not started since"),
        pytest.param("orders", replace(TOLD, topics=("orders",)), [], id="the flow runs with the same file"),
        pytest.param("orders", replace(TOLD, topics=()), [], id="a release before has not told it"),
        pytest.param("orders", None, [], id="never started"),
    ],
)
def test_topics_that_the_newest_run_has_copied_and_that_the_file_leaves_out_are_told(tmp_path, topics, told, found):
    flow = flow_of(tmp_path, topics)
    assert left_out_since(flow, told, BEGUN) == found
    assert ["bills" in text for text in plan.without_since(flow.name, found)] == [True] * len(found)


def has_begun(target: LabCluster, internal: str, topic: str) -> bool:
    entries = offset_map.journal(target, internal)
    return any(key[:2] == ("progress", topic) for key, value in entries.items() if value)


@pytest.mark.kafka
@pytest.mark.slow
def test_a_topic_that_is_added_while_the_flow_is_held_is_copied_from_its_begin_and_not_put_aside(
    cluster_a: LabCluster, cluster_b: LabCluster, topic, tmp_path
):
    """Names are kept, and the flow back writes to the very topic."""
    home = Home(cluster_a, cluster_b, topic("added-topic"), tmp_path, kept=True)
    name, more = home.name, f"{home.name}-more"
    create_topic(cluster_a, more, 1)
    create_topic(cluster_b, more, 1)
    write(cluster_a, name, marked("old", 10))
    write(cluster_a, more, marked("more", 5))
    commit(cluster_a, f"{name}-g", name, {0: 4})
    before = home.file.read_text()
    with Running(home.file, log=tmp_path / "mirror.log") as mirror:
        until(lambda: mirrored(cluster_b, name) == marked("old", 10), "copied")
        home.file.write_text(before.replace(f"{name}->b.topics = {name}\n", f"{name}->b.topics = {more}\n"))
        words = ("--from", name, "--to", "b", "--dry-run")
        refused = " ".join(sparkmirror("switchover", home.file, *words).stdout.split())
        assert f"against it: this file leaves out topics that the newest run of {name}->b has copied" in refused
        home.file.write_text(before)
        home.leave("switchover", "--wait-for-idle", "1")
        mirror.stop_in_time()
    home.file.write_text(before.replace(f".topics = {name}\n", f".topics = {name}|{more}\n"))
    with Running(home.file, log=tmp_path / "again.log") as mirror:
        until(lambda: has_begun(cluster_a, f"sparkmirror.b.{name}.internal", more), "the flow back has begun with it")
        report = home.go_back()
        assert report["divergent"] == []
        until(lambda: mirrored(cluster_b, more) == marked("more", 5), "copied from its begin")
        mirror.stop_in_time()


@pytest.mark.kafka
@pytest.mark.slow
def test_groups_that_the_file_of_an_operation_leaves_out_are_moved_all_the_same_and_told(
    cluster_a: LabCluster, cluster_b: LabCluster, topic, tmp_path
):
    """Also where the operation itself takes the flow from a driver that is dead: its file is not the flow's then."""
    home = Home(cluster_a, cluster_b, topic("fewer-groups"), tmp_path, kept=False)
    name, groups = home.name, [f"{home.name}-g1", f"{home.name}-g2"]
    write(cluster_a, name, marked("old", 10))
    commit(cluster_a, groups[0], name, {0: 4})
    before = home.file.read_text()
    with Running(home.file, log=tmp_path / "mirror.log") as mirror:
        until(lambda: mirrored(cluster_b, home.copy) == marked("old", 10), "copied")
        commit(cluster_a, groups[1], name, {0: 5})
        home.file.write_text(before.replace(f"groups = {name}-.*\n", f"groups = {groups[0]}\n"))
        words = ("--from", name, "--to", "b", "--dry-run")
        refused = " ".join(sparkmirror("switchover", home.file, *words).stdout.split())
        said = f"this file leaves out groups that {name}->b translates, by its record: they are moved all the same"
        assert f"against it: {said}: {groups[1]}" in refused
        mirror.kill_all()
    commit(cluster_a, groups[1], name, {0: 7})
    go = ("--from", name, "--to", "b", "--yes", "--force", "--report", str(tmp_path))
    done = sparkmirror("failover", home.file, *go)
    (report,) = (json.loads(one.read_text()) for one in tmp_path.glob("failover-*.json"))
    assert done.returncode == 1, done.stdout + done.stderr
    assert [said in text for text in report["troubles"]] == [True]
    assert [committed(cluster_b, group, home.copy) for group in groups] == [{0: 4}, {0: 7}]
