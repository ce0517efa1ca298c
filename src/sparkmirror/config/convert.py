"""Any configuration as a commented mm2.properties that gives the same flows.

Each flow's keys are written behind ``A->B.``, except what all flows of a cluster agree on, which becomes ``A.key``.
Secrets are not written: a value that holds one becomes a reference to a file that does not exist yet, with a comment on
what to put there; references that the source had stay, those to Secrets of Kubernetes become references to the
directories that such Secrets are mounted as.

Invariant: no line holds the text of a password, a private key or a login.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import permutations

from javaproperties import escape, to_comment

from sparkmirror.config.entries import Entry, is_secret
from sparkmirror.config.key_names import is_like_key, is_like_name
from sparkmirror.config.keys import ROLES
from sparkmirror.config.mirror_maker import EVERYWHERE
from sparkmirror.config.opened import Opened
from sparkmirror.config.providers import DECLARATION, PACKAGE, Provider, replace_references
from sparkmirror.config.secret import holds_clear, holds_secret, is_key_of_secret
from sparkmirror.config.secrets import VARIABLE, Secrets
from sparkmirror.model import Alias, FlowName

SECRETS_FILE = "/etc/sparkmirror/secrets.properties"
SECRETS_DIR = "/etc/sparkmirror/secrets"
_CLASSES = {
    "file": "FileConfigProvider",
    "env": "EnvVarConfigProvider",
    "dir": "DirectoryConfigProvider",
    "directory": "DirectoryConfigProvider",
}
_CLEAR = re.compile(
    r"""\b\w*(?:password|secret|token|assertion|keystore\.key)\w*\s*+=\s*+(?!["']?\$\{)""", re.IGNORECASE
)
"""An option of a login module with a secret that is no reference."""

_PREFIX = re.compile(r"(source|target)\.cluster\.(.+)")
_ROLE_PREFIX = re.compile(r"(source|target)\.(?:consumer|producer|admin)\.(.+)")


def as_properties(
    opened: Sequence[Opened], file: str, warnings: Sequence[str], *, secrets_file: str = SECRETS_FILE
) -> str:
    """The text of the properties file.

    Args:
        opened: what to convert.
        file: all of it, as the user named it.
        warnings: what is to be known about it.
        secrets_file: where the result looks for secrets that the source holds in clear.

    Raises:
        ConfigError: files that one file cannot replace, or a Secret whose keys cannot be listed.
    """
    writer = _Writer(opened, secrets_file)
    body = writer.lines()
    head = [f"From {file}, by sparkmirror convert."]
    if writer.asked:
        head += ["", "Before it can be used, put these there:"]
        head += [f"  {asked}" for asked in writer.asked]
    if warnings:
        head += ["", "What to know about it:"]
        head += [f"  {warning}" for warning in warnings]
    return "\n".join([*(to_comment(f" {line}") if line else "#" for line in head), "", *body]) + "\n"


class _Writer:
    """Writes keys, and notes which secrets and which providers the result needs."""

    def __init__(self, opened: Sequence[Opened], secrets_file: str) -> None:
        self._secrets_file = secrets_file
        self._opened = opened
        self.asked: dict[str, None] = {}
        self._kept: dict[str, Entry] = {}
        for one in opened:
            for entry in one.kept:
                self._keep(entry)
        self._names = [name for name in self._declared() if not isinstance(self._owner(name), Secrets)]
        self._needed: dict[str, str] = {}
        self._file = self._free("file")
        self._dir = self._free("dir")

    def _keep(self, entry: Entry) -> None:
        key = entry.key[entry.key.index(DECLARATION) :] if DECLARATION in entry.key else entry.key
        if self._kept.setdefault(key, entry).raw.strip() != entry.raw.strip():
            raise entry.wrong("is not what another of the files says", "convert the files one by one")

    def _declared(self) -> list[str]:
        entry = self._kept.get(DECLARATION)
        return [name.strip() for name in entry.raw.split(",") if name.strip()] if entry else []

    def _provider(self, name: str) -> Provider | None:
        found = (one.providers.by_name[name] for one in self._opened if name in one.providers.by_name)
        return next(found, None)

    def _owner(self, name: str) -> object:
        """What a provider's values come from."""
        return getattr(getattr(self._provider(name), "lookup", None), "__self__", None)

    def _free(self, name: str) -> str:
        """A name for a provider of our own; one that the source declares may be limited to other paths."""
        return f"sparkmirror-{name}" if name in self._names else name

    def lines(self) -> list[str]:
        """The file without its head."""
        aliases = dict.fromkeys(alias for one in self._opened for alias in one.aliases)
        shared = {alias: self._cluster_keys(alias) for alias in aliases}
        body: list[str] = []
        for alias, entries in shared.items():
            if entries:
                body += ["", f"# Cluster {alias}"]
            for key, entry in entries.items():
                body += self._pair(f"{alias}.", key, entry)
        for one in self._opened:
            for name, flat in one.flows.items():
                body += ["", f"# Flow {name}", *self._flow(name, flat, shared, enabled=True)]
            for name, flat in self._idle(one).items():
                body += [
                    "",
                    f"# Flow {name}, which {one.file} does not run",
                    *self._flow(name, flat, shared, enabled=False),
                ]
            body += self._others(one)
        return [_line("clusters", ", ".join(aliases)), *self._providers(), *body]

    def _cluster_keys(self, alias: Alias) -> dict[str, Entry]:
        """What all flows say about a cluster."""
        views = [
            (side, flat)
            for one in self._opened
            for name, flat in (*one.flows.items(), *one.idle.items())
            for side, end in (("source", name.source), ("target", name.target))
            if end == alias and f"{side}.cluster.bootstrap.servers" in flat
        ]
        found: dict[str, Entry] = {}
        for side, flat in views[:1]:
            for key, entry in flat.items():
                match = _PREFIX.fullmatch(key)
                if match and match[1] == side and _plain(match[2], views, entry):
                    found[match[2]] = entry
        return found

    def _flow(
        self, name: FlowName, flat: Mapping[str, Entry], shared: Mapping[Alias, Mapping[str, Entry]], *, enabled: bool
    ) -> Iterator[str]:
        yield _line(f"{name}.enabled", str(enabled).lower())
        ends = {"source": shared[name.source], "target": shared[name.target]}
        for key, entry in flat.items():
            match = _PREFIX.fullmatch(key)
            role = _ROLE_PREFIX.fullmatch(key)
            said = ends[match[1]].get(match[2]) if match else None
            # The same key of a cluster's roles follows from the cluster's.
            if role and role[2] in EVERYWHERE and role[2] in ends[role[1]]:
                said = ends[role[1]][role[2]]
            if key != "enabled" and (match is None or match[2] != "alias") and (said is None or said.raw != entry.raw):
                yield from self._pair(f"{name}.", key, entry)

    def _idle(self, one: Opened) -> dict[FlowName, Mapping[str, Entry]]:
        """Pairs whose flow no file runs; of several files that have one, the first counts."""
        before = self._opened[: self._opened.index(one)]
        running = {name for other in self._opened for name in other.flows}
        told = running | {name for other in before for name in other.idle}
        return {name: flat for name, flat in one.idle.items() if name not in told}

    def _others(self, one: Opened) -> Iterator[str]:
        """Pairs that the source says nothing about emit no heartbeats, as MirrorMaker 2 would by itself."""
        for source, target in permutations(one.aliases, 2):
            name = FlowName(source=source, target=target)
            if not any(name in other.flows or name in other.idle for other in self._opened):
                yield _line(f"{name}.emit.heartbeats.enabled", "false")

    def _pair(self, prefix: str, key: str, entry: Entry) -> Iterator[str]:
        if not is_like_key(prefix + key):
            return  # it is told among the keys without effect, and may be a secret itself
        value = self._safe(prefix + key, is_secret(key) or holds_secret(entry.raw) or entry.odd, entry)
        if entry.key != prefix + key:
            yield to_comment(f" {entry.file}: {entry.key}")
        yield _line(prefix + key, value)

    def _safe(self, key: str, secret: bool, entry: Entry) -> str:
        """The value, with secrets and references as the new file needs them."""
        if key.endswith("sasl.jaas.config"):
            clear = holds_clear(entry.raw) or _CLEAR.search(entry.raw) is not None
        else:
            clear = holds_secret(entry.raw) or entry.odd
        odd = self._names_odd_keys(entry.raw)
        secret, refers = secret or odd, "${" in entry.raw and not clear and not odd
        if secret and not refers and entry.raw.strip():
            self._needed[self._file] = "FileConfigProvider"
            self.asked[f"{self._secrets_file}: {key} = the value of {entry.key} in {entry.file}"] = None
            return f"${{{self._file}:{self._secrets_file}:{key}}}"
        return replace_references(entry.raw, lambda match: self._reference(entry, match))

    def _names_odd_keys(self, text: str) -> bool:
        """Whether a reference has something else than a key of a Secret, such as the secret itself, in its place."""
        found: list[bool] = []

        def note(match: re.Match[str]) -> str:
            found.append(self._is_odd(match))
            return ""

        replace_references(text, note)
        return any(found)

    def _is_odd(self, match: re.Match[str]) -> bool:
        name, path, key = match[1], match[2] or "", match[3]
        formed = (
            is_key_of_secret(key) and is_like_name(path)
            if isinstance(self._owner(name), Secrets)
            else is_like_name(key)
        )
        if not key or formed:
            return False
        try:
            provider = self._provider(name)
            return provider is None or not provider.lookup(path, key)
        except LookupError:
            return True

    def _reference(self, entry: Entry, match: re.Match[str]) -> str:
        name = match[1]
        owner = self._owner(name)
        if isinstance(owner, Secrets):
            return self._mounted(entry, owner, match[2] or "", match[3])
        if name in self._names:
            return match[0]
        plain = name.removeprefix("strimzi")
        if plain not in _CLASSES:
            raise entry.wrong(f"{match[0]} names a config provider that is not declared")
        self._needed[plain] = _CLASSES[plain]
        return match[0].replace(f"${{{name}:", f"${{{plain}:", 1)

    def _mounted(self, entry: Entry, secrets: Secrets, path: str, key: str) -> str:
        secret = path.rpartition("/")[2]
        directory = f"{os.environ.get(VARIABLE) or SECRETS_DIR}/{secret}"
        try:
            keys = secrets.keys(path, key)
        except LookupError as error:
            raise entry.wrong(f"the keys of the Secret {secret} are needed: {error.args[0]}") from None
        self._needed[self._dir] = "DirectoryConfigProvider"
        for one in keys:
            self.asked[f"{directory}/{one}: the value of {one} in the Secret {secret}"] = None
        return "\n".join(f"${{{self._dir}:{directory}:{one}}}" for one in keys)

    def _providers(self) -> Iterator[str]:
        """The declarations that the source had, and those that the references need."""
        names = [*self._names, *(name for name in self._needed if name not in self._names)]
        if names:
            yield _line(DECLARATION, ", ".join(names))
        for key, entry in self._kept.items():
            provider = key.removeprefix(DECLARATION + ".").partition(".")[0]
            if key != DECLARATION and (not key.startswith(DECLARATION) or provider in self._names):
                yield from self._pair("", key, entry)
        for name, simple in self._needed.items():
            if name not in self._names:
                yield _line(f"{DECLARATION}.{name}.class", PACKAGE + simple)


def _line(key: str, value: str) -> str:
    """A key with its value as people write them: in a value, none of these characters needs a backslash."""
    shown = escape(value)
    for mark in ":=#! ":
        shown = shown.replace(f"\\{mark}", mark)
    leading = "\\" if shown.startswith(" ") else ""
    return f"{escape(key)} = {leading}{shown}"


def _plain(name: str, views: Sequence[tuple[str, Mapping[str, Entry]]], entry: Entry) -> bool:
    """Whether a key can stand for a cluster: all flows agree, and no weaker key of a role would lose to it."""
    known = any(name in table for table in ROLES.values())
    agreed = all(
        (other := flat.get(f"{side}.cluster.{name}")) is not None and other.raw == entry.raw for side, flat in views
    )
    weak = any(f"{role}.{name}" in flat for role in ROLES for _, flat in views)
    return known and agreed and not weak
