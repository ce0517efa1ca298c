"""Certificates as OpenSSL takes them, also those that a library of Python warns of."""

from __future__ import annotations

import datetime as dt
import ssl
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, Encoding, pkcs12
from cryptography.x509.oid import NameOID

from sparkmirror.config import effective, pem
from sparkmirror.config.files import STORE_BYTES
from sparkmirror.config.stores import open_store

VERSION_AND_SERIAL_1, VERSION_AND_SERIAL_0 = (b"\xa0\x03\x02\x01\x02\x02\x01" + serial for serial in (b"\x01", b"\x00"))


@pytest.fixture(scope="module")
def odd() -> str:
    """An authority whose certificate has the serial number 0, as some that are trusted everywhere."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "Odd Authority")])
    began = dt.datetime(2020, 1, 1, tzinfo=dt.UTC)
    builder = x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key())
    builder = builder.serial_number(1).not_valid_before(began).not_valid_after(began.replace(year=2040))
    encoded = builder.sign(key, SHA256()).public_bytes(Encoding.DER)
    return ssl.DER_cert_to_PEM_cert(encoded.replace(VERSION_AND_SERIAL_1, VERSION_AND_SERIAL_0, 1))


def test_an_authority_with_an_odd_certificate_is_trusted_without_a_warning(load_flow, odd: str, tmp_path: Path):
    store = tmp_path / "trusted.pem"
    store.write_text(f"# Odd Authority\n{odd}")
    lines = ["A.security.protocol = SSL", "A.ssl.truststore.type = PEM", f"A.ssl.truststore.location = {store}"]
    flow = load_flow(*lines)
    assert flow.source.consumer.security.ca == odd
    (row,) = [row for row in effective(flow) if row.setting == "source.ssl.truststore.location"]
    assert row.value == "CN=Odd Authority until 2040-01-01"


def test_what_a_library_refuses_and_openssl_takes_is_trusted(odd: str, monkeypatch: pytest.MonkeyPatch):
    def refuse(_: bytes) -> list[x509.Certificate]:
        raise ValueError("the serial number is not positive")

    monkeypatch.setattr(x509, "load_pem_x509_certificates", refuse)
    assert pem.certificates(odd) == odd
    assert pem.shown(odd * 3, 2) == [*["a certificate that OpenSSL takes and that cannot be shown"] * 2, "1 more"]


def test_a_store_may_hold_one_too(odd: str):
    with pem.odd_certificates():
        authorities = x509.load_pem_x509_certificates(odd.encode())
    data = pkcs12.serialize_key_and_certificates(None, None, None, authorities, BestAvailableEncryption(b"password"))
    assert open_store(data, "password").trusted == odd


@pytest.mark.parametrize(
    "text",
    [
        "",
        "no certificate",
        "-----BEGIN CERTIFICATE-----\n!\n-----END CERTIFICATE-----",
        "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----",
        "-----BEGIN CERTIFICATE-----\n-----END CERTIFICATE-----",
        "{odd}-----BEGIN CERTIFICATE-----\nMAMCAQA=\n-----END CERTIFICATE-----",
    ],
)
def test_what_is_no_certificate_is_refused(odd: str, text: str):
    with pytest.raises(pem.PemError, match="no certificate in it, or one that cannot be read"):
        pem.certificates(text.format(odd=odd))


@pytest.mark.parametrize("kind", ["CERTIFICATE", "PRIVATE KEY", "RSA PRIVATE KEY"])
def test_a_text_of_nothing_but_begins_is_refused_without_reading_it_from_each_of_them(kind: str):
    """4 MiB, as much as a file may have: read to its end from each begin that would be hours."""
    text = f"-----BEGIN {kind}-----" * (STORE_BYTES // 40)
    with pytest.raises(pem.PemError):
        (pem.certificates if kind == "CERTIFICATE" else pem.private_key)(text)


def test_a_key_may_have_headers_with_dashes():
    headers = "Proc-Type: 4,ENCRYPTED\nDEK-Info: AES-128-CBC,00\n\n"
    key = f"-----BEGIN RSA PRIVATE KEY-----\n{headers}AAAA\n-----END RSA PRIVATE KEY-----"
    assert pem.private_key(f"Bag Attributes - none -\n{key}\n-----BEGIN CERTIFICATE-----") == key + "\n"
