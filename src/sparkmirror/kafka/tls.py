"""TLS as Python's ``ssl`` does it, from checked settings.

Invariant: secrets are revealed here, at the last moment, and never logged. PEM text from the configuration lies in a
file that only this user can read for as long as ``ssl`` needs to load it, since Python's ``ssl`` loads keys from files
only.
"""

from __future__ import annotations

import os
import ssl
import tempfile
from pathlib import Path

from sparkmirror.config.security_settings import Security, TlsVersion

_VERSIONS = {TlsVersion.V1_2: ssl.TLSVersion.TLSv1_2, TlsVersion.V1_3: ssl.TLSVersion.TLSv1_3}


def tls_context(security: Security) -> ssl.SSLContext:
    """What a connection is encrypted with, and checked by.

    Raises:
        OSError, ValueError: a certificate or key cannot be loaded.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = _VERSIONS[security.tls_versions[0]]
    context.maximum_version = _VERSIONS[security.tls_versions[-1]]
    context.check_hostname = security.verify_hostname
    if security.ca is None or security.system_too:
        context.load_default_certs()
    if security.ca is not None:
        context.load_verify_locations(cadata=security.ca)
    if security.certificate_chain is not None and security.private_key is not None:
        password = security.key_password.reveal() if security.key_password else None
        _load_identity(context, security.certificate_chain, security.private_key.reveal(), password)
    return context


def _load_identity(context: ssl.SSLContext, chain: str, key: str, password: str | None) -> None:
    handle, path = tempfile.mkstemp(prefix="sparkmirror-", suffix=".pem")
    try:
        with os.fdopen(handle, "w") as file:
            file.write(key.rstrip() + "\n" + chain)
        # An empty password stops OpenSSL from asking for one on the terminal.
        context.load_cert_chain(path, password=password or "")
    finally:
        Path(path).unlink()
