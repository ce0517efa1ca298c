"""A configuration whose format has been read: which flows it holds, each as the keys of MirrorMaker 2's connectors.

Every input format ends here, so that all that follows (load.py, convert.py) is the same for all of them. Invariant: no
reference to a config provider has been resolved for a value of a flow, so secrets of flows that nobody asks for need
not be on this machine.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from sparkmirror.config.entries import Entry
from sparkmirror.config.providers import Providers
from sparkmirror.model import Alias, FlowName


@dataclass(frozen=True, slots=True, kw_only=True)
class Opened:
    """One configuration.

    Attributes:
        file: the file or files as the user named them.
        aliases: the clusters, in the order of the file.
        shown: those of the clusters whose names messages may list; None for all.
        flows: the flows that are to run, with their keys as a connector would get them.
        providers: replace references in the values.
        enable: what to do where no flow is enabled.
        warnings: one line each, about the file as a whole.
        kept: keys of the file as a whole that a conversion hands on.
        idle: pairs of clusters that the file says something about, but whose flow is not to run.
        pulses: pairs of clusters that get heartbeats, whether or not their flow runs.
        several_aliases: whether two aliases may be one cluster.
        fan_in: whether several flows may write one topic of a target because the author has asked for it.
    """

    file: str
    aliases: tuple[Alias, ...]
    flows: Mapping[FlowName, Mapping[str, Entry]]
    providers: Providers
    enable: str
    warnings: tuple[str, ...] = ()
    kept: tuple[Entry, ...] = ()
    idle: Mapping[FlowName, Mapping[str, Entry]]
    pulses: tuple[FlowName, ...] = ()
    several_aliases: bool = False
    fan_in: bool = False
    shown: tuple[Alias, ...] | None = None
