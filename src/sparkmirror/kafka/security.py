"""Turns the security settings of the configuration into what kafka-python's connections take.

Invariant: secrets are revealed here, at the last moment, and never logged. PEM text from the configuration lies in a
file that only this user can read for as long as ``ssl`` needs to load it, since Python's ``ssl`` loads keys from files
only.
"""

from __future__ import annotations

import os
import ssl
import tempfile
from pathlib import Path
from typing import Any

from sparkmirror.config.settings import ClientSettings, Security, TlsVersion
from sparkmirror.errors import LinkError

_VERSIONS = {TlsVersion.V1_2: ssl.TLSVersion.TLSv1_2, TlsVersion.V1_3: ssl.TLSVersion.TLSv1_3}


def connection_options(settings: ClientSettings, alias: str) -> dict[str, Any]:
    """Gives the security arguments of a kafka-python connection manager.

    Raises:
        LinkError: a certificate or key cannot be loaded.
    """
    security = settings.security
    options: dict[str, Any] = {"security_protocol": security.protocol.value}
    if security.protocol.tls:
        try:
            options["ssl_context"] = _tls_context(security)
        except (OSError, ValueError) as failure:
            raise LinkError(
                cluster=alias,
                address=",".join(settings.bootstrap_servers),
                reason=f"cannot load the TLS certificates or key: {failure}",
                hint="are the files PEM, readable, and is the key's password right?",
                setting="ssl.keystore.location",
                lasting=True,
            ) from failure
    if security.protocol.sasl and security.mechanism is not None:
        options["sasl_mechanism"] = security.mechanism.value
        options["sasl_plain_username"] = security.username
        options["sasl_plain_password"] = security.password.reveal() if security.password else None
    return options


def _tls_context(security: Security) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = _VERSIONS[security.tls_versions[0]]
    context.maximum_version = _VERSIONS[security.tls_versions[-1]]
    context.check_hostname = security.verify_hostname
    if security.ca is None:
        context.load_default_certs()
    else:
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
