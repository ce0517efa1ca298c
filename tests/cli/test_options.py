"""Arguments that several commands share."""

from __future__ import annotations

from pathlib import Path

import pytest

from sparkmirror.cli.options import spread_clusters


@pytest.mark.parametrize(
    ("typed", "parsed"),
    [
        ("run f", "run f"),
        ("run f --clusters A", "run f --clusters A"),
        ("run f --clusters A B", "run f --clusters A --clusters B"),
        ("run f --clusters A B --once", "run f --clusters A --clusters B --once"),
        ("run f --clusters A --clusters B C", "run f --clusters A --clusters B --clusters C"),
        ("run --clusters A --once f", "run --clusters A --once f"),
        ("run f --clusters", "run f --clusters"),
    ],
)
def test_each_name_after_clusters_gets_an_option_of_its_own(typed: str, parsed: str):
    assert spread_clusters(typed.split()) == parsed.split()


def test_a_file_ends_the_names(tmp_path: Path):
    file = tmp_path / "mm2.properties"
    file.touch()
    spread = spread_clusters(["run", "--clusters", "A", "B", str(file)])
    assert spread == ["run", "--clusters", "A", "--clusters", "B", str(file)]


def test_what_follows_the_option_is_a_name_even_if_a_file_is_called_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "A").touch()
    monkeypatch.chdir(tmp_path)
    assert spread_clusters(["--clusters", "A", "B"]) == ["--clusters", "A", "--clusters", "B"]
