from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from sparkmirror.errors import LabError
from sparkmirror.lab.lock import is_held, locked

HOLDER = """
import sys, time
from pathlib import Path
from sparkmirror.lab.lock import locked
with locked(Path(sys.argv[1]), seconds=5):
    print("held", flush=True)
    time.sleep(300)
"""


def test_a_lock_ends_with_its_holder_even_when_that_is_killed(tmp_path: Path) -> None:
    path = tmp_path / "room" / "lock"
    assert not is_held(path)
    holder = subprocess.Popen([sys.executable, "-c", HOLDER, str(path)], stdout=subprocess.PIPE, text=True)
    assert holder.stdout is not None
    with holder.stdout as answer:
        assert answer.readline() == "held\n"
    assert is_held(path)
    holder.kill()
    holder.wait(60)
    assert not is_held(path)
    with locked(path, seconds=0):
        assert is_held(path)


def test_who_does_not_get_the_lock_in_time_is_told(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    with locked(path, seconds=0):
        with pytest.raises(LabError, match="is held by another process"), locked(path, seconds=0.2):
            pytest.fail("got it twice")
        with pytest.raises(LabError, match=r"^busy$"), locked(path, seconds=0, refusal="busy"):
            pytest.fail("got it twice")
