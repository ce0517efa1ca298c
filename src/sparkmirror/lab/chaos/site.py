"""Where faults are made: two clusters of three brokers, each source and target, lines between them and the mirror.

    a -> b   batches of one record, large ones, transactions, records that are 30 days old
    b -> a   batches of one record, transactions
    u -> b   "u" is cluster a by another name; its topics have two replicas on b, and any of them may become the leader

Applications and the referee reach the brokers directly, the mirror over lines that can be broken. Broker 3 of b has a
small disk of its own where that can be made.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, NewTopic

from sparkmirror.errors import LabError
from sparkmirror.lab.chaos.disk import Disk
from sparkmirror.lab.chaos.naming import Naming
from sparkmirror.lab.chaos.production import Style
from sparkmirror.lab.chaos.schedule import Side
from sparkmirror.lab.clock import CLOCK, step, steppable
from sparkmirror.lab.cluster import LabCluster, start
from sparkmirror.lab.listeners import Listener

BROKERS = 3
SMALL_DISK = 3
FRAIL = "frail"
FRAIL_REPLICAS = (1, 2)
"""Not the broker with the small disk: a topic that loses its tail for one reason is enough."""

ANSWER_SECONDS = 30.0
LOOK_SECONDS = 0.2
LONGEST_S = 300.0
"""A deadline, not a promise: how long anything took is in the report."""

_BROKER = {
    "auto.create.topics.enable": "false",
    "min.insync.replicas": "2",
    "replica.lag.time.max.ms": "4000",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "2000",
}
_KEPT = {"retention.ms": "-1", "retention.bytes": "-1"}
_FRAIL_COPY = {"unclean.leader.election.enable": "true", "min.insync.replicas": "1", **_KEPT}


@dataclass(frozen=True, slots=True, kw_only=True)
class Copy:
    """A topic that is mirrored.

    Attributes:
        flow: its name.
        source: the cluster that applications write to.
        target: the cluster that the copy is on.
        topic: on the source.
        copy: on the target.
        partitions: of both.
        style: how its application writes.
    """

    flow: str
    source: Side
    target: Side
    topic: str
    copy: str
    partitions: int
    style: Style

    @property
    def internal(self) -> str:
        """The flow's internal topic, on the target."""
        source, _, target = self.flow.partition("->")
        return f"sparkmirror.{source}.{target}.internal"


def _copy(naming: Naming, flow: str, stem: str, partitions: int, style: Style) -> Copy:
    source, _, target = flow.partition("->")
    side = Side.A if source == "u" else Side(source)
    return Copy(
        flow=flow,
        source=side,
        target=Side(target),
        topic=stem,
        copy=naming.copy(source, stem),
        partitions=partitions,
        style=style,
    )


_TOPICS = (
    ("a->b", "out-small", 3, Style.SMALL),
    ("a->b", "out-large", 2, Style.LARGE),
    ("a->b", "out-transactions", 2, Style.TRANSACTIONS),
    ("a->b", "out-old", 2, Style.OLD),
    ("b->a", "back-small", 2, Style.SMALL),
    ("b->a", "back-transactions", 2, Style.TRANSACTIONS),
    ("u->b", f"{FRAIL}-small", 2, Style.SMALL),
    ("u->b", f"{FRAIL}-large", 2, Style.LARGE),
    ("u->b", f"{FRAIL}-old", 2, Style.OLD),
)
"""No two flows have a topic of the same name, so names can be kept."""


def copies(naming: Naming) -> tuple[Copy, ...]:
    """The topics that are mirrored."""
    return tuple(_copy(naming, *topic) for topic in _TOPICS)


@dataclass(slots=True)
class Site:
    """The laboratory's clusters.

    Attributes:
        directory: of everything.
        clusters: by side.
        disk: of the broker with the small disk, None where that cannot be made.
        naming: of the flows.
        copies: the topics that are mirrored.
    """

    directory: Path
    clusters: Mapping[Side, LabCluster]
    disk: Disk | None
    naming: Naming
    copies: tuple[Copy, ...]

    @property
    def frail(self) -> tuple[Copy, ...]:
        """Those whose copies may lose their tail."""
        return tuple(copy for copy in self.copies if copy.topic.startswith(FRAIL))

    def servers(self, side: Side) -> str:
        """Bootstrap servers for all but the mirror."""
        return self.clusters[side].bootstrap_servers

    def client(self, side: Side) -> AdminClient:
        """A new client of a cluster, on the listener that applications use."""
        return AdminClient({"bootstrap.servers": self.servers(side), "log_level": 0})


@contextmanager
def laid_out(directory: Path, naming: Naming, *, mounts: bool) -> Iterator[Site]:
    """Starts the clusters and makes their topics.

    Args:
        directory: for everything; stays.
        naming: of the flows.
        mounts: whether a file system may be mounted here.

    Raises:
        LabError: something could not be started.
    """
    small = directory / "clusters" / Side.B / f"broker-{SMALL_DISK}" / "data"
    disk = Disk(small) if mounts else None
    clock = steppable()
    try:
        with ThreadPoolExecutor(len(Side)) as pool:
            begun = {side: pool.submit(_cluster, side, directory / "clusters" / side, clock) for side in Side}
        with begun[Side.A].result() as first, begun[Side.B].result() as second:
            clusters = {Side.A: first, Side.B: second}
            site = Site(directory, clusters, disk, naming, copies(naming))
            try:
                _make_topics(site)
                yield site
            finally:
                for cluster in clusters.values():
                    for broker in cluster.brokers:
                        broker.kill()  # nobody needs its data any more, only its log
    finally:
        if disk is not None:
            disk.release()


def _cluster(side: Side, place: Path, clock: Sequence[str]) -> LabCluster:
    for node in range(1, BROKERS + 1):
        broker = place / f"broker-{node}"
        broker.mkdir(parents=True, exist_ok=True)
        step(broker / CLOCK, 0)
    return start(
        side,
        brokers=BROKERS,
        security=[Listener.LINK],
        config=_BROKER,
        directory=place,
        link_delay_ms=0,
        prefix=clock,
    )


def _make_topics(site: Site) -> None:
    for side in Side:
        client = site.client(side)
        made = [
            NewTopic(copy.topic, copy.partitions, BROKERS, config=_KEPT) for copy in site.copies if copy.source is side
        ]
        for copy in (each for each in site.frail if each.target is side):
            turns = [list(FRAIL_REPLICAS), list(reversed(FRAIL_REPLICAS))]
            assigned = [turns[number % 2] for number in range(copy.partitions)]
            made.append(NewTopic(copy.copy, copy.partitions, replica_assignment=assigned, config=_FRAIL_COPY))
        for name, future in client.create_topics(made).items():
            try:
                future.result(ANSWER_SECONDS)
            except KafkaException as error:
                raise LabError(f"topic {name} of cluster {side}: {error}") from error


def write_file(site: Site) -> Path:
    """Writes the mirror's configuration: three flows, over the lines."""
    a, b = (site.clusters[side].listener(Listener.LINK) for side in Side)
    keys = {
        "clusters": "a,b,u",
        "a.bootstrap.servers": a,
        "b.bootstrap.servers": b,
        "u.bootstrap.servers": a,
        "replication.factor": "3",
        "refresh.topics.interval.seconds": "5",
        "emit.heartbeats.enabled": "false",
        "shift.max.ms": "30000",
        "several.aliases.per.cluster": "true",
        "stop.timeout.ms": "30000",  # an end is to be clean on a slow machine too
        **site.naming.settings,
    }
    for flow in dict.fromkeys(copy.flow for copy in site.copies):
        topics = ",".join(copy.topic for copy in site.copies if copy.flow == flow)
        keys |= {f"{flow}.enabled": "true", f"{flow}.topics": topics, f"{flow}.tasks.max": "2"}
    file = site.directory / "mm2.properties"
    file.write_text("".join(f"{key} = {value}\n" for key, value in keys.items()))
    return file


def until(condition: Callable[[], bool], what: str, seconds: float = LONGEST_S) -> None:
    """Looks until it holds.

    Raises:
        LabError: it did not in time.
    """
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise LabError(f"not within {seconds:.0f} s: {what}")
        time.sleep(LOOK_SECONDS)
