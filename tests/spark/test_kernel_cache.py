"""Where the kernels of an environment are kept that Spark has unpacked."""

from __future__ import annotations

import stat
import subprocess
import sys
from pathlib import Path

import pytest

from sparkmirror.batches.kernels import places
from sparkmirror.spark.kernel_cache import Shipped
from sparkmirror.spark.settings import ENVIRONMENT


@pytest.fixture
def source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file of an unpacked environment."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    found = tmp_path / ENVIRONMENT / "module.py"
    found.parent.mkdir()
    found.touch()
    return found


def example() -> None: ...


def test_they_are_kept_in_the_cache_of_the_user_by_release(tmp_path: Path, source: Path):
    found = Shipped.from_function(example, str(source))
    place = Path(found.get_cache_path())
    assert place.parent == tmp_path / "cache" / "sparkmirror" / "kernels"
    assert [stat.S_IMODE(each.stat().st_mode) for each in (place, place.parent, place.parent.parent)] == [0o700] * 3
    assert Shipped.from_function(example, __file__) is None, "it is not of that environment"


@pytest.mark.parametrize("part", [".", "kernels"])
def test_they_are_not_loaded_from_where_others_can_write(tmp_path: Path, source: Path, part: str):
    assert Shipped.from_function(example, str(source)) is not None
    (tmp_path / "cache" / "sparkmirror" / part).chmod(0o777)
    assert Shipped.from_function(example, str(source)) is None


def test_all_other_places_are_those_of_every_process():
    program = "from sparkmirror.spark import daemon; print(*daemon.LOCATORS)"  # it sets the environment of its process
    line = [sys.executable, "-c", program]
    told = subprocess.run(line, capture_output=True, text=True, timeout=60, check=True).stdout.split()
    assert told == [f"{Shipped.__module__}.{Shipped.__name__}", *places.LOCATORS]
