"""One key of a file with its value, and the typed reading of such values.

Invariants: no message shows a value that came from a config provider or that stands behind a password-like key, nor a
value that is unlike what is expected (key_names.py); a message names the key as its author wrote it. Parsing follows
Kafka's ``ConfigDef.parseType``: everything but passwords is trimmed, lists are split at commas, numbers are Java's (no
underscores, no fractions).
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import TypeVar

from sparkmirror.config.key_names import (
    BOOLEANS,
    holds_odd_url,
    is_like_key,
    is_like_name,
    is_like_number,
    is_like_one_of,
)
from sparkmirror.config.secret import HIDDEN, Secret, holds_secret, is_odd_mechanism
from sparkmirror.errors import ConfigError

E = TypeVar("E", bound=Enum)

INT_MAX = 2**31 - 1
LONG_MAX = 2**63 - 1

_SECRET_LIKE = re.compile(
    r"pass?w|pwd|passphrase|secret|jaas|keystore\.key$|token$|credential|user\.?info|api\.?key", re.IGNORECASE
)
_SHOWN = 200
_CLASS = re.compile(
    r"(?:[^\W\d]\w*\.)+[A-Z][\w$]*"  # of Java, or of Python with a dot before the class
    r"|[^\W\d]\w*(?:\.[^\W\d]\w*)*:[^\W\d]\w*"
    r"|\$\{[^{}\s]*\}"
)
_NUMBER = re.compile(r"[+-]?[0-9]{1,19}")
_DECIMAL = re.compile(r"[+-]?[0-9]{1,19}(\.[0-9]{1,19})?")


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Entry:
    """A key with its value, as it stands in a file.

    Attributes:
        file: the file as the user named it.
        key: the key as written.
        raw: the value as written, with references to config providers unresolved. Never show it; see ``shown``.
        line: of a properties file, from 1; 0 in documents, where ``key`` is a path that may be shown.
    """

    file: str
    key: str
    raw: str
    line: int = 0

    def __repr__(self) -> str:
        return f"Entry({self.file}: {self.key})"

    @property
    def secret(self) -> bool:
        """Whether the value must not be shown, by the key or by the value itself."""
        return is_secret(self.key) or holds_secret(self.raw) or is_odd_mechanism(self.key, self.raw)

    @property
    def odd(self) -> bool:
        """Whether the value is unlike what its key wants, so that a secret may stand there by mistake."""
        odd_class = self.key.endswith(".class") and not is_like_name(self.raw.strip())
        return odd_class or is_odd_mechanism(self.key, self.raw) or holds_odd_url(self.raw)

    @property
    def shown(self) -> str:
        """The value as it may appear in a message: what the file says, or that it is hidden."""
        return HIDDEN if self.secret else quoted(self.raw.strip())

    @property
    def shown_class(self) -> str:
        """The same for a key that names a class: what is not formed like the path of one may be a secret."""
        return self.shown if _CLASS.fullmatch(self.raw.strip()) and is_like_name(self.raw.strip()) else HIDDEN

    @property
    def shown_number(self) -> str:
        """The same for a key that wants a number."""
        return self.shown if is_like_number(self.raw) else HIDDEN

    @property
    def place(self) -> str:
        """The key as it may appear in a message about those that are not known; its line if it is unlike a key."""
        return self.key if is_like_key(self.key) or not self.line else f"line {self.line}"

    def shown_choice(self, options: Iterable[str]) -> str:
        """The value of a key that wants one of a few."""
        return self.shown if is_like_one_of(self.raw, options) else HIDDEN

    def tell(self, text: str) -> str:
        """A part of the value as it may appear in a message; what came from a config provider may not."""
        return self.shown if "${" in self.raw or self.secret else quoted(text)

    def tell_name(self, text: str) -> str:
        """The same for a part that ought to be a name."""
        return self.tell(text) if is_like_name(text) else HIDDEN

    def wrong(self, reason: str, remedy: str = "") -> ConfigError:
        """The error that names this key."""
        return ConfigError(file=self.file, key=self.key, reason=reason, remedy=remedy)


def quoted(text: str) -> str:
    """A text for a message: of a long one its begin, and UTF-8 that was read as ISO 8859-1 as its author sees it."""
    with contextlib.suppress(UnicodeError):
        text = text.encode("latin-1").decode()
    return repr(text) if len(text) <= _SHOWN else f"{text[:_SHOWN]!r}… ({len(text)} characters)"


def is_secret(key: str) -> bool:
    """Whether the value of a key must not be shown, by the key's name."""
    return _SECRET_LIKE.search(key) is not None


Resolve = Callable[[Entry], str]
"""Gives an entry's value with the references to config providers replaced."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reader:
    """Typed access to a set of entries, by the names that they have for the reader.

    Attributes:
        entries: name to entry; the entry's own key may be longer, such as ``A.consumer.fetch.max.bytes``.
        resolve: replaces references to config providers.
    """

    entries: Mapping[str, Entry]
    resolve: Resolve

    def entry(self, name: str) -> Entry | None:
        """The entry itself, for error messages."""
        return self.entries.get(name)

    def text(self, name: str) -> str | None:
        """The trimmed value, or None where it is absent or empty."""
        entry = self.entries.get(name)
        return (self.resolve(entry).strip() or None) if entry else None

    def password(self, name: str) -> Secret | None:
        """The value untrimmed, as the Java clients take passwords; None where it is absent or empty."""
        entry = self.entries.get(name)
        value = self.resolve(entry) if entry else ""
        return Secret(value) if value else None

    def integer(self, name: str, default: int, *, low: int, high: int = INT_MAX) -> int:
        """A whole number within bounds.

        Raises:
            ConfigError: no number, or out of bounds.
        """
        found = self.optional_integer(name, low=low, high=high)
        return default if found is None else found

    def optional_integer(self, name: str, *, low: int, high: int = INT_MAX) -> int | None:
        """The same, None where it is absent."""
        text = self.text(name)
        if text is None:
            self._refuse_blank(name)
            return None
        entry = self.entries[name]
        if not _NUMBER.fullmatch(text):
            raise entry.wrong(f"{entry.shown_number} is not a whole number")
        if not low <= int(text) <= high:
            bounds = f"at least {low}" if int(text) < low else f"at most {high}"
            raise entry.wrong(f"{entry.shown} is out of range", f"it must be {bounds}")
        return int(text)

    def decimal(self, name: str, default: float, *, low: float, high: float) -> float:
        """A number within bounds, fractions allowed.

        Raises:
            ConfigError: no number, or out of bounds.
        """
        text = self.text(name)
        if text is None:
            self._refuse_blank(name)
            return default
        if not _DECIMAL.fullmatch(text):
            raise self.entries[name].wrong(f"{self.entries[name].shown_number} is no number")
        if not low <= float(text) <= high:
            raise self.entries[name].wrong(f"{self.entries[name].shown} is not between {low:g} and {high:g}")
        return float(text)

    def boolean(self, name: str, default: bool) -> bool:
        """``true`` or ``false`` in any case, and nothing else.

        Raises:
            ConfigError: neither.
        """
        text = self.text(name)
        if text is None:
            self._refuse_blank(name)
            return default
        if text.lower() not in ("true", "false"):
            raise self.entries[name].wrong(f"{self.entries[name].shown_choice(BOOLEANS)} is neither true nor false")
        return text.lower() == "true"

    def listing(self, name: str, default: tuple[str, ...]) -> tuple[str, ...]:
        """A comma list; an empty value is an empty list, as in Kafka."""
        if name not in self.entries:
            return default
        return tuple(part.strip() for part in (self.text(name) or "").split(",") if part.strip())

    def choice(self, name: str, options: Mapping[str, E], default: E) -> E:
        """One of the options, matched without regard to case.

        Raises:
            ConfigError: another value; the message lists the options.
        """
        text = self.text(name)
        if text is None:
            return default
        by_name = {option.lower(): value for option, value in options.items()}
        if text.lower() not in by_name:
            entry = self.entries[name]
            raise entry.wrong(f"{entry.shown_choice(options)} is not possible", one_of(options))
        return by_name[text.lower()]

    def refuse(self, name: str, reason: str, remedy: str) -> None:
        """Refuses a key that has any value.

        Raises:
            ConfigError: it has.
        """
        if self.text(name) is not None:
            raise self.entries[name].wrong(reason, remedy)

    def _refuse_blank(self, name: str) -> None:
        """Refuses a key without a value where a number or a boolean must stand."""
        if name in self.entries:
            raise self.entries[name].wrong("has no value", "give it one or remove the line")


def one_of(options: Iterable[str]) -> str:
    """The part of a remedy that lists what is possible."""
    return "possible: " + ", ".join(options)
