"""Source topics that are deleted while a flow copies them, or does not run: nothing of them stands still afterwards."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from sparkmirror.config import load
from sparkmirror.flow.sides import connected
from sparkmirror.model import TopicPartition
from tests.flow.running import Running, create_topic, ends, until, write_file
from tests.flow.test_events import delete_topic, of_kind, records
from tests.flow.test_topic_duties import write
from tests.invoking import sparkmirror

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

TOLD = "the source topic was deleted: its copy on the target stays as it is, and nothing more comes"


def refusals(file: Path) -> list[str]:
    """What speaks against a switchover."""
    planned = sparkmirror("switchover", file, "--from", "p", "--to", "q", "--dry-run").stdout
    assert "switchover" in planned
    return [line.strip() for line in planned.splitlines() if "against it" in line]


def stand_still(file: Path, name: str) -> None:
    """Puts on record that the first partition of a topic stands still for something else."""
    (flow,) = load([str(file)]).flows
    with connected(flow, role="test") as sides:
        assert sides.store is not None
        sides.store.follow()
        known = sides.store.state.progress[TopicPartition(name, 0)]
        sides.store.write([replace(known, error="too large")])


@pytest.mark.long
def test_a_source_topic_that_was_deleted_does_not_speak_against_a_switchover(cluster_a, cluster_b, topic, tmp_path):
    kept, gone, later = names = [topic(name) for name in ("kept", "gone", "later")]
    for name in names:
        create_topic(cluster_a, name, 1)
        write(cluster_a, name, records(5))
    settings = {"tasks.max": "1", "groups": kept, "heartbeats.replication.enabled": "false"}
    file = write_file(
        tmp_path / "mm2.properties", {"p": cluster_a, "q": cluster_b}, {"p->q": ",".join(names)}, settings
    )
    with Running(file, log=tmp_path / "first.log") as mirror:
        until(lambda: all(ends(cluster_b, f"p.{name}") == {0: 5} for name in names), "all copied")
        until(lambda: not refusals(file), "nothing speaks against it")
        delete_topic(cluster_a, gone)
        until(lambda: TOLD in [event.text for event in of_kind(file, gone, "source-deleted")], "its end is told")
        assert refusals(file) == []
        mirror.stop_in_time()
    stand_still(file, later)
    delete_topic(cluster_a, later)
    with Running(file, log=tmp_path / "second.log") as mirror:
        until(lambda: TOLD in [event.text for event in of_kind(file, later, "source-deleted")], "its end is told")
        assert refusals(file) == []
        mirror.stop_in_time()
