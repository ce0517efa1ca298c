"""All flows of one process: one Spark session, one controller for each flow, a clean end for all.

Invariants: every enabled flow is started, and one that fails does not stop the others; the end waits for each, with a
deadline.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import threading
import time
import uuid
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

from sparkmirror.config import FlowConfig, MirrorConfig
from sparkmirror.copy.plan import ShiftPlan
from sparkmirror.flow.controller import Controller
from sparkmirror.flow.shift import Receipts
from sparkmirror.flow.states import ENDED
from sparkmirror.flow.view import FlowView
from sparkmirror.spark.session import Session, open_session

SPARE_SLOTS = 8
END_SECONDS = 9.0


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
        self._directory = Path(tempfile.mkdtemp(prefix="sparkmirror-run-"))
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="spark")
        cores = os.cpu_count() or 1
        self._free_slots = max(1, cores // max(1, len(config.flows)))
        slots = SPARE_SLOTS + 2 * sum(flow.tasks_max or self._free_slots for flow in config.flows)
        self._session: Future[Session] = self._pool.submit(open_session, master, slots)
        self._shipped: dict[str, str] = {}
        self._shipping = threading.Lock()
        self.controllers = tuple(self._controller(flow, once) for flow in config.flows)

    @property
    def views(self) -> Sequence[FlowView]:
        """What the flows show of themselves."""
        return tuple(controller.view for controller in self.controllers)

    @property
    def running(self) -> bool:
        """Whether a flow has not ended."""
        return any(controller.view.state not in {state.value for state in ENDED} for controller in self.controllers)

    @property
    def failed(self) -> tuple[Controller, ...]:
        """The flows that failed."""
        return tuple(controller for controller in self.controllers if controller.failure is not None)

    def start(self) -> None:
        """Starts every flow."""
        for controller in self.controllers:
            controller.start()

    def stop(self) -> None:
        """Asks every flow to drain and end."""
        for controller in self.controllers:
            controller.stop()

    def close(self) -> None:
        """Waits for the ends, stops Spark, deletes what was shipped."""
        deadline = time.monotonic() + END_SECONDS
        for controller in self.controllers:
            controller.join(max(0.0, deadline - time.monotonic()))
        shutil.rmtree(self._directory, ignore_errors=True)
        if self._session.done() and self._session.exception() is None:
            self._session.result().stop()
        self._pool.shutdown(wait=False, cancel_futures=True)

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
