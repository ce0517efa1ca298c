"""Security keys: what works, and that all else is refused with the way round."""

from __future__ import annotations

import pickle
import traceback

import pytest

from sparkmirror.config import SaslMechanism, Secret, SecurityProtocol, TlsVersion
from sparkmirror.errors import ConfigError
from sparkmirror.lab.certificates import KEY_PASSWORD
from sparkmirror.lab.listeners import Listener, client_settings

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"
CANARY = "canary-77aa"
LOGIN = ("A.security.protocol = SASL_PLAINTEXT", "A.sasl.mechanism = PLAIN")
JAAS = f'A.sasl.jaas.config = {PLAIN} required username="u" password="{CANARY}";'
TLS = "A.security.protocol = SSL"


def lines_of(text):
    r"""A value of several lines, as it is written into a properties file."""
    return text.strip().replace("\n", "\\n\\\n")


def test_without_security_keys_there_is_no_security(load_flow):
    assert load_flow().source.consumer.security.protocol is SecurityProtocol.PLAINTEXT


@pytest.mark.parametrize(
    ("mechanism", "module"), [("PLAIN", PLAIN), ("SCRAM-SHA-256", SCRAM), ("SCRAM-SHA-512", SCRAM)]
)
def test_logs_in_with_sasl(load_flow, mechanism, module):
    flow = load_flow(
        "A.security.protocol = sasl_plaintext",
        f"A.sasl.mechanism = {mechanism}",
        f'A.sasl.jaas.config = {module} required username="u" password="{CANARY}";',
    )
    for client in (flow.source.consumer, flow.source.producer, flow.source.admin):
        assert client.security.protocol is SecurityProtocol.SASL_PLAINTEXT
        assert client.security.mechanism is SaslMechanism(mechanism)
        assert client.security.username == "u"
        assert client.security.password == Secret(CANARY)
    assert flow.target.admin.security.protocol is SecurityProtocol.PLAINTEXT


def test_trusts_the_certificates_of_a_pem_file(load_flow, pem):
    flow = load_flow(TLS, "A.ssl.truststore.type = PEM", f"A.ssl.truststore.location = {pem}/ca.pem")
    security = flow.source.consumer.security
    assert security.ca == (pem / "ca.pem").read_text()
    assert security.verify_hostname
    assert security.tls_versions == (TlsVersion.V1_2, TlsVersion.V1_3)


def test_takes_certificates_out_of_the_text_that_keytool_writes_around_them(load_flow, pem, tmp_path):
    store = tmp_path / "listed.pem"
    store.write_text(f"Alias name: caféroot\nOwner: CN=x\n{(pem / 'ca.pem').read_text()}\n*****\n", encoding="utf-8")
    flow = load_flow(TLS, "A.ssl.truststore.type = PEM", f"A.ssl.truststore.location = {store}")
    assert flow.source.consumer.security.ca == (pem / "ca.pem").read_text()


def test_takes_certificates_and_key_from_the_values_themselves(load_flow, pem):
    text = (pem / "client.pem").read_text()
    cut = text.index("-----BEGIN CERTIFICATE")
    flow = load_flow(
        "A.security.protocol = SSL",
        "A.ssl.truststore.type = PEM",
        f"A.ssl.truststore.certificates = {lines_of((pem / 'ca.pem').read_text())}",
        "A.ssl.keystore.type = PEM",
        f"A.ssl.keystore.key = {lines_of(text[:cut])}",
        f"A.ssl.keystore.certificate.chain = {lines_of(text[cut:])}",
    )
    security = flow.source.consumer.security
    assert security.ca == (pem / "ca.pem").read_text()
    assert security.certificate_chain == text[cut:]
    assert security.private_key == Secret(text[:cut])


def test_shows_a_client_certificate_from_a_pem_file(load_flow, pem):
    flow = load_flow(TLS, "A.ssl.keystore.type = PEM", f"A.ssl.keystore.location = {pem}/client.pem")
    security = flow.source.consumer.security
    assert security.certificate_chain is not None
    assert security.certificate_chain.count("BEGIN CERTIFICATE") == 2
    assert security.private_key is not None
    assert "PRIVATE KEY" not in security.certificate_chain + str(security.private_key)
    assert security.ca is None


def test_opens_an_encrypted_key(load_flow, pem):
    flow = load_flow(
        TLS,
        "A.ssl.keystore.type = PEM",
        f"A.ssl.keystore.location = {pem}/client-encrypted.pem",
        f"A.ssl.key.password = {KEY_PASSWORD}",
    )
    assert flow.source.consumer.security.key_password == Secret(KEY_PASSWORD)


@pytest.mark.parametrize("listener", Listener)
def test_reads_what_the_lab_tells_java_clients(load_flow, pem, listener):
    settings = client_settings(listener, None, pem, "http://127.0.0.1:1/token")
    security = load_flow(*(f"A.{key} = {value}" for key, value in settings.items())).source.consumer.security
    assert security.protocol.value == settings.get("security.protocol", "PLAINTEXT")
    tokens = listener in (Listener.SASL_OAUTH, Listener.SASL_UNSIGNED)
    assert (security.password is not None) == ("sasl.jaas.config" in settings and not tokens)
    assert (security.oauth is not None) == tokens
    assert (security.ca is not None) == ("ssl.truststore.location" in settings)
    assert (security.private_key is not None) == ("ssl.keystore.location" in settings)


def test_a_flow_pickles_with_its_secrets_and_does_not_show_them(load_flow):
    flow = load_flow("A.security.protocol = SASL_SSL", LOGIN[1], JAAS)
    again = pickle.loads(pickle.dumps(flow))
    assert again == flow
    assert again.source.consumer.security.password.reveal() == CANARY
    assert CANARY not in f"{again} {again!r}"


def test_an_empty_algorithm_turns_the_check_of_host_names_off(load_flow):
    assert not load_flow(TLS, "A.ssl.endpoint.identification.algorithm =").source.admin.security.verify_hostname
    assert load_flow(TLS, "A.ssl.endpoint.identification.algorithm = HTTPS").source.admin.security.verify_hostname


def test_versions_of_tls_can_be_limited(load_flow):
    security = load_flow(TLS, "A.ssl.enabled.protocols = TLSv1.3").source.admin.security
    assert security.tls_versions == (TlsVersion.V1_3,)


def test_keys_that_the_protocol_does_not_need_are_not_looked_at(load_flow):
    flow = load_flow("A.ssl.truststore.location = /nowhere.jks", "A.sasl.mechanism = GSSAPI", "A.ssl.cipher.suites = X")
    assert flow.source.admin.security.ca is None


REFUSED = [
    ("gssapi by default", ["A.security.protocol = SASL_SSL"], "logs in with GSSAPI, but there is no sasl.jaas.config"),
    ("no mechanism", [LOGIN[0], JAAS], "which is what holds where it is not set.*or set sasl.mechanism"),
    ("a mechanism of somebody", [LOGIN[0], "A.sasl.mechanism = AWS_MSK_IAM"], "possible: PLAIN, SCRAM"),
    ("a protocol of somebody", ["A.security.protocol = TLS"], "possible: PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL"),
    ("no login", [*LOGIN], "there is no sasl.jaas.config"),
    ("kerberos module", [*LOGIN, "A.sasl.jaas.config = com.sun.security.auth.module.Krb5LoginModule required;"], PLAIN),
    ("wrong module", [LOGIN[0], "A.sasl.mechanism = SCRAM-SHA-512", JAAS], f"use {SCRAM}"),
    ("no module", [*LOGIN, f'A.sasl.jaas.config = username="u" password="{CANARY}"'], "is no login module"),
    ("no password", [*LOGIN, f'A.sasl.jaas.config = {PLAIN} required username="u";'], "has no password"),
    ("nobody", [*LOGIN, f"A.sasl.jaas.config = {PLAIN} required;"], "has no username and no password"),
    (
        "token",
        [LOGIN[0], "A.sasl.mechanism = SCRAM-SHA-256", f'A.sasl.jaas.config = {SCRAM} required tokenauth="true";'],
        "delegation tokens",
    ),
    ("login class", [*LOGIN, JAAS, "A.sasl.login.class = com.example.Login"], "Java class"),
    ("callback", [*LOGIN, JAAS, "A.sasl.client.callback.handler.class = com.example.C"], "Java class"),
    ("login callback", [*LOGIN, JAAS, "A.sasl.login.callback.handler.class = com.example.C"], "Java class"),
    ("java providers", ["A.security.providers = com.example.P"], "Java class"),
    ("engine", [TLS, "A.ssl.engine.factory.class = com.example.E"], "use PEM"),
    ("provider", [TLS, "A.ssl.provider = BCFIPS"], "remove it"),
    ("suites", [TLS, "A.ssl.cipher.suites = TLS_AES_256_GCM_SHA384"], "OPENSSL_CONF"),
    ("unsafe versions", [TLS, "A.ssl.enabled.protocols = TLSv1, TLSv1.1"], "possible: TLSv1.2, TLSv1.3"),
    ("algorithm", [TLS, "A.ssl.endpoint.identification.algorithm = LDAPS"], "possible: https"),
    (
        "a type of somebody",
        [TLS, "A.ssl.truststore.type = BCFKS", "A.ssl.truststore.location = /s/t.bcfks"],
        "possible: PEM, PKCS12, JKS",
    ),
    ("no file", [TLS, "A.ssl.truststore.type=PEM", "A.ssl.truststore.location = /s/no.pem"], "no such file"),
    ("certificates without type", [TLS, "A.ssl.truststore.certificates = x"], "set ssl.truststore.type=PEM"),
    (
        "both",
        [TLS, "A.ssl.truststore.certificates = x", "A.ssl.truststore.location = /s/t.pem"],
        "stands beside ssl.truststore.location",
    ),
    ("no certificate", [TLS, "A.ssl.truststore.type=PEM", "A.ssl.truststore.certificates = x"], "no certificate"),
    ("key alone", [TLS, "A.ssl.keystore.type=PEM", f"A.ssl.keystore.key = {CANARY}"], "no certificate beside it"),
    ("chain alone", [TLS, "A.ssl.keystore.certificate.chain = x"], "no private key beside it"),
]


@pytest.mark.parametrize(("lines", "reason"), [case[1:] for case in REFUSED], ids=[case[0] for case in REFUSED])
def test_refuses(load_flow, lines, reason):
    with pytest.raises(ConfigError, match=reason) as caught:
        load_flow(*lines)
    assert caught.value.key.startswith("A.")
    assert CANARY not in "".join(traceback.format_exception(caught.value))


def test_refuses_a_file_that_is_no_pem(load_flow, tmp_path):
    store = tmp_path / "store.pem"
    store.write_bytes(b"\xfe\xed\xfe\xed\x00\x00")
    with pytest.raises(ConfigError, match=r"is JKS, but ssl\.truststore\.type is PEM"):
        load_flow(TLS, "A.ssl.truststore.type = PEM", f"A.ssl.truststore.location = {store}")


@pytest.mark.parametrize(
    ("file", "password", "reason"),
    [
        ("client-encrypted.pem", None, "is encrypted: set ssl.key.password"),
        ("client-encrypted.pem", CANARY, "is ssl.key.password right"),
        ("client.pem", CANARY, "is not encrypted: remove ssl.key.password"),
        ("ca.pem", None, "there is no private key in it"),
    ],
)
def test_refuses_a_key_that_cannot_be_opened(load_flow, pem, file, password, reason):
    given = [f"A.ssl.key.password = {password}"] if password else []
    with pytest.raises(ConfigError, match=reason) as caught:
        load_flow(TLS, "A.ssl.keystore.type = PEM", f"A.ssl.keystore.location = {pem}/{file}", *given)
    assert CANARY not in "".join(traceback.format_exception(caught.value))


def test_refuses_a_key_that_belongs_to_another_certificate(load_flow, pem, tmp_path):
    server, client = (pem / "server.pem").read_text(), (pem / "client.pem").read_text()
    mixed = tmp_path / "mixed.pem"
    mixed.write_text(server[: server.index("-----BEGIN CERT")] + client[client.index("-----BEGIN CERT") :])
    with pytest.raises(ConfigError, match="does not belong to the first certificate"):
        load_flow(TLS, "A.ssl.keystore.type = PEM", f"A.ssl.keystore.location = {mixed}")
