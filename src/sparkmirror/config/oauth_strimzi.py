"""The options that Strimzi's OAuth library reads from a login module, as its operator writes them.

What shows another credential than a client secret, an assertion or a token is refused. Options that concern how the
Java client looks into its own token, or its metrics, have no meaning here: brokers look into tokens themselves.

Reference: ``io.strimzi.kafka.oauth.client.JaasClientOauthLoginCallbackHandler`` and ``ClientConfig``. Its environment
variables (``OAUTH_CLIENT_ID`` and so on) are not read; a config provider puts them into options.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from sparkmirror.config import pem
from sparkmirror.config.entries import Entry
from sparkmirror.config.secret import Secret
from sparkmirror.config.security_settings import (
    AssertionFile,
    FixedAssertion,
    FixedToken,
    OAuth,
    TokenEndpoint,
    TokenFile,
)

ASSERTION_TYPE = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"

TOKEN = re.compile(r"[-_~+/.a-zA-Z0-9]+=*")
"""What a broker takes as a token."""

_READ = (
    "oauth.access.token",
    "oauth.access.token.location",
    "oauth.token.endpoint.uri",
    "oauth.client.id",
    "oauth.client.secret",
    "oauth.client.assertion",
    "oauth.client.assertion.location",
    "oauth.client.assertion.type",
    "oauth.scope",
    "oauth.audience",
    "oauth.max.token.expiry.seconds",
    "oauth.connect.timeout.seconds",
    "oauth.read.timeout.seconds",
)
_READ_ELSEWHERE = ("oauth.sasl.extension.", "oauth.ssl.")
_WITHOUT_MEANING = (
    "oauth.access.token.is.jwt",
    "oauth.config.id",
    "oauth.enable.metrics",
    "oauth.fallback.username.claim",
    "oauth.fallback.username.prefix",
    "oauth.force.jsonpath.username.extraction",
    "oauth.http.retries",  # sasl.login.retry.backoff.ms and its maximum hold
    "oauth.http.retry.pause.millis",
    "oauth.include.accept.header",
    "oauth.tokens.not.jwt",
    "oauth.username.claim",
    "oauth.username.prefix",
)
_GRANT = "oauth.client.credentials.grant.type"


def read_strimzi(entry: Entry, options: Mapping[str, str]) -> OAuth:
    """What the options say; how an endpoint is connected to is read elsewhere.

    Raises:
        ConfigError: an option that does not work here, or one that is missing.
    """
    for name in options:
        if name not in (*_READ, *_WITHOUT_MEANING, _GRANT) and not name.startswith(_READ_ELSEWHERE):
            shown = name if re.fullmatch(r"oauth\.[a-z.]{1,60}", name) else "of another library"
            raise entry.wrong(
                f"the option {shown} does not work here", "use oauth.client.id with oauth.client.secret, or a token"
            )
    if options.get(_GRANT, "client_credentials") != "client_credentials":
        raise entry.wrong(f"{_GRANT} can only be client_credentials", "remove it")
    return OAuth(source=_source(entry, options), longest_s=_seconds(entry, options, "oauth.max.token.expiry.seconds"))


def _source(entry: Entry, options: Mapping[str, str]) -> FixedToken | TokenFile | TokenEndpoint:
    token, path = options.get("oauth.access.token", "").strip(), options.get("oauth.access.token.location", "").strip()
    if token:
        if not TOKEN.fullmatch(token):
            raise entry.wrong("oauth.access.token is no token", "it has letters, digits and . _ ~ + / - only")
        return FixedToken(token=Secret(token), key=entry.key)
    if path:
        return TokenFile(path=_readable(entry, path), shown=entry.tell(path), key=entry.key)
    url = options.get("oauth.token.endpoint.uri", "").strip()
    assertion = _assertion(entry, options)
    needed = ("oauth.token.endpoint.uri", "oauth.client.id", *(("oauth.client.secret",) if assertion is None else ()))
    missing = [name for name in needed if not options.get(name)]
    if missing:
        raise entry.wrong(f"has no {' and no '.join(missing)}", "set them, or oauth.access.token")
    if not re.fullmatch(r"https?://[^\s@/?#]+([/?#]\S*)?", url):
        raise entry.wrong("oauth.token.endpoint.uri is no URL of a token endpoint", "such as https://host/path")
    connect, read = (_seconds(entry, options, f"oauth.{name}.timeout.seconds") for name in ("connect", "read"))
    default = 60  # of Strimzi's library
    return TokenEndpoint(
        url=Secret(url),
        shown="oauth.token.endpoint.uri",
        key=entry.key,
        client_id=options["oauth.client.id"],
        client_secret=Secret(options["oauth.client.secret"]) if assertion is None else None,
        assertion=assertion,
        credentials_key=entry.key,
        scope=options.get("oauth.scope", ""),
        audience=options.get("oauth.audience", ""),
        connect_timeout_ms=(connect or default) * 1000,
        read_timeout_ms=(read or default) * 1000,
    )


def _assertion(entry: Entry, options: Mapping[str, str]) -> FixedAssertion | AssertionFile | None:
    """What the client shows instead of a secret; a secret wins, as in Strimzi's library."""
    if options.get("oauth.client.secret"):
        return None
    kind = options.get("oauth.client.assertion.type", ASSERTION_TYPE)
    if kind != ASSERTION_TYPE:
        raise entry.wrong("oauth.client.assertion.type is not possible", f"possible: {ASSERTION_TYPE}")
    text = options.get("oauth.client.assertion", "").strip()
    path = options.get("oauth.client.assertion.location", "").strip()
    if text:
        if not TOKEN.fullmatch(text):
            raise entry.wrong("oauth.client.assertion is none", "it has letters, digits and . _ ~ + / - only")
        return FixedAssertion(assertion=Secret(text), key=entry.key)
    if not path:
        return None
    return AssertionFile(path=_readable(entry, path), shown=entry.tell(path), key=entry.key)


def _readable(entry: Entry, path: str) -> str:
    try:
        pem.read(path, entry.tell(path))
    except pem.PemError as error:
        raise entry.wrong(str(error)) from None
    return path


def _seconds(entry: Entry, options: Mapping[str, str], name: str) -> int | None:
    text = options.get(name, "").strip()
    if not text:
        return None
    if not re.fullmatch(r"[1-9][0-9]{0,8}", text):
        raise entry.wrong(f"{name} is no number of seconds", "give a whole number above 0, or leave it out")
    return int(text)
