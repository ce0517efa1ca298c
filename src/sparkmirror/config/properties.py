r"""Java properties files to entries.

Read as Java reads them: ISO 8859-1 with ``\u`` escapes, the last of equal keys counts. Values stay as they are; typed
reading and config providers come later (entries.py, providers.py).

Invariant: what is no key of Kafka's kind, such as a line of a private key that was pasted without backslashes, is known
by its line from here on, and its text is dropped, so that no message can show it.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from javaproperties import InvalidUEscapeError, KeyValue, parse

from sparkmirror.config.entries import Entry
from sparkmirror.config.files import UnreadableError, read_bytes
from sparkmirror.config.secret import is_key
from sparkmirror.errors import ConfigError

KEYS = 10_000
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_LINE_END = re.compile(r"\r\n?|\n")
_SURROGATE = re.compile("[\ud800-\udfff]")
_PEM_BEGIN, _PEM_END = "-----BEGIN", "-----END"


@dataclass(frozen=True, slots=True, kw_only=True)
class PropertiesFile:
    """The content of one file.

    Attributes:
        file: as the user named it.
        entries: by key, in the order of the file.
        duplicates: keys that stand in it more than once.
    """

    file: str
    entries: Mapping[str, Entry]
    duplicates: tuple[str, ...]


def read_properties(path: Path) -> PropertiesFile:
    """Reads a file.

    Raises:
        ConfigError: it cannot be read, is no text, or has a broken escape.
    """
    file = str(path)
    try:
        data = read_bytes(path)
    except UnreadableError as refused:
        raise ConfigError(file=file, key="", reason=str(refused)) from None
    _check_text(data, file)
    entries: dict[str, Entry] = {}
    duplicates: dict[str, None] = {}
    for found in _pairs(data.removeprefix(_BYTE_ORDER_MARK), file):
        if found.key in entries:
            duplicates[found.key] = None
        elif len(entries) == KEYS:
            raise ConfigError(file=file, key=found.place, reason=f"is one key too many: {KEYS} are read of a file")
        entries[found.key] = found
    return PropertiesFile(file=file, entries=entries, duplicates=tuple(duplicates))


def _check_text(data: bytes, file: str) -> None:
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise ConfigError(file=file, key="", reason="is UTF-16 text", remedy="save it as UTF-8")
    if b"\0" in data:
        line = data.count(b"\n", 0, data.index(b"\0")) + 1
        raise ConfigError(file=file, key=f"line {line}", reason="holds a NUL byte: the file is no text")


def _pairs(data: bytes, file: str) -> Iterator[Entry]:
    """The keys of a file, one of them perhaps several times; a key that may be a part of a secret is its line.

    Raises:
        ConfigError: an escape is broken.
    """
    line, pasted = 1, False
    try:
        for found in parse(io.BytesIO(data)):
            if isinstance(found, KeyValue):
                yield replace(_entry(found, file, line, pasted), line=line)
                pasted = _goes_on(found, pasted)
            line += len(_LINE_END.findall(found.source))
    except InvalidUEscapeError:
        reason, remedy = "has a broken \\u escape", "a backslash is written as two"
        raise ConfigError(file=file, key=f"line {line}", reason=reason, remedy=remedy) from None


def _entry(found: KeyValue, file: str, line: int, pasted: bool) -> Entry:
    if _SURROGATE.search(found.key + found.value):
        reason, remedy = "holds half of a character", "\\uD83D\\uDE00 is a whole one"
        raise ConfigError(file=file, key=f"line {line}", reason=reason, remedy=remedy)
    if not is_key(found.key) or (pasted and "." not in found.key):
        return Entry(file=file, key=f"line {line}", raw="")
    return Entry(file=file, key=found.key, raw=found.value)


def _goes_on(found: KeyValue, pasted: bool) -> bool:
    """Whether the next line belongs to a PEM text that stands in several lines without backslashes at their ends."""
    text = found.key + found.value
    return text.rfind(_PEM_BEGIN) > text.rfind(_PEM_END) or (pasted and _PEM_END not in text and "." not in found.key)
