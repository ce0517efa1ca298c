"""Why a connection has nothing to log in with, as kafka-python's own kinds of errors, so that it acts on them."""

from __future__ import annotations

from kafka import errors as kafka_errors


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
