"""Key stores of Java and of PKCS 12: what Java reads from them is what is read here."""

from __future__ import annotations

import subprocess

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
    pkcs12,
)

from sparkmirror.config import Secret
from sparkmirror.config.pem import PemError, private_key
from sparkmirror.config.stores import QUICK, Kind, _keytool, kind_of, open_store
from sparkmirror.errors import ConfigError

PASSWORD = "c4nary-of-the-store"
TLS = "A.security.protocol = SSL"


@pytest.fixture(scope="module")
def identity(pem):
    """Key and chain of a client, as PEM."""
    text = (pem / "client.pem").read_text()
    return text[: text.index("-----BEGIN CERTIFICATE")], text[text.index("-----BEGIN CERTIFICATE") :]


@pytest.fixture(scope="module")
def key_store(identity):
    """The same as PKCS 12, its certificates in the wrong order."""
    key, chain = identity
    own, *signers = x509.load_pem_x509_certificates(chain.encode())
    loaded = load_pem_private_key(key.encode(), None)
    assert isinstance(loaded, (RSAPrivateKey, EllipticCurvePrivateKey))
    encrypted = BestAvailableEncryption(PASSWORD.encode())
    return pkcs12.serialize_key_and_certificates(b"client", loaded, own, list(reversed(signers)), encrypted)


@pytest.fixture(scope="module")
def trust_store(pem):
    certificates = x509.load_pem_x509_certificates((pem / "ca.pem").read_bytes())
    encrypted = BestAvailableEncryption(PASSWORD.encode())
    return pkcs12.serialize_key_and_certificates(None, None, None, certificates, encrypted)


def keytool(*words: object) -> None:
    """Java's own tool; stores are written with the password of these tests."""
    command = [str(word) for word in (_keytool(), *QUICK, *words, "-noprompt", "-storepass", PASSWORD)]
    subprocess.run(command, check=True, capture_output=True, timeout=120)


@pytest.fixture
def jks_key_store(key_store, tmp_path):
    here, there = tmp_path / "here.p12", tmp_path / "key.jks"
    here.write_bytes(key_store)
    words = ["-srckeystore", here, "-srcstorepass", PASSWORD, "-destkeystore", there, "-deststoretype", "JKS"]
    keytool("-importkeystore", *words)
    return there


def plain(key: str) -> bytes:
    """A key as its numbers, however it is written down."""
    loaded = load_pem_private_key(key.encode(), None)
    return loaded.private_bytes(Encoding.DER, PrivateFormat.PKCS8, NoEncryption())


def test_a_store_is_what_its_first_bytes_say(key_store, pem):
    assert kind_of(key_store) is Kind.PKCS12
    assert kind_of((pem / "client.pem").read_bytes()) is Kind.PEM
    assert kind_of(b"Alias name: root\n-----BEGIN CERTIFICATE-----") is Kind.PEM
    assert kind_of(b"\xfe\xed\xfe\xed\x00\x00\x00\x02") is Kind.JKS
    assert kind_of(b"") is Kind.UNKNOWN


def test_key_and_chain_come_out_in_the_order_of_their_signatures(key_store, identity):
    key, chain = identity
    found = open_store(key_store, PASSWORD)
    assert found.chain == chain
    assert found.trusted == ""
    assert plain(found.key) == plain(private_key(key))


@pytest.mark.parametrize("kind", ["", "PKCS12", "JKS"])
def test_a_pkcs_12_store_is_read_whatever_its_type_says_as_java_does(load_flow, tmp_path, trust_store, pem, kind):
    place = tmp_path / "trust.p12"
    place.write_bytes(trust_store)
    lines = [TLS, f"A.ssl.truststore.location = {place}", f"A.ssl.truststore.password = {PASSWORD}"]
    flow = load_flow(*lines, *([f"A.ssl.truststore.type = {kind}"] if kind else []))
    assert flow.source.consumer.security.ca == (pem / "ca.pem").read_text()


def test_a_key_store_is_the_identity_of_a_client_and_its_key_a_secret(load_flow, tmp_path, key_store, identity):
    place = tmp_path / "key.p12"
    place.write_bytes(key_store)
    flow = load_flow(
        TLS,
        "A.ssl.keystore.type = PKCS12",
        f"A.ssl.keystore.location = {place}",
        f"A.ssl.keystore.password = {PASSWORD}",
        f"A.ssl.key.password = {PASSWORD}",
    )
    security = flow.source.consumer.security
    assert security.certificate_chain == identity[1]
    assert isinstance(security.private_key, Secret)
    assert security.key_password is None
    assert PASSWORD not in repr(flow)


@pytest.mark.parametrize("kind", ["JKS", "PKCS12"])
def test_stores_that_java_has_made_are_read(load_flow, jks_key_store, identity, pem, tmp_path, kind):
    trusted = tmp_path / "trust"
    keytool("-importcert", "-file", pem / "ca.pem", "-alias", "ca", "-keystore", trusted, "-storetype", kind)
    assert kind_of(trusted.read_bytes()) is Kind(kind)
    assert kind_of(jks_key_store.read_bytes()) is Kind.JKS
    flow = load_flow(
        TLS,
        f"A.ssl.truststore.location = {trusted}",
        f"A.ssl.truststore.password = {PASSWORD}",
        f"A.ssl.keystore.location = {jks_key_store}",
        f"A.ssl.keystore.password = {PASSWORD}",
    )
    security = flow.source.consumer.security
    assert (security.ca, security.certificate_chain) == ((pem / "ca.pem").read_text(), identity[1])


def test_a_wrong_password_is_named_and_not_shown(load_flow, jks_key_store, key_store, tmp_path):
    place = tmp_path / "key.p12"
    place.write_bytes(key_store)
    for store in (place, jks_key_store):
        for password, reason in (("wrong-canary", "is the password right?"), ("", "password")):
            lines = [f"A.ssl.keystore.password = {password}"] if password else []
            with pytest.raises(ConfigError, match=r"A\.ssl\.keystore\.location") as refusal:
                load_flow(TLS, f"A.ssl.keystore.location = {store}", *lines)
            assert reason in str(refusal.value)
            assert "canary" not in str(refusal.value)


@pytest.mark.parametrize(
    ("store", "lines", "reason"),
    [
        ("key", ["A.ssl.truststore.location = {}", f"A.ssl.truststore.password = {PASSWORD}"], "holds a private key"),
        ("trust", ["A.ssl.keystore.location = {}", f"A.ssl.keystore.password = {PASSWORD}"], "no private key in it"),
        (
            "key",
            [
                "A.ssl.keystore.location = {}",
                f"A.ssl.keystore.password = {PASSWORD}",
                "A.ssl.key.password = another-one",
            ],
            "is not the password of the store",
        ),
        ("key", ["A.ssl.keystore.location = {}", "A.ssl.keystore.type = PEM"], "set ssl.keystore.type=PKCS12"),
        ("pem", ["A.ssl.truststore.location = {}"], "not set, which means JKS: set ssl.truststore.type=PEM"),
        ("text", ["A.ssl.truststore.location = {}"], "neither PEM nor PKCS12 nor JKS"),
        ("none", ["A.ssl.truststore.location = {}"], "no such file"),
    ],
)
def test_a_store_that_cannot_be_what_it_is_used_as_says_so(
    load_flow, tmp_path, pem, key_store, trust_store, store, lines, reason
):
    stores = {"key": key_store, "trust": trust_store, "pem": (pem / "ca.pem").read_bytes(), "text": b"hello"}
    place = tmp_path / "store"
    if store in stores:
        place.write_bytes(stores[store])
    with pytest.raises(ConfigError) as refusal:
        load_flow(TLS, *(line.format(place) for line in lines))
    assert reason in str(refusal.value)
    assert PASSWORD not in str(refusal.value)


def test_without_keytool_a_jks_store_says_how_to_convert_it(monkeypatch):
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("JAVA_HOME", raising=False)
    with pytest.raises(PemError, match="keytool -importkeystore"):
        open_store(b"\xfe\xed\xfe\xed", PASSWORD)
