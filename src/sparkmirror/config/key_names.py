"""Which texts of a file may be shown where others are expected: a secret may stand in any place by mistake.

What is not known is shown if it is like what is expected; else only its place is.

- A key of Kafka: one that ends with a known key, as those of a cluster that is not listed do; words with dots between
  them, one of which stands in a known key; one without dots that is a known key with a slip of the pen.
- A field of a document: words of letters, each but the first with a capital letter.
- One of a few values: what resembles one of them, or words of letters, or of three digits behind four letters.
- A number: digits with a short unit, or letters.
- A name that people choose: words with at most two digits behind each, as random texts hardly are. Of a URL the path
  is such names, and what is behind it is not shown.

A slip in one letter of a word is allowed everywhere.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from difflib import get_close_matches
from functools import lru_cache
from urllib.parse import SplitResult, urlsplit

from sparkmirror.config.keys import FILE, FLOW, OLD_NAMES, PREFIXES, ROLES, WORKER, Status
from sparkmirror.config.secret import HIDDEN, is_key

_KEYS = frozenset(key for table in (FLOW, FILE, WORKER, OLD_NAMES, *ROLES.values()) for key in table)
_FREE = tuple(prefix for prefix, key in PREFIXES.items() if key.status is Status.ACTIVE)
"""What begins keys that are acted upon and whose last part is free."""

_SEPARATOR = re.compile(r"->|[._-]")
_WORDS = frozenset(word for key in (*_KEYS, *PREFIXES) for word in _SEPARATOR.split(key) if word)
_PART = re.compile(r"[A-Za-z]{1,24}[0-9]{0,2}|[0-9]{1,2}")
_FIELD = re.compile(r"[A-Za-z][a-z]{0,24}(?:_[a-z]{1,24}|[A-Z][a-z]{1,24}){0,8}|[A-Za-z]{0,4}[0-9]{1,3}")
_SHORT = r"(?:[A-Za-z]{1,24}|[A-Za-z]{0,4}[0-9]{1,3})"
_CHOICE = re.compile(rf"{_SHORT}(?:[ ._-]{_SHORT}){{0,4}}[?!.]?")
_NAME = re.compile(r"(?:(?:(?i:k8s)|[^\W\d_]{1,39}[0-9]{0,2}|[0-9]{1,5})(?![^\W_])|[\W_]){0,250}")
_NUMBER = re.compile(r"[+-]?[0-9][0-9_.,' ]{0,30}[A-Za-z%]{0,3}|[A-Za-z ]{1,24}")
_URL = re.compile(r"(?i:https?)://[^\s,\"']+")
_REFERENCE = re.compile(r"\$\{[^{}]*\}")
_SLIP_FROM = 4
"""Shorter words have to be the very ones: with a slip allowed, most are like one."""
_LONGEST, _NEAR = 60, 0.65
BOOLEANS = ("true", "false", "yes", "no", "on", "off", "0", "1", "enabled", "disabled")
"""Those of Kafka, and what people write in their place."""


def shown_field(text: str) -> str:
    """A key of a YAML or JSON document as it may appear in a message."""
    return text if is_like_field(text) else HIDDEN


@lru_cache(maxsize=4096)
def is_like_key(text: str) -> bool:
    """Whether a text is a key of Kafka that is known here, or like one."""
    if not is_key(text):
        return False
    if any(tail in _KEYS or tail.startswith(_FREE) for tail in _tails(text)):
        return True
    if "." not in text:
        return _resembles(text, _KEYS)
    parts = _SEPARATOR.split(text)
    return all(map(_PART.fullmatch, parts)) and any(_resembles(part, _WORDS) for part in parts)


def is_like_field(text: str) -> bool:
    """Whether a text is like a field of a YAML or JSON document, or like a key of Kafka."""
    return _FIELD.fullmatch(text) is not None or is_like_key(text)


def is_like_one_of(text: str, options: Iterable[str]) -> bool:
    """Whether a text resembles one of a few values, whatever its case; references to config providers may be in it."""
    said = _REFERENCE.sub("", text).strip().lower()
    if not said or _CHOICE.fullmatch(said) is not None:
        return True
    near = [option.lower() for option in options]
    return len(said) <= _LONGEST and bool(get_close_matches(said, near, n=1, cutoff=_NEAR))


def is_like_number(text: str) -> bool:
    """Whether a text is a number as people write them: ``1_000``, ``1.5``, ``10 min``, ``many``."""
    said = _REFERENCE.sub("", text).strip()
    return not said or _NUMBER.fullmatch(said) is not None


def shown_url(url: SplitResult) -> str:
    """A URL as it may appear in a message: scheme, host and port, and its path as far as that is words."""
    said = f"{url.scheme}://{url.netloc}"
    for part in url.path.split("/")[1:]:
        if not is_like_name(part):
            return f"{said}/…"
        said += f"/{part}"
    return f"{said}?…" if url.query or url.fragment else said


def holds_odd_url(text: str) -> bool:
    """Whether a value has the URL of a web server that may not be shown as a whole: a secret may be in it."""
    for found in _URL.findall(_REFERENCE.sub("", text)):
        try:
            url = urlsplit(found)
        except ValueError:
            return True
        if shown_url(url) != found:
            return True
    return False


def is_like_name(text: str) -> bool:
    """Whether a text is made of words with at most two digits behind each, as names are that people choose."""
    return _NAME.fullmatch(_REFERENCE.sub("", text)) is not None


def shown_name(text: str) -> str:
    """A name that people choose as it may appear in a message."""
    return text if is_like_name(text) else HIDDEN


def _tails(key: str) -> Iterator[str]:
    """The key, and what is behind each of its dots."""
    while key:
        yield key
        key = key.partition(".")[2]


def _resembles(text: str, known: frozenset[str]) -> bool:
    """Whether a text is known, or is once a letter that is wrong, missing, too many or in another place is mended."""
    if text in known:
        return True
    return text.isalpha() and len(text) >= _SLIP_FROM and not _shortened(text).isdisjoint(_index(known))


@lru_cache
def _index(known: frozenset[str]) -> frozenset[str]:
    return frozenset(each for word in known if len(word) >= _SLIP_FROM for each in _shortened(word))


def _shortened(word: str) -> frozenset[str]:
    """The word, and what is left of it without one of its letters."""
    return frozenset((word, *(word[:at] + word[at + 1 :] for at in range(len(word)))))
