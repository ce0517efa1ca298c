"""Chain, ring, hub and spokes, both ways: every record once where it belongs, and never back where it was born."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer

from sparkmirror.batches import HEADER_NAME
from sparkmirror.lab.cluster import LabCluster, start_all
from sparkmirror.lab.records import Reader, extents
from tests.flow.running import Running, admin_of, count, create_topic, until, write_file
from tests.flow.test_compaction import COMPACTED, quick_cleaner

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

RECORDS = 40
PARTITIONS = 2


class Births:
    """Writes records whose values say where they were born, no two of them equal."""

    def __init__(self) -> None:
        self._numbers = itertools.count()

    def write(self, cluster, topic, *, keys=None, records=RECORDS):
        """Writes to one topic; gives the values, and for compacted topics one key after the other of ``keys``."""
        producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "linger.ms": 5, "log_level": 3})
        values = [b"%s %d" % (cluster.name.encode(), next(self._numbers)) for _ in range(records)]
        for number, value in enumerate(values):
            key = None if keys is None else keys[number % len(keys)]
            producer.produce(topic, value, key, partition=number % PARTITIONS)
        assert producer.flush(60) == 0
        return values


def values(cluster, topic):
    """All values of a topic, however many partitions it has."""
    if topic not in admin_of(cluster).list_topics(timeout=60).topics:
        return []
    found = []
    with Reader(cluster.bootstrap_servers, topic, extents(cluster.bootstrap_servers, topic)) as reader:
        for messages in reader:
            found += [message.value() for message in messages]
    return found


def cluster_id(cluster):
    return str(admin_of(cluster).list_topics(timeout=60).cluster_id)


def names(cluster, stem):
    return {name for name in admin_of(cluster).list_topics(timeout=60).topics if stem in name}


def holds(cluster, topic, records):
    """Waits until a topic has each of these; how often is looked at in `exact`, when all is quiet."""
    until(lambda: set(records) <= set(values(cluster, topic)), f"{topic} on {cluster.name}")


def exact(clusters, stems, wanted):
    """Looks that these topics are there, and no others of these names, with each record once."""
    for cluster in clusters:
        there = {topic: records for each, topic, records in wanted if each is cluster}
        assert set().union(*(names(cluster, stem) for stem in stems)) == set(there)
        for topic, records in there.items():
            assert Counter(values(cluster, topic)) == Counter(records), f"{topic} on {cluster.name}"


WHERE_NAMES_CHANGE = {
    "a": {"RING": "a", "c.RING": "c", "c.b.RING": "b", "HUB": "a", "b.HUB": "b", "c.HUB": "c", "CHAIN": "a"},
    "b": {"RING": "b", "a.RING": "a", "a.c.RING": "c", "HUB": "b", "a.HUB": "a", "a.c.HUB": "c", "a.CHAIN": "a"},
    "c": {"RING": "c", "b.RING": "b", "b.a.RING": "a", "HUB": "c", "a.HUB": "a", "a.b.HUB": "b", "b.a.CHAIN": "a"},
}
"""Cluster, topic there, and the cluster where its records were born."""


def test_renaming_policies_keep_records_from_coming_back_in_every_topology(
    cluster_a, cluster_b, cluster_c, topic, tmp_path
):
    clusters = {"a": cluster_a, "b": cluster_b, "c": cluster_c}
    stems = {stem: topic(stem.lower()) for stem in ("RING", "HUB", "CHAIN")}
    births = Births()
    born: dict[tuple[str, str], list[bytes]] = {}

    def write() -> None:
        for stem, places in (("RING", "abc"), ("HUB", "abc"), ("CHAIN", "a")):
            for alias in places:
                born.setdefault((alias, stem), []).extend(births.write(clusters[alias], stems[stem]))

    for stem, places in (("RING", "abc"), ("HUB", "abc"), ("CHAIN", "a")):
        for alias in places:
            create_topic(clusters[alias], stems[stem], PARTITIONS)
    write()
    ring, hub, chain = (f".*{name}" for name in stems.values())
    flows = {
        "a->b": f"{ring},{hub},{chain}",
        "b->c": f"{ring},{chain}",
        "c->a": f"{ring},{hub}",
        "b->a": hub,
        "a->c": hub,
    }
    wanted = [
        (clusters[alias], name.replace(stem, stems[stem]), born[place, stem])
        for alias, topics in WHERE_NAMES_CHANGE.items()
        for name, place in topics.items()
        for stem in [name.rpartition(".")[2]]
    ]
    with Running(write_file(tmp_path / "mm2.properties", clusters, flows), log=tmp_path / "run.log") as mirror:
        for again in (True, False):
            for place in wanted:
                holds(*place)
            if again:
                write()
        mirror.stop_in_time()
    exact(clusters.values(), stems.values(), wanted)


IDENTITY = {"replication.policy.class": "org.apache.kafka.connect.mirror.IdentityReplicationPolicy"}
KEYS = [b"%d" % number for number in range(5)]


@pytest.fixture
def fresh() -> Iterator[tuple[LabCluster, ...]]:
    """Clusters whose registries know nobody: other tests' flows would be known to bring records to them."""
    started = start_all(("one", "two", "three"))
    yield started
    for cluster in started:
        cluster.stop()


def test_the_same_names_on_both_sides_with_old_data_and_a_chain_behind_them(fresh, topic, tmp_path):
    """A file for each flow, one after the other; the flow back comes last, in one process with the flow there."""
    both, compacted, births = topic("both"), topic("compacted"), Births()
    one, two, three = fresh
    clusters = {"one": one, "two": two, "three": three}
    topics = f"{both},{compacted}"

    def file(flow: str) -> Path:
        beats = {"emit.heartbeats.enabled": "true", "heartbeats.topic.replication.factor": "1"}
        return write_file(tmp_path / f"{flow}.properties", clusters, {flow: topics}, IDENTITY | beats)

    def run(flow: str, *options: str) -> Running:
        return Running(file(flow), log=tmp_path / f"{flow}{options[:1] == ('--once',)}.log", options=options)

    quick_cleaner(two)
    for cluster in clusters.values():
        create_topic(cluster, both, PARTITIONS)
    create_topic(two, compacted, PARTITIONS, COMPACTED | {"segment.ms": "1000"})
    for cluster in (one, three):
        create_topic(cluster, compacted, PARTITIONS)
    from_a, from_b = births.write(one, both), births.write(two, both)
    keyed = births.write(one, compacted, keys=KEYS)

    with run("two->three") as chain:
        holds(three, both, from_b)
        with run("one->two", "--once") as first:
            assert first.wait() == 0, first.tail()
        late = births.write(two, compacted, keys=[b"late"])  # rolls the segment with what was mirrored
        until(lambda: not set(keyed) <= set(values(two, compacted)), "what was mirrored is compacted")
        holds(three, both, from_a)
        with run("one->two", str(file("two->one"))) as pair:
            holds(one, both, from_b)
            from_a += births.write(one, both)
            from_b += births.write(two, both)
            for cluster in clusters.values():
                holds(cluster, both, from_a + from_b)
                holds(cluster, compacted, late[-PARTITIONS:])
            until(
                lambda: count(three, "two.one.heartbeats"),
                "heartbeats come along the chain: their names tell their way",
            )
            with run("three->one", "--once") as ring:
                assert ring.wait() == 1, ring.tail()
            assert f"flow two->one has written to the target topic {both}" in " ".join(ring.output.split())
            pair.stop_in_time()
        chain.stop_in_time()
    assert "going on when it is on record that this flow carries its records on" in chain.output
    for cluster in clusters.values():
        assert Counter(values(cluster, both)) == Counter(from_a + from_b)
    on_a = Counter(values(one, compacted))
    assert {value: count for value, count in on_a.items() if value in set(keyed)} == dict.fromkeys(keyed, 1)
    assert set(on_a) <= {*keyed, *late}
    assert max(on_a.values()) == 1
    assert max(Counter(values(three, compacted)).values()) == 1


def ways(cluster, topic):
    """Value and provenance header of each record, as librdkafka reads them."""
    found = {}
    with Reader(cluster.bootstrap_servers, topic, extents(cluster.bootstrap_servers, topic)) as reader:
        for messages in reader:
            for message in messages:
                found[message.value()] = dict(message.headers() or []).get(HEADER_NAME)
    return found


def test_provenance_headers_keep_a_ring_of_the_same_names_exact(cluster_a, cluster_b, cluster_c, topic, tmp_path):
    """Also over a driver that is killed while its flows run."""
    ring, births = topic("identity-ring"), Births()
    clusters = {"r": cluster_a, "s": cluster_b, "t": cluster_c}
    for cluster in clusters.values():
        create_topic(cluster, ring, PARTITIONS)
    flows = dict.fromkeys(("r->s", "s->t", "t->r"), ring)
    file = write_file(tmp_path / "mm2.properties", clusters, flows, IDENTITY | {"provenance.header.enabled": "true"})
    born = {alias: births.write(cluster, ring) for alias, cluster in clusters.items()}

    def everywhere() -> None:
        for cluster in clusters.values():
            holds(cluster, ring, list(itertools.chain(*born.values())))

    with Running(file, log=tmp_path / "run.log") as mirror:
        everywhere()
        for alias, cluster in clusters.items():
            born[alias] += births.write(cluster, ring)
        mirror.kill()
    born["r"] += births.write(cluster_a, ring)
    with Running(file, log=tmp_path / "again.log") as mirror:
        # Lanes outlive their driver by seconds, in which they may copy everything.
        until(lambda: all(f"[{flow}] running" in mirror.output for flow in flows), "the flows are taken over")
        everywhere()
        mirror.stop_in_time()
    ids = {alias: cluster_id(cluster) for alias, cluster in clusters.items()}
    for alias, (far, near) in {"r": ("s", "t"), "s": ("t", "r"), "t": ("r", "s")}.items():
        assert Counter(values(clusters[alias], ring)) == Counter(itertools.chain(*born.values()))
        wanted: dict[bytes, bytes | None] = dict.fromkeys(born[alias])
        wanted |= dict.fromkeys(born[near], ids[near].encode())
        wanted |= dict.fromkeys(born[far], f"{ids[far]},{ids[near]}".encode())
        assert ways(clusters[alias], ring) == wanted
