"""All flows of one process: one Spark session, one controller for each flow, a clean end for all.

Invariants: every enabled flow is started, and one that fails does not stop the others; the end waits for each, with a
deadline; without Spark none of them runs on. Pairs of clusters that get heartbeats alone need no Spark, end with the
process and keep nothing alive.
"""

from __future__ import annotations

import logging
import os
import threading
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait

from sparkmirror.config import FlowConfig, MirrorConfig
from sparkmirror.copy.plan import ShiftPlan
from sparkmirror.duties import roster
from sparkmirror.errors import SparkmirrorError
from sparkmirror.flow.controller import Controller
from sparkmirror.flow.first_look import Trouble, given_up
from sparkmirror.flow.identities import Identities
from sparkmirror.flow.room import Room, room_here, room_in_cluster
from sparkmirror.flow.schedule import Schedule
from sparkmirror.flow.shift import Receipts, not_started
from sparkmirror.flow.states import ENDED
from sparkmirror.flow.view import FlowView
from sparkmirror.spark.session import Session, check_executors, close_session, has_ended, open_session, slots_of
from sparkmirror.spark.settings import SparkOptions

log = logging.getLogger(__name__)

SPARE_SLOTS = 8
PULSE_SECONDS = 1.0
"""How long the end waits for heartbeats that are under way."""

WAIT_SECONDS = 0.1
FIRST_EXECUTORS_SECONDS = 30.0
STEADY_SECONDS = 2.0
"""Executors come one after the other: the first packing waits until none has come for so long."""


class Runner:
    """Runs the flows of a configuration.

    Args:
        config: what to run.
        spark: where and how Spark runs.
        once: copy to the present ends, then end.
        troubles: of the first look at the clusters, by flow.
    """

    def __init__(
        self, config: MirrorConfig, *, spark: SparkOptions, once: bool, troubles: Mapping[str, Trouble]
    ) -> None:
        self._config = config
        self._run = uuid.uuid4().hex[:12]
        self._spark = spark
        self._identities = Identities(config.file, several=config.several_aliases)
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="spark")
        here = [self._room_here(flow) for flow in config.flows]
        slots = SPARE_SLOTS + 2 * sum(room.lanes for room in here)
        self._session: Future[Session] = self._pool.submit(open_session, spark, slots)
        self._steady = threading.Event()
        self._stopping = threading.Event()
        self._deadline = float("inf")
        self._end_s = max(flow.stop_timeout_ms for flow in config.flows) / 1000 if config.flows else 0.0
        self.controllers = tuple(self._controller(flow, once) for flow in config.flows)
        self._troubles = troubles
        self._given_up = given_up(troubles, once=once)
        self._pulses = () if once else tuple(_pulse(flow) for flow in config.pulses)

    @property
    def views(self) -> Sequence[FlowView]:
        """What the flows show of themselves."""
        return tuple(controller.view for controller in self.controllers)

    @property
    def running(self) -> bool:
        """Whether a flow has not ended, and still may take its time."""
        return bool(self._unfinished) and time.monotonic() < self._deadline

    @property
    def stopping(self) -> bool:
        """Whether it was asked to stop."""
        return self._stopping.is_set()

    @property
    def failures(self) -> tuple[SparkmirrorError, ...]:
        """Why flows failed."""
        late = [
            SparkmirrorError(f"{controller.name} did not stop within {self._end_s:g} s: its next start takes over")
            for controller in self._unfinished
        ]
        return (*(c.failure for c in self.controllers if c.failure is not None), *late)

    @property
    def _unfinished(self) -> list[Controller]:
        ended = {state.value for state in ENDED}
        return [controller for controller in self.controllers if controller.view.state not in ended]

    def start(self) -> None:
        """Starts every flow that is not given up."""
        for controller in self.controllers:
            if controller.name in self._given_up:
                controller.give_up(self._given_up[controller.name])
            else:
                trouble = self._troubles.get(controller.name)
                controller.start(None if trouble is None else trouble.error)
        for pulse in self._pulses:
            pulse.start()

    def stop(self) -> None:
        """Asks every flow to drain and end; returns at once."""
        self._deadline = min(self._deadline, time.monotonic() + self._end_s)
        self._stopping.set()
        for controller in self.controllers:
            controller.stop()
        for pulse in self._pulses:
            pulse.stop()

    def check(self) -> None:
        """Looks after Spark.

        Raises:
            ConfigError: others could get at what it sends.
            SparkmirrorError: it did not start, or has ended.
        """
        failure = self._session.exception() if self._session.done() else None
        if isinstance(failure, SparkmirrorError):
            raise failure
        if failure is not None:
            raise SparkmirrorError(f"Spark did not start: {type(failure).__name__}: {failure}") from failure
        if self._session.done() and has_ended(self._session.result()):
            raise SparkmirrorError("Spark has ended: its process died, or the cluster removed the application")
        if self._session.done():
            check_executors(self._session.result())

    def close(self) -> None:
        """Stops Spark, and the heartbeats; what is still under way then ends with this process."""
        for pulse in self._pulses:
            pulse.stop()
        deadline = time.monotonic() + PULSE_SECONDS
        for pulse in self._pulses:
            pulse.join(max(0.0, deadline - time.monotonic()))
        if self._session.done() and self._session.exception() is None:
            close_session(self._session.result())
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _controller(self, flow: FlowConfig, once: bool) -> Controller:
        return Controller(
            flow,
            file=self._config.file,
            run=self._run,
            run_shift=self._shift_runner(flow),
            cancel=lambda: self._cancel(flow),
            cancel_shift=lambda shift: self._cancel_shift(flow, shift),
            room=lambda: self._room(flow),
            identities=self._identities,
            once=once,
        )

    def _shift_runner(self, flow: FlowConfig) -> Callable[[ShiftPlan], Receipts]:
        def run(plan: ShiftPlan) -> Receipts:
            while not self._session.done() and not self._stopping.is_set():
                wait([self._session], WAIT_SECONDS)
            if not self._session.done() or self._stopping.is_set():
                return not_started(plan)
            from sparkmirror.spark.job import packed, run_shift

            return run_shift(self._session.result(), plan, packed(flow))

        return run

    def _room_here(self, flow: FlowConfig) -> Room:
        cores, flows = self._spark.cores or os.cpu_count() or 1, len(self._config.flows)
        return room_here(flow.tasks_max, cores, flows, SPARE_SLOTS)

    def _room(self, flow: FlowConfig) -> Room:
        """What a flow may use of Spark now; the first time on a cluster this waits for its executors."""
        if self._spark.local:
            return self._room_here(flow)
        if not self._steady.is_set():
            self._wait_for_executors()
        return room_in_cluster(self._slots, len(self._config.flows))

    @property
    def _slots(self) -> int:
        """Of the cluster's executors; 0 while there is no session."""
        started = self._session.done() and self._session.exception() is None
        return slots_of(self._session.result()) if started else 0

    def _wait_for_executors(self) -> None:
        deadline = time.monotonic() + FIRST_EXECUTORS_SECONDS
        slots, since = 0, time.monotonic()
        while time.monotonic() < deadline and not self._stopping.is_set() and not self._steady.is_set():
            now = self._slots
            if now != slots:
                slots, since = now, time.monotonic()
            if slots and time.monotonic() - since > STEADY_SECONDS:
                break
            time.sleep(WAIT_SECONDS)
        self._steady.set()

    def _cancel(self, flow: FlowConfig) -> None:
        from sparkmirror.spark.job import cancel_flow

        if self._session.done() and self._session.exception() is None:
            cancel_flow(self._session.result(), self._run, str(flow.name))

    def _cancel_shift(self, flow: FlowConfig, shift: str) -> None:
        from sparkmirror.spark.job import cancel_shift

        if self._session.done() and self._session.exception() is None:
            cancel_shift(self._session.result(), self._run, str(flow.name), shift, "it is silent")


def _pulse(flow: FlowConfig) -> Schedule:
    """The heartbeats of a pair of clusters whose flow is not enabled."""

    def note(text: str) -> None:
        log.warning("%s", text, extra={"flow": str(flow.name)})

    return Schedule(flow, roster.heartbeats, name="heartbeats", note=note, started=False)
