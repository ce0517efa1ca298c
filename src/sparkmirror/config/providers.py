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
from sparkmirror.config.files import UnreadableError, read_text
from sparkmirror.config.key_names import is_like_name
from sparkmirror.config.matching import Expression
from sparkmirror.config.secret import HIDDEN, is_key_of_secret
from sparkmirror.config.secrets import PROVIDER

_REFERENCE = re.compile(r"\$\{([^}:]*):(?:([^}:]*):)?([^}]*)\}")
"""Groups: provider, path or None, key."""

VALUE_CHARACTERS = 2**16
"""More are read of no value but of certificates: a list of names is compiled into one expression, for instance."""

_LONG = re.compile(r"(?:certificates|certificate\.chain)$")

_SURROGATE = re.compile("[\ud800-\udfff]")
PACKAGE = "org.apache.kafka.common.config.provider."
DECLARATION = "config.providers"

Lookup = Callable[[str, str], str]
"""(path, key) to the value; raises ``LookupError`` with a reason that holds no value."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Provider:
    """One declared provider.

    Attributes:
        name: what stands behind ``${``.
        lookup: gives the values.
    """

    name: str
    lookup: Lookup


@dataclass(frozen=True, slots=True, kw_only=True)
class Providers:
    """The providers of one file.

    Attributes:
        by_name: the providers.
        remedy: what to do about a reference to another one; by default, to declare it.
    """

    by_name: Mapping[str, Provider]
    remedy: str = ""

    def resolve(self, entry: Entry) -> str:
        """The value of an entry, with its references replaced.

        Raises:
            ConfigError: a reference to a provider that is not declared, or to something that is not there; or the value
                is too long.
        """
        _check_length(entry, entry.raw)
        value = replace_references(entry.raw, lambda match: self._replace(entry, match))
        _check_length(entry, value)
        return value

    def _replace(self, entry: Entry, match: re.Match[str]) -> str:
        name, path, key = match[1], match[2] or "", match[3]
        if name not in self.by_name:
            formed = is_like_name(match[0][2:-1])
            shown = f"{match[0]} names the config provider {name!r}" if formed else "names a config provider"
            more = f" with {DECLARATION}.{name}.class" if formed else ""
            raise entry.wrong(f"{shown}, which is not declared", self.remedy or f"add it to {DECLARATION}{more}")
        try:
            return self.by_name[name].lookup(path, key)
        except LookupError as error:
            reason = str(error.args[0])
        shown = match[0]
        for part in _odd(name, path, key):
            for form in (repr(part)[1:-1], part):
                shown, reason = shown.replace(form, HIDDEN), reason.replace(form, HIDDEN)
        raise entry.wrong(f"{shown} cannot be resolved: {reason}")


def _odd(name: str, path: str, key: str) -> tuple[str, ...]:
    """What of a reference may be the secret itself, in the place of a Secret's name or of a key."""
    if name != PROVIDER:
        return () if is_like_name(key) else (key,)
    secret = path.rpartition("/")[2]
    odd = (secret if not is_like_name(secret) else "", key if not is_key_of_secret(key) else "")
    return tuple(part for part in odd if part)


def _check_length(entry: Entry, value: str) -> None:
    if len(value) > VALUE_CHARACTERS and _LONG.search(entry.key) is None:
        raise entry.wrong(
            f"has a value of {len(value)} characters, and {VALUE_CHARACTERS} are read",
            "shorten it; a regular expression says in few characters what a list of names says in many",
        )


def replace_references(text: str, replace: Callable[[re.Match[str]], str]) -> str:
    """A text with its references replaced, in time in proportion to its length.

    Args:
        text: a value as written.
        replace: gives what stands in place of a match of provider, path or None, and key.
    """
    pieces, at = [], 0
    while (end := text.find("}", at)) >= 0:
        begin = text.find("${", at, end)
        found = _REFERENCE.fullmatch(text, begin, end + 1) if begin >= 0 else None
        pieces.append(text[at : end + 1] if found is None else text[at:begin] + replace(found))
        at = end + 1
    return "".join((*pieces, text[at:]))


def declared(
    entries: Mapping[str, Entry],
    *,
    known: Mapping[str, Provider] | None = None,
    classes: Mapping[str, Lookup] | None = None,
    remedy: str = "",
) -> Providers:
    """The providers that a file declares.

    Args:
        entries: the file's top level.
        known: providers that need no declaration there, by name; a declaration counts before them.
        classes: Java classes, by their full names, whose work is done by what is given.
        remedy: what to do about a reference to another provider; by default, to declare it.

    Raises:
        ConfigError: a provider without a class, or of a class that is not known here.
    """
    names = entries.get(DECLARATION)
    wanted = [name.strip() for name in names.raw.split(",") if name.strip()] if names else []
    found = {name: _provider(name, entries, names, classes or {}) for name in wanted if names}
    return Providers(by_name={**(known or {}), **found}, remedy=remedy)


def conventional(prefix: str = "") -> dict[str, Provider]:
    """Kafka's three providers without limits, under the names that people give them.

    A connector's configuration cannot declare providers: the Connect worker does, under names that it chooses.

    Args:
        prefix: before each name; Strimzi's own providers begin with ``strimzi``.
    """
    names = {"file": _files, "env": _environment, "dir": _directories, "directory": _directories}
    return {prefix + name: Provider(name=prefix + name, lookup=make({})) for name, make in names.items()}


def _provider(name: str, entries: Mapping[str, Entry], declaration: Entry, classes: Mapping[str, Lookup]) -> Provider:
    prefix = f"{DECLARATION}.{name}."
    entry = entries.get(prefix + "class")
    if entry is None:
        shown = declaration.tell_name(name)  # a secret may stand there by mistake
        place = prefix if shown == repr(name) else f"{DECLARATION}.<name>."
        raise declaration.wrong(f"{shown} has no class", f"set {place}class, {one_of(_FACTORIES)}")
    if entry.raw.strip() in classes:
        return Provider(name=name, lookup=classes[entry.raw.strip()])
    simple = entry.raw.strip().removeprefix(PACKAGE)
    if simple not in _FACTORIES:
        shown = entry.shown_choice(_FACTORIES) if simple.isidentifier() else entry.shown_class
        raise entry.wrong(
            f"{shown} is a Java class that is not known here",
            f"{one_of(_FACTORIES)}; mount the secrets of other stores as files or environment variables",
        )
    parameters = {
        key.removeprefix(prefix + "param."): value for key, value in entries.items() if key.startswith(prefix)
    }
    return Provider(name=name, lookup=_FACTORIES[simple](parameters))


def _files(parameters: Mapping[str, Entry]) -> Lookup:
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


def _directories(parameters: Mapping[str, Entry]) -> Lookup:
    allowed = _allowed_paths(parameters)

    def lookup(path: str, key: str) -> str:
        if not key or Path(key).name != key:
            raise LookupError(f"{key!r} is not the name of a file in {path}")
        # One line end is dropped: editors add it, and no password means it (Kafka would keep it).
        return _read(allowed(path) / key).removesuffix("\n").removesuffix("\r")

    return lookup


def _environment(parameters: Mapping[str, Entry]) -> Lookup:
    entry = parameters.get("allowlist.pattern")
    allowed = compile_list([entry.raw.strip()], file=entry.file, key=entry.key) if entry else None

    def lookup(_path: str, key: str) -> str:
        return _variable(key, allowed)

    return lookup


def _variable(name: str, allowed: Expression | None) -> str:
    if allowed is not None and not allowed.matches(name):
        raise LookupError(f"allowlist.pattern does not allow the variable {name}")
    if name not in os.environ:
        raise LookupError(f"the environment has no variable {name}")
    if _SURROGATE.search(os.environ[name]):
        raise LookupError(f"the variable {name} is not UTF-8 text")
    return os.environ[name]


def _allowed_paths(parameters: Mapping[str, Entry]) -> Callable[[str], Path]:
    """Compares paths as they are written, as Kafka does: what a link in an allowed one leads to is allowed too."""
    entry = parameters.get("allowed.paths")
    roots = [os.path.normpath(part.strip()) for part in entry.raw.split(",") if part.strip()] if entry else []

    def check(path: str) -> Path:
        if roots and not any(Path(os.path.normpath(path)).is_relative_to(root) for root in roots):
            raise LookupError(f"allowed.paths does not hold {path}")
        return Path(path)

    return check


def _read(path: Path) -> str:
    try:
        return read_text(path)
    except UnreadableError as refused:
        raise LookupError(f"{path}: {refused}") from None


_FACTORIES: Mapping[str, Callable[[Mapping[str, Entry]], Lookup]] = {
    "FileConfigProvider": _files,
    "EnvVarConfigProvider": _environment,
    "DirectoryConfigProvider": _directories,
}
