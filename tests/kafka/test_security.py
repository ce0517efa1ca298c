"""Security settings as kafka-python's connections take them: handshakes in memory, and with real brokers."""

from __future__ import annotations

import logging
import os
import ssl
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from sparkmirror import config
from sparkmirror.config import ClientSettings, SaslMechanism, Secret, Security, SecurityProtocol, TlsVersion
from sparkmirror.errors import LinkError
from sparkmirror.kafka import admin
from sparkmirror.kafka.cluster import Cluster
from sparkmirror.kafka.security import connection_options
from sparkmirror.lab.certificates import KEY_PASSWORD, write_certificates
from sparkmirror.lab.cluster import LabCluster, start
from sparkmirror.lab.listeners import PASSWORDS, USER
from sparkmirror.lab.token_endpoint import TokenEndpoint

TLS = Security(protocol=SecurityProtocol.SSL)


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("certificates")
    write_certificates(directory)
    return directory


@pytest.fixture(scope="module")
def trusting(files: Path) -> Security:
    return replace(TLS, ca=(files / "ca.pem").read_text())


def parts(file: Path) -> tuple[str, Secret]:
    """The chain and the key of one PEM file, as the configuration tells them apart."""
    key, mark, rest = file.read_text().partition("-----BEGIN CERTIFICATE-----")
    return mark + rest, Secret(key)


def context(security: Security) -> ssl.SSLContext:
    options = connection_options(ClientSettings(bootstrap_servers=("b:1",), security=security), "B")
    found = options["ssl_context"]
    assert isinstance(found, ssl.SSLContext)
    return found


def shake_hands(client: ssl.SSLContext, files: Path, *, name: str = "localhost", ask: bool = False) -> ssl.SSLObject:
    """A handshake with the lab's server certificate, without a network."""
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(files / "server.pem")
    server.load_verify_locations(files / "ca.pem")
    server.verify_mode = ssl.CERT_REQUIRED if ask else ssl.CERT_NONE
    there, back = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = (
        client.wrap_bio(back, there, server_hostname=name),
        server.wrap_bio(there, back, server_side=True),
    )
    for _ in range(6):
        for end in ends:
            try:
                end.do_handshake()
            except ssl.SSLWantReadError:
                continue
    ends[0].do_handshake()
    return ends[1]


def test_a_plain_connection_needs_nothing():
    options = connection_options(ClientSettings(bootstrap_servers=("b:1",)), "B")
    assert options == {"security_protocol": "PLAINTEXT"}


def test_a_trusted_broker_is_talked_to(trusting: Security, files: Path):
    assert shake_hands(context(trusting), files).version() == "TLSv1.3"


def test_a_broker_that_nobody_vouches_for_is_refused(files: Path):
    with pytest.raises(ssl.SSLCertVerificationError):
        shake_hands(context(TLS), files)


def test_the_host_must_be_named_by_the_certificate(trusting: Security, files: Path):
    with pytest.raises(ssl.SSLCertVerificationError, match="ostname mismatch"):
        shake_hands(context(trusting), files, name="elsewhere.example")


def test_without_an_identification_algorithm_the_name_does_not_matter_but_the_authority_does(
    trusting: Security, files: Path
):
    shake_hands(context(replace(trusting, verify_hostname=False)), files, name="elsewhere.example")
    with pytest.raises(ssl.SSLCertVerificationError):
        shake_hands(context(replace(TLS, verify_hostname=False)), files)


@pytest.mark.parametrize(
    ("versions", "agreed"),
    [((TlsVersion.V1_2,), "TLSv1.2"), ((TlsVersion.V1_3,), "TLSv1.3"), ((TlsVersion.V1_2, TlsVersion.V1_3), "TLSv1.3")],
)
def test_only_enabled_protocols_are_spoken(
    trusting: Security, files: Path, versions: tuple[TlsVersion, ...], agreed: str
):
    assert shake_hands(context(replace(trusting, tls_versions=versions)), files).version() == agreed


@pytest.mark.parametrize("encrypted", [False, True])
def test_a_client_shows_its_certificate(trusting: Security, files: Path, encrypted: bool):
    chain, key = parts(files / ("client-encrypted.pem" if encrypted else "client.pem"))
    security = replace(
        trusting, certificate_chain=chain, private_key=key, key_password=Secret(KEY_PASSWORD) if encrypted else None
    )
    server = shake_hands(context(security), files, ask=True)
    shown = server.getpeercert()
    assert shown is not None
    assert shown["subject"] == ((("commonName", "mirror"),),)


@pytest.mark.parametrize("password", [None, "wrong"])
def test_a_key_that_cannot_be_opened_is_an_error_without_its_password(
    trusting: Security, files: Path, password: str | None
):
    chain, key = parts(files / "client-encrypted.pem")
    security = replace(
        trusting, certificate_chain=chain, private_key=key, key_password=Secret(password) if password else None
    )
    with pytest.raises(LinkError, match="cannot load the TLS certificates or key") as caught:
        context(security)
    assert "wrong" not in str(caught.value)
    assert "PRIVATE" not in str(caught.value)


def test_certificates_that_are_none_are_an_error():
    with pytest.raises(LinkError, match="are the files PEM"):
        context(replace(TLS, ca="no certificate"))


def test_a_key_lies_on_no_disk_while_it_is_loaded(trusting: Security, files: Path, monkeypatch: pytest.MonkeyPatch):
    """Where the system has no files in memory, see the next test."""
    paths: list[str] = []
    load = ssl.SSLContext.load_cert_chain

    def watched(self: ssl.SSLContext, path: str, **given: str) -> None:
        paths.append(str(Path(path).readlink()) if Path(path).is_symlink() else path)
        load(self, path, **given)

    monkeypatch.setattr(ssl.SSLContext, "load_cert_chain", watched)
    chain, key = parts(files / "client.pem")
    context(replace(trusting, certificate_chain=chain, private_key=key))
    assert [path.split(":")[0] for path in paths] == ["/memfd"]


@pytest.mark.parametrize("in_memory", [True, False])
def test_no_key_is_left_on_disk(
    trusting: Security, files: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, in_memory: bool
):
    if not in_memory:
        monkeypatch.delattr(os, "memfd_create")
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    chain, key = parts(files / "client.pem")
    context(replace(trusting, certificate_chain=chain, private_key=key))
    with pytest.raises(LinkError):
        context(replace(trusting, certificate_chain="no", private_key=key))
    assert list(tmp_path.iterdir()) == []


def test_a_login_reveals_its_password_to_the_connection_only():
    login = Security(
        protocol=SecurityProtocol.SASL_PLAINTEXT,
        mechanism=SaslMechanism.SCRAM_SHA_512,
        username="mirror",
        password=Secret("hunter2"),
    )
    settings = ClientSettings(bootstrap_servers=("b:1",), security=login)
    assert connection_options(settings, "B") == {
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": "SCRAM-SHA-512",
        "sasl_plain_username": "mirror",
        "sasl_plain_password": "hunter2",
    }
    assert "hunter2" not in repr(settings)


# -------------------------------------------------------------------------------------------------------- real brokers


@pytest.fixture(scope="module")
def secured() -> Iterator[LabCluster]:
    listeners = ["SSL", "MTLS", "SASL_PLAIN", "SASL_SCRAM", "SASL_SSL", "SASL_OAUTH", "SASL_UNSIGNED"]
    with start("secured", security=listeners) as cluster:
        yield cluster


def connected(secured: LabCluster, directory: Path, listener: str, mechanism: str | None, **more: str) -> Cluster:
    """A connection as a user's file asks for it."""
    keys = secured.client_properties(listener, mechanism=mechanism) | more
    lines = [f"A.{key}={value}" for key, value in keys.items()]
    file = directory / "mm2.properties"
    file.write_text("\n".join(["clusters=A,B", "A->B.enabled=true", "B.bootstrap.servers=b:1", *lines]))
    (flow,) = config.load([file]).flows
    return Cluster("A", flow.source.admin, role="test")


@pytest.mark.kafka
@pytest.mark.parametrize(
    ("listener", "mechanism"),
    [
        ("SSL", None),
        ("MTLS", None),
        ("SASL_PLAIN", "PLAIN"),
        ("SASL_SCRAM", "SCRAM-SHA-256"),
        ("SASL_SCRAM", "SCRAM-SHA-512"),
        ("SASL_SSL", "PLAIN"),
        ("SASL_SSL", "SCRAM-SHA-512"),
        ("SASL_OAUTH", "OAUTHBEARER"),
        ("SASL_UNSIGNED", "OAUTHBEARER"),
    ],
)
def test_a_file_for_mirror_maker_connects_and_no_log_shows_its_secrets(
    secured: LabCluster, tmp_path: Path, listener: str, mechanism: str | None, caplog: pytest.LogCaptureFixture
):
    caplog.set_level(logging.DEBUG)
    cluster = connected(secured, tmp_path, listener, mechanism)
    try:
        assert admin.cluster_id(cluster, 20_000) == secured.cluster_id
    finally:
        cluster.close()
    assert caplog.text
    for secret in (PASSWORDS[USER], *endpoint_of(secured).issued):
        assert secret not in caplog.text


@pytest.mark.kafka
def test_a_wrong_password_is_told_as_such(secured: LabCluster, tmp_path: Path):
    login = (
        'org.apache.kafka.common.security.scram.ScramLoginModule required username="mirror" password="no-such-secret";'
    )
    cluster = connected(secured, tmp_path, "SASL_SCRAM", None, **{"sasl.jaas.config": login})
    try:
        with pytest.raises(LinkError) as caught:
            admin.cluster_id(cluster, 5_000)
    finally:
        cluster.close()
    assert "check user name, password" in str(caught.value)
    said = "Authentication failed during authentication due to invalid credentials with SASL mechanism SCRAM-SHA-"
    assert said in str(caught.value)
    assert "no-such-secret" not in str(caught.value)


def endpoint_of(secured: LabCluster) -> TokenEndpoint:
    assert secured.token_endpoint is not None
    return secured.token_endpoint


MODULE = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required"
STRIMZI = {
    "sasl.login.callback.handler.class": "io.strimzi.kafka.oauth.client.JaasClientOauthLoginCallbackHandler",
    "sasl.oauthbearer.token.endpoint.url": "",
}


@pytest.mark.kafka
def test_other_ways_to_a_token_connect_too(secured: LabCluster, tmp_path: Path):
    endpoint = endpoint_of(secured)
    (tmp_path / "token").write_text(endpoint.token(USER))
    options = f'oauth.client.id="{USER}" oauth.client.secret="{PASSWORDS[USER]}" oauth.sasl.extension.pool="p"'
    for more in (
        {"sasl.oauthbearer.token.endpoint.url": f"file://{tmp_path}/token"},
        STRIMZI | {"sasl.jaas.config": f'{MODULE} oauth.access.token="{endpoint.token(USER)}";'},
        STRIMZI | {"sasl.jaas.config": f'{MODULE} oauth.token.endpoint.uri="{endpoint.url}" {options};'},
    ):
        cluster = connected(secured, tmp_path, "SASL_OAUTH", None, **more)
        try:
            assert admin.cluster_id(cluster, 20_000) == secured.cluster_id
        finally:
            cluster.close()


@pytest.mark.kafka
def test_an_endpoint_that_refuses_the_client_is_told_with_cluster_key_and_remedy(secured: LabCluster, tmp_path: Path):
    wrong = {"sasl.oauthbearer.client.credentials.client.secret": "no-such-secret"}
    cluster = connected(secured, tmp_path, "SASL_OAUTH", None, **wrong)
    try:
        began = time.monotonic()
        with pytest.raises(LinkError) as caught:
            admin.cluster_id(cluster, 20_000)
    finally:
        cluster.close()
    assert time.monotonic() - began < 5
    text = str(caught.value)
    assert text.startswith("cluster A at ")
    assert "(A.sasl.oauthbearer.token.endpoint.url) refuses the client: 401 invalid_client" in text
    assert "check the client's id and secret (A.sasl.oauthbearer.client.credentials.client.id)" in text
    assert "no-such-secret" not in text


@pytest.mark.kafka
def test_an_endpoint_that_is_not_there_is_told_when_the_time_is_over(secured: LabCluster, tmp_path: Path):
    gone = {"sasl.oauthbearer.token.endpoint.url": "http://127.0.0.1:1/token", "sasl.login.retry.backoff.max.ms": "500"}
    cluster = connected(secured, tmp_path, "SASL_OAUTH", None, **gone)
    try:
        with pytest.raises(LinkError) as caught:
            admin.cluster_id(cluster, 3_000)
    finally:
        cluster.close()
    assert "no token from 'http://127.0.0.1:1/token' (A.sasl.oauthbearer.token.endpoint.url)" in str(caught.value)
    assert "is the endpoint up" in str(caught.value)


@pytest.mark.kafka
def test_a_token_that_the_broker_does_not_take_is_told_as_such(secured: LabCluster, tmp_path: Path):
    token = endpoint_of(secured).token(USER, aud="others")
    cluster = connected(
        secured,
        tmp_path,
        "SASL_OAUTH",
        None,
        **STRIMZI,
        **{"sasl.jaas.config": f'{MODULE} oauth.access.token="{token}";'},
    )
    try:
        with pytest.raises(LinkError) as caught:
            admin.cluster_id(cluster, 5_000)
    finally:
        cluster.close()
    assert "for this audience?" in str(caught.value)
    assert token not in str(caught.value)


@pytest.mark.kafka
def test_plain_text_to_a_tls_listener_asks_whether_tls_is_missing(secured: LabCluster):
    settings = ClientSettings(bootstrap_servers=tuple(secured.listener("SSL").split(",")))
    cluster = Cluster("A", settings, role="test")
    try:
        with pytest.raises(LinkError) as caught:
            admin.cluster_id(cluster, 5_000)
    finally:
        cluster.close()
    assert "security.protocol" in str(caught.value)
