from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from sparkmirror.errors import LabError, SparkmirrorError
from sparkmirror.lab.cluster import LabCluster
from sparkmirror.lab.state import publish, read, state_file, the_lab


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))


def test_there_is_no_lab_before_and_after() -> None:
    assert read() is None
    with the_lab():
        state = read()
        assert state is not None
        assert (state.pid, state.clusters) == (os.getpid(), ())
    assert read() is None
    assert not state_file().exists()


def test_a_file_that_a_killed_lab_left_counts_for_nothing() -> None:
    with the_lab():
        left = state_file().read_text()
    state_file().write_text(left)
    assert read() is None


def test_a_user_has_one_lab() -> None:
    with the_lab(), pytest.raises(LabError, match="running already: `sparkmirror lab down`"), the_lab():
        pytest.fail("got two")


@pytest.mark.parametrize("part", [".", "lab", "lab/state.json"])
def test_what_another_user_can_have_written_is_not_read(tmp_path: Path, part: str) -> None:
    """It names processes that get signals, and brokers that clients log in to."""
    with the_lab():
        (tmp_path / "sparkmirror" / part).chmod(0o777)
        with pytest.raises(SparkmirrorError, match="can be written to by others"):
            read()
        with pytest.raises(SparkmirrorError, match="can be written to by others"):
            publish(())
        (tmp_path / "sparkmirror" / part).chmod(0o700)


@pytest.mark.kafka
def test_clusters_are_described_for_other_shells(cluster_a: LabCluster) -> None:
    with the_lab():
        publish([cluster_a])
        state = read()
        assert stat.S_IMODE(state_file().stat().st_mode) == 0o600
    assert state is not None
    (cluster,) = state.clusters
    assert cluster.cluster_id == cluster_a.cluster_id
    assert cluster.listeners["PLAINTEXT"]["bootstrap.servers"] == cluster_a.bootstrap_servers
    assert [broker.pid for broker in cluster.brokers] == [cluster_a.brokers[0].pid]
