"""Reading of the files that a command line or a configuration names.

Invariant: a read ends soon and takes little memory, whatever a path leads to. A pipe may have no writer and a device no
end, so both are refused; a regular file is read up to a limit.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path

CONFIGURATION_BYTES = 2**20
"""The limit of configurations and of files with secrets; Kubernetes stores no larger Secret."""

STORE_BYTES = 2**22
"""The limit of key stores, certificates, keytabs and tokens; the authorities of a system take 2**18."""

_NOT_REGULAR = {
    stat.S_IFDIR: "is a directory",
    stat.S_IFIFO: "is a pipe: write what comes out of it to a file, and name that",
    stat.S_IFCHR: "is a device",
    stat.S_IFBLK: "is a device",
}


class UnreadableError(Exception):
    """A file cannot be read, or may not; the message says why, without the path and without what the file holds."""


def read_bytes(path: Path, limit: int = CONFIGURATION_BYTES) -> bytes:
    """A regular file.

    Args:
        path: the file.
        limit: bytes.

    Raises:
        UnreadableError: the system says no, it is no regular file, or it is above the limit.
    """
    try:
        # Without O_NONBLOCK, opening a pipe waits for its writer.
        with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:  # noqa: PTH123 - Path.open knows no flags
            kind = stat.S_IFMT(os.fstat(file.fileno()).st_mode)
            if kind != stat.S_IFREG:
                raise UnreadableError(_NOT_REGULAR.get(kind, "is no regular file"))
            data = file.read(limit + 1)
    except OSError as error:
        raise UnreadableError((error.strerror or "cannot be read").lower()) from None
    except ValueError:
        raise UnreadableError("is no path: it holds a character that no path can have") from None
    if len(data) > limit:
        raise UnreadableError(f"is larger than {limit} bytes, the most that is read of such a file")
    return data


def read_text(path: Path) -> str:
    """A regular file of UTF-8 text, without a byte order mark.

    Raises:
        UnreadableError: as ``read_bytes``, or it is no such text.
    """
    data = read_bytes(path)
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        utf_16 = data.startswith((b"\xff\xfe", b"\xfe\xff"))
        line = data.count(b"\n", 0, error.start) + 1
        raise UnreadableError(f"is not UTF-8 text{', but UTF-16' if utf_16 else f' (line {line})'}") from None
