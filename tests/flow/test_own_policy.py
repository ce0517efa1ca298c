"""A mirror whose topics are named by a Python class of its user, and what the commands say of it.

Its aliases are its own: an internal topic belongs to one naming, and other tests share the clusters.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from sparkmirror.lab.referee import compare
from tests.flow.running import Running, admin_of, create_topic, write_file
from tests.flow.traffic import Traffic

pytestmark = pytest.mark.kafka

POLICY = '''\
class Behind:
    """orders of ours is orders-from-ours on the target."""

    def __init__(self, settings):
        self.word = settings["replication.policy.word"]

    def format_remote_topic(self, source_alias, topic):
        return f"{topic}-{self.word}-{source_alias}"

    def topic_source(self, topic):
        return topic.rpartition(f"-{self.word}-")[2] if f"-{self.word}-" in topic else None

    def upstream_topic(self, topic):
        return topic.rpartition(f"-{self.word}-")[0] or None

    def checkpoints_topic(self, source_alias):
        return f"checkpoints-{source_alias}"

    def is_internal_topic(self, topic):
        return topic.startswith(("__", "checkpoints-"))
'''


def test_an_own_policy_names_the_copies_and_the_commands_know_them(cluster_a, cluster_b, topic, tmp_path, monkeypatch):
    stem = topic("own")
    module = f"naming_{stem.replace('-', '_')}"
    (tmp_path / f"{module}.py").write_text(POLICY)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, [str(tmp_path), os.environ.get("PYTHONPATH", "")])))
    create_topic(cluster_a, f"{stem}-orders", 2)
    create_topic(cluster_a, f"{stem}-x-from-theirs", 1)  # it came from the target, as its name tells
    keys = {
        "replication.policy.class": f"{module}:Behind",
        "replication.policy.word": "from",
        "emit.heartbeats.enabled": "true",
        "heartbeats.topic.replication.factor": "1",
    }
    file = write_file(
        tmp_path / "mm2.properties", {"ours": cluster_a, "theirs": cluster_b}, {"ours->theirs": f"{stem}.*"}, keys
    )
    written = Traffic(cluster_a, f"{stem}-orders", 2).some("transactions", 50)

    def ask(*words: str) -> str:
        command = [sys.executable, "-m", "sparkmirror", *words]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    with Running(file, log=tmp_path / "run.log", options=("--once",)) as mirror:
        assert mirror.wait() == 0, mirror.tail()
    (result,) = compare(
        cluster_a.bootstrap_servers, cluster_b.bootstrap_servers, {f"{stem}-orders": f"{stem}-orders-from-ours"}
    )
    assert (result.difference, result.records) == ("", written)
    assert {name for name in admin_of(cluster_b).list_topics(timeout=60).topics if stem in name} == {
        f"{stem}-orders-from-ours"
    }

    assert f"{module}:Behind" in ask("check", str(file))
    (told,) = json.loads(ask("explain", str(file), "--topic", f"{stem}-orders", "--json"))["flows"]
    assert (told["copied"], told["target_topic"]) == (True, f"{stem}-orders-from-ours")
    (told,) = json.loads(ask("explain", str(file), "--topic", f"{stem}-x-from-theirs", "--json"))["flows"]
    assert (told["copied"], told["rule"]) == (False, "its name tells that it came from the target")
    (status,) = json.loads(ask("status", str(file), "--json"))["flows"]
    copies = {one["target_topic"] for one in status["partitions"]}
    assert copies - {"heartbeats-from-ours"} == {f"{stem}-orders-from-ours"}, "heartbeats are copied beside the topics"
    assert status["target"]["remote"][f"{stem}-orders-from-ours"] == "ours"
    assert "checkpoints-ours" not in status["target"]["remote"]
    assert "remote topic" in ask("status", str(file))
