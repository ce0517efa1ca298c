"""Files that cannot work: told with file, key, cluster and remedy, exit code 2, and nothing written anywhere."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pytest
from confluent_kafka.admin import AclOperation, ResourceType

from sparkmirror import config
from sparkmirror.flow.connections import connect
from sparkmirror.lab.certificates import KEY_PASSWORD
from sparkmirror.lab.cluster import LabCluster, start
from sparkmirror.lab.listeners import PASSWORDS, USER
from tests.cli.issuing import ELSEWHERE, STORE_PASSWORD, Authority, authority
from tests.flow.rights import GUARDED, allow
from tests.flow.running import admin_of, create_topic, ends, patience, write_file
from tests.invoking import sparkmirror

DEADLINE_SECONDS = 30.0
WRONG = "not-the-password"


@dataclass(frozen=True)
class Said:
    """How a command ended, and what it said on one line."""

    code: int
    text: str


def command(*words: object) -> Said:
    """Runs one that has to end by itself within the deadline."""
    line = [sys.executable, "-m", "sparkmirror", *map(str, words)]
    seconds = DEADLINE_SECONDS * patience()
    ran = subprocess.run(line, capture_output=True, text=True, timeout=seconds, check=False)
    assert "Traceback" not in ran.stderr, ran.stderr
    return Said(code=ran.returncode, text=" ".join((ran.stdout + ran.stderr).split()))


# ------------------------------------------------------------------------------------------------- no cluster is asked

NOWHERE = {"a": {"bootstrap.servers": "127.0.0.1:1"}, "b": {"bootstrap.servers": "127.0.0.1:2"}}


@dataclass(frozen=True)
class Mistake:
    """What is wrong with a file, and what has to be told: the key, the reason, the remedy."""

    flows: Mapping[str, str]
    settings: Mapping[str, str]
    told: Sequence[str]


MISTAKES = {
    "an unknown alias": Mistake(
        {"a->x": ".*"}, {}, ("a->x.enabled: names 'x', which clusters does not list", "clusters: a, b")
    ),
    "no bootstrap servers": Mistake({"a->c": ".*"}, {"clusters": "a,c"}, ("c.bootstrap.servers", "host:port")),
    "an address without a port": Mistake(
        {"a->b": ".*"}, {"b.bootstrap.servers": "kafka-1"}, ("b.bootstrap.servers: 'kafka-1' holds an address",)
    ),
    "a wrong expression": Mistake({"a->b": "orders, [a-"}, {}, ("a->b.topics", "[a-")),
    "a flow from a cluster to itself": Mistake(
        {"a->a": ".*"}, {}, ("a->a.enabled: is a flow from a cluster to itself", "name two clusters")
    ),
    "a flow between one broker's two names": Mistake(
        {"a->b": ".*"},
        {"b.bootstrap.servers": "127.0.0.1:1"},
        ("a->b.enabled: a and b are one cluster: both name 127.0.0.1:1", "see a.bootstrap.servers"),
    ),
    "two flows into one topic": Mistake(
        {"a->c": "orders", "b->c": "orders|payments"},
        {
            "clusters": "a,b,c",
            "c.bootstrap.servers": "127.0.0.1:3",
            "replication.policy.class": "org.apache.kafka.connect.mirror.IdentityReplicationPolicy",
        },
        ("b->c.topics: a->c and b->c would both write the topic orders of c", "choose other topics"),
    ),
    "a mechanism that is not there": Mistake(
        {"a->b": ".*"},
        {"b.security.protocol": "SASL_PLAINTEXT", "b.sasl.mechanism": "CRAM-MD5"},
        ("b.sasl.mechanism", "CRAM-MD5", "SCRAM-SHA-512"),
    ),
    "no flow": Mistake({}, {}, ("no flow is enabled", "set a->b.enabled = true")),
}


@pytest.fixture(scope="module")
def offline(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[Path, Said]]:
    """What ``run`` says of each mistake; all are run side by side."""
    directory = tmp_path_factory.mktemp("mistakes")
    files = {
        name: write_file(directory / f"{number}.properties", NOWHERE, mistake.flows, mistake.settings)
        for number, (name, mistake) in enumerate(MISTAKES.items())
    }
    with ThreadPoolExecutor(2) as pool:
        said = dict(zip(files, pool.map(lambda file: command("run", file), files.values()), strict=True))
    return {name: (files[name], said[name]) for name in files}


@pytest.mark.slow
@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_in_a_file_is_told_with_its_key_and_ends_with_2(offline, name: str):
    file, said = offline[name]
    assert said.code == 2, said.text
    assert f"sparkmirror: {file}" in said.text
    for words in MISTAKES[name].told:
        assert words in said.text


@pytest.mark.parametrize("option", ["--timeout", "--wait-for-idle", "--reverse-within"])
def test_a_time_without_an_end_is_refused(option: str):
    done = sparkmirror("failover", "mm2.properties", "--from", "a", "--to", "b", option, "inf")
    assert done.returncode == 2
    assert option in done.stderr


@pytest.mark.parametrize("seconds", ["nan", "inf", "-inf", "-1"])
@pytest.mark.parametrize(
    ("words", "option"),
    [
        (("switchover", "f", "--from", "a", "--to", "b"), "--timeout"),
        (("failback", "f", "--to", "a"), "--wait-for-idle"),
        (("failover", "f", "--from", "a", "--to", "b"), "--reverse-within"),
        (("rehearse", "f"), "--timeout"),
        (("wait", "f", "--caught-up"), "--timeout"),
    ],
)
def test_a_time_that_is_no_number_of_seconds_is_refused(words: tuple[str, ...], option: str, seconds: str):
    done = sparkmirror(*words, option, seconds)
    assert (done.returncode, f"Invalid value for '{option}'" in done.stderr) == (2, True), done.stderr


@pytest.mark.slow
def test_a_file_that_cannot_be_read_and_a_flow_that_is_not_there_end_with_2(tmp_path: Path):
    loop = tmp_path / "loop.properties"
    loop.symlink_to(loop)
    absent, directory = tmp_path / "absent.properties", tmp_path / "directory.yaml"
    directory.mkdir()
    for path, reason in (
        (absent, "no such file or directory"),
        (directory, "is a directory"),
        (loop, "too many levels of symbolic links"),
    ):
        said = command("run", path)
        assert (said.code, said.text) == (2, f"sparkmirror: {path}: {reason}")
    file = write_file(tmp_path / "mm2.properties", NOWHERE, {"a->b": ".*"})
    assert command("run", file, "--flow", "b->a") == Said(
        2, f"sparkmirror: {file}: no flow 'b->a' is enabled here (enabled: a->b)"
    )
    assert command("check", file, "--clusters", "x") == Said(
        2, f"sparkmirror: {file}: clusters: does not list 'x' (it has a, b)"
    )


@pytest.mark.slow
def test_a_store_with_another_password_is_told_with_its_key_and_without_the_password(tmp_path: Path):
    store = authority(tmp_path).issue("client")
    tls = {"b.security.protocol": "SSL", "b.ssl.keystore.type": "PKCS12", "b.ssl.keystore.location": str(store)}
    file = write_file(tmp_path / "mm2.properties", NOWHERE, {"a->b": ".*"}, tls | {"b.ssl.keystore.password": WRONG})
    said = command("run", file)
    assert said.code == 2
    assert f"sparkmirror: {file}: b.ssl.keystore.location: " in said.text
    assert "password" in said.text
    assert WRONG not in said.text


LONG = {
    "colons behind a begun reference": "topics=${" + ":" * 4_000,
    "references that only begin": "topics=" + "${" * 32_767,
    "references that only begin, and one end": "topics=" + "${" * 32_000 + "}",
    "a word": "topics=" + "a" * 1_000_000,
    "a word for a number": "tasks.max=" + "a" * 1_000_000,
    "a word for a number, at the limit": "tasks.max=" + "a" * 65_536,
    "a word for an unknown key": "foo=" + "a" * 1_000_000,
    "words with colons": "tasks.max=" + "a:" * 32_768,
    "a list": "topics=" + ",".join(f"t{number}" for number in range(120_000)),
    "a list at the limit": "topics=" + ",".join(f"t{number}" for number in range(9_000)),
    "an expression": "topics=" + ".*" * 400_000,
    "an expression at the limit": "topics=" + ".*" * 32_768,
    "repetitions": "topics=" + "(a|b)*" * 2_000,
    "a class": "topics=[" + "a-z" * 200_000 + "]",
}
LONG_SECONDS = 5.0


@pytest.mark.slow
@pytest.mark.parametrize("name", LONG)
def test_no_value_keeps_check_and_convert_busy(name: str, tmp_path: Path):
    file = tmp_path / "mm2.properties"
    clusters = "clusters=a,b\na.bootstrap.servers=a:1\nb.bootstrap.servers=b:1\na->b.enabled=true\n"
    file.write_text(f"{clusters}a->b.{LONG[name]}\n")
    for verb in ("check", "convert"):
        began = time.monotonic()
        said = command(verb, file)
        assert time.monotonic() - began < LONG_SECONDS * patience()
        assert said.code in (0, 2)
        if verb == "check" and len(LONG[name]) > 70_000 and "unknown" not in name:
            assert said.code == 2
            assert re.search(r"a->b\.(topics|tasks\.max): has a value of \d+ characters, and 65536 are read", said.text)


# -------------------------------------------------------------------------------------------------- clusters are asked


@pytest.fixture(scope="module")
def issuer(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="module")
def secured(issuer: Authority) -> Iterator[LabCluster]:
    """Grants little. Its certificate at SSL has expired, the one at SASL_SSL is another host's."""
    expired, elsewhere = issuer.issue("expired", days=-1), issuer.issue("elsewhere", ELSEWHERE)
    stores = {"ssl": expired, "sasl_ssl": elsewhere}
    config = {f"listener.name.{name}.ssl.keystore.location": str(store) for name, store in stores.items()}
    for name in stores:
        config |= {f"listener.name.{name}.ssl.{key}.password": STORE_PASSWORD for key in ("keystore", "key")}
    config["listener.name.mtls.ssl.truststore.location"] = str(issuer.file)
    listeners = ("SSL", "MTLS", "SASL_PLAIN", "SASL_SCRAM", "SASL_SSL")
    with start("secured", security=listeners, config=GUARDED | config) as running:
        yield running


def contents(*clusters: LabCluster) -> list[dict[str, dict[int, int]]]:
    """Every topic with its end offsets."""
    return [{name: ends(each, name) for name in admin_of(each).list_topics(timeout=60).topics} for each in clusters]


@pytest.fixture
def unchanged(cluster_b: LabCluster, secured: LabCluster) -> Iterator[None]:
    """Both clusters hold afterwards what they held before."""
    before = contents(cluster_b, secured)
    yield
    assert contents(cluster_b, secured) == before


def ways_to_be_refused(secured: LabCluster, issuer: Authority) -> dict[str, tuple[dict[str, str], str, str]]:
    """By alias: how a client connects, the key that has to be named, and words of the remedy."""
    found: dict[str, tuple[dict[str, str], str, str]] = {}
    for listener in ("SASL_PLAIN", "SASL_SCRAM"):
        keys = secured.client_properties(listener)
        keys["sasl.jaas.config"] = keys["sasl.jaas.config"].replace(PASSWORDS[USER], WRONG)
        alias = listener.lower().replace("_", "-")
        found[f"password-{alias}"] = (keys, "sasl.jaas.config", "check user name, password and sasl.mechanism")
    scram = secured.client_properties("SASL_SCRAM") | {"bootstrap.servers": secured.listener("SASL_PLAIN")}
    found["mechanism"] = (scram, "sasl.mechanism", "the listener offers other SASL mechanisms")
    trusting = {"ssl.truststore.type": "PEM", "ssl.truststore.location": str(issuer.file)}
    tls = secured.client_properties("SSL")
    found["expired"] = (tls | trusting, "bootstrap.servers", "renew the broker's certificate")
    found["authority"] = (tls, "ssl.truststore.location", "the authority that signed the broker's certificate")
    named = secured.client_properties("SASL_SSL") | trusting
    found["name"] = (named, "bootstrap.servers", "that the broker's certificate has")
    mutual = secured.client_properties("MTLS")
    issuer.issue("late", days=-1)
    late = {"ssl.keystore.location": str(issuer.directory / "late.pem")}
    found["late"] = (mutual | late, "ssl.keystore.location", "that is not expired")
    nobody = {key: value for key, value in mutual.items() if "keystore" not in key}
    found["nobody"] = (nobody, "ssl.keystore.location", "a certificate that the broker trusts")
    return found


REFUSALS = (
    "password-sasl-plain",
    "password-sasl-scram",
    "mechanism",
    "expired",
    "authority",
    "name",
    "late",
    "nobody",
)


@dataclass(frozen=True)
class Asked:
    """A file all of whose flows are refused, what ``run`` and ``check --connect`` said, and whom it asked."""

    file: Path
    ways: Mapping[str, tuple[dict[str, str], str, str]]
    run: Said
    check: Said


@pytest.fixture(scope="module")
def asked(
    cluster_b: LabCluster, secured: LabCluster, issuer: Authority, tmp_path_factory: pytest.TempPathFactory
) -> Asked:
    ways = ways_to_be_refused(secured, issuer)
    clusters: dict[str, LabCluster | Mapping[str, str]] = {alias: keys for alias, (keys, _, _) in ways.items()}
    flows = {f"{alias}->b": f"topic-{alias}" for alias in ways}
    file = write_file(tmp_path_factory.mktemp("refused") / "mm2.properties", clusters | {"b": cluster_b}, flows)
    before = contents(cluster_b, secured)
    ran = command("run", file)
    assert contents(cluster_b, secured) == before
    return Asked(file=file, ways=ways, run=ran, check=command("check", "--connect", file))


@pytest.mark.kafka
@pytest.mark.slow
@pytest.mark.parametrize("alias", REFUSALS)
def test_what_a_cluster_refuses_is_told_with_key_cluster_and_remedy(asked: Asked, alias: str):
    keys, key, remedy = asked.ways[alias]
    place = f"{asked.file}: {alias}.{key}: cluster {alias} at {keys['bootstrap.servers']}: "
    for said in (asked.run, asked.check):
        assert said.code == 2, said.text
        assert place in said.text
        assert remedy in said.text.partition(place)[2].partition(str(asked.file))[0]
        for secret in (WRONG, PASSWORDS[USER], KEY_PASSWORD):
            assert secret not in said.text
    assert "nothing was started, and nothing was written" in asked.run.text


@pytest.mark.kafka
def test_a_bootstrap_server_that_is_refused_does_not_speak_for_the_others(
    cluster_b: LabCluster, secured: LabCluster, issuer: Authority, tmp_path: Path
):
    issuer.issue("client")
    trusted = tmp_path / "both.pem"
    own = secured.client_properties("MTLS")
    trusted.write_bytes(Path(own["ssl.truststore.location"]).read_bytes() + issuer.file.read_bytes())
    client = own | {
        "bootstrap.servers": f"{secured.listener('SSL')},{own['bootstrap.servers']}",
        "ssl.truststore.location": str(trusted),
        "ssl.keystore.location": str(issuer.directory / "client.pem"),
    }
    file = write_file(tmp_path / "mm2.properties", {"s": client, "b": cluster_b}, {"s->b": ".*"})
    loaded = config.load([file])
    for _ in range(6):  # which server is asked first is chance
        assert [one.failure for one in connect(loaded)] == [None] * 2


@pytest.mark.kafka
@pytest.mark.slow
def test_a_right_without_which_nothing_can_be_copied_is_named(
    cluster_b: LabCluster, secured: LabCluster, topic: Callable[..., str], tmp_path: Path
):
    name = topic("unreadable")
    create_topic(secured, name)
    allow(secured, ResourceType.TOPIC, name, AclOperation.DESCRIBE)
    user = secured.client_properties("SASL_PLAIN")
    flows = {"b->s": ".*", "s->b": name}
    file = write_file(tmp_path / "mm2.properties", {"b": cluster_b, "s": user}, flows)
    before = contents(cluster_b, secured)
    said = command("run", file)
    assert said.code == 2, said.text
    place = f"{file}: s.sasl.jaas.config: cluster s at {user['bootstrap.servers']}: user {USER} is not allowed to"
    assert f"{place} READ Topic {name} (allow READ Topic {name} to this user; sparkmirror acls" in said.text
    assert f"{place} CREATE Topic sparkmirror.b.s." in said.text
    assert contents(cluster_b, secured) == before


@pytest.mark.kafka
@pytest.mark.slow
@pytest.mark.usefixtures("unchanged")
def test_aliases_that_are_one_cluster_are_told_by_its_id(cluster_b: LabCluster, secured: LabCluster, tmp_path: Path):
    again = {"bootstrap.servers": cluster_b.bootstrap_servers.replace("127.0.0.1", "localhost")}
    clusters: dict[str, LabCluster | Mapping[str, str]] = {"a": secured, "b": cluster_b, "again": again}
    twice = write_file(tmp_path / "twice.properties", clusters, {"a->b": "x", "a->again": "x"})
    itself = write_file(
        tmp_path / "itself.properties", clusters, {"b->again": "x"}, {"several.aliases.per.cluster": "true"}
    )
    with ThreadPoolExecutor(2) as pool:
        first, second = pool.map(lambda file: command("run", file), (twice, itself))
    addresses = f"b is {cluster_b.bootstrap_servers}; again is {again['bootstrap.servers']}"
    identity = f"b and again are one cluster, with the id {cluster_b.cluster_id}: {addresses}"
    assert (first.code, second.code) == (2, 2), first.text + second.text
    assert f"{twice}: clusters: {identity} (correct the bootstrap.servers of one of them" in first.text
    assert f"{itself}: b->again.enabled: {identity} (correct the bootstrap.servers of one of them" in second.text


@pytest.mark.kafka
@pytest.mark.slow
@pytest.mark.usefixtures("unchanged")
def test_a_cluster_that_is_away_ends_a_copy_for_once_and_is_waited_for_by_others(cluster_b: LabCluster, tmp_path: Path):
    away = {"bootstrap.servers": "127.0.0.1:1"}
    file = write_file(tmp_path / "mm2.properties", {"away": away, "b": cluster_b}, {"away->b": ".*"})
    place = f"{file}: away.bootstrap.servers: cluster away at 127.0.0.1:1: no connection"
    line = [sys.executable, "-m", "sparkmirror", "run", str(file)]
    log = tmp_path / "run.log"
    with log.open("wb") as out, subprocess.Popen(line, stdout=out, stderr=out, start_new_session=True) as waiting:
        try:
            once = command("run", file, "--once")
            assert once.code == 2, once.text
            assert place in once.text
            assert "are the bootstrap servers right and up" in once.text
            deadline = time.monotonic() + DEADLINE_SECONDS * patience()
            while place not in " ".join(log.read_text().split()):
                assert time.monotonic() < deadline, log.read_text()
                time.sleep(0.2)
            assert waiting.poll() is None
        finally:
            os.kill(waiting.pid, signal.SIGTERM)
            code = waiting.wait(DEADLINE_SECONDS * patience())
    assert code == 1, log.read_text()
    assert "away->b was stopped before it could begin" in log.read_text()
