"""Strimzi's resources: both versions, authentication of each type, Secrets, what is refused and what is named."""

from __future__ import annotations

import base64
from pathlib import Path

import pytest
import yaml

from sparkmirror.config import (
    FixedToken,
    SaslMechanism,
    SecurityProtocol,
    TokenEndpoint,
    as_properties,
    load,
    open_files,
)
from sparkmirror.errors import ConfigError
from sparkmirror.lab.certificates import write_certificates

FILES = Path(__file__).parent / "files"
CANARY = "canary-77"


@pytest.fixture(scope="session")
def pem(tmp_path_factory):
    directory = tmp_path_factory.mktemp("strimzi-certificates")
    write_certificates(directory)
    return directory


@pytest.fixture
def secrets(tmp_path, monkeypatch, pem):
    """Mounts Secrets as Kubernetes does; gives a function that mounts more."""
    root = tmp_path / "secrets"
    monkeypatch.setenv("SPARKMIRROR_SECRETS_DIR", str(root))

    def mount(name, **values):
        (root / name).mkdir(parents=True, exist_ok=True)
        for key, value in values.items():
            (root / name / key.replace("_", ".")).write_text(value, encoding="utf-8")

    authority, client = (pem / "ca.pem").read_text(), (pem / "client.pem").read_text()
    cut = client.index("-----BEGIN CERTIFICATE")
    mount("cluster-a-cluster-ca-cert", ca_crt=authority, ca2_crt=authority, ca_password="x")
    mount("cluster-b-cluster-ca-cert", ca_crt=authority)
    mount("my-user-source", user_crt=client[cut:], user_key=client[:cut])
    for name in ("central-mirror", "north-mirror", "south-mirror"):
        mount(name, pw=f"{CANARY}-{name}\n")
    return mount


def v1(**mirror):
    return {
        "apiVersion": "kafka.strimzi.io/v1",
        "kind": "KafkaMirrorMaker2",
        "metadata": {"name": "m", "namespace": "n"},
        "spec": {
            "target": {"alias": "B", "bootstrapServers": "b:1"},
            "mirrors": [{"source": {"alias": "A", "bootstrapServers": "a:1"}, "sourceConnector": {}} | mirror],
        },
    }


def v1beta2(**mirror):
    document = v1()
    document["apiVersion"] = "kafka.strimzi.io/v1beta2"
    clusters = [{"alias": alias, "bootstrapServers": f"{alias.lower()}:1"} for alias in "AB"]
    mirrors = [{"sourceCluster": "A", "targetCluster": "B", "sourceConnector": {}} | mirror]
    return document | {"spec": {"connectCluster": "B", "clusters": clusters, "mirrors": mirrors}}


@pytest.fixture
def load_yaml(tmp_path):
    def load_yaml(*documents, **wanted):
        path = tmp_path / "m.yaml"
        texts = [one if isinstance(one, str) else yaml.safe_dump(one) for one in documents]
        path.write_text("---\n".join(texts), encoding="utf-8")
        return load([path], **wanted)

    return load_yaml


def test_a_resource_of_v1beta2_with_tls_and_scram(secrets, pem):
    found = load([FILES / "strimzi-v1beta2.yaml"])
    (flow,) = found.flows
    assert str(flow.name) == "cluster-a->cluster-b"
    source, target = flow.source.consumer.security, flow.target.producer.security
    assert source.protocol is SecurityProtocol.SSL
    assert source.ca == (pem / "ca.pem").read_text() * 2
    assert source.certificate_chain is not None
    assert flow.source.admin.security == source
    assert target.protocol is SecurityProtocol.SASL_SSL
    assert (target.mechanism, target.username) == (SaslMechanism.SCRAM_SHA_512, "my-user-target")
    assert target.password is not None
    assert target.password.reveal() == "canary-7744"
    assert flow.topics == ("orders.*|payments",)
    assert (flow.tasks_max, flow.replication_factor, flow.refresh_topics_interval_s) == (2, -1, 60)
    assert flow.target.producer.max_request_size == 4_194_304
    origins = dict(flow.origins)
    assert origins["topics"] == "spec.mirrors[0].topicsPattern"
    assert origins["replication.factor"] == "spec.mirrors[0].sourceConnector.config.replication.factor"
    assert CANARY not in repr(found)


def test_each_key_of_a_resource_without_a_meaning_here_is_named_once(secrets):
    text = "\n".join(load([FILES / "strimzi-v1beta2.yaml"]).warnings)
    for key in (
        "spec.version",
        "spec.replicas",
        "spec.resources",
        "spec.template",
        "spec.mirrors[0].sourceConnector.autoRestart",
        "spec.clusters[1].config.config.storage.replication.factor",
    ):
        assert text.count(key) == 1, key
    assert "unknown" not in text


def test_a_resource_of_v1_with_several_mirrors(secrets):
    found = load([FILES / "strimzi-v1.yaml"])
    north, south = found.flows
    assert [str(flow.name) for flow in found.flows] == ["north->central", "south->central"]
    assert north.source.consumer.request_timeout_ms == 20_000
    assert north.source.consumer.fetch_min_bytes == 1_000
    assert north.target.producer.compression_type == "lz4"
    assert north.source.admin.security.mechanism is SaslMechanism.SCRAM_SHA_256
    assert north.target.producer.security.mechanism is SaslMechanism.PLAIN
    assert north.target.producer.security.password is not None
    assert north.target.producer.security.password.reveal() == "canary-77-central-mirror"
    assert south.source.consumer.security.password is not None
    assert south.source.consumer.security.password.reveal() == "canary-77-south-mirror"
    assert south.topics_exclude == (".*-raw",)
    text = "\n".join(found.warnings)
    assert "west->central is not run: spec.mirrors[2].sourceConnector.state says stopped" in text
    assert "runs without MirrorCheckpointConnector: spec.mirrors[1].checkpointConnector.state says paused" in text
    assert "Connect worker (spec.target.groupId" in text


def test_only_the_secrets_of_flows_that_are_asked_for_are_needed(tmp_path, monkeypatch, secrets):
    (tmp_path / "secrets" / "south-mirror" / "pw").unlink()
    assert load([FILES / "strimzi-v1.yaml"], flow="north->central").flows
    with pytest.raises(ConfigError, match=r"sasl\.jaas\.config: .*south-mirror/pw: no such file"):
        load([FILES / "strimzi-v1.yaml"])


def test_a_secret_that_nobody_has_mounted_is_named_with_what_to_do(monkeypatch):
    monkeypatch.delenv("SPARKMIRROR_SECRETS_DIR", raising=False)
    with pytest.raises(ConfigError, match=r"set SPARKMIRROR_SECRETS_DIR to a directory.* my-user-source") as caught:
        load([FILES / "strimzi-v1beta2.yaml"])
    assert caught.value.key == "spec.clusters[0].authentication.certificateAndKey.key"


def plain(**more):
    return {"type": "plain", "username": "u", "passwordSecret": {"secretName": "s", "password": "p"}} | more


@pytest.mark.parametrize("form", ["data", "stringData"])
def test_a_secret_of_the_same_file_is_used(load_yaml, form):
    value = CANARY if form == "stringData" else base64.b64encode(CANARY.encode()).decode()
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, form: {"p": value}}
    document = v1()
    document["spec"]["target"]["authentication"] = plain()
    (flow,) = load_yaml(secret, document).flows
    assert flow.target.producer.security.password is not None
    assert flow.target.producer.security.password.reveal() == CANARY


def test_a_list_of_kubernetes_is_its_items(load_yaml):
    assert load_yaml({"apiVersion": "v1", "kind": "List", "items": [v1()]}).flows


def test_several_resources_of_a_file_are_all_run(load_yaml):
    other = v1()
    other["spec"]["target"] = {"alias": "C", "bootstrapServers": "c:1"}
    assert [str(flow.name) for flow in load_yaml(v1(), other).flows] == ["A->B", "A->C"]


@pytest.mark.parametrize("make", [v1, v1beta2])
def test_sections_that_are_missing_switch_their_duties_off(load_yaml, make):
    origins = dict(load_yaml(make()).flows[0].origins)
    assert str(load_yaml(make()).flows[0].name) == "A->B"
    assert origins.get("topics", "default") == "default"


@pytest.mark.parametrize(
    ("section", "runs"),
    [
        ({"state": "running"}, True),
        ({"state": "running", "pause": True}, True),
        ({"pause": False}, True),
        ({"pause": True}, False),
        ({"state": "paused"}, False),
        ({"state": "stopped"}, False),
    ],
)
def test_a_connector_runs_unless_it_is_paused_or_stopped(load_yaml, section, runs):
    other = {"sourceCluster": "B2", "targetCluster": "B", "sourceConnector": {}}
    document = v1beta2(sourceConnector=section)
    document["spec"]["clusters"].append({"alias": "B2", "bootstrapServers": "c:1"})
    document["spec"]["mirrors"].append(other)
    assert ("A->B" in [str(flow.name) for flow in load_yaml(document).flows]) is runs


def test_old_patterns_lose_to_new_ones(load_yaml):
    both = {"topicsBlacklistPattern": "old", "topicsExcludePattern": "new"}
    assert load_yaml(v1beta2(**both)).flows[0].topics_exclude == ("new",)
    assert load_yaml(v1beta2(topicsBlacklistPattern="old")).flows[0].topics_exclude == ("old",)


def test_a_key_that_nobody_knows_is_named(load_yaml):
    document = v1(topicPattern="x", sourceConnector={"taskMax": 3, "config": {"topcis": "y"}})
    document["spec"]["colour"] = "blue"
    document["spec"]["target"]["bootstrap"] = "x"
    text = "\n".join(load_yaml(document).warnings)
    for key in ("spec.mirrors[0].topicPattern", "taskMax", "spec.colour", "spec.target.bootstrap", "(topics?)"):
        assert key in text


def test_what_v1_no_longer_has_is_without_effect_there_and_named(load_yaml):
    old = {"heartbeatConnector": {}, "topicsBlacklistPattern": "x", "sourceCluster": "A"}
    found = load_yaml(v1(sourceConnector={"pause": True}, **old))
    assert found.flows[0].topics_exclude != ("x",)
    (line,) = [line for line in found.warnings if "unknown keys" in line]
    for key in (*old, "sourceConnector.pause"):
        assert f"spec.mirrors[0].{key}" in line


def test_clusters_and_resources_that_are_not_read_are_named(load_yaml):
    document = v1beta2()
    document["spec"]["clusters"].append({"alias": "C", "bootstrapServers": "c:1"})
    text = "\n".join(load_yaml({"kind": "KafkaConnect"}, document).warnings)
    assert "not read: KafkaConnect" in text
    assert "since no mirror names them: spec.clusters[2]" in text


def test_a_key_that_is_no_text_is_named_as_one(load_yaml):
    assert "spec.target.config.9" in "\n".join(load_yaml(changed(v1(), ("spec", "target", "config"), {9: 1})).warnings)


def test_an_anchor_that_is_not_there_is_not_shown(load_yaml):
    with pytest.raises(ConfigError, match="line 2: is no YAML") as caught:
        load_yaml(f"kind: Secret\nstringData: *{CANARY}\n")
    assert CANARY not in str(caught.value)


def changed(document, path, value):
    *way, last = path
    place = document
    for step in way:
        place = place[step]
    if value is None:
        del place[last]
    else:
        place[last] = value
    return document


MIRROR = ("spec", "mirrors", 0)
REFUSED = [
    (
        changed(v1(), ("apiVersion",), "kafka.strimzi.io/v1alpha1"),
        "'kafka.strimzi.io/v1alpha1' is not read",
    ),
    (changed(v1(), ("apiVersion",), None), "apiVersion: is not set"),
    (changed(v1(), ("kind",), "Kafka"), "there is no KafkaMirrorMaker2 in it: it holds Kafka"),
    (changed(v1(), ("spec",), None), "spec: is not set"),
    (changed(v1(), ("spec", "mirrors"), []), "spec.mirrors: names no mirror"),
    (changed(v1(), ("spec", "mirrors"), "x"), "spec.mirrors: is no list"),
    (changed(v1(), ("spec", "target"), None), "spec.target: is not set"),
    (changed(v1(), ("spec", "connectCluster"), "B"), "spec.connectCluster: is of v1beta2"),
    (changed(v1(), (*MIRROR, "source", "alias"), None), r"spec\.mirrors\[0\]\.source\.alias: is not set"),
    (changed(v1(), (*MIRROR, "sourceConnector"), None), "spec.mirrors: have no sourceConnector"),
    (changed(v1beta2(), ("spec", "connectCluster"), "X"), "spec.connectCluster: names 'X'.*clusters has A, B"),
    (changed(v1beta2(), (*MIRROR, "sourceCluster"), "X"), r"spec\.mirrors\[0\]\.sourceCluster: names 'X'"),
    (changed(v1beta2(), (*MIRROR, "targetCluster"), "A"), r"spec\.mirrors\[0\]\.targetCluster: is 'A', and connect"),
    (v1(sourceConnector={"state": "asleep"}), r"spec\.mirrors\[0\]\.sourceConnector\.state: 'asleep' is no state"),
    (v1beta2(sourceConnector={"pause": "yes?"}), r"sourceConnector\.pause: 'yes\?' is neither true nor false"),
    (v1(sourceConnector={"config": {"tasks.max": 3}}), r"config\.tasks\.max: may not stand here"),
    (v1(sourceConnector={"config": {"offset.lag.max": [1]}}), r"sourceConnector\.config\.offset\.lag\.max: is no text"),
    (v1(sourceConnector={"config": {"transforms": "m"}}), r"config\.transforms: Connect transforms do not run here"),
    (v1(sourceConnector={"tasksMax": 0}), r"spec\.mirrors\[0\]\.sourceConnector\.tasksMax: '0' is out of range"),
    (v1(topicsPattern="("), r"spec\.mirrors\[0\]\.topicsPattern: the expression"),
    ("a: [1", "is no YAML"),
    ("- a", "there is no KafkaMirrorMaker2 in it: it holds a list"),
    ("", "it is empty"),
    ("? [a]\n: b\n", "is no YAML"),
    ("kind: List\nitems: 3\n", "there is no KafkaMirrorMaker2 in it"),
    ("apiVersion: kafka.strimzi.io/v1\nkind: KafkaMirrorMaker2\nkind: X\n", "line 3: is no YAML: 'kind' stands twice"),
]


@pytest.mark.parametrize(("document", "reason"), REFUSED)
def test_what_cannot_work_is_refused_with_file_and_path(load_yaml, document, reason):
    with pytest.raises(ConfigError, match=reason) as caught:
        load_yaml(document)
    assert "m.yaml" in str(caught.value)


def oauth(**more):
    secret = {"secretName": "south-mirror", "key": "pw"}
    return {"type": "oauth", "tokenEndpointUri": "https://idp/t", "clientId": "c", "clientSecret": secret} | more


def test_oauth_becomes_what_the_operator_makes_of_it(load_yaml, secrets, pem):
    document = v1()
    document["spec"]["target"]["authentication"] = oauth(
        scope='s "1"',
        audience="a",
        connectTimeoutSeconds=5,
        disableTlsHostnameVerification=True,
        saslExtensions={"pool": "p"},
        tlsTrustedCertificates=[{"secretName": "cluster-a-cluster-ca-cert", "pattern": "*.crt"}],
    )
    found = load_yaml(document)
    login = found.flows[0].target.producer.security.oauth
    assert login is not None
    source = login.source
    assert isinstance(source, TokenEndpoint)
    assert (source.url.reveal(), source.client_id, source.scope, source.audience) == (
        "https://idp/t",
        "c",
        's "1"',
        "a",
    )
    assert source.client_secret is not None
    assert source.client_secret.reveal() == "canary-77-south-mirror"
    assert source.connect_timeout_ms == 5_000
    assert source.tls is not None
    assert source.tls.ca == (pem / "ca.pem").read_text() * 2
    assert not source.tls.verify_hostname
    assert login.extensions == (("pool", "p"),)
    assert not [line for line in found.warnings if "unknown" in line]
    assert CANARY not in repr(found)


def test_oauth_with_a_token_of_a_secret(load_yaml, secrets):
    document = v1()
    document["spec"]["target"]["authentication"] = {
        "type": "oauth",
        "accessToken": {"secretName": "south-mirror", "key": "pw"},
    }
    login = load_yaml(document).flows[0].target.producer.security.oauth
    assert login is not None
    assert isinstance(login.source, FixedToken)
    assert login.source.token.reveal() == "canary-77-south-mirror"


@pytest.mark.parametrize(
    ("authentication", "reason"),
    [
        ({"type": "kerberos"}, "authentication.type: 'kerberos' is no type of authentication.*possible: tls, scram"),
        (
            {"type": "oauth", "clientId": "c", "clientSecret": {"secretName": "south-mirror", "key": "pw"}},
            "has no oauth.token.endpoint.uri",
        ),
        (
            oauth(refreshToken={"secretName": "south-mirror", "key": "pw"}),
            "option oauth.refresh.token does not work here",
        ),
        (oauth(clientSecret={"secretName": "south-mirror"}), "clientSecret.key: is not set"),
        ({"type": "plain", "username": "u"}, "authentication.passwordSecret: is not set"),
        (plain(passwordSecret={"secretName": "s"}), "passwordSecret.password: is not set"),
        (plain(passwordSecret={"secretName": "../s", "password": "p"}), "has no directory s "),
        (plain(passwordSecret={"secretName": "cluster-b-cluster-ca-cert", "password": "p"}), "/p: no such file"),
        (
            {"type": "custom", "sasl": True, "config": {"sasl.mechanism": "MD5"}},
            r"config\.sasl\.mechanism: 'MD5'",
        ),
        (
            {"type": "custom", "config": {"ssl.keystore.location": ["x"]}},
            r"config\.ssl\.keystore\.location: is no",
        ),
        ({"type": "tls"}, "authentication.certificateAndKey: is not set"),
    ],
)
def test_a_login_that_does_not_work_is_refused_with_its_path(load_yaml, secrets, authentication, reason):
    document = v1()
    document["spec"]["target"]["authentication"] = authentication
    with pytest.raises(ConfigError, match=reason) as caught:
        load_yaml(document)
    assert caught.value.key.startswith("spec.target.authentication")


@pytest.mark.parametrize(
    ("secret", "reason"),
    [
        ({"metadata": {}}, "metadata.name: a Secret has no name"),
        ({"data": {"p": "%"}}, r"Secret s: data\.p: is not base 64"),
        ({"data": ["p"]}, "Secret s: data: is no map of texts"),
        ({"data": {"p": "//79"}}, "p of the Secret s is not UTF-8 text"),
        ({"data": {"q": "eA=="}}, "the Secret s has no key 'p'"),
    ],
)
def test_a_secret_that_cannot_be_used_is_refused(load_yaml, secret, reason):
    document = v1()
    document["spec"]["target"]["authentication"] = plain()
    manifest = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}} | secret
    with pytest.raises(ConfigError, match=reason):
        load_yaml(manifest, document)


@pytest.mark.parametrize(
    "key", ["Zq9Canary7", "canary$1", "it's canary", "canary-4711", "canary", "Canary24", "canary-horse-battery-staple"]
)
@pytest.mark.parametrize("there", ["mounted", "manifest", "nowhere"])
def test_a_password_in_the_place_of_a_key_is_neither_shown_nor_converted(tmp_path, monkeypatch, secrets, key, there):
    document = v1()
    document["spec"]["target"] |= {
        "authentication": plain(passwordSecret={"secretName": "s", "password": key}),
        "tls": {"trustedCertificates": [{"secretName": "s", "certificate": key}]},
    }
    texts = [yaml.safe_dump(document)]
    if there == "mounted":
        secrets("s", pw="x")
    elif there == "manifest":
        manifest = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "stringData": {"pw": "x"}}
        texts.append(yaml.safe_dump(manifest))
    else:
        monkeypatch.delenv("SPARKMIRROR_SECRETS_DIR")
    path = tmp_path / "m.yaml"
    path.write_text("---\n".join(texts), encoding="utf-8")
    with pytest.raises(ConfigError, match=r"strimzisecrets:n/s:\[hidden\]\} cannot be resolved") as caught:
        load([path])
    assert "anary" not in str(caught.value)
    converted = as_properties(open_files([path]), str(path), [])
    assert "anary" not in converted
    assert "B.sasl.jaas.config = the value of spec.target.authentication.passwordSecret" in converted


def test_any_key_that_a_secret_has_is_converted_as_it_is(tmp_path, secrets):
    document = v1()
    document["spec"]["target"]["authentication"] = plain(passwordSecret={"secretName": "s", "password": "Key4711"})
    secrets("s", Key4711="x")
    path = tmp_path / "m.yaml"
    path.write_text(yaml.safe_dump(document), encoding="utf-8")
    assert "/s:Key4711}" in as_properties(open_files([path]), str(path), [])


def test_a_pattern_that_fits_no_certificate_is_refused(load_yaml, secrets):
    document = v1()
    certificate = {"secretName": "cluster-b-cluster-ca-cert", "pattern": "*.pem"}
    document["spec"]["target"]["tls"] = {"trustedCertificates": [certificate]}
    with pytest.raises(ConfigError, match=r"has no key that fits '\*\.pem'"):
        load_yaml(document)


def test_trusted_certificates_may_be_the_system_s(load_yaml):
    document = v1()
    document["spec"]["target"]["tls"] = {}
    security = load_yaml(document).flows[0].target.admin.security
    assert (security.protocol, security.ca) == (SecurityProtocol.SSL, None)
