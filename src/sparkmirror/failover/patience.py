"""How long an operation waits for a driver that is told to stop. Pure.

No step depends on that wait: one that has not ended is fenced, and the target's own logs tell how far it came. It is
for what lanes still hold, and spares the reading of those logs.
"""

from __future__ import annotations

from dataclasses import dataclass

from sparkmirror.flow.status import WORKING, state_of
from sparkmirror.kafka.liveness import HEARTBEAT_SECONDS, SILENT_SECONDS, Heard
from sparkmirror.offsets.state import JournalState

OBEY_SECONDS, OBEY_AT_ONCE_SECONDS = 6.5, 2.0
"""A driver that is told to stop has ``stop.timeout.ms`` and this for it; one that has not ended then has the flow taken
from it. With a source that is gone there is nothing to drain, but the driver may be waiting for it just then."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Patience:
    """How long a driver is waited for.

    Attributes:
        seconds: at most.
        silent_s: without a sign of life, after which it is not waited for any more.
    """

    seconds: float
    silent_s: float


def patience(stop_timeout_ms: int, *, gone: bool) -> Patience:
    """How long a driver is waited for that is told to stop.

    Args:
        stop_timeout_ms: of the flow.
        gone: whether the source is, so that lanes have got nothing for as long as that was looked at.
    """
    if gone:
        return Patience(seconds=OBEY_AT_ONCE_SECONDS, silent_s=HEARTBEAT_SECONDS)
    return Patience(seconds=OBEY_SECONDS + stop_timeout_ms / 1000, silent_s=SILENT_SECONDS)


def is_waited_for(state: JournalState, heard: Heard, waited_s: float, most: Patience) -> bool:
    """Whether a driver is still waited for.

    Args:
        state: the flow's internal topic, read to its end.
        heard: of the driver, as of that reading.
        waited_s: since it was told.
        most: how long it is.
    """
    if state.is_stopped or waited_s >= most.seconds:
        return False
    return state_of(state, alive=not heard.is_silent(most.silent_s)) in WORKING
