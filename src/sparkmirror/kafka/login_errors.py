"""Why a connection has nothing to log in with, as kafka-python's own kinds of errors, so that it acts on them."""

from __future__ import annotations

import re
from collections.abc import Iterable

from kafka import errors as kafka_errors
from sparkmirror.config.secret import HIDDEN

MOST_CHARACTERS = 1_000
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
    return text
