"""A mirror whose topics are named by a Python class of its user, and what the commands say of it.

Its aliases are its own: an internal topic belongs to one naming, and other tests share the clusters.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from sparkmirror.lab.referee import compare
from tests.flow.running import Running, admin_of, create_topic, until, write_file
from tests.flow.test_events import records
from tests.flow.test_torn_while_idle import mirrored, write
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

ONE_FOR_ALL = '''\
class OneForAll:
    """orders-v1 and orders-v2 are both orders on the target."""

    def __init__(self, settings):
        pass

    def format_remote_topic(self, source_alias, topic):
        return topic.rpartition("-v")[0] or topic

    def topic_source(self, topic):
        return None

    def upstream_topic(self, topic):
        return None
'''


def naming(directory: Path, monkeypatch: pytest.MonkeyPatch, stem: str, policy: str) -> str:
    """A module with that policy, which processes that are started from now on find; its name."""
    module = f"naming_{stem.replace('-', '_')}"
    (directory / f"{module}.py").write_text(policy)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, [str(directory), os.environ.get("PYTHONPATH", "")])))
    return module


def ask(*words: str) -> str:
    command = [sys.executable, "-m", "sparkmirror", *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_an_own_policy_names_the_copies_and_the_commands_know_them(cluster_a, cluster_b, topic, tmp_path, monkeypatch):
    stem = topic("own")
    module = naming(tmp_path, monkeypatch, stem, POLICY)
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


@pytest.mark.slow
@pytest.mark.long
def test_a_topic_that_comes_later_takes_no_copy_over_whether_the_file_still_names_the_other_one_or_not(
    cluster_a, cluster_b, topic, tmp_path, monkeypatch
):
    """The first by name comes later; then the file leaves out the one that is copied, and names both again."""
    stem = topic("one")
    first, later = f"{stem}-v2", f"{stem}-v1"
    module = naming(tmp_path, monkeypatch, stem, ONE_FOR_ALL)
    keys = {
        "replication.policy.class": f"{module}:OneForAll",
        "refresh.topics.interval.seconds": "1",
        "heartbeats.replication.enabled": "false",
        "tasks.max": "1",
    }
    clusters, flow = {"ones": cluster_a, "others": cluster_b}, "ones->others"
    copied = records(20)
    create_topic(cluster_a, first, 1)
    write(cluster_a, first, copied)
    both = write_file(tmp_path / "both.properties", clusters, {flow: f"{stem}-v.*"}, keys)

    def told(file: Path) -> str:
        (one,) = json.loads(ask("explain", str(file), "--topic", later, "--json"))["flows"]
        assert not one["copied"]
        return " ".join(one["lines"])

    with Running(both, log=tmp_path / "both.log") as mirror:
        until(lambda: mirrored(cluster_b, stem) == copied, "the first one is copied")
        create_topic(cluster_a, later, 1)
        write(cluster_a, later, records(20, 1_000))
        until(lambda: f"{first} is copied to {stem} already" in " ".join(mirror.output.split()), "it is refused")
        write(cluster_a, first, records(20, 20))
        copied += records(20, 20)
        until(lambda: mirrored(cluster_b, stem) == copied, "the first one goes on")
        mirror.stop_in_time()
    assert f"{first} is copied to {stem} already" in told(both)
    alone = write_file(tmp_path / "alone.properties", clusters, {flow: later}, keys)
    with Running(alone, log=tmp_path / "alone.log") as mirror:
        refusal = f"{stem} is the copy of {first}, which the flow does not copy any more"
        until(lambda: refusal in " ".join(mirror.output.split()), "it is refused here too")
        write(cluster_a, first, records(20, 40))
        copied += records(20, 40)
        mirror.stop_in_time()
    assert refusal in told(alone)
    with Running(both, log=tmp_path / "again.log") as mirror:
        until(lambda: len(mirrored(cluster_b, stem)) >= len(copied), "the first one goes on again")
        mirror.stop_in_time()
    assert mirrored(cluster_b, stem) == copied, "every record of it, once, and no other"
