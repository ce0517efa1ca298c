"""A failover rehearsed on real clusters: what is verified is what librdkafka reads, and what is wrong is told."""

from __future__ import annotations

import json
from bisect import bisect_left
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException, Producer
from confluent_kafka import TopicPartition as Place

from sparkmirror.config import load
from sparkmirror.duties.duty import Sides
from sparkmirror.failover.rehearsal import rehearse
from sparkmirror.failover.verdict import problems
from sparkmirror.flow.sides import connected, record
from sparkmirror.kafka.journal import Journal
from sparkmirror.lab.cluster import LabCluster, start_all
from sparkmirror.model import TopicPartition
from sparkmirror.naming import WRITERS_TOPIC
from sparkmirror.offsets.orders import TopicOrder
from sparkmirror.offsets.records import FlowRecord, parse
from sparkmirror.offsets.segments import Segments, Targets
from tests.flow.logs import Log, read
from tests.flow.running import (
    ANSWER_SECONDS,
    Running,
    admin_of,
    commit,
    create_topic,
    ends,
    reaches,
    set_property,
    until,
    write_file,
)
from tests.flow.test_groups import CLEANED, PLAIN, TRANSACTIONS, Scene, member, staged
from tests.invoking import sparkmirror
from tests.offsets.segments import told as segments

pytestmark = pytest.mark.kafka

INTERNAL = "sparkmirror.a.b.internal"


def told(file: Path, *words: str, flow: str = "a->b") -> tuple[int, dict[str, Any]]:
    """What the command says in JSON, and its exit code."""
    done = sparkmirror("rehearse", file, "--flow", flow, "--json", *words)
    (found,) = json.loads(done.stdout)["flows"]
    assert done.returncode == (0 if found["works"] else 1)
    assert found["works"] is not bool(found["problems"])
    return done.returncode, found


def of_group(found: Mapping[str, Any], group: str) -> dict[int, Any]:
    """The offsets of a group, by partition."""
    (own,) = [each for each in found["groups"] if each["group"] == group]
    return {each["partition"]: each for each in own["partitions"]}


def groups_of(scene: Scene) -> list[str]:
    return [*scene.walks, f"{scene.stem}-modern"]


def named(groups: list[str]) -> list[str]:
    return [word for group in groups for word in ("--group", group)]


def compared(here: Log, there: Log, number: int, offset: int) -> dict[str, Any]:
    """The pair that has to be compared: the next records from the offset on, else the last ones before it."""
    place = bisect_left([each.offset for each in here[number]], offset)
    before = place == len(here[number])
    place -= before
    return {"source": here[number][place].offset, "target": there[number][place].offset, "before": before}


def check_verified(scene: Scene, found: Mapping[str, Any], here: Log, there: Log) -> None:
    """Every offset is verified, each by the records that others read there; all kinds of places are among them."""
    kinds = set()
    for group, offsets in scene.walks.items():
        own = of_group(found, group)
        assert set(own) == {PLAIN, TRANSACTIONS, CLEANED}
        for number, offset in offsets.items():
            expected = compared(here, there, number, offset)
            assert own[number]["verdict"] == "verified", own[number]
            assert own[number]["compared"] == expected
            kinds.add((number, expected["before"], expected["source"] == offset))
    assert {
        (TRANSACTIONS, False, False),
        (CLEANED, False, False),
        (CLEANED, True, False),
        (PLAIN, False, True),
    } <= kinds


@contextmanager
def of_flow(file: Path) -> Iterator[Sides]:
    (flow,) = load([str(file)], flow="a->b").flows
    with connected(flow, role="test") as sides:
        yield sides


def map_of(sides: Sides, topic: str, partition: int) -> list[Segments | Targets]:
    """The map of a partition as it is on record."""
    entries, _ = sides.target.run(Journal(sides.target, INTERNAL).read_all, 60_000)
    records = [parse(entry.key, entry.value) for entry in entries.values() if entry.value is not None]
    ours = (each for each in records if isinstance(each, Segments | Targets))
    return [each for each in ours if each.partition == TopicPartition(topic, partition)]


def check_while_it_runs(scene: Scene) -> None:
    """All is well but for one group that is ahead; another one, active on the target, is left alone."""
    groups, beyond, active = groups_of(scene), f"{scene.stem}-beyond", f"{scene.stem}-active"
    here, there = read(scene.source, scene.topic), read(scene.target, scene.copy)
    code, found = told(scene.file, *named(groups))
    assert (code, found["problems"], found["state"]) == (0, [], "running")
    assert (found["missing"]["records"], found["missing"]["ms"]) == (0, 0)
    assert found["offsets"]["all"] == found["offsets"]["verified"] == 3 * len(scene.walks) + 1
    check_verified(scene, found, here, there)
    assert found["recovery_ms"] == sum(found["took_ms"].values()) > 0
    code, found = told(scene.file)
    assert [each["group"] for each in found["groups"]] == sorted([*groups, active, beyond])
    assert found["problems"] == [
        f"group {beyond}: {scene.topic}-{PLAIN}: would not go on: the group is ahead of the mirror, by 100"
    ]
    assert of_group(found, beyond)[PLAIN]["ahead"] == 100
    ready = of_group(found, active)[PLAIN]
    assert (ready["standing"], ready["verdict"], ready["hindrance"]) == ("active-there", "verified", None)
    screen = sparkmirror("rehearse", scene.file, "--flow", "a->b", "--group", active)
    assert screen.returncode == 0
    assert (
        "a->b: a failover now would work: no record would be missing; 1 group, 1 offset: 1 verified;" in screen.stdout
    )


def check_the_marked_flow(scene: Scene, copy: str) -> None:
    """Another flow of the topic adds a header to each record, and the broker of its target sets the times."""
    there = read(scene.target, copy)
    assert all(each.stamped and dict(each.headers).keys() == {"sparkmirror.provenance"} for each in there[PLAIN])
    _, found = told(scene.file, *named(list(scene.walks)), flow="u->b")
    assert found["problems"] == []
    check_verified(scene, found, read(scene.source, scene.topic), there)


def check_it_is_stopped(scene: Scene, walks: list[str]) -> None:
    """The flow that does not run is told, and nothing else; looking leaves no trace."""
    topics = ("heartbeats", "__consumer_offsets", INTERNAL, "sparkmirror.a.b.control", WRITERS_TOPIC, scene.copy)
    before = {topic: ends(scene.target, topic) for topic in topics}, ends(scene.source, "__consumer_offsets")
    code, found = told(scene.file, *named(walks))
    after = {topic: ends(scene.target, topic) for topic in topics}, ends(scene.source, "__consumer_offsets")
    assert (code, found["problems"]) == (1, ["the flow does not run: it is stopped"])
    assert before == after


def check_the_groups_that_moved(scene: Scene, walks: list[str]) -> None:
    """What is on the target is behind for one, so that it reads again, and further for another, so that it skips."""
    behind, ahead = f"{scene.stem}-at-6", f"{scene.stem}-at-5"
    commit(scene.target, behind, scene.copy, {PLAIN: 21})
    commit(scene.target, ahead, scene.copy, {PLAIN: 32})
    _, found = told(scene.file, *named(walks))
    assert of_group(found, behind)[PLAIN]["repeats"] == 30 - 21
    assert of_group(found, ahead)[PLAIN]["skips"] == 32 - 25
    assert found["problems"][1:] == [f"group {ahead}: {scene.topic}-{PLAIN}: would skip 7 records"]
    for group, offset in ((behind, 30), (ahead, 25)):
        commit(scene.target, group, scene.copy, {PLAIN: offset})


def check_what_waits(scene: Scene, walks: list[str]) -> None:
    """Records that come now are missing; those of a paused topic are a matter by themselves."""
    producer = Producer({"bootstrap.servers": scene.source.bootstrap_servers, "log_level": 3})
    for number in range(3):
        producer.produce(scene.topic, b"late", b"late %d" % number, PLAIN)
    producer.produce(scene.topic, b"late", b"late", TRANSACTIONS)
    assert producer.flush(ANSWER_SECONDS) == 0
    _, found = told(scene.file, *named(walks))
    missing = found["missing"]
    assert (missing["records"], 0 <= missing["ms"] < 60_000) == (4, True)
    assert [(each["partition"], each["records"]) for each in missing["partitions"]] == [(PLAIN, 3), (TRANSACTIONS, 1)]
    assert missing["partitions"][0]["position"] == scene.last[PLAIN]
    assert found["offsets"]["verified"] == 3 * len(walks), "those at the end are verified by what lies before it"
    with of_flow(scene.file) as sides:
        assert sides.store is not None
        order = TopicOrder(topic=scene.topic, time_ms=1, by="me")
        sides.store.write([order])
        _, found = told(scene.file, *named(walks))
        sides.store.write([], tombstones=[order.key])
    assert found["problems"][1:] == [f"{scene.topic} is paused, and 4 of its records are not copied"]


def check_a_wrong_map(scene: Scene, walks: list[str]) -> None:
    """A map with one segment beside the truth is found out by the records: for each group that goes by it, no other.

    It leads no less far than the progress: one that does has lost segments, and is not exact there.
    """
    here, there = read(scene.source, scene.topic), read(scene.target, scene.copy)
    with of_flow(scene.file) as sides:
        known = record(sides)
        assert known is not None
        assert known.flow is not None
        store = sides.store
        assert store is not None
        for number, place, shift in ((PLAIN, 0, 1), (CLEANED, -1, 1), (TRANSACTIONS, -2, -1)):
            before = map_of(sides, scene.topic, number)
            own = segments(before)
            segment = own[place]
            following = next((each for each in own if each.source > segment.source), None)
            until_source = scene.last[number] if following is None else following.source
            wrong = [replace(segment, target=segment.target + shift).targets]
            wrong += [] if following is None else [following.targets]
            store.write(wrong)
            _, found = told(scene.file, *named(walks))
            store.write(before, tombstones=[each.key for each in wrong if each.key not in {one.key for one in before}])
            pairs = {group: compared(here, there, number, scene.walks[group][number]) for group in walks}
            by_it = {group for group in walks if segment.source <= pairs[group]["source"] < until_source}
            verdicts = {(group, n): each["verdict"] for group in walks for n, each in of_group(found, group).items()}
            assert by_it
            assert {key for key, verdict in verdicts.items() if verdict == "wrong"} == {
                (group, number) for group in by_it
            }
            assert {verdict for key, verdict in verdicts.items() if key[0] not in by_it or key[1] != number} <= {
                "verified"
            }
            assert f"{scene.topic}-{number}: its translation is WRONG (" in found["problems"][1]
        other: FlowRecord = replace(known.flow, source_id="another")
        store.write([other])
        _, found = told(scene.file, *named(walks[:1]))
        store.write([known.flow])
    assert [each for each in found["problems"] if "another" in each] == [
        f"a is cluster {known.flow.source_id} now, and the flow's record is of cluster another"
    ]


def is_deleted(cluster: LabCluster, below: Place) -> bool:
    """Deletes records, unless the broker has not heard yet that it may."""
    (future,) = admin_of(cluster).delete_records([below]).values()
    try:
        future.result(ANSWER_SECONDS)
    except KafkaException as refusal:
        if refusal.args[0].code() != KafkaError.POLICY_VIOLATION:
            raise
        return False
    return True


def check_what_others_did(scene: Scene, walks: list[str]) -> None:
    """Somebody writes to the copy, which disturbs nothing; records that were deleted on either side are gone.

    What is gone at the source is no failure; what only the target lacks would be skipped.
    """
    producer = Producer({"bootstrap.servers": scene.target.bootstrap_servers, "log_level": 3})
    producer.produce(scene.copy, b"somebody else's", partition=PLAIN)
    assert producer.flush(ANSWER_SECONDS) == 0
    _, found = told(scene.file, *named(walks))
    assert found["offsets"]["verified"] == 3 * len(walks)
    copies = [each.offset for each in read(scene.target, scene.copy)[TRANSACTIONS] if each.offset < 9]
    set_property(scene.source, scene.topic, "cleanup.policy", "delete")  # else nothing may be deleted
    for cluster, topic, number, below in (
        (scene.source, scene.topic, PLAIN, 12),
        (scene.target, scene.copy, TRANSACTIONS, 9),
    ):
        until(partial(is_deleted, cluster, Place(topic, number, below)), f"{topic}-{number} begins at {below}")
    _, found = told(scene.file, *named(walks))
    translated = {group: of_group(found, group)[TRANSACTIONS]["translated"] for group in walks}
    missed = {group: sum(copy >= at for copy in copies) for group, at in translated.items()}
    assert found["problems"][0] == "the flow does not run: it is stopped"
    assert set(found["problems"][1:]) == {
        f"group {group}: {scene.topic}-{TRANSACTIONS}: would skip {count} records"
        for group, count in missed.items()
        if count
    }
    gone = {group: {n for n, each in of_group(found, group).items() if each["verdict"] == "gone"} for group in walks}
    for group, offsets in scene.walks.items():
        below_there = of_group(found, group)[TRANSACTIONS]["translated"] < 9
        below_here = offsets[PLAIN] < 12
        assert gone[group] == ({PLAIN} if below_here else set()) | ({TRANSACTIONS} if below_there else set())
    assert found["offsets"]["gone"] == sum(map(len, gone.values())) > 3
    assert found["offsets"]["gone"] + found["offsets"]["verified"] == 3 * len(walks)


def check_without_its_source(scene: Scene, directory: Path) -> None:
    """The source is away: the target's record tells what it can, and that it is no more than that."""
    away = {"bootstrap.servers": "127.0.0.1:1"}
    file = write_file(directory / "away.properties", {"a": away, "b": scene.target}, {"a->b": scene.topic})
    code, found = told(file, "--timeout", "6")
    assert (code, found["state"], found["late"], found["groups"]) == (1, "stopped", False, [])
    assert "cluster a at 127.0.0.1:1" in found["problems"][0]
    assert found["problems"][1:] == ["the flow does not run: it is stopped"]
    assert found["notes"] == ["the source was not asked: what would be missing is told by the flow's own record"]
    assert found["missing"] == {"records": 0, "ms": 0, "partitions": []}


@pytest.fixture
def pair() -> Iterator[tuple[LabCluster, LabCluster]]:
    """Clusters of its own: on shared ones other tests have started a flow of this name."""
    with ExitStack() as stack:
        source, target = (stack.enter_context(cluster) for cluster in start_all(("left", "right")))
        yield source, target


def test_a_rehearsal_verifies_by_reading_and_tells_what_would_go_wrong(pair, topic, tmp_path):
    cluster_a, cluster_b = pair
    scene = staged(cluster_a, cluster_b, topic("rehearsed"), topic("readers"), tmp_path)
    marked = f"u.{scene.topic}"
    create_topic(cluster_b, marked, 3, {"message.timestamp.type": "LogAppendTime"})
    write_file(
        scene.file,
        {"a": cluster_a, "u": cluster_a, "b": cluster_b},
        {"a->b": scene.topic, "u->b": scene.topic},
        {
            "several.aliases.per.cluster": "true",
            "groups": f"{scene.stem}.*",
            "sync.group.offsets.enabled": "true",
            "sync.group.offsets.interval.seconds": "1",
            "refresh.groups.interval.seconds": "1",
            "u->b.provenance.header.enabled": "true",
            "u->b.sync.group.offsets.enabled": "false",
        },
    )
    walks = list(scene.walks)
    code, found = told(scene.file)
    assert code == 1
    assert found["problems"][0] == "the flow was never started"
    with (
        member(cluster_b, f"{scene.stem}-active", scene.copy),
        Running(scene.file, log=tmp_path / "run.log") as mirror,
    ):
        until(lambda: all(len(scene.there(group)) == 3 for group in scene.walks), "the groups are translated")
        until(lambda: scene.there(f"{scene.stem}-modern"), "the last of them")
        reaches(cluster_b, marked, sum(map(len, read(cluster_b, scene.copy).values())))
        check_while_it_runs(scene)
        check_the_marked_flow(scene, marked)
        mirror.stop_in_time()
    check_it_is_stopped(scene, walks)
    check_the_groups_that_moved(scene, walks)
    check_a_wrong_map(scene, walks)
    check_what_waits(scene, walks)
    check_what_others_did(scene, walks)
    check_without_its_source(scene, tmp_path)


def test_a_cluster_that_is_away_is_told_and_the_time_is_kept(cluster_a, cluster_b, topic_name, tmp_path):
    away = {"bootstrap.servers": "127.0.0.1:1"}
    file = write_file(tmp_path / "mm2.properties", {"a": away, "b": cluster_b}, {"a->b": topic_name})
    done = sparkmirror("rehearse", file, "--timeout", "1")
    assert done.returncode == 1
    assert "mm2.properties: a.bootstrap.servers: cluster a at 127.0.0.1:1" in " ".join(done.stdout.split())
    assert sparkmirror("rehearse", file, "--flow", "b->a").returncode == 2
    well = write_file(tmp_path / "well.properties", {"a": cluster_a, "b": cluster_b}, {"a->b": topic_name})
    (look,) = rehearse(load([str(well)]), (), timeout_s=0)
    assert look.late
    assert problems(look)[-1] == "the time was over before everything was looked at (--timeout gives more)"
