"""One flow's life: opens it, keeps its lanes in shifts, picks up topics, retries what stopped, ends it cleanly.

A thread of its own, and the only one that changes the flow's state; shifts run in threads of a pool and are looked at
once a tick. Decisions about positions are pure and lie in `positions` and ``copy.plan``.

A flow that is held drains and ends as it would when it is stopped, and then waits to be released.

Invariants: a partition belongs to one lane at a time; whatever ends without a receipt is taken up again under a raised
writer epoch from its last progress; a failing part never stops the copying of the others.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace

from sparkmirror.config import FlowConfig
from sparkmirror.duties import roster
from sparkmirror.duties.configs import Alter
from sparkmirror.duties.duty import Action
from sparkmirror.errors import ConfigError, FencedError, HeldError, LinkError, SparkmirrorError
from sparkmirror.flow.connections import placed
from sparkmirror.flow.copying import Copying
from sparkmirror.flow.desk import Desk
from sparkmirror.flow.event_log import EventLog
from sparkmirror.flow.facts import PROPERTIES, LookAtTarget
from sparkmirror.flow.identities import Identities
from sparkmirror.flow.opening import Opened, check_held, held_text, open_flow
from sparkmirror.flow.room import Room
from sparkmirror.flow.schedule import Schedule
from sparkmirror.flow.shift import RunShift
from sparkmirror.flow.states import ENDED, FlowState, follow
from sparkmirror.flow.unasked import Unasked
from sparkmirror.flow.view import FlowView
from sparkmirror.kafka import admin
from sparkmirror.kafka.cluster import Cluster
from sparkmirror.kafka.store import Store
from sparkmirror.naming import internal_topic
from sparkmirror.offsets.orders import HoldOrder

log = logging.getLogger(__name__)

TICK_SECONDS = 0.1
REST_SECONDS = 1.5
"""Of the time that a stop may take, for what follows the lanes' end: duties that are under way, and the last record."""

OPEN_AGAIN_SECONDS = 5.0
MOST_OPEN_AGAIN_SECONDS = 30.0
HELD_SECONDS = 2.0
"""Between two looks at whether a flow that is held has been released."""

REACH_MS = 5_000
DUTIES_SECONDS = 1.0
"""How long the end of a flow waits for its duties' rounds; what is under way then is done again by the next run."""

SHIFT_THREADS = 256


class Controller:
    """Runs one flow.

    Args:
        config: of the flow.
        file: the configuration file, for messages.
        run: the run's name, the same for every flow of the process.
        run_shift: runs one shift on Spark and waits for it; called from threads.
        cancel: cancels what `run_shift` runs, given the flow's name.
        cancel_shift: cancels one of them, given its name.
        room: how many lanes the flow may have now.
        identities: knows which cluster each alias of the run is.
        once: copy to the end that the sources have at the start, then end.
    """

    def __init__(
        self,
        config: FlowConfig,
        *,
        file: str,
        run: str,
        run_shift: RunShift,
        cancel: Callable[[], None],
        cancel_shift: Callable[[str], None],
        room: Callable[[], Room],
        identities: Identities,
        once: bool,
    ) -> None:
        self.config = config
        self.name = str(config.name)
        self.failure: SparkmirrorError | None = None
        self._file = file
        self._run = run
        self._once = once
        self._run_shift = run_shift
        self._cancel = cancel
        self._cancel_shift = cancel_shift
        self._room = room
        self._identities = identities
        self._state = FlowState.STARTING
        self._stop = threading.Event()
        self._hindrance = ""
        self._openings = 0
        self._events = EventLog(self.name)
        self._view = FlowView(name=self.name, state=self._state.value)
        self._thread = threading.Thread(target=self._main, name=f"flow {self.name}", daemon=True)

    def start(self, trouble: SparkmirrorError | None = None) -> None:
        """Begins, in a thread.

        Args:
            trouble: what will keep the flow from beginning, as far as is known.
        """
        if trouble is not None:
            self._hinder(str(trouble))
        self._thread.start()

    def give_up(self, failure: SparkmirrorError) -> None:
        """Ends the flow before it has begun."""
        self.failure = failure
        self._events.note(str(failure))
        self._end()

    def stop(self) -> None:
        """Asks the flow to drain and end; returns at once."""
        self._stop.set()

    def join(self, seconds: float) -> bool:
        """Waits for the end; whether it came."""
        self._thread.join(seconds)
        return not self._thread.is_alive()

    @property
    def view(self) -> FlowView:
        """What the flow shows of itself at this moment."""
        return self._view

    def _main(self) -> None:
        source = target = None
        try:
            source = Cluster(self.config.source.alias, self.config.source.admin, role="driver")
            target = Cluster(self.config.target.alias, self.config.target.admin, role="driver")
            source.notice = target.notice = self._events.note
            again = True
            while again and not self._stop.is_set():
                opened = self._open(source, target)
                again = opened is not None and self._copy(opened, source, target)
                self._openings += 1
                if again:
                    self._state = follow(self._state, FlowState.STARTING)
        except SparkmirrorError as failure:
            self.failure = failure
            self._events.note(str(failure))
        except Exception as defect:
            log.exception("%s failed", self.name, extra={"flow": self.name})
            self.failure = SparkmirrorError(f"{self.name}: {type(defect).__name__}: {defect}")
        finally:
            for cluster in (source, target):
                if cluster is not None:
                    cluster.close()
            self._end()

    def _open(self, source: Cluster, target: Cluster) -> Opened | None:
        """Opens the flow; what may pass or be mended is tried again, unless the copy is for once.

        Raises:
            SparkmirrorError: it cannot be opened, or could not until it was stopped.
        """
        began, pause, held = time.monotonic(), OPEN_AGAIN_SECONDS, False
        known = Store(target, internal_topic(self.config.name), REACH_MS)
        while not self._stop.is_set():
            try:
                # Asked for a moment first: a stop need not wait for the long deadlines then.
                for cluster in (source, target):
                    admin.cluster_id(cluster, REACH_MS)
                opened = self._open_once(source, target)
            except ConfigError:
                raise
            except FencedError as failure:  # it would take the flow back from who came later
                raise SparkmirrorError(f"{self.name}: another run has taken the flow over: {failure}") from failure
            except SparkmirrorError as failure:
                if self._once:
                    raise
                reason = _rather_held(self.config, known, failure)
                held = isinstance(reason, HeldError)
                self._cannot_begin(reason, time.monotonic() - began, HELD_SECONDS if held else pause)
                pause = OPEN_AGAIN_SECONDS if held else min(MOST_OPEN_AGAIN_SECONDS, 2 * pause)
            else:
                self._hinder("")
                return opened
        if self._hindrance and not held:
            raise SparkmirrorError(f"{self.name} was stopped before it could begin: {self._hindrance}")
        return None

    def _open_once(self, source: Cluster, target: Cluster) -> Opened:
        """Opens the flow; one that has never run takes over what MirrorMaker 2 has left of it."""
        ours = (self.config, source, target, self._file, self._run, self._identities)
        unasked = Unasked(self.config, source, target, self._file)
        opened = open_flow(*ours, elsewhere=unasked.look)
        event = unasked.take_over(opened)
        if event is None:
            return opened
        self._events.note(event.text)
        return open_flow(*ours)

    def _cannot_begin(self, failure: SparkmirrorError, seconds: float, pause: float) -> None:
        """Tells why, and waits until the next try; that a flow is held is told once."""
        text = str(placed(failure, self._file, self.config) if isinstance(failure, LinkError) else failure)
        if text == self._hindrance and not isinstance(failure, HeldError):
            told = (text, seconds, pause)
            log.warning("%s (still so after %.0f s, next try in %.0f s)", *told, extra={"flow": self.name})
        self._hinder(text)
        self._stop.wait(pause)

    def _hinder(self, text: str) -> None:
        """Shows what keeps the flow from beginning, in the place of what did before; "" for nothing any more."""
        if text != self._hindrance:
            self._events.withdraw(self._hindrance)
        if self._hindrance and not text:
            log.info("can begin now", extra={"flow": self.name})
        self._hindrance = text
        if text:
            self._events.note(text)
        self._show(FlowState.STARTING)

    def _copy(self, opened: Opened, source: Cluster, target: Cluster) -> bool:
        """Copies until it is told to end; whether it may begin again: it is held, or other things may be copied."""
        if not opened.clean:
            lost = "the internal topic or __transaction_state has lost its end"
            reason = lost if opened.lost_runs else "the last run did not end cleanly"
            log.info("%s: taking partitions over, from what the target has", reason, extra={"flow": self.name})
        with ThreadPoolExecutor(SHIFT_THREADS, thread_name_prefix=f"shift {self.name}") as pool:
            desk = Desk(
                run=self._run,
                opening=self._openings,
                once=self._once,
                room=self._room,
                run_shift=self._run_shift,
                cancel_shift=self._cancel_shift,
                pool=pool,
            )
            copying = Copying(self.config, opened, source, target, desk, self._events.note)
            schedules = self._schedules(opened)
            try:
                self._begin(copying)
                for schedule in schedules:
                    schedule.start()
                while not self._stop.is_set() and not self._ends(copying, opened):
                    copying.tick()
                    self._view = copying.view(self._state.value, self._events.newest)
                    self._stop.wait(TICK_SECONDS)
                held = None
                if not copying.superseded:
                    held = None if self._stop.is_set() or copying.finished else opened.store.state.held
                    for schedule in schedules:
                        schedule.stop()
                    self._finish(copying, opened.store)
                if copying.superseded:
                    held = self._taken_by_an_operator(copying, opened.store)
            finally:
                self._cancel()
                deadline = time.monotonic() + DUTIES_SECONDS
                for schedule in schedules:
                    schedule.stop()
                for schedule in schedules:
                    schedule.join(max(0.0, deadline - time.monotonic()))
            if held is not None and self._once:
                raise HeldError(f"{self.name} {held_text(held)}")
            return held is not None or copying.begins_anew

    def _ends(self, copying: Copying, opened: Opened) -> bool:
        """Whether the copying has come to an end, for good or until the flow is opened again."""
        return copying.finished or copying.begins_anew or opened.store.state.held is not None

    def _taken_by_an_operator(self, copying: Copying, store: Store) -> HoldOrder | None:
        """The hold of an operation that did not wait for this driver; None when it is to end anyway.

        Raises:
            SparkmirrorError: another run has taken the flow.
        """
        with suppress(SparkmirrorError):
            store.follow()
        if store.state.held is None:
            raise SparkmirrorError(f"{self.name}: {copying.superseded}")
        if self._state is not FlowState.DRAINING:
            self._state = follow(self._state, FlowState.DRAINING)
        return None if self._stop.is_set() else store.state.held

    def _schedules(self, opened: Opened) -> tuple[Schedule, ...]:
        """What the flow does beside its copying. A copy for once does its duties once, at its end."""
        facts, store = opened.facts, opened.store
        look = Schedule(
            self.config,
            lambda sides: (LookAtTarget(sides, facts),),
            name="facts",
            note=self._events.note,
            started=False,
        )
        if self._once:
            return (look,)

        def heed(action: Action) -> None:
            if isinstance(action, Alter) and action.name in PROPERTIES:
                look.hurry()

        return look, *(
            Schedule(
                self.config,
                duties,
                name=name,
                note=self._events.tell,
                heed=heed,
                prove=store.prove,
                prove_at_once=store.prove_at_once,
            )
            for name, duties in (("upkeep", roster.upkeep), ("pulse", roster.pulse))
        )

    def _begin(self, copying: Copying) -> None:
        """Begins the copy; tried again like the opening."""
        while not self._stop.is_set():
            try:
                copying.begin()
            except ConfigError:
                raise
            except SparkmirrorError as failure:
                if self._once:
                    raise
                self._events.note(str(failure))
                if copying.superseded:
                    return
                self._stop.wait(OPEN_AGAIN_SECONDS)
            else:
                self._state = follow(self._state, FlowState.RUNNING)
                return

    def _finish(self, copying: Copying, store: Store) -> None:
        if not copying.finished:
            self._state = follow(self._state, FlowState.DRAINING)
        copying.end(self.config.stop_timeout_ms / 1000 - REST_SECONDS)
        self._view = copying.view(self._state.value, self._events.newest)
        unfinished = copying.errors()
        if self._once and unfinished:
            place, error = next(iter(unfinished.items()))
            more = f" ({len(unfinished) - 1} more like this)" if len(unfinished) > 1 else ""
            self.failure = SparkmirrorError(f"{self.name}: {place} was not copied to its end: {error}{more}")
        elif self._once and not self._stop.is_set():
            upkeep = Schedule(
                self.config,
                roster.upkeep,
                name="upkeep",
                note=self._events.tell,
                prove=store.prove,
                prove_at_once=store.prove_at_once,
            )
            troubles = upkeep.once()
            if troubles:
                self.failure = SparkmirrorError(f"{self.name}: {troubles[0]}")

    def _end(self) -> None:
        if self.failure is not None:
            self._state = FlowState.FAILED
        elif self._state not in ENDED:
            self._state = FlowState.STOPPED if self._stop.is_set() else FlowState.DONE
        self._show(self._state)

    def _show(self, state: FlowState) -> None:
        self._view = replace(self._view, state=state.value, events=self._events.newest)


def _rather_held(config: FlowConfig, known: Store, failure: SparkmirrorError) -> SparkmirrorError:
    """That a flow is held says more than that its source is away, which is why it is held as a rule."""
    if not isinstance(failure, LinkError) or failure.cluster != config.source.alias:
        return failure
    try:
        known.follow()
        check_held(config, known.state)
    except HeldError as held:
        return held
    except SparkmirrorError:
        return failure
    return failure
