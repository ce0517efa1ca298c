"""The listeners a lab broker can have, and what a client must write into its properties to use one.

Everything here is pure: certificates are files by the time they are named (certificates.py).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import StrEnum
from pathlib import Path

from sparkmirror.errors import LabError
from sparkmirror.lab.certificates import KEY_PASSWORD
from sparkmirror.lab.token_endpoint import AUDIENCE, ISSUER

CONTROLLER = "CONTROLLER"
USER = "mirror"
PASSWORDS: Mapping[str, str] = {USER: "mirror-secret", "alice": "alice-secret"}
_OAUTH = "org.apache.kafka.common.security.oauthbearer"
_OAUTH_MODULE = f"{_OAUTH}.OAuthBearerLoginModule"
SCRAM_MECHANISMS = ("SCRAM-SHA-256", "SCRAM-SHA-512")


class Listener(StrEnum):
    """A listener's name.

    MTLS asks every client for a certificate, SSL and SASL_SSL ask none. LINK is plain and far away: its clients reach
    the broker through a proxy that delays every byte (link.py). SASL_OAUTH takes tokens of the cluster's own endpoint
    (token_endpoint.py), SASL_UNSIGNED those that clients make themselves.
    """

    PLAINTEXT = "PLAINTEXT"
    SSL = "SSL"
    MTLS = "MTLS"
    SASL_PLAIN = "SASL_PLAIN"
    SASL_SCRAM = "SASL_SCRAM"
    SASL_SSL = "SASL_SSL"
    SASL_OAUTH = "SASL_OAUTH"
    SASL_UNSIGNED = "SASL_UNSIGNED"
    LINK = "LINK"


PROTOCOLS: Mapping[Listener, str] = {
    Listener.PLAINTEXT: "PLAINTEXT",
    Listener.SSL: "SSL",
    Listener.MTLS: "SSL",
    Listener.SASL_PLAIN: "SASL_PLAINTEXT",
    Listener.SASL_SCRAM: "SASL_PLAINTEXT",
    Listener.SASL_SSL: "SASL_SSL",
    Listener.SASL_OAUTH: "SASL_PLAINTEXT",
    Listener.SASL_UNSIGNED: "SASL_PLAINTEXT",
    Listener.LINK: "PLAINTEXT",
}

MECHANISMS: Mapping[Listener, tuple[str, ...]] = {
    Listener.SASL_PLAIN: ("PLAIN",),
    Listener.SASL_SCRAM: SCRAM_MECHANISMS,
    Listener.SASL_SSL: ("PLAIN", *SCRAM_MECHANISMS),
    Listener.SASL_OAUTH: ("OAUTHBEARER",),
    Listener.SASL_UNSIGNED: ("OAUTHBEARER",),
}


def parse(names: Iterable[str]) -> tuple[Listener, ...]:
    """The listeners of a broker, PLAINTEXT first and always there.

    Raises:
        LabError: there is no listener of that name.
    """
    names = list(names)
    unknown = sorted(set(names) - set(Listener))
    if unknown:
        raise LabError(f"no listener {', '.join(unknown)}: the lab has {', '.join(Listener)}")
    return tuple(listener for listener in Listener if listener is Listener.PLAINTEXT or listener in names)


def needs_certificates(listeners: Iterable[Listener]) -> bool:
    """Whether one of these speaks TLS."""
    return any(PROTOCOLS[listener].endswith("SSL") for listener in listeners)


def needs_scram(listeners: Iterable[Listener]) -> bool:
    """Whether one of these needs the SCRAM users in the cluster's metadata."""
    return any(set(MECHANISMS.get(listener, ())) & set(SCRAM_MECHANISMS) for listener in listeners)


def broker_settings(
    listeners: Iterable[Listener], certificates: Path | None, jwks: Path | None = None
) -> dict[str, str]:
    """The security part of a broker's server.properties.

    Args:
        listeners: of the broker.
        certificates: the directory of certificates.py.
        jwks: the keys of the token endpoint.
    """
    settings: dict[str, str] = {}
    for listener in listeners:
        prefix = f"listener.name.{listener.lower()}."
        if PROTOCOLS[listener].endswith("SSL"):
            settings |= {
                f"{prefix}ssl.keystore.type": "PKCS12",
                f"{prefix}ssl.keystore.location": f"{certificates}/server.p12",
                f"{prefix}ssl.keystore.password": KEY_PASSWORD,
                f"{prefix}ssl.key.password": KEY_PASSWORD,
                f"{prefix}ssl.truststore.type": "PEM",
                f"{prefix}ssl.truststore.location": f"{certificates}/ca.pem",
                f"{prefix}ssl.client.auth": "required" if listener is Listener.MTLS else "none",
            }
        mechanisms = MECHANISMS.get(listener, ())
        if mechanisms:
            settings[f"{prefix}sasl.enabled.mechanisms"] = ",".join(mechanisms)
        for mechanism in mechanisms:
            settings[f"{prefix}{mechanism.lower()}.sasl.jaas.config"] = _broker_login(mechanism)
            if listener is Listener.SASL_OAUTH:
                settings |= {f"{prefix}oauthbearer.{key}": value for key, value in _looks_into_tokens(jwks).items()}
    return settings


def client_settings(
    listener: Listener, mechanism: str | None, certificates: Path | None, token_url: str = ""
) -> dict[str, str]:
    """The keys of a Java client, without bootstrap.servers, as a user writes them into mm2.properties.

    Args:
        listener: that it connects to.
        mechanism: for a listener with several; its last and strongest unless given.
        certificates: the directory of certificates.py.
        token_url: of the token endpoint.

    Raises:
        LabError: the listener does not offer this mechanism.
    """
    protocol = PROTOCOLS[listener]
    settings = {} if protocol == "PLAINTEXT" else {"security.protocol": protocol}
    if protocol.endswith("SSL"):
        settings |= {"ssl.truststore.type": "PEM", "ssl.truststore.location": f"{certificates}/ca.pem"}
    if listener is Listener.MTLS:
        settings |= {"ssl.keystore.type": "PEM", "ssl.keystore.location": f"{certificates}/client.pem"}
    offered = MECHANISMS.get(listener, ())
    if mechanism is not None and mechanism not in offered:
        raise LabError(f"listener {listener} has no mechanism {mechanism}: it has {', '.join(offered) or 'none'}")
    if offered:
        chosen = mechanism or offered[-1]
        if listener is Listener.SASL_OAUTH:
            return settings | _token_login(token_url)
        if listener is Listener.SASL_UNSIGNED:
            claim = f'unsecuredLoginStringClaim_sub="{USER}"'
            return settings | {"sasl.mechanism": chosen, "sasl.jaas.config": f"{_OAUTH_MODULE} required {claim};"}
        module = "plain.PlainLoginModule" if chosen == "PLAIN" else "scram.ScramLoginModule"
        settings |= {
            "sasl.mechanism": chosen,
            "sasl.jaas.config": f"org.apache.kafka.common.security.{module} required "
            f'username="{USER}" password="{PASSWORDS[USER]}";',
        }
    return settings


def _broker_login(mechanism: str) -> str:
    """PLAIN holds its users in the login, SCRAM finds them in the cluster's metadata."""
    if mechanism == "OAUTHBEARER":
        return f"{_OAUTH_MODULE} required;"
    if mechanism != "PLAIN":
        return "org.apache.kafka.common.security.scram.ScramLoginModule required;"
    users = " ".join(f'user_{name}="{password}"' for name, password in PASSWORDS.items())
    return f"org.apache.kafka.common.security.plain.PlainLoginModule required {users};"


def _looks_into_tokens(jwks: Path | None) -> dict[str, str]:
    return {
        "sasl.server.callback.handler.class": f"{_OAUTH}.OAuthBearerValidatorCallbackHandler",
        "sasl.oauthbearer.jwks.endpoint.url": f"file://{jwks}",
        "sasl.oauthbearer.expected.issuer": ISSUER,
        "sasl.oauthbearer.expected.audience": AUDIENCE,
    }


def _token_login(url: str) -> dict[str, str]:
    return {
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.jaas.config": f"{_OAUTH_MODULE} required;",
        "sasl.login.callback.handler.class": f"{_OAUTH}.OAuthBearerLoginCallbackHandler",
        "sasl.oauthbearer.token.endpoint.url": url,
        "sasl.oauthbearer.client.credentials.client.id": USER,
        "sasl.oauthbearer.client.credentials.client.secret": PASSWORDS[USER],
    }
