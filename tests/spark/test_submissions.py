"""Whether a real master takes programs from whoever asks."""

from __future__ import annotations

from pathlib import Path

import pytest

from sparkmirror.lab.ports import HOST, free_ports
from sparkmirror.lab.spark_cluster import SparkCluster
from sparkmirror.spark import submissions

pytestmark = pytest.mark.spark


def test_a_master_is_asked_whether_it_takes_programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (port,) = free_ports(1)
    monkeypatch.setattr(submissions, "PORT", port)
    assert submissions.open_to_all(()) == submissions.open_to_all((HOST,)) == ()
    with SparkCluster(tmp_path, removed=False) as cluster:
        conf = tmp_path / "conf" / "spark-defaults.conf"
        conf.write_text(f"spark.master.rest.enabled true\nspark.master.rest.port {port}\n")
        cluster.start_master()
        assert submissions.open_to_all((HOST, HOST, "[::1]")) == (HOST,)
    with SparkCluster(tmp_path / "as it is", removed=False) as cluster:
        conf = tmp_path / "as it is" / "conf" / "spark-defaults.conf"
        conf.write_text(f"{conf.read_text()}spark.master.rest.port {port}\n")
        cluster.start_master()
        assert submissions.open_to_all((HOST,)) == (), "the laboratory's masters take none"
