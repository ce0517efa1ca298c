"""Real Kafka clusters on this machine, for the demo, the tests and the benchmarks.

    with start("a") as cluster:
        ... cluster.bootstrap_servers ...

Brokers are Apache Kafka in KRaft mode, each broker and controller in one; those that are too old for it have one
ZooKeeper beside them. They end with the process that started them (watch.py), and unless a directory is given their
data goes with them.
"""

from __future__ import annotations

import base64
import re
import shutil
import tempfile
import uuid
from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import TracebackType

from sparkmirror.errors import LabError
from sparkmirror.lab.broker import Broker, Launch
from sparkmirror.lab.certificates import write_certificates
from sparkmirror.lab.jars import KAFKA_VERSION, jars
from sparkmirror.lab.jvm import Load, archive_of, options
from sparkmirror.lab.link import DELAY_MS, Link
from sparkmirror.lab.listeners import PASSWORDS, Listener, client_settings, needs_certificates, needs_scram, parse
from sparkmirror.lab.ports import PortTakenError, free_ports
from sparkmirror.lab.settings import Layout, server_settings
from sparkmirror.lab.token_endpoint import TokenEndpoint, write_keys
from sparkmirror.lab.zookeeper import ZooKeeper, needs_zookeeper
from sparkmirror.spark.java import JavaHome, find_java

START_ATTEMPTS = 3
HEAP_MB = 512
HEAP_MB_OF_SEVERAL = 320

_NAME = re.compile(r"[a-zA-Z0-9][a-zA-Z0-9._-]{0,63}")


class LabCluster:
    """A running cluster; a context manager that stops it.

    Attributes:
        name: as given to ``start``.
        version: of Kafka.
        cluster_id: the id that the cluster tells its clients.
        directory: holds one directory per broker, with its log and data.
        brokers: in the order of their ids, which count from 1.
        links: node id to what stands before its LINK listener; empty without that listener.
        token_endpoint: where clients of the SASL_OAUTH listener get their tokens; None without that listener.
    """

    def __init__(
        self,
        *,
        name: str,
        version: str,
        cluster_id: str,
        directory: Path,
        layout: Layout,
        launch: Launch,
        link_delay_ms: float = DELAY_MS,
    ) -> None:
        self.name, self.version, self.cluster_id, self.directory = name, version, cluster_id, directory
        self._layout, self._launch = layout, launch
        self._zookeeper = self._its_zookeeper() if layout.zookeeper else None
        self.token_endpoint = TokenEndpoint(layout.jwks.parent, PASSWORDS) if layout.jwks else None
        self.brokers = tuple(self._broker(node) for node in layout.ports)
        self.links = {
            node: Link(layout.ports[node][Listener.LINK], port=port, delay_ms=link_delay_ms)
            for node, port in layout.links.items()
        }

    @property
    def bootstrap_servers(self) -> str:
        """Addresses of the PLAINTEXT listeners."""
        return self.listener(Listener.PLAINTEXT)

    @property
    def listeners(self) -> tuple[Listener, ...]:
        """The listeners that every broker of this cluster has."""
        return tuple(next(iter(self._layout.ports.values())))

    @property
    def certificates(self) -> Path | None:
        """The directory with the files of certificates.py; None when no listener speaks TLS."""
        return self._layout.certificates

    def listener(self, name: str) -> str:
        """Addresses of a listener, for bootstrap.servers.

        Raises:
            LabError: the cluster was started without it.
        """
        if name not in self.listeners:
            raise LabError(f"cluster {self.name} has no listener {name}: it has {', '.join(self.listeners)}")
        return self._layout.bootstrap_servers(Listener(name))

    def client_properties(self, name: str = Listener.PLAINTEXT, *, mechanism: str | None = None) -> dict[str, str]:
        """The keys that a Java client needs for a listener, bootstrap.servers among them.

        Args:
            name: of the listener.
            mechanism: for a listener with several; its last and strongest unless given.

        Raises:
            LabError: there is no such listener, or it does not offer the mechanism.
        """
        servers = {"bootstrap.servers": self.listener(name)}
        token_url = self.token_endpoint.url if self.token_endpoint else ""
        return servers | client_settings(Listener(name), mechanism, self._layout.certificates, token_url)

    def stop(self) -> None:
        """Ends all brokers and removes their data, unless a directory was given. May be called again."""
        for link in self.links.values():
            link.stop()
        if self.token_endpoint is not None:
            self.token_endpoint.stop()
        if self._launch.removed is None:
            with ThreadPoolExecutor(len(self.brokers)) as pool:
                list(pool.map(Broker.stop, self.brokers))
            if self._zookeeper is not None:
                self._zookeeper.stop()
            return
        for broker in self.brokers:
            broker.kill()  # nobody will read this data again
        if self._zookeeper is not None:
            self._zookeeper.stop()
        shutil.rmtree(self._launch.removed, ignore_errors=True)

    def __enter__(self) -> LabCluster:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _broker(self, node: int) -> Broker:
        directory = self.directory / f"broker-{node}"
        settings = server_settings(self._layout, node, directory / "data")
        port = self._layout.ports[node][Listener.PLAINTEXT]
        return Broker(
            node=node,
            directory=directory,
            port=port,
            settings=settings,
            launch=self._launch,
            zookeeper=self._zookeeper,
        )

    def _its_zookeeper(self) -> ZooKeeper:
        launch = self._launch
        return ZooKeeper(
            directory=self.directory / "zookeeper",
            port=self._layout.zookeeper,
            java=launch.java,
            jars=launch.jars,
            removed=launch.removed,
        )

    def _start(self) -> None:
        """Formats what is new, starts all brokers and waits until each of them knows all of them."""
        users = PASSWORDS if needs_scram(self.listeners) else {}
        new = [broker for broker in self.brokers if not (broker.directory / "data" / "meta.properties").exists()]
        if self._zookeeper is not None:
            self._zookeeper.start()
            self._zookeeper.add_users(users if new else {})
        else:
            with ThreadPoolExecutor(len(self.brokers)) as pool:
                list(pool.map(lambda broker: broker.format(self.cluster_id, users), new))
        for link in self.links.values():
            link.start()
        for broker in self.brokers:
            broker.begin()
        everyone = frozenset(broker.node for broker in self.brokers)
        for broker in self.brokers:
            broker.wait_until_ready(everyone)
        if self._zookeeper is not None:
            self.cluster_id = _cluster_id(self.directory)  # the brokers have chosen one


def start(
    name: str,
    *,
    version: str = KAFKA_VERSION,
    brokers: int = 1,
    security: Collection[str] = frozenset(),
    config: Mapping[str, str] | None = None,
    directory: Path | None = None,
    link_delay_ms: float = DELAY_MS,
    prefix: Sequence[str] = (),
    load: Load = Load.LIGHT,
) -> LabCluster:
    """Starts a cluster and returns when every broker has answered a request.

    Args:
        name: for messages and directories.
        version: of Kafka, fetched at the first use.
        brokers: how many.
        security: listeners beside PLAINTEXT, names of ``Listener``.
        config: broker settings that win over the lab's; ``{node}`` in a value stands for the broker's node id.
        directory: for data and logs, kept afterwards and reused when it holds a cluster already; a temporary one
            that goes with the cluster unless given.
        link_delay_ms: how long every byte is on its way between a broker and a client of its LINK listener.
        prefix: what stands before the command of each broker; it runs in the broker's directory.
        load: how much it will have to do.

    Raises:
        LabError: it could not be fetched or started; with the end of the broker's log.
        JavaError: there is no Java for it.
    """
    if not _NAME.fullmatch(name) or brokers < 1:
        raise LabError(f"cluster {name!r} with {brokers} brokers: give a plain name and at least one broker")
    listeners = parse(security)
    if Listener.SASL_OAUTH in listeners and version != KAFKA_VERSION:
        raise LabError(
            f"cluster {name}: the listener {Listener.SASL_OAUTH} is for Kafka {KAFKA_VERSION}, not {version}"
        )
    java, its_jars = find_java(), jars(version)
    archive = archive_of(java, its_jars, partial(_live_once, java, its_jars)) if version == KAFKA_VERSION else None
    launch = Launch(
        java=java.executable,
        jars=its_jars,
        heap_mb=HEAP_MB if brokers == 1 else HEAP_MB_OF_SEVERAL,
        options=options(load, archive),
        removed=None,
        prefix=tuple(prefix),
    )
    for attempt in range(1, START_ATTEMPTS + 1):
        place = (directory or Path(tempfile.mkdtemp(prefix=f"sparkmirror-lab-{name}-"))).resolve()
        owned = launch if directory else replace(launch, removed=place)
        try:
            layout = _layout(place, brokers, listeners, config or {}, zookeeper=needs_zookeeper(version))
            cluster = LabCluster(
                name=name,
                version=version,
                cluster_id=_cluster_id(place),
                directory=place,
                layout=layout,
                launch=replace(owned, options=(*owned.options, *_reading_keys(layout))),
                link_delay_ms=link_delay_ms,
            )
        except OSError as problem:
            raise LabError(f"cluster {name}: {problem}: give a directory that can be written") from problem
        try:
            cluster._start()
            return cluster
        except PortTakenError:
            _abandon(cluster)
            if attempt == START_ATTEMPTS:
                raise
        except BaseException:
            _abandon(cluster)
            raise
    raise AssertionError("the last attempt returns or raises")


def start_all(
    names: Sequence[str],
    *,
    version: str = KAFKA_VERSION,
    brokers: int = 1,
    security: Collection[str] = frozenset(),
    config: Mapping[str, str] | None = None,
    directory: Path | None = None,
    load: Load = Load.LIGHT,
) -> tuple[LabCluster, ...]:
    """Starts several clusters side by side, all of one kind; a given directory gets one directory for each.

    Raises:
        LabError: one could not be started; the others have been stopped then.
        JavaError: there is no Java for them.
    """

    def one(name: str) -> LabCluster:
        place = directory / name if directory else None
        return start(
            name, version=version, brokers=brokers, security=security, config=config, directory=place, load=load
        )

    if len(set(names)) < len(names) or not names:
        raise LabError(f"clusters {', '.join(names) or '(none)'}: give each a name of its own")
    jars(version)  # once, so that a failure is reported once
    with ThreadPoolExecutor(len(names)) as pool:
        started = [pool.submit(one, name) for name in names]
    problems = [future.exception() for future in started]
    for problem in problems:
        if problem is not None:
            for future in started:
                if future.exception() is None:
                    future.result().stop()
            raise problem
    return tuple(future.result() for future in started)


def _live_once(java: JavaHome, its_jars: Path, making: tuple[str, ...]) -> None:
    """Starts a broker that nobody uses and stops it cleanly, as the making of an archive of its classes wants it."""
    with tempfile.TemporaryDirectory(prefix="sparkmirror-lab-classes-") as directory:
        place = Path(directory)
        cluster = LabCluster(
            name="classes",
            version=KAFKA_VERSION,
            cluster_id=_cluster_id(place),
            directory=place,
            layout=_layout(place, 1, parse(()), {}, zookeeper=False),
            launch=Launch(
                java=java.executable,
                jars=its_jars,
                heap_mb=HEAP_MB,
                options=(*options(Load.LIGHT, None), *making),
                removed=None,
            ),
        )
        try:
            cluster._start()
        finally:
            cluster.stop()


def _abandon(cluster: LabCluster) -> None:
    """Ends what was started of a cluster that failed; the failure itself is what the caller should hear of."""
    with suppress(LabError):
        for broker in cluster.brokers:
            broker.kill()
        cluster.stop()


def _layout(
    place: Path, brokers: int, listeners: tuple[Listener, ...], extra: Mapping[str, str], *, zookeeper: bool
) -> Layout:
    jwks = write_keys(place / "tokens") if Listener.SASL_OAUTH in listeners else None
    certificates = place / "certificates" if needs_certificates(listeners) else None
    if certificates:
        write_certificates(certificates)
    width = len(listeners) + 1 + (Listener.LINK in listeners)
    ports = free_ports(brokers * width + zookeeper)
    groups = {node: ports[(node - 1) * width : node * width] for node in range(1, brokers + 1)}
    return Layout(
        controllers={node: group[0] for node, group in groups.items()},
        ports={node: dict(zip(listeners, group[1:], strict=False)) for node, group in groups.items()},
        links={node: group[-1] for node, group in groups.items()} if Listener.LINK in listeners else {},
        certificates=certificates,
        extra=dict(extra),
        jwks=jwks,
        zookeeper=ports[-1] if zookeeper else 0,
    )


def _reading_keys(layout: Layout) -> tuple[str, ...]:
    """What lets a broker's JVM read the keys of tokens; from 4.0 on it may read no such file that is not named."""
    return (f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls=file://{layout.jwks}",) if layout.jwks else ()


def _cluster_id(place: Path) -> str:
    """The one that the directory was formatted with, else a new one."""
    formatted = next(place.glob("broker-*/data/meta.properties"), None)
    if formatted:
        found = re.search(r"^cluster\.id=(\S+)$", formatted.read_text(), re.MULTILINE)
        if found:
            return found.group(1)
    text = "-"
    while text.startswith("-"):  # the storage tool would read it as an option
        text = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
    return text
