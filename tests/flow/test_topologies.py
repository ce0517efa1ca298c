"""Chain, ring, hub and spokes, fan-in, fan-out, both ways: every record once where it belongs, never back at its birth."""

from __future__ import annotations

import itertools
from collections import Counter

import pytest
from confluent_kafka import Producer

from sparkmirror.lab.records import Reader, extents
from tests.flow.running import Running, admin_of, create_topic, until, write_file

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.slow]

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


def names(cluster, stem):
    return {name for name in admin_of(cluster).list_topics(timeout=60).topics if stem in name}


def hold(cluster, wanted):
    """Waits until each topic has each of its records; the count is looked at in `exact`, when all is quiet."""
    for topic, records in wanted.items():
        until(lambda: set(records) <= set(values(cluster, topic)), f"{topic} on {cluster.name}")


def exact(cluster, stem, wanted):
    """Those topics and no others, with each record once."""
    assert names(cluster, stem) == set(wanted)
    for topic, records in wanted.items():
        assert Counter(values(cluster, topic)) == Counter(records), f"{topic} on {cluster.name}"


def test_renaming_policies_keep_records_from_coming_back_in_every_topology(
    cluster_a, cluster_b, cluster_c, topic, tmp_path
):
    ring, hub, chain, births = topic("ring"), topic("hub"), topic("chain"), Births()
    clusters = {"a": cluster_a, "b": cluster_b, "c": cluster_c}
    born: dict[tuple[str, str], list[bytes]] = {}

    def write() -> None:
        for name, places in ((ring, "abc"), (hub, "abc"), (chain, "a")):
            for alias in places:
                born.setdefault((alias, name), []).extend(births.write(clusters[alias], name))

    for name, places in ((ring, "abc"), (hub, "abc"), (chain, "a")):
        for alias in places:
            create_topic(clusters[alias], name, PARTITIONS)
    write()
    flows = {
        "a->b": f".*{ring},.*{hub},{chain}",
        "b->c": f".*{ring},.*{chain}",
        "c->a": f".*{ring},.*{hub}",
        "b->a": f".*{hub}",
        "a->c": f".*{hub}",
    }
    wanted = {
        "a": {ring: "a", f"c.{ring}": "c", f"c.b.{ring}": "b", hub: "a", f"b.{hub}": "b", f"c.{hub}": "c", chain: "a"},
        "b": {ring: "b", f"a.{ring}": "a", f"a.c.{ring}": "c", hub: "b", f"a.{hub}": "a", f"a.c.{hub}": "c"},
        "c": {ring: "c", f"b.{ring}": "b", f"b.a.{ring}": "a", hub: "c", f"a.{hub}": "a", f"a.b.{hub}": "b"},
    }
    wanted["b"][f"a.{chain}"] = wanted["c"][f"b.a.{chain}"] = "a"
    # The hub's topic is no spoke's: what c gets of it from b over a is named so, and nothing of it goes further.
    with Running(write_file(tmp_path / "mm2.properties", clusters, flows), log=tmp_path / "run.log") as mirror:
        for again in (True, False):
            for alias, topics in wanted.items():
                hold(clusters[alias], {name: born[place, name.rpartition(".")[2]] for name, place in topics.items()})
            if again:
                write()
        mirror.stop_in_time()
    for alias, topics in wanted.items():
        for stem in (ring, hub, chain):
            here = {name: place for name, place in topics.items() if name.endswith(stem)}
            exact(clusters[alias], stem, {name: born[place, stem] for name, place in here.items()})
