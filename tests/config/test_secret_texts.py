"""Secrets that stand where nobody expects them: in no message, no warning, no effective setting and no conversion."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from sparkmirror.config import as_properties, load, open_files
from sparkmirror.config.secret import holds_secret, is_key, is_key_of_secret
from sparkmirror.errors import ConfigError
from tests.config.conftest import BASE

BODY = ("MIIEvcanary1canary1canary1abcdefghijklmnopqrstuvwxyzABCDEF012345", "Qcanary2+/abc", "canary3end", "canary4==")
PEM = "\n".join(("-----BEGIN PRIVATE KEY-----", *BODY, "-----END PRIVATE KEY-----"))
OAUTH = "sasl.oauthbearer.token.endpoint.url"


def said(path: Path) -> str:
    """All that ``check`` and ``convert`` would show of a file."""
    opened = open_files([path])
    warnings = [warning for one in opened for warning in one.warnings]
    try:
        warnings += load([path]).warnings
    except ConfigError as refused:
        warnings.append(str(refused))
    return as_properties(opened, str(path), warnings)


@pytest.mark.parametrize("prefix", ["A", "unused"])
def test_lines_of_a_key_that_is_pasted_into_properties_are_named_by_their_numbers(write, prefix):
    path = write(f"{prefix}.security.protocol = SSL", f"{prefix}.ssl.keystore.key = {PEM}", "B.check.crcs = true")
    text = said(path)
    assert "canary" not in text
    assert all(f"line {number}" in text for number in range(7, 12))


def test_a_key_without_its_first_line_is_not_shown(write):
    text = said(write(*BODY[:2]))
    assert "canary" not in text
    assert "line 5, line 6" in text


def test_keys_after_a_pasted_key_count_again(write):
    path = write(f"unused.ssl.keystore.key = {PEM}", "tasks.max = 7")
    assert load([path]).flows[0].tasks_max == 7


@pytest.mark.parametrize("key", ["ssl.keystore.certificate.chain", "ssl.truststore.certificates"])
def test_a_private_key_among_certificates_is_not_converted(write, key):
    value = PEM.replace("\n", "\\n\\\n")
    text = said(write("A.security.protocol = SSL", f"A.{key} = {value}"))
    assert "canary" not in text
    assert f"A.{key} = ${{file:" in text


@pytest.mark.parametrize(
    "url", ["https://u:canary@host/token", "https://canary@host", "https://u:canary@${env:HOST}/t"]
)
def test_a_user_in_an_address_is_neither_shown_nor_converted(write, url):
    path = write("A.security.protocol=SASL_SSL", "A.sasl.mechanism=OAUTHBEARER", f"A.{OAUTH} = {url}")
    assert "canary" not in said(path)
    path = write(base=BASE.replace("b.example.com:9092", "user:canary@b.example.com:9092"))
    assert "canary" not in said(path)


def test_a_connector_with_a_line_of_a_key_among_its_keys_does_not_show_it(tmp_path):
    config = {
        "connector.class": "MirrorSourceConnector",
        "source.cluster.alias": "A",
        "target.cluster.alias": "B",
        "source.cluster.bootstrap.servers": "a:1",
        "target.cluster.bootstrap.servers": "b:1",
        BODY[0]: "canary5",
        BODY[1]: "canary6",
    }
    path = tmp_path / "c.json"
    path.write_text(json.dumps({"name": "c", "config": config}))
    text = said(path)
    assert "canary" not in text
    assert "unknown keys, without effect: c.config.[hidden]" in text


def test_a_login_behind_a_wrong_key_is_neither_shown_nor_converted(write):
    path = write('A->B.tasks.max = org.apache.kafka.common.security.plain.PlainLoginModule required password="canary";')
    assert "canary" not in said(path)


MODULE = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required"


@pytest.mark.parametrize(
    "line",
    [
        f'A.sasl.jass.config = {MODULE} oauth.access.token="canary";',
        f'A.sasl.jass.config = {MODULE} oauth.client.assertion="canary";',
        f'A.sasl.jass.config = {MODULE} username:"u" password:"canary";',
        f'A.sasl.jass.config = {MODULE} username="u" odd="canary";',
        f'A.sasl.jass.config = {MODULE} username="${{env:USER}}" odd="canary";',
        f'A.sasl.jaas.config = {MODULE} username="${{env:USER}}" password:"canary";',
        'A->B.tasks.max = oauth.access.token="canary"',
        'A->B.tasks.max = {"password": "canary"}',
        "A->B.tasks.max = password: canary",
        "A->B.tasks.max = passphrase=canary",
        "A.ssl.keystore.pasword = canary",
        "A.sasl.pwd = canary",
        "A.basic.auth.user.info = user:canary",
        "A.sasl.mechanism = PLAIN canary",
        "A.sasl.mechanism = ${env:MECHANISM} canary",
    ],
)
def test_a_login_with_a_slip_is_neither_shown_nor_converted(write, line, monkeypatch):
    monkeypatch.setenv("USER", "u")
    monkeypatch.setenv("MECHANISM", "PLAIN")
    providers = ("config.providers = env", "config.providers.env.class = EnvVarConfigProvider")
    text = said(write(*providers, "A.security.protocol = SASL_SSL", line))
    assert "canary" not in text
    assert line.partition(" =")[0].partition(".")[2] in text


def test_a_login_of_references_is_converted_as_it_stands(write):
    providers = ("config.providers = file", "config.providers.file.class = FileConfigProvider")
    login = f'{MODULE} username="${{file:/etc/secret:user}}" password="${{file:/etc/password: token}}";'
    text = said(
        write(*providers, "A.security.protocol = SASL_SSL", "A.sasl.mechanism = PLAIN", f"A.sasl.jaas.config = {login}")
    )
    assert f"A.sasl.jaas.config = {login}" in text


@pytest.mark.parametrize("key", ["replication.policy.class", "A->B.topic.filter.class"])
@pytest.mark.parametrize("value", ["canary", "a canary", "x.canary", "my canary:Class", "canary:", ":canary"])
def test_what_is_no_class_is_not_told_as_one(write, key, value):
    with pytest.raises(ConfigError, match=r"\[hidden\] is ") as caught:
        load([write(f"{key} = {value}")])
    assert "canary" not in str(caught.value)


@pytest.mark.parametrize("value", ["com.example.KafkaPolicy", "com.example.Kafka$Policy", "${env:POLICY}"])
def test_a_class_that_is_not_known_is_named_as_the_file_has_it(write, value, monkeypatch):
    monkeypatch.setenv("POLICY", "com.example.KafkaPolicy")
    providers = ("config.providers = env", "config.providers.env.class = EnvVarConfigProvider")
    with pytest.raises(ConfigError) as caught:
        load([write(*providers, f"A->B.topic.filter.class = {value}")])
    assert f"'{value}' is a Java class" in str(caught.value)


@pytest.mark.parametrize("key", ["clusters", "A->B.topics", "us-east_1->b.x.override.fetch.max.bytes"])
def test_keys_of_kafka_are_keys(key):
    assert is_key(key)


@pytest.mark.parametrize(
    "key",
    [
        "password",
        "p",
        "pw",
        "ca.crt",
        "ca2.crt",
        "*.crt",
        "user-1.key",
        "clientSecret",
        "TLS_KEY",
        "ca",
        "*.pem",
        "mirror-user",
        "bundle.p12",
        "my-ca",
    ],
)
def test_usual_keys_of_secrets_are_keys(key):
    assert is_key_of_secret(key)


@pytest.mark.parametrize("text", [*BODY[:2], "", "a b", "x" * 41, "Ä"])
def test_other_texts_are_none(text):
    assert not is_key(text)


@pytest.mark.parametrize(
    "text",
    [
        "a:9092, b:9092",
        "kafka/host@REALM",
        "orders:0:1500",
        "https://h/p?a=b@c",
        "${file:/p:k}",
        "secret:9092",
        "token:0:5, password:0:7",
        "${file:/etc/token:key}",
        "${file:/run/secret: key}",
        "password=${file:/p:k}",
        "my.token:Policy",
    ],
)
def test_usual_values_hold_no_secret(text):
    assert not holds_secret(text)
