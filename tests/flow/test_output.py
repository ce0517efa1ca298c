"""What a run prints, from its start to SIGTERM: lines of its own log, nothing of any library; and what it leaves."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from sparkmirror.lab.cluster import LabCluster
from sparkmirror.spark.java import find_java
from tests.flow.running import Running, create_topic, reaches, until, write_file
from tests.flow.test_once import produce

PLAIN = re.compile(r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z (INFO   |WARNING) (cli|flow|duties|failover)[.\w]* ")


def folders(base: Path) -> list[Path]:
    return sorted(base.glob(f"sparkmirror-{os.getuid()}/run-*"))


@pytest.mark.kafka
@pytest.mark.spark
def test_every_line_is_ours_and_a_killed_runs_files_go_at_the_next_start(
    cluster_a: LabCluster, cluster_b: LabCluster, topic, tmp_path: Path, monkeypatch
) -> None:
    name, files = topic("output"), tmp_path / "files"
    files.mkdir()
    monkeypatch.setenv("TMPDIR", str(files))
    create_topic(cluster_a, name)
    file = write_file(tmp_path / "mm2.properties", {name: cluster_a, "b": cluster_b}, {f"{name}->b": name})
    produce(cluster_a, name, records=50)
    with Running(file, log=tmp_path / "killed.log", spark=True) as mirror:
        reaches(cluster_b, f"{name}.{name}", 50)
        mirror.kill()
    (left,) = folders(files)
    assert any(left.glob("spark-*"))
    assert any(left.glob("blockmgr-*"))
    with Running(file, log=tmp_path / "json.log", options=("--log-format", "json"), spark=True) as mirror:
        until(lambda: "running" in mirror.output, "it runs")
        (mine,) = folders(files)
        assert mine != left
        produce(cluster_a, name, records=50)
        reaches(cluster_b, f"{name}.{name}", 100)
        assert mirror.stop(seconds=60) == 0, mirror.tail()
    lines = mirror.output.splitlines()
    assert lines
    for line in lines:
        parsed = json.loads(line)
        assert parsed["source"].partition(".")[0] in ("cli", "flow", "duties"), line
    plain = (tmp_path / "killed.log").read_text().splitlines()
    assert [line for line in plain if not PLAIN.match(line)] == []
    assert folders(files) == []
    assert [path.name for path in files.iterdir() if not path.name.startswith(("sparkmirror-", "hsperfdata_"))] == []


@pytest.mark.spark
def test_a_jvm_that_does_not_start_says_why(tmp_path: Path) -> None:
    code = (
        "from sparkmirror.spark.session import open_session\n"
        "from sparkmirror.spark.settings import SparkOptions\n"
        "open_session(SparkOptions(conf=(('spark.driver.memory', '1k'),)), 2)\n"
    )
    environment = find_java().environment() | {"TMPDIR": str(tmp_path)}
    ran = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False, env=environment
    )
    assert "SparkmirrorError: Spark did not start: " in ran.stderr
    assert "Too small maximum heap" in ran.stderr.splitlines()[-1]
    assert folders(tmp_path) == []
