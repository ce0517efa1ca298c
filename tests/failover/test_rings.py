"""Groups in a topic that goes around a ring: nothing tells what they have read, nothing moves them, and it is told."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from sparkmirror.lab.cluster import start
from tests.failover.test_left_behind import ROUNDS_SECONDS, SETTINGS, has, reads, written
from tests.flow.running import Running, committed, create_topic, until, write_file
from tests.invoking import sparkmirror

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

RING = "the topic goes around a ring"


def is_told(file: Path, flow: str, group: str, topic: str) -> None:
    """Each command that knows of the group's offset says why it leads nowhere."""
    rehearsed = sparkmirror("rehearse", file, "--flow", flow)
    assert rehearsed.returncode == 1
    assert f"! group {group}: {topic}-0: would not go on: {RING}" in rehearsed.stdout
    by_hand = sparkmirror("offsets", file, "--flow", flow, "--group", group, "--apply")
    assert by_hand.returncode == 1
    assert RING in by_hand.stdout + by_hand.stderr
    explained = sparkmirror("explain", file, "--flow", flow, "--group", group)
    (line,) = [one for one in explained.stdout.splitlines() if f"{topic}-0: committed 5" in one]
    assert RING in line


@pytest.mark.long
def test_groups_of_a_ring_are_carried_nowhere_and_every_command_says_so(cluster_b, cluster_c, topic, tmp_path):
    name, plain = topic("ring"), topic("plain")
    group, other = f"{name}-g", f"{plain}-g"
    with start("ring-a") as home:
        a, b, c = name, f"{name}-b", f"{name}-c"
        for each in (home, cluster_b, cluster_c):
            create_topic(each, name, 1)
        for each in (home, cluster_b):
            create_topic(each, plain, 1)
        file = write_file(
            tmp_path / "mm2.properties",
            {a: home, b: cluster_b, c: cluster_c},
            {f"{a}->{b}": f"{name},{plain}", f"{b}->{c}": name, f"{c}->{a}": name},
            SETTINGS
            | {
                "provenance.header.enabled": "true",
                "emit.checkpoints.interval.seconds": "1",
                "groups": f"{group},{other}",
            },
        )
        with Running(file, log=tmp_path / "run.log") as mirror:
            for each in (name, plain):
                written(home, each, "a", 5)
            has(cluster_b, plain, 5)
            has(cluster_c, name, 5)
            for each in (name, plain):
                assert reads(home, f"{each}-g", each, 5)[-1] == "a-4"
            written(cluster_b, name, "b", 5)
            written(cluster_c, name, "c", 5)
            for each in (home, cluster_b, cluster_c):
                has(each, name, 15)
            time.sleep(2 * ROUNDS_SECONDS)
            assert committed(home, group, name) == {0: 5}, "it has read nothing of the others"
            until(lambda: RING in mirror.output, "the flow says so", 60)
            is_told(file, f"{a}->{b}", group, name)
            # A topic of the same flow that does not go around is as ever.
            until(lambda: committed(cluster_b, other, plain) == {0: 5}, "the other group is there", 60)
            for broker in home.brokers:
                broker.kill()
            moved = sparkmirror("failover", file, "--from", a, "--to", b, "--yes", "--report", tmp_path)
            (report,) = tmp_path.glob("failover-*.json")
            found = {one["group"]: one["partitions"][0] for one in json.loads(report.read_text())["groups"]}
            assert found[group]["offset"] is None, moved.stdout
            assert found[group]["text"].startswith(RING)
            assert (found[other]["offset"], found[other]["exact"]) == (5, True)
            mirror.kill()
