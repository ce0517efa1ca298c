"""A driver that is killed: ``python -m tests.flow.dying WORDS...`` runs a command up to the end of its first takeover.

It dies when the takeover is on record and before a lane has begun.
"""

from __future__ import annotations

import os
import signal
import sys
from typing import Any

from sparkmirror.cli.app import main
from sparkmirror.flow.takeover import Takeover


def dies_after_a_takeover() -> None:
    """Has every driver of this process die there."""
    take_over = Takeover.take_over

    def takes_over_and_dies(self: Takeover, *args: Any) -> Any:
        if take_over(self, *args).resumed:
            os.kill(os.getpid(), signal.SIGKILL)
        raise AssertionError("nothing was taken over")

    setattr(Takeover, Takeover.take_over.__name__, takes_over_and_dies)


if __name__ == "__main__":
    dies_after_a_takeover()
    main(sys.argv[1:])
