"""Turns the security settings of the configuration into what kafka-python's connections take.

Invariant: secrets are revealed at the last moment, and never logged.
"""

from __future__ import annotations

from typing import Any

from sparkmirror.config.security_settings import Kerberos, SaslMechanism
from sparkmirror.config.settings import ClientSettings
from sparkmirror.errors import LinkError
from sparkmirror.kafka import scram
from sparkmirror.kafka.kerberos import INSTALL, Tickets, missing
from sparkmirror.kafka.tls import tls_context
from sparkmirror.kafka.tokens import Tokens

scram.register()


def connection_options(settings: ClientSettings, alias: str) -> dict[str, Any]:
    """Gives the security arguments of a kafka-python connection manager.

    Raises:
        LinkError: a certificate or key cannot be loaded, or GSSAPI's package is not there.
    """
    security = settings.security
    options: dict[str, Any] = {"security_protocol": security.protocol.value}
    if security.protocol.tls:
        try:
            options["ssl_context"] = tls_context(security)
        except (OSError, ValueError) as failure:
            raise LinkError(
                cluster=alias,
                address=",".join(settings.bootstrap_servers),
                reason=f"cannot load the TLS certificates or key: {failure}",
                hint="are the files PEM, readable, and is the key's password right?",
                setting="ssl.keystore.location",
                lasting=True,
            ) from failure
    if not security.protocol.sasl or security.mechanism is None:
        return options
    options["sasl_mechanism"] = security.mechanism.value
    if security.mechanism is SaslMechanism.GSSAPI and security.kerberos is not None:
        options["sasl_kerberos_name"] = _tickets(settings, security.kerberos, alias)
    elif security.mechanism is SaslMechanism.OAUTHBEARER and security.oauth is not None:
        options["sasl_oauth_token_provider"] = Tokens(security.oauth)
    else:
        options["sasl_plain_username"] = security.username
        options["sasl_plain_password"] = security.password.reveal() if security.password else None
    return options


def _tickets(settings: ClientSettings, login: Kerberos, alias: str) -> Tickets:
    reason = missing()
    if reason is not None:
        raise LinkError(
            cluster=alias,
            address=",".join(settings.bootstrap_servers),
            reason=reason,
            hint=INSTALL,
            setting="sasl.mechanism",
            lasting=True,
        )
    return Tickets(login)
