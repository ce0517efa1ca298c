"""Why a connection failed, in a person's words: what to do, which setting to look at, whether waiting may help.

A refusal lasts when both ends have spoken and said no: a login that is turned down, a certificate that does not hold.
Everything else may pass by itself, since a broker that starts, a network that is cut and a wrong address look alike.

Reference: ``X509_V_ERR_*`` of OpenSSL's ``x509_vfy.h``; the alerts of TLS (RFC 8446, section 6.2).
"""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from dataclasses import dataclass, replace

from kafka import errors as kafka_errors
from sparkmirror.config.security_settings import SaslMechanism
from sparkmirror.kafka.login_errors import LoginDelayedError, LoginRefusedError

_NOT_YET_VALID, _EXPIRED = 9, 10
_OTHER_NAMES = frozenset({62, 63, 64})
"""X509_V_ERR_HOSTNAME_MISMATCH, EMAIL_MISMATCH, IP_ADDRESS_MISMATCH."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cause:
    """What is known of a failure.

    Attributes:
        hint: what to do; "" where that is not known.
        setting: the client's setting to look at.
        lasting: whether it stays so until somebody changes something.
    """

    hint: str = ""
    setting: str = "bootstrap.servers"
    lasting: bool = False


NOT_REACHED = Cause(
    hint="are the bootstrap servers right and up, and is security.protocol what the listener expects?",
)
_LOGIN = Cause(hint="check user name, password and sasl.mechanism", setting="sasl.jaas.config", lasting=True)
_LOGINS: Mapping[SaslMechanism | None, Cause] = {
    SaslMechanism.GSSAPI: replace(
        _LOGIN, hint="check sasl.kerberos.service.name, the brokers' principals and all clocks"
    ),
    SaslMechanism.OAUTHBEARER: replace(
        _LOGIN,
        hint="does the listener take tokens of this issuer, for this audience? are all clocks right?",
    ),
}
_MECHANISM = Cause(
    hint="the listener offers other SASL mechanisms: check sasl.mechanism", setting="sasl.mechanism", lasting=True
)
_PLAIN = Cause(hint="is TLS missing? set security.protocol", setting="security.protocol")
_NO_TLS = Cause(hint="the listener does not speak TLS: check security.protocol", setting="security.protocol")
_PERIOD = Cause(hint="renew the broker's certificate, and see that the clocks of both machines are right", lasting=True)
_NAME = Cause(
    hint="use a name in bootstrap.servers and advertised.listeners that the broker's certificate has, or have a "
    "certificate made for the name that is used; else somebody may be passing for the broker",
    lasting=True,
)
_AUTHORITY = Cause(
    hint="check ssl.truststore: the authority that signed the broker's certificate is not in it",
    setting="ssl.truststore.location",
    lasting=True,
)
_TURNED_AWAY = Cause(
    hint="the broker turns this client's TLS down: check ssl.keystore, which must hold a certificate that the broker "
    "trusts and that is not expired, and ssl.enabled.protocols",
    setting="ssl.keystore.location",
    lasting=True,
)


def cause_of(failure: BaseException, mechanism: SaslMechanism | None = None) -> Cause:
    """What is known of an exception of kafka-python.

    Args:
        failure: as it was raised.
        mechanism: by which the client logs in.
    """
    if isinstance(failure, LoginRefusedError | LoginDelayedError):
        return replace(_LOGIN, hint=failure.remedy, lasting=isinstance(failure, LoginRefusedError))
    if isinstance(failure, kafka_errors.SaslAuthenticationFailedError):
        return _LOGINS.get(mechanism, _LOGIN)
    if isinstance(failure, kafka_errors.UnsupportedSaslMechanismError):
        return _MECHANISM
    if isinstance(failure, kafka_errors.InvalidReceiveError):
        return _PLAIN
    tls = _tls_failure(failure)
    return Cause() if tls is None else _tls_cause(tls)


def _tls_cause(failure: ssl.SSLError) -> Cause:
    if isinstance(failure, ssl.SSLCertVerificationError):
        if failure.verify_code in (_NOT_YET_VALID, _EXPIRED):
            return _PERIOD
        return _NAME if failure.verify_code in _OTHER_NAMES else _AUTHORITY
    reason = failure.reason or ""
    if reason in ("WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE"):
        return _NO_TLS
    return _TURNED_AWAY if "ALERT" in reason else Cause()


def _tls_failure(failure: BaseException | None) -> ssl.SSLError | None:
    """The error of TLS that lies behind one of a connection."""
    for _ in range(4):
        if failure is None or isinstance(failure, ssl.SSLError):
            return failure
        inner = failure.args[0] if failure.args else None
        failure = failure.__cause__ or (inner if isinstance(inner, BaseException) else None)
    return None
