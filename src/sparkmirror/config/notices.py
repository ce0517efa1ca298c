"""What the author of a file should know about keys that are not acted upon, in one line for each kind.

Invariant: each key of the file is acted upon, refused, or named here. The lines hold keys, never values; a key that is
unlike all that are known is named by its line; in documents, where its path says that, it is hidden.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from difflib import get_close_matches
from enum import Enum
from functools import lru_cache

from sparkmirror.config import layers
from sparkmirror.config.entries import Entry
from sparkmirror.config.keys import CLASSES, FILE, FLOW, OLD_NAMES, PREFIXES, ROLES, WORKER, Key, Status, find
from sparkmirror.config.mirror_maker import ARROW, EVERYWHERE, flow_prefix, flows_of, shown_aliases
from sparkmirror.config.properties import PropertiesFile
from sparkmirror.model import Alias

_ROLE_PREFIX = re.compile(r"(?:(?:source|target)\.)?(consumer|producer|admin)\.(?:override\.)?(.+)")
_SIDE_PREFIX = re.compile(r"(?:source|target)\.cluster\.(.+)")
_CLASSES: Mapping[str, Key] = {name: Key(status=Status.ACTIVE) for name in CLASSES}
_PROVIDERS = "config.providers."
_CLIENT_KEYS = tuple(dict.fromkeys(name for table in ROLES.values() for name in table))
_FLOW_KEYS = (*FLOW, *(f"{role}.{name}" for role, table in ROLES.items() for name in table))
_SUGGESTIONS, _LONGEST = 50, 200
_EXACTLY_ONCE = ("exactly.once.source.support", "exactly.once.support")


class Kind(Enum):
    """What is to be said about a key, beside what its row in the table says."""

    UNKNOWN = "unknown keys, without effect"
    MISPLACED = "without effect where they stand"
    STRAY = "without effect, since they name no flow between two of the clusters"
    OLD = "old names"
    EXACTLY_ONCE = "without effect"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """What is to be said about one key.

    Attributes:
        key: as written in the file.
        what: a kind of this module, or the status of the key's row.
        note: said behind the key; for a status, the text that groups keys.
        name: of an unknown key, what may be a slip of the pen.
        known: and what its author may have meant.
        place: said instead of a key that is unlike all that are known.
    """

    key: str
    what: Kind | Status
    note: str = ""
    name: str = ""
    known: tuple[str, ...] = ()
    place: str = ""


def notices(file: PropertiesFile, aliases: tuple[Alias, ...]) -> tuple[str, ...]:
    """The lines about a file's keys."""
    shown = shown_aliases(file, aliases)
    findings = [
        replace(finding, place=entry.place)
        for key, entry in file.entries.items()
        for finding in _judge(key, aliases, shown)
    ]
    lines = _lines(findings)
    if file.duplicates:
        told = ", ".join(file.entries[key].place for key in file.duplicates)
        lines.append(f"given more than once, the last one counts: {told}")
    return tuple(f"{file.file}: {line}" for line in lines if line)


def flow_notices(file: str, entries: Iterable[tuple[str, Entry]]) -> tuple[str, ...]:
    """The lines about keys of flows that stand elsewhere than in a properties file.

    Args:
        file: as the user named it.
        entries: with the names that a connector knows; the lines name the places in the file, each once.
    """
    named = {(entry.key, name): (name, entry) for name, entry in entries}
    findings = [
        replace(finding, key=entry.key, place=entry.place)
        for name, entry in named.values()
        for finding in _judge_flow(name, name, "")
    ]
    return tuple(f"{file}: {line}" for line in _lines(findings) if line)


def _lines(found: list[Finding]) -> list[str]:
    findings = [one if _is_known(one) else replace(one, key=one.place) for one in _suggested(found)]
    return [
        _listed(Kind.UNKNOWN, findings),
        _grouped("not active in this version", Status.LATER, findings),
        _grouped("without meaning here", Status.NO_MEANING, findings),
        *(_listed(kind, findings) for kind in (Kind.MISPLACED, Kind.STRAY, Kind.OLD, Kind.EXACTLY_ONCE)),
    ]


def _is_known(one: Finding) -> bool:
    """Whether the key is one that is known, perhaps in a wrong place, or for which one is suggested."""
    free = one.what in (Kind.UNKNOWN, Kind.STRAY) or isinstance(one.what, Status)
    return not free or (one.known != () and one.note != "")


def shadow_notices(file: str, flat: Mapping[str, Entry], prefix: str) -> Iterator[str]:
    """One line about keys of a flow that lose to keys of a cluster.

    Args:
        file: as the user named it.
        flat: the flow's keys, as a connector would get them.
        prefix: ``A->B.``
    """
    lost = {loser.key: (winner.key, instead) for loser, winner, instead in layers.shadowed(flat, prefix)}
    if lost:
        told = ", ".join(f"{key} loses to {winner} (write {instead})" for key, (winner, instead) in lost.items())
        yield f"{file}: as in MirrorMaker 2, {told}"


def _judge(key: str, aliases: tuple[Alias, ...], shown: tuple[Alias, ...]) -> Iterator[Finding]:
    flow = next(flows_of(key, aliases), None)
    scope, _, provider = key.partition(_PROVIDERS)
    if provider and scope:
        yield Finding(key=key, what=Kind.MISPLACED, note=f"write {_PROVIDERS}{provider}")
    elif flow is not None:
        prefix = flow_prefix(flow)
        yield from _judge_flow(key, key.removeprefix(prefix), prefix)
    elif ARROW in key:
        yield Finding(key=key, what=Kind.STRAY)
    elif key in FLOW or key in FILE:
        yield from _judge_top(key, shown)
    else:
        # The longest alias that fits: with the clusters eu and eu.west, eu.west.x is a key of eu.west.
        alias = max((alias for alias in aliases if key.startswith(f"{alias}.")), key=len, default=None)
        yield from _judge_cluster(key, key.removeprefix(f"{alias}."), alias) if alias else _judge_top(key, shown)


def _judge_flow(key: str, name: str, prefix: str) -> Iterator[Finding]:
    if name in OLD_NAMES:
        yield _old(key, prefix + OLD_NAMES[name])
    elif name in _EXACTLY_ONCE:
        yield _exactly_once(key)
    elif (row := find(name, FLOW, WORKER, FILE)) is not None:
        yield from _by_row(key, row)
    elif (match := _SIDE_PREFIX.fullmatch(name)) is not None:
        yield from _judge_side(key, match[1])
    elif (match := _ROLE_PREFIX.fullmatch(name)) is not None:
        yield from _client(key, match[2], [ROLES[match[1]]])
    elif find(name, *ROLES.values()) is not None:
        yield Finding(key=key, what=Kind.MISPLACED, note=f"write {prefix}{_side_of(name)}.{name}")
    else:
        yield _unknown(key, name, _FLOW_KEYS)


def _judge_side(key: str, name: str) -> Iterator[Finding]:
    """A key behind ``source.cluster.`` or ``target.cluster.``; Strimzi puts the Connect worker's keys there too."""
    match = _ROLE_PREFIX.fullmatch(name)
    known = any(name in table for table in ROLES.values())
    if match is not None:
        yield Finding(key=key, what=Kind.MISPLACED, note=f"write {name} in the configuration of the connector")
    elif name in _EXACTLY_ONCE:
        yield _exactly_once(key)
    elif not known and name not in CLASSES and (row := find(name, WORKER, FILE)) is not None:
        yield from _by_row(key, row)
    else:
        yield from _client(key, name, (*ROLES.values(), _CLASSES))


def _judge_cluster(key: str, name: str, alias: Alias) -> Iterator[Finding]:
    match = _ROLE_PREFIX.fullmatch(name)
    if match is not None and not name.startswith(("source.", "target.")):
        yield from _client(key, match[2], [ROLES[match[1]]])
    elif find(name, *ROLES.values(), _CLASSES) is not None and not name.startswith(tuple(PREFIXES)):
        yield from _client(key, name, (*ROLES.values(), _CLASSES))
    elif name in _EXACTLY_ONCE:
        yield _exactly_once(key)
    elif name in FLOW or name in OLD_NAMES:
        yield Finding(key=key, what=Kind.MISPLACED, note=f"write {name}, or A->{alias}.{name} for one flow")
    elif (row := find(name, WORKER, FILE)) is not None:
        yield from _by_row(key, row)
    else:
        yield _unknown(key, name, _CLIENT_KEYS)


def _judge_top(key: str, aliases: tuple[Alias, ...]) -> Iterator[Finding]:
    example = aliases[0] if aliases else "A"
    match = _ROLE_PREFIX.fullmatch(key)
    if key in OLD_NAMES:
        yield _old(key, OLD_NAMES[key])
    elif key in _EXACTLY_ONCE:
        yield _exactly_once(key)
    elif key == "enabled":
        yield Finding(key=key, what=Kind.MISPLACED, note="write A->B.enabled for each flow")
    elif (row := find(key, FLOW, FILE, WORKER)) is not None:
        yield from _by_row(key, row)
    elif key in EVERYWHERE:
        yield from _client(key, key, ROLES.values())
    elif match is not None and find(match[2], ROLES[match[1]]) is not None:
        yield Finding(key=key, what=Kind.MISPLACED, note=f"write {example}.{match[1]}.{match[2]}")
    elif find(key, *ROLES.values()) is not None:
        yield Finding(key=key, what=Kind.MISPLACED, note=f"write {example}.{key}")
    else:
        yield _unknown(key, key, _top_keys(aliases))


def _client(key: str, name: str, tables: Iterable[Mapping[str, Key]]) -> Iterator[Finding]:
    rows = [table[name] for table in tables if name in table]
    owner = next((role for role, table in ROLES.items() if name in table), None)
    if not rows and owner:
        yield Finding(key=key, what=Kind.UNKNOWN, note=f"a key of the {owner}")
    elif not rows:
        yield _unknown(key, name, _CLIENT_KEYS)
    elif all(row.status is not Status.ACTIVE for row in rows):
        yield from _by_row(key, rows[0])


def _by_row(key: str, row: Key) -> Iterator[Finding]:
    if row.status is not Status.ACTIVE:
        yield Finding(key=key, what=row.status, note=row.about)


def _unknown(key: str, name: str, known: tuple[str, ...]) -> Finding:
    return Finding(key=key, what=Kind.UNKNOWN, name=name, known=known)


@lru_cache
def _top_keys(aliases: tuple[Alias, ...]) -> tuple[str, ...]:
    return (*FLOW, *FILE, *WORKER, *(f"{alias}.bootstrap.servers" for alias in aliases))


def _suggested(findings: list[Finding]) -> list[Finding]:
    """The same; the first unknown keys with what may have been meant. For thousands of them that would take minutes."""
    unknown = [one for one in findings if one.known][:_SUGGESTIONS]
    near = {
        one: get_close_matches(one.name, one.known, n=1, cutoff=0.8) for one in unknown if len(one.name) <= _LONGEST
    }
    return [replace(one, note=f"{near[one][0]}?") if near.get(one) else one for one in findings]


def _old(key: str, new: str) -> Finding:
    return Finding(key=key, what=Kind.OLD, note=f"is now {new}")


def _exactly_once(key: str) -> Finding:
    return Finding(
        key=key,
        what=Kind.EXACTLY_ONCE,
        note="records arrive exactly once whatever it says, and without transactions",
    )


def _side_of(name: str) -> str:
    role = next(role for role, table in ROLES.items() if name in table)
    return {"consumer": "source.consumer", "producer": "target.producer", "admin": "target.admin"}[role]


def _listed(kind: Kind, findings: list[Finding]) -> str:
    found = [f"{one.key} ({one.note})" if one.note else one.key for one in findings if one.what is kind]
    return f"{kind.value}: {', '.join(found)}" if found else ""


def _grouped(title: str, status: Status, findings: list[Finding]) -> str:
    groups: dict[str, list[str]] = {}
    for one in findings:
        if one.what is status:
            groups.setdefault(one.note, []).append(one.key)
    return f"{title}: " + "; ".join(f"{note} ({', '.join(keys)})" for note, keys in groups.items()) if groups else ""
