"""Secrets pasted into all kinds of places: no command that reads the file shows them.

The places are those of a security review, and what it had left out. Each is tried with passwords of several kinds, for
a rule that hides one of them may show another.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from sparkmirror.config.key_names import (
    holds_odd_url,
    is_like_field,
    is_like_key,
    is_like_name,
    is_like_number,
    is_like_one_of,
)
from tests.config.conftest import BASE
from tests.invoking import sparkmirror

SECRETS = ("Zq9Canary7", "c4N4ry-hunter2x", "aXc.canary9b")
PROVIDERS = "config.providers = env\nconfig.providers.env.class = EnvVarConfigProvider\n"
MODULE = "org.apache.kafka.common.security."
PLAIN = f"{MODULE}plain.PlainLoginModule required"
TOKEN = f"{MODULE}oauthbearer.OAuthBearerLoginModule required"
SASL = "A.security.protocol=SASL_SSL\nA.sasl.mechanism="
ENDPOINT = f"{SASL}OAUTHBEARER\nA.sasl.oauthbearer.client.credentials.client.id=a\n"
URL = f"{ENDPOINT}A.sasl.oauthbearer.client.credentials.client.secret=b\nA.sasl.oauthbearer.token.endpoint.url"

PROPERTIES = (
    f'A.sasl.jass.config = {TOKEN} oauth.access.token="SECRET";',
    f'A.sasl.jass.config = {TOKEN} oauth.client.assertion="SECRET";',
    f'A.sasl.jass.config = {PLAIN} username="u" password="SECRET";',
    f'A.sasl.jaas.config = {PLAIN} username:"u" password:"SECRET";',
    f'C.sasl.jaas.config = {PLAIN} username="u" password="SECRET";',
    "A.ssl.keystore.pasword = SECRET",
    "A.basic.auth.user.info = user:SECRET",
    "A.ssl.key.passphrase = SECRET",
    "A.sasl.pwd = SECRET",
    "A.consumer.bootstrap.servers = u:SECRET@localhost:9092",
    "A.proxy.url = http://u:SECRET@proxy:3128",
    "SECRETXy = 1",
    "SECRET",
    "SECRET\nSECRET",
    "A.SECRET = 1",
    "A->B.SECRET = 1",
    "A.consumer.SECRET = 1",
    "A->B.sasl.SECRET = 1",
    "transforms.SECRET.type = x",
    "A->X.SECRET = 1",
    f"{SASL}PLAIN SECRET",
    f"{URL}=https://h/t?client_secret=SECRET",
    f"{URL}=https://h/t?sig=SECRET",
    f"{URL}=https://h/t#SECRET",
    f"{URL}=https://h/SECRET/t",
    f"{URL}=https://h/SECRET",
    "A.sasl.oauthbearer.jwks.endpoint.url=https://h/SECRET/keys",
    f"{ENDPOINT}A.sasl.oauthbearer.token.endpoint.url=https://h/t\nA.sasl.oauthbearer.client.secret=SECRET",
    f'{SASL}OAUTHBEARER\nA.sasl.jaas.config={TOKEN} unsecuredLoginStringClaim_sub="SECRET";',
    f'{SASL}PLAIN\nA.sasl.jaas.config={PLAIN} username="u" password="SECRET" x="SECRET" "SECRET"="y";',
    f'{SASL}PLAIN\nA.sasl.jaas.config=SECRET required username="u" password="SECRET";',
    f'{SASL}PLAIN\nA.sasl.jaas.config={PLAIN} username="SECRETpw";',
    f"{SASL}GSSAPI\nA.sasl.jaas.config=com.sun.security.auth.module.Krb5LoginModule required SECRET=true;",
    "A.security.protocol=SSL\nA.ssl.keystore.type=PEM\nA.ssl.keystore.key=SECRET",
    (
        "replication.policy.class=nomod:Cls\nreplication.policy.password=SECRET\n"
        "replication.policy.db.url=postgres://u:SECRET@h/d"
    ),
    "replication.policy.class=SECRET.mod:Cls",
    "replication.policy.class=SECRET:Cls",
    "replication.policy.class=json:SECRET",
    "replication.policy.class=SECRET",
    "topic.filter.class=com.example.SECRET",
    (
        "config.providers=vault\nconfig.providers.vault.class=x.VaultProvider\n"
        "config.providers.vault.param.token=SECRET\nconfig.providers.vault.param.role=SECRET"
    ),
    "config.providers=SECRET",
    "config.providers=vault\nconfig.providers.vault.class=${env:CANARY}",
    "A.client.id=${env:${env:CANARY}}",
    "A.client.id=${env:SECRET}",
    "A.client.id=${file:/nowhere:SECRET}",
    'A.sasl.jaas.config=x password="a${SECRET:b}";',
    f'{SASL}PLAIN\nA.sasl.jaas.config={PLAIN} username="u" password="a${{SECRET:b}}";',
    "A.bootstrap.servers=${env:CANARY",
    "X->${env:CANARY}.enabled=true",
    "A->B.enabled = ${env:CANARY}",
    "A->B.start.positions = t-0:${env:CANARY}",
    "A->B.topics = ${env:CANARY}(*[",
    "A->B.topics.append = ${env:CANARY}(*[",
)


VALUES = (
    f"{SASL}SECRET",
    "A.security.protocol = SECRET",
    "A->B.tasks.max = SECRET",
    "A->B.sync.topic.acls.enabled = SECRET",
    f"{URL} = https://h/t\nA.sasl.login.refresh.window.factor = SECRET",
    "A.compression.type = SECRET",
    "A.security.protocol = SSL\nA.ssl.truststore.location = x\nA.ssl.truststore.type = SECRET",
    "A.security.protocol = SSL\nA.ssl.enabled.protocols = SECRET",
    "A.security.protocol = SSL\nA.ssl.endpoint.identification.algorithm = SECRET",
)
"""Where a number, a boolean or one of a few words is expected."""


def told(path: Path, *commands: str) -> str:
    """What the commands that read a file write, whether or not they take it."""
    words = {"check": ("check", path), "convert": ("convert", path), "acls": ("acls", path, "--for", "target")}
    ended = [sparkmirror(*words[command]) for command in commands or words]
    return "".join(one.stdout + one.stderr for one in ended)


@pytest.mark.parametrize("secret", SECRETS)
@pytest.mark.parametrize("lines", PROPERTIES)
def test_a_secret_in_an_odd_place_of_a_properties_file_is_not_shown(write, monkeypatch, lines, secret):
    monkeypatch.setenv("CANARY", secret)
    base = BASE if lines.startswith("config.providers") else f"{BASE}{PROVIDERS}"
    text = told(write(*lines.replace("SECRET", secret).split("\n"), base=base))
    assert secret not in text
    assert "mm2.properties" in text


@pytest.mark.parametrize("secret", SECRETS)
@pytest.mark.parametrize("lines", VALUES)
def test_a_secret_as_the_value_of_a_key_that_wants_another_one_is_not_shown(write, lines, secret):
    text = told(write(*lines.replace("SECRET", secret).split("\n")), "check", "acls")
    assert secret not in text
    assert "[hidden] " in text


CONNECTORS = (
    {"source.cluster.sasl.jaas.config": ["SECRET"]},
    {"source.cluster.sasl.jaas.config": {"SECRET": "SECRET"}},
    {"source.cluster.ssl.keystore.password": {"v": "SECRET"}},
    {"source.cluster.sasl.jass.config": 'x required password="SECRET"'},
    {"SECRET=": "x"},
    {"SECRET": "x"},
    {"source.cluster.SECRET": "x"},
    {"source.cluster.bootstrap.servers": ["SECRET"]},
)


@pytest.mark.parametrize("secret", SECRETS)
@pytest.mark.parametrize("config", CONNECTORS)
def test_a_secret_in_an_odd_place_of_a_connector_is_not_shown(tmp_path, config, secret):
    least = {
        "connector.class": "org.apache.kafka.connect.mirror.MirrorSourceConnector",
        "source.cluster.alias": "A",
        "target.cluster.alias": "B",
        "source.cluster.bootstrap.servers": "a:1",
        "target.cluster.bootstrap.servers": "b:1",
    }
    path = tmp_path / "c.json"
    path.write_text(json.dumps({"name": "c", "config": least | config}).replace("SECRET", secret))
    text = told(path)
    assert secret not in text
    assert "c.json" in text


AUTHENTICATIONS = (
    {"type": "plain", "username": "u", "password": "SECRET"},
    {"type": "plain", "username": "u", "passwordSecret": "SECRET"},
    {"type": "plain", "username": "u", "passwordSecret": {"secretName": "s", "password": "SECRET", "value": "SECRET"}},
    {"type": "plain", "username": "u", "passwordSecret": {"secretName": "s", "password": "Summer-password-2024"}},
    {"type": "plain", "username": "u", "passwordSecret": {"secretName": "SECRET", "password": "p"}},
    {"type": "plain", "username": "u", "passwordSecret": {"secretName": "s", "SECRET": "p"}},
    {
        "type": "oauth",
        "clientId": "c",
        "clientSecret": "SECRET",
        "tokenEndpointUri": "https://h/t",
        "accessToken": "SECRET",
    },
    {"type": "SECRET"},
    {"SECRET": "plain"},
    "SECRET",
    {
        "type": "custom",
        "sasl": True,
        "config": {"sasl.mechanism": "PLAIN", "sasl.jaas.config": f'{PLAIN} username="u" password="SECRET";'},
    },
    {"type": "custom", "sasl": "SECRET"},
)
CLUSTERS = (
    *({"authentication": one} for one in AUTHENTICATIONS),
    {
        "config": {
            "sasl.jaas.config": ["SECRET"],
            "ssl.keystore.password": {"a": "SECRET"},
            "sasl.jass": "password=SECRET",
        }
    },
    {"config": {"SECRET": 1}},
    {"tls": {"trustedCertificates": [{"secretName": "s", "certificate": "SECRET"}]}},
    {"tls": "SECRET"},
    {"SECRET": "SECRET"},
)


def resource(cluster):
    one = {"alias": "a", "bootstrapServers": "a:1", **cluster}
    mirror = {"sourceCluster": "a", "targetCluster": "b", "topicsPattern": "t", "sourceConnector": {}}
    clusters = [one, {"alias": "b", "bootstrapServers": "b:1"}]
    spec = {"version": "4.0.0", "connectCluster": "b", "clusters": clusters, "mirrors": [mirror]}
    return {
        "apiVersion": "kafka.strimzi.io/v1beta2",
        "kind": "KafkaMirrorMaker2",
        "metadata": {"name": "mm"},
        "spec": spec,
    }


@pytest.mark.parametrize("secret", SECRETS)
@pytest.mark.parametrize("cluster", CLUSTERS)
def test_a_secret_in_an_odd_place_of_a_resource_is_not_shown(tmp_path, cluster, secret):
    path = tmp_path / "m.yaml"
    path.write_text(yaml.safe_dump(resource(cluster)).replace("SECRET", secret))
    text = told(path)
    assert secret not in text
    assert "Summer" not in text
    assert "m.yaml" in text


LOGIN = {"authentication": {"type": "plain", "username": "u", "passwordSecret": {"secretName": "s", "password": "q"}}}


@pytest.mark.parametrize("secret", SECRETS)
@pytest.mark.parametrize(
    "part",
    [
        {"stringData": {"q": ["SECRET"]}},
        {"data": {"q": "SECRET"}},
        {"stringData": {"p": "SECRET"}},
        {"stringData": {"q": "SECRET"}},
        {"stringData": {"SECRET": "x"}},
        {"kind": "SECRET"},
        {"data": {"SECRET": "x"}},
    ],
)
def test_a_secret_in_an_odd_place_of_a_manifest_is_not_shown(tmp_path, part, secret):
    path = tmp_path / "m.yaml"
    manifest = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, **part}
    path.write_text("---\n".join(map(yaml.safe_dump, (resource(LOGIN), manifest))).replace("SECRET", secret))
    text = told(path)
    assert secret not in text
    assert "m.yaml" in text


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        ("A.sasl.jass.config = x", "A.sasl.jass.config (sasl.jaas.config?)"),
        ("A->B.topcis = x", "A->B.topcis (topics?)"),
        ("topcis = x", "topcis (topics?)"),
        ("replicationfactor = 3", "replicationfactor (replication.factor?)"),
        ("tasks.max1 = 3", "tasks.max1 (tasks.max?)"),
        ("C.security.protocol = SSL", "C.security.protocol"),
        ("us-east1b.security.protocol = SSL", "us-east1b.security.protocol"),
        ("A->X.topics = y", "A->X.topics"),
        ("schema.registry.url = x", "schema.registry.url"),
        ("A.consumer.new.feature.enable = true", "A.consumer.new.feature.enable"),
        ("A->B.tasks.max = 1_000", "'1_000' is not a whole number"),
        ("A->B.tasks.max = 5 min", "'5 min' is not a whole number"),
        ("A->B.refresh.topics.enabled = yes", "'yes' is neither true nor false"),
        ("A.security.protocol = SASL_TLS", "'SASL_TLS' is not possible"),
        (f"{SASL}SCRAM-SHA-1", "'SCRAM-SHA-1' is not possible"),
        ("replication.policy.class = my_company.polices:Ours", "no Python module my_company"),
        ("A.client.id = ${fiel:/etc/x:key}", "${fiel:/etc/x:key} names the config provider 'fiel'"),
        ("A.client.id = ${env:KAFKA_PW1}", "the environment has no variable KAFKA_PW1"),
        (f"{URL} = https://idp.example.com/realms/kafka/protocol/openid-connect/token", "/openid-connect/token"),
        (f"{URL} = https://h/oauth2/v2.0/token", "https://h/oauth2/v2.0/token"),
        ("Zq9Canary7 = x", "line 7"),
        ("password = x", "line 7"),
    ],
)
def test_a_slip_of_the_pen_is_named(write, line, shown):
    assert shown in told(write(*line.split("\n"), base=f"{BASE}{PROVIDERS}"))


def test_a_key_of_a_secret_that_is_not_there_is_told_with_those_that_are(tmp_path):
    path = tmp_path / "m.yaml"
    manifest = {"kind": "Secret", "metadata": {"name": "s"}, "stringData": {"password": "x", "Zq9Canary7": "y"}}
    path.write_text("---\n".join(map(yaml.safe_dump, (resource(LOGIN), manifest))))
    assert sparkmirror("check", path).stderr.endswith("the Secret s has no key 'q': it has password\n")


@pytest.mark.parametrize("text", ["topics", "A.topics", "sasl.jass.config", "config.providers.k8s.class", "clustrs"])
def test_texts_like_keys_are_told_as_such(text):
    assert is_like_key(text)


@pytest.mark.parametrize("text", ["color", "password", "my-secret-token", "MyPassword1", "correct.horse.battery", ""])
def test_texts_unlike_keys_are_not(text):
    assert not is_like_key(text)


def test_fields_choices_numbers_names_and_addresses_are_told_from_random_texts():
    assert all(map(is_like_field, ("bootstrapServers", "initial_state", "KafkaTopic", "colour", "k0", "tasks.max")))
    assert not any(map(is_like_field, ("hunter2", "correct-horse", "a b", "Zq9Canary7")))
    assert all(is_like_one_of(text, ("SASL_SSL",)) for text in ("SASL_SSL2", "sasl ssl", "kerberos", "", "${env:X}"))
    assert not any(is_like_one_of(text, ("SASL_SSL",)) for text in ("hunter2", "${env:X}Zq9Canary7", "x" * 100_000))
    assert all(map(is_like_number, ("1", "-1", "1_000", "1.5", "64MB", "ten", "10 min", "${env:X}", "5%")))
    assert not any(map(is_like_number, ("ten4", "1a2b", "7Canary7", "1" * 100)))
    assert all(map(is_like_name, ("us-east_1", "kafka-1.example.com:9092", "K8S_TOKEN", "Müller", "")))
    assert not any(map(is_like_name, ("Zq9Canary7", "72f988bf-86f1-41af-91ab-2d7cd011db47", "a1" * 1000)))
    assert not any(map(holds_odd_url, ("https://h:1/a/b", "kafka:9092", "https://h", "file:///q9z9")))
    assert all(map(holds_odd_url, ("https://h?x=1", "https://h/q9z9", "HTTPS://h/a#b", "a https://[/x")))
