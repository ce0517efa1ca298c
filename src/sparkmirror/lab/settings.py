"""A lab broker's server.properties, as a pure function of the cluster's layout.

Only what a small local cluster needs differs from Kafka's defaults, so that what works here works elsewhere. No topic
default is set (such as segment or retention settings): topics would report it as their own and mirrors would copy it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from sparkmirror.lab.listeners import CONTROLLER, PROTOCOLS, Listener, broker_settings
from sparkmirror.lab.ports import HOST
from sparkmirror.lab.zookeeper import SESSION_MS


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """Where the brokers of a cluster are.

    Attributes:
        controllers: node id to the port of its controller listener.
        ports: node id to the ports of its listeners.
        links: node id to the port of the link that stands before its LINK listener; empty without that listener.
        certificates: the directory of certificates.py, None when no listener speaks TLS.
        extra: the caller's own settings, which win over ours; ``{node}`` in a value stands for the broker's node id.
        jwks: the keys of the token endpoint; None without a SASL_OAUTH listener.
        zookeeper: the port of the cluster's ZooKeeper; 0 for brokers that are controllers themselves.
    """

    controllers: Mapping[int, int]
    ports: Mapping[int, Mapping[Listener, int]]
    certificates: Path | None
    extra: Mapping[str, str]
    links: Mapping[int, int] = field(default_factory=dict)
    jwks: Path | None = None
    zookeeper: int = 0

    def advertised(self, node: int, listener: Listener) -> int:
        """The port at which clients of a listener find a broker."""
        return self.links[node] if listener is Listener.LINK else self.ports[node][listener]

    def bootstrap_servers(self, listener: Listener) -> str:
        """Addresses of all brokers for this listener."""
        return ",".join(f"{HOST}:{self.advertised(node, listener)}" for node in self.ports)


def server_settings(layout: Layout, node: int, data: Path) -> dict[str, str]:
    """The settings of one broker."""
    listeners = layout.ports[node]
    replicas = min(3, len(layout.ports))
    told = [f"{listener}://{HOST}:{layout.advertised(node, listener)}" for listener in listeners]
    return {
        "advertised.listeners": ",".join(told),
        "inter.broker.listener.name": Listener.PLAINTEXT,
        "log.dirs": str(data),
        "default.replication.factor": str(replicas),
        "offsets.topic.replication.factor": str(replicas),
        "offsets.topic.num.partitions": str(replicas),
        "transaction.state.log.replication.factor": str(replicas),
        "transaction.state.log.num.partitions": str(replicas),
        "transaction.state.log.min.isr": str(min(2, replicas)),
        "group.initial.rebalance.delay.ms": "0",
        # The default of 128 MiB would be half of a small heap.
        "log.cleaner.dedupe.buffer.size": str(16 << 20),
        **(_with_zookeeper(layout, node) if layout.zookeeper else _with_quorum(layout, node, replicas)),
        **broker_settings(listeners, layout.certificates, layout.jwks),
        **{key: value.replace("{node}", str(node)) for key, value in layout.extra.items()},
    }


def _with_quorum(layout: Layout, node: int, replicas: int) -> dict[str, str]:
    """A broker that is a controller too (KRaft, combined mode)."""
    addresses, protocols = _listeners(layout, node)
    voters = ",".join(f"{each}@{HOST}:{port}" for each, port in layout.controllers.items())
    return {
        "process.roles": "broker,controller",
        "node.id": str(node),
        "controller.quorum.voters": voters,
        "controller.listener.names": CONTROLLER,
        "listeners": ",".join([*addresses, f"{CONTROLLER}://{HOST}:{layout.controllers[node]}"]),
        "listener.security.protocol.map": ",".join([*protocols, f"{CONTROLLER}:PLAINTEXT"]),
        "share.coordinator.state.topic.replication.factor": str(replicas),
        "share.coordinator.state.topic.num.partitions": str(replicas),
        "share.coordinator.state.topic.min.isr": str(min(2, replicas)),
        # A killed broker may register again only when its old session is over; 9 s by default.
        "broker.session.timeout.ms": "4000",
        "broker.heartbeat.interval.ms": "1000",
        # Records that only say that the controller lives: with one in 0.5 s thirty idle brokers take half a core.
        "metadata.max.idle.interval.ms": "5000",
    }


def _with_zookeeper(layout: Layout, node: int) -> dict[str, str]:
    """A broker of a version that leaves the metadata to ZooKeeper."""
    addresses, protocols = _listeners(layout, node)
    return {
        "broker.id": str(node),
        "zookeeper.connect": f"{HOST}:{layout.zookeeper}",
        "zookeeper.session.timeout.ms": str(SESSION_MS),
        "listeners": ",".join(addresses),
        "listener.security.protocol.map": ",".join(protocols),
    }


def _listeners(layout: Layout, node: int) -> tuple[list[str], list[str]]:
    """Where a broker listens, and what is spoken there."""
    listeners = layout.ports[node]
    addresses = [f"{listener}://{HOST}:{port}" for listener, port in listeners.items()]
    return addresses, [f"{listener}:{PROTOCOLS[listener]}" for listener in listeners]
