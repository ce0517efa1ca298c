"""What is made of a failed connection: what to do, where to look, whether waiting may help."""

from __future__ import annotations

import ssl

import pytest

from kafka import errors as kafka_errors
from sparkmirror.kafka.causes import cause_of


def unverified(code: int) -> ssl.SSLCertVerificationError:
    failure = ssl.SSLCertVerificationError("certificate verify failed")
    failure.verify_code = code
    return failure


def alert(reason: str) -> ssl.SSLError:
    failure = ssl.SSLError(1, reason)
    failure.reason = reason
    return failure


def behind(cause: BaseException) -> BaseException:
    """As the transport raises it."""
    failure: BaseException = kafka_errors.KafkaConnectionError(f"TLS handshake failed: {cause}")
    failure.__cause__ = cause
    return failure


@pytest.mark.parametrize(
    ("failure", "setting", "lasting"),
    [
        (kafka_errors.SaslAuthenticationFailedError("no"), "sasl.jaas.config", True),
        (kafka_errors.UnsupportedSaslMechanismError("no"), "sasl.mechanism", True),
        (behind(unverified(10)), "bootstrap.servers", True),
        (behind(unverified(9)), "bootstrap.servers", True),
        (behind(unverified(62)), "bootstrap.servers", True),
        (behind(unverified(64)), "bootstrap.servers", True),
        (behind(unverified(19)), "ssl.truststore.location", True),
        (behind(alert("TLSV13_ALERT_CERTIFICATE_REQUIRED")), "ssl.keystore.location", True),
        (kafka_errors.KafkaConnectionError(alert("SSLV3_ALERT_BAD_CERTIFICATE")), "ssl.keystore.location", True),
        (behind(alert("WRONG_VERSION_NUMBER")), "security.protocol", False),
        (kafka_errors.InvalidReceiveError(352518912), "security.protocol", False),
        (kafka_errors.KafkaConnectionError(ConnectionRefusedError(111, "refused")), "bootstrap.servers", False),
        (behind(alert("UNEXPECTED_EOF_WHILE_READING")), "bootstrap.servers", False),
        (TimeoutError(), "bootstrap.servers", False),
    ],
)
def test_a_refusal_lasts_and_names_its_setting_and_everything_else_may_pass(
    failure: BaseException, setting: str, lasting: bool
):
    cause = cause_of(failure)
    assert (cause.setting, cause.lasting) == (setting, lasting)
    assert cause.hint or not lasting


def test_a_wrong_host_name_is_no_reason_to_switch_the_check_off():
    hint = cause_of(behind(unverified(62))).hint
    assert "certificate made for the name" in hint
    assert "ssl.endpoint.identification.algorithm" not in hint
