"""The copy is deleted and created again on the target while nobody copies: others' records lie at its offsets."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sparkmirror.lab.cluster import LabCluster, start
from tests.failover.test_lost_copies import on_record
from tests.flow.running import Running, commit, committed, create_topic, until, write_file
from tests.flow.test_events import delete_topic
from tests.flow.test_torn_while_idle import IDENTITY, mirrored, write
from tests.invoking import sparkmirror

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

NAME, GROUP = "orders", "reader"
OLD, NEW = [[b"%s-%d" % (mark, number) for number in range(8)] for mark in (b"old", b"new")]


def flows(directory: Path, a: LabCluster, b: LabCluster) -> Path:
    settings = {"replication.policy.class": IDENTITY, "tasks.max": "1", "groups": GROUP}
    settings |= {f"{each}.interval.seconds": "1" for each in ("sync.group.offsets", "refresh.groups")}
    settings |= {"a->b.sync.group.offsets.enabled": "true"}
    return write_file(directory / "mm2.properties", {"a": a, "b": b}, {"a->b": NAME, "b->a": NAME}, settings)


@pytest.fixture
def pair(tmp_path) -> Iterator[tuple[LabCluster, LabCluster, Path]]:
    """Two clusters with the topic, and the file of the flows between them."""
    with start("a") as a, start("b") as b:
        for cluster in (a, b):
            create_topic(cluster, NAME, 1)
        yield a, b, flows(tmp_path, a, b)


def copied(a: LabCluster, b: LabCluster) -> None:
    write(a, NAME, OLD)
    until(lambda: mirrored(b, NAME) == OLD, "all is copied")


def recreated(b: LabCluster) -> None:
    delete_topic(b, NAME)
    create_topic(b, NAME, 1)
    write(b, NAME, NEW)


def operation(file: Path, directory: Path, kind: str, *words: str, code: int) -> dict[str, Any]:
    done = sparkmirror(kind, file, *words, "--yes", "--report", directory)
    assert done.returncode == code, done.stdout + done.stderr
    (path,) = directory.glob(f"{kind}-*.json")
    report: dict[str, Any] = json.loads(path.read_text())
    return report


@pytest.mark.long
def test_a_failover_puts_no_group_among_the_records_of_others(pair, tmp_path):
    a, b, file = pair
    with Running(file, log=tmp_path / "mirror.log") as mirror:
        copied(a, b)
        commit(a, GROUP, NAME, {0: 3})
        until(lambda: committed(b, GROUP, NAME) == {0: 3}, "the group is translated")
        until(lambda: on_record(b, "sparkmirror.a.b.internal", GROUP, NAME) == 3, "the group is on record")
        mirror.stop_in_time()
    recreated(b)
    told = sparkmirror("offsets", file, "--group", GROUP, "--flow", "a->b")
    assert "the copy was deleted and created again" in told.stdout
    a.brokers[0].kill()
    report = operation(file, tmp_path, "failover", "--from", "a", "--to", "b", code=1)
    assert committed(b, GROUP, NAME) == {}
    (group,) = report["groups"]
    assert group["partitions"][0]["offset"] is None
    assert any("was deleted and created again on b" in trouble for trouble in report["troubles"])


def test_a_failback_has_groups_read_what_the_copy_had(pair, tmp_path):
    a, b, file = pair
    with Running(file, log=tmp_path / "mirror.log") as mirror:
        copied(a, b)
        commit(a, GROUP, NAME, {0: 3})
        waiting = ("--wait-for-idle", "1")
        operation(file, tmp_path, "switchover", "--from", "a", "--to", "b", *waiting, code=0)
        recreated(b)
        commit(b, GROUP, NAME, {0: 5})
        until(lambda: mirrored(a, NAME)[-1:] == NEW[-1:], "the newer ones are brought")
        report = operation(file, tmp_path, "failback", "--to", "a", *waiting, code=1)
        assert committed(a, GROUP, NAME) == {0: 0}
        assert any("has lost what had been copied there from offset 0 on" in each for each in report["troubles"])
        mirror.stop_in_time()
