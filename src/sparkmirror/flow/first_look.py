"""The first look at all clusters of a run: before Spark is started, and before anything is written.

What ends a run, and what does not (``docs/operations.md``):

    * a flow that is wrong whatever happens, such as one whose clusters are one, fails for good;
    * what one side has refused (a login, a certificate, a right) ends a run of which no flow could begin; beside other
      flows it is told and tried again, since passwords and rights can be mended while a process runs;
    * a cluster that is away is told and tried again. A copy for once does not wait: there it ends the flow.

Invariants: nothing is changed anywhere; `hopeless` and `given_up` are pure; every question has a deadline.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, replace
from enum import Enum

from sparkmirror.config import ClientSettings, FlowConfig, MirrorConfig, Side, origin_of
from sparkmirror.duties.internal_topics import missing_internal_topics, own_topics
from sparkmirror.duties.topics import wanted
from sparkmirror.errors import BrokerError, ConfigError, SparkmirrorError
from sparkmirror.flow.connections import AT_ONCE, CONNECT_MS, Connection, connect, placed
from sparkmirror.kafka import admin
from sparkmirror.kafka.acls import Operation
from sparkmirror.kafka.cluster import Cluster
from sparkmirror.kafka.codes import UNAUTHORIZED
from sparkmirror.kafka.survey import topic_rights

LOOK_MS = 8_000
"""How long a run waits for clusters before it goes on without those that are away."""


class Kind(Enum):
    """What keeps a flow from beginning."""

    WRONG = "its configuration contradicts itself, as the clusters show"
    REFUSED = "one side has refused the other"
    AWAY = "a cluster cannot be asked now"


@dataclass(frozen=True, slots=True, kw_only=True)
class Trouble:
    """Why a flow cannot begin now.

    Attributes:
        kind: what sort of trouble.
        error: names file, key, cluster and remedy.
    """

    kind: Kind
    error: ConfigError


def first_look(config: MirrorConfig, *, once: bool) -> dict[str, Trouble]:
    """Asks the clusters of every flow, side by side.

    Args:
        config: what is to be run.
        once: whether flows that cannot begin now are given up, and so clusters are given more time.

    Returns:
        The flows that cannot begin now, by name, in the order of the configuration.
    """
    timeout_ms = CONNECT_MS if once else LOOK_MS
    troubles = _by_flow(connect(config, timeout_ms))
    reached = [flow for flow in config.flows if str(flow.name) not in troubles]
    with ThreadPoolExecutor(max(1, min(AT_ONCE, len(reached)))) as pool:
        lacking = pool.map(lambda flow: _lacking(flow, config.file, timeout_ms), reached)
        troubles |= {str(flow.name): found for flow, found in zip(reached, lacking, strict=True) if found is not None}
    return {str(flow.name): troubles[str(flow.name)] for flow in config.flows if str(flow.name) in troubles}


def hopeless(config: MirrorConfig, troubles: Mapping[str, Trouble], *, once: bool) -> bool:
    """Whether no flow could begin, so that the run ends before it has begun."""
    return len(given_up(troubles, once=once, refused=True)) == len(config.flows)


def given_up(troubles: Mapping[str, Trouble], *, once: bool, refused: bool = False) -> dict[str, ConfigError]:
    """The flows that are not tried again.

    Args:
        troubles: of the first look.
        once: whether the run copies for once.
        refused: count those with what a side refused too.
    """
    kinds = set(Kind) if once else {Kind.WRONG, Kind.REFUSED} if refused else {Kind.WRONG}
    return {name: trouble.error for name, trouble in troubles.items() if trouble.kind in kinds}


def _by_flow(connections: Sequence[Connection]) -> dict[str, Trouble]:
    """The first trouble of each flow; what lasts goes before what may pass."""
    failed = [(one, one.failure) for one in connections if one.failure is not None]
    found: dict[str, Trouble] = {}
    for one, error in sorted(failed, key=lambda each: not each[0].lasting):
        kind = Kind.WRONG if one.found is not None else Kind.REFUSED if one.lasting else Kind.AWAY
        for flow in one.flows:
            found.setdefault(flow, Trouble(kind=kind, error=error))
    return found


def _lacking(flow: FlowConfig, file: str, timeout_ms: int) -> Trouble | None:
    """The right without which a flow could copy nothing."""
    flow = replace(flow, admin_timeout_ms=min(flow.admin_timeout_ms, timeout_ms))
    for side, alias, settings, role, ask in (
        (Side.SOURCE, flow.source.alias, flow.source.consumer, "consumer", _unreadable),
        (Side.TARGET, flow.target.alias, flow.target.admin, "admin", _unwritable),
    ):
        try:
            with closing(Cluster(alias, settings, role="check")) as cluster:
                missing = next(ask(flow, cluster, timeout_ms), "")
        except SparkmirrorError as failure:
            return Trouble(kind=Kind.AWAY, error=placed(failure, file, flow, side, role))
        if missing:
            error = ConfigError(
                file=file,
                key=origin_of(flow, side, role, _login_of(settings)),
                reason=f"cluster {alias} at {cluster.address}: user {settings.security.username or 'of this client'} "
                f"is not allowed to {missing}",
                remedy=f"allow {missing} to this user; sparkmirror acls --for {side.value} prints all that is needed",
            )
            return Trouble(kind=Kind.REFUSED, error=error)
    return None


def _login_of(settings: ClientSettings) -> str:
    """The setting that says who a client is."""
    if settings.security.protocol.sasl:
        return "sasl.jaas.config"
    return "ssl.keystore.location" if settings.security.certificate_chain else "bootstrap.servers"


def _unreadable(flow: FlowConfig, source: Cluster, timeout_ms: int) -> Iterator[str]:
    """The right to read, where it is missing for every topic of the flow."""
    rights = topic_rights(source, None, timeout_ms)
    topics = wanted(flow, rights)
    if topics and not any(Operation.READ in rights[topic] for topic in topics):
        more = f" and {len(topics) - 1} more" if len(topics) > 1 else ""
        yield f"READ Topic {topics[0]}{more}"


def _unwritable(flow: FlowConfig, target: Cluster, timeout_ms: int) -> Iterator[str]:
    """Rights on sparkmirror's own topics that are missing."""
    rights = topic_rights(target, own_topics(flow), timeout_ms)
    for topic, allowed in sorted(rights.items()):
        for operation in (Operation.READ, Operation.WRITE):
            if operation not in allowed:
                yield f"{operation.name} Topic {topic}"
    missing = missing_internal_topics(flow, target)
    failed = admin.create_topics(target, missing, timeout_ms, validate_only=True).failed if missing else {}
    for topic, failure in failed.items():
        if isinstance(failure, BrokerError) and failure.code in UNAUTHORIZED:
            yield f"CREATE Topic {topic}"
        elif isinstance(failure, BrokerError) and failure.code == admin.TOPIC_ALREADY_EXISTS:
            yield f"DESCRIBE Topic {topic}"
