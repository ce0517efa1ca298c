"""A run that goes on in another topic, or goes back, and dies before a lane has published anything of that.

The next one finds on record where that one began, and by the target's log how far it came.
"""

from __future__ import annotations

import os
import signal
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from sparkmirror.lab.cluster import LabCluster, start
from tests.flow.running import COPY_SECONDS, Running, create_topic, ends, until, write_file
from tests.flow.test_events import delete_topic, of_kind
from tests.flow.test_torn_while_idle import cut_log, mirrored, progress_of, write

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

OLD, NEW = ([b"%s-%d" % (kind, number) for number in range(60)] for kind in (b"old", b"new"))
TRIES = 4
"""A lane publishes a second after its first record: the kill may come too late on a busy machine."""


def made_anew(cluster: LabCluster, name: str) -> None:
    delete_topic(cluster, name)
    create_topic(cluster, name)


def loses_all(cluster: LabCluster, name: str) -> None:
    (broker,) = cluster.brokers
    broker.kill()
    cut_log(broker, name, 1)
    broker.start()
    until(lambda: ends(cluster, name) == {0: 1}, "records are really lost")


def killed_at_its_first_records(mirror: Running, target: LabCluster, copy: str, end: int) -> None:
    """The driver and its lanes die as soon as the copy has more behind an end than the marker of a fence."""
    deadline = time.monotonic() + COPY_SECONDS
    while ends(target, copy).get(0, 0) <= end + 1:
        assert time.monotonic() < deadline, "nothing is copied"
    for pid in mirror.lane_workers():
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    mirror.kill()


def newest(target: LabCluster, alias: str, name: str) -> dict[str, Any]:
    return progress_of(target, f"sparkmirror.{alias}.t.internal", name)


@pytest.mark.parametrize(
    "what", [pytest.param("source", marks=pytest.mark.long), pytest.param("target", marks=pytest.mark.long), "tail"]
)
def test_what_was_copied_before_a_lane_published_is_not_copied_again(topic, tmp_path, what):
    with start("source") as source, start("target") as target:
        for _ in range(TRIES):
            name = topic(what)
            if unheard(source, target, name, what, tmp_path / name):
                return
    raise AssertionError(f"the kill came too late, {TRIES} times")


def unheard(source: LabCluster, target: LabCluster, name: str, what: str, directory: Path) -> bool:
    """One try; whether the kill came in time."""
    directory.mkdir()
    alias, copy = name, f"{name}.{name}"
    clusters, settings = {alias: source, "t": target}, {"tasks.max": "1"}
    file = write_file(directory / "mm2.properties", clusters, {f"{alias}->t": name}, settings)
    create_topic(source, name)
    for part in (OLD[:1], OLD[1:]):
        write(source, name, part)
    with Running(file, log=directory / "first.log") as mirror:
        until(lambda: mirrored(target, copy) == OLD, "copied")
        mirror.stop_in_time()
    if what == "target":
        delete_topic(target, copy)
    else:
        made_anew(source, name) if what == "source" else loses_all(source, name)
        write(source, name, NEW)
    with Running(file, log=directory / "second.log") as mirror:
        killed_at_its_first_records(mirror, target, copy, 0 if what == "target" else ends(target, copy)[0])
    begun = newest(target, alias, name)
    if begun["lane"] and begun["generation"] > 1:
        return False
    assert begun["generation"] > 1, "it is on record where it begins"
    assert begun["position"] == {"source": 0, "target": 0, "tail": 1}[what]
    with Running(file, log=directory / "third.log", options=("--once",)) as mirror:
        assert mirror.wait() == 0, mirror.tail()
    whole = {"source": [*OLD, *NEW], "target": OLD, "tail": [*OLD, *NEW]}[what]
    assert mirrored(target, copy) == whole
    kind = {"source": "source-recreated", "target": "target-recreated", "tail": "source-tail-lost"}[what]
    (event,) = of_kind(file, name, kind)
    assert event.text.startswith("the source") or what == "target"
    return True
