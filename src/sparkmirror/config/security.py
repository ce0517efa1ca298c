"""A client's security keys to a checked ``Security``.

What works: no security, SSL with PEM, PKCS 12 and JKS, and SASL with PLAIN, SCRAM, OAUTHBEARER and GSSAPI. Everything
else that would change who is trusted or how a client logs in is refused with the way round, never ignored. As in the
Java clients only what the protocol needs is looked at: key store keys beside ``security.protocol=PLAINTEXT`` have no
effect.

Invariant: no error holds a secret.
"""

from __future__ import annotations

from collections.abc import Mapping

from sparkmirror.config import jaas
from sparkmirror.config.entries import Entry, Reader, one_of
from sparkmirror.config.kerberos import read_kerberos
from sparkmirror.config.oauth import read_oauth
from sparkmirror.config.secret import Secret
from sparkmirror.config.security_settings import SaslMechanism, Security, SecurityProtocol
from sparkmirror.config.tls import read_tls

_PROTOCOLS = {protocol.value: protocol for protocol in SecurityProtocol}
_MECHANISMS = {mechanism.value: mechanism for mechanism in SaslMechanism}
_MODULES: Mapping[str, tuple[SaslMechanism, ...]] = {
    "org.apache.kafka.common.security.plain.PlainLoginModule": (SaslMechanism.PLAIN,),
    "org.apache.kafka.common.security.scram.ScramLoginModule": (
        SaslMechanism.SCRAM_SHA_256,
        SaslMechanism.SCRAM_SHA_512,
    ),
    "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule": (SaslMechanism.OAUTHBEARER,),
    "com.sun.security.auth.module.Krb5LoginModule": (SaslMechanism.GSSAPI,),
}
_REFUSED_WITH_SASL = ("sasl.client.callback.handler.class", "sasl.login.class")
_LOGIN_CALLBACK = "sasl.login.callback.handler.class"
_UNKNOWN_CLASS = "is a Java class that is not known here"
_INSTEAD = "log in with SASL PLAIN, SCRAM, OAUTHBEARER or GSSAPI"


def read_security(reader: Reader) -> Security:
    """Reads and checks the security keys of one client.

    Args:
        reader: the client's keys without any prefix.

    Raises:
        ConfigError: a setting that does not work here, that cannot work, or a file that cannot be read.
    """
    protocol = reader.choice("security.protocol", _PROTOCOLS, SecurityProtocol.PLAINTEXT)
    reader.refuse("security.providers", "it is a Java class", "remove it; OpenSSL does the encryption here")
    security = _login(reader, protocol) if protocol.sasl else Security(protocol=protocol)
    return read_tls(reader, security) if protocol.tls else security


def _login(reader: Reader, protocol: SecurityProtocol) -> Security:
    for name in _REFUSED_WITH_SASL:
        reader.refuse(name, _UNKNOWN_CLASS, _INSTEAD)
    mechanism = reader.choice("sasl.mechanism", _MECHANISMS, SaslMechanism.GSSAPI)
    if mechanism is SaslMechanism.OAUTHBEARER:
        options = _module(reader, mechanism).options if reader.text("sasl.jaas.config") else {}
        return Security(protocol=protocol, mechanism=mechanism, oauth=read_oauth(reader, options))
    reader.refuse(_LOGIN_CALLBACK, _UNKNOWN_CLASS, _INSTEAD)
    module = _module(reader, mechanism)
    if mechanism is SaslMechanism.GSSAPI:
        return Security(protocol=protocol, mechanism=mechanism, kerberos=read_kerberos(reader, module.options))
    _check_password(reader.entries["sasl.jaas.config"], module)
    password = Secret(module.options["password"])
    return Security(protocol=protocol, mechanism=mechanism, username=module.options["username"], password=password)


def _module(reader: Reader, mechanism: SaslMechanism) -> jaas.LoginModule:
    entry = reader.entry("sasl.jaas.config")
    text = reader.text("sasl.jaas.config")
    if entry is None or text is None:
        raise reader.entries["security.protocol"].wrong(
            f"logs in with {mechanism.value}, but there is no sasl.jaas.config",
            "set sasl.jaas.config; a JAAS file of the Java virtual machine is not read",
        )
    try:
        module = jaas.parse(text)
    except jaas.JaasSyntaxError as error:
        raise entry.wrong(f"is no login module: {error}") from None
    if module.name not in _MODULES:
        raise entry.wrong("names a login module that does not work here", one_of(_MODULES))
    if mechanism not in _MODULES[module.name]:
        fitting = next(name for name, mechanisms in _MODULES.items() if mechanism in mechanisms)
        unset = "" if reader.text("sasl.mechanism") else ", which is what holds where it is not set"
        reason = f"its login module does not fit sasl.mechanism={mechanism.value}{unset}"
        raise entry.wrong(reason, f"use {fitting}, or set sasl.mechanism")
    return module


def _check_password(entry: Entry, module: jaas.LoginModule) -> None:
    if module.options.get("tokenauth", "false").lower() == "true":
        raise entry.wrong("delegation tokens (tokenauth) come later", "use a user name and a password")
    missing = [name for name in ("username", "password") if not module.options.get(name)]
    if missing:
        raise entry.wrong(f"has no {' and no '.join(missing)}")
