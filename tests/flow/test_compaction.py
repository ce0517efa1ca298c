"""Logs that a real cleaner has been at: thinned and emptied batches, tombstones with a delete horizon, whole holes."""

from __future__ import annotations

import itertools
import time

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource

from sparkmirror.batches import Codec
from sparkmirror.offsets.translation import Translated
from tests.flow.logs import CONTROL, DELETE_HORIZON, LOG_APPEND_TIME, mirrored, raw, read
from tests.flow.offset_map import told
from tests.flow.running import Running, admin_of, create_topic, reaches, until, write_file
from tests.flow.test_lost_map import copied
from tests.invoking import sparkmirror

pytestmark = pytest.mark.kafka

COMPACTED = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.001", "min.compaction.lag.ms": "0"}
TRANSACTIONS = len(Codec)
"""The partition with transactions; those before it are numbered as the codecs of their batches."""

MINUTE_MS = 60_000
CLEANED_SECONDS = 60.0


def quick_cleaner(cluster):
    """The cleaner looks for work five times a second, not every 15 s."""
    often = ConfigEntry("log.cleaner.backoff.ms", "200", incremental_operation=AlterConfigOpType.SET)
    broker = ConfigResource(ConfigResource.Type.BROKER, str(cluster.brokers[0].node), incremental_configs=[often])
    admin = admin_of(cluster)
    for future in admin.incremental_alter_configs([broker]).values():
        future.result(60)


class Keys:
    """Writes batches of keyed records, two minutes of record time after each other: each is a segment of its own."""

    def __init__(self, topic: str, partition: int) -> None:
        self._place = topic, partition
        self._time = int(time.time() * 1000)  # not before: markers of transactions carry the broker's time
        self._number = 0

    def write(self, producer: Producer, keys: list[str], *, dead: tuple[str, ...] = ()) -> None:
        topic, partition = self._place
        self._time += 2 * MINUTE_MS
        for key in keys:
            self._number += 1
            value = None if key in dead else b"%d-" % self._number * 20
            headers: list[tuple[str, str | bytes | None]] = [("number", b"%d" % self._number), ("null", None)]
            # Times go up and down within a batch.
            at = self._time + self._number * 7 % 10 * 1000
            producer.produce(topic, value, key.encode(), partition, timestamp=at, headers=headers[self._number % 3 :])
        assert producer.flush(60) == 0
        time.sleep(0.003)  # by the broker's clock, too, each batch is a segment of its own


def numbered(stem, count):
    return [f"{stem}{number}" for number in range(count)]


def write_keys(cluster, topic, codec):
    settings = {
        "bootstrap.servers": cluster.bootstrap_servers,
        "enable.idempotence": True,
        "linger.ms": 1000,
        "compression.type": codec.name.lower(),
        "log_level": 3,
    }
    first, second, gone = (Producer(settings) for _ in range(3))
    keys = Keys(topic, codec.value)
    keys.write(first, numbered("thinned", 10) + numbered("deleted", 3))
    keys.write(first, numbered("replaced", 8))
    keys.write(gone, numbered("emptied", 5))
    keys.write(first, ["kept", *numbered("holes", 6), "stays"])
    keys.write(second, ["alone", *numbered("deleted", 3)], dead=tuple(numbered("deleted", 3)))
    keys.write(second, ["never"], dead=("never",))
    keys.write(second, [*numbered("replaced", 8), *numbered("emptied", 5)])
    keys.write(second, ["thinned0", "thinned4", "thinned5", "thinned9", "holes1", "holes3", "holes4"])
    keys.write(second, ["last"])  # the active segment is never cleaned


def write_transactions(cluster, topic):
    settings = {"bootstrap.servers": cluster.bootstrap_servers, "linger.ms": 1000, "log_level": 0}
    writers = [Producer(settings | {"transactional.id": f"{topic}-{number}"}) for number in range(2)]
    keys = Keys(topic, TRANSACTIONS)
    for writer in writers:
        writer.init_transactions(60)
    for turn, names in enumerate((["a", "b", "c"], ["a", "b"], ["c", "d"], ["b", "e"], ["c"], ["last"])):
        writer = writers[turn % 2]
        writer.begin_transaction()
        keys.write(writer, names, dead=("d",))
        if turn in {2, 3}:
            writer.abort_transaction(60)
        else:
            writer.commit_transaction(60)


def thinned(batch):
    return 0 < batch.records <= batch.last_delta


def emptied(batch):
    return batch.records == 0 and batch.producer_id >= 0 and not batch.has(CONTROL)


def with_horizon(batch):
    return batch.records > 0 and batch.has(DELETE_HORIZON) and not batch.has(CONTROL)


def apart(batches):
    return any(after.base_offset > before.last_offset + 1 for before, after in itertools.pairwise(batches))


def is_cleaned(batches):
    """Whether every kind of batch that a cleaner leaves is in a log."""
    return apart(batches) and all(any(map(kind, batches)) for kind in (thinned, emptied, with_horizon))


def test_a_compacted_log_arrives_as_a_reader_sees_it_with_an_entry_for_each_hole(
    cluster_a, cluster_b, lab_cluster, topic, tmp_path
):
    stem = topic("cleaned")
    by_record_time = COMPACTED | {"segment.ms": str(MINUTE_MS)}
    sources = {
        f"{stem}-plain": by_record_time,
        f"{stem}-compact": by_record_time,
        f"{stem}-stamped": COMPACTED | {"segment.ms": "1", "message.timestamp.type": "LogAppendTime"},
    }
    quick_cleaner(cluster_a)
    for name, config in sources.items():
        create_topic(cluster_a, name, len(Codec) + 1, config)
        # Not created by the mirror: with the source's settings the copy would be cleaned while it is compared.
        policy = {"cleanup.policy": "compact"} if name.endswith("compact") else {}
        create_topic(cluster_b, f"a.{name}", len(Codec) + 1, policy)
        for codec in Codec:
            write_keys(cluster_a, name, codec)
        write_transactions(cluster_a, name)
    a = lab_cluster("A")
    for name in sources:
        for codec in Codec:
            until(lambda: is_cleaned(raw(a, name, codec.value)), f"{name}-{codec} is cleaned", CLEANED_SECONDS)  # noqa: B023 - called in this turn
            batches = raw(a, name, codec.value)
            assert {batch.codec for batch in batches if thinned(batch)} == {codec.value}
            assert all(batch.has(LOG_APPEND_TIME) == name.endswith("stamped") for batch in batches)
        until(lambda: apart(raw(a, name, TRANSACTIONS)), f"the transactions of {name} are cleaned", CLEANED_SECONDS)  # noqa: B023 - as above

    file = write_file(tmp_path / "mm2.properties", {"a": cluster_a, "b": cluster_b}, {"a->b": f"{stem}-.*"})
    with Running(file, log=tmp_path / "run.log", options=("--once",)) as mirror:
        assert mirror.wait() == 0, mirror.tail()
    copies = {name: f"a.{name}" for name in sources}
    for name, pair in mirrored(cluster_a, cluster_b, copies, "sparkmirror.a.b.internal").items():
        for codec in Codec:
            keys = [record.key for record in pair.there[codec.value]]
            assert len(keys) == len(set(keys)) == 10 + 3 + 8 + 5 + 8 + 1 + 1 + 1
            assert {record.key for record in pair.there[codec.value] if record.value is None} == {
                *(b"deleted%d" % number for number in range(3)),
                b"never",
            }
        assert {record.key for record in pair.there[TRANSACTIONS]} == {b"a", b"b", b"c", b"last"}
        assert all(record.stamped == name.endswith("stamped") for rows in pair.here.values() for record in rows)
        assert not any(record.stamped for rows in pair.there.values() for record in rows)


PAUSED_SECONDS = 4.0


def test_each_offset_is_exact_after_a_crash_behind_a_gap_that_lies_within_a_batch(
    cluster_a, cluster_b, lab_cluster, topic, tmp_path
):
    """The lane has copied up to the batch before: the first hole of the answer lies behind records that go on."""
    name = topic("gap")
    create_topic(cluster_a, name, 1, COMPACTED | {"segment.ms": str(MINUTE_MS)})
    quick_cleaner(cluster_a)
    a, copy = lab_cluster("A"), f"{name}.{name}"
    writer, keys = Producer({"bootstrap.servers": cluster_a.bootstrap_servers, "linger.ms": 1000}), Keys(name, 0)
    file = write_file(tmp_path / "mm2.properties", {name: cluster_a, "b": cluster_b}, {f"{name}->b": name})
    keys.write(writer, numbered("before", 3))
    with Running(file, log=tmp_path / "first.log") as mirror:
        reaches(cluster_b, copy, 3)
        assert sparkmirror("pause", file, "--topic", name).returncode == 0
        time.sleep(PAUSED_SECONDS)
        keys.write(writer, numbered("thinned", 10))
        keys.write(writer, ["thinned3", "thinned4", "thinned7"])
        keys.write(writer, ["last"])  # the active segment is never cleaned
        until(lambda: any(map(thinned, raw(a, name, 0))), f"{name} is cleaned", CLEANED_SECONDS)
        assert sparkmirror("resume", file, "--topic", name).returncode == 0
        reaches(cluster_b, copy, 14)
        mirror.kill_all()
    with Running(file, log=tmp_path / "second.log") as mirror:
        keys.write(writer, ["more"])
        until(lambda: len(copied(cluster_b, copy)) == 15, "it goes on")
        here, there = (read(*place)[0] for place in ((cluster_a, name), (cluster_b, copy)))
        assert [one.value for one in here] == [one.value for one in there]
        assert [one.offset for one in here][3:10] == [3, 4, 5, 8, 9, 11, 12]
        wanted = {at: next(b.offset for a, b in zip(here, there, strict=True) if a.offset >= at) for at in range(17)}
        found = told(file, name, wanted)
        assert all(isinstance(one, Translated) for one in found.values())
        assert {at: (one.offset, one.place.exact) for at, one in found.items() if isinstance(one, Translated)} == {
            at: (right, True) for at, right in wanted.items()
        }
        mirror.stop_in_time()
