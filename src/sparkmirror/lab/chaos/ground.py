"""Where clusters change over: two clusters of one broker, flows both ways, and what applications do on either side.

Applications write to the same topics on both clusters, one side at a time; groups read them, and under names that tell
the source the copies too.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from confluent_kafka import ConsumerGroupTopicPartitions, KafkaException
from confluent_kafka.admin import AdminClient, NewTopic

from sparkmirror.errors import LabError
from sparkmirror.lab.chaos.accounts import Entry, Log
from sparkmirror.lab.chaos.naming import Naming
from sparkmirror.lab.chaos.production import Style
from sparkmirror.lab.chaos.schedule import Side
from sparkmirror.lab.cluster import LabCluster, start
from sparkmirror.lab.records import Reader, extents
from sparkmirror.lab.tally import id_of

PARTITIONS = 2
TOPICS: Mapping[str, Style] = {f"t-{style.name.lower()}": style for style in Style}
GROUPS = ("readers-1", "readers-2", "readers-3")
ASIDE = ".divergent."
ANSWER_S = 30.0

_BROKER = {
    "auto.create.topics.enable": "false",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "2000",
    "log.cleaner.backoff.ms": "500",
}
_KEPT = {"retention.ms": "-1", "retention.bytes": "-1"}
_COMPACTED = {"cleanup.policy": "compact", "segment.ms": "2000", "min.cleanable.dirty.ratio": "0.01"}


@dataclass(slots=True)
class Ground:
    """The two clusters.

    Attributes:
        directory: of everything.
        clusters: by side.
        naming: of the flows.
        file: the mirror's configuration.
    """

    directory: Path
    clusters: Mapping[Side, LabCluster]
    naming: Naming
    file: Path

    def servers(self, side: Side) -> str:
        """Bootstrap servers."""
        return self.clusters[side].bootstrap_servers

    def copy(self, topic: str, source: Side) -> str:
        """What the copy of a source's topic is called on the other side."""
        return self.naming.copy(source, topic)

    def read_on(self, side: Side) -> list[str]:
        """The topics that groups read on a side."""
        other = Side.B if side is Side.A else Side.A
        return sorted({*TOPICS, *(self.copy(topic, other) for topic in TOPICS)})

    def log(self, side: Side, topic: str) -> dict[int, Log]:
        """The committed records of each partition.

        Raises:
            LabError: they cannot be read.
        """
        extent_of = extents(self.servers(side), topic)
        found: dict[int, list[Entry]] = {number: [] for number in extent_of}
        with Reader(self.servers(side), topic, extent_of) as reader:
            for messages in reader:
                for message in messages:
                    found[message.partition()].append(Entry(message.offset(), id_of(message)))  # type: ignore[index, arg-type]  # a record has both
        return dict(found)

    def committed(self, side: Side, group: str) -> dict[tuple[str, int], int]:
        """Where a group stands, by topic and partition.

        Raises:
            LabError: the cluster does not answer.
        """
        admin = AdminClient({"bootstrap.servers": self.servers(side), "log_level": 0})
        try:
            (asked,) = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)]).values()
            places = asked.result(ANSWER_S).topic_partitions or ()
        except KafkaException as failure:
            raise LabError(f"cluster {side}: the offsets of {group} cannot be had: {failure}") from failure
        return {(place.topic, place.partition): place.offset for place in places if place.offset >= 0}


@contextmanager
def ground(directory: Path, naming: Naming) -> Iterator[Ground]:
    """Starts the clusters, makes their topics and writes the mirror's configuration.

    Args:
        directory: for everything; stays.
        naming: of the flows.

    Raises:
        LabError: something could not be started.
    """
    places = {side: directory / "clusters" / side for side in Side}
    with ThreadPoolExecutor(len(Side)) as pool:
        begun = {side: pool.submit(start, side, config=_BROKER, directory=place) for side, place in places.items()}
    with begun[Side.A].result() as first, begun[Side.B].result() as second:
        clusters = {Side.A: first, Side.B: second}
        file = directory / "mm2.properties"
        file.write_text("".join(f"{key} = {value}\n" for key, value in _settings(clusters, naming)))
        for cluster in clusters.values():
            _make_topics(cluster)
        yield Ground(directory, clusters, naming, file)
        for cluster in clusters.values():
            for broker in cluster.brokers:
                broker.kill()  # nobody needs its data any more, only its log


def _settings(clusters: Mapping[Side, LabCluster], naming: Naming) -> Sequence[tuple[str, str]]:
    return (
        ("clusters", ",".join(clusters)),
        *((f"{side}.bootstrap.servers", cluster.bootstrap_servers) for side, cluster in clusters.items()),
        ("a->b.enabled", "true"),
        ("b->a.enabled", "true"),
        ("topics", "t-.*"),
        ("topics.exclude", f".*{ASIDE.replace('.', '[.]')}.*"),
        ("groups", "readers-.*"),
        ("replication.factor", "1"),
        *((f"{own}.topic.replication.factor", "1") for own in ("heartbeats", "checkpoints", "offset-syncs")),
        ("refresh.topics.interval.seconds", "2"),
        ("sync.group.offsets.interval.seconds", "1"),
        ("heartbeats.replication.enabled", "false"),
        *naming.settings.items(),
    )


def _make_topics(cluster: LabCluster) -> None:
    made = [
        NewTopic(name, PARTITIONS, 1, config=_KEPT | (_COMPACTED if style is Style.COMPACTED else {}))
        for name, style in TOPICS.items()
    ]
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers, "log_level": 0})
    for name, future in admin.create_topics(made).items():
        try:
            future.result(ANSWER_S)
        except KafkaException as failure:
            raise LabError(f"topic {name} of cluster {cluster.name}: {failure}") from failure
