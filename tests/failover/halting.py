"""An operator that halts: ``python -m tests.failover.halting STEP WORDS...`` runs a command up to the begin of a step.

There it stops itself with SIGSTOP, so that a test can change the world before ``SIGCONT`` has it go on.
"""

from __future__ import annotations

import os
import signal
import sys
from typing import Any

from sparkmirror.cli.app import main
from sparkmirror.failover import operator
from sparkmirror.failover.procedure import Procedure
from sparkmirror.failover.states import Step
from tests.failover.dying import WATCHED_SECONDS


def halts_before(name: str) -> None:
    """Has every procedure of this process halt there, once."""
    do = Procedure.do

    def halts_or_does(self: Procedure, step: Step, operation: Any) -> None:
        if step.name == name:
            os.kill(os.getpid(), signal.SIGSTOP)
        do(self, step, operation)

    Procedure.do = halts_or_does  # type: ignore[method-assign]  # the process has no other use


if __name__ == "__main__":
    operator.SILENT_SECONDS = WATCHED_SECONDS
    halts_before(sys.argv[1])
    main(sys.argv[2:])
