"""Secrets of Kubernetes, as Strimzi's resources name them: mounted as files, or manifests in the same YAML file.

A Secret is a directory of its own name with a file for each key, as Kubernetes mounts it, under the directory that the
environment variable ``SPARKMIRROR_SECRETS_DIR`` names. A Secret of the same file counts before a mounted one. The
namespace of a reference is not looked at: one file describes what lies in one namespace.

Invariants: no message and no repr holds a value; one line end behind a value is dropped, as with directories.
"""

from __future__ import annotations

import base64
import binascii
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from sparkmirror.config.files import UnreadableError, read_text
from sparkmirror.config.key_names import shown_field
from sparkmirror.config.secret import is_key_of_secret
from sparkmirror.errors import ConfigError

VARIABLE = "SPARKMIRROR_SECRETS_DIR"
PROVIDER = "strimzisecrets"
"""The provider's name in the references that Strimzi makes."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Manifest:
    """A Secret in the file itself: its values by key."""

    values: Mapping[str, str | None]

    def __repr__(self) -> str:
        return f"Manifest({', '.join(self.values)})"


@dataclass(frozen=True, slots=True, kw_only=True)
class Secrets:
    """Where the values of a file's Secrets are.

    Attributes:
        manifests: the Secrets of the file, by name.
    """

    manifests: Mapping[str, Manifest]

    def lookup(self, path: str, key: str) -> str:
        """The value of a reference ``${strimzisecrets:namespace/secret:key}``.

        Args:
            path: ``namespace/secret``, or the Secret alone.
            key: of the Secret; with ``*`` in it, the values of all keys that fit, one after the other.

        Raises:
            LookupError: there is no such value; the reason holds none.
        """
        return "\n".join(self._value(path, one) for one in self.keys(path, key))

    def keys(self, path: str, key: str) -> tuple[str, ...]:
        """The keys of a Secret that a reference means.

        Raises:
            LookupError: a pattern that fits none.
        """
        if "*" not in key and "?" not in key:
            return (key,)
        name = path.rpartition("/")[2]
        there = sorted(self.manifests[name].values) if name in self.manifests else _files(directory_of(name))
        found = tuple(one for one in there if fnmatchcase(one, key))
        if not found:
            raise LookupError(f"the Secret {name} has no key that fits {key!r}{_told(there)}")
        return found

    def _value(self, path: str, key: str) -> str:
        name = path.rpartition("/")[2]
        manifest = self.manifests.get(name)
        if manifest is None:
            text = _read(directory_of(name), key)
        elif key not in manifest.values:
            raise LookupError(f"the Secret {name} has no key {key!r}{_told(manifest.values)}")
        else:
            found = manifest.values[key]
            if found is None:
                raise LookupError(f"{key} of the Secret {name} is not UTF-8 text")
            text = found
        return text.removesuffix("\n").removesuffix("\r")


def directory_of(name: str) -> Path:
    """Where a Secret is mounted.

    Raises:
        LookupError: nobody has said where, or it is not there.
    """
    root = os.environ.get(VARIABLE)
    if not root:
        raise LookupError(
            f"set {VARIABLE} to a directory that holds {name}/ with a file for each key, as Kubernetes mounts it, or "
            "put the Secret into the file"
        )
    found = Path(root) / name
    if Path(name).name != name or not found.is_dir():
        raise LookupError(f"{root} has no directory {name} ({VARIABLE} names it)")
    return found


def read_manifest(document: Mapping[str, Any], file: str) -> tuple[str, Manifest]:
    """Reads a Secret, ``data`` in base 64 and ``stringData``, or a ConfigMap.

    Args:
        document: the manifest.
        file: as the user named it.

    Returns:
        Its name, and the values.

    Raises:
        ConfigError: it has no name, or something in it is not what Kubernetes takes.
    """
    kind = document.get("kind")
    metadata = document.get("metadata")
    name = metadata.get("name") if isinstance(metadata, Mapping) else None
    if not isinstance(name, str):
        raise ConfigError(file=file, key="metadata.name", reason=f"a {kind} has no name")
    values: dict[str, str | None] = {}
    for part, encoded in (("data", kind == "Secret"), ("stringData", False)):
        found = document.get(part) or {}
        if not isinstance(found, Mapping) or not all(isinstance(value, str) for value in found.values()):
            raise ConfigError(file=file, key=f"{kind} {name}: {part}", reason="is no map of texts")
        for key, value in found.items():
            values[str(key)] = (
                _decoded(value, file, f"{kind} {name}: {part}.{shown_field(str(key))}") if encoded else value
            )
    return name, Manifest(values=values)


def _decoded(value: str, file: str, place: str) -> str | None:
    """The text, or None where it is binary, which matters only if somebody asks for it."""
    try:
        return base64.b64decode("".join(value.split()), validate=True).decode()
    except UnicodeDecodeError:
        return None
    except (binascii.Error, ValueError):
        raise ConfigError(
            file=file, key=place, reason="is not base 64", remedy="put clear text into stringData"
        ) from None


def _told(keys: Iterable[str]) -> str:
    """What the keys of a Secret are called, as far as they are formed as such keys are."""
    shown = [key for key in keys if is_key_of_secret(key)]
    return f": it has {', '.join(shown)}" if shown else ""


def _files(directory: Path) -> list[str]:
    try:
        return sorted(entry.name for entry in directory.iterdir() if entry.is_file())
    except OSError as error:
        raise LookupError(f"{directory}: {(error.strerror or 'unreadable').lower()}") from None


def _read(directory: Path, key: str) -> str:
    if not key or Path(key).name != key:
        raise LookupError(f"{key!r} is not the name of a file in {directory}")
    try:
        return read_text(directory / key)
    except UnreadableError as refused:
        raise LookupError(f"{directory / key}: {refused}{_told(_files(directory))}") from None
