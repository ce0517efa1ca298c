"""Whether every cluster of a configuration can be reached in every role that its flows need, and which cluster it is.

Invariants: every client of every flow is tried, side by side, each with a deadline; one that fails hides no other; two
aliases that are one cluster are a failure unless the file says that it is meant.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, field, replace

from sparkmirror.config import ClientSettings, FlowConfig, MirrorConfig
from sparkmirror.config.security_settings import Security
from sparkmirror.errors import ConfigError, SparkmirrorError
from sparkmirror.flow.identities import Identities
from sparkmirror.kafka.cluster import Cluster
from sparkmirror.kafka.survey import Survey, survey
from sparkmirror.model import Alias

CONNECT_MS = 20_000
AT_ONCE = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class Connection:
    """One client of one cluster.

    Attributes:
        alias: the cluster's name in the file.
        roles: which of its clients, such as consumer and admin, that connect in the same way.
        flows: whose.
        found: what the cluster said; None where it failed.
        failure: why there was no answer, or why it is refused; "" where all is well.
    """

    alias: Alias
    roles: tuple[str, ...]
    flows: tuple[str, ...]
    found: Survey | None = None
    failure: str = ""


def connect(config: MirrorConfig) -> tuple[Connection, ...]:
    """Tries every client.

    Args:
        config: whose clusters.

    Returns:
        one for each cluster and way of connecting to it (addresses, security), in the order of the configuration.
    """
    ways: dict[tuple[Alias, tuple[str, ...], Security], _Way] = {}
    for flow in config.flows:
        for alias, role, settings in _clients(flow):
            way = ways.setdefault((alias, settings.bootstrap_servers, settings.security), _Way(settings))
            way.roles[role] = way.flows[str(flow.name)] = None
    with ThreadPoolExecutor(max(1, min(AT_ONCE, len(ways)))) as pool:
        answers = list(pool.map(_try, [key[0] for key in ways], [way.settings for way in ways.values()]))
    identities = Identities(config.file, several=config.several_aliases)
    return tuple(
        _judged(
            Connection(alias=key[0], roles=tuple(way.roles), flows=tuple(way.flows), found=found, failure=failure),
            identities,
        )
        for (key, way), (found, failure) in zip(ways.items(), answers, strict=True)
    )


@dataclass(slots=True)
class _Way:
    """One way of connecting to a cluster, and who takes it; dicts as sets that keep their order."""

    settings: ClientSettings
    roles: dict[str, None] = field(default_factory=dict)
    flows: dict[str, None] = field(default_factory=dict)


def _clients(flow: FlowConfig) -> Iterator[tuple[Alias, str, ClientSettings]]:
    """Those that a flow uses."""
    yield flow.source.alias, "admin", flow.source.admin
    yield flow.source.alias, "consumer", flow.source.consumer
    yield flow.target.alias, "admin", flow.target.admin
    yield flow.target.alias, "producer", flow.target.producer


def _try(alias: Alias, settings: ClientSettings) -> tuple[Survey | None, str]:
    try:
        with closing(Cluster(alias, settings, role="check")) as cluster:
            return survey(cluster, CONNECT_MS), ""
    except SparkmirrorError as failure:
        return None, str(failure)


def _judged(one: Connection, identities: Identities) -> Connection:
    if one.found is None:
        return one
    try:
        identities.claim(one.alias, one.found.cluster_id)
    except ConfigError as refusal:
        return replace(one, failure=str(refusal))
    return one
