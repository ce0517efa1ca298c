"""All flows of one process: one Spark session, one controller for each flow, a clean end for all.

Invariants: every enabled flow is started, and one that fails does not stop the others; the end waits for each, with a
deadline; without Spark none of them runs on.
"""

from __future__ import annotations

import os
import shutil
import threading
import time
import uuid
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait

from sparkmirror.config import FlowConfig, MirrorConfig
from sparkmirror.copy.plan import ShiftPlan
from sparkmirror.errors import SparkmirrorError
from sparkmirror.flow.controller import Controller
from sparkmirror.flow.directory import make_directory
from sparkmirror.flow.shift import Receipts, not_started
from sparkmirror.flow.states import ENDED
from sparkmirror.flow.view import FlowView
from sparkmirror.spark.session import Session, open_session

SPARE_SLOTS = 8
END_SECONDS = 8.5
"""From the request to stop on. What has not ended then is given up: the next start takes it over."""

WAIT_SECONDS = 0.1


class Runner:
    """Runs the flows of a configuration.

    Args:
        config: what to run.
        master: Spark's master; None for this process.
        once: copy to the present ends, then end.
    """

    def __init__(self, config: MirrorConfig, *, master: str | None, once: bool) -> None:
        self._config = config
        self._run = uuid.uuid4().hex[:12]
        self._directory = make_directory()
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="spark")
        cores = os.cpu_count() or 1
        self._free_slots = max(1, cores // max(1, len(config.flows)))
        slots = SPARE_SLOTS + 2 * sum(flow.tasks_max or self._free_slots for flow in config.flows)
        self._session: Future[Session] = self._pool.submit(open_session, master, slots)
        self._stopping = threading.Event()
        self._deadline = float("inf")
        self._shipped: dict[str, str] = {}
        self._shipping = threading.Lock()
        self.controllers = tuple(self._controller(flow, once) for flow in config.flows)

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
            SparkmirrorError(f"{controller.name} did not stop within {END_SECONDS} s: its next start takes over")
            for controller in self._unfinished
        ]
        return (*(c.failure for c in self.controllers if c.failure is not None), *late)

    @property
    def _unfinished(self) -> list[Controller]:
        ended = {state.value for state in ENDED}
        return [controller for controller in self.controllers if controller.view.state not in ended]

    def start(self) -> None:
        """Starts every flow."""
        for controller in self.controllers:
            controller.start()

    def stop(self) -> None:
        """Asks every flow to drain and end; returns at once."""
        self._deadline = min(self._deadline, time.monotonic() + END_SECONDS)
        self._stopping.set()
        for controller in self.controllers:
            controller.stop()

    def check(self) -> None:
        """Looks after Spark.

        Raises:
            SparkmirrorError: it did not start.
        """
        failure = self._session.exception() if self._session.done() else None
        if isinstance(failure, SparkmirrorError):
            raise failure
        if failure is not None:
            raise SparkmirrorError(f"Spark did not start: {type(failure).__name__}: {failure}") from failure

    def close(self) -> bool:
        """Stops Spark and deletes what was shipped.

        Returns:
            False if something is still under way, which ends with this process.
        """
        shutil.rmtree(self._directory, ignore_errors=True)
        started = self._session.done()
        if started and self._session.exception() is None:
            self._session.result().stop()
        self._pool.shutdown(wait=False, cancel_futures=True)
        return started and not self._unfinished

    def _controller(self, flow: FlowConfig, once: bool) -> Controller:
        return Controller(
            flow,
            file=self._config.file,
            run=self._run,
            run_shift=self._shift_runner(flow),
            cancel=lambda: self._cancel(flow),
            free_slots=self._free_slots,
            once=once,
        )

    def _shift_runner(self, flow: FlowConfig) -> Callable[[ShiftPlan], Receipts]:
        def run(plan: ShiftPlan) -> Receipts:
            while not self._session.done() and not self._stopping.is_set():
                wait([self._session], WAIT_SECONDS)
            if not self._session.done() or self._stopping.is_set():
                return not_started(plan)
            from sparkmirror.spark.job import run_shift

            return run_shift(self._session.result(), plan, self._settings_of(flow))

        return run

    def _settings_of(self, flow: FlowConfig) -> str:
        """Ships a flow's settings once."""
        from sparkmirror.spark.job import ship_settings

        name = str(flow.name)
        with self._shipping:
            if name not in self._shipped:
                file = f"{self._run}-{len(self._shipped)}.settings"
                self._shipped[name] = ship_settings(self._session.result(), flow, self._directory, file)
            return self._shipped[name]

    def _cancel(self, flow: FlowConfig) -> None:
        from sparkmirror.spark.job import cancel_flow

        if self._session.done() and self._session.exception() is None:
            cancel_flow(self._session.result(), self._run, str(flow.name))
