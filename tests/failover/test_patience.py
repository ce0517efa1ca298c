"""How long an operation waits for a driver that is told to stop."""

from __future__ import annotations

import pytest

from sparkmirror.failover.patience import OBEY_AT_ONCE_SECONDS, OBEY_SECONDS, is_waited_for, patience
from sparkmirror.kafka.liveness import HEARTBEAT_SECONDS, SILENT_SECONDS, Heard
from sparkmirror.offsets.records import FlowRecord, Life, Stopped
from sparkmirror.offsets.state import JournalState

STOP_MS = 10_000
FLOW = FlowRecord(
    source_alias="a", source_id="A", target_alias="b", target_id="B", naming="default .", generation=1, tells_since_ms=0
)


def known(*records: FlowRecord | Life | Stopped) -> JournalState:
    state = JournalState()
    for one in (FLOW, Life(generation=1, time_ms=5, state="running", lanes=2), *records):
        state.take(one)
    return state


def unheard(seconds: float) -> Heard:
    """As of a reading that has found no sign for so long."""
    life = known().life
    return Heard().read(life, 100.0, 100.5).read(life, 100.5 + seconds, 100.6 + seconds)


@pytest.mark.parametrize(("gone", "silent_s"), [(True, HEARTBEAT_SECONDS), (False, SILENT_SECONDS)])
def test_a_driver_that_gives_no_sign_is_not_waited_for(gone: bool, silent_s: float):
    most = patience(STOP_MS, gone=gone)
    assert is_waited_for(known(), unheard(silent_s - 0.1), 0.0, most), "one sign may have been late"
    assert not is_waited_for(known(), unheard(silent_s), 0.0, most)


@pytest.mark.parametrize(("gone", "seconds"), [(True, OBEY_AT_ONCE_SECONDS), (False, OBEY_SECONDS + STOP_MS / 1000)])
def test_a_driver_that_lives_has_so_long_to_stop(gone: bool, seconds: float):
    most = patience(STOP_MS, gone=gone)
    assert is_waited_for(known(), unheard(0.5), seconds - 0.1, most)
    assert not is_waited_for(known(), unheard(0.5), seconds, most)


@pytest.mark.parametrize(
    "ended",
    [
        (Stopped(generation=1, time_ms=6),),
        (Life(generation=1, time_ms=6, state="failed", lanes=0),),
    ],
)
def test_a_driver_that_has_said_its_last_words_is_not_waited_for(ended: tuple[Stopped | Life]):
    assert not is_waited_for(known(*ended), unheard(0.5), 0.0, patience(STOP_MS, gone=False))
