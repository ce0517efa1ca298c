"""Config providers: references such as ``${file:/path:key}`` in a value, replaced when the value is read.

Kafka's ``FileConfigProvider``, ``EnvVarConfigProvider`` and ``DirectoryConfigProvider`` (KIP-297, KIP-421, KIP-887)
with their parameters ``allowed.paths`` (KIP-993) and ``allowlist.pattern``; the grammar of references is that of
``ConfigTransformer``. Unlike in Kafka, a reference that cannot be resolved is refused, not taken for
the value.

Invariants: references are resolved once, not again in their result; only values that are read are resolved, so a node
that runs the flows into one cluster needs no secrets of the others; no message holds a resolved value.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from javaproperties import InvalidUEscapeError, loads

from sparkmirror.config.entries import Entry, one_of
from sparkmirror.config.expressions import compile_list

_REFERENCE = re.compile(r"\$\{([^}]*?):(?:([^}]*?):)?([^}]*?)\}")
_PACKAGE = "org.apache.kafka.common.config.provider."
_DECLARATION = "config.providers"


@dataclass(frozen=True, slots=True, kw_only=True)
class Provider:
    """One declared provider.

    Attributes:
        name: what stands behind ``${``.
        lookup: (path, key) to the value; raises ``LookupError`` with a reason that holds no value.
    """

    name: str
    lookup: Callable[[str, str], str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Providers:
    """The providers of one file."""

    by_name: Mapping[str, Provider]

    def resolve(self, entry: Entry) -> str:
        """The value of an entry, with its references replaced.

        Raises:
            ConfigError: a reference to a provider that is not declared, or to something that is not there.
        """
        return _REFERENCE.sub(lambda match: self._replace(entry, match), entry.raw)

    def _replace(self, entry: Entry, match: re.Match[str]) -> str:
        name, path, key = match[1], match[2] or "", match[3]
        if name not in self.by_name:
            raise entry.wrong(
                f"{match[0]} names the config provider {name!r}, which is not declared",
                f"add it to {_DECLARATION} with {_DECLARATION}.{name}.class",
            )
        try:
            return self.by_name[name].lookup(path, key)
        except LookupError as error:
            reason = str(error.args[0])
        raise entry.wrong(f"{match[0]} cannot be resolved: {reason}")


def declared(entries: Mapping[str, Entry]) -> Providers:
    """The providers that a file declares.

    Args:
        entries: the file's top level.

    Raises:
        ConfigError: a provider without a class, or of a class that is not known here.
    """
    names = entries.get(_DECLARATION)
    wanted = [name.strip() for name in names.raw.split(",") if name.strip()] if names else []
    return Providers(by_name={name: _provider(name, entries, names) for name in wanted if names})


def _provider(name: str, entries: Mapping[str, Entry], declaration: Entry) -> Provider:
    prefix = f"{_DECLARATION}.{name}."
    entry = entries.get(prefix + "class")
    if entry is None:
        raise declaration.wrong(f"{name!r} has no class", f"set {prefix}class, {one_of(_FACTORIES)}")
    simple = entry.raw.strip().removeprefix(_PACKAGE)
    if simple not in _FACTORIES:
        raise entry.wrong(
            f"{entry.shown} is a Java class that is not known here",
            f"{one_of(_FACTORIES)}; mount the secrets of other stores as files or environment variables",
        )
    parameters = {
        key.removeprefix(prefix + "param."): value for key, value in entries.items() if key.startswith(prefix)
    }
    return Provider(name=name, lookup=_FACTORIES[simple](parameters))


def _files(parameters: Mapping[str, Entry]) -> Callable[[str, str], str]:
    allowed = _allowed_paths(parameters)

    def lookup(path: str, key: str) -> str:
        text = _read(allowed(path))
        try:
            values = loads(text)
        except InvalidUEscapeError:
            raise LookupError(f"{path} is not a properties file: it has a broken \\u escape") from None
        if key not in values:
            raise LookupError(f"{path} has no key {key!r}")
        return values[key]

    return lookup


def _directories(parameters: Mapping[str, Entry]) -> Callable[[str, str], str]:
    allowed = _allowed_paths(parameters)

    def lookup(path: str, key: str) -> str:
        if not key or Path(key).name != key:
            raise LookupError(f"{key!r} is not the name of a file in {path}")
        # One line end is dropped: editors add it, and no password means it (Kafka would keep it).
        return _read(allowed(path) / key).removesuffix("\n").removesuffix("\r")

    return lookup


def _environment(parameters: Mapping[str, Entry]) -> Callable[[str, str], str]:
    entry = parameters.get("allowlist.pattern")
    allowed = compile_list([entry.raw.strip()], file=entry.file, key=entry.key) if entry else None

    def lookup(_path: str, key: str) -> str:
        return _variable(key, allowed)

    return lookup


def _variable(name: str, allowed: re.Pattern[str] | None) -> str:
    if allowed and not allowed.fullmatch(name):
        raise LookupError(f"allowlist.pattern does not allow the variable {name}")
    if name not in os.environ:
        raise LookupError(f"the environment has no variable {name}")
    return os.environ[name]


def _allowed_paths(parameters: Mapping[str, Entry]) -> Callable[[str], Path]:
    entry = parameters.get("allowed.paths")
    roots = [Path(part.strip()).resolve() for part in entry.raw.split(",") if part.strip()] if entry else None

    def check(path: str) -> Path:
        resolved = Path(path).resolve()
        if roots is not None and not any(resolved.is_relative_to(root) for root in roots):
            raise LookupError(f"allowed.paths does not hold {path}")
        return Path(path)

    return check


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise LookupError(f"{path} is not UTF-8 text") from None
    except OSError as error:
        raise LookupError(f"{path}: {(error.strerror or 'unreadable').lower()}") from None


_FACTORIES: Mapping[str, Callable[[Mapping[str, Entry]], Callable[[str, str], str]]] = {
    "FileConfigProvider": _files,
    "EnvVarConfigProvider": _environment,
    "DirectoryConfigProvider": _directories,
}
