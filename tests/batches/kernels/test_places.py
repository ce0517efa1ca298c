"""From where compiled kernels are loaded: only from where nobody else can have put them."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from sparkmirror.batches.kernels import places
from sparkmirror.batches.kernels.places import OfProcess, OfUser, is_private


@pytest.fixture(autouse=True)
def process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The directory of a process."""
    places._of_nobody_else.cache_clear()
    monkeypatch.chdir(tmp_path)
    yield tmp_path
    places._of_nobody_else.cache_clear()


def test_the_directory_of_a_process_is_made_for_nobody_else_and_found_again(process: Path):
    before = os.umask(0)
    try:
        assert OfProcess.place() == process / "kernels"
    finally:
        os.umask(before)
    assert stat.S_IMODE((process / "kernels").stat().st_mode) == 0o700
    places._of_nobody_else.cache_clear()
    assert OfProcess.place() == process / "kernels", "as the next process finds it"


@pytest.mark.parametrize("mode", [0o777, 0o770, 0o707, 0o750, 0o701])
def test_nothing_is_loaded_from_a_directory_that_others_can_reach(process: Path, mode: int):
    (process / "kernels").mkdir()
    (process / "kernels").chmod(mode)
    place = OfProcess.place()
    assert (place.parent, place.name.startswith("kernels-")) == (process, True)
    assert is_private(place)
    assert list(place.iterdir()) == []
    assert OfProcess.place() == place, "all kernels of a process lie in one"


def test_nothing_is_loaded_from_a_directory_of_somebody_else(process: Path, monkeypatch: pytest.MonkeyPatch):
    (process / "kernels").mkdir(mode=0o700)
    uid = os.geteuid()
    monkeypatch.setattr("os.geteuid", lambda: uid + 1)
    assert OfProcess.place() != process / "kernels"


def test_nothing_is_loaded_from_where_a_link_leads(process: Path):
    (process / "elsewhere").mkdir(mode=0o700)
    (process / "kernels").symlink_to("elsewhere")
    assert OfProcess.place() != process / "kernels"


def test_nothing_is_made_of_what_is_no_directory(process: Path):
    (process / "kernels").touch(mode=0o600)
    assert OfProcess.place().is_dir()


@pytest.mark.parametrize("there", [False, True])
def test_where_no_directory_can_be_made_the_locator_does_not_apply(
    process: Path, monkeypatch: pytest.MonkeyPatch, there: bool
):
    """Nor to one that is there and that others can write to."""

    def refuse(*_: object, **__: object) -> None:
        raise PermissionError

    if there:
        (process / "kernels").mkdir()
        (process / "kernels").chmod(0o777)
    monkeypatch.setattr("tempfile.mkdtemp", refuse)
    if not there:
        monkeypatch.setattr(Path, "mkdir", refuse)
    assert OfProcess.from_function(refuse, __file__) is None


def test_kernels_are_kept_where_it_applies(process: Path):
    assert OfProcess.from_function(is_private, __file__).get_cache_path() == str(process / "kernels")


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Numba's directory in the cache of a user, which is not there yet."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    places._warn.cache_clear()
    return tmp_path / "cache" / "numba"


def place_of_user() -> Path | None:
    found = OfUser.from_function(is_private, __file__)
    return None if found is None else Path(found.get_cache_path())


def test_the_directories_of_a_user_are_made_for_nobody_else_and_found_again(cache: Path):
    before = os.umask(0)
    try:
        place = place_of_user()
    finally:
        os.umask(before)
    assert place is not None
    assert place.parent == cache
    assert [stat.S_IMODE(each.stat().st_mode) for each in (cache, place)] == [0o700, 0o700]
    assert place_of_user() == place


@pytest.mark.parametrize("below", [False, True])
@pytest.mark.parametrize("mode", [0o777, 0o1777, 0o707])
def test_nothing_is_loaded_from_a_cache_of_a_user_that_others_can_write_to(
    cache: Path, caplog: pytest.LogCaptureFixture, mode: int, below: bool
):
    place = place_of_user()
    assert place is not None
    odd = place if below else cache
    odd.chmod(mode)
    assert place_of_user() is None
    assert place_of_user() is None
    (told,) = caplog.messages
    assert told.startswith(f"{odd} can be written to by others (mode {mode:o}): no compiled kernels are loaded")


def test_nothing_is_loaded_from_a_cache_that_somebody_else_has_made(
    cache: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    assert place_of_user() is not None
    uid = os.geteuid()
    if uid:
        monkeypatch.setattr("os.geteuid", lambda: uid + 1)
    else:
        os.chown(cache, 4321, 4321)  # what is root's is everybody's
    assert place_of_user() is None
    assert f"belongs to another user ({uid or 4321})" in caplog.text


PLACES = """
import numba.core.caching as c
c.InTreeCacheLocator.from_function = classmethod(lambda cls, function, file: None)
from sparkmirror.batches.kernels import compiling
print(*{one._cache._impl._locator.get_cache_path() for one, _ in compiling._entries})
print([compiling.config.CACHE_LOCATOR_CLASSES])
"""


def places_of_all() -> list[str]:
    environ = {name: value for name, value in os.environ.items() if name != "NUMBA_CACHE_LOCATOR_CLASSES"}
    line = [sys.executable, "-c", PLACES]
    return subprocess.run(line, env=environ, stdout=subprocess.PIPE, text=True, timeout=60, check=True).stdout.split()


def test_every_kernel_is_kept_in_a_place_that_is_looked_at(cache: Path):
    """Where the installation cannot be written to."""
    *found, others = places_of_all()
    assert {Path(each).parent for each in found} == {cache}
    assert others == "['']", "what else the process compiles is kept where Numba keeps it"
    cache.chmod(0o777)
    assert places_of_all()[:-1] == [str(Path.cwd() / "kernels")]
