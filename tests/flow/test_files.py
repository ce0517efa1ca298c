"""Files of other tools run as they are: connectors in JSON, a Strimzi resource, the first MirrorMaker's command."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
import yaml
from confluent_kafka import Producer

from sparkmirror.lab.referee import compare
from tests.flow.running import Running, count, create_topic

pytestmark = pytest.mark.kafka

RECORDS = 500
PARTITIONS = 2
RUN_SECONDS = 240


def produce(cluster, topic):
    create_topic(cluster, topic, PARTITIONS)
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "linger.ms": 20, "log_level": 3})
    for number in range(RECORDS):
        producer.produce(topic, key=b"k%d" % number, value=b"v%d" % number, partition=number % PARTITIONS)
    assert producer.flush(60) == 0


def connectors(source, target, topic):
    clusters = {
        "source.cluster.alias": "json-a",
        "target.cluster.alias": "json-b",
        "source.cluster.bootstrap.servers": source.bootstrap_servers,
        "target.cluster.bootstrap.servers": target.bootstrap_servers,
        "replication.policy.separator": "_",
    }
    package = "org.apache.kafka.connect.mirror."
    own = {"topics": topic, "tasks.max": 1, "replication.factor": 1, "sync.topic.acls.enabled": False}
    own["offset-syncs.topic.replication.factor"] = 1
    factor = {"heartbeats.topic.replication.factor": 1}
    return [
        {"name": "s", "config": {"connector.class": f"{package}MirrorSourceConnector"} | clusters | own},
        {"name": "h", "config": {"connector.class": f"{package}MirrorHeartbeatConnector"} | clusters | factor},
    ]


def resource(source, target, topic):
    one_broker = {"replication.factor": 1, "offset-syncs.topic.replication.factor": 1}
    return {
        "apiVersion": "kafka.strimzi.io/v1",
        "kind": "KafkaMirrorMaker2",
        "metadata": {"name": "m", "namespace": "n"},
        "spec": {
            "replicas": 1,
            "target": {"alias": "yaml-c", "bootstrapServers": target.bootstrap_servers, "groupId": "g"},
            "mirrors": [
                {
                    "source": {"alias": "json-b", "bootstrapServers": source.bootstrap_servers},
                    "sourceConnector": {"tasksMax": 1, "config": one_broker},
                    "topicsPattern": topic,
                }
            ],
        },
    }


def test_connectors_and_a_strimzi_resource_are_run_in_one_command(cluster_a, cluster_b, cluster_c, topic, tmp_path):
    one, two = topic("connect"), topic("strimzi")
    produce(cluster_a, one)
    produce(cluster_b, two)
    (tmp_path / "mm2.json").write_text(json.dumps(connectors(cluster_a, cluster_b, one)), encoding="utf-8")
    (tmp_path / "mm2.yaml").write_text(yaml.safe_dump(resource(cluster_b, cluster_c, two)), encoding="utf-8")
    options = (str(tmp_path / "mm2.yaml"), "--once")
    with Running(tmp_path / "mm2.json", log=tmp_path / "run.log", options=options) as mirror:
        assert mirror.wait() == 0, mirror.tail()
        assert "spec.replicas" in mirror.output
    copied = ((cluster_a, cluster_b, {one: f"json-a_{one}"}), (cluster_b, cluster_c, {two: f"json-b.{two}"}))
    for source, target, copies in copied:
        (result,) = compare(source.bootstrap_servers, target.bootstrap_servers, copies)
        assert (result.difference, result.records) == ("", RECORDS)


def test_a_command_of_the_first_mirror_maker_is_run_and_goes_on_as_the_file_it_is_converted_to(
    cluster_a, cluster_b, topic, tmp_path
):
    name = topic("first")
    produce(cluster_a, name)
    consumer, producer = tmp_path / "consumer.properties", tmp_path / "producer.properties"
    consumer.write_text(f"bootstrap.servers={cluster_a.bootstrap_servers}\ngroup.id=g\nauto.offset.reset=earliest\n")
    producer.write_text(f"bootstrap.servers={cluster_b.bootstrap_servers}\nacks=-1\n")

    def mirror_maker(*more):
        command = [
            sys.executable,
            "-m",
            "sparkmirror",
            "mirror-maker",
            "--whitelist",
            f'"{name}"',
            "--num.streams",
            "1",
        ]
        command += ["--consumer.config", str(consumer), "--producer.config", str(producer), *more]
        return subprocess.run(command, capture_output=True, text=True, timeout=RUN_SECONDS, check=False)

    done = mirror_maker("--once")
    assert done.returncode == 0, done.stderr
    assert "committed are not read" in done.stderr
    (result,) = compare(cluster_a.bootstrap_servers, cluster_b.bootstrap_servers, {name: name})
    assert (result.difference, result.records) == ("", RECORDS)

    converted = tmp_path / "mm2.properties"
    converted.write_text(mirror_maker("--convert").stdout, encoding="latin-1")
    with Running(converted, log=tmp_path / "run.log", options=("--once",)) as mirror:
        assert mirror.wait() == 0, mirror.tail()
    assert count(cluster_b, name) == RECORDS
