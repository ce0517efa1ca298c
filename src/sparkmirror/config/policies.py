"""Replication policies of the user's own: Python classes, named by their path.

``replication.policy.class = my_company.policies:OurPolicy``, or with a dot before the class. The class is called with
one argument, a mapping of the flow's keys that begin with ``replication.policy.``, and its two aliases. What the object
must answer is said by `Policy`; the four questions that are not in `NEEDED` are answered as MirrorMaker 2's interface
does where it has no method for them.

Invariant: the class is needed where flows are controlled, and by the commands; never on executors, whose plans hold
names.

Reference: ``org.apache.kafka.connect.mirror.ReplicationPolicy``.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any, NoReturn, Protocol

from sparkmirror.config.entries import Entry
from sparkmirror.config.key_names import shown_name
from sparkmirror.config.secret import holds_secret

NEEDED = ("format_remote_topic", "topic_source", "upstream_topic")
PROBE = "sparkmirror-probe"
HOW = "an own policy is a Python class, replication.policy.class = package.module:Class, see docs/topologies.md"


class Policy(Protocol):
    """What an own policy answers. It may also have ``keeps_names``: whether loops are to be told by writers.

    A policy without it is asked what it would call a topic: one that gives the same name keeps names.
    """

    def format_remote_topic(self, source_alias: str, topic: str) -> str:
        """The name on the target of a topic of ``source_alias``."""

    def topic_source(self, topic: str) -> str | None:
        """The alias of the cluster that a topic was copied from, as its name tells; None: it was not copied."""

    def upstream_topic(self, topic: str) -> str | None:
        """The name that a topic has on the cluster it was copied from; None: it was not copied."""

    def is_internal_topic(self, topic: str) -> bool:
        """Whether it is never copied. Sparkmirror's own topics never are. Need not be there."""

    def heartbeats_topic(self) -> str:
        """The topic of heartbeats on each cluster. Need not be there: ``heartbeats``."""

    def checkpoints_topic(self, source_alias: str) -> str:
        """The topic of checkpoints on the target. Need not be there: ``<source>.checkpoints.internal``."""

    def offset_syncs_topic(self, other_alias: str) -> str:
        """The topic of offset syncs. Need not be there: ``mm2-offset-syncs.<other>.internal``."""


def find_class(entry: Entry, path: str) -> type[Any] | None:
    """The class of a path; None where it has a dot before the class, like Java's, and no such module is there.

    Raises:
        ConfigError: the module or the class is not there, or the module fails while it is imported.
    """
    module, colon, name = path.rpartition(":")
    if not colon:
        module, _, name = path.rpartition(".")
    if not module or not name.isidentifier() or not all(part.isidentifier() for part in module.split(".")):
        if colon:
            raise entry.wrong(f"{entry.shown_class} is not package.module:Class", HOW)
        return None
    try:
        found = getattr(importlib.import_module(module), name, None)
    except ModuleNotFoundError as failure:
        if f"{module}.".startswith(f"{failure.name}."):
            if not colon:
                return None
            raise entry.wrong(
                f"there is no Python module {_shown(entry, str(failure.name))}",
                "install its package in the environment of sparkmirror, or name its directory in PYTHONPATH",
            ) from None
        raise entry.wrong(
            f"{_shown(entry, module)} needs the module {failure.name}, which is not there", "install it"
        ) from failure
    except (Exception, SystemExit) as failure:  # noqa: BLE001 - told; sys.exit would end the command as if all were well
        _fail(entry, f"{_shown(entry, module)} cannot be imported", failure)
    if not isinstance(found, type):
        raise entry.wrong(f"the Python module {_shown(entry, module)} has no class {_shown(entry, name)}", HOW)
    return found


def make_policy(entry: Entry, own: type[Any], settings: Mapping[str, str], *, secretive: bool = False) -> Any:
    """An object of the class, asked once whether it answers.

    Args:
        entry: names the class.
        own: the class.
        settings: that it is made with.
        secretive: whether one of them must not be shown.

    Raises:
        ConfigError: it cannot be made, or lacks a method.
    """
    missing = [name for name in NEEDED if not callable(getattr(own, name, None))]
    if missing:
        raise entry.wrong(f"the class {own.__qualname__} has no method {', '.join(missing)}", HOW)
    try:
        return own(dict(settings))
    except (Exception, SystemExit) as failure:  # noqa: BLE001 - told; sys.exit would end the command as if all were well
        _fail(entry, f"{own.__qualname__}(settings) failed", failure, secretive=secretive)


def keeps_names(entry: Entry, policy: Any, source: str, *, secretive: bool = False) -> bool:
    """Whether topics keep their names on the target.

    Args:
        entry: names the policy's class.
        policy: an object of it.
        source: the alias of the source.
        secretive: as for `make_policy`.

    Raises:
        ConfigError: the policy fails.
    """
    told = getattr(policy, "keeps_names", None)
    if isinstance(told, bool):
        return told
    try:
        return bool(policy.format_remote_topic(source, PROBE) == PROBE)
    except (Exception, SystemExit) as failure:  # noqa: BLE001 - told; sys.exit would end the command as if all were well
        _fail(entry, f"format_remote_topic({source!r}, {PROBE!r}) failed", failure, secretive=secretive)


def told(failure: BaseException, *, secretive: bool) -> str:
    """What a failure of an own policy may say: its text can hold what the policy was made with, in whatever form."""
    kind, text = type(failure).__name__, str(failure)
    if secretive or holds_secret(text):
        return f"{kind}, of which the text is not shown: it may hold a secret that the policy knows"
    return f"{kind}: {text}"


def _shown(entry: Entry, part: str) -> str:
    """A part of the value, unless that came from a config provider or is unlike a name of Python."""
    if "${" in entry.raw or entry.secret:
        return entry.shown
    return shown_name(part)


def _fail(entry: Entry, what: str, failure: BaseException, *, secretive: bool = False) -> NoReturn:
    shown = told(failure, secretive=secretive)
    raise entry.wrong(f"{what}: {shown}", "correct the class") from (failure if str(failure) in shown else None)
