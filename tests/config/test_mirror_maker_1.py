"""The command line of the first MirrorMaker."""

from __future__ import annotations

from pathlib import Path

import pytest

from sparkmirror.config import AutoOffsetReset, Command, PolicyKind, open_command, settle
from sparkmirror.errors import ConfigError

FILES = Path(__file__).parent / "files" / "mm1"


def load(consumers=None, producer=FILES / "producer.properties", **options):
    opened = open_command(consumers or [FILES / "consumer.properties"], producer, Command(**{"include": "t"} | options))
    return settle([opened], opened.file)


def write(path, *lines):
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def test_the_two_files_are_source_and_target_and_names_stay():
    found = load(include='"orders, shop.*"', num_streams=3)
    (flow,) = found.flows
    assert str(flow.name) == "source->target"
    assert flow.source.consumer.bootstrap_servers == ("old-1.example.com:9092", "old-2.example.com:9092")
    assert flow.target.producer.bootstrap_servers == ("new-1.example.com:9092",)
    assert flow.topics == ("orders", "shop.*")
    assert flow.policy.kind is PolicyKind.IDENTITY
    assert flow.tasks_max == 3
    assert flow.replication_factor == -1
    assert flow.auto_offset_reset is AutoOffsetReset.LATEST
    assert flow.source.consumer.fetch_min_bytes == 4096
    assert flow.source.admin.security.username == "m"
    assert flow.target.producer.batch_size == 100_000
    assert flow.target.producer.compression_type == "gzip"
    assert flow.target.producer.delivery_timeout_ms == 2**31 - 1
    assert flow.target.admin.client_id == "mirror_maker_producer"
    assert dict(flow.origins)["topics"] == "--include"


def test_internal_topics_are_not_copied_and_replicas_are():
    (flow,) = load().flows
    assert flow.topics_exclude == ("__.*",)


def test_the_file_of_a_consumer_says_where_to_begin(tmp_path):
    file = write(tmp_path / "c.properties", "bootstrap.servers = a:1", "auto.offset.reset = earliest")
    assert load([file]).flows[0].auto_offset_reset is AutoOffsetReset.EARLIEST


def test_several_consumers_are_several_sources_of_the_same_topics(tmp_path):
    files = [write(tmp_path / f"{name}.properties", f"bootstrap.servers = {name}:1") for name in "ab"]
    found = load(files)
    assert [str(flow.name) for flow in found.flows] == ["source1->target", "source2->target"]
    assert [line for line in found.warnings if "would both write the topic t of target" in line]


def test_each_key_and_option_is_acted_upon_or_named():
    found = load(offset_commit_interval_ms=10_000, abort_on_send_failure=False)
    text = "\n".join(found.warnings)
    for part in (
        "consumer.properties: without meaning here: consumer groups; positions are kept without one (group.id)",
        "topics are named by the flow (exclude.internal.topics)",
        "producer.properties: without meaning here: always acks=all and idempotent here (acks)",
        "--offset.commit.interval.ms",
        "--abort.on.send.failure=false drops no record here",
        "committed are not read",
    ):
        assert part in text
    assert "unknown" not in text
    assert "canary" not in text + repr(found)


def test_a_key_that_nobody_knows_is_named_with_its_file(tmp_path):
    file = write(tmp_path / "c.properties", "bootstrap.servers = a:1", "fetch.min.byte = 1")
    text = "\n".join(load([file]).warnings)
    assert "c.properties: unknown keys, without effect: fetch.min.byte (fetch.min.bytes?)" in text


@pytest.mark.parametrize(
    ("options", "key", "remedy"),
    [
        ({"message_handler": "com.example.Rename"}, "--message.handler", "only renames topics: sparkmirror convert"),
        ({"rebalance_listener": "com.example.L"}, "--consumer.rebalance.listener", "remove it; new topics"),
    ],
)
def test_java_code_is_refused_with_what_to_do(options, key, remedy):
    with pytest.raises(ConfigError, match=remedy) as caught:
        load(**options)
    assert caught.value.key == key


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("zookeeper.connect = z:2181", "zookeeper.connect: consumers that read ZooKeeper are gone"),
        ("group.id = g", "bootstrap.servers: is not set"),
        ("bootstrap.servers = a:1\nauto.offset.reset = largest", "auto.offset.reset: 'largest' is not possible"),
    ],
)
def test_a_file_that_cannot_work_is_refused_with_its_name(tmp_path, line, reason):
    with pytest.raises(ConfigError, match=rf"c\.properties: {reason}"):
        load([write(tmp_path / "c.properties", line)])


def test_an_expression_that_cannot_be_used_is_refused():
    with pytest.raises(ConfigError, match=r"command line: --include: the expression"):
        load(include="*")


def test_references_are_resolved_by_the_providers_of_either_file(tmp_path, monkeypatch):
    monkeypatch.setenv("SPARKMIRROR_TEST_SERVERS", "x:1")
    lines = ("config.providers = e", "config.providers.e.class = EnvVarConfigProvider")
    file = write(tmp_path / "c.properties", *lines, "bootstrap.servers = ${e:SPARKMIRROR_TEST_SERVERS}")
    assert load([file]).flows[0].source.consumer.bootstrap_servers == ("x:1",)


def test_providers_that_contradict_each_other_are_refused(tmp_path):
    one = write(tmp_path / "c.properties", "config.providers = e", "config.providers.e.class = EnvVarConfigProvider")
    two = write(tmp_path / "p.properties", "config.providers = f", "bootstrap.servers = b:1")
    one.write_text(one.read_text() + "bootstrap.servers = a:1\n")
    with pytest.raises(ConfigError, match=r"p\.properties: config\.providers: is not what .*c\.properties says"):
        load([one], two)
