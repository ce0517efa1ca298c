"""The user's cache, and whether what lies there can be run.

Kernels, archives of classes, wrappers and jars are code: what another user has put there would be run as this one. A
directory of the cache may be another user's where ``HOME`` or ``XDG_CACHE_HOME`` lead into a place that is shared.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from pathlib import Path

from sparkmirror.errors import SparkmirrorError


def user_cache(environ: Mapping[str, str] | None = None) -> Path:
    """The directory for what is fetched once per user, ``$XDG_CACHE_HOME/sparkmirror``; may not exist yet."""
    environ = os.environ if environ is None else environ
    given = environ.get("XDG_CACHE_HOME", "")
    root = Path(given) if Path(given).is_absolute() else Path(environ.get("HOME") or Path.home()) / ".cache"
    return root / "sparkmirror"


def own(place: Path, environ: Mapping[str, str] | None = None) -> Path:
    """A file or directory of the user's cache, of which the content is going to be run or believed.

    Raises:
        SparkmirrorError: it, or a directory of the cache above it, is somebody else's, or others can write to it.
    """
    why = why_not_below(place, user_cache(environ))
    if why:
        raise SparkmirrorError(
            f"{why}: what lies there would be run as you. Look who has made it, then remove it, or set "
            "XDG_CACHE_HOME to a directory of yours"
        )
    return place


def why_not_below(place: Path, root: Path) -> str:
    """Why not only this user, and root, can have put something there; "" if they alone can.

    Args:
        place: a file or directory, which need not be there.
        root: the directory from which on the way to it is looked at.
    """
    for each in (place, *place.parents):
        if not each.is_relative_to(root) or not os.path.lexists(each):
            continue
        why = why_not_own(each.stat() if each.exists() else each.lstat(), os.geteuid(), os.getegid())
        if why:
            return f"{each} {why}"
    return ""


def why_not_own(found: os.stat_result, user: int, group: int) -> str:
    """The same of one file or directory.

    Args:
        found: of the file or directory.
        user: this user.
        group: the user's own group, which may be able to write: some systems give each user one for that.
    """
    if found.st_uid not in (user, 0):
        return f"belongs to another user ({found.st_uid})"
    if found.st_mode & stat.S_IWOTH or (found.st_mode & stat.S_IWGRP and found.st_gid not in (group, 0)):
        return f"can be written to by others (mode {stat.S_IMODE(found.st_mode):o})"
    return ""
