"""Whether every cluster of a configuration can be reached in every role that its flows need, and which cluster it is.

Invariants: every client of every flow is tried, side by side, each with a deadline; one that fails hides no other; two
aliases that are one cluster are a failure of both unless the file says that it is meant, and the two sides of a flow
must be two clusters in any case. Nothing is changed anywhere.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from sparkmirror.config import ClientSettings, Endpoint, FlowConfig, MirrorConfig, Side, origin_of
from sparkmirror.config.security_settings import Security
from sparkmirror.errors import ConfigError, LinkError, SparkmirrorError
from sparkmirror.flow.identities import one_cluster, to_itself
from sparkmirror.kafka.cluster import Cluster
from sparkmirror.kafka.survey import Survey, survey
from sparkmirror.model import Alias, ClusterId

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
        failure: why there was no answer, or why it is refused: file, key, cluster and remedy. None where all is well.
        lasting: whether that stays so until somebody changes something.
    """

    alias: Alias
    roles: tuple[str, ...]
    flows: tuple[str, ...]
    found: Survey | None = None
    failure: ConfigError | None = None
    lasting: bool = False

    def as_json(self) -> dict[str, Any]:
        """For scripts."""
        return {
            "alias": self.alias,
            "roles": self.roles,
            "flows": self.flows,
            "found": None if self.found is None else asdict(self.found),
            "failure": "" if self.failure is None else str(self.failure),
            "lasting": self.lasting,
        }


def connect(config: MirrorConfig, timeout_ms: int = CONNECT_MS) -> tuple[Connection, ...]:
    """Tries every client.

    Args:
        config: whose clusters.
        timeout_ms: milliseconds for each.

    Returns:
        one for each cluster and way of connecting to it (addresses, security), in the order of the configuration.
    """
    ways: dict[tuple[Alias, tuple[str, ...], Security], _Way] = {}
    for flow in config.flows:
        for side, alias, role, settings in clients(flow):
            key = (alias, settings.bootstrap_servers, settings.security)
            way = ways.setdefault(key, _Way(file=config.file, flow=flow, side=side, role=role, settings=settings))
            way.roles[role] = way.flows[str(flow.name)] = None
    with ThreadPoolExecutor(max(1, min(AT_ONCE, len(ways)))) as pool:
        answers = list(pool.map(lambda key: _try(key[0], ways[key], timeout_ms), ways))
    return tuple(_told_apart(config, answers))


@dataclass(slots=True, kw_only=True)
class _Way:
    """One way of connecting to a cluster, and who takes it; dicts as sets that keep their order."""

    file: str
    flow: FlowConfig
    side: Side
    role: str
    settings: ClientSettings
    roles: dict[str, None] = field(default_factory=dict)
    flows: dict[str, None] = field(default_factory=dict)


def clients(flow: FlowConfig) -> Iterator[tuple[Side, Alias, str, ClientSettings]]:
    """Those that a flow uses: the side, its alias, the role and its settings."""
    yield Side.SOURCE, flow.source.alias, "admin", flow.source.admin
    yield Side.SOURCE, flow.source.alias, "consumer", flow.source.consumer
    yield Side.TARGET, flow.target.alias, "admin", flow.target.admin
    yield Side.TARGET, flow.target.alias, "producer", flow.target.producer


def _try(alias: Alias, way: _Way, timeout_ms: int) -> Connection:
    tried = Connection(alias=alias, roles=tuple(way.roles), flows=tuple(way.flows))
    try:
        with closing(Cluster(alias, way.settings, role="check")) as cluster:
            return replace(tried, found=survey(cluster, timeout_ms))
    except SparkmirrorError as failure:
        lasting = isinstance(failure, LinkError) and failure.lasting
        return replace(tried, failure=placed(failure, way.file, way.flow, way.side, way.role), lasting=lasting)


def placed(
    failure: SparkmirrorError, file: str, flow: FlowConfig, side: Side | None = None, role: str = "admin"
) -> ConfigError:
    """A failure of a client with the place in the file that says how it connects.

    Args:
        failure: what happened.
        file: the configuration file.
        flow: whose client.
        side: of the flow; by the failure's cluster unless given.
        role: of the client.
    """
    if side is None:
        side = Side.SOURCE if getattr(failure, "cluster", "") == flow.source.alias else Side.TARGET
    if not isinstance(failure, LinkError):
        return ConfigError(file=file, key=origin_of(flow, side, role, "bootstrap.servers"), reason=str(failure))
    reason = f"cluster {failure.cluster} at {failure.address}: {failure.reason}"
    return ConfigError(file=file, key=origin_of(flow, side, role, failure.setting), reason=reason, remedy=failure.hint)


def _told_apart(config: MirrorConfig, answers: Sequence[Connection]) -> Iterator[Connection]:
    """The same, where those fail whose cluster is another one's too."""
    refused = _one_and_the_same(config, {one.alias: one.found.cluster_id for one in answers if one.found is not None})
    for one in answers:
        if one.found is None or one.alias not in refused:
            yield one
        else:
            yield replace(one, failure=refused[one.alias], lasting=True)


def _one_and_the_same(config: MirrorConfig, ids: Mapping[Alias, ClusterId]) -> dict[Alias, ConfigError]:
    """Why aliases are refused that are one cluster."""
    ends = {end.alias: end for flow in config.flows for end in (flow.source, flow.target)}
    refused: dict[Alias, ConfigError] = {}
    if not config.several_aliases:
        for cluster_id in dict.fromkeys(ids.values()):
            names = [alias for alias in ids if ids[alias] == cluster_id]
            if len(names) > 1:
                places = _places([ends[name] for name in names])
                refused |= dict.fromkeys(names, one_cluster(config.file, names, cluster_id, places))
    for flow in config.flows:
        source, target = flow.source.alias, flow.target.alias
        if source in ids and ids[source] == ids.get(target):
            places = _places([flow.source, flow.target])
            refused |= dict.fromkeys((source, target), to_itself(config.file, flow.name, ids[source], places))
    return refused


def _places(ends: Sequence[Endpoint]) -> str:
    told = (f"{end.alias} is {','.join(end.admin.bootstrap_servers)}" for end in ends)
    return f": {'; '.join(told)}"
