"""An operator that halts: ``python -m tests.failover.halting STEP WORDS...`` runs a command up to the begin of a step.

There it stops itself with SIGSTOP, so that a test can change the world before ``SIGCONT`` has it go on. With
``COMMITTING`` it stops when it is decided what is committed for groups, and nothing is committed yet. With ``SETTLING``
it stops before it takes the flow from a driver that does not answer.
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
from sparkmirror.failover import operator, procedure
from sparkmirror.failover.failback import Failback
from sparkmirror.failover.procedure import Procedure
from sparkmirror.failover.states import Step
from sparkmirror.flow import settling
from sparkmirror.kafka import groups
from tests.failover.dying import WATCHED_SECONDS
from tests.flow.running import until

COMMITTING, SETTLING = "COMMITTING", "SETTLING"


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


def halts_before_a_commit() -> None:
    """Has every operation of this process halt there, once."""
    commit_offsets = groups.commit_offsets
    left = [COMMITTING]

    def halts_and_commits(cluster: Any, offsets: Any, *args: Any, **named: Any) -> Any:
        if offsets and left:
            left.clear()
            os.kill(os.getpid(), signal.SIGSTOP)
        return commit_offsets(cluster, offsets, *args, **named)

    setattr(procedure, commit_offsets.__name__, halts_and_commits)


def halts_before_it_takes_the_flow() -> None:
    """Has every operation of this process halt there, once."""
    settle = settling.settle
    left = [SETTLING]

    def halts_and_settles(*args: Any, **named: Any) -> Any:
        if left:
            left.clear()
            os.kill(os.getpid(), signal.SIGSTOP)
        return settle(*args, **named)

    setattr(procedure, settle.__name__, halts_and_settles)


def halted(step: Step | str, *words: object) -> subprocess.Popen[bytes]:
    """A command that has halted before a step, or before it commits."""
    place = step.name if isinstance(step, Step) else step
    line = [sys.executable, "-m", "tests.failover.halting", place, *map(str, words)]
    command = subprocess.Popen(line, stdout=subprocess.DEVNULL)
    stat = Path(f"/proc/{command.pid}/stat")
    until(lambda: stat.read_text().rpartition(")")[2].split()[0] == "T", f"it halts before {place}")
    return command


if __name__ == "__main__":
    operator.SILENT_SECONDS = WATCHED_SECONDS
    if sys.argv[1] == COMMITTING:
        halts_before_a_commit()
    elif sys.argv[1] == SETTLING:
        halts_before_it_takes_the_flow()
    else:
        halts_before(sys.argv[1])
    main(sys.argv[2:])
