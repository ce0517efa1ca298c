"""Connectors in JSON, as people hand them to Kafka Connect, and as it shows them.

Read are, in one file or several, alone or in a list:

    {"name": …, "config": {…}}              the body of POST /connectors, with initial_state too
    {"connector.class": …, …}               the body of PUT /connectors/{name}/config
    {"<name>": {"info": …, "status": …}}    the answer to GET /connectors?expand=info&expand=status

The connectors of a pair of clusters may stand in files of their own: all JSON files of a command are read together.
Providers are declared by the Connect worker, whose file is not read: ``file``, ``env``, ``dir`` and ``directory`` are
Kafka's own here, unless a connector's ``config.providers`` says something else.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from sparkmirror.config.connectors import Connector, Role, State, pair_up
from sparkmirror.config.entries import Entry, one_of
from sparkmirror.config.nodes import Node
from sparkmirror.config.opened import Opened
from sparkmirror.config.providers import DECLARATION, conventional, declared
from sparkmirror.errors import ConfigError

_PACKAGE = "org.apache.kafka.connect.mirror."
_ROLES = {name: role for role in Role for name in (role.value, role.value.removesuffix("Connector"))}
_READ = ("name", "config", "initial_state", "tasks", "type")
_SHAPES = 'a connector reads {"name": "…", "config": {"connector.class": "…", …}}'


def open_connectors(documents: Sequence[tuple[str, Any]]) -> Opened:
    """Reads the connectors of all JSON files of a command.

    Args:
        documents: file, as the user named it, and what it holds.

    Raises:
        ConfigError: a file holds no connector of MirrorMaker 2, or some that cannot be one flow.
    """
    file = ", ".join(name for name, _ in documents)
    connectors: list[Connector] = []
    warnings: list[str] = []
    for name, document in documents:
        nodes = list(_connector_nodes(Node(file=name, path="", values={"": document}), document))
        strangers = [node.path for node in nodes if _role(node) is None]
        found = [one for node in nodes if (one := _connector(node)) is not None]
        if not found:
            reason = f"holds no connector of MirrorMaker 2{': ' if strangers else ''}{', '.join(strangers)}"
            raise ConfigError(file=name, key="", reason=reason, remedy=_SHAPES)
        if strangers:
            warnings.append(f"{name}: not connectors of MirrorMaker 2, not run: {', '.join(strangers)}")
        strays = dict.fromkeys(stray for node in nodes for stray in node.strays)
        if strays:
            warnings.append(f"{name}: unknown keys, without effect: {', '.join(strays)}")
        connectors += found
    own = _declarations(connectors)
    providers = declared(
        own,
        known=conventional(),
        remedy=f"the Connect worker declares it, whose file is not read: use {', '.join(conventional())}",
    )
    pairs = pair_up([_without_declarations(one) for one in connectors], providers.resolve)
    return Opened(
        file=file,
        aliases=pairs.aliases,
        flows=pairs.flows,
        idle=pairs.idle,
        providers=providers,
        kept=tuple(own.values()),
        enable="give a MirrorSourceConnector that is not paused or stopped",
        warnings=(*warnings, *pairs.warnings),
    )


def _connector_nodes(top: Node, document: Any) -> Iterator[Node]:
    """Every connector of a document as a node with ``config`` and perhaps a state; its path names the connector."""
    if isinstance(document, list):
        for number, one in enumerate(document):
            if not isinstance(one, Mapping):
                raise ConfigError(file=top.file, key=f"[{number}]", reason="is no connector", remedy=_SHAPES)
            yield from _shape(top.file, f"[{number}]", one)
    elif isinstance(document, Mapping) and document and all(_is_expanded(one) for one in document.values()):
        for name, one in document.items():
            node = Node(file=top.file, path=name, values=one)
            node.only("info", "status")
            yield Node(
                file=top.file, path=name, values={"name": name, **one["info"], **_status(node)}, strays=node.strays
            )
    elif isinstance(document, Mapping):
        yield from _shape(top.file, "", document)
    else:
        raise ConfigError(file=top.file, key="", reason="holds no connector", remedy=_SHAPES)


def _shape(file: str, place: str, document: Mapping[str, Any]) -> Iterator[Node]:
    if "config" in document:
        name = document.get("name")
        yield Node(file=file, path=name if isinstance(name, str) else place, values=document)
    elif "connector.class" in document:
        name = document.get("name")
        yield Node(file=file, path=name if isinstance(name, str) else place, values={"config": document})
    else:
        raise ConfigError(file=file, key=place, reason="has no config and no connector.class", remedy=_SHAPES)


def _is_expanded(one: Any) -> bool:
    return isinstance(one, Mapping) and isinstance(one.get("info"), Mapping)


def _status(node: Node) -> dict[str, Any]:
    """The state of a connector that Connect shows, as if it were to begin in it."""
    status = node.child("status")
    connector = status.child("connector") if status else None
    state = connector.text("state", "").lower() if connector else ""
    return {"initial_state": state} if state in ("paused", "stopped") else {}


def _role(node: Node) -> Role | None:
    """Which connector it is; None for those of others."""
    text = node.needed("config").text("connector.class")
    return _ROLES.get(text.strip().removeprefix(_PACKAGE))


def _connector(node: Node) -> Connector | None:
    role = _role(node)
    if role is None:
        return None
    node.only(*_READ)
    text = node.text("initial_state", "running").lower()
    states = {state.value: state for state in State}
    if text not in states:
        entry, possible = node.entry("initial_state"), [state.upper() for state in states]
        raise entry.wrong(f"{entry.shown_choice(possible)} is no state", one_of(possible))
    return Connector(
        role=role,
        place=node.path,
        file=node.file,
        entries={**(_stored_positions(node) if role is Role.SOURCE else {}), **node.settings("config")},
        state=states[text],
        why=node.place("initial_state"),
    )


def _stored_positions(node: Node) -> dict[str, Entry]:
    """Where Connect keeps the connector's positions, as far as it says: its name, and a topic of its own.

    What it does not say is not known, whatever its name: it is none of a MirrorMaker 2 that runs by itself.
    """
    config = node.settings("config")
    name = node.entry("name") if node.values.get("name") is not None else config.get("name")
    unknown = Entry(file=node.file, key=node.place("config"), raw="")
    found = {
        "mm2.connector.name": name,
        "mm2.offsets.topic": config.get("offsets.storage.topic", unknown),
        "mm2.group": unknown,
    }
    return {key: entry for key, entry in found.items() if entry is not None}


def _declarations(connectors: Sequence[Connector]) -> dict[str, Entry]:
    found: dict[str, Entry] = {}
    for one in connectors:
        for key, entry in one.entries.items():
            if key.startswith(DECLARATION) and found.setdefault(key, entry).raw != entry.raw:
                raise entry.wrong(f"is not what {found[key].key} says", "make them equal")
    return found


def _without_declarations(one: Connector) -> Connector:
    entries = {key: entry for key, entry in one.entries.items() if not key.startswith(DECLARATION)}
    return Connector(role=one.role, place=one.place, file=one.file, entries=entries, state=one.state, why=one.why)
