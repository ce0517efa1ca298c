"""Files that people have, and choosing flows from them."""

from __future__ import annotations

from pathlib import Path

import pytest

from sparkmirror.config import load
from sparkmirror.errors import ConfigError

THREE = """\
clusters = A, B, C
A.bootstrap.servers = a:1
B.bootstrap.servers = b:1
C.bootstrap.servers = c:1
A->B.enabled = true
B->A.enabled = true
A->C.enabled = true
"""
SAMPLES = sorted((Path(__file__).parent / "samples").glob("*.properties"))


@pytest.mark.parametrize("path", SAMPLES, ids=lambda path: path.stem)
def test_a_file_written_for_mm2_loads_unchanged(path):
    found = load([path])
    assert found.flows
    assert not [warning for warning in found.warnings if "unknown" in warning]


def names(config):
    return [str(flow.name) for flow in config.flows]


def test_all_enabled_flows_are_loaded(load_lines):
    assert names(load_lines(base=THREE)) == ["A->B", "A->C", "B->A"]


def test_clusters_choose_the_flows_into_them(load_lines):
    assert names(load_lines(base=THREE, clusters=["A", "C"])) == ["A->C", "B->A"]


def test_one_flow_can_be_chosen(load_lines):
    assert names(load_lines(base=THREE, flow="A -> C")) == ["A->C"]


@pytest.mark.parametrize(
    ("wanted", "reason"),
    [
        ({"clusters": ["X"]}, "does not list 'X'.*it has A, B, C"),
        ({"flow": "C->A"}, "no flow 'C->A' is enabled here.*A->B, A->C, B->A"),
        ({"flow": "A->B", "clusters": ["C"]}, "no flow 'A->B' is enabled here"),
    ],
)
def test_a_choice_that_leaves_nothing_is_refused(load_lines, wanted, reason):
    with pytest.raises(ConfigError, match=reason):
        load_lines(base=THREE, **wanted)


def test_clusters_without_a_flow_into_them_are_refused(load_lines):
    with pytest.raises(ConfigError, match="no flow into A is enabled"):
        load_lines(clusters=["A"])


def test_several_files_are_loaded_together(write):
    other = "clusters = A, Z\nA.bootstrap.servers = a:1\nZ.bootstrap.servers = z:1\nA->Z.enabled = true\n"
    found = load([write(name="1.properties"), str(write(base=other, name="2.properties"))], clusters=["Z", "B"])
    assert names(found) == ["A->B", "A->Z"]
    assert "1.properties, " in found.file


def test_no_file_is_refused():
    with pytest.raises(ConfigError, match="no configuration file"):
        load([])
