"""Strimzi's ``KafkaMirrorMaker2`` resources, ``v1beta2`` and ``v1``, to flows.

Each mirror of a resource becomes up to three connectors, as the operator makes them: the clusters' keys, over them the
connector's ``config``, over that the patterns of the mirror. What follows is the same as for connectors in JSON.

    v1beta2   spec.clusters[], spec.connectCluster, mirrors[].sourceCluster and targetCluster
    v1        spec.target, mirrors[].source

References: Strimzi's ``KafkaMirrorMaker2Connectors`` and its conversion from v1beta2 to v1.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from sparkmirror.config.connectors import Connector, Role, State, pair_up
from sparkmirror.config.entries import Entry, one_of
from sparkmirror.config.nodes import Node
from sparkmirror.config.opened import Opened
from sparkmirror.config.providers import DECLARATION, Provider, Providers, conventional, declared
from sparkmirror.config.secrets import PROVIDER, Manifest, Secrets
from sparkmirror.config.strimzi_clusters import KNOWN as CLUSTER_KEYS
from sparkmirror.config.strimzi_clusters import cluster_entries
from sparkmirror.errors import ConfigError

KIND = "KafkaMirrorMaker2"
_GROUP = "kafka.strimzi.io/"
_VERSIONS = ("v1beta2", "v1")
_SECTIONS = {
    "sourceConnector": Role.SOURCE,
    "checkpointConnector": Role.CHECKPOINT,
    "heartbeatConnector": Role.HEARTBEAT,
}
_PATTERNS: Mapping[str, str] = {
    "topicsBlacklistPattern": "topics.exclude",
    "groupsBlacklistPattern": "groups.exclude",
    "topicsPattern": "topics",
    "topicsExcludePattern": "topics.exclude",
    "groupsPattern": "groups",
    "groupsExcludePattern": "groups.exclude",
}
"""Old names first, so that the new ones win, as in the operator's own conversion."""

_GONE_WITH_V1 = ("heartbeatConnector", "topicsBlacklistPattern", "groupsBlacklistPattern", "pause")

_WORKER_TOPICS = ("groupId", "configStorageTopic", "offsetStorageTopic", "statusStorageTopic")
_PODS, _WORKER = "the pods that Strimzi starts", "Connect worker"
_OF_SPEC: Mapping[str, str] = {
    **dict.fromkeys(
        """version image replicas resources livenessProbe readinessProbe jvmOptions jmxOptions logging
        clientRackInitImage template externalConfiguration""".split(),
        _PODS,
    ),
    **dict.fromkeys(("metricsConfig", "tracing"), "Java metrics and tracing"),
    "rack": "the node's label; set consumer.client.rack in sourceConnector.config",
}
_OF_TARGET = dict.fromkeys(("groupId", "configStorageTopic", "offsetStorageTopic", "statusStorageTopic"), _WORKER)
_OF_CONNECTOR = dict.fromkeys(("autoRestart", "version", "listOffsets", "alterOffsets"), _WORKER)
"""Keys without a meaning here, and what they belong to."""

_SPEC = {True: ("target", "mirrors"), False: ("clusters", "connectCluster", "mirrors")}
_MIRROR = {True: ("source",), False: ("sourceCluster", "targetCluster")}
"""By whether the resource is of v1."""

_CONNECTOR = ("tasksMax", "config", "state", "pause")
_SECRET_CLASSES = ("KubernetesSecretConfigProvider", "KubernetesConfigMapConfigProvider")
_STRIMZI_PACKAGE = "io.strimzi.kafka."


def open_resource(document: Mapping[str, Any], file: str, manifests: Mapping[str, Manifest]) -> Opened:
    """Reads one resource.

    Args:
        document: the resource.
        file: as the user named it.
        manifests: Secrets and ConfigMaps of the same file.

    Raises:
        ConfigError: it is not what Strimzi takes, or cannot be run here; names the path.
    """
    top = Node(file=file, path="", values=document)
    _check_version(top)
    metadata, spec = top.child("metadata"), top.needed("spec")
    namespace = metadata.text("namespace", "") if metadata else ""
    mirrors = list(spec.children("mirrors"))
    if not mirrors:
        raise spec.wrong("names no mirror", "give sourceCluster or source, and a sourceConnector", "mirrors")
    v1 = top.text("apiVersion") == f"{_GROUP}v1"
    target, sources = _v1_clusters(spec, mirrors) if v1 else _v1beta2_clusters(spec, mirrors)
    connectors: list[Connector] = []
    for mirror, source in zip(mirrors, sources, strict=True):
        clusters = cluster_entries(target, "target", namespace) | cluster_entries(source, "source", namespace)
        clusters |= _stored_positions(target, source, v1)
        mirror.only(*_MIRROR[v1], *_known(v1, *_SECTIONS, *_PATTERNS))
        connectors += _connectors(mirror, clusters, v1)
    if not connectors:
        raise spec.wrong("have no sourceConnector: nothing would be copied", "add sourceConnector: {}", "mirrors")
    top.only("apiVersion", "kind", "metadata", "spec", "status")
    spec.only(*_SPEC[v1], *_OF_SPEC)
    target.only(*CLUSTER_KEYS, *_OF_TARGET)
    for source in sources:
        source.only(*CLUSTER_KEYS)
    providers = _providers(target, Secrets(manifests=manifests))
    pairs = pair_up(connectors, providers.resolve)
    return Opened(
        file=file,
        aliases=pairs.aliases,
        flows=pairs.flows,
        idle=pairs.idle,
        providers=providers,
        kept=tuple(entry for key, entry in target.settings("config").items() if key.startswith(DECLARATION)),
        enable="give a mirror a sourceConnector that is not paused or stopped",
        warnings=(*_resource_notices(spec, target, mirrors), *_unused(spec, target, sources), *pairs.warnings),
    )


def _check_version(top: Node) -> None:
    version = top.text("apiVersion", "")
    if version not in [_GROUP + one for one in _VERSIONS]:
        read = [_GROUP + one for one in _VERSIONS]
        shown = top.made("apiVersion", version).shown_choice(read)
        raise top.wrong(f"{shown} is not read" if version else "is not set", one_of(read), "apiVersion")


def _v1_clusters(spec: Node, mirrors: list[Node]) -> tuple[Node, list[Node]]:
    for key in ("clusters", "connectCluster"):
        if key in spec.values:
            raise spec.wrong("is of v1beta2, and apiVersion says v1", "give target and mirrors[].source", key)
    return spec.needed("target"), [mirror.needed("source") for mirror in mirrors]


def _v1beta2_clusters(spec: Node, mirrors: list[Node]) -> tuple[Node, list[Node]]:
    clusters = {node.text("alias"): node for node in spec.children("clusters")}
    connect = spec.text("connectCluster")
    listed = f"clusters has {', '.join(clusters) or 'none'}"
    if connect not in clusters:
        shown = spec.entry("connectCluster").tell_name(connect)
        raise spec.wrong(f"names {shown}, which clusters does not list", listed, "connectCluster")
    sources = []
    for mirror in mirrors:
        source, target = mirror.text("sourceCluster"), mirror.text("targetCluster")
        if source not in clusters:
            shown = mirror.entry("sourceCluster").tell_name(source)
            raise mirror.wrong(f"names {shown}, which clusters does not list", listed, "sourceCluster")
        if target != connect:
            shown = mirror.entry("targetCluster").tell_name(target)
            raise mirror.wrong(
                f"is {shown}, and connectCluster is {connect!r}: Strimzi runs mirrors into one cluster only",
                "write a resource for each target",
                "targetCluster",
            )
        sources.append(clusters[source])
    return clusters[connect], sources


def _stored_positions(target: Node, source: Node, v1: bool) -> dict[str, Entry]:
    """Where the operator's Connect keeps the positions of the source connector."""
    config = target.settings("config")
    name = f"{source.text('alias')}->{target.text('alias')}.{Role.SOURCE.value}"
    found = {"mm2.connector.name": Entry(file=target.file, key=source.place("alias"), raw=name)}
    for ours, field, key, default in (
        ("mm2.offsets.topic", "offsetStorageTopic", "offset.storage.topic", "mirrormaker2-cluster-offsets"),
        ("mm2.group", "groupId", "group.id", "mirrormaker2-cluster"),
    ):
        if v1 and target.values.get(field) is not None:
            found[ours] = target.entry(field)
        else:
            found[ours] = config.get(key) or Entry(file=target.file, key=target.place("config"), raw=default)
    return found


def _known(v1: bool, *names: str) -> tuple[str, ...]:
    return tuple(name for name in names if not v1 or name not in _GONE_WITH_V1)


def _connectors(mirror: Node, clusters: Mapping[str, Entry], v1: bool) -> Iterator[Connector]:
    named = [name for name in _known(v1, *_PATTERNS) if mirror.values.get(name) is not None]
    patterns = {_PATTERNS[name]: mirror.entry(name) for name in named}
    for section in _known(v1, *_SECTIONS):
        role, node = _SECTIONS[section], mirror.child(section)
        if node is None:
            continue
        node.only(*_known(v1, *_CONNECTOR), *_OF_CONNECTOR)
        config = node.settings("config")
        for key in ("name", "connector.class", "tasks.max", "connector.plugin.version"):
            if key in config:
                raise config[key].wrong("may not stand here", "Strimzi has fields of its own for it")
        tasks = {"tasks.max": node.entry("tasksMax")} if "tasksMax" in node.values else {}
        state, why = _state(node, v1)
        entries = {**clusters, **config, **patterns, **tasks}
        yield Connector(role=role, place=node.path, file=node.file, entries=_owned(entries, role), state=state, why=why)


def _owned(entries: dict[str, Entry], role: Role) -> dict[str, Entry]:
    """Without the patterns that the other connectors of a mirror are for: the operator hands all of them to each."""
    strangers = ("groups", "groups.exclude") if role is not Role.CHECKPOINT else ()
    return {key: entry for key, entry in entries.items() if key not in strangers or not entry.key.endswith("Pattern")}


def _state(node: Node, v1: bool) -> tuple[State, str]:
    text = node.text("state", "")
    known = {state.value: state for state in State}
    if text and text not in known:
        entry = node.entry("state")
        raise entry.wrong(f"{entry.shown_choice(known)} is no state", one_of(known))
    if not text and not v1 and node.flag("pause"):
        return State.PAUSED, node.place("pause")
    return known.get(text, State.RUNNING), node.place("state")


def _providers(target: Node, secrets: Secrets) -> Providers:
    """Strimzi's own providers, and those that the worker's configuration declares."""
    known = conventional("strimzi")
    known[PROVIDER] = Provider(name=PROVIDER, lookup=secrets.lookup)
    return declared(
        target.settings("config"),
        known=known,
        classes={_STRIMZI_PACKAGE + name: secrets.lookup for name in _SECRET_CLASSES},
        remedy=f"declare it in the config of the target cluster, or use {', '.join(known)}",
    )


def _resource_notices(spec: Node, target: Node, mirrors: list[Node]) -> Iterator[str]:
    groups: dict[str, list[str]] = {}
    connectors = [node for mirror in mirrors for section in _SECTIONS if (node := mirror.child(section))]
    for node, table in ((spec, _OF_SPEC), (target, _OF_TARGET), *((one, _OF_CONNECTOR) for one in connectors)):
        for key in node.values:
            if key in table:
                groups.setdefault(table[key], []).append(node.place(key))
    if groups:
        told = "; ".join(f"{about} ({', '.join(places)})" for about, places in groups.items())
        yield f"{spec.file}: without meaning here: {told}"
    if spec.strays:
        yield f"{spec.file}: unknown keys, without effect: {', '.join(spec.strays)}"


def _unused(spec: Node, target: Node, sources: list[Node]) -> Iterator[str]:
    used = [node.path for node in (target, *sources)]
    idle = [node.path for node in spec.children("clusters") if node.path not in used]
    if idle:
        yield f"{spec.file}: without effect, since no mirror names them: {', '.join(idle)}"


def refuse_missing(file: str, kinds: list[str]) -> ConfigError:
    """The error of a YAML file without a resource that is read here."""
    held = f"it holds {', '.join(kinds)}" if kinds else "it is empty"
    return ConfigError(
        file=file,
        key="kind",
        reason=f"there is no {KIND} in it: {held}",
        remedy="give the resource itself, apiVersion kafka.strimzi.io/v1",
    )
