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
    r"PRIVATE KEY|(?i:password|secret)\s*=(?!\s*[\"']?\$\{)|//[^\s/?#@]*@"
    r"|(?<![^\s:/?#@,{}])[^\s:/?#@,{}]+:[^\s:/?#@,{}]+@[^\s/?#@,]"
)
"""A user and a password are looked for where a word begins only: from each of its letters takes time in its square."""


def is_key(text: str) -> bool:
    """Whether a key is like those of Kafka: lines of a private key that are pasted into a file become keys too."""
    return _KEY.fullmatch(text) is not None and _BASE_64.search(text) is None


def shown_key(text: str) -> str:
    """A key as it may appear in a message."""
    return text if is_key(text) else HIDDEN


def holds_secret(text: str) -> bool:
    """Whether a value must not be shown whatever its key is: a private key, a login, or an address with a user."""
    return _SECRET_TEXT.search(text) is not None


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
