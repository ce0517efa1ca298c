"""Files in, checked flows out: the one way into this package.

Each input format has a file of its own that turns it into the keys of a flow; what follows is the same for all.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from sparkmirror.config import mirror_maker
from sparkmirror.config.conflicts import cautions, check_flow, check_together
from sparkmirror.config.flows import read_flow
from sparkmirror.config.notices import notices, shadow_notices
from sparkmirror.config.properties import PropertiesFile, read_properties
from sparkmirror.config.providers import Providers, declared
from sparkmirror.config.settings import FlowConfig, MirrorConfig
from sparkmirror.errors import ConfigError
from sparkmirror.model import Alias, FlowName

_LATER = {".json": "connector JSON", ".yaml": "Strimzi YAML", ".yml": "Strimzi YAML"}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Opened:
    """One file, with what it says about clusters and flows; no flow has been read yet."""

    content: PropertiesFile
    providers: Providers
    aliases: tuple[Alias, ...]
    enabled: tuple[FlowName, ...]
    pulses: tuple[FlowName, ...]


def load(paths: Sequence[Path | str], *, clusters: Sequence[str] = (), flow: str | None = None) -> MirrorConfig:
    """Reads configuration files.

    Only flows that are asked for are read in full, so secrets of the others need not be on this machine.

    Args:
        paths: MirrorMaker 2 properties files, at least one.
        clusters: only flows into these; all by default.
        flow: only this flow, written ``A->B``; all by default.

    Raises:
        ConfigError: something is refused or cannot work; names file, key, reason and what to do.
    """
    file = ", ".join(str(path) for path in paths)
    if not paths:
        raise ConfigError(file="", key="", reason="no configuration file was given")
    opened = [_open(Path(path)) for path in paths]
    wanted = _select(opened, file, clusters, flow)
    flows: list[FlowConfig] = []
    warnings: dict[str, None] = {}
    for one in opened:
        warnings.update(dict.fromkeys(notices(one.content, one.aliases)))
        for name in one.enabled:
            if name in wanted:
                found, told = _read(one, name)
                flows.append(found)
                warnings.update(dict.fromkeys(told))
    check_together(flows, file)
    pulses, unreadable = ((), ()) if flow is not None else _pulses(opened, clusters)
    return MirrorConfig(
        file=file,
        flows=tuple(flows),
        pulses=pulses,
        warnings=(*warnings, *unreadable),
        several_aliases=any(mirror_maker.several_aliases(one.content, one.providers.resolve) for one in opened),
    )


def _open(path: Path) -> _Opened:
    if path.suffix.lower() in _LATER:
        raise ConfigError(
            file=str(path),
            key="",
            reason=f"{_LATER[path.suffix.lower()]} is not read by this version",
            remedy="write the flows as MirrorMaker 2 properties: clusters, A.bootstrap.servers, A->B.enabled",
        )
    content = read_properties(path)
    providers = declared(content.entries)
    aliases = mirror_maker.read_aliases(content, providers.resolve)
    enabled = mirror_maker.enabled_flows(content, aliases, providers.resolve)
    pulses = mirror_maker.pulse_pairs(content, aliases, providers.resolve)
    return _Opened(content=content, providers=providers, aliases=aliases, enabled=enabled, pulses=pulses)


def _select(opened: Sequence[_Opened], file: str, clusters: Sequence[str], flow: str | None) -> frozenset[FlowName]:
    """The enabled flows that were asked for.

    Raises:
        ConfigError: none, or a name that no file knows.
    """
    enabled = list(dict.fromkeys(name for one in opened for name in one.enabled))
    aliases = list(dict.fromkeys(alias for one in opened for alias in one.aliases))
    unknown = [name for name in clusters if name not in aliases]
    if unknown:
        raise ConfigError(
            file=file, key="clusters", reason=f"does not list {unknown[0]!r}", remedy=f"it has {', '.join(aliases)}"
        )
    if not enabled:
        raise ConfigError(
            file=file, key="", reason="no flow is enabled", remedy=f"set {_example(aliases)}.enabled = true"
        )
    chosen = [name for name in enabled if not clusters or name.target in clusters]
    listed = f"enabled: {', '.join(map(str, enabled))}"
    if not chosen:
        raise ConfigError(file=file, key="", reason=f"no flow into {', '.join(clusters)} is enabled", remedy=listed)
    if flow is not None:
        chosen = [name for name in chosen if str(name) == flow.replace(" ", "")]
        if not chosen:
            raise ConfigError(file=file, key="", reason=f"no flow {flow!r} is enabled here", remedy=listed)
    return frozenset(chosen)


def _read(one: _Opened, name: FlowName) -> tuple[FlowConfig, tuple[str, ...]]:
    """A flow, and what its author should know about it."""
    file = one.content.file
    flat = mirror_maker.connector_entries(one.content, name)
    found = read_flow(name, flat, one.providers.resolve, file)
    check_flow(found, file)
    shadows = shadow_notices(file, flat, mirror_maker.flow_prefix(name))
    return found, (*shadows, *(f"{file}: {caution}" for caution in cautions(found)))


def _pulses(opened: Sequence[_Opened], clusters: Sequence[str]) -> tuple[tuple[FlowConfig, ...], tuple[str, ...]]:
    """The pairs that get nothing but heartbeats, and why some of those do not.

    A flow has been asked for, these have not: what is wrong with one of them, such as a secret that is not on this
    machine, stops nothing.
    """
    enabled = {name for one in opened for name in one.enabled}
    found: dict[FlowName, FlowConfig] = {}
    troubles: dict[str, list[str]] = {}
    for one in opened:
        for name in one.pulses:
            if name in enabled or name in found or (clusters and name.target not in clusters):
                continue
            try:
                found[name], _ = _read(one, name)
            except ConfigError as failure:
                troubles.setdefault(str(failure), []).append(str(name))
    told = (f"no heartbeats for {', '.join(names)} (not enabled as flows): {why}" for why, names in troubles.items())
    return tuple(found.values()), tuple(told)


def _example(aliases: Sequence[Alias]) -> str:
    return f"{aliases[0]}->{aliases[1]}" if len(aliases) > 1 else "A->B"
