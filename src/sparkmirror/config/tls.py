"""The ``ssl.*`` keys of one client: whom it trusts, the certificate that it shows, the versions that it speaks.

Keys that would change who is trusted and that have no counterpart in OpenSSL are refused with the way round.

Invariant: no error holds a secret.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from sparkmirror.config import pem
from sparkmirror.config.entries import Entry, Reader, one_of
from sparkmirror.config.secret import Secret
from sparkmirror.config.security_settings import Security, TlsVersion
from sparkmirror.config.stores import Kind, Store, kind_of, open_store

_STORE_TYPES = ("PEM", "PKCS12", "JKS")
_REFUSED: Mapping[str, str] = {
    "ssl.engine.factory.class": "use PEM certificates: ssl.truststore.type=PEM, ssl.keystore.type=PEM",
    "ssl.provider": "remove it; OpenSSL does the encryption here",
    "ssl.cipher.suites": "remove it and limit the suites at the brokers, or in OpenSSL's configuration (OPENSSL_CONF)",
}


def read_tls(reader: Reader, security: Security) -> Security:
    """The same security with what the ``ssl.*`` keys say.

    Raises:
        ConfigError: a setting that does not work here, that cannot work, or a file that cannot be read.
    """
    for name, remedy in _REFUSED.items():
        reader.refuse(name, "does not work here", remedy)
    chain, key, key_password = _identity(reader)
    return replace(
        security,
        ca=trusted(reader),
        certificate_chain=chain,
        private_key=key,
        key_password=key_password,
        tls_versions=_tls_versions(reader),
        verify_hostname=_verify_hostname(reader),
    )


def trusted(reader: Reader) -> str | None:
    """PEM text of the certificates that ``ssl.truststore.*`` names; None where it names none.

    Raises:
        ConfigError: a store that cannot be read.
    """
    found = _store(reader, "ssl.truststore", "certificates")
    if found is None:
        return None
    entry, text, store = found
    try:
        if store is None:
            return pem.certificates(text)
        if store.key:
            raise pem.PemError("it holds a private key: a store of trusted certificates has none, export those alone")
        return pem.certificates(store.trusted)
    except pem.PemError as error:
        raise entry.wrong(str(error)) from None


def _identity(reader: Reader) -> tuple[str | None, Secret | None, Secret | None]:
    """The client's certificate chain, its key and the key's password."""
    found = _store(reader, "ssl.keystore", "key")
    chain_entry = reader.entry("ssl.keystore.certificate.chain")
    chain = reader.password("ssl.keystore.certificate.chain")
    if found is None:
        if chain_entry is not None and chain is not None:
            raise chain_entry.wrong("has no private key beside it", "set ssl.keystore.key too")
        return None, None, None
    entry, text, store = found
    if entry.key.endswith("ssl.keystore.key") and chain is None:
        raise entry.wrong("has no certificate beside it", "set ssl.keystore.certificate.chain too")
    if store is not None:
        _check_key_password(reader)
        if not store.key:
            raise entry.wrong("there is no private key in it", "a store of trusted certificates is ssl.truststore")
        return store.chain, Secret(store.key), None
    password = reader.password("ssl.key.password")
    try:
        certificates = pem.certificates(chain.reveal() if chain else text)
        key = pem.private_key(text)
        pem.check_pair(certificates, key, password.reveal() if password else None)
    except pem.PemError as error:
        raise entry.wrong(str(error)) from None
    return certificates, Secret(key), password


def _check_key_password(reader: Reader) -> None:
    """A key in a store is read with the store's password."""
    entry, own = reader.entry("ssl.key.password"), reader.password("ssl.key.password")
    if entry is not None and own is not None and own != reader.password("ssl.keystore.password"):
        raise entry.wrong(
            "is not the password of the store, and a key with a password of its own is not read from one here",
            "give key and store one password, or write the key as PEM: ssl.keystore.type=PEM",
        )


def _store(reader: Reader, store: str, inline: str) -> tuple[Entry, str, Store | None] | None:
    """A store, from a file or from the value itself: the entry that gave it, and its PEM text or what it holds."""
    place, value = reader.entry(f"{store}.location"), reader.entry(f"{store}.{inline}")
    path, text = reader.text(f"{store}.location"), reader.password(f"{store}.{inline}")
    if path and text and value is not None:
        raise value.wrong(f"stands beside {store}.location", "remove one of them")
    declared = (reader.text(f"{store}.type") or "").upper()
    if text and value is not None:
        if declared != "PEM":
            absent = "" if declared else f"; {store}.type is not set, which means JKS"
            raise value.wrong(f"needs {store}.type=PEM{absent}", f"set {store}.type=PEM")
        return value, text.reveal(), None
    if not path or place is None:
        return None
    kind_entry = reader.entry(f"{store}.type")
    if kind_entry is not None and declared not in ("", *_STORE_TYPES):
        shown = kind_entry.shown_choice(_STORE_TYPES)
        raise kind_entry.wrong(f"{shown} is no type of store that is read here", one_of(_STORE_TYPES))
    try:
        return _opened(reader, store, place, path, declared)
    except pem.PemError as error:
        raise place.wrong(str(error)) from None


def _opened(reader: Reader, store: str, place: Entry, path: str, declared: str) -> tuple[Entry, str, Store | None]:
    data, shown = pem.read(path, place.tell(path)), place.tell(path)
    kind = kind_of(data)
    if kind is Kind.PEM and declared == "PEM":
        return place, data.decode("ascii", errors="replace"), None
    if (kind is Kind.PEM) != (declared == "PEM") or kind is Kind.UNKNOWN:
        said = f"{store}.type is {declared or 'not set, which means JKS'}"
        if kind is Kind.UNKNOWN:
            raise pem.PemError(f"{shown} is neither PEM nor PKCS12 nor JKS ({said})")
        raise pem.PemError(f"{shown} is {kind.value}, but {said}: set {store}.type={kind.value}")
    password = reader.password(f"{store}.password")
    return place, "", open_store(data, password.reveal() if password else None)


def _tls_versions(reader: Reader) -> tuple[TlsVersion, ...]:
    wanted = reader.listing("ssl.enabled.protocols", tuple(version.value for version in TlsVersion))
    found = tuple(version for version in TlsVersion if version.value in wanted)
    entry = reader.entry("ssl.enabled.protocols")
    if not found and entry is not None and wanted:
        shown = entry.shown_choice(version.value for version in TlsVersion)
        raise entry.wrong(f"{shown} names no version that is still safe", one_of(v.value for v in TlsVersion))
    return found or tuple(TlsVersion)


def _verify_hostname(reader: Reader) -> bool:
    entry = reader.entry("ssl.endpoint.identification.algorithm")
    if entry is None:
        return True
    text = reader.text("ssl.endpoint.identification.algorithm")
    if text is not None and text.lower() != "https":
        raise entry.wrong(f"{entry.shown_choice(('https',))} is not possible", "possible: https, or empty for no check")
    return text is not None
