"""The listeners a lab broker can have, and what a client must write into its properties to use one.

Everything here is pure: certificates are files by the time they are named (certificates.py).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import StrEnum
from pathlib import Path

from sparkmirror.errors import LabError
from sparkmirror.lab.certificates import KEY_PASSWORD

CONTROLLER = "CONTROLLER"
USER = "mirror"
PASSWORDS: Mapping[str, str] = {USER: "mirror-secret", "alice": "alice-secret"}
SCRAM_MECHANISMS = ("SCRAM-SHA-256", "SCRAM-SHA-512")


class Listener(StrEnum):
    """A listener's name.

    MTLS asks every client for a certificate, SSL and SASL_SSL ask none. LINK is plain and far away: its clients reach
    the broker through a proxy that delays every byte (link.py).
    """

    PLAINTEXT = "PLAINTEXT"
    SSL = "SSL"
    MTLS = "MTLS"
    SASL_PLAIN = "SASL_PLAIN"
    SASL_SCRAM = "SASL_SCRAM"
    SASL_SSL = "SASL_SSL"
    LINK = "LINK"


PROTOCOLS: Mapping[Listener, str] = {
    Listener.PLAINTEXT: "PLAINTEXT",
    Listener.SSL: "SSL",
    Listener.MTLS: "SSL",
    Listener.SASL_PLAIN: "SASL_PLAINTEXT",
    Listener.SASL_SCRAM: "SASL_PLAINTEXT",
    Listener.SASL_SSL: "SASL_SSL",
    Listener.LINK: "PLAINTEXT",
}

MECHANISMS: Mapping[Listener, tuple[str, ...]] = {
    Listener.SASL_PLAIN: ("PLAIN",),
    Listener.SASL_SCRAM: SCRAM_MECHANISMS,
    Listener.SASL_SSL: ("PLAIN", *SCRAM_MECHANISMS),
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


def broker_settings(listeners: Iterable[Listener], certificates: Path | None) -> dict[str, str]:
    """The security part of a broker's server.properties."""
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
    return settings


def client_settings(listener: Listener, mechanism: str | None, certificates: Path | None) -> dict[str, str]:
    """The keys of a Java client, without bootstrap.servers, as a user writes them into mm2.properties.

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
        module = "plain.PlainLoginModule" if chosen == "PLAIN" else "scram.ScramLoginModule"
        settings |= {
            "sasl.mechanism": chosen,
            "sasl.jaas.config": f"org.apache.kafka.common.security.{module} required "
            f'username="{USER}" password="{PASSWORDS[USER]}";',
        }
    return settings


def _broker_login(mechanism: str) -> str:
    """PLAIN holds its users in the login, SCRAM finds them in the cluster's metadata."""
    if mechanism != "PLAIN":
        return "org.apache.kafka.common.security.scram.ScramLoginModule required;"
    users = " ".join(f'user_{name}="{password}"' for name, password in PASSWORDS.items())
    return f"org.apache.kafka.common.security.plain.PlainLoginModule required {users};"
