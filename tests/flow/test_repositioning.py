"""Positions of a stopped flow are shown and changed; the next run goes on exactly there."""

from __future__ import annotations

import json
import subprocess
import time
from datetime import UTC, datetime

import pytest
from confluent_kafka import Producer

from sparkmirror import config
from sparkmirror.flow.repositioning import Standing
from sparkmirror.flow.sides import connected, record
from sparkmirror.lab.offset_map import journal, offsets, registered, segments, translate
from sparkmirror.model import NO_OFFSET, TopicPartition
from sparkmirror.offsets.orders import HoldOrder, MoveOrder
from tests.flow.logs import read
from tests.flow.running import Running, create_topic, reaches, until, write_file
from tests.flow.test_events import delete_topic, of_kind
from tests.invoking import sparkmirror

HOUR_MS = 3_600_000
PAUSED_SECONDS = 4.0


@pytest.mark.parametrize(
    ("position", "to", "again", "skipped"),
    [
        (50, 50, 0, 0),
        (50, 20, 30, 0),
        (50, 70, 0, 20),
        (NO_OFFSET, 10, 0, 0),
        (NO_OFFSET, 30, 0, 20),
        (5, 10, 0, 0),
    ],
)
def test_what_a_move_means_is_told_in_offsets(position, to, again, skipped):
    one = Standing(partition=TopicPartition("t", 0), position=position, first=10, end=100, to=to)
    assert (one.again, one.skipped) == (again, skipped)


@pytest.mark.parametrize(
    ("to", "again", "skipped", "left"),
    [
        (250, 0, 150, ", of which offsets 100 to 249 are left out: groups there skip them on the target"),
        (200, 0, 100, ", of which offsets 100 to 199 are left out: groups there skip them on the target"),
        (100, 0, 0, ""),
        (60, 40, 0, ""),
    ],
)
def test_what_a_move_means_is_counted_from_what_the_source_still_has_as_it_was_copied(to, again, skipped, left):
    one = Standing(partition=TopicPartition("t", 0), position=200, first=10, end=250, to=to, parted=100)
    assert (one.again, one.skipped) == (again, skipped)
    assert one.lost == (
        "t-0: offsets 100 to 199 were copied and are not in the source's log any more; what it has from offset 100 on "
        f"are other records{left}"
    )


def write(cluster, topic, first, last, time_ms=None):
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "log_level": 3})
    for number in range(first, last):
        moment = int(time.time() * 1000) if time_ms is None else time_ms + number
        producer.produce(topic, value=b"%d" % number, partition=number % 2, timestamp=moment)
    assert producer.flush(60) == 0


class Stopped:
    """A flow of one topic with two partitions, and what its operator does with it between its runs."""

    def __init__(self, source, target, stem, directory) -> None:
        self.source, self.target, self.directory = source, target, directory
        self.stem, self.topic, self.copy = stem, f"{stem}-t", f"{stem}.{stem}-t"
        clusters = {stem: source, "b": target}
        self.file = write_file(directory / "mm2.properties", clusters, {f"{stem}->b": f"{stem}-.*"})

    def positions(self, *words: str) -> subprocess.CompletedProcess[str]:
        return sparkmirror("positions", words[0], self.file, *words[1:])

    def set(self, to: str, *words: str) -> str:
        """Sets positions; gives the line that says what it means."""
        done = self.positions("set", "--topic", self.topic, "--to", to, *words)
        assert done.returncode == 0, done.stderr
        return done.stdout.splitlines()[-1]

    def standing(self) -> list[tuple[int, int, int]]:
        """Partition, position, end; of the topic alone, since heartbeats of other tests may be mirrored beside it."""
        shown = json.loads(self.positions("show", "--topic", self.topic, "--json").stdout)
        return [(each["partition"], each["position"], each["end"]) for each in shown["partitions"]]

    def refused(self, *words: str) -> str:
        done = self.positions(*words)
        assert done.returncode == 2, done.stdout
        return " ".join(done.stderr.split())

    def run_once(self) -> None:
        with Running(self.file, log=self.directory / "run.log", options=("--once",)) as mirror:
            assert mirror.wait() == 0, mirror.tail()

    def order(self, word: str, *words: str) -> int:
        return sparkmirror(word, self.file, *words).returncode

    def shows(self, words: str) -> bool:
        return words in " ".join(sparkmirror("status", self.file).stdout.split())

    def translated(self) -> int:
        """How many records the map translates, each to the newest copy."""
        internal = f"sparkmirror.{self.stem}.b.internal"
        pieces = segments(journal(self.target, internal), self.topic, registered(self.target))
        newest = {number: some[-130:] for number, some in offsets(self.target, self.copy).items()}
        return translate(self.topic, pieces, offsets(self.source, self.topic), newest)

    def copied(self, partition: int) -> list[int]:
        return [int(record.value or b"") for record in read(self.target, self.copy)[partition]]


@pytest.fixture
def stopped(cluster_a, cluster_b, topic, tmp_path):
    found = Stopped(cluster_a, cluster_b, topic("positions"), tmp_path)
    create_topic(cluster_a, found.topic, 2)
    return found


@pytest.mark.kafka
def test_a_flow_that_was_never_started_begins_at_a_time_and_one_that_was_goes_back_or_on(stopped):
    long_ago = int(time.time() * 1000) - 10 * HOUR_MS
    write(stopped.source, stopped.topic, 0, 100, time_ms=long_ago)
    write(stopped.source, stopped.topic, 100, 200)
    begin = datetime.fromtimestamp((long_ago + HOUR_MS) / 1000, UTC).isoformat()
    assert stopped.set(begin, "--dry-run") == "would be: 100 offsets are left out"
    assert stopped.set(begin) == "100 offsets are left out; the next start goes on there"
    stopped.run_once()
    assert [stopped.copied(0), stopped.copied(1)] == [list(range(100, 200, 2)), list(range(101, 200, 2))]

    assert stopped.set("90", "--partition", "0").startswith("10 offsets are copied once more")
    write(stopped.source, stopped.topic, 200, 240)
    assert stopped.set("latest", "--partition", "1").startswith("20 offsets are left out")
    write(stopped.source, stopped.topic, 240, 260)
    stopped.run_once()
    assert stopped.copied(0)[50:] == list(range(180, 260, 2))
    assert stopped.copied(1)[50:] == list(range(241, 260, 2))
    assert stopped.standing() == [(0, 130, 130), (1, 130, 130)]
    assert "has offsets 0 to 130" in stopped.refused("set", "--topic", stopped.topic, "--to", "131")
    assert "copies no other" in stopped.refused("set", "--topic", "other", "--to", "0")
    assert "neither earliest" in stopped.refused("set", "--topic", stopped.topic, "--to", "yesterday")


@pytest.mark.kafka
def test_what_was_chosen_last_for_a_stopped_flow_holds_and_not_an_order_from_before(stopped):
    write(stopped.source, stopped.topic, 0, 200)
    stopped.run_once()
    (flow,) = config.load([str(stopped.file)]).flows
    orders = [
        MoveOrder(partition=TopicPartition(stopped.topic, number), to=10, topic_id="", time_ms=1, by="me")
        for number in (0, 1)
    ]
    with connected(flow, role="test") as sides:
        record(sides)
        assert sides.store is not None
        sides.store.write(orders)
    assert stopped.set("90", "--partition", "0").startswith("10 offsets are copied once more")
    assert stopped.set("100", "--partition", "1").startswith("nothing is copied twice or left out; the next start")
    stopped.run_once()
    assert stopped.copied(0) == [*range(0, 200, 2), *range(180, 200, 2)]
    assert stopped.copied(1) == list(range(1, 200, 2))
    with connected(flow, role="test") as sides:
        record(sides)
        assert sides.store is not None
        sides.store.write([HoldOrder(operation="o", reason="switchover to b", time_ms=1, by="me", order_ms=1)])
    for more in (("--dry-run",), ()):
        done = stopped.positions("set", "--topic", stopped.topic, "--to", "earliest", *more)
        assert (done.returncode, "is held since" in done.stderr) == (1, True), done.stderr


@pytest.mark.kafka
def test_what_is_set_for_a_stopped_flow_is_held_against_what_was_copied_as_an_order_is(stopped):
    """Of another topic by now; what the source has lost otherwise is found in the same place."""
    write(stopped.source, stopped.topic, 0, 200)
    stopped.run_once()
    delete_topic(stopped.source, stopped.topic)
    create_topic(stopped.source, stopped.topic, 2)
    write(stopped.source, stopped.topic, 1_000, 1_240)
    assert stopped.set("latest", "--dry-run") == "would be: 240 offsets are left out"
    assert stopped.set("latest") == "240 offsets are left out; the next start goes on there"
    assert stopped.standing() == [(0, 120, 120), (1, 120, 120)]
    known = journal(stopped.target, f"sparkmirror.{stopped.stem}.b.internal")
    parted = {key[2]: value["source"] for key, value in known.items() if key[:2] == ("parted", stopped.topic) and value}
    epochs = [key for key, value in known.items() if key[:2] == ("source-epoch", stopped.topic) and value]
    assert (parted, epochs) == ({0: 0, 1: 0}, [])
    events = of_kind(stopped.file, stopped.topic, "moved")
    assert [(event.first, event.last) for event in events] == [(0, 119), (0, 119)]
    assert all("was deleted and made anew" in event.text for event in events)


@pytest.mark.kafka
def test_a_topic_that_begins_anew_is_mapped_to_its_newest_copy(stopped):
    write(stopped.source, stopped.topic, 0, 260)
    stopped.run_once()
    assert stopped.positions("reset", "--topic", stopped.topic).returncode == 0
    stopped.run_once()
    assert [stopped.copied(0)[130:], stopped.copied(1)[130:]] == [list(range(0, 260, 2)), list(range(1, 260, 2))]
    assert stopped.translated() == 260


@pytest.mark.kafka
def test_a_flow_that_runs_moves_back_and_on_and_obeys_an_order_once_also_when_its_driver_is_killed(stopped):
    write(stopped.source, stopped.topic, 0, 260)
    with Running(stopped.file, log=stopped.directory / "first.log") as mirror:
        reaches(stopped.target, stopped.copy, 260)
        until(lambda: stopped.standing() == [(0, 130, 130), (1, 130, 130)], "what was copied is written down")
        back = stopped.set("60", "--partition", "0")
        assert back == "70 offsets are copied once more; the flow goes on there within seconds, or when it is started"
        reaches(stopped.target, stopped.copy, 260 + 70)
        assert stopped.order("pause", "--topic", stopped.topic) == 0
        until(lambda: stopped.shows("is paused since"), "the topic is paused")
        time.sleep(PAUSED_SECONDS)
        write(stopped.source, stopped.topic, 260, 300)
        assert stopped.set("latest").startswith("40 offsets are left out")
        until(lambda: stopped.shows("moved from offset 130 to offset 150"), "it is told that they were moved")
        assert stopped.order("resume", "--topic", stopped.topic) == 0
        write(stopped.source, stopped.topic, 300, 320)
        reaches(stopped.target, stopped.copy, 260 + 70 + 20)
        until(lambda: stopped.standing() == [(0, 160, 160), (1, 160, 160)], "what was copied is written down")
        assert stopped.set("100", "--partition", "1").startswith("60 offsets are copied once more")
        mirror.kill()
    with Running(stopped.file, log=stopped.directory / "second.log") as mirror:
        reaches(stopped.target, stopped.copy, 260 + 70 + 20 + 60)
        write(stopped.source, stopped.topic, 320, 340)
        reaches(stopped.target, stopped.copy, 260 + 70 + 20 + 60 + 20)
        assert mirror.stop(seconds=60) == 0
    late = list(range(300, 340))
    assert stopped.copied(0) == [*range(0, 260, 2), *range(120, 260, 2), *late[::2]]
    assert stopped.copied(1) == [*range(1, 260, 2), *late[1:20:2], *range(201, 320, 2), *late[21::2]]
