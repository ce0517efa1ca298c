"""An operator that is killed: ``python -m tests.failover.dying STEP WORDS...`` runs a command and ends it with SIGKILL.

``STEP`` names the step before whose end it dies: all that the step does is done, and that it is done is not on record.
With ``COMMITTED`` it dies when the first offsets of groups are committed, and that is not on record either. With
``BETWEEN`` each offset of a group needs a request of its own, and it dies when the first one has its answer.
One that takes over from another that has died does not watch as long as a person's would: nobody else is there.
"""

from __future__ import annotations

import os
import signal
import sys
from typing import Any

from sparkmirror.cli.app import main
from sparkmirror.failover import operator, procedure
from sparkmirror.failover.operator import Operator
from sparkmirror.failover.states import Step
from sparkmirror.kafka import groups

WATCHED_SECONDS = 2.5
COMMITTED, BETWEEN = "COMMITTED", "BETWEEN"


def dies_in(name: str) -> None:
    """Has every operator of this process die there."""
    go_to = Operator.go_to

    def goes_or_dies(self: Operator, step: Step, **facts: Any) -> Any:
        operation = self.operation
        if operation is not None and operation.step == name:
            os.kill(os.getpid(), signal.SIGKILL)
        return go_to(self, step, **facts)

    Operator.go_to = goes_or_dies  # type: ignore[method-assign]  # the process has no other use


def dies_after_a_commit() -> None:
    """Has every operator of this process die there."""
    commit_offsets = groups.commit_offsets

    def commits_and_dies(cluster: Any, offsets: Any, *args: Any, **named: Any) -> Any:
        done = commit_offsets(cluster, offsets, *args, **named)
        if offsets:
            os.kill(os.getpid(), signal.SIGKILL)
        return done

    setattr(procedure, commit_offsets.__name__, commits_and_dies)


def dies_between_requests() -> None:
    """Has every operator of this process die there."""
    groups.COMMIT_BYTES = groups.SENT_AT_ONCE = 1
    request, sent = groups._commit_request, list[Any]()

    def asks_or_dies(group: str, offsets: Any) -> Any:
        sent.append(group)
        if len(sent) > 1:
            os.kill(os.getpid(), signal.SIGKILL)
        return request(group, offsets)

    setattr(groups, request.__name__, asks_or_dies)


if __name__ == "__main__":
    operator.SILENT_SECONDS = WATCHED_SECONDS
    if sys.argv[1] == COMMITTED:
        dies_after_a_commit()
    elif sys.argv[1] == BETWEEN:
        dies_between_requests()
    else:
        dies_in(sys.argv[1])
    main(sys.argv[2:])
