"""Which format a file has, and several formats in one command."""

from __future__ import annotations

from pathlib import Path

import pytest

from sparkmirror.config import load
from sparkmirror.config.formats import Format, format_of
from sparkmirror.errors import ConfigError

FILES = Path(__file__).parent / "files"


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("a.properties", "{", Format.PROPERTIES),
        ("a.JSON", "", Format.JSON),
        ("a.yml", "", Format.YAML),
        ("a.yaml", "", Format.YAML),
        ("a.conf", '\n {"name": 1}', Format.JSON),
        ("a", "[1]", Format.JSON),
        ("a", "# c\napiVersion: kafka.strimzi.io/v1\n", Format.YAML),
        ("a.cfg", "clusters = A\n", Format.PROPERTIES),
        ("a", "", Format.PROPERTIES),
    ],
)
def test_the_format_is_told_by_suffix_or_content(tmp_path, name, text, expected):
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    assert format_of(path) is expected


def test_files_of_several_formats_are_loaded_together():
    found = load([FILES / "kafka-active-active.properties", FILES / "connect-expanded.json"])
    assert [str(flow.name) for flow in found.flows] == ["primary->secondary", "secondary->primary", "east->west"]


def test_one_of_several_files_can_be_chosen_from():
    found = load([FILES / "kafka-active-active.properties", FILES / "connect-expanded.json"], clusters=["west"])
    assert [str(flow.name) for flow in found.flows] == ["east->west"]


@pytest.mark.parametrize("name", ["x.json", "x.yaml", "x.properties", "x"])
def test_a_file_that_is_not_there_is_named(tmp_path, name):
    with pytest.raises(ConfigError, match=f"{name}: no such file"):
        load([tmp_path / name])


@pytest.mark.parametrize("name", ["x.json", "x.yaml"])
def test_a_file_that_is_not_text_is_refused(tmp_path, name):
    (tmp_path / name).write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ConfigError, match="is not UTF-8"):
        load([tmp_path / name])
