"""Files in, checked flows out: the one way into this package.

Each input format has a file of its own that turns it into the keys of a flow; what follows is the same for all.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from sparkmirror.config.conflicts import cautions, check_flow, check_rings, check_together
from sparkmirror.config.entries import Reader
from sparkmirror.config.exposure import exposures
from sparkmirror.config.flows import homeward, read_flow
from sparkmirror.config.formats import open_files
from sparkmirror.config.mirror_maker import flow_prefix
from sparkmirror.config.notices import shadow_notices
from sparkmirror.config.opened import Opened
from sparkmirror.config.settings import FlowConfig, MirrorConfig
from sparkmirror.errors import ConfigError
from sparkmirror.model import FlowName


def load(paths: Sequence[Path | str], *, clusters: Sequence[str] = (), flow: str | None = None) -> MirrorConfig:
    """Reads configuration files.

    Only flows that are asked for are read in full, so secrets of the others need not be on this machine.

    Args:
        paths: files of any format that is known (formats.py), at least one.
        clusters: only flows into these; all by default.
        flow: only this flow, written ``A->B``; all by default.

    Raises:
        ConfigError: something is refused or cannot work; names file, key, reason and what to do.
    """
    if not paths:
        raise ConfigError(file="", key="", reason="no configuration file was given")
    file = ", ".join(str(path) for path in paths)
    return settle(open_files([Path(path) for path in paths]), file, clusters=clusters, flow=flow)


def settle(
    opened: Sequence[Opened], file: str, *, clusters: Sequence[str] = (), flow: str | None = None
) -> MirrorConfig:
    """Reads and checks the flows of what has been opened.

    Args:
        opened: in the order of the files.
        file: all of them, as the user named them.
        clusters: only flows into these; all by default.
        flow: only this flow; all by default.

    Raises:
        ConfigError: as ``load``.
    """
    wanted = _select(opened, file, clusters, flow)
    homewards = _homewards(opened)
    flows: list[FlowConfig] = []
    warnings: dict[str, None] = {}
    for one in opened:
        warnings.update(dict.fromkeys(one.warnings))
        for name in one.flows:
            if name in wanted:
                found, told = _read(one, name)
                flows.append(replace(found, homeward_back=name.back in homewards))
                warnings.update(dict.fromkeys(told))
    check_rings(flows, file)
    warnings.update(dict.fromkeys(check_together(flows, file, fan_in=all(one.fan_in for one in opened))))
    pulses, unreadable = ((), ()) if flow is not None else _pulses(opened, clusters)
    return MirrorConfig(
        file=file,
        flows=tuple(flows),
        pulses=pulses,
        warnings=(*warnings, *unreadable),
        several_aliases=any(one.several_aliases for one in opened),
    )


def without_takeover(loaded: MirrorConfig) -> MirrorConfig:
    """The same, where no flow takes over from MirrorMaker 2 by itself."""
    flows = (replace(flow, stored_positions=replace(flow.stored_positions, takeover=False)) for flow in loaded.flows)
    return replace(loaded, flows=tuple(flows))


def _select(opened: Sequence[Opened], file: str, clusters: Sequence[str], flow: str | None) -> frozenset[FlowName]:
    """The enabled flows that were asked for.

    Raises:
        ConfigError: none, or a name that no file knows.
    """
    enabled = list(dict.fromkeys(name for one in opened for name in one.flows))
    aliases = list(dict.fromkeys(alias for one in opened for alias in one.aliases))
    unknown = [name for name in clusters if name not in aliases]
    if unknown:
        shown = list(dict.fromkeys(a for one in opened for a in (one.aliases if one.shown is None else one.shown)))
        more = [] if len(shown) == len(aliases) else ["what a config provider gives"]
        remedy = f"it has {', '.join([*shown, *more])}"
        raise ConfigError(file=file, key="clusters", reason=f"does not list {unknown[0]!r}", remedy=remedy)
    if not enabled:
        raise ConfigError(file=file, key="", reason="no flow is enabled", remedy=opened[0].enable)
    chosen = [name for name in enabled if not clusters or name.target in clusters]
    listed = f"enabled: {', '.join(map(str, enabled))}"
    if not chosen:
        raise ConfigError(file=file, key="", reason=f"no flow into {', '.join(clusters)} is enabled", remedy=listed)
    if flow is not None:
        chosen = [name for name in chosen if str(name) == flow.replace(" ", "")]
        if not chosen:
            raise ConfigError(file=file, key="", reason=f"no flow {flow!r} is enabled here", remedy=listed)
    return frozenset(chosen)


def _homewards(opened: Sequence[Opened]) -> frozenset[FlowName]:
    """The flows that bring home what others wrote to copies, whether or not they are to run from these files.

    Raises:
        ConfigError: the key of one of them is no boolean.
    """
    return frozenset(
        name
        for one in opened
        for name, flat in {**one.idle, **one.flows}.items()
        if homeward(Reader(entries=flat, resolve=one.providers.resolve))
    )


def _read(one: Opened, name: FlowName) -> tuple[FlowConfig, tuple[str, ...]]:
    """A flow, and what its author should know about it."""
    flat = one.flows[name] if name in one.flows else one.idle[name]
    found = read_flow(name, flat, one.providers.resolve, one.file)
    check_flow(found, one.file)
    shadows = shadow_notices(one.file, flat, flow_prefix(name))
    return found, (*shadows, *(f"{one.file}: {caution}" for caution in (*cautions(found), *exposures(found))))


def _pulses(opened: Sequence[Opened], clusters: Sequence[str]) -> tuple[tuple[FlowConfig, ...], tuple[str, ...]]:
    """The pairs that get nothing but heartbeats, and why some of those do not.

    A flow has been asked for, these have not: what is wrong with one of them, such as a secret that is not on this
    machine, stops nothing.
    """
    enabled = {name for one in opened for name in one.flows}
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
