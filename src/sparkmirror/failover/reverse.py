"""The flow back, when the cluster that was left is there again: whether it is, and whether somebody runs the flow.

Invariants: nothing is changed but a denial to write that would keep the flow back out; every wait has a deadline.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from shlex import quote

from sparkmirror.config import FlowConfig
from sparkmirror.errors import SparkmirrorError
from sparkmirror.failover.failback import AnotherClusterError, check_same
from sparkmirror.failover.operator import operating
from sparkmirror.failover.procedure import Procedure
from sparkmirror.failover.states import FENCE
from sparkmirror.flow.sides import connected, record
from sparkmirror.flow.status import WORKING, observed

LOOK_SECONDS = 5.0


def wait_for_return(
    forth: FlowConfig, back: FlowConfig, file: str, seconds: float, tell: Callable[[str], None]
) -> bool:
    """Waits until the cluster that was left answers, and opens it for the flow back.

    Args:
        forth: the flow from it, which was stopped.
        back: the flow to it.
        file: the configuration file, for messages.
        seconds: to wait, at most.
        tell: is given what is being done.

    Returns:
        whether the flow back has to be started: False when a driver runs it already.

    Raises:
        AnotherClusterError: what answers is another cluster.
        SparkmirrorError: the cluster is not there in time.
    """
    deadline = time.monotonic() + seconds
    tell(f"cluster {back.target.alias} is waited for, to run {back.name}: {seconds:g} s at most")
    while True:
        try:
            return _opened(forth, back, file, tell)
        except AnotherClusterError:
            raise
        except SparkmirrorError as failure:
            if time.monotonic() + LOOK_SECONDS > deadline:
                raise SparkmirrorError(
                    f"cluster {back.target.alias} did not come back within {seconds:g} s: {failure} (when it has: "
                    f"sparkmirror run {quote(file)} --flow '{back.name}')"
                ) from failure
        time.sleep(LOOK_SECONDS)


def _opened(forth: FlowConfig, back: FlowConfig, file: str, tell: Callable[[str], None]) -> bool:
    with connected(forth, role="operator") as sides:
        state = record(sides)
        if state is not None:
            check_same(sides)
        newest = None if state is None else state.ledger.operation
        if forth.tells_writers and newest is not None and newest.facts.get(FENCE):
            assert sides.store is not None  # it has a record
            with operating(forth, sides.store, tell) as operator:
                Procedure(sides, file, operator, tell).allow(newest)
    with connected(back, role="operator") as sides:
        state = record(sides)
        runs = state is not None and sides.store is not None and observed(sides.store) in WORKING
    tell(f"cluster {back.target.alias} is back, and {back.name} " + ("runs already" if runs else "is started"))
    return not runs
