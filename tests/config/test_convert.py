"""Any format as mm2.properties: the same flows, no secret in it, a comment for each origin."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

import pytest

from sparkmirror.config import Command, as_properties, load, open_command, open_files, settle
from sparkmirror.errors import ConfigError
from tests.config.test_strimzi import pem, secrets

__all__ = ["pem", "secrets"]

FILES = Path(__file__).parent / "files"
SAMPLES = sorted((Path(__file__).parent / "samples").glob("*.properties"))
TRIO = [FILES / f"connect-{one}.json" for one in ("source", "checkpoint", "heartbeat")]
EXAMPLES = [
    *([path] for path in SAMPLES),
    [FILES / "kafka-active-active.properties"],
    TRIO,
    [FILES / "connect-expanded.json"],
    [FILES / "strimzi-v1beta2.yaml"],
    [FILES / "strimzi-v1.yaml"],
    [FILES / "kafka-active-active.properties", FILES / "connect-expanded.json", FILES / "strimzi-v1.yaml"],
]
CLEAR = ("canary-77", "a-password", "PRIVATE KEY")


def bare(config):
    """Flows without what differs on purpose: the names of the places that they come from."""
    return [dataclasses.replace(flow, origins=(), provided=frozenset()) for flow in config.flows]


def supply(text, path, opened):
    """Does what the comments ask for: puts each value into the file that stands for the secrets."""
    wanted = {}
    flats = {f"{name}.": flat for one in opened for name, flat in one.flows.items()}
    for name, flat in (pair for one in opened for pair in one.flows.items()):
        flats[f"{name.source}."] = strip(flat, "source")
        flats[f"{name.target}."] = strip(flat, "target")
    for key in re.findall(r"^#   .*secrets\.properties: (\S+) =", text, flags=re.MULTILINE):
        prefix = next(prefix for prefix in sorted(flats, key=len, reverse=True) if key.startswith(prefix))
        wanted[key] = flats[prefix][key.removeprefix(prefix)].raw
    lines = (f"{key}={value}".replace("\\", "\\\\").replace("\n", "\\n") for key, value in wanted.items())
    path.write_text("\n".join(lines), encoding="utf-8")
    return len(wanted)


def strip(flat, side):
    return {key.removeprefix(f"{side}.cluster."): entry for key, entry in flat.items()}


@pytest.mark.parametrize("paths", EXAMPLES, ids=lambda paths: "+".join(path.stem for path in paths))
def test_the_result_gives_the_same_flows_and_holds_no_secret(tmp_path, secrets, paths):
    secrets("my-user-target", password="canary-7744\n")
    before = load(paths)
    opened = open_files(paths)
    text = as_properties(opened, "x", before.warnings, secrets_file=f"{tmp_path}/secrets.properties")
    assert not [secret for secret in CLEAR if secret in text]
    supply(text, tmp_path / "secrets.properties", opened)
    (tmp_path / "mm2.properties").write_text(text, encoding="latin-1")
    after = load([tmp_path / "mm2.properties"])
    assert sorted(map(repr, bare(after))) == sorted(map(repr, bare(before)))
    assert sorted(map(secret_values, after.flows)) == sorted(map(secret_values, before.flows))
    assert not [warning for warning in after.warnings if "stand" in warning]


def secret_values(flow):
    ends = (flow.source.consumer, flow.source.admin, flow.target.producer, flow.target.admin)
    passwords = [one.security.password or one.security.private_key for one in ends]
    return str(flow.name), *(one.reveal() if one else "" for one in passwords)


def test_the_command_of_the_first_mirror_maker_becomes_a_file(tmp_path):
    files = FILES / "mm1"
    opened = open_command([files / "consumer.properties"], files / "producer.properties", Command(include="a,b.*"))
    text = as_properties([opened], opened.file, opened.warnings, secrets_file=f"{tmp_path}/secrets.properties")
    assert supply(text, tmp_path / "secrets.properties", [opened]) == 1
    (tmp_path / "mm2.properties").write_text(text, encoding="latin-1")
    after = load([tmp_path / "mm2.properties"])
    assert bare(after) == bare(settle([opened], "x"))
    assert "canary" not in text
    assert "# command line: --include\nsource->target.topics = a,b.*" in text


def test_each_key_says_where_it_is_from_and_each_warning_stands_in_it():
    found = load(TRIO)
    text = as_properties(open_files(TRIO), "three files", found.warnings)
    assert text.startswith("# From three files, by sparkmirror convert.\n")
    assert f"{TRIO[0]}: mm2-east-west-source.config.replication.factor\neast->west.replication.factor = 3\n" in text
    for warning in found.warnings:
        assert warning in text


def test_a_pair_that_does_not_run_emits_no_heartbeats_in_the_result():
    text = as_properties(open_files([FILES / "connect-expanded.json"]), "x", ())
    assert "west->east.enabled = false" in text
    assert "west->east.emit.heartbeats.enabled = false" in text


def test_a_reference_that_the_source_had_is_kept():
    text = as_properties(open_files([FILES / "connect-expanded.json"]), "x", ())
    assert "${file:/opt/kafka/secrets.properties:key}" in text
    assert "config.providers.file.class = org.apache.kafka.common.config.provider.FileConfigProvider" in text


@pytest.mark.parametrize(
    ("password", "stays"),
    [('"${env:PW}"', True), ("${env:PW}", True), ("'clear' x=\"${env:PW}\"", False), ('= "${env:PW}"'[2:], True)],
)
def test_a_login_keeps_its_reference_unless_a_secret_stands_beside_it(write, password, stays):
    module = "org.apache.kafka.common.security.plain.PlainLoginModule required"
    providers = ("config.providers = env", "config.providers.env.class = EnvVarConfigProvider")
    path = write(*providers, f"A.sasl.jaas.config = {module} username=u password={password};")
    text = as_properties(open_files([path]), "x", ())
    assert ("${env:PW}" in text) is stays
    assert "clear" not in text


@pytest.mark.parametrize("option", ["oauth.access.token", "oauth.client.secret", "clientSecret", "oauth.refresh.token"])
def test_a_token_in_a_login_is_not_written_though_a_reference_stands_beside_it(write, option):
    module = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required"
    providers = ("config.providers = env", "config.providers.env.class = EnvVarConfigProvider")
    path = write(*providers, f'A.sasl.jaas.config = {module} clientId="${{env:ID}}" {option}="canary-7747";')
    text = as_properties(open_files([path]), "x", ())
    assert "canary-7747" not in text
    assert "A.sasl.jaas.config = ${sparkmirror-file:" in text or "A.sasl.jaas.config = ${file:" in text


def test_a_provider_with_limits_is_not_used_for_what_it_may_not_hold(write):
    lines = (
        "config.providers = file",
        "config.providers.file.class = FileConfigProvider",
        "config.providers.file.param.allowed.paths = /etc/mine",
        "A.ssl.key.password = canary-7746",
        "B.ssl.key.password = ${file:/etc/mine/s.properties:k}",
    )
    text = as_properties(open_files([write(*lines)]), "x", ())
    assert "config.providers = file, sparkmirror-file" in text
    assert "A.ssl.key.password = ${sparkmirror-file:/etc/sparkmirror/secrets.properties:A.ssl.key.password}" in text
    assert "B.ssl.key.password = ${file:/etc/mine/s.properties:k}" in text


def test_a_name_of_a_cluster_that_sounds_like_a_secret_hides_nothing_else(write):
    base = "clusters = secret, B\nsecret.bootstrap.servers = a:1\nB.bootstrap.servers = b:1\nsecret->B.enabled = true\n"
    assert "secret.bootstrap.servers = a:1" in as_properties(open_files([write(base=base)]), "x", ())


def test_a_flow_that_one_file_runs_is_not_switched_off_by_another_that_knows_its_clusters(write):
    base = "clusters = A, B\nA.bootstrap.servers = a:1\nB.bootstrap.servers = b:1\n"
    paths = [write(base=f"{base}{flow}.enabled = true\n", name=f"{flow[0]}.properties") for flow in ("A->B", "B->A")]
    text = as_properties(open_files(paths), "x", ())
    assert re.findall(r"^(.*\.enabled = .*)$", text, flags=re.MULTILINE) == [
        "A->B.enabled = true",
        "B->A.enabled = true",
    ]


def test_files_that_declare_other_providers_under_one_name_are_refused(write):
    def file(name, base, kind):
        lines = ("config.providers = p", f"config.providers.p.class = {kind}")
        return write(*lines, base=base, name=name)

    one = "clusters = A, B\nA.bootstrap.servers = a:1\nB.bootstrap.servers = b:1\nA->B.enabled = true\n"
    two = one.replace("A", "C").replace("a:1", "c:1")
    paths = [file("1.properties", one, "EnvVarConfigProvider"), file("2.properties", two, "FileConfigProvider")]
    with pytest.raises(ConfigError, match="convert the files one by one"):
        as_properties(open_files(paths), "x", ())
