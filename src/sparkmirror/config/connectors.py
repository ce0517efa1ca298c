"""MirrorMaker 2's connectors as people configure them for Kafka Connect, put together to flows.

A pair of clusters has up to three connectors, and here they are one flow. Each key counts where its connector owns it;
what a connector that does not own it says instead is named in a warning. A connector that is missing, paused or stopped
has its duties switched off:

    no MirrorSourceConnector        nothing is copied. Beside a MirrorHeartbeatConnector alone that is a flow which only
                                    emits heartbeats; checkpoints without a copy are refused, since they are made from
                                    what this flow has copied
    no MirrorCheckpointConnector    emit.checkpoints.enabled=false, sync.group.offsets.enabled=false
    no MirrorHeartbeatConnector     emit.heartbeats.enabled=false

References: MirrorSourceConfig, MirrorCheckpointConfig and MirrorHeartbeatConfig of Kafka 4.3.1.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

from sparkmirror.config.entries import Entry, Reader, Resolve
from sparkmirror.config.keys import OLD_NAMES
from sparkmirror.config.names import check_alias
from sparkmirror.config.notices import flow_notices
from sparkmirror.errors import ConfigError
from sparkmirror.model import Alias, FlowName


class Role(Enum):
    """The three connectors, by the simple names of their classes."""

    SOURCE = "MirrorSourceConnector"
    CHECKPOINT = "MirrorCheckpointConnector"
    HEARTBEAT = "MirrorHeartbeatConnector"


class State(Enum):
    """What a connector is told to do."""

    RUNNING = "running"
    PAUSED = "paused"
    STOPPED = "stopped"


@dataclass(frozen=True, slots=True, kw_only=True)
class Connector:
    """One connector.

    Attributes:
        role: which of the three.
        place: where it stands in the file; "" where the file is nothing else.
        file: as the user named it.
        entries: its configuration by key.
        state: whether it runs.
        why: the key that keeps it from running.
    """

    role: Role
    place: str
    file: str
    entries: Mapping[str, Entry]
    state: State = State.RUNNING
    why: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pairs:
    """What a set of connectors comes to.

    Attributes:
        aliases: the clusters, in their order.
        flows: the keys of each flow that runs.
        idle: the same for pairs whose connectors do not run.
        warnings: one line each.
    """

    aliases: tuple[Alias, ...]
    flows: Mapping[FlowName, Mapping[str, Entry]]
    idle: Mapping[FlowName, Mapping[str, Entry]]
    warnings: tuple[str, ...]


_OWNED: Mapping[str, Role] = {
    **dict.fromkeys(
        """groups groups.exclude group.filter.class emit.checkpoints.enabled emit.checkpoints.interval.seconds
        refresh.groups.enabled refresh.groups.interval.seconds sync.group.offsets.enabled
        sync.group.offsets.interval.seconds checkpoints.topic.replication.factor""".split(),
        Role.CHECKPOINT,
    ),
    **dict.fromkeys(
        "emit.heartbeats.enabled emit.heartbeats.interval.seconds heartbeats.topic.replication.factor".split(),
        Role.HEARTBEAT,
    ),
}
"""Keys of one connector; all others are the source connector's, or whose connector stands for it."""

_SHARED: Mapping[str, str] = {
    "source.cluster.bootstrap.servers": "",
    "target.cluster.bootstrap.servers": "",
    "replication.policy.class": "DefaultReplicationPolicy",
    "replication.policy.separator": ".",
    "replication.policy.internal.topic.separator.enabled": "true",
}
"""Keys that mean one thing for the whole flow, with their defaults: connectors that differ do not belong together."""

_SWITCHED_OFF: Mapping[Role, Mapping[str, str]] = {
    Role.SOURCE: {"topics": "", "heartbeats.replication.enabled": "false"},
    Role.CHECKPOINT: {"emit.checkpoints.enabled": "false", "sync.group.offsets.enabled": "false"},
    Role.HEARTBEAT: {"emit.heartbeats.enabled": "false"},
}
_CONSUMED = ("name", "connector.class", "enabled", "source.cluster.alias", "target.cluster.alias")
"""Keys that are not compared between connectors: each has its own, or they chose the pair."""

_TRANSFORMING = ("transforms", "predicates")


def pair_up(connectors: Sequence[Connector], resolve: Resolve) -> Pairs:
    """Puts connectors together to flows.

    Raises:
        ConfigError: connectors that cannot be one flow.
    """
    by_flow: dict[FlowName, dict[Role, Connector]] = {}
    for one in connectors:
        known = by_flow.setdefault(_flow_of(one, resolve), {})
        if one.role in known:
            raise _refused(one, f"is a second {one.role.value} of one pair of clusters", "put their topics into one")
        known[one.role] = one
    flows: dict[FlowName, Mapping[str, Entry]] = {}
    idle: dict[FlowName, Mapping[str, Entry]] = {}
    warnings: dict[str, None] = dict.fromkeys(_told(connectors))
    for name, found in by_flow.items():
        running = {role: one for role, one in found.items() if _runs(one, resolve)}
        if running and _copies(name, found, running):
            flows[name] = _merged(running)
            warnings.update(dict.fromkeys(_not_used(name, running)))
        else:
            idle[name] = _nothing(_main(found))
        warnings.update(dict.fromkeys(_not_run(name, found, running)))
    aliases = dict.fromkeys(alias for name in by_flow for alias in (name.source, name.target))
    return Pairs(aliases=tuple(aliases), flows=flows, idle=idle, warnings=tuple(warnings))


def _flow_of(one: Connector, resolve: Resolve) -> FlowName:
    reader = Reader(entries=one.entries, resolve=resolve)
    source, target = reader.text("source.cluster.alias"), reader.text("target.cluster.alias") or "target"
    if source is None:
        raise _refused(one, "has no source.cluster.alias", "give the source cluster a name, such as A")
    for key, alias in (("source.cluster.alias", source), ("target.cluster.alias", target)):
        if key in one.entries:
            check_alias(one.entries[key], alias)
    if source == target:
        raise one.entries["source.cluster.alias"].wrong("is the alias of the target too", "name two clusters")
    for side in ("source", "target"):
        if f"{side}.cluster.bootstrap.servers" not in one.entries:
            raise _refused(
                one,
                f"has no {side}.cluster.bootstrap.servers",
                "give host:port, host:port; the configuration of the Connect worker is not read",
            )
    return FlowName(source=Alias(source), target=Alias(target))


def _runs(one: Connector, resolve: Resolve) -> bool:
    enabled = Reader(entries=one.entries, resolve=resolve).boolean("enabled", default=True)
    return enabled and one.state is State.RUNNING


def _copies(name: FlowName, found: Mapping[Role, Connector], running: Mapping[Role, Connector]) -> bool:
    """Whether the flow can run: with its source connector, or with nothing but heartbeats."""
    if Role.SOURCE in running:
        return True
    if Role.SOURCE not in found and Role.CHECKPOINT in running:
        raise _refused(
            running[Role.CHECKPOINT],
            f"{name} has a MirrorCheckpointConnector and no MirrorSourceConnector: checkpoints are made from what the "
            "flow copies itself",
            "give the MirrorSourceConnector of the pair too",
        )
    return Role.SOURCE not in found


def _merged(found: Mapping[Role, Connector]) -> dict[str, Entry]:
    """The keys of a flow; of those that connectors share the source connector's count.

    Raises:
        ConfigError: connectors that name other clusters or other topics than their flow.
    """
    main = _main(found)
    flat: dict[str, Entry] = {}
    for role, one in found.items():
        for key, entry in _renamed(one).items():
            if _OWNED.get(key, main.role) is role or key in _TRANSFORMING:
                flat[key] = entry
            elif key in _SHARED:
                _agree(key, entry, _renamed(main).get(key), main)
    for role, off in _SWITCHED_OFF.items():
        if role not in found:
            place = f"{main.place}: no {role.value}" if main.place else f"no {role.value}"
            flat.update({key: Entry(file=main.file, key=place, raw=raw) for key, raw in off.items()})
    return flat


def _nothing(main: Connector) -> dict[str, Entry]:
    """What a pair does whose flow does not run; in MirrorMaker 2's own file it would emit heartbeats."""
    return {"emit.heartbeats.enabled": Entry(file=main.file, key=main.place or "connector", raw="false")}


def _main(found: Mapping[Role, Connector]) -> Connector:
    return next(found[role] for role in Role if role in found)


def _renamed(one: Connector) -> dict[str, Entry]:
    dropped = ("name", "connector.class", "enabled")
    fresh = {key: entry for key, entry in one.entries.items() if key not in OLD_NAMES and key not in dropped}
    return {OLD_NAMES[key]: entry for key, entry in one.entries.items() if key in OLD_NAMES} | fresh


def _agree(key: str, entry: Entry, counts: Entry | None, main: Connector) -> None:
    default = _SHARED[key]
    first = _comparable(counts.raw if counts else default)
    if _comparable(entry.raw) != first:
        instead = f"{counts.key} says {counts.shown}" if counts else f"the {main.role.value} leaves it at {default}"
        raise entry.wrong(
            f"{entry.shown} is not what the other connector of the pair has: {instead}", "make them equal"
        )


def _comparable(raw: str) -> frozenset[str]:
    return frozenset(part.strip().rpartition("org.apache.kafka.connect.mirror.")[2] for part in raw.split(","))


def _told(connectors: Sequence[Connector]) -> Iterator[str]:
    for file in dict.fromkeys(one.file for one in connectors):
        mine = (one.entries.items() for one in connectors if one.file == file)
        yield from flow_notices(file, (pair for items in mine for pair in items if pair[0] not in _CONSUMED))


def _not_used(name: FlowName, found: Mapping[Role, Connector]) -> Iterator[str]:
    """Keys that stand in a connector which does not own them, with another value than there."""
    main = _main(found)
    lost = []
    for one in found.values():
        for key, entry in one.entries.items():
            owner = found.get(_OWNED.get(key, main.role))
            counts = owner.entries.get(key) if owner else None
            differs = owner is not one and (counts is None or counts.raw.strip() != entry.raw.strip())
            if differs and key not in (*_CONSUMED, *_TRANSFORMING, *_SHARED):
                lost.append(entry.key)
    if lost:
        yield f"{main.file}: {name}: without effect, since another connector of the pair decides: {', '.join(lost)}"


def _not_run(name: FlowName, found: Mapping[Role, Connector], running: Mapping[Role, Connector]) -> Iterator[str]:
    main = _main(found)
    if Role.SOURCE in found and Role.SOURCE not in running:
        yield f"{main.file}: {name} is not run: {_reason(found[Role.SOURCE])}"
        return
    for role, one in found.items():
        if role not in running:
            yield f"{one.file}: {name} runs without {role.value}: {_reason(one)}"
    if Role.SOURCE not in found and running:
        yield f"{main.file}: {name} has no MirrorSourceConnector: nothing is copied"


def _reason(one: Connector) -> str:
    if one.state is State.RUNNING:
        return f"{one.entries['enabled'].key} is false"
    return f"{one.why} says {one.state.value}"


def _refused(one: Connector, reason: str, remedy: str) -> ConfigError:
    return ConfigError(file=one.file, key=one.place, reason=reason, remedy=remedy)
