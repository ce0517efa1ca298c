"""Why a login failed, as kafka-python's own kinds of errors, so that it acts on them.

Invariant: of a broker's own words about a login only those are shown that Kafka's brokers use, matched as a whole. A
broker that was shown a password can say it again, in any form: encoded, reversed, in parts.

Reference: ``PlainSaslServer``, ``ScramSaslServer``, ``OAuthBearerSaslServer`` and ``SaslServerAuthenticator`` of Kafka
2.8 to 4.3, ``ScramMessages`` and RFC 5802 for the errors of SCRAM.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from kafka import errors as kafka_errors
from sparkmirror.config.secret import HIDDEN
from sparkmirror.config.security_settings import SaslMechanism
from sparkmirror.kafka.said import repeats

MOST_CHARACTERS = 1_000
RUN = 16
"""Characters of a secret in a row that may not be shown; fewer may be any word."""

_SENTENCES = frozenset(
    {
        "Authentication failed: Invalid username or password",
        "Authentication failed: credentials for user could not be verified",
        "Authentication failed: Client requested an authorization id that is different from username",
        '{"status":"invalid_token"}',
        '{"status":"insufficient_scope"}',
    }
)
_OF_A_MECHANISM = (
    "Authentication failed during authentication due to invalid credentials with SASL mechanism {}",
    "Authentication failed during re-authentication due to invalid credentials with SASL mechanism {}",
    "Authentication failed due to invalid credentials with SASL mechanism {}",
    "Failed to authenticate via SASL {}",  # kafka-python's own: the exchange ended without a yes
)
_SCRAM_ERRORS = frozenset(
    """
    invalid-encoding extensions-not-supported invalid-proof channel-bindings-dont-match
    server-does-support-channel-binding channel-binding-not-supported unsupported-channel-binding-type
    unknown-user invalid-username-encoding no-resources other-error
    """.split()
)
NOT_SHOWN = "the broker's own words are not shown, since they may repeat the login; they are in the broker's log"

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
    if isinstance(failure, LoginRefusedError):
        return LoginRefusedError(shortened(without_secrets(failure.reason, secrets, password)), failure.remedy)
    if isinstance(failure, kafka_errors.SaslAuthenticationFailedError):
        return kafka_errors.SaslAuthenticationFailedError(
            refusal(" ".join(map(str, failure.args)), mechanism, password)
        )
    failure.args = tuple(
        shortened(without_secrets(each, secrets, password)) if isinstance(each, str) else each for each in failure.args
    )
    return failure


def refusal(text: str, mechanism: str, password: str | None = None) -> str:
    """What may be shown of a refused login: the name of an error other than a refusal, and words that are known. Pure.

    Args:
        text: of kafka-python: the name of the error and the broker's words, or its own words.
        mechanism: by which the client logs in.
        password: of the client, which may be a word of these.
    """
    name, _, words = text.partition(": ")
    code = name if isinstance(getattr(kafka_errors, name, None), type) else ""
    said = words if code else text
    known = said in _SENTENCES or said in {each.format(mechanism) for each in _OF_A_MECHANISM}
    told = said if known else NOT_SHOWN
    named = code and code != kafka_errors.SaslAuthenticationFailedError.__name__
    chosen = f"{code}: {told}" if named else told
    return NOT_SHOWN if told is not NOT_SHOWN and repeats(chosen, [password or ""]) else chosen


def scram_error(text: str) -> str:
    """What may be shown of an error of SCRAM. Pure."""
    return text if text in _SCRAM_ERRORS else NOT_SHOWN


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
