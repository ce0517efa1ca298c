"""The private directory of a run."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from sparkmirror.flow.directory import PREFIX, make_directory


def dead_process() -> int:
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait(30)
    return ended.pid


def test_only_its_user_may_enter_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    assert stat.S_IMODE(make_directory().stat().st_mode) == 0o700


def test_what_a_killed_run_left_behind_goes_and_what_lives_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    left, living = tmp_path / f"{PREFIX}{dead_process()}-x", tmp_path / f"{PREFIX}{os.getpid()}-y"
    for place in (left, living):
        place.mkdir()
        (place / "a.settings").touch()
    make_directory()
    assert not left.exists()
    assert living.exists()
