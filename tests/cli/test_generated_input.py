"""Files and command lines that a grammar makes: each ends with 0 or 2, in words, and names what is wrong.

They run in this process through the same entry point as ``sparkmirror check``; ``plan`` asks brokers that are false and
honest, so that it gets as far as a file lets it. Some hundreds of examples run with the fast tests, from a fixed seed;
``SPARKMIRROR_EXAMPLES=10000`` runs as many, from another seed each time.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from sparkmirror.config.keys import CLASSES, FILE, FLOW, ROLES, SECURITY, WORKER
from tests.invoking import sparkmirror
from tests.kafka.hostile_broker import HostileBroker, Model

EXAMPLES = int(os.environ.get("SPARKMIRROR_EXAMPLES", "0"))
SECRET = "canary0secret"
generated = settings(
    max_examples=EXAMPLES or 60,
    derandomize=not EXAMPLES,
    database=None,
    phases=[Phase.generate],  # making a failing example smaller may take minutes
    deadline=None if not EXAMPLES else 5000,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow, HealthCheck.data_too_large],
)

Run = Callable[..., str]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Runs a command on files with these contents and gives what it said."""
    monkeypatch.setenv("COLUMNS", "300")

    def run(files: dict[str, bytes], *words: str, command: str = "check", codes: tuple[int, ...] = (0, 2)) -> str:
        paths = [tmp_path / name for name in files]
        for path, content in zip(paths, files.values(), strict=True):
            path.write_bytes(content)
        ended = sparkmirror(command, *paths, *words)
        said = ended.stdout + ended.stderr
        assert ended.returncode in codes, said
        assert "Traceback" not in said
        assert SECRET not in said
        if ended.returncode == 2:
            assert re.search(r"^(sparkmirror: .+: .+|Error: .+|│ .+)", ended.stderr, re.MULTILINE), said
            assert len(ended.stderr) < 20_000
        return said

    return run


ALIASES = st.sampled_from(["A", "B", "C", "eu", "eu.west", "ä", "a b", "x" * 101, "", "A->B", "../..", "\0"])
FLOWS = st.sampled_from(["A->B", "B->A", "A->A", "A->X", "A->", "->", "A->B->C"])
CLIENT_KEYS = sorted({*SECURITY, *(name for table in ROLES.values() for name in table), "bootstrap.servers"})
FLOW_KEYS = sorted({*FLOW, *FILE, *WORKER, *CLASSES})
SIGNS = st.text(st.characters(codec="utf-8"), max_size=12)
NUMBERS = st.one_of(
    st.integers(-(2**70), 2**70).map(str), st.floats().map(str), st.sampled_from(["1_000", "0x1", "１", "9" * 5000])
)
EXPRESSIONS = st.one_of(
    st.text(st.sampled_from(list(r"ab.*+?()[]{}|\^$-,&1QEpdkux<>=!:im")), max_size=25),
    st.sampled_from(
        ["orders.*", "(" * 200, "a{99999999999}", r"\p{Lower}", r"\Q", "[a-", "(?i)a", "(?<n>a)\\k<n>", "[[a]"]
    ),
)
ADDRESSES = st.sampled_from(
    [
        "a:1",
        "a:1,b:2",
        "a",
        ":",
        "a:99999999",
        "[::1]:1",
        "[::1",
        "a:1:2",
        f"u:{SECRET}@h:1",
        "http://h:1",
        "é:1",
        "",
        ",",
    ]
)
PATHS = st.sampled_from(
    ["/dev/zero", "/dev/null", "/", "/nowhere", "\0", "~", "", "x" * 5000, "/etc/hostname", "\udcff"]
)
REFERENCES = st.builds(
    "${{{}:{}:{}}}".format,
    st.sampled_from(["file", "env", "dir", "vault", "", "strimzisecrets"]),
    PATHS,
    st.sampled_from(["k", "", "a b", "PATH", "*", "../x"]),
)
JAAS = st.builds(
    "{} {} {}{}".format,
    st.sampled_from(
        [
            "org.apache.kafka.common.security.plain.PlainLoginModule",
            "org.apache.kafka.common.security.scram.ScramLoginModule",
            "com.sun.security.auth.module.Krb5LoginModule",
            "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule",
            "X",
        ]
    ),
    st.sampled_from(["required", "REQUIRED", "nothing", ""]),
    st.sampled_from(
        [
            f'username="u" password="{SECRET}"',
            f"password={SECRET}",
            f'password="{SECRET}',
            'keyTab="/dev/zero" useKeyTab=true',
        ]
    ),
    st.sampled_from([";", "", ";;"]),
)
PEM = st.sampled_from(
    [
        f"-----BEGIN PRIVATE KEY-----\n{SECRET}\n{SECRET}+/abc\n-----END PRIVATE KEY-----",
        f"-----BEGIN PRIVATE KEY-----\n{SECRET}",
        f"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n-----BEGIN RSA PRIVATE KEY-----{SECRET}",
    ]
)
WORDS = st.sampled_from(
    [
        "true",
        "false",
        "yes",
        "SSL",
        "SASL_SSL",
        "SASL_PLAINTEXT",
        "PLAINTEXT",
        "PLAIN",
        "SCRAM-SHA-512",
        "OAUTHBEARER",
        "GSSAPI",
        "PEM",
        "JKS",
        "PKCS12",
        "gzip",
        "zstd",
        "all",
        "none",
        "latest",
        "earliest",
        "timestamp:2026-99-99",
        "IdentityReplicationPolicy",
        "DefaultReplicationPolicy",
        "os:path",
        "no.such:Class",
        "a:b:c",
        "file, env, dir",
        f"https://u:{SECRET}@h/t",
        "https://h/t",
        "file:///dev/zero",
        "orders:0:1",
        "orders:latest, x",
        "continue",
        "stop",
    ]
)
VALUES = st.one_of(WORDS, NUMBERS, EXPRESSIONS, ADDRESSES, PATHS, REFERENCES, JAAS, PEM, SIGNS)
KEYS = st.one_of(
    st.sampled_from(FLOW_KEYS),
    st.builds("{}.{}".format, ALIASES, st.sampled_from(CLIENT_KEYS)),
    st.builds("{}.{}.{}".format, ALIASES, st.sampled_from(list(ROLES)), st.sampled_from(CLIENT_KEYS)),
    st.builds("{}.{}".format, FLOWS, st.sampled_from([*FLOW_KEYS, *(f"source.consumer.{key}" for key in CLIENT_KEYS)])),
    st.builds(
        "config.providers.{}.{}".format,
        st.sampled_from(["file", "env", "dir"]),
        st.sampled_from(["class", "param.allowed.paths"]),
    ),
    SIGNS,
)
START = "clusters = A, B\nA.bootstrap.servers = a:1\nB.bootstrap.servers = b:1\nA->B.enabled = true\n"
PROVIDERS = (
    "config.providers = file, env, dir\n"
    "config.providers.file.class = FileConfigProvider\nconfig.providers.env.class = EnvVarConfigProvider\n"
    "config.providers.dir.class = DirectoryConfigProvider\n"
)


def escaped(text: str) -> str:
    """A text as properties hold it, or as people paste it, with its line ends."""
    return text.replace("\\", "\\\\") if "\n" not in text else text


@st.composite
def properties(draw: st.DrawFn) -> bytes:
    """A file that works, with lines that may not."""
    lines = draw(st.lists(st.tuples(KEYS, st.sampled_from([" = ", "=", ":", " ", ""]), VALUES), min_size=1, max_size=6))
    text = draw(st.sampled_from([START, START, START + PROVIDERS, ""])) + "\n".join(
        f"{escaped(key)}{sign}{escaped(value)}" for key, sign, value in lines
    )
    return text.encode(draw(st.sampled_from(["utf-8", "utf-8", "latin-1", "utf-16"])), errors="replace")


CONFIGS = st.dictionaries(
    st.one_of(st.sampled_from(FLOW_KEYS), st.sampled_from([f"source.cluster.{key}" for key in CLIENT_KEYS]), SIGNS),
    st.one_of(VALUES, st.integers(), st.booleans(), st.none(), st.floats(), st.lists(st.just("x"), max_size=1)),
    max_size=5,
)
CONNECTOR = {
    "connector.class": "org.apache.kafka.connect.mirror.MirrorSourceConnector",
    "source.cluster.alias": "A",
    "target.cluster.alias": "B",
    "source.cluster.bootstrap.servers": "a:1",
    "target.cluster.bootstrap.servers": "b:1",
}


def connector(config: dict[str, Any], more: dict[str, Any]) -> dict[str, Any]:
    return {"name": "c", "config": CONNECTOR | config} | more


ANYTHING = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), SIGNS),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(SIGNS, inner, max_size=3)),
    max_leaves=8,
)
CONNECTORS = st.builds(
    connector,
    CONFIGS,
    st.dictionaries(
        st.sampled_from(["name", "config", "initial_state", "tasks", "type", "x"]),
        st.one_of(ANYTHING, VALUES),
        max_size=2,
    ),
)
DOCUMENTS = st.one_of(
    CONNECTORS,
    CONNECTORS,
    st.lists(CONNECTORS, max_size=2),
    ANYTHING,
    st.builds(lambda one: {"c": {"info": one, "status": {}}}, CONNECTORS),
)


def resource(version: str, source: dict[str, Any], config: dict[str, Any], mirror: dict[str, Any]) -> dict[str, Any]:
    clusters = {"alias": "A", "bootstrapServers": "a:1"} | source, {"alias": "B", "bootstrapServers": "b:1"}
    section = {"sourceConnector": {"config": config}} | mirror
    spec: dict[str, Any] = {"target": clusters[1], "mirrors": [section | {"source": clusters[0]}]}
    if version.endswith("v1beta2"):
        names = {"sourceCluster": "A", "targetCluster": "B"}
        spec = {"clusters": [*clusters], "connectCluster": "B", "mirrors": [names | section]}
    return {"apiVersion": version, "kind": "KafkaMirrorMaker2", "metadata": {"name": "m"}, "spec": spec}


AUTHENTICATION = st.fixed_dictionaries(
    {"type": st.sampled_from(["plain", "scram-sha-512", "tls", "oauth", "custom", "x"])},
    optional={
        "username": VALUES,
        "passwordSecret": st.fixed_dictionaries(
            {},
            optional={"secretName": st.sampled_from(["s", "../x", ""]), "password": st.sampled_from(["p", "*", "/"])},
        ),
        "certificateAndKey": st.one_of(ANYTHING, st.just({"secretName": "s", "certificate": "p", "key": "p"})),
        "tokenEndpointUri": VALUES,
        "clientId": VALUES,
        "disableTlsHostnameVerification": ANYTHING,
    },
)
RESOURCES = st.builds(
    resource,
    st.sampled_from(["kafka.strimzi.io/v1", "kafka.strimzi.io/v1beta2", "kafka.strimzi.io/v1", "v9"]),
    st.fixed_dictionaries(
        {},
        optional={"authentication": AUTHENTICATION, "tls": ANYTHING, "bootstrapServers": ADDRESSES, "alias": ALIASES},
    ),
    CONFIGS,
    st.dictionaries(
        st.sampled_from(["topicsPattern", "groupsPattern", "checkpointConnector", "sourceConnector", "x"]),
        st.one_of(VALUES, ANYTHING),
        max_size=2,
    ),
)
SECRETS = st.builds(
    lambda kind, part, values: {"kind": kind, "metadata": {"name": "s"}, part: values},
    st.sampled_from(["Secret", "ConfigMap", "List", "x"]),
    st.sampled_from(["data", "stringData", "items"]),
    st.one_of(st.just({"p": SECRET}), st.just({"p": "Y2FuYXJ5MHNlY3JldA=="}), ANYTHING),
)
SPOILED = st.sampled_from(
    [
        "!mark x",
        "*mark",
        "&mark [",
        "2024-13-45",
        "\x01",
        "\t",
        "- ",
        "!!int x",
        "? [a]",
        "{",
        "%",
        "@",
        "`",
        "=",
        "<<: 1",
        '"\\ud800"',
    ]
)


def spoiled(text: str, at: int, mark: str) -> str:
    """A text with something put into it."""
    at %= len(text) + 1
    return text[:at] + mark + text[at:]


@generated
@given(content=properties())
def test_properties_of_any_kind_end_with_a_reason(run: Run, content):
    run({"mm2.properties": content})
    run({"mm2.properties": content}, command="convert")


@generated
@given(document=DOCUMENTS, at=st.integers(0, 1000), mark=st.one_of(st.just(""), st.just(""), SIGNS, SPOILED))
def test_json_of_any_kind_ends_with_a_reason(run: Run, document, at, mark):
    content = spoiled(json.dumps(document), at, mark).encode(errors="replace")
    run({"c.json": content})
    run({"c.json": content}, command="convert")


@generated
@given(
    document=RESOURCES,
    secret=SECRETS,
    at=st.integers(0, 1000),
    mark=st.one_of(st.just(""), st.just(""), SIGNS, SPOILED),
)
def test_yaml_of_any_kind_ends_with_a_reason(run: Run, document, secret, at, mark):
    text = yaml.safe_dump_all([secret, document], allow_unicode=True)
    content = spoiled(text, at, mark).encode(errors="replace")
    run({"m.yaml": content})
    run({"m.yaml": content}, command="convert")


@pytest.fixture(scope="module")
def brokers() -> Iterator[tuple[HostileBroker, HostileBroker]]:
    """Two clusters that are honest, so that a plan gets as far as its file lets it."""
    both = HostileBroker(Model(cluster_id="a")), HostileBroker(Model(cluster_id="b"))
    yield both
    for broker in both:
        broker.close()


PLANNED = st.one_of(
    st.sampled_from(FLOW_KEYS),
    st.builds("A->B.{}".format, st.sampled_from(FLOW_KEYS)),
    st.builds(
        "{}.{}{}".format,
        st.sampled_from(["A", "B"]),
        st.sampled_from(["", *(f"{role}." for role in ROLES)]),
        st.sampled_from([key for key in CLIENT_KEYS if key != "bootstrap.servers"]),
    ),
)


LIKELY = st.sampled_from(
    ["true", "false", "0", "1", "3", "1000", "-1", ".*", "t, u.*", "g", "earliest", "SSL", "SASL_PLAINTEXT", "all"]
)


def served(text: str, brokers: tuple[HostileBroker, HostileBroker]) -> bytes:
    """A file with these lines, and a flow between the brokers: of what stands twice the last one counts."""
    addresses = "".join(
        f"{alias}.bootstrap.servers = {one.address}\n" for alias, one in zip("AB", brokers, strict=True)
    )
    return f"{text}{addresses}clusters = A, B\nA->B.enabled = true\n".encode(errors="replace")


def test_the_plan_of_a_file_that_works_comes_to_its_end(run: Run, brokers):
    said = run({"mm2.properties": served("", brokers)}, command="plan", codes=(0,))
    assert "+ B: topic A.t  partitions: 2" in said
    assert "+ B: ACL of topic A.t" in said


@settings(generated, deadline=None)  # a connection that is closed at once is tried for 5 s, and each cluster once more
@given(lines=st.lists(st.tuples(PLANNED, st.one_of(LIKELY, LIKELY, VALUES)), min_size=1, max_size=3))
def test_a_plan_of_any_kind_ends_with_what_would_be_done_or_a_reason(run: Run, brokers, lines):
    """As all that asks clusters, a plan may fail as a whole: with 1, and in words."""
    text = "".join(f"{escaped(key)} = {escaped(value)}\n" for key, value in lines)
    said = run({"mm2.properties": served(text, brokers)}, command="plan", codes=(0, 1, 2))
    assert said


LINES = st.lists(
    st.one_of(
        st.sampled_from(
            ["--json", "--all", "--flow", "--clusters", "--connect=x", "--", "-x", "A->B", "A", "B", "", "--flow="]
        ),
        PATHS.filter(lambda path: "\0" not in path),
        SIGNS.filter(lambda text: "\0" not in text),
    ),
    max_size=5,
)


@generated
@given(words=LINES)
def test_a_command_line_of_any_kind_ends_with_a_reason(run: Run, words):
    said = run({"mm2.properties": START.encode()}, *(word for word in words if word != "--connect"))
    assert said
