"""Key stores of Java and of PKCS 12 as PEM, which is all that the rest of this package knows.

What a file is, its first bytes say, whatever ``ssl.*.type`` calls it: Java does the same for JKS and PKCS12. PKCS 12 is
read by a library. JKS has no maintained reader in Python, but ``keytool`` comes with Java, which Spark needs anyway: it
writes a JKS store anew as PKCS 12 into a file that only this user may read, and that is gone a moment later.

Invariant: no error, no process's arguments and no file that stays hold a password or a key.

Reference: ``org.apache.kafka.common.security.ssl.DefaultSslEngineFactory``, PKCS 12 (RFC 7292).
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, pkcs12

from sparkmirror.config.pem import PemError, odd_certificates

KEYTOOL_SECONDS = 60.0
_PASSWORD = "SPARKMIRROR_STORE_PASSWORD"


class Kind(Enum):
    """What a store is, by its first bytes."""

    PEM = "PEM"
    PKCS12 = "PKCS12"
    JKS = "JKS"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Store:
    """What a store holds, as PEM text; a key is PKCS 8 and not encrypted, "" where there is none.

    Attributes:
        key: the private key.
        chain: its certificate, then those that signed it, in order.
        trusted: all other certificates.
    """

    key: str
    chain: str
    trusted: str


def kind_of(data: bytes) -> Kind:
    """The kind of a store."""
    if data[:4] in (b"\xfe\xed\xfe\xed", b"\xce\xce\xce\xce"):
        return Kind.JKS
    if b"-----BEGIN " in data:
        return Kind.PEM
    return Kind.PKCS12 if data[:1] == b"\x30" else Kind.UNKNOWN


def open_store(data: bytes, password: str | None) -> Store:
    """Opens a store that is PKCS 12 or JKS.

    Args:
        data: the file.
        password: of the store; None where there is none.

    Raises:
        PemError: the password is wrong or missing, the store is damaged, or keytool is not there.
    """
    return _from_pkcs12(_converted(data, password) if kind_of(data) is Kind.JKS else data, password)


def _from_pkcs12(data: bytes, password: str | None) -> Store:
    try:
        with odd_certificates():
            found = pkcs12.load_pkcs12(data, password.encode() if password else None)
    except ValueError:
        hint = "is the password right?" if password else "its password is not set"
        raise PemError(f"the store cannot be opened: {hint}") from None
    others = [each.certificate for each in found.additional_certs]
    if found.key is None or found.cert is None:
        certificates = ([found.cert.certificate] if found.cert is not None else []) + others
        return Store("", "", _pem(certificates))
    chain = _chain(found.cert.certificate, others)
    key = found.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()
    return Store(key, _pem(chain), _pem([one for one in others if one not in chain]))


def _chain(certificate: x509.Certificate, others: list[x509.Certificate]) -> list[x509.Certificate]:
    """A certificate, and behind each the one that signed it."""
    found = [certificate]
    while (last := found[-1]).issuer != last.subject:
        signer = next((one for one in others if one.subject == last.issuer and one not in found), None)
        if signer is None:
            break
        found.append(signer)
    return found


def _pem(certificates: list[x509.Certificate]) -> str:
    return "".join(one.public_bytes(Encoding.PEM).decode() for one in certificates)


def _converted(data: bytes, password: str | None) -> bytes:
    """A JKS store as PKCS 12, under the same password."""
    keytool = _keytool()
    if keytool is None:
        raise PemError(
            "a JKS store is read with Java's keytool, which is neither on PATH nor below JAVA_HOME: install a JDK, or "
            "convert the store where there is one: keytool -importkeystore -srckeystore STORE -destkeystore STORE.p12 "
            "-deststoretype PKCS12"
        )
    if not password:
        raise PemError("a JKS store has a password, and none is set")
    with tempfile.TemporaryDirectory(prefix="sparkmirror-store-") as directory:
        here, there = Path(directory, "store.jks"), Path(directory, "store.p12")
        here.write_bytes(data)
        command = [
            keytool,
            *QUICK,
            "-importkeystore",
            "-noprompt",
            "-srckeystore",
            str(here),
            "-destkeystore",
            str(there),
        ]
        command += ["-deststoretype", "PKCS12", "-srcstorepass:env", _PASSWORD, "-deststorepass:env", _PASSWORD]
        try:
            done = subprocess.run(
                command,
                env=os.environ | {_PASSWORD: password},
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=KEYTOOL_SECONDS,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired) as failure:
            raise PemError(f"keytool did not read the JKS store: {type(failure).__name__}") from None
        if done.returncode or not there.is_file():
            wrong = b"password was incorrect" in done.stdout + done.stderr
            hint = "is the password right?" if wrong else "is its key's password that of the store?"
            raise PemError(f"the JKS store cannot be opened: {hint}")
        return there.read_bytes()


QUICK = ("-J-XX:TieredStopAtLevel=1", "-J-XX:+UseSerialGC")
"""For a JVM that lives for a second."""


def _keytool() -> str | None:
    home = os.environ.get("JAVA_HOME", "")
    beside = Path(home, "bin", "keytool")
    return str(beside) if home and beside.is_file() else shutil.which("keytool")
