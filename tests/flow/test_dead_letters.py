"""Records that the target topic cannot hold: put aside with their origin, or a reason to stop that says all."""

from __future__ import annotations

import json
import re
import time
from contextlib import closing

import pytest

from sparkmirror.batches import Codec
from sparkmirror.config import ClientSettings
from sparkmirror.copy.tally import LETTERS_TOLD
from sparkmirror.kafka import admin
from sparkmirror.kafka.cluster import Cluster
from sparkmirror.kafka.configs import topic_configs
from sparkmirror.lab.cluster import start
from tests.batches.building import Rec, Written
from tests.flow import offset_map
from tests.flow.logs import append, read
from tests.flow.running import Running, create_topic, ends, reaches, set_limit, until, write_file
from tests.invoking import sparkmirror

pytestmark = pytest.mark.kafka

LIMIT = 2_000
NOW_MS = int(time.time() * 1000)
LONG_AGO_MS = 1_500_000_000_000
OWN = (("one", b"1"), ("one", None), ("", b""))
PREFIX = "__connect.errors."


def small(number, at=NOW_MS):
    return Rec(number, at, b"small %d" % number, b"v" * 100)


def large(number, seed=1):
    """What no codec makes small; with a time that is long ago and headers of its own."""
    noise = b"".join(
        (seed * 1_000 + n).to_bytes(4, "big") + (n * n * 2_654_435_761 % 2**32).to_bytes(4, "big") for n in range(625)
    )
    return Rec(number, LONG_AGO_MS + number, b"large %d" % number if number % 2 else None, noise, OWN)


def together(*records, codec=Codec.NONE):
    return Written(records=records, codec=codec).encode()


CASES = {
    "among others, in a batch of its own": [together(small(0)), together(large(0)), together(small(0), small(1))],
    "several in one batch": [together(small(0), large(1), small(2), large(3), large(4), small(5))],
    "the only record there is": [together(large(0))],
    "the first of a batch": [together(large(0), small(1), small(2))],
    "the last record there is": [together(small(0)), together(small(0), small(1), large(2))],
    "a batch of nothing else": [together(small(0)), together(large(0), large(1), large(2)), together(small(0))],
    "compressed": [together(small(0), large(1), small(2), codec=Codec.ZSTD), together(large(0), codec=Codec.LZ4)],
    "many": [together(*(large(n, n) if n % 2 else small(n) for n in range(60)), codec=Codec.GZIP)],
    "none of them: it fits compressed": [together(Rec(0, NOW_MS, b"k", b"v" * 50_000), codec=Codec.GZIP)],
}


def is_large(record):
    return record.value is not None and len(record.value) == 5_000


def run(file, log):
    with Running(file, log=log, options=("--once",)) as mirror:
        code = mirror.wait()
        return code, " ".join(mirror.output.split())


def origins(letters):
    """Where dead letters say that they come from, and the rest of what they are."""
    found = {}
    for letter in letters:
        told = {name.removeprefix(PREFIX): value.decode() for name, value in letter.headers if name.startswith(PREFIX)}
        own = tuple(pair for pair in letter.headers if not pair[0].startswith(PREFIX))
        assert letter.headers[: len(own)] == own, "what is added follows what was there"
        place = told.pop("topic"), int(told.pop("partition")), int(told.pop("offset"))
        assert place not in found, f"{place} is there twice"
        found[place] = (letter.time, letter.key, letter.value, own, told)
    return found


def assert_letters(found, wanted, target):
    """The records that are wanted are there, and nothing else; they say why."""
    assert found.keys() == wanted.keys()
    for place, (*content, told) in found.items():
        assert tuple(content) == (wanted[place].time, wanted[place].key, wanted[place].value, wanted[place].headers)
        assert told == {
            "connector.name": "a->b",
            "stage": "KAFKA_PRODUCE",
            "exception.class.name": "org.apache.kafka.common.errors.RecordTooLargeException",
            "exception.message": f"the record is larger than max.message.bytes of the topic {target}, {LIMIT}",
        }


def told_of(entries, name, partition, letters):
    """The offsets whose dead letters the progress of a partition tells of."""
    text = re.compile(rf"offset (\d+) went to the dead-letter topic {letters}, offset \d+:")
    progress = [value for key, value in entries.items() if key[:3] == ("progress", name, partition)]
    found = [text.match(event["text"]) for value in progress for event in value["events"]]
    return [int(match[1]) for match in found if match is not None]


def test_what_cannot_fit_is_put_aside_with_its_origin_and_copying_goes_on_behind_it(
    cluster_a, cluster_b, lab_cluster, topic, tmp_path
):
    name, letters = topic("large"), topic("dead")
    for_ever = {"retention.ms": "-1"}  # some of the records are old
    create_topic(cluster_a, name, len(CASES), {"max.message.bytes": "3000000", **for_ever})
    create_topic(cluster_b, f"a.{name}", len(CASES), {"max.message.bytes": str(LIMIT), **for_ever})
    for partition, written in enumerate(CASES.values()):
        append(lab_cluster("A"), name, partition, written)
    settings = {
        "errors.tolerance": "all",
        "errors.deadletterqueue.topic.name": letters,
        "errors.deadletterqueue.topic.replication.factor": "1",
    }
    file = write_file(tmp_path / "mm2.properties", {"a": cluster_a, "b": cluster_b}, {"a->b": name}, settings)
    code, output = run(file, tmp_path / "run.log")
    assert code == 0, output[-3000:]

    here, there = read(cluster_a, name), read(cluster_b, f"a.{name}")
    kept = {number: [record for record in records if not is_large(record)] for number, records in here.items()}
    for number, case in enumerate(CASES):
        assert [record[1:] for record in there[number]] == [record[1:] for record in kept[number]], case
    wanted = {(name, number, r.offset): r for number, records in here.items() for r in records if is_large(r)}
    assert_letters(origins(read(cluster_b, letters)[0]), wanted, f"a.{name}")

    entries = offset_map.journal(cluster_b, "sparkmirror.a.b.internal")
    pieces = offset_map.segments(entries, name)
    offsets = [{number: [r.offset for r in rows] for number, rows in side.items()} for side in (kept, there)]
    assert offset_map.translate(name, pieces, *offsets) == sum(map(len, kept.values()))

    (created,) = topic_configs(lab_cluster("B"), [letters]).values()
    assert (created["max.message.bytes"].value, created["retention.ms"].value) == ("6000000", "-1")
    assert len(admin.list_topics(lab_cluster("B"), [letters])[letters].partitions) == 1

    (status,) = json.loads(sparkmirror("status", "--json", file).stdout)["flows"]
    mine = {one["partition"]: one for one in status["partitions"] if one["topic"] == name}
    counts = {number: sum(map(is_large, records)) for number, records in here.items()}
    assert {number: one["dead_letters"] for number, one in mine.items()} == counts
    assert all(one["lag_records"] == 0 for one in mine.values())
    many = list(CASES).index("many")
    # The first ones, then the tenth: 30 are not told one by one.
    assert told_of(entries, name, many, letters) == [*range(1, 2 * LETTERS_TOLD, 2), 19]
    assert "went to the dead-letter topic" in output

    append(lab_cluster("A"), name, 0, [together(small(0)), together(large(0)), together(small(0))])
    append(lab_cluster("A"), name, 1, [together(small(0))])
    at = here[0][-1].offset + 2
    # A dead-letter topic that is there already is used as it is, also where that is too small.
    set_limit(cluster_b, letters, LIMIT)
    code, output = run(file, tmp_path / "narrow.log")
    assert code == 1, output[-3000:]
    assert f"{name}-0 at offset {at}: the record is larger" in output
    assert f"its dead letter cannot be written: cluster b, {letters}-0: MESSAGE_TOO_LARGE" in output
    later = read(cluster_b, f"a.{name}")
    assert len(later[0]) == len(there[0]) + 1, "what lies before it is copied"
    assert len(later[1]) == len(there[1]) + 1, "and the other partitions go on"
    assert origins(read(cluster_b, letters)[0]).keys() == wanted.keys()


def test_a_dead_letter_that_is_the_first_record_of_a_leader_epoch_holds_nothing_up(cluster_b, topic, tmp_path):
    """The source's broker is rolled; what comes then is too large. Its leader has lost nothing, and nobody says so."""
    name, letters = topic("rolled"), topic("dead")
    with start("rolled") as source:
        for_ever = {"retention.ms": "-1"}
        create_topic(source, name, 1, {"max.message.bytes": "3000000", **for_ever})
        create_topic(cluster_b, f"rolled.{name}", 1, {"max.message.bytes": str(LIMIT), **for_ever})
        settings = {
            "errors.tolerance": "all",
            "errors.deadletterqueue.topic.name": letters,
            "errors.deadletterqueue.topic.replication.factor": "1",
        }
        file = write_file(
            tmp_path / "mm2.properties", {"rolled": source, "b": cluster_b}, {"rolled->b": name}, settings
        )
        own = ClientSettings(bootstrap_servers=tuple(source.bootstrap_servers.split(",")))
        with closing(Cluster("rolled", own, role="test")) as before:
            append(before, name, 0, [together(small(0)), together(small(0))])
        with Running(file, log=tmp_path / "run.log") as mirror:
            reaches(cluster_b, f"rolled.{name}", 2)
            source.brokers[0].stop()
            source.brokers[0].start()
            until(lambda: ends(source, name), "it is led again")
            with closing(Cluster("rolled", own, role="test")) as after:
                append(after, name, 0, [together(large(0)), together(small(0)), together(small(0))])
            reaches(cluster_b, f"rolled.{name}", 4)
            mirror.stop_in_time()
            output = mirror.output
        assert [one.offset for one in read(cluster_b, f"rolled.{name}")[0]] == [0, 1, 2, 3]
        assert len(read(cluster_b, letters)[0]) == 1
        assert "lost" not in output
