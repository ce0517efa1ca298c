"""SCRAM as kafka-python speaks it, with the checks of RFC 5802 and of Kafka's Java client that it leaves out.

Invariant: no proof leaves for an exchange that would make the password cheap to find. A false broker that sets few
iterations or no salt gets nothing that it could search with tables; Kafka's own brokers keep no such credentials.

References: RFC 5802, section 5.1 (names) and 7 (messages); Kafka's ``ScramSaslClient`` and ``ScramMechanism``.
"""

from __future__ import annotations

import base64
from typing import Any

from kafka.net.sasl import register_sasl_mechanism
from kafka.net.sasl.scram import SaslMechanismScram, ScramClient

from sparkmirror.kafka.login_errors import LoginRefusedError, scram_error

LEAST_ITERATIONS = 4096
_LOGIN = "check user name, password and sasl.mechanism"
_BROKER = "is this the right broker? check bootstrap.servers, and use SASL_SSL, by which a broker shows who it is"


class _Mechanism(SaslMechanismScram):  # type: ignore[misc]  # kafka-python carries no types
    """kafka-python's exchange, with a client that checks what the broker says."""

    def __init__(self, **config: Any) -> None:
        super().__init__(**config)
        name = config["sasl_plain_username"]
        self._scram_client = _Client(escaped(name), config["sasl_plain_password"], config["sasl_mechanism"])

    def receive(self, auth_bytes: bytes) -> bool:
        """Takes a message of the broker; whether the exchange is over."""
        try:
            return bool(super().receive(bytes(auth_bytes)))
        except (KeyError, ValueError) as failure:
            reason = f"what the broker answered is not SCRAM, or it does not know the password: {failure}"
            raise LoginRefusedError(reason, _BROKER) from failure


class _Client(ScramClient):  # type: ignore[misc]  # kafka-python carries no types
    def process_server_first_message(self, server_first_message: bytes) -> None:
        """Takes salt and iterations, if both are fit for a password."""
        said = _attributes(server_first_message)
        if "m" in said:
            raise LoginRefusedError("the broker asks for an extension of SCRAM that is not known here", _BROKER)
        if not base64.b64decode(said["s"], validate=True):
            raise LoginRefusedError("the broker asks for a SCRAM proof without a salt", _BROKER)
        if not said["i"].isdecimal():
            raise ValueError("its number of iterations is none")  # Python's own error would repeat what was said
        iterations = int(said["i"])
        if iterations < LEAST_ITERATIONS:
            few = f"{iterations} iterations; at least {LEAST_ITERATIONS} are safe"
            raise LoginRefusedError(f"the broker asks for a SCRAM proof with {few}", _BROKER)
        super().process_server_first_message(server_first_message)

    def process_server_final_message(self, server_final_message: bytes) -> None:
        """Sees that the broker knows the password too."""
        _attributes(server_final_message)
        super().process_server_final_message(server_final_message)


def escaped(name: str) -> str:
    """A user's name as it may stand in a message."""
    return name.replace("=", "=3D").replace(",", "=2C")


def register() -> None:
    """Has kafka-python log in by these classes."""
    for mechanism in ScramClient.MECHANISMS:
        register_sasl_mechanism(mechanism, _Mechanism, overwrite=True)


def _attributes(message: bytes) -> dict[str, str]:
    """What a message of the broker says, by the letter of each attribute.

    Raises:
        LoginRefusedError: it says that the login failed.
        ValueError: it is no message of SCRAM.
    """
    said = dict(_pair(part) for part in message.decode().split(","))
    if "e" in said:
        raise LoginRefusedError(f"the broker refuses the SCRAM login: {scram_error(said['e'])}", _LOGIN)
    return said


def _pair(part: str) -> tuple[str, str]:
    letter, mark, value = part.partition("=")
    if not mark:
        raise ValueError("an attribute has no value")
    return letter, value
