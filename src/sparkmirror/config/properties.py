r"""Java properties files to entries.

Read as Java reads them: ISO 8859-1 with ``\u`` escapes, the last of equal keys counts. Values stay as they are; typed
reading and config providers come later (entries.py, providers.py).
"""

from __future__ import annotations

import io
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from javaproperties import InvalidUEscapeError, KeyValue, parse

from sparkmirror.config.entries import Entry
from sparkmirror.errors import ConfigError

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


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
        ConfigError: it cannot be read or has a broken escape.
    """
    file = str(path)
    try:
        data = path.read_bytes()
    except OSError as error:
        raise ConfigError(file=file, key="", reason=(error.strerror or "cannot be read").lower()) from None
    entries: dict[str, Entry] = {}
    duplicates: dict[str, None] = {}
    try:
        for found in parse(io.BytesIO(data.removeprefix(_BYTE_ORDER_MARK))):
            if isinstance(found, KeyValue):
                if found.key in entries:
                    duplicates[found.key] = None
                entries[found.key] = Entry(file=file, key=found.key, raw=found.value)
    except InvalidUEscapeError:
        reason = f"there is a broken \\u escape behind {list(entries)[-1]!r}" if entries else "has a broken \\u escape"
        raise ConfigError(file=file, key="", reason=reason, remedy="a backslash is written as two") from None
    return PropertiesFile(file=file, entries=entries, duplicates=tuple(duplicates))
