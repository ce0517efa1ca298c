"""Certificates for one lab cluster: an authority, a server and a client, as PEM files.

Files: ``ca.pem``; ``server.pem`` and ``client.pem``, each private key (PKCS #8), certificate and authority in one file,
as Kafka's PEM key store reads them; ``client-encrypted.pem``, the same client with its key under KEY_PASSWORD
(PBES2, as OpenSSL writes it; Kafka on Java 17 cannot read that, so it is for other clients); ``server.p12``, the server
once more, as a PKCS #12 store under KEY_PASSWORD, for the brokers: old ones refuse a PEM key without a password. They
live as long as the lab's data and protect nothing.
"""

from __future__ import annotations

import datetime as dt
import ipaddress
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import pkcs12
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

KEY_PASSWORD = "lab-key-secret"
VALID_DAYS = 3650

_NAMES = (
    x509.DNSName("localhost"),
    x509.IPAddress(ipaddress.ip_address("127.0.0.1")),
    x509.IPAddress(ipaddress.ip_address("::1")),
)
_SERVER, _CLIENT = ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH


def write_certificates(directory: Path) -> None:
    """Writes the files into the directory, made if need be, unless they are there from an earlier run."""
    if (directory / "client-encrypted.pem").exists():
        return
    directory.mkdir(parents=True, exist_ok=True)
    authority_key = ec.generate_private_key(ec.SECP256R1())
    authority = _certificate("sparkmirror lab authority", authority_key, None, authority_key)
    authority_pem = authority.public_bytes(serialization.Encoding.PEM)
    (directory / "ca.pem").write_bytes(authority_pem)
    for name, subject, usage in (("server", "localhost", _SERVER), ("client", "mirror", _CLIENT)):
        key = ec.generate_private_key(ec.SECP256R1())
        certificate = _certificate(subject, key, authority, authority_key, usage)
        chain = certificate.public_bytes(serialization.Encoding.PEM) + authority_pem
        _write_private(directory / f"{name}.pem", _key_pem(key, None) + chain)
        if name == "server":
            _write_private(directory / "server.p12", _store(key, certificate, authority))
        else:
            _write_private(directory / "client-encrypted.pem", _key_pem(key, KEY_PASSWORD) + chain)


def _certificate(
    subject: str,
    key: ec.EllipticCurvePrivateKey,
    issuer: x509.Certificate | None,
    issuer_key: ec.EllipticCurvePrivateKey,
    usage: x509.ObjectIdentifier | None = None,
) -> x509.Certificate:
    """Signed by the issuer, or by itself as an authority where there is none."""
    now = dt.datetime.now(dt.UTC)
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, subject)])
    builder = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(issuer.subject if issuer else name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(days=1))
        .not_valid_after(now + dt.timedelta(days=VALID_DAYS))
        .add_extension(x509.BasicConstraints(ca=issuer is None, path_length=None), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer_key.public_key()), critical=False)
        # Python 3.13 checks strictly: an authority must say that it signs certificates.
        .add_extension(_key_usage(authority=issuer is None), critical=True)
    )
    if usage is not None:
        builder = builder.add_extension(x509.ExtendedKeyUsage([usage]), critical=False)
        builder = builder.add_extension(x509.SubjectAlternativeName(_NAMES), critical=False)
    return builder.sign(issuer_key, hashes.SHA256())


def _key_usage(*, authority: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=authority,
        crl_sign=authority,
        encipher_only=False,
        decipher_only=False,
    )


def _key_pem(key: ec.EllipticCurvePrivateKey, password: str | None) -> bytes:
    hiding: serialization.KeySerializationEncryption = serialization.NoEncryption()
    if password is not None:
        hiding = serialization.BestAvailableEncryption(password.encode())
    return key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, hiding)


def _store(key: ec.EllipticCurvePrivateKey, certificate: x509.Certificate, authority: x509.Certificate) -> bytes:
    hiding = serialization.BestAvailableEncryption(KEY_PASSWORD.encode())
    return pkcs12.serialize_key_and_certificates(b"server", key, certificate, [authority], hiding)


def _write_private(path: Path, data: bytes) -> None:
    path.touch(mode=0o600)
    path.write_bytes(data)
