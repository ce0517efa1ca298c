"""A value that must not be shown.

Invariants: no conversion to text shows the value (``str``, ``repr``, ``format``, tracebacks that print locals); only
``reveal`` gives it, so a search for that word finds every place that handles secrets. It pickles with its value, since
that is how secrets get to the executors: inside the function that Spark runs, never in a Spark plan.
"""

from __future__ import annotations

from dataclasses import dataclass

HIDDEN = "[hidden]"
"""What is shown in place of a secret; the same text as Kafka's ``Password.HIDDEN``."""


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
