"""A cluster of a Strimzi resource to a connector's ``source.cluster.*`` or ``target.cluster.*`` keys.

As the operator does it: TLS and the type of authentication give ``security.protocol``, Secrets become references that
are resolved when the value is read, and ``config`` comes on top. Which protocols and mechanisms work here is decided
where the client keys are read (security.py), so what is refused there is refused with the path of the resource.

Reference: Strimzi's ``KafkaMirrorMaker2Connectors``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from sparkmirror.config.entries import Entry, one_of
from sparkmirror.config.nodes import Node
from sparkmirror.config.providers import DECLARATION
from sparkmirror.config.secrets import PROVIDER

_SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"
_PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
_OAUTH = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"
_WITH_PASSWORD: Mapping[str, tuple[str, str]] = {
    "scram-sha-256": ("SCRAM-SHA-256", _SCRAM),
    "scram-sha-512": ("SCRAM-SHA-512", _SCRAM),
    "plain": ("PLAIN", _PLAIN),
}
_OAUTH_HANDLER = "io.strimzi.kafka.oauth.client.JaasClientOauthLoginCallbackHandler"
_OAUTH_TEXTS: Mapping[str, str] = {
    "tokenEndpointUri": "oauth.token.endpoint.uri",
    "clientId": "oauth.client.id",
    "username": "oauth.password.grant.username",
    "scope": "oauth.scope",
    "audience": "oauth.audience",
    "grantType": "oauth.client.credentials.grant.type",
    "accessTokenIsJwt": "oauth.access.token.is.jwt",
    "accessTokenLocation": "oauth.access.token.location",
    "clientAssertionLocation": "oauth.client.assertion.location",
    "clientAssertionType": "oauth.client.assertion.type",
    "maxTokenExpirySeconds": "oauth.max.token.expiry.seconds",
    "connectTimeoutSeconds": "oauth.connect.timeout.seconds",
    "readTimeoutSeconds": "oauth.read.timeout.seconds",
    "httpRetries": "oauth.http.retries",
    "httpRetryPauseMs": "oauth.http.retry.pause.millis",
    "enableMetrics": "oauth.enable.metrics",
    "includeAcceptHeader": "oauth.include.accept.header",
}
_OAUTH_SECRETS: Mapping[str, tuple[str, str]] = {
    "clientSecret": ("oauth.client.secret", "key"),
    "accessToken": ("oauth.access.token", "key"),
    "refreshToken": ("oauth.refresh.token", "key"),
    "clientAssertion": ("oauth.client.assertion", "key"),
    "passwordSecret": ("oauth.password.grant.password", "password"),
}
"""Fields that name a Secret: the option, and the field with its key."""

TYPES = ("tls", *_WITH_PASSWORD, "custom", "oauth")

KNOWN = ("alias", "bootstrapServers", "tls", "authentication", "config")
"""Keys of a cluster that are read here."""


def cluster_entries(node: Node, side: str, namespace: str) -> dict[str, Entry]:
    """The keys of a cluster.

    Args:
        node: of ``spec.clusters[]``, ``spec.target`` or ``spec.mirrors[].source``.
        side: ``source`` or ``target``.
        namespace: of the resource, for references to its Secrets.

    Raises:
        ConfigError: something is missing, or is not what Strimzi takes.
    """
    found = {
        "alias": node.entry("alias"),
        "bootstrap.servers": node.entry("bootstrapServers"),
        **_trusted(node, namespace),
        **_authenticated(node, namespace),
    }
    flat = {f"{side}.cluster.{key}": entry for key, entry in found.items()}
    for key, entry in node.settings("config").items():
        if side == "target" and key.startswith(DECLARATION):
            continue
        # The Connect worker's own producer keys are those of the producer that writes the records.
        worker = side == "target" and key.startswith("producer.")
        flat[key if worker else f"{side}.cluster.{key}"] = entry
    return flat


def reference(namespace: str, secret: str, key: str) -> str:
    """The reference to a value of a Secret, as the operator writes it."""
    path = f"{namespace}/{secret}" if namespace else secret
    return f"${{{PROVIDER}:{path}:{key}}}"


def _trusted(node: Node, namespace: str) -> dict[str, Entry]:
    tls = node.child("tls")
    if tls is None:
        return {}
    tls.only("trustedCertificates")
    certificates = _certificates(tls, "trustedCertificates", namespace)
    if not certificates:
        return {}
    return {
        "ssl.truststore.certificates": tls.made("trustedCertificates", certificates),
        "ssl.truststore.type": tls.made("trustedCertificates", "PEM"),
    }


def _certificates(node: Node, key: str, namespace: str) -> str:
    """References to the certificates of a list, one behind the other."""
    return "\n".join(
        reference(namespace, one.text("secretName"), one.text("pattern", one.text("certificate", "")) or _neither(one))
        for one in node.children(key)
    )


def _neither(node: Node) -> str:
    raise node.wrong("names no certificate", "give certificate or pattern")


def _authenticated(node: Node, namespace: str) -> dict[str, Entry]:
    authentication = node.child("authentication")
    tls = node.child("tls") is not None
    if authentication is None:
        return {"security.protocol": node.made("tls", "SSL" if tls else "PLAINTEXT")}
    kind = authentication.text("type")
    if kind not in TYPES:
        entry = authentication.entry("type")
        raise entry.wrong(f"{entry.shown_choice(TYPES)} is no type of authentication", one_of(TYPES))
    sasl = kind in (*_WITH_PASSWORD, "oauth") or (kind == "custom" and authentication.flag("sasl"))
    protocol = ("SASL_" if sasl else "") + ("SSL" if tls else "PLAINTEXT")
    found = {"security.protocol": authentication.made("type", protocol)}
    if kind == "tls":
        found |= _certificate(authentication, namespace)
    elif kind == "custom":
        authentication.only("type", "sasl", "config")
        found |= authentication.settings("config")
    elif kind == "oauth":
        found |= _oauth(authentication, namespace)
    else:
        authentication.only("type", "username", "passwordSecret")
        mechanism, module = _WITH_PASSWORD[kind]
        secret = authentication.needed("passwordSecret")
        password = reference(namespace, secret.text("secretName"), secret.text("password"))
        options = {"username": _escaped(authentication.text("username")), "password": password}
        found["sasl.mechanism"] = authentication.made("type", mechanism)
        found["sasl.jaas.config"] = authentication.made("passwordSecret", _jaas(module, options))
    return found


def _certificate(authentication: Node, namespace: str) -> dict[str, Entry]:
    authentication.only("type", "certificateAndKey")
    pair = authentication.needed("certificateAndKey")
    pair.only("secretName", "certificate", "key")
    secret = pair.text("secretName")
    return {
        "ssl.keystore.type": authentication.made("certificateAndKey", "PEM"),
        "ssl.keystore.certificate.chain": pair.made(
            "certificate", reference(namespace, secret, pair.text("certificate"))
        ),
        "ssl.keystore.key": pair.made("key", reference(namespace, secret, pair.text("key"))),
    }


def _oauth(authentication: Node, namespace: str) -> dict[str, Entry]:
    """The options of Strimzi's own OAuth library, as the operator writes them."""
    known = (*_OAUTH_TEXTS, *_OAUTH_SECRETS)
    authentication.only("type", "tlsTrustedCertificates", "disableTlsHostnameVerification", "saslExtensions", *known)
    options = {
        option: _escaped(authentication.text(field))
        for field, option in _OAUTH_TEXTS.items()
        if field in authentication.values
    }
    for field, (option, key) in _OAUTH_SECRETS.items():
        secret = authentication.child(field)
        if secret is not None:
            options[option] = reference(namespace, secret.text("secretName"), secret.text(key))
    if authentication.flag("disableTlsHostnameVerification"):
        options["oauth.ssl.endpoint.identification.algorithm"] = ""
    for name, entry in authentication.settings("saslExtensions").items():
        options[f"oauth.sasl.extension.{name}"] = _escaped(entry.raw)
    found = {
        "sasl.mechanism": authentication.made("type", "OAUTHBEARER"),
        "sasl.login.callback.handler.class": authentication.made("type", _OAUTH_HANDLER),
        "sasl.jaas.config": authentication.made("type", _jaas(_OAUTH, options)),
    }
    certificates = _certificates(authentication, "tlsTrustedCertificates", namespace)
    if certificates:
        found["sasl.oauthbearer.token.endpoint.certificates"] = authentication.made(
            "tlsTrustedCertificates", certificates
        )
    return found


def _jaas(module: str, options: Mapping[str, str]) -> str:
    return f"{module} required {' '.join(_options(options))};"


def _options(options: Mapping[str, str]) -> Iterator[str]:
    for name, value in options.items():
        yield f'{name}="{value}"'


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"')
