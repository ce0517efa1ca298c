"""An operator that halts: ``python -m tests.failover.halting STEP WORDS...`` runs a command up to the begin of a step.

There it stops itself with SIGSTOP, so that a test can change the world before ``SIGCONT`` has it go on.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from sparkmirror.cli.app import main
from sparkmirror.failover import operator
from sparkmirror.failover.failback import Failback
from sparkmirror.failover.procedure import Procedure
from sparkmirror.failover.states import Step
from tests.failover.dying import WATCHED_SECONDS
from tests.flow.running import until


def halts_before(name: str) -> None:
    """Has every operation of this process halt there, once."""
    left = [name]

    def halting(do: Callable[..., None]) -> Callable[..., None]:
        def halts_or_does(self: Any, step: Step, operation: Any) -> None:
            if step.name in left:
                left.remove(step.name)
                os.kill(os.getpid(), signal.SIGSTOP)
            do(self, step, operation)

        return halts_or_does

    for kind in (Procedure, Failback):
        setattr(kind, kind.do.__name__, halting(kind.do))


def halted(step: Step, *words: object) -> subprocess.Popen[bytes]:
    """A command that has halted before a step."""
    line = [sys.executable, "-m", "tests.failover.halting", step.name, *map(str, words)]
    command = subprocess.Popen(line, stdout=subprocess.DEVNULL)
    stat = Path(f"/proc/{command.pid}/stat")
    until(lambda: stat.read_text().rpartition(")")[2].split()[0] == "T", f"it halts before {step.name}")
    return command


if __name__ == "__main__":
    operator.SILENT_SECONDS = WATCHED_SECONDS
    halts_before(sys.argv[1])
    main(sys.argv[2:])
