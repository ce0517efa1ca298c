"""MirrorMaker 2's own format, mm2.properties: clusters, flows, and which of several keys counts for a flow.

For each flow the file is flattened into the keys that MirrorMaker 2 hands to its connector of that flow, so that a
connector's own configuration (Connect JSON, Strimzi) can be read by the same code behind this (flows.py). The steps
are those of ``MirrorMakerConfig.connectorBaseConfig`` and ``clusterProps`` of Kafka 4.3.1:

    1. flow keys at the top level,
    2. ``A.x`` as ``source.cluster.x``, ``A.consumer.x`` as ``source.consumer.x``, and so for the target; the security
       keys and ``bootstrap.servers`` reach every role, from the cluster first, else from the top level,
    3. ``A->B.x`` as ``x``, over what is there.

Two things follow that surprise people, and hold in MirrorMaker 2 too: other client keys at the top level have no
effect, and ``A->B.consumer.x`` loses to ``A.consumer.x`` (``A->B.source.consumer.x`` wins). Both are named in warnings.
Beyond MirrorMaker 2, any client key works as ``A.x`` for all roles, not only security keys.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from sparkmirror.config.entries import Entry, Reader, Resolve
from sparkmirror.config.keys import FLOW, OF_POLICY, OLD_NAMES, ROLES, SECURITY
from sparkmirror.config.names import check_alias
from sparkmirror.config.properties import PropertiesFile
from sparkmirror.errors import ConfigError
from sparkmirror.model import Alias, FlowName

ARROW = "->"
CLUSTERS = 100
"""Every pair of them gets heartbeats unless the file says otherwise: reading twice as many takes four times as long."""
HEARTBEATS_SWITCH = "emit.heartbeats.enabled"
EVERYWHERE = (*SECURITY, "bootstrap.servers")
"""Client keys that count at the top level."""


_OF_WORKER: Mapping[str, str] = {"offset.storage.topic": "mm2.offsets.topic", "group.id": "mm2.group"}
"""Keys of the worker that runs MirrorMaker 2, by cluster (the first also at the top level, where it wins), and ours."""

_OTHER_SWITCHES = tuple(f".{name}" for name in FLOW if name.endswith(".enabled"))
"""Ends of keys such as ``A->B.emit.heartbeats.enabled``."""


def read_aliases(file: PropertiesFile, resolve: Resolve) -> tuple[Alias, ...]:
    """The clusters of a file, in its order.

    Raises:
        ConfigError: none, or one that cannot be part of a topic's name.
    """
    reader = Reader(entries=file.entries, resolve=resolve)
    entry = reader.entry("clusters")
    if entry is None:
        raise ConfigError(
            file=file.file, key="clusters", reason="is not set", remedy="list the aliases: clusters = A, B"
        )
    names = reader.listing("clusters", ())
    if not names:
        raise entry.wrong("is empty", "list the aliases: clusters = A, B")
    if len(names) > CLUSTERS:
        raise entry.wrong(f"lists {len(names)} clusters, and {CLUSTERS} are read of a file", "write several files")
    for name in names:
        check_alias(entry, name)
    return tuple(dict.fromkeys(Alias(name) for name in names))


def shown_aliases(file: PropertiesFile, aliases: Collection[Alias]) -> tuple[Alias, ...]:
    """Those of the clusters whose names messages may list: a config provider may have given a secret for a name.

    Args:
        file: where ``clusters`` stands, if it does.
        aliases: what it lists, with its references replaced.
    """
    entry = file.entries.get("clusters")
    written = aliases if entry is None else {part.strip() for part in entry.raw.split(",")}
    return tuple(alias for alias in aliases if alias in written)


def enabled_flows(file: PropertiesFile, aliases: tuple[Alias, ...], resolve: Resolve) -> tuple[FlowName, ...]:
    """The flows that the file enables, in the order of its clusters.

    Raises:
        ConfigError: a flow of an unknown cluster, or of a cluster to itself, is enabled; an ``enabled`` is no boolean.
    """
    reader = Reader(entries=file.entries, resolve=resolve)
    known = {flow_prefix(flow) + "enabled" for flow in pairs(aliases)}
    for key, entry in file.entries.items():
        if ARROW in key and key.endswith(".enabled") and key not in known:
            _refuse_stray(key, entry, reader, aliases, file.entries["clusters"])
    return tuple(flow for flow in pairs(aliases) if reader.boolean(flow_prefix(flow) + "enabled", default=False))


def several_aliases(file: PropertiesFile, resolve: Resolve) -> bool:
    """Whether two aliases of the file may be one cluster: sparkmirror's own key ``several.aliases.per.cluster``."""
    reader = Reader(entries=file.entries, resolve=resolve)
    return reader.boolean("several.aliases.per.cluster", default=False)


def pulse_pairs(file: PropertiesFile, aliases: tuple[Alias, ...], resolve: Resolve) -> tuple[FlowName, ...]:
    """The pairs of clusters that get heartbeats, whether or not their flow is enabled, in the order of the clusters.

    All of them unless the file says otherwise, as ``MirrorMakerConfig.clusterPairs``: who mirrors A to B wants to see
    heartbeats come from A, and those are written there by the flow B->A.

    Raises:
        ConfigError: an ``emit.heartbeats.enabled`` is no boolean.
    """
    reader = Reader(entries=file.entries, resolve=resolve)
    everywhere = reader.boolean(HEARTBEATS_SWITCH, default=True)
    return tuple(
        flow for flow in pairs(aliases) if reader.boolean(flow_prefix(flow) + HEARTBEATS_SWITCH, default=everywhere)
    )


def pairs(aliases: tuple[Alias, ...]) -> Iterator[FlowName]:
    """Every flow that could be."""
    return (FlowName(source=source, target=target) for source in aliases for target in aliases if source != target)


def flow_prefix(flow: FlowName) -> str:
    """What stands before the keys of one flow."""
    return f"{flow.source}{ARROW}{flow.target}."


def flows_of(key: str, aliases: tuple[Alias, ...]) -> Iterator[FlowName]:
    """The flows that a key belongs to: several where one alias begins like another, such as eu and eu.west."""
    source, arrow, rest = key.partition(ARROW)
    if arrow and source in aliases:
        for alias in aliases:
            if alias != source and rest.startswith(f"{alias}."):
                yield FlowName(source=Alias(source), target=alias)


def _refuse_stray(key: str, entry: Entry, reader: Reader, aliases: tuple[Alias, ...], clusters: Entry) -> None:
    """Refuses an enabled flow that cannot run; keys such as ``A->B.emit.heartbeats.enabled`` are not meant."""
    source, _, target = key.removesuffix(".enabled").partition(ARROW)
    if any(flows_of(key, aliases)) or key.endswith(_OTHER_SWITCHES):
        return
    if not reader.boolean(key, default=False):
        return
    if source == target and source in aliases:
        raise entry.wrong("is a flow from a cluster to itself", "name two clusters")
    named = " and ".join(repr(name) for name in (source, target) if name not in aliases)
    listed = clusters.shown if "${" in clusters.raw else ", ".join(aliases)
    raise entry.wrong(f"names {named}, which clusters does not list", f"clusters: {listed}")


def connector_entries(
    file: PropertiesFile, aliases: tuple[Alias, ...]
) -> Iterator[tuple[FlowName, Mapping[str, Entry]]]:
    """What MirrorMaker 2 would hand to the connector of each flow that could be: its keys without the flow's prefix."""
    shared = _renamed({key: entry for key, entry in file.entries.items() if _is_of_flows(key)})
    shared.pop("enabled", None)
    clusters = {alias: _cluster_entries(file, alias) for alias in aliases}
    own: dict[FlowName, dict[str, Entry]] = {}
    for key, entry in file.entries.items():
        for flow in flows_of(key, aliases):
            own.setdefault(flow, {})[key.removeprefix(flow_prefix(flow))] = entry
    for flow in pairs(aliases):
        yield flow, _flat(file, flow, shared, clusters) | _renamed(own.get(flow, {}))


def _flat(
    file: PropertiesFile,
    flow: FlowName,
    shared: Mapping[str, Entry],
    clusters: Mapping[Alias, Mapping[str, Entry]],
) -> dict[str, Entry]:
    """The keys of a flow, without those that stand behind its prefix."""
    flat = dict(shared)
    for side, alias in (("source", flow.source), ("target", flow.target)):
        for key, entry in clusters[alias].items():
            role = key.partition(".")[0] in ROLES
            flat[f"{side}.{key}" if role else f"{side}.cluster.{key}"] = entry
    worker = {f"{flow.target}.{key}": file.entries.get(f"{flow.target}.{key}") for key in _OF_WORKER}
    for key, name in _OF_WORKER.items():
        told = (file.entries.get(key) if key.startswith("offset.storage") else None) or worker[f"{flow.target}.{key}"]
        if told is not None:
            flat.setdefault(name, told)
    return flat


def _is_of_flows(key: str) -> bool:
    return key in FLOW or key in OLD_NAMES or key.startswith(OF_POLICY)


def _cluster_entries(file: PropertiesFile, alias: Alias) -> dict[str, Entry]:
    found = _stripped(file, f"{alias}.")
    for given in (dict(found), file.entries):
        for name in EVERYWHERE:
            if name in given:
                for place in (*(f"{role}.{name}" for role in ROLES), name):
                    found.setdefault(place, given[name])
    return found


def _stripped(file: PropertiesFile, prefix: str) -> dict[str, Entry]:
    return {key.removeprefix(prefix): entry for key, entry in file.entries.items() if key.startswith(prefix)}


def _renamed(entries: dict[str, Entry]) -> dict[str, Entry]:
    """Old names under their new ones; where both stand in one place, the new one counts, as in MirrorMaker 2."""
    fresh = {key: entry for key, entry in entries.items() if key not in OLD_NAMES}
    old = {OLD_NAMES[key]: entry for key, entry in entries.items() if key in OLD_NAMES}
    return old | fresh
