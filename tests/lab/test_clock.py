from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

from sparkmirror.lab.clock import step, steppable

TIMEOUT = 60.0
CLOCKS = (
    "import sys, time\n"
    "for _ in sys.stdin: print(time.time(), time.clock_gettime(time.CLOCK_BOOTTIME), time.monotonic(), flush=True)"
)


def test_the_time_of_day_steps_while_the_process_runs_and_nothing_else_does(tmp_path: Path) -> None:
    file = tmp_path / "clock"
    step(file, 0)
    command = [*steppable(file), sys.executable, "-I", "-S", "-c", CLOCKS]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None

        def off_by() -> list[float]:
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdin.write("\n")
            process.stdin.flush()
            shown = map(float, process.stdout.readline().split())
            ours = time.time(), time.clock_gettime(time.CLOCK_BOOTTIME), time.monotonic()
            return [its - our for its, our in zip(shown, ours, strict=True)]

        for seconds in (0.0, 7_200.0, -7_200.0, 0.0):
            step(file, seconds)
            deadline = time.monotonic() + TIMEOUT
            while abs((found := off_by())[0] - seconds) > 600:
                assert time.monotonic() < deadline, f"{found} instead of {seconds}"
            assert max(map(abs, found[1:])) < 600
        process.stdin.close()
        assert process.wait(TIMEOUT) == 0
