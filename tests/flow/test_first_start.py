"""What is told of a start before anybody does it; the takeover itself and missing rights: ``test_moving_rights``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from sparkmirror.config import load
from sparkmirror.flow.first_start import first_starts
from sparkmirror.lab.cluster import LabCluster
from tests.flow.running import write_file

pytestmark = pytest.mark.kafka


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({}, ".internal has nothing for it, or its target topics have no records"),
        ({"mm2.takeover.enabled": "false"}, "without MirrorMaker 2's positions (mm2.takeover.enabled=false)"),
        ({"mm2.connector.name": "ours"}, "where MirrorMaker 2 keeps its positions is not told (mm2.offsets.topic)"),
    ],
)
def test_why_a_start_takes_nothing_over_is_told(
    cluster_a: LabCluster,
    cluster_b: LabCluster,
    topic: Callable[..., str],
    tmp_path: Path,
    settings: dict[str, str],
    told: str,
):
    alias = topic("first")
    file = write_file(tmp_path / "mm2.properties", {alias: cluster_a, "b": cluster_b}, {f"{alias}->b": alias}, settings)
    (found,) = first_starts(load([file]))
    assert told in found.text
    assert (found.flow, found.failure, found.positions) == (f"{alias}->b", "", ())
    assert found.as_json()["positions"] == []


def test_a_cluster_that_does_not_answer_is_not_a_refusal_and_hides_no_other_flow(
    cluster_a: LabCluster, cluster_b: LabCluster, topic: Callable[..., str], tmp_path: Path
):
    nowhere = {"bootstrap.servers": "127.0.0.1:1"}
    alias = topic("first")
    clusters: dict[str, LabCluster | Mapping[str, str]] = {alias: cluster_a, "b": cluster_b, "c": nowhere}
    file = write_file(tmp_path / "mm2.properties", clusters, {f"{alias}->b": alias, f"{alias}->c": alias})
    well, away = first_starts(load([file]))
    assert well.text.startswith("begins as the file says")
    assert away.failure.startswith("what a start would do cannot be told: cluster c at 127.0.0.1:1")
    assert [one.flow for one in first_starts(load([file]), without={f"{alias}->c"})] == [f"{alias}->b"]
