"""Why a connection has nothing to log in with, as kafka-python's own kinds of errors, so that it acts on them."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from kafka import errors as kafka_errors
from sparkmirror.config.secret import HIDDEN
from sparkmirror.config.security_settings import SaslMechanism

MOST_CHARACTERS = 1_000
RUN = 16
"""Characters of a secret in a row that may not be shown; fewer may be any word."""

_PARTS = re.compile(r"[\x00\x01 ]")


class LoginRefusedError(kafka_errors.SaslAuthenticationFailedError):  # type: ignore[misc]  # of kafka-python
    """There is no token or ticket, and there will be none until somebody mends something."""

    def __init__(self, reason: str, remedy: str) -> None:
        super().__init__(reason)
        self.reason, self.remedy = reason, remedy

    def __str__(self) -> str:
        return self.reason


class LoginDelayedError(kafka_errors.KafkaConnectionError):  # type: ignore[misc]  # of kafka-python
    """There is no token or ticket for now."""

    def __init__(self, reason: str, remedy: str) -> None:
        super().__init__(reason)
        self.reason, self.remedy = reason, remedy

    def __str__(self) -> str:
        return self.reason


def login_failure(failure: Exception, mechanism: str, shown: Iterable[bytes], password: str | None) -> Any:
    """A failure of a login, as an exception of kafka-python, with what may be shown of it.

    Whoever the broker is, it may repeat what it was shown.

    Args:
        failure: as it was raised, with texts of the broker.
        mechanism: by which the client logs in.
        shown: the messages of the login.
        password: of the client.
    """
    if isinstance(failure, LoginDelayedError):  # nothing was sent
        return failure
    if isinstance(failure, kafka_errors.UnsupportedSaslMechanismError):
        return kafka_errors.UnsupportedSaslMechanismError(_others(str(failure), mechanism))
    if not isinstance(failure, kafka_errors.KafkaError):
        kind = type(failure).__name__
        return kafka_errors.KafkaProtocolError(f"the broker's answer to a login by {mechanism} is none ({kind})")
    secrets = [*shown]
    said = shortened(without_secrets(str(failure), secrets, password))
    if isinstance(failure, LoginRefusedError):
        return LoginRefusedError(said, failure.remedy)
    if isinstance(failure, kafka_errors.SaslAuthenticationFailedError):
        return kafka_errors.SaslAuthenticationFailedError(said)
    failure.args = tuple(
        shortened(without_secrets(each, secrets, password)) if isinstance(each, str) else each for each in failure.args
    )
    return failure


def _others(text: str, mechanism: str) -> str:
    """What a broker offers, as far as it has names of ours: any other name may be a password that it was shown."""
    listed = text.partition("Enabled mechanisms:")[2]
    offered = [each.value for each in SaslMechanism if f"'{each.value}'" in listed and each.value != mechanism]
    return f"the broker does not offer {mechanism}" + (f", but {', '.join(offered)}" if offered else "")


def shortened(text: str) -> str:
    """A text of a broker as it may stand in a message, which nobody reads to its end if it has none."""
    return text if len(text) <= MOST_CHARACTERS else f"{text[:MOST_CHARACTERS]}… ({len(text)} characters)"


def without_secrets(text: str, shown: Iterable[bytes], password: str | None) -> str:
    """What a broker says of a login, without what it was shown for it: whoever it is, it may say that again.

    Args:
        text: what it says.
        shown: the messages of the login, a password or a token among them.
        password: of the client.
    """
    parts = {part for message in shown for part in _PARTS.split(message.decode(errors="replace")) if len(part) >= 6}
    for secret in sorted(parts | {password or ""}, key=len, reverse=True):
        text = text.replace(secret, HIDDEN) if secret else text
    return _without_runs(text, parts)


def _without_runs(text: str, secrets: Iterable[str]) -> str:
    """A text without what of it, `RUN` characters or more in a row, stands in one of the secrets: a part of a token."""
    grams = {secret[at : at + RUN] for secret in secrets for at in range(len(secret) - RUN + 1)}
    said, end = "", 0
    for at in range(len(text)):
        if text[at : at + RUN] in grams:
            said += HIDDEN if at >= end else ""
            end = at + RUN
        elif at >= end:
            said += text[at]
    return said
