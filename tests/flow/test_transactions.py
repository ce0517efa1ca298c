"""Transactions as real brokers log them: what a reader of either isolation sees arrives, and nothing else."""

from __future__ import annotations

import random

import pytest
from confluent_kafka import Producer

from tests.flow.logs import CONTROL, TRANSACTIONAL, mirrored, raw, read
from tests.flow.running import Running, create_topic, ends, set_limit, until, write_file

pytestmark = pytest.mark.kafka

MIXED, COMMITS_LATE, ABORTS_LATE, OPEN = range(4)
LIMIT = 10_000
FETCH_BYTES = 8_192
LONG_MS = 300_000


class Writers:
    """Producers of one topic: several with transactions, one without; every call writes one batch."""

    def __init__(self, cluster, topic):
        self._settings = {"bootstrap.servers": cluster.bootstrap_servers, "linger.ms": 1000, "log_level": 0}
        self._topic = topic
        self._numbers = 0
        self.plain = Producer(self._settings | {"enable.idempotence": True})

    def transactional(self, name):
        made = {"transactional.id": f"{self._topic}-{name}", "transaction.timeout.ms": LONG_MS}
        producer = Producer(self._settings | made)
        producer.init_transactions(60)
        return producer

    def write(self, producer, partition, records=2, size=80):
        for _ in range(records):
            self._numbers += 1
            value = None if self._numbers % 9 == 0 else b"%d-" % self._numbers * (size // 4)
            producer.produce(self._topic, value, b"k%d" % self._numbers, partition, headers=[("h", b"1"), ("h", None)])
        assert producer.flush(60) == 0


def mix(writers):
    """Three producers with transactions of all lengths, now committed, now aborted, and a fourth without."""
    dice = random.Random(4)
    many = [writers.transactional(f"mixed-{number}") for number in range(3)]
    inside: set[Producer] = set()
    for _ in range(60):
        producer = dice.choice(many)
        if producer not in inside:
            producer.begin_transaction()
            inside.add(producer)
        writers.write(producer, MIXED, dice.randint(1, 4))
        if dice.random() < 0.3:
            writers.write(writers.plain, MIXED, 1)
        if dice.random() < 0.4:
            end(producer, commit=dice.random() < 0.5)
            inside.discard(producer)
    for producer in inside:
        end(producer, commit=True)


def end(producer, *, commit):
    if commit:
        producer.commit_transaction(60)
    else:
        producer.abort_transaction(60)


def long_ones(writers):
    """One transaction with data in two partitions' worth of fetches each, beside another producer's records."""
    for partition, commit in ((COMMITS_LATE, True), (ABORTS_LATE, False)):
        producer = writers.transactional(f"long-{partition}")
        producer.begin_transaction()
        for _ in range(25):
            writers.write(producer, partition, 20, 100)
            writers.write(writers.plain, partition, 1)
        end(producer, commit=commit)
        writers.write(writers.plain, partition, 1)


def obstructed(cluster, topic):
    """An aborted transaction around a record that the target does not take: the mirror has to stop inside it."""
    writers = Writers(cluster, topic)
    aborted = writers.transactional("aborted")
    aborted.begin_transaction()
    for turn in range(30):
        writers.write(aborted, 0, 5)
        writers.write(writers.plain, 0, 1, size=3 * LIMIT if turn == 15 else 80)
    end(aborted, commit=False)
    writers.write(writers.plain, 0, 3)


def test_each_isolation_copies_what_its_readers_see_through_stops_inside_transactions(
    cluster_a, cluster_b, lab_cluster, topic, tmp_path
):
    stem = topic("transactions")
    name, middle = f"{stem}-all", f"{stem}-middle"
    create_topic(cluster_a, name, 4)
    create_topic(cluster_a, middle, 1)
    create_topic(cluster_b, f"a.{middle}", 1, {"max.message.bytes": str(LIMIT)})
    writers = Writers(cluster_a, name)
    mix(writers)
    long_ones(writers)
    obstructed(cluster_a, middle)
    writers.write(writers.plain, OPEN, 3)
    still_open = writers.transactional("open")
    still_open.begin_transaction()
    for _ in range(3):
        writers.write(still_open, OPEN, 4)
        writers.write(writers.plain, OPEN, 1)
    a = lab_cluster("A")
    for partition in (COMMITS_LATE, ABORTS_LATE):
        inside = sum(batch.size for batch in raw(a, name, partition) if batch.has(TRANSACTIONAL))
        assert inside > 4 * FETCH_BYTES, "it stays open across many fetches"

    # The second alias is the same cluster, read as MirrorMaker 2 reads by default.
    file = write_file(
        tmp_path / "mm2.properties",
        {"a": cluster_a, "u": cluster_a, "b": cluster_b},
        {"a->b": f"{stem}-.*", "u->b": f"{stem}-.*"},
        {"u.consumer.isolation.level": "read_uncommitted"}
        | {"several.aliases.per.cluster": "true"}
        | {f"{alias}.consumer.max.partition.fetch.bytes": str(FETCH_BYTES) for alias in "au"}
        | {f"{alias}.consumer.fetch.max.bytes": str(4 * FETCH_BYTES) for alias in "au"},
    )
    with Running(file, log=tmp_path / "run.log", options=("--once",)) as mirror:
        assert mirror.wait() == 1, mirror.tail()
        output = mirror.output
    (stop,) = {record.offset for record in read(cluster_a, middle)[0] if len(record.value or b"") > LIMIT}
    assert f"{middle}-0 at offset {stop}" in " ".join(output.split())
    doomed = [batch for batch in raw(a, middle, 0) if batch.has(TRANSACTIONAL) and not batch.has(CONTROL)]
    assert doomed[0].last_offset < stop < doomed[-1].base_offset, "the mirror stands inside an aborted transaction"
    assert ends(cluster_b, f"a.{middle}") == {0: 15}
    committed, all_of_it = {name: f"a.{name}"}, {name: f"u.{name}", middle: f"u.{middle}"}
    pair = mirrored(cluster_a, cluster_b, committed, "sparkmirror.a.b.internal")[name]
    assert [len(pair.there[partition]) for partition in (COMMITS_LATE, ABORTS_LATE, OPEN)] == [25 * 21 + 1, 25 + 1, 3]
    pair = mirrored(cluster_a, cluster_b, all_of_it, "sparkmirror.u.b.internal", committed=False)[name]
    assert [len(pair.there[partition]) for partition in (COMMITS_LATE, ABORTS_LATE, OPEN)] == [526, 526, 3 + 3 * 5]

    # The obstacle goes, and the open transaction ends: the mirror goes on from where it stands.
    set_limit(cluster_b, f"a.{middle}", 1 << 20)
    end(still_open, commit=True)
    until(lambda: len(read(cluster_a, name)[OPEN]) == 3 + 3 * 5, "the transaction is committed")
    with Running(file, log=tmp_path / "again.log", options=("--once",)) as mirror:
        assert mirror.wait() == 0, mirror.tail()
    committed[middle] = f"a.{middle}"
    pairs = mirrored(cluster_a, cluster_b, committed, "sparkmirror.a.b.internal", runs=2)
    assert len(pairs[name].there[OPEN]) == 3 + 3 * 5
    assert len(pairs[middle].there[0]) == 30 + 3
    mirrored(cluster_a, cluster_b, all_of_it, "sparkmirror.u.b.internal", committed=False, runs=2)
