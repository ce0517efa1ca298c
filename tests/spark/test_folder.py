"""The private folder of a run: made for this user alone, removed in the end, and swept when its process is dead."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

from sparkmirror.spark import folder

HOLD = """
import sys, time
from pathlib import Path
from sparkmirror.spark import folder
held = folder.make(Path(sys.argv[1]))
print(held.path, flush=True)
time.sleep(600)
"""


def held_by_another(base: Path) -> tuple[subprocess.Popen[str], Path]:
    other = subprocess.Popen([sys.executable, "-c", HOLD, str(base)], stdout=subprocess.PIPE, text=True)
    assert other.stdout is not None
    return other, Path(other.stdout.readline().strip())


def test_a_dead_runs_folder_is_swept_and_a_living_ones_is_not_touched(tmp_path: Path) -> None:
    living, its_folder = held_by_another(tmp_path)
    dead, left = held_by_another(tmp_path)
    try:
        (its_folder / "blockmgr").mkdir()
        (left / "spark" / "deep").mkdir(parents=True)
        dead.send_signal(signal.SIGKILL)
        dead.wait(60)
        mine = folder.make(tmp_path)
        assert not left.exists()
        assert (its_folder / "blockmgr").is_dir()
        assert {path.stat().st_mode & 0o777 for path in (mine.path, its_folder, mine.path.parent)} == {0o700}
        (mine.path / "file").touch()
        mine.remove()
        mine.remove()
        assert not mine.path.exists()
        assert its_folder.exists()
    finally:
        for process in (living, dead):
            process.kill()
            process.communicate(timeout=60)
    folder.make(tmp_path).remove()
    assert not its_folder.exists()


def test_a_folder_that_was_never_locked_is_swept(tmp_path: Path) -> None:
    home = tmp_path / f"sparkmirror-{os.getuid()}"
    (home / "run-broken" / "files").mkdir(parents=True)
    home.chmod(0o700)
    folder.make(tmp_path).remove()
    assert [path.name for path in home.iterdir()] == ["sweep.lock"]


def test_a_directory_that_is_open_to_others_is_not_used(tmp_path: Path, caplog) -> None:
    home = tmp_path / f"sparkmirror-{os.getuid()}"
    (home / "run-of-somebody").mkdir(parents=True)
    home.chmod(0o777)
    mine = folder.make(tmp_path)
    assert mine.path.parent == tmp_path
    assert mine.path.stat().st_mode & 0o777 == 0o700
    assert (home / "run-of-somebody").exists()
    assert "is open to others" in caplog.text
    mine.remove()
