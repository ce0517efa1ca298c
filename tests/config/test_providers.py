"""Config providers: file, environment, directory."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparkmirror.config.entries import Entry
from sparkmirror.config.providers import Provider, Providers, replace_references
from sparkmirror.errors import ConfigError

PACKAGE = "org.apache.kafka.common.config.provider."
PROVIDERS = (
    "config.providers = file, env, dir",
    f"config.providers.file.class = {PACKAGE}FileConfigProvider",
    f"config.providers.env.class = {PACKAGE}EnvVarConfigProvider",
    f"config.providers.dir.class = {PACKAGE}DirectoryConfigProvider",
)
CANARY = "canary-9d2e"


@pytest.fixture
def secrets(tmp_path, monkeypatch):
    (tmp_path / "s.properties").write_text(f"topic = from.file\npassword = {CANARY}\n", encoding="utf-8")
    (tmp_path / "mounted").mkdir()
    (tmp_path / "mounted" / "topic").write_text("from.directory\n", encoding="utf-8")
    (tmp_path / "mounted" / "password").write_text(CANARY, encoding="utf-8")
    monkeypatch.setenv("SPARKMIRROR_TEST_TOPIC", "from.environment")
    monkeypatch.setenv("SPARKMIRROR_TEST_PASSWORD", CANARY)
    return tmp_path


@pytest.mark.parametrize(
    ("reference", "value"),
    [
        ("${{file:{0}/s.properties:topic}}", "from.file"),
        ("${{env::SPARKMIRROR_TEST_TOPIC}}", "from.environment"),
        ("${{env:SPARKMIRROR_TEST_TOPIC}}", "from.environment"),
        ("${{dir:{0}/mounted:topic}}", "from.directory"),
        ("x-${{env:SPARKMIRROR_TEST_TOPIC}}-${{dir:{0}/mounted:topic}}", "x-from.environment-from.directory"),
    ],
)
def test_a_reference_is_replaced(secrets, load_flow, reference, value):
    assert load_flow(*PROVIDERS, f"topics = {reference.format(secrets)}").topics == (value,)


def test_simple_class_names_do_too(secrets, load_flow):
    lines = ("config.providers = e", "config.providers.e.class = EnvVarConfigProvider")
    assert load_flow(*lines, "topics = ${e:SPARKMIRROR_TEST_TOPIC}").topics == ("from.environment",)


def test_a_result_is_not_resolved_again(secrets, load_flow, monkeypatch):
    monkeypatch.setenv("SPARKMIRROR_TEST_TOPIC", "${env:HOME}")
    with pytest.raises(ConfigError, match="cannot be used"):
        load_flow(*PROVIDERS, "topics = ${env:SPARKMIRROR_TEST_TOPIC}")


@pytest.mark.parametrize(
    ("reference", "reason"),
    [
        ("${vault:secret/x:topic}", "'vault', which is not declared"),
        ("${file:/nowhere/s.properties:topic}", "no such file"),
        ("${env:SPARKMIRROR_TEST_NOTHING}", "the environment has no variable SPARKMIRROR_TEST_NOTHING"),
        ("${dir:/nowhere:topic}", "no such file"),
        ("${dir:/etc:../etc/hostname}", "is not the name of a file"),
        ("${dir:/etc:}", "is not the name of a file"),
    ],
)
def test_a_reference_that_leads_nowhere_is_refused(load_flow, reference, reason):
    with pytest.raises(ConfigError, match=reason) as caught:
        load_flow(*PROVIDERS, f"topics = {reference}")
    assert caught.value.key == "topics"


def test_a_missing_key_of_a_file_is_named(secrets, load_flow):
    with pytest.raises(ConfigError, match="has no key 'nothing'") as caught:
        load_flow(*PROVIDERS, f"topics = ${{file:{secrets}/s.properties:nothing}}")
    assert CANARY not in str(caught.value)


def test_a_path_outside_of_the_allowed_ones_is_refused(secrets, load_flow):
    allowed = f"config.providers.file.param.allowed.paths = {secrets}/mounted"
    with pytest.raises(ConfigError, match=r"allowed\.paths does not hold"):
        load_flow(*PROVIDERS, allowed, f"topics = ${{file:{secrets}/s.properties:topic}}")


def test_a_path_inside_of_the_allowed_ones_is_read(secrets, load_flow):
    allowed = f"config.providers.dir.param.allowed.paths = /x, {secrets}/mounted"
    assert load_flow(*PROVIDERS, allowed, f"topics = ${{dir:{secrets}/mounted:topic}}").topics == ("from.directory",)


def test_no_allowed_paths_are_no_limit(secrets, load_flow):
    line = "config.providers.dir.param.allowed.paths ="
    assert load_flow(*PROVIDERS, line, f"topics = ${{dir:{secrets}/mounted:topic}}").topics == ("from.directory",)


@pytest.mark.parametrize("path", ["{0}/mounted/../s.properties", "{0}/mounted2/s.properties", "mounted/s.properties"])
def test_a_path_that_leads_out_of_the_allowed_ones_is_refused(secrets, load_flow, path):
    allowed = f"config.providers.file.param.allowed.paths = {secrets}/mounted/"
    with pytest.raises(ConfigError, match=r"allowed\.paths does not hold"):
        load_flow(*PROVIDERS, allowed, f"topics = ${{file:{path.format(secrets)}:topic}}")


def test_a_link_in_an_allowed_path_is_followed_as_in_kafka(secrets, load_flow):
    (secrets / "mounted" / "s").symlink_to(secrets / "s.properties")
    allowed = f"config.providers.file.param.allowed.paths = {secrets}/mounted"
    assert load_flow(*PROVIDERS, allowed, f"topics = ${{file:{secrets}/mounted/s:topic}}").topics == ("from.file",)


def test_a_variable_that_the_list_does_not_allow_is_refused(secrets, load_flow):
    allowed = "config.providers.env.param.allowlist.pattern = OTHER_.*"
    with pytest.raises(ConfigError, match=r"allowlist\.pattern does not allow"):
        load_flow(*PROVIDERS, allowed, "topics = ${env:SPARKMIRROR_TEST_TOPIC}")


def test_a_pattern_that_is_no_expression_is_refused(load_flow):
    with pytest.raises(ConfigError, match=r"allowlist\.pattern"):
        load_flow(*PROVIDERS, "config.providers.env.param.allowlist.pattern = (")


@pytest.mark.parametrize("name", ["com.example.VaultConfigProvider", "VaultConfigProvider"])
def test_an_unknown_provider_class_is_refused(load_flow, name):
    with pytest.raises(ConfigError, match=r"not known here.*possible: FileConfigProvider"):
        load_flow("config.providers = v", f"config.providers.v.class = {name}")


def test_a_provider_without_a_class_is_refused(load_flow):
    with pytest.raises(ConfigError, match=r"set config\.providers\.v\.class"):
        load_flow("config.providers = v")


def test_secrets_of_flows_that_are_not_asked_for_need_not_be_here(load_lines):
    lines = (*PROVIDERS, "B->A.enabled = true", "B->A.topics = ${env:SPARKMIRROR_TEST_NOTHING}")
    (flow,) = load_lines(*lines, clusters=["B"]).flows
    assert str(flow.name) == "A->B"


@pytest.mark.parametrize(
    "line",
    [
        "tasks.max = {}",
        "topics = ({}",
        "replication.policy.separator = {}!",
        "replication.policy.class = {}",
        "A.bootstrap.servers = {}",
        "A.consumer.isolation.level = {}",
        "A.security.protocol = {}",
        "refresh.topics.enabled = {}",
        "clusters = {}!",
        "transforms = {}",
        "A->B.source.cluster.alias = {}",
    ],
)
def test_an_error_does_not_show_what_a_provider_gave(secrets, load_flow, line):
    with pytest.raises(ConfigError) as caught:
        load_flow(*PROVIDERS, line.format("${env:SPARKMIRROR_TEST_PASSWORD}"))
    assert CANARY not in str(caught.value) + repr(caught.value)


_AS_KAFKA = re.compile(r"\$\{([^}]*?):(?:([^}]*?):)?([^}]*?)\}")


@given(st.text(alphabet="${}:ab\n", max_size=24))
def test_references_are_those_of_kafkas_expression(text: str):
    def replace(found: re.Match[str]) -> str:
        return f"<{found[1]}|{found[2]}|{found[3]}>"

    assert replace_references(text, replace) == _AS_KAFKA.sub(replace, text)


def test_a_long_value_is_refused_by_its_key_unless_it_is_one_of_certificates(tmp_path):
    providers = Providers(by_name={"file": Provider(name="file", lookup=lambda _path, _key: "x" * 70_000)})

    def entry(key: str, raw: str) -> Entry:
        return Entry(file="f", key=key, raw=raw)

    for raw in ("y" * 65_537, "${file:/p:k}"):
        with pytest.raises(ConfigError, match=r"f: A->B\.topics: has a value of \d+ characters, and 65536 are read"):
            providers.resolve(entry("A->B.topics", raw))
        for key in ("ssl.truststore.certificates", "A.ssl.keystore.certificate.chain"):
            assert len(providers.resolve(entry(key, raw))) > 65_536
    assert len(providers.resolve(entry("A->B.topics", "y" * 65_536))) == 65_536


CLUSTERS = (
    "clusters = A, B, ${{file:{0}/s.properties:password}}\nA.bootstrap.servers = a:1\nB.bootstrap.servers = b:1\n"
)


@pytest.mark.parametrize(
    ("lines", "wanted", "said"),
    [
        (["A->X.enabled = true"], {}, r"clusters: 'A, B, \$\{file:.*s\.properties:password\}'"),
        (["A->B.enabled = true"], {"clusters": ["X"]}, "it has A, B, what a config provider gives"),
        (["A->B.enabled = false"], {}, "set A->B.enabled = true"),
    ],
)
def test_a_name_of_a_cluster_that_a_provider_gives_is_listed_by_no_error(secrets, load_lines, lines, wanted, said):
    """Somebody has named the key of a secret there."""
    with pytest.raises(ConfigError, match=said) as caught:
        load_lines(*PROVIDERS, *lines, base=CLUSTERS.format(secrets), **wanted)
    assert CANARY not in str(caught.value)


def test_such_a_name_is_suggested_by_no_warning(secrets, load_lines):
    base = CLUSTERS.format(secrets).replace("A, B, ", "").replace("}", "}, A, B", 1)
    lines = ("A->B.enabled = true", "emit.heartbeats.enabled = false", f"{CANARY[:-1]}.bootstrap.servers = c:1")
    warned = "\n".join(load_lines(*PROVIDERS, *lines, "max.poll.records = 5", base=base).warnings)
    assert "write A.max.poll.records" in warned
    assert CANARY not in warned


def test_a_provider_without_a_class_is_named_unless_a_secret_stands_in_the_place_of_its_name(load_lines):
    with pytest.raises(ConfigError, match=r"'vault' has no class \(set config\.providers\.vault\.class, possible"):
        load_lines("A->B.enabled = true", "config.providers = vault")
    login = f'org.apache.kafka.common.security.plain.PlainLoginModule required username="u" password="{CANARY}";'
    with pytest.raises(ConfigError, match=r"has no class \(set config\.providers\.<name>\.class, possible") as caught:
        load_lines("A->B.enabled = true", f"config.providers = {login}")
    assert CANARY not in str(caught.value)
