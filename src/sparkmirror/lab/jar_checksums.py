"""The SHA-256 of every jar that the laboratory fetches, kept beside this file: what differs is not used.

Ivy compares jars with checksums from the same repository, which tell of damage and not of an exchange.

Invariant: a set of jars that is pinned is used only as a whole, byte for byte, without anything beside it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path

PINS = Path(__file__).with_name("jars.sha256")


def pinned(name: str) -> dict[str, str]:
    """The checksums of the jars of one set, such as ``kafka-4.3.1``, by file name; empty where nobody has pinned it."""
    lines = PINS.read_text(encoding="ascii").splitlines()
    pairs = [line.split() for line in lines if not line.startswith("#")]
    return {place.removeprefix(f"{name}/"): digest for digest, place in pairs if place.startswith(f"{name}/")}


def found(directory: Path) -> dict[str, str]:
    """The checksums of the files of a directory, by their path in it."""
    digests = {}
    for path in sorted(path for path in directory.rglob("*") if path.is_file()):
        with path.open("rb") as file:
            digests[path.relative_to(directory).as_posix()] = hashlib.file_digest(file, "sha256").hexdigest()
    return digests


def difference(pins: Mapping[str, str], there: Mapping[str, str]) -> str:
    """What differs, for people; "" where nothing does."""
    changed = [
        f"{name} has {there[name]} instead of {pin}"
        for name, pin in sorted(pins.items())
        if there.get(name, pin) != pin
    ]
    missing = [f"{name} is missing" for name in sorted(pins.keys() - there.keys())]
    more = [f"{name} is not pinned" for name in sorted(there.keys() - pins.keys())]
    return "; ".join([*changed, *missing, *more])
