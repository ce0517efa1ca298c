"""A value that must not be shown.

Invariants: no conversion to text shows the value (``str``, ``repr``, ``format``, tracebacks that print locals); only
``reveal`` gives it, so a search for that word finds every place that handles secrets. It pickles with its value, since
that is how secrets get to the executors: inside the function that Spark runs, never in a Spark plan.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

HIDDEN = "[hidden]"
"""What is shown in place of a secret; the same text as Kafka's ``Password.HIDDEN``."""

_KEY = re.compile(r"[A-Za-z0-9._>\-]{1,400}")
_BASE_64 = re.compile(r"[A-Za-z0-9]{40}")
_SECRET_TEXT = re.compile(
    r"PRIVATE KEY|(?i:password|passphrase|secret|token|assertion)[\"']?\s*=(?!\s*[\"']?\$\{)|//[^\s/?#@]*@"
    r"|(?<![^\s:/?#@,{}])[^\s:/?#@,{}]+:[^\s:/?#@,{}]+@[^\s/?#@,]"
)
"""A user and a password are looked for where a word begins only: from each of its letters takes time in its square."""
_REFERENCE = re.compile(r"\$\{[^{}]*\}")
_LABELLED = re.compile(
    r"(?i:password|passphrase|secret|token|assertion)[\"']?(?:\s*:\s*[\"'](?!\$\{)|\s*:\s+(?![\s\"']|\$\{))"
)
"""A secret behind a colon, with quotes or a space before it: ``secret:9092`` is a host, ``token:0:5`` a position."""
LOGIN = "LoginModule"
_PART_OF_SECRET = re.compile(r"[a-z]+(?:[A-Z][a-z]+)*[0-9]{0,2}|[A-Z]+[0-9]{0,2}|[0-9]{1,2}|[*?]")
_WORD_OF_SECRET = re.compile(r"[A-Z]?[a-z]+|[A-Z]+")
_WORDS_OF_SECRET = frozenset(
    """access admin api application assertion auth authentication basic broker bundle ca cert certificate certificates
    certs chain client cluster config connect consumer cred credential credentials crt data full id jaas jks jwt kafka
    key keys keystore keytab login mirror mm my oauth p passphrase passwd password pem pfx pkcs plain principal private
    producer properties pub public pw pwd refresh root sasl scram secret secrets server shared signing source ssl store
    strimzi target tls token tokens truststore u user username value x509""".split()
)
"""Of which people form the names of keys of a Secret."""
_MECHANISM = re.compile(r"[A-Za-z0-9_-]{0,20}|\$\{[^{}\s]*\}")


def is_key(text: str) -> bool:
    """Whether a key is like those of Kafka: lines of a private key that are pasted into a file become keys too."""
    return _KEY.fullmatch(text) is not None and _BASE_64.search(text) is None


def holds_secret(text: str) -> bool:
    """Whether a value must not be shown whatever its key is: a private key, a login, or an address with a user."""
    return LOGIN in text or holds_clear(text)


def holds_clear(text: str) -> bool:
    """Whether a value holds a secret itself, rather than references to where it is."""
    return _SECRET_TEXT.search(text) is not None or _LABELLED.search(_REFERENCE.sub("${}", text)) is not None


def is_odd_mechanism(key: str, text: str) -> bool:
    """Whether a value of ``sasl.mechanism`` cannot be a mechanism's name (RFC 4422): there may be a login beside it."""
    return key.endswith("sasl.mechanism") and _MECHANISM.fullmatch(text.strip()) is None


def is_key_of_secret(text: str) -> bool:
    """Whether a key of a Secret of Kubernetes is made of nothing but the words that people name such keys with.

    Anything else may be the password itself, which somebody has put where its key belongs: many are words too.
    """
    parts = re.split(r"[._-]", text)
    words = [word.lower() for part in parts for word in _WORD_OF_SECRET.findall(part)]
    formed = all(map(_PART_OF_SECRET.fullmatch, parts)) and all(word in _WORDS_OF_SECRET for word in words)
    return formed or len(text) <= 2


@dataclass(frozen=True, slots=True, repr=False)
class Secret:
    """Holds a password, a private key or anything else that came out of a secret store."""

    _value: str

    def reveal(self) -> str:
        """The value itself, for the one place that hands it to a broker or a key store."""
        return self._value

    def __repr__(self) -> str:
        return HIDDEN

    def __str__(self) -> str:
        return HIDDEN

    def __format__(self, spec: str) -> str:
        return format(HIDDEN, spec)
