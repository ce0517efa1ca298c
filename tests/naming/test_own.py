"""An own replication policy, as it is read from a file and asked afterwards."""

from __future__ import annotations

import pickle
import subprocess
import sys
import traceback
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from sparkmirror.config import FlowConfig, PolicyKind, load
from sparkmirror.errors import ConfigError
from sparkmirror.model import Alias
from sparkmirror.naming import Decision, policy_for, should_replicate, topic_filter

A, B = Alias("A"), Alias("B")
SOURCE = """\
class Suffix:
    def __init__(self, settings):
        self.mark = settings["replication.policy.mark"]
        self.flow = settings["source.cluster.alias"], settings["target.cluster.alias"]

    def format_remote_topic(self, source_alias, topic):
        return f"{topic}{self.mark}{source_alias}"

    def topic_source(self, topic):
        return topic.rpartition(self.mark)[2] if self.mark in topic else None

    def upstream_topic(self, topic):
        return topic.rpartition(self.mark)[0] or None


class Everything(Suffix):
    def is_internal_topic(self, topic):
        return topic.startswith("private")

    def heartbeats_topic(self):
        return "pulse"

    def checkpoints_topic(self, source_alias):
        return f"points-{source_alias}"

    def offset_syncs_topic(self, other_alias):
        return f"syncs-{other_alias}"


class Same(Suffix):
    def format_remote_topic(self, source_alias, topic):
        return topic

    def topic_source(self, topic):
        return None


class Says(Suffix):
    keeps_names = True


class Wrong(Suffix):
    def format_remote_topic(self, source_alias, topic):
        return {"empty": "", "number": 7}.get(topic, topic + "x")

    def topic_source(self, topic):
        raise LookupError(topic)

    def upstream_topic(self, topic):
        return topic + "x"


class Partly(Suffix):
    def format_remote_topic(self, source_alias, topic):
        return topic if topic.startswith("global") else topic + "@" + source_alias


class Knows(Suffix):
    def __init__(self, settings):
        super().__init__(settings)
        self.password = settings["replication.policy.password"]
        self.fail("made")

    def fail(self, question):
        if self.mark == question:
            raise LookupError("no login as mirror/" + self.password[::-1])

    def format_remote_topic(self, source_alias, topic):
        self.fail("probed")
        return super().format_remote_topic(source_alias, topic)

    def topic_source(self, topic):
        self.fail("asked")
        return {self.password: 1}


class Poor:
    def __init__(self, settings):
        pass

    def topic_source(self, topic):
        return None


class NoSettings:
    format_remote_topic = topic_source = upstream_topic = len


nothing = 5
"""

Read = Callable[..., FlowConfig]
ENV_PROVIDER = "org.apache.kafka.common.config.provider.EnvVarConfigProvider"


@pytest.fixture
def read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Read:
    """Reads a file whose flow A->B has a policy; its classes are in a module that nobody else has."""
    (tmp_path / "names_of_ours.py").write_text(SOURCE)
    (tmp_path / "broken_names.py").write_text("import not_there_at_all")
    (tmp_path / "failing_names.py").write_text("1 / 0")
    monkeypatch.syspath_prepend(str(tmp_path))

    def read(policy: str, more: Mapping[str, str] | None = None) -> FlowConfig:
        keys = {
            "clusters": "A, B",
            "A.bootstrap.servers": "a:1",
            "B.bootstrap.servers": "b:1",
            "A->B.enabled": "true",
            "replication.policy.class": policy,
            "replication.policy.mark": "@",
        }
        file = tmp_path / "mm2.properties"
        file.write_text("".join(f"{key} = {value}\n" for key, value in (keys | dict(more or {})).items()))
        (flow,) = load([file]).flows
        assert load([file]).warnings == ()
        return flow

    return read


def test_a_policy_that_keeps_some_names_and_changes_others_is_refused_at_the_first_that_it_keeps(read: Read):
    policy = policy_for(read("names_of_ours:Partly").policy, A)
    assert policy.format_remote_topic(A, "orders") == "orders@A"
    with pytest.raises(ConfigError, match="keeps the name 'global-x', though it changes others"):
        policy.format_remote_topic(A, "global-x")


@pytest.mark.parametrize("path", ["names_of_ours:Suffix", "names_of_ours.Suffix"])
def test_an_own_policy_names_topics_and_the_rest_is_as_mirror_maker_has_it(read: Read, path: str):
    flow = read(path)
    assert (flow.policy.kind, flow.policy.path) == (PolicyKind.OWN, "names_of_ours:Suffix")
    assert not flow.policy.keeps_names
    policy = policy_for(flow.policy, A)
    assert policy_for(flow.policy, A) is policy
    assert policy.format_remote_topic(A, "orders") == "orders@A"
    assert (policy.topic_source("orders@A"), policy.topic_source("orders")) == ("A", None)
    assert (policy.upstream_topic("orders@A@B"), policy.original_topic("orders@A@B")) == ("orders@A", "orders")
    assert (policy.is_cycle("orders@B@A", B), policy.is_cycle("orders@A", B)) == (True, False)
    assert policy.is_heartbeats_topic("heartbeats@A")
    assert policy.heartbeats_topic() == "heartbeats"
    assert (policy.checkpoints_topic(A), policy.offset_syncs_topic(B)) == (
        "A.checkpoints.internal",
        "mm2-offset-syncs.B.internal",
    )
    assert policy.is_checkpoints_topic("A.checkpoints.internal")
    assert all(map(policy.is_internal_topic, ("__x", "A.checkpoints.internal", "sparkmirror.A.B.internal")))
    chosen = topic_filter(flow)
    assert should_replicate("orders@B", flow, policy, chosen) is Decision.CYCLE
    assert should_replicate("orders@C", flow, policy, chosen) is Decision.CHOSEN


def test_an_own_policy_may_answer_everything_but_for_sparkmirrors_own_topics(read: Read):
    policy = policy_for(read("names_of_ours:Everything").policy, A)
    assert (policy.checkpoints_topic(A), policy.offset_syncs_topic(B)) == ("points-A", "syncs-B")
    assert policy.is_checkpoints_topic("points-A")
    assert (policy.heartbeats_topic(), policy.is_heartbeats_topic("pulse@A")) == ("pulse", True)
    assert not policy.is_heartbeats_topic("heartbeats")
    assert [policy.is_internal_topic(name) for name in ("private-1", "sparkmirror.A.B.internal", "__x")] == [
        True,
        True,
        False,
    ]


@pytest.mark.parametrize("name", ["Same", "Says"])
def test_loops_of_a_policy_that_keeps_names_are_told_by_writers(read: Read, name: str):
    assert read(f"names_of_ours:{name}").policy.keeps_names


@pytest.mark.parametrize(
    ("path", "told"),
    [
        ("names_of_ours:Nobody", "has no class Nobody"),
        ("names_of_ours:nothing", "has no class nothing"),
        ("not.there:Policy", "no Python module not"),
        ("not a path:Policy", "is not package.module:Class"),
        ("broken_names:Policy", "broken_names needs the module not_there_at_all"),
        ("failing_names:Policy", "failing_names cannot be imported: ZeroDivisionError"),
        ("names_of_ours:Poor", "the class Poor has no method format_remote_topic, upstream_topic"),
        ("names_of_ours:NoSettings", r"NoSettings\(settings\) failed: TypeError"),
        ("com.example.KafkaPolicy", "a Java class that is not known here .*an own policy is a Python class"),
        ("OurPolicy", "a Java class that is not known here .*an own policy is a Python class"),
    ],
)
def test_what_cannot_be_used_is_refused_with_its_place(read: Read, path: str, told: str):
    with pytest.raises(ConfigError, match=told) as caught:
        read(path)
    assert caught.value.key == "replication.policy.class"
    assert caught.value.remedy


def test_keys_of_an_own_policy_are_refused_without_one(read: Read):
    with pytest.raises(ConfigError, match="only a replication policy of one's own knows it") as caught:
        read("DefaultReplicationPolicy")
    assert caught.value.key == "replication.policy.mark"


@pytest.mark.parametrize(
    ("ask", "told"),
    [
        (lambda policy: policy.format_remote_topic(A, "empty"), r"format_remote_topic\('A', 'empty'\) gave ''"),
        (lambda policy: policy.format_remote_topic(A, "number"), "gave 7, not a str"),
        (lambda policy: policy.topic_source("t"), r"topic_source\('t'\) failed: LookupError"),
        (lambda policy: policy.original_topic("t"), "leads from 't' over more than 100 topics"),
    ],
)
def test_an_answer_that_cannot_be_used_names_the_question(read: Read, ask, told):
    policy = policy_for(read("names_of_ours:Wrong").policy, A)
    with pytest.raises(ConfigError, match=told) as caught:
        ask(policy)
    assert (caught.value.key, caught.value.remedy) == ("replication.policy.class", "correct the class")
    assert "names_of_ours:Wrong" in caught.value.reason


@pytest.mark.parametrize("password", ["canary", "${env:CANARY}"])
@pytest.mark.parametrize("mark", ["made", "probed", "asked", "@"])
def test_no_failure_and_no_answer_of_a_policy_shows_a_secret_that_it_was_made_with(
    mark: str, password: str, read: Read, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("CANARY", "canary")
    more = {"replication.policy.mark": mark, "replication.policy.password": password}
    more |= {"config.providers": "env", "config.providers.env.class": ENV_PROVIDER}
    with pytest.raises(ConfigError, match=r"LookupError, of which the text is not shown|gave dict, neither") as caught:
        policy_for(read("names_of_ours:Knows", more).policy, A).topic_source("t")
    shown = "".join(traceback.format_exception(caught.value))
    assert "canary" not in shown
    assert "canary"[::-1] not in shown
    assert ("gave dict, neither" if mark == "@" else "LookupError, of which") in str(caught.value)


def test_a_module_that_fails_with_a_login_in_its_text_does_not_show_it(
    tmp_path: Path, read: Read, monkeypatch: pytest.MonkeyPatch
):
    (tmp_path / "logs_in.py").write_text("raise OSError('no way to db://mirror:' + 'yranac'[::-1] + '@host/names')\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(ConfigError, match="logs_in cannot be imported: OSError, of which") as caught:
        read("logs_in:Policy")
    assert "canary" not in "".join(traceback.format_exception(caught.value))


def test_executors_do_not_need_the_class(read: Read):
    flow = read("names_of_ours:Suffix")
    program = "import pickle, sys; print(pickle.load(sys.stdin.buffer).policy.path, 'names_of_ours' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", program], input=pickle.dumps(flow), capture_output=True, timeout=60, check=True
    )
    assert done.stdout.decode().split() == ["names_of_ours:Suffix", "False"]


def test_a_policy_module_that_ends_the_process_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, read: Read):
    (tmp_path / "ends_the_process.py").write_text("import sys\nsys.exit(0)\n", encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(
        ConfigError, match=r"replication\.policy\.class: ends_the_process cannot be imported: SystemExit"
    ):
        read("ends_the_process:Policy")
