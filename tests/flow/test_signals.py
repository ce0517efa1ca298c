"""Signals that reach more than the driver: a service's manager signals all its processes, a terminal a whole group."""

from __future__ import annotations

import signal

import pytest

from sparkmirror.lab.processes import command_line, descendants, is_there, send
from tests.flow.exact import repeats
from tests.flow.running import ANSWER_SECONDS, Running, count, create_topic, reaches, until, write_file
from tests.flow.traffic import Traffic

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.slow]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_to_all_processes_of_a_run_drains_it_as_one_to_the_driver_alone(
    number, cluster_a, cluster_b, topic, tmp_path
):
    name = topic("signalled")
    create_topic(cluster_a, name, 2)
    file = write_file(tmp_path / "mm2.properties", {"a": cluster_a, "b": cluster_b}, {"a->b": name})
    with (
        Traffic(cluster_a, name, 2, nulls=False).small(per_turn=4),
        Running(file, log=tmp_path / "run.log", spark=True) as mirror,
    ):
        reaches(cluster_b, f"a.{name}", 100)
        processes = [mirror.pid, *descendants(mirror.pid)]
        assert len(processes) >= 5, "the driver, Java, the daemon and two lanes"
        for each in processes:
            send(each, number)
        assert mirror.wait() == 0, mirror.tail()
        assert "draining" in mirror.output
        for text in ("Traceback", "was lost", "did not stop", "ERROR"):
            assert text not in mirror.output
        until(lambda: not any(map(is_there, processes)), "nothing is left", ANSWER_SECONDS)
    with Running(file, log=tmp_path / "last.log", options=("--once",)) as last:
        assert last.wait() == 0, last.tail()
    assert count(cluster_b, f"a.{name}") == count(cluster_a, name)
    assert repeats(cluster_a, cluster_b, name, f"a.{name}") == 0


def test_without_java_a_run_ends_with_one_line_of_it(cluster_a, cluster_b, topic, tmp_path):
    name = topic("without-java")
    create_topic(cluster_a, name, 2)
    file = write_file(tmp_path / "mm2.properties", {"a": cluster_a, "b": cluster_b}, {"a->b": name})
    with (
        Traffic(cluster_a, name, 2, nulls=False).small(per_turn=4),
        Running(file, log=tmp_path / "run.log", spark=True) as mirror,
    ):
        reaches(cluster_b, f"a.{name}", 100)
        (java,) = (
            each for each in descendants(mirror.pid) if "org.apache.spark.deploy.SparkSubmit" in command_line(each)
        )
        send(java, signal.SIGKILL)
        assert mirror.wait() == 1, mirror.tail()
        assert "Spark has ended" in mirror.output
        assert "Traceback" not in mirror.output


def test_what_ignores_signals_ends_with_a_driver_that_is_killed(cluster_a, cluster_b, topic, tmp_path):
    name = topic("killed-alone")
    create_topic(cluster_a, name, 2)
    file = write_file(tmp_path / "mm2.properties", {"a": cluster_a, "b": cluster_b}, {"a->b": name})
    with (
        Traffic(cluster_a, name, 2, nulls=False).small(per_turn=4),
        Running(file, log=tmp_path / "run.log", spark=True) as mirror,
    ):
        reaches(cluster_b, f"a.{name}", 100)
        processes = descendants(mirror.pid)
        mirror.kill()
        until(lambda: not any(map(is_there, processes)), "Java, the daemon and the lanes end", ANSWER_SECONDS)
