"""Records of others in a flow's own topics, through the real command: runs go on, the next one starts, status shows."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from sparkmirror.batches import Codec
from sparkmirror.kafka.cluster import Cluster
from sparkmirror.kafka.journal import Journal, Pair
from sparkmirror.kafka.stored_records import OPENED_BYTES
from sparkmirror.lab.cluster import LabCluster
from sparkmirror.lab.referee import compare
from tests.batches.building import Rec, Written
from tests.flow.running import Running, count, create_topic, until, write_file
from tests.flow.traffic import Traffic
from tests.invoking import sparkmirror

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

INTERNAL, CONTROL = "sparkmirror.fa.fb.internal", "sparkmirror.fa.fb.control.internal"
DEEP = "[" * 100_000
OTHERS: list[Pair] = [
    ("garbage", "x"),
    (b"\xff\xfe", b"\xff"),
    ('["life"]', DEEP),
    (DEEP, DEEP),
    ('["paused","\\ud800"]', "{}"),
    ('["what a later release has"]', '{"v":1}'),
]
BOMB = Written(records=(Rec(0, 1, b"bomb", bytes(2 * OPENED_BYTES)),), codec=Codec.GZIP).encode()


def put(cluster: Cluster, topic: str, pairs: list[Pair]) -> None:
    cluster.run(Journal(cluster, topic).append, pairs)


def events(file: Path) -> dict[str, str]:
    """What status shows, text by kind."""
    ended = sparkmirror("status", file, "--json")
    assert ended.returncode == 0, ended.stderr
    return {event["kind"]: event["text"] for event in json.loads(ended.stdout)["flows"][0]["events"]}


def test_a_flow_lives_with_records_of_others_and_stops_over_an_overwritten_position(
    cluster_a: LabCluster,
    cluster_b: LabCluster,
    lab_cluster: Callable[[str], Cluster],
    topic: Callable[..., str],
    tmp_path: Path,
):
    name, target = topic("orders"), lab_cluster("B")
    create_topic(cluster_a, name, 2)
    file = write_file(tmp_path / "mm2.properties", {"fa": cluster_a, "fb": cluster_b}, {"fa->fb": name})
    traffic = Traffic(cluster_a, name, 2)
    with Running(file, log=tmp_path / "first.log") as mirror:
        traffic.some("small", 200)
        until(lambda: count(cluster_b, f"fa.{name}") > 0, "the copy begins")
        for own in (INTERNAL, CONTROL):
            put(target, own, OTHERS)
            target.run(Journal(target, own).append_batch, memoryview(BOMB))
        put(target, CONTROL, [('["run"]', '"x"'), ('["alive","x","y"]', DEEP)])
        until(lambda: "foreign-record" in events(file), "status tells of it")
        until(lambda: "with keys that no mirror writes" in mirror.output, "the mirror tells of it")
        written = traffic.some("small", 200)
        until(lambda: count(cluster_b, f"fa.{name}") >= written, "the copy goes on")
        mirror.stop_in_time()
        assert "Traceback" not in mirror.output, mirror.output

    with Running(file, log=tmp_path / "second.log", options=("--once",)) as mirror:
        assert mirror.wait() == 0, mirror.tail()
        assert "Traceback" not in mirror.output, mirror.output
    (result,) = compare(cluster_a.bootstrap_servers, cluster_b.bootstrap_servers, {name: f"fa.{name}"})
    assert (result.difference, result.records) == ("", traffic.written)
    put(target, INTERNAL, [(key, None) for key, _ in OTHERS])
    left = events(file)["foreign-record"]
    assert "holds a batch that no mirror writes" in left
    assert "with keys" not in left, "the others are forgotten"

    newest, _ = target.run(Journal(target, INTERNAL).read_all)
    position = next(entry for key, entry in newest.items() if key.startswith(f'["progress","{name}",0,'))
    put(target, INTERNAL, [(position.key, "x")])
    assert "somebody has overwritten" in events(file)["stopped"]
    with Running(file, log=tmp_path / "third.log", options=("--once",)) as mirror:
        assert mirror.wait() != 0
        assert f"{INTERNAL}-0 at offset" in mirror.output
        assert "somebody has overwritten a record of the mirror's own" in mirror.output
        assert "Traceback" not in mirror.output, mirror.output
    put(target, INTERNAL, [(position.key, None)])
    with Running(file, log=tmp_path / "fourth.log", options=("--once",)) as mirror:
        assert mirror.wait() == 0, mirror.tail()
    (result,) = compare(cluster_a.bootstrap_servers, cluster_b.bootstrap_servers, {name: f"fa.{name}"})
    assert (result.difference, result.records) == ("", traffic.written), "taken over from what the target has"
