"""Certificates that a test needs and the lab does not have: expired ones, and ones for other names."""

from __future__ import annotations

import datetime as dt
import ipaddress
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import pkcs12
from cryptography.x509.oid import NameOID

STORE_PASSWORD = "of-the-store"

HERE = (x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1")))
ELSEWHERE = (x509.DNSName("elsewhere.example"),)


@dataclass(frozen=True)
class Authority:
    """Signs what it is asked to; its own certificate is ``ca.pem`` in its directory."""

    directory: Path
    key: ec.EllipticCurvePrivateKey
    certificate: x509.Certificate

    @property
    def file(self) -> Path:
        return self.directory / "ca.pem"

    def issue(self, name: str, alternatives: tuple[x509.GeneralName, ...] = HERE, *, days: int = 100) -> Path:
        """A key and its certificate as a PKCS 12 store and, beside it, as PEM; one of negative days has expired."""
        key = ec.generate_private_key(ec.SECP256R1())
        certificate = _signed(name, key, self.certificate.subject, self.key, days, alternatives)
        hiding = serialization.BestAvailableEncryption(STORE_PASSWORD.encode())
        store = pkcs12.serialize_key_and_certificates(name.encode(), key, certificate, [self.certificate], hiding)
        (self.directory / f"{name}.p12").write_bytes(store)
        encoding, form = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
        private = key.private_bytes(encoding, form, serialization.NoEncryption())
        (self.directory / f"{name}.pem").write_bytes(private + certificate.public_bytes(encoding))
        return self.directory / f"{name}.p12"


def authority(directory: Path) -> Authority:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "an authority of the tests")])
    certificate = _signed("an authority of the tests", key, name, key, 100, ())
    (directory / "ca.pem").write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    return Authority(directory=directory, key=key, certificate=certificate)


def _signed(
    subject: str,
    key: ec.EllipticCurvePrivateKey,
    issuer: x509.Name,
    issuer_key: ec.EllipticCurvePrivateKey,
    days: int,
    alternatives: tuple[x509.GeneralName, ...],
) -> x509.Certificate:
    now = dt.datetime.now(dt.UTC)
    builder = (
        x509.CertificateBuilder()
        .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, subject)]))
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(days=200))
        .not_valid_after(now + dt.timedelta(days=days))
        .add_extension(x509.BasicConstraints(ca=not alternatives, path_length=None), critical=True)
    )
    if alternatives:
        builder = builder.add_extension(x509.SubjectAlternativeName(alternatives), critical=False)
    return builder.sign(issuer_key, hashes.SHA256())
