"""Settings that work, and with which others on the network can read a secret or pass for a broker.

Invariant: a line names keys and clusters, never values; two flows with the same setting get the same line.
"""

from __future__ import annotations

from collections.abc import Iterator

from sparkmirror.config.effective import origin_of
from sparkmirror.config.mirror_topics import Side
from sparkmirror.config.security_settings import (
    SaslMechanism,
    Security,
    SecurityProtocol,
    TokenEndpoint,
    UnsecuredToken,
)
from sparkmirror.config.settings import FlowConfig

HOST_NAMES = "ssl.endpoint.identification.algorithm"


def exposures(flow: FlowConfig) -> Iterator[str]:
    """One line for each key; what several clients of a cluster have in common is said once."""
    seen: set[str] = set()
    for side, end in ((Side.SOURCE, flow.source), (Side.TARGET, flow.target)):
        for role, client in (("consumer", end.consumer), ("producer", end.producer), ("admin", end.admin)):
            told = [(origin_of(flow, side, role, setting), text) for setting, text in _connection(client.security)]
            for key, text in (*told, *_endpoint(client.security)):
                line = f"{key} (cluster {end.alias}): {text}"
                if line not in seen:
                    seen.add(line)
                    yield line


def _connection(security: Security) -> Iterator[tuple[str, str]]:
    """What goes over connections to brokers: the setting, and what is to be known of it."""
    what = _in_clear(security)
    if security.protocol is SecurityProtocol.SASL_PLAINTEXT and what:
        said = f"the {what} goes over the network unencrypted, and anyone who reads it can log in: use SASL_SSL"
        yield "security.protocol", f"with {security.protocol.value} {said}"
    if security.protocol.tls and not security.verify_hostname:
        yield HOST_NAMES, _unverified("a broker")


def _in_clear(security: Security) -> str:
    """The secret that a login shows as it is; "" where there is none."""
    if security.mechanism is SaslMechanism.PLAIN:
        return "password"
    if security.oauth is not None and not isinstance(security.oauth.source, UnsecuredToken):
        return "token"
    return ""


def _endpoint(security: Security) -> Iterator[tuple[str, str]]:
    """What goes over connections to a token endpoint: the key of the file, and what is to be known of it."""
    source = security.oauth.source if security.oauth is not None else None
    if not isinstance(source, TokenEndpoint):
        return
    if source.url.reveal().lower().startswith("http:"):
        what = "secret" if source.client_secret is not None else "assertion"
        text = f"with http the client's {what} and the tokens go over the network unencrypted: use https"
        yield source.key, text
    elif source.tls is not None and not source.tls.verify_hostname:
        yield source.key, _unverified("the token endpoint")


def _unverified(whom: str) -> str:
    return (
        f"the host name is not checked, so any holder of a certificate of a trusted authority can pass for {whom}: set "
        f"{HOST_NAMES} to https"
    )
