"""What GSSAPI logs in with, out of the options of Java's ``Krb5LoginModule``.

A keytab is read when the file is loaded, and travels with the settings as other secrets do; a ticket cache is a file of
the machine that connects. Options that concern what Java keeps in memory have no meaning here, and neither has Java's
own renewal of tickets: Kerberos' library gets a new ticket from the keytab when a login needs one.

Invariant: no error holds a secret.

Reference: ``com.sun.security.auth.module.Krb5LoginModule``, ``KerberosLogin.getServiceName``.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping

from sparkmirror.config import pem
from sparkmirror.config.entries import Entry, Reader
from sparkmirror.config.secret import Secret
from sparkmirror.config.security_settings import Kerberos

_SERVICE = "sasl.kerberos.service.name"
_FLAGS = ("useKeyTab", "useTicketCache")
_WITHOUT_MEANING = (
    "clearPass",
    "debug",
    "doNotPrompt",
    "refreshKrb5Config",
    "renewTGT",
    "storeKey",
    "storePass",
)
_READ = (*_FLAGS, "keyTab", "ticketCache", "principal", "serviceName", "isInitiator")
_KEYTAB_BEGINS = b"\x05"


def read_kerberos(reader: Reader, options: Mapping[str, str]) -> Kerberos:
    """Reads and checks what GSSAPI needs.

    Args:
        reader: the client's keys without any prefix.
        options: of the login module.

    Raises:
        ConfigError: an option that does not work here, one that is missing, or a keytab that cannot be read.
    """
    entry = reader.entries["sasl.jaas.config"]
    if any(name not in (*_READ, *_WITHOUT_MEANING) for name in options):
        raise entry.wrong(
            "has an option that does not work here", f"possible: {', '.join((*_READ, *_WITHOUT_MEANING))}"
        )
    if not _flag(entry, options, "isInitiator", True):
        raise entry.wrong("isInitiator=false is for brokers", "remove it")
    keytab, cache = (_flag(entry, options, name, False) for name in _FLAGS)
    if not keytab and not cache:
        raise entry.wrong("would have to ask for a password", "set useKeyTab=true with keyTab, or useTicketCache=true")
    path = options.get("keyTab", "").removeprefix("FILE:")
    return Kerberos(
        service_name=_service(reader, entry, options.get("serviceName")),
        principal=options.get("principal") or None,
        keytab=_keytab(entry, path) if keytab and path else None,
        any_keytab=keytab,
        cache=options.get("ticketCache", "") if cache else None,
    )


def _flag(entry: Entry, options: Mapping[str, str], name: str, default: bool) -> bool:
    text = options.get(name, str(default)).lower()
    if text not in ("true", "false"):
        raise entry.wrong(f"{name} is neither true nor false")
    return text == "true"


def _service(reader: Reader, jaas: Entry, option: str | None) -> str:
    key, text = reader.entry(_SERVICE), reader.text(_SERVICE)
    if key is not None and text is not None and option is not None and text != option:
        raise key.wrong("is another one than serviceName in sasl.jaas.config", "remove one of them")
    found = text or option
    if not found:
        raise jaas.wrong("does not say which service the brokers are", f"set {_SERVICE}, which is mostly kafka")
    if "/" in found or "@" in found:
        raise (key or jaas).wrong(
            "the service is no plain name", "give the part of the brokers' principals before the /"
        )
    return found


def _keytab(entry: Entry, path: str) -> Secret:
    try:
        data = pem.read(path, entry.tell(path))
    except pem.PemError as error:
        raise entry.wrong(str(error)) from None
    if not data.startswith(_KEYTAB_BEGINS):
        raise entry.wrong(f"{entry.tell(path)} is no keytab")
    return Secret(base64.b64encode(data).decode())
