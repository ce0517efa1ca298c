"""From where compiled kernels are loaded: only from where nobody else can have put them."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from sparkmirror.spark import kernel_cache
from sparkmirror.spark.kernel_cache import OfExecutor, is_private


@pytest.fixture(autouse=True)
def executor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The directory of an executor."""
    kernel_cache._of_nobody_else.cache_clear()
    monkeypatch.chdir(tmp_path)
    yield tmp_path
    kernel_cache._of_nobody_else.cache_clear()


def test_the_directory_of_an_executor_is_made_for_nobody_else_and_found_again(executor: Path):
    before = os.umask(0)
    try:
        assert OfExecutor.place() == executor / "kernels"
    finally:
        os.umask(before)
    assert stat.S_IMODE((executor / "kernels").stat().st_mode) == 0o700
    kernel_cache._of_nobody_else.cache_clear()
    assert OfExecutor.place() == executor / "kernels", "as the next process finds it"


@pytest.mark.parametrize("mode", [0o777, 0o770, 0o707, 0o750, 0o701])
def test_nothing_is_loaded_from_a_directory_that_others_can_reach(executor: Path, mode: int):
    (executor / "kernels").mkdir()
    (executor / "kernels").chmod(mode)
    place = OfExecutor.place()
    assert (place.parent, place.name.startswith("kernels-")) == (executor, True)
    assert is_private(place)
    assert list(place.iterdir()) == []
    assert OfExecutor.place() == place, "all kernels of a process lie in one"


def test_nothing_is_loaded_from_a_directory_of_somebody_else(executor: Path, monkeypatch: pytest.MonkeyPatch):
    (executor / "kernels").mkdir(mode=0o700)
    uid = os.geteuid()
    monkeypatch.setattr("os.geteuid", lambda: uid + 1)
    assert OfExecutor.place() != executor / "kernels"


def test_nothing_is_loaded_from_where_a_link_leads(executor: Path):
    (executor / "elsewhere").mkdir(mode=0o700)
    (executor / "kernels").symlink_to("elsewhere")
    assert OfExecutor.place() != executor / "kernels"


def test_nothing_is_made_of_what_is_no_directory(executor: Path):
    (executor / "kernels").touch(mode=0o600)
    assert OfExecutor.place().is_dir()


@pytest.mark.parametrize("there", [False, True])
def test_where_no_directory_can_be_made_the_locator_does_not_apply(
    executor: Path, monkeypatch: pytest.MonkeyPatch, there: bool
):
    """Nor to one that is there and that others can write to."""

    def refuse(*_: object, **__: object) -> None:
        raise PermissionError

    if there:
        (executor / "kernels").mkdir()
        (executor / "kernels").chmod(0o777)
    monkeypatch.setattr("tempfile.mkdtemp", refuse)
    if not there:
        monkeypatch.setattr(Path, "mkdir", refuse)
    assert OfExecutor.from_function(refuse, __file__) is None


def test_kernels_are_kept_where_it_applies(executor: Path):
    assert OfExecutor.from_function(is_private, __file__).get_cache_path() == str(executor / "kernels")
