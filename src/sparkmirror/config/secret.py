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
_KEY_OF_SECRET = re.compile(
    r"(?:[A-Za-z*?]{1,24}[0-9]{0,2}|[0-9]{1,2})(?:[._-](?:[A-Za-z*?]{1,24}[0-9]{0,2}|[0-9]{1,2})){0,12}"
)
_WORD_OF_SECRET = re.compile(
    r"(?i:pass|pwd|user|secret|token|assertion|key|cert|crt|pem|p12|pkcs|jks|keystore|truststore|tls|ssl|client|jaas"
    r"|credential)|(?<![A-Za-z])(?i:ca|pw|login|value|data)(?![A-Za-z])"
)
_MECHANISM = re.compile(r"[A-Za-z0-9_-]{0,20}|\$\{[^{}\s]*\}")


def is_key(text: str) -> bool:
    """Whether a key is like those of Kafka: lines of a private key that are pasted into a file become keys too."""
    return _KEY.fullmatch(text) is not None and _BASE_64.search(text) is None


def shown_key(text: str) -> str:
    """A key as it may appear in a message."""
    return text if is_key(text) else HIDDEN


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
    """Whether a key of a Secret of Kubernetes is formed as people name one: words, one of which says what it is.

    Anything else may be the password itself, which somebody has put where its key belongs: many are words too.
    """
    named = len(text) <= 2 or _WORD_OF_SECRET.search(text) is not None
    return named and _KEY_OF_SECRET.fullmatch(text) is not None


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
