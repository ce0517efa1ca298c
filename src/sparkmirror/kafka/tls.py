"""TLS as Python's ``ssl`` does it, from checked settings.

Invariant: secrets are revealed here, at the last moment, and never logged. Python's ``ssl`` loads keys from files only,
so a key lies in a file in memory for as long as that takes (``secret_files``).
"""

from __future__ import annotations

import ssl

from sparkmirror.config.security_settings import Security, TlsVersion
from sparkmirror.kafka.secret_files import secret_file

_VERSIONS = {TlsVersion.V1_2: ssl.TLSVersion.TLSv1_2, TlsVersion.V1_3: ssl.TLSVersion.TLSv1_3}


def tls_context(security: Security) -> ssl.SSLContext:
    """What a connection is encrypted with, and checked by.

    Raises:
        OSError, ValueError: a certificate or key cannot be loaded.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = _VERSIONS[security.tls_versions[0]]
    context.maximum_version = _VERSIONS[security.tls_versions[-1]]
    context.options |= ssl.OP_NO_RENEGOTIATION  # as Java's clients; a write would have to wait for the handshake
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
    with secret_file(f"{key.rstrip()}\n{chain}".encode(), ".pem") as path:
        # An empty password stops OpenSSL from asking for one on the terminal.
        context.load_cert_chain(path, password=password or "")
