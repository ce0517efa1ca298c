"""Real clusters, with librdkafka as the client of them."""

from __future__ import annotations

import re
import socket
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from sparkmirror.errors import LabError
from sparkmirror.lab import cluster as cluster_module
from sparkmirror.lab.cluster import LabCluster, start, start_all
from sparkmirror.lab.jars import OLDER_KAFKA_VERSION, OLDEST_KAFKA_VERSION, jars
from sparkmirror.lab.ports import HOST, free_ports
from sparkmirror.lab.ready import known_brokers
from sparkmirror.spark.java import find_java

pytestmark = pytest.mark.kafka

EVERY_LISTENER = ("SSL", "MTLS", "SASL_PLAIN", "SASL_SCRAM", "SASL_SSL")
TIMEOUT = 30.0


def client_of(java: dict[str, str]) -> dict[str, str]:
    """The Java keys as librdkafka names them."""
    names = {
        "bootstrap.servers": "bootstrap.servers",
        "security.protocol": "security.protocol",
        "sasl.mechanism": "sasl.mechanism",
        "ssl.truststore.location": "ssl.ca.location",
    }
    found = {names[key]: value for key, value in java.items() if key in names}
    if "ssl.keystore.location" in java:
        found |= dict.fromkeys(("ssl.key.location", "ssl.certificate.location"), java["ssl.keystore.location"])
    login = re.search(r'username="(.+)" password="(.+)"', java.get("sasl.jaas.config", ""))
    if login:
        found |= {"sasl.username": login[1], "sasl.password": login[2]}
    return found


def write(client: dict[str, str], topic: str, value: bytes) -> None:
    reports: list[object] = []
    producer = Producer({**client, "message.timeout.ms": int(TIMEOUT * 1000)})
    producer.produce(topic, value, on_delivery=lambda error, _: reports.append(error))
    producer.flush(TIMEOUT)
    assert reports == [None]


def read(client: dict[str, str], topic: str, count: int) -> list[bytes | None]:
    consumer = Consumer({**client, "group.id": uuid.uuid4().hex})
    consumer.assign([TopicPartition(topic, 0, 0)])
    messages: list[Message] = consumer.consume(count, TIMEOUT)
    consumer.close()
    return [message.value() for message in messages]


@pytest.fixture(scope="module")
def secured() -> Iterator[LabCluster]:
    with start("secured", security=EVERY_LISTENER) as cluster:
        yield cluster


def test_two_clusters_answer_and_have_different_ids(cluster_a: LabCluster, cluster_b: LabCluster) -> None:
    for cluster in (cluster_a, cluster_b):
        assert known_brokers((HOST, cluster.brokers[0].port)) == frozenset([1])
        told = AdminClient({"bootstrap.servers": cluster.bootstrap_servers}).list_topics(timeout=TIMEOUT).cluster_id
        assert told == cluster.cluster_id
    assert cluster_a.cluster_id != cluster_b.cluster_id


@pytest.mark.parametrize(
    ("listener", "mechanism"),
    [
        ("PLAINTEXT", None),
        ("SSL", None),
        ("MTLS", None),
        ("SASL_PLAIN", "PLAIN"),
        ("SASL_SCRAM", "SCRAM-SHA-256"),
        ("SASL_SCRAM", "SCRAM-SHA-512"),
        ("SASL_SSL", "PLAIN"),
        ("SASL_SSL", "SCRAM-SHA-256"),
        ("SASL_SSL", "SCRAM-SHA-512"),
    ],
)
def test_a_client_gets_in_through_every_listener(
    secured: LabCluster, topic_name: str, listener: str, mechanism: str | None
) -> None:
    client = client_of(secured.client_properties(listener, mechanism=mechanism))
    write(client, topic_name, b"hello")
    assert read(client, topic_name, 1) == [b"hello"]


def test_the_java_client_takes_the_keys_as_they_are(secured: LabCluster, tmp_path: Path) -> None:
    for listener in ("SASL_SSL", "MTLS"):
        keys = secured.client_properties(listener)
        servers = keys.pop("bootstrap.servers")
        file = tmp_path / "client.properties"
        file.write_text("".join(f"{key}={value}\n" for key, value in keys.items()))
        command = [
            *(
                str(find_java().executable),
                "-cp",
                f"{jars()}/*",
                "kafka.admin.ConfigCommand",
                "--bootstrap-server",
                servers,
            ),
            *("--command-config", str(file), "--entity-type", "brokers", "--entity-name", "1", "--describe"),
        ]
        answer = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        assert "Dynamic configs for broker 1" in answer.stdout, answer.stdout + answer.stderr


def test_a_wrong_password_and_a_missing_certificate_are_refused(secured: LabCluster) -> None:
    wrong = client_of(secured.client_properties("SASL_SCRAM")) | {"sasl.password": "wrong"}
    anonymous = client_of(secured.client_properties("MTLS"))
    del anonymous["ssl.key.location"], anonymous["ssl.certificate.location"]
    for client in (wrong, anonymous):
        with pytest.raises(KafkaException):
            AdminClient({**client, "log_level": "0"}).list_topics(timeout=3)


def test_a_listener_that_was_not_asked_for_is_refused(cluster_a: LabCluster) -> None:
    with pytest.raises(LabError, match="cluster a has no listener SSL: it has PLAINTEXT"):
        cluster_a.client_properties("SSL")


def test_a_killed_and_a_stopped_broker_come_back_with_their_ports_and_data(topic_name: str) -> None:
    with start("again") as cluster:
        client = {"bootstrap.servers": cluster.bootstrap_servers}
        (broker,) = cluster.brokers
        write(client, topic_name, b"one")
        pid = broker.pid
        for end in (broker.kill, broker.stop):
            end()
            assert not broker.running
            with pytest.raises(LabError, match=r"broker 1 .* does not run"):
                _ = broker.pid
            end()  # there is nothing left to end
            broker.start()
            assert broker.pid != pid
        write(client, topic_name, b"two")
        assert read(client, topic_name, 2) == [b"one", b"two"]
        place = cluster.directory
    assert not place.exists()


def test_three_brokers_go_on_without_one(topic_name: str) -> None:
    with start("three", brokers=3) as cluster:
        assert [broker.node for broker in cluster.brokers] == [1, 2, 3]
        client = {"bootstrap.servers": cluster.bootstrap_servers}
        admin = AdminClient({**client})
        admin.create_topics([NewTopic(topic_name, 3, 3)])[topic_name].result(TIMEOUT)
        write(client, topic_name, b"one")
        cluster.brokers[0].kill()
        write(client, topic_name, b"two")
        cluster.brokers[0].start()
        assert set(admin.list_topics(timeout=TIMEOUT).brokers) == {1, 2, 3}


@pytest.mark.parametrize("version", [OLDER_KAFKA_VERSION, OLDEST_KAFKA_VERSION])
def test_older_kafkas_run_too(version: str, topic_name: str) -> None:
    with start("older", version=version, security=["SASL_SSL"]) as cluster:
        client = client_of(cluster.client_properties("SASL_SSL"))
        told = AdminClient({"bootstrap.servers": cluster.bootstrap_servers}).list_topics(timeout=TIMEOUT).cluster_id
        assert told == cluster.cluster_id
        write(client, topic_name, b"old")
        assert read(client, topic_name, 1) == [b"old"]


@pytest.mark.long
def test_brokers_with_zookeeper_come_back_from_a_kill_and_from_their_directory(tmp_path: Path, topic_name: str) -> None:
    place = tmp_path / "oldest"
    with start("oldest", version=OLDEST_KAFKA_VERSION, brokers=2, directory=place) as cluster:
        client, cluster_id = {"bootstrap.servers": cluster.bootstrap_servers}, cluster.cluster_id
        admin = AdminClient({**client})
        admin.create_topics([NewTopic(topic_name, 1, 2)])[topic_name].result(TIMEOUT)
        write(client, topic_name, b"one")
        killed = cluster.brokers[0]
        killed.kill()
        killed.start()  # its session of before is over by then: ZooKeeper would refuse it otherwise
        write(client, topic_name, b"two")
    with start("oldest", version=OLDEST_KAFKA_VERSION, brokers=2, directory=place) as cluster:
        assert cluster.cluster_id == cluster_id
        assert read({"bootstrap.servers": cluster.bootstrap_servers}, topic_name, 2) == [b"one", b"two"]


def test_a_given_directory_keeps_its_cluster(tmp_path: Path, topic_name: str) -> None:
    with start("kept", directory=tmp_path / "kept") as cluster:
        write({"bootstrap.servers": cluster.bootstrap_servers}, topic_name, b"kept")
        cluster_id = cluster.cluster_id
    with start("kept", directory=tmp_path / "kept") as cluster:
        assert cluster.cluster_id == cluster_id
        assert read({"bootstrap.servers": cluster.bootstrap_servers}, topic_name, 1) == [b"kept"]


def test_a_broker_that_ends_while_it_starts_tells_the_end_of_its_log() -> None:
    with pytest.raises(LabError, match=r"(?s)formatting failed: the end of .*num\.partitions"):
        start("wrong", config={"num.partitions": "many"})


def test_a_port_that_was_taken_meanwhile_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server((HOST, free_ports(1)[0])) as other:
        taken = other.getsockname()[1]
        answers = [(free_ports(1)[0], taken)]
        monkeypatch.setattr(cluster_module, "free_ports", lambda count: answers.pop() if answers else free_ports(count))
        with start("taken") as cluster:
            assert cluster.brokers[0].port != taken
    assert not answers


def test_when_one_of_several_clusters_fails_none_is_left(tmp_path: Path) -> None:
    (tmp_path / "second").touch()  # where a directory should be
    with pytest.raises(LabError, match=r"cluster second: .*Not a directory"):
        start_all(["first", "second"], directory=tmp_path)
    log = (tmp_path / "first" / "broker-1" / "server.log").read_text()
    assert "shut down completed" in log


def test_clusters_need_names_of_their_own() -> None:
    with pytest.raises(LabError, match="give each a name of its own"):
        start_all(["a", "a"])
    with pytest.raises(LabError, match="give a plain name"):
        start("../a")


def test_brokers_and_data_go_when_the_process_that_started_them_is_killed() -> None:
    program = (
        "import time; from sparkmirror.lab.cluster import start; c = start('owned');"
        "print(c.brokers[0].port, c.directory, flush=True); time.sleep(300)"
    )
    owner = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
    assert owner.stdout is not None
    with owner.stdout as answer:
        port, place = answer.readline().split()
    assert known_brokers((HOST, int(port))) is not None
    owner.kill()
    owner.wait(60)
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and (known_brokers((HOST, int(port))) or Path(place).exists()):
        time.sleep(0.05)
    assert known_brokers((HOST, int(port))) is None
    assert not Path(place).exists()
