"""Where the tokens of OAUTHBEARER come from, out of Kafka's keys and the options of its login module.

Three ways, told apart by ``sasl.login.callback.handler.class`` and, where it is not set, by what is there: Kafka's own
handler (a token endpoint, or a file), Strimzi's (see oauth_strimzi.py), and the unsecured one of a broker that is only
tried out. Like Kafka 4.1 and later, keys win over options of the login module.

Invariant: no error holds a secret.

References: KIP-768, KIP-1139, KIP-1258; ``ClientCredentialsJwtRetriever``, ``JwtBearerJwtRetriever``,
``OAuthBearerUnsecuredLoginCallbackHandler``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from urllib.parse import SplitResult, urlsplit
from urllib.request import url2pathname

from sparkmirror.config import pem, tls
from sparkmirror.config.entries import LONG_MAX, Entry, Reader, one_of
from sparkmirror.config.key_names import shown_url
from sparkmirror.config.oauth_assertion import read_assertion
from sparkmirror.config.oauth_strimzi import read_strimzi
from sparkmirror.config.oauth_unsecured import PREFIX as _UNSECURED_PREFIX
from sparkmirror.config.oauth_unsecured import read_unsecured
from sparkmirror.config.secret import Secret
from sparkmirror.config.security_settings import (
    OAuth,
    Refresh,
    Security,
    SecurityProtocol,
    TokenEndpoint,
    TokenFile,
)

URL = "sasl.oauthbearer.token.endpoint.url"
CERTIFICATES = "sasl.oauthbearer.token.endpoint.certificates"
_HANDLER = "sasl.login.callback.handler.class"
_CLIENT_ID = "sasl.oauthbearer.client.credentials.client.id"
_CLIENT_SECRET = "sasl.oauthbearer.client.credentials.client.secret"
_PACKAGE = "org.apache.kafka.common.security.oauthbearer."
_KAFKA, _STRIMZI, _UNSECURED = "Kafka", "Strimzi", "unsecured"
_HANDLERS: Mapping[str, str] = {
    f"{_PACKAGE}OAuthBearerLoginCallbackHandler": _KAFKA,
    f"{_PACKAGE}secured.OAuthBearerLoginCallbackHandler": _KAFKA,
    "io.strimzi.kafka.oauth.client.JaasClientOauthLoginCallbackHandler": _STRIMZI,
    f"{_PACKAGE}internals.unsecured.OAuthBearerUnsecuredLoginCallbackHandler": _UNSECURED,
}
_BEARER = f"{_PACKAGE}JwtBearerJwtRetriever"
_RETRIEVERS: Mapping[str, tuple[str, ...]] = {
    f"{_PACKAGE}DefaultJwtRetriever": ("http", "https", "file"),
    f"{_PACKAGE}ClientCredentialsJwtRetriever": ("http", "https"),
    f"{_PACKAGE}FileJwtRetriever": ("file",),
    _BEARER: ("http", "https"),
}
_VALIDATORS = (f"{_PACKAGE}DefaultJwtValidator", f"{_PACKAGE}ClientJwtValidator")
_OTHER_WAY = (
    f"use {_CLIENT_ID} and {_CLIENT_SECRET}, or {URL}=file:/... with a token that another program keeps up to date"
)
_EXTENSION_NAME, _EXTENSION_VALUE = re.compile(r"[A-Za-z]+"), re.compile(r"[\x21-\x7e \t\r\n]+")


def read_oauth(reader: Reader, options: Mapping[str, str]) -> OAuth:
    """Reads and checks what OAUTHBEARER needs.

    Args:
        reader: the client's keys without any prefix.
        options: of the login module; none where there is no ``sasl.jaas.config``.

    Raises:
        ConfigError: a setting that does not work here or that cannot work, or a file that cannot be read.
    """
    _known(reader, "sasl.oauthbearer.jwt.validator.class", _VALIDATORS)
    way = _way(reader, options)
    if way is _UNSECURED:
        prefix = f"{_UNSECURED_PREFIX}Extension_"
        found = OAuth(
            source=read_unsecured(_login_entry(reader), options), extensions=_extensions(reader, options, prefix)
        )
    elif way is _STRIMZI:
        found = read_strimzi(_login_entry(reader), options)
        found = replace(found, extensions=_extensions(reader, options, "oauth.sasl.extension."))
    else:
        found = OAuth(source=_of_kafka(reader, options), extensions=_extensions(reader, options, "extension_"))
    if isinstance(found.source, TokenEndpoint):
        found = replace(found, source=_spoken_to(reader, found.source, options))
    return replace(found, refresh=_refresh(reader))


def _way(reader: Reader, options: Mapping[str, str]) -> str:
    entry, name = reader.entry(_HANDLER), reader.text(_HANDLER)
    if entry is not None and name is not None:
        if name not in _HANDLERS:
            raise entry.wrong("is a Java class that is not known here", f"{one_of(_HANDLERS)}; or {_OTHER_WAY}")
        return _HANDLERS[name]
    if reader.text(URL) is not None:
        return _KAFKA
    if any(name.startswith("oauth.") for name in options):
        return _STRIMZI
    if any(name.startswith(_UNSECURED_PREFIX) for name in options):
        return _UNSECURED
    raise _login_entry(reader).wrong("logs in with tokens, but nothing says where they come from", _OTHER_WAY)


def _login_entry(reader: Reader) -> Entry:
    """The key to name when something about the login is wrong."""
    return reader.entry("sasl.jaas.config") or reader.entries["sasl.mechanism"]


def _known(reader: Reader, name: str, classes: Mapping[str, object] | tuple[str, ...]) -> str | None:
    text = reader.text(name)
    if text is not None and text not in classes:
        raise reader.entries[name].wrong(f"is a Java class that is not known here; {_OTHER_WAY}", one_of(classes))
    return text


def _of_kafka(reader: Reader, options: Mapping[str, str]) -> TokenEndpoint | TokenFile:
    entry, text = reader.entry(URL), reader.text(URL)
    if entry is None or text is None:
        raise _login_entry(reader).wrong(f"gets its tokens from {URL}, which is not set", f"set {URL}")
    schemes = ("http", "https", "file")
    retriever = _known(reader, "sasl.oauthbearer.jwt.retriever.class", _RETRIEVERS)
    url = split_url(entry, text, _RETRIEVERS[retriever] if retriever else schemes)
    if url.scheme == "file":
        return _file(entry, url)
    bearer = retriever == _BEARER
    assertion = read_assertion(reader, wanted=bearer)
    client_id, secret, named = _client(reader, entry, options, shows_secret=assertion is None)
    return TokenEndpoint(
        url=Secret(text),
        shown=entry.tell(shown_url(url)),
        key=entry.key,
        client_id="" if bearer else client_id,
        client_secret=secret,
        credentials_key=named if assertion is None else assertion.key,
        assertion=assertion,
        bearer=bearer,
        scope=reader.text("sasl.oauthbearer.scope") or options.get("scope", "").strip(),
        encode_credentials=reader.boolean("sasl.oauthbearer.header.urlencode", False),
    )


def _client(
    reader: Reader, endpoint: Entry, options: Mapping[str, str], *, shows_secret: bool
) -> tuple[str, Secret | None, str]:
    """The client's id and secret, and the key that names it."""
    given, secret = reader.text(_CLIENT_ID), reader.password(_CLIENT_SECRET)
    named = reader.entry(_CLIENT_ID) if given else None
    client_id = given or options.get("clientId", "").strip()
    client_secret = (secret.reveal() if secret else options.get("clientSecret", "")).strip()
    if shows_secret:
        for value, key in ((client_id, _CLIENT_ID), (client_secret, _CLIENT_SECRET)):
            if not value:
                raise endpoint.wrong(f"is asked for tokens, but {key} is not set", f"set {key}")
    return client_id, Secret(client_secret) if shows_secret else None, (named or _login_entry(reader)).key


_SENDABLE = re.compile(r"[!-~]+")


def split_url(entry: Entry, text: str, schemes: tuple[str, ...]) -> SplitResult:
    """The parts of a URL that is worth asking.

    Raises:
        ConfigError: it is none, of another scheme, or holds a password.
    """
    try:
        url = urlsplit(text)
        fits = url.scheme in schemes and (bool(url.path) if url.scheme == "file" else bool(url.hostname))
        fits = fits and url.port != 0 and _SENDABLE.fullmatch(text) is not None
    except ValueError:
        fits = False
    if not fits:
        raise entry.wrong("is no URL of a token endpoint", f"it must begin with {', '.join(schemes)}")
    if url.username is not None:
        raise entry.wrong("holds a user name", f"set {_CLIENT_ID} and {_CLIENT_SECRET}")
    return url


def _file(entry: Entry, url: SplitResult) -> TokenFile:
    path = url2pathname(url.path)
    try:
        pem.read(path, entry.tell(path))
    except pem.PemError as error:
        raise entry.wrong(str(error)) from None
    return TokenFile(path=path, shown=entry.tell(path), key=entry.key)


def _spoken_to(reader: Reader, endpoint: TokenEndpoint, options: Mapping[str, str]) -> TokenEndpoint:
    """The endpoint with how it is connected to."""
    backoff = reader.integer("sasl.login.retry.backoff.ms", endpoint.retry_backoff_ms, low=1, high=LONG_MAX)
    longest = reader.integer("sasl.login.retry.backoff.max.ms", endpoint.retry_backoff_max_ms, low=0, high=LONG_MAX)
    if backoff > longest:
        key = next(
            name for name in ("sasl.login.retry.backoff.ms", "sasl.login.retry.backoff.max.ms") if reader.entry(name)
        )
        raise reader.entries[key].wrong("sasl.login.retry.backoff.ms is above sasl.login.retry.backoff.max.ms")
    secure = urlsplit(endpoint.url.reveal()).scheme == "https"
    return replace(
        endpoint,
        connect_timeout_ms=reader.integer("sasl.login.connect.timeout.ms", endpoint.connect_timeout_ms, low=1),
        read_timeout_ms=reader.integer("sasl.login.read.timeout.ms", endpoint.read_timeout_ms, low=1),
        retry_backoff_ms=backoff,
        retry_backoff_max_ms=longest,
        tls=_tls(reader, options) if secure else None,
    )


def _tls(reader: Reader, options: Mapping[str, str]) -> Security:
    """As in Java the ``ssl.*`` options of the login module, if there are any.

    Else the system's authorities are trusted, as in Java, and those that the file trusts for the cluster beside them.
    """
    jaas = _login_entry(reader)
    own = {
        name.removeprefix("oauth."): Entry(file=jaas.file, key=f"{jaas.key}: {name}", raw=value)
        for name, value in options.items()
        if name.startswith(("ssl.", "oauth.ssl."))
    }
    if "ssl.truststore.certificates" in own and "ssl.truststore.type" not in own:
        own["ssl.truststore.type"] = replace(own["ssl.truststore.certificates"], raw="PEM")
    found = tls.read_tls(Reader(entries=own, resolve=lambda entry: entry.raw), Security(protocol=SecurityProtocol.SSL))
    given, text = reader.entry(CERTIFICATES), reader.text(CERTIFICATES)
    if given is not None and text is not None:
        try:
            return replace(found, ca=pem.certificates(text))
        except pem.PemError as error:
            raise given.wrong(str(error)) from None
    if found.ca is not None:
        return found
    beside = tls.trusted(reader)
    return replace(found, ca=beside, system_too=beside is not None)


def _refresh(reader: Reader) -> Refresh:
    rule, begin = Refresh(), "sasl.login.refresh."
    return Refresh(
        window_factor=reader.decimal(f"{begin}window.factor", rule.window_factor, low=0.5, high=1.0),
        window_jitter=reader.decimal(f"{begin}window.jitter", rule.window_jitter, low=0.0, high=0.25),
        min_period_s=reader.integer(f"{begin}min.period.seconds", rule.min_period_s, low=0, high=900),
        buffer_s=reader.integer(f"{begin}buffer.seconds", rule.buffer_s, low=0, high=3_600),
    )


def _extensions(reader: Reader, options: Mapping[str, str], prefix: str) -> tuple[tuple[str, str], ...]:
    found = {name.removeprefix(prefix): value for name, value in options.items() if name.startswith(prefix)}
    for name, value in found.items():
        if not _EXTENSION_NAME.fullmatch(name) or name == "auth" or not _EXTENSION_VALUE.fullmatch(value):
            raise _login_entry(reader).wrong(
                f"an option {prefix}... does not fit", "names have letters only and are not auth, values are ASCII"
            )
    return tuple(sorted(found.items()))
