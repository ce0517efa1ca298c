"""Tickets of GSSAPI, got with the package ``gssapi`` (an extra: it is built against the system's Kerberos library).

What asks the key distribution centre blocks, and so runs on a thread beside the network loop; what kafka-python's
mechanism then does needs no network. Each login names its own keytab and ticket cache instead of setting the
environment, which all clusters of a process would share.

Invariants: a keytab lies in the memory of the process (``secret_files``); so do tickets that came from it, unless a
cache is named too.

References: RFC 4752, ``kafka.net.sasl.gssapi`` of kafka-python 3, MIT Kerberos' credential store extensions.
"""

from __future__ import annotations

import base64
import hashlib
import importlib
import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from kafka.net.sasl import register_sasl_mechanism
from kafka.net.sasl.gssapi import SaslMechanismGSSAPI

from sparkmirror.config.security_settings import Kerberos
from sparkmirror.kafka.login_errors import LoginDelayedError, LoginRefusedError
from sparkmirror.kafka.secret_files import secret_file

LOOK_S = 0.02
INSTALL = (
    "install Kerberos' headers and a C compiler (Debian: apt-get install libkrb5-dev gcc python3-dev; "
    "Red Hat: dnf install krb5-devel gcc python3-devel), then: pip install 'sparkmirror[gssapi]'"
)
_UNREACHABLE = frozenset({-1765328228, -1765328164})
"""KRB5_KDC_UNREACH and KRB5_REALM_CANT_RESOLVE of MIT Kerberos."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Opening:
    """What a login begins with.

    Attributes:
        context: the security context of ``gssapi``.
        first: the bytes that go to the broker first.
        service: whom it is for, ``kafka@host``.
    """

    context: Any
    first: bytes
    service: str


class _Mechanism(SaslMechanismGSSAPI):  # type: ignore[misc]  # kafka-python carries no types
    """kafka-python's exchange, with a context that is there already."""

    def __init__(self, **config: Any) -> None:
        opening: Opening = config["sasl_kerberos_name"]
        self._is_done = self._is_authenticated = False
        self.auth_id = opening.service
        self._client_ctx = opening.context
        self._next_token = opening.first


register_sasl_mechanism("GSSAPI", _Mechanism, overwrite=True)


def missing() -> str | None:
    """Why GSSAPI does not work on this machine, or None if it does."""
    try:
        importlib.import_module("gssapi")
    except (ImportError, OSError) as failure:
        return f"GSSAPI needs the Python package gssapi, which cannot be loaded: {failure}"
    return None


class Tickets:
    """Opens logins for one cluster's settings."""

    def __init__(self, login: Kerberos) -> None:
        self._login = login

    async def opening(self, loop: Any, host: str, timeout_at: float) -> Opening:
        """What a login to a broker begins with.

        Args:
            loop: the network loop that this runs on.
            host: of the broker, as it is called in its principal.
            timeout_at: the deadline, of the monotonic clock.

        Raises:
            LoginRefusedError: there will be no ticket until somebody mends something.
            LoginDelayedError: there is none yet.
        """
        found: list[Opening | Exception] = []
        thread = threading.Thread(target=self._open, args=(host, found), name="ticket", daemon=True)
        thread.start()
        while thread.is_alive():
            if time.monotonic() >= timeout_at:
                raise LoginDelayedError("no Kerberos ticket has come in time", _remedy())
            await loop.sleep(LOOK_S)
        (outcome,) = found
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    def _open(self, host: str, found: list[Opening | Exception]) -> None:
        try:
            found.append(open_login(self._login, host))
        except Exception as failure:  # noqa: BLE001  # a thread has nobody to tell; who waits is told
            found.append(_told(failure))


def open_login(login: Kerberos, host: str) -> Opening:
    """Gets a ticket for a broker; blocks.

    Raises:
        gssapi.exceptions.GSSError: there is none.
    """
    import gssapi

    service = f"{login.service_name}@{host}"
    name = gssapi.Name(service, gssapi.NameType.hostbased_service)
    client = gssapi.Name(login.principal, gssapi.NameType.kerberos_principal) if login.principal else None
    with _store(login) as store:
        credentials = gssapi.Credentials(name=client, usage="initiate", mechs=[gssapi.MechType.kerberos], store=store)
        context = gssapi.SecurityContext(name=name, creds=credentials, usage="initiate", mech=gssapi.MechType.kerberos)
        return Opening(context=context, first=context.step(None) or b"", service=service)


@contextmanager
def _store(login: Kerberos) -> Iterator[dict[str, str] | None]:
    """Where Kerberos' library looks for keys and tickets; None for where it looks by itself."""
    store: dict[str, str] = {}
    if login.cache:
        store["ccache"] = login.cache
    elif login.cache is None:
        identity = hashlib.sha256(repr((login.principal, login.keytab and login.keytab.reveal())).encode()).hexdigest()
        store["ccache"] = f"MEMORY:sparkmirror-{identity[:32]}"
    if login.keytab is None:
        yield store or None
        return
    with secret_file(base64.b64decode(login.keytab.reveal()), ".keytab") as path:
        yield store | {"client_keytab": f"FILE:{path}"}


def _told(failure: Exception) -> LoginDelayedError | LoginRefusedError:
    minor = getattr(failure, "min_code", None)
    text = f"no Kerberos ticket: {' '.join(str(failure).split())}"
    signed = None if minor is None else (minor & 0xFFFFFFFF) - (1 << 32 if minor & 0x80000000 else 0)
    if signed in _UNREACHABLE:
        return LoginDelayedError(text, _remedy())
    return LoginRefusedError(text, "check keytab or ticket cache, principal and sasl.kerberos.service.name")


def _remedy() -> str:
    return f"is the key distribution centre of {os.environ.get('KRB5_CONFIG', '/etc/krb5.conf')} up and reachable?"
