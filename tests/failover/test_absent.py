"""Groups whose topic does not exist any more on the cluster that they go to, on real brokers."""

from __future__ import annotations

import json

import pytest

from tests.failover.test_changed_home import marked
from tests.flow.running import Running, commit, committed, create_topic, until, write_file
from tests.flow.test_events import delete_topic
from tests.flow.test_torn_while_idle import mirrored, write
from tests.invoking import sparkmirror

pytestmark = [pytest.mark.kafka, pytest.mark.slow]


@pytest.mark.long
def test_a_topic_that_was_deleted_at_home_keeps_no_failback_from_its_end(cluster_a, cluster_b, topic, tmp_path):
    home, kept, gone = topic("home"), topic("kept"), topic("gone")
    group, topics = f"{home}-g", (kept, gone)
    settings = {"tasks.max": "1", "groups": f"{home}-.*", "heartbeats.replication.enabled": "false"}
    flows = {f"{home}->b": f"{kept}|{gone}", f"b->{home}": f"{kept}|{gone}"}
    file = write_file(tmp_path / "mm2.properties", {home: cluster_a, "b": cluster_b}, flows, settings)
    for name in topics:
        create_topic(cluster_a, name)
        write(cluster_a, name, marked("old", 10))
        commit(cluster_a, group, name, {0: 5})
    words = ("--yes", "--wait-for-idle", "1", "--report", str(tmp_path))
    with Running(file, log=tmp_path / "mirror.log") as mirror:
        until(lambda: all(len(mirrored(cluster_b, f"{home}.{name}")) == 10 for name in topics), "copied")
        over = sparkmirror("switchover", file, "--from", home, "--to", "b", *words)
        assert over.returncode == 0, over.stdout + over.stderr
        for name in topics:
            commit(cluster_b, group, f"{home}.{name}", {0: 8})
        delete_topic(cluster_a, gone)
        back = sparkmirror("failback", file, "--to", home, *words)
        assert back.returncode == 1, "it says that something was left out"
        report = json.loads(next(tmp_path.glob("failback-*.json")).read_text())
        assert report["result"] == "done", back.stdout + back.stderr
        assert committed(cluster_a, group, kept) == {0: 8}
        assert f"{group} at {home}.{gone}-0 ({gone}-0 does not exist there)" in back.stdout, "the plan names it"
        (trouble,) = report["troubles"]
        assert f"do not exist on {home}" in trouble
        assert f"{group} at {gone}-0" in trouble
        assert "is held" not in sparkmirror("status", file).stdout
        mirror.stop_in_time()
