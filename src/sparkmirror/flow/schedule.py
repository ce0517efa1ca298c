"""Does the duties of a flow, each at its interval, in a thread with connections of its own.

Invariants: the copying never waits for a duty; a duty that fails is tried again at its next turn and stops no other; a
trouble is told once, and once more when it is over; what a duty did, and when, is on record in the internal topic.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence

from sparkmirror.config import FlowConfig, Side
from sparkmirror.duties.duty import Action, Duty, Result, Sides, Sign, do_round
from sparkmirror.errors import SparkmirrorError
from sparkmirror.flow.sides import connected
from sparkmirror.offsets.duty_records import DutyRound

log = logging.getLogger(__name__)

FREQUENT_SECONDS = 60.0
RETRY_SECONDS = 5.0
"""A round that failed as a whole is tried again after so long, or after its interval where that is shorter."""

MOST_RETRY_SECONDS = 60.0
HURRY_SECONDS = 1.0
TOLD_PROBLEMS = 20


class Schedule:
    """The duties of one flow that share a thread.

    Args:
        flow: the flow.
        roster: gives the duties.
        name: of the thread.
        note: takes what the operator should know.
        started: whether the flow has its internal topic, so that rounds go on record there.
        heed: hears of each action that was done.
        prove: raises where another driver has the flow; asked between look and apply.
        prove_at_once: the same, for duties that do what no broker refuses to a former owner.
    """

    def __init__(
        self,
        flow: FlowConfig,
        roster: Callable[[Sides], Sequence[Duty]],
        *,
        name: str,
        note: Callable[[str], None],
        started: bool = True,
        heed: Callable[[Action], None] = lambda _: None,
        prove: Callable[[], None] = lambda: None,
        prove_at_once: Callable[[], None] = lambda: None,
    ) -> None:
        self._flow = flow
        self._started = started
        self._roster = roster
        self._note = note
        self._heed = heed
        self._prove, self._prove_at_once = prove, prove_at_once
        self._stop = threading.Event()
        self._wake = threading.Event()
        self._hurried = False
        self._told: dict[str, tuple[str, ...]] = {}
        self._recorded: dict[str, tuple[str, ...]] = {}
        self._thread = threading.Thread(target=self._main, name=f"{name} {flow.name}", daemon=True)

    def start(self) -> None:
        """Begins, in a thread."""
        self._thread.start()

    def stop(self) -> None:
        """Asks it to end after the round that is under way; returns at once."""
        self._stop.set()
        self._wake.set()

    def hurry(self) -> None:
        """Asks for the next rounds in a moment: all brokers know of what was just changed then."""
        self._hurried = True
        self._wake.set()

    def join(self, seconds: float) -> bool:
        """Waits for the end, if it has begun; whether it came."""
        if self._thread.ident is None:
            return True
        self._thread.join(seconds)
        return not self._thread.is_alive()

    def once(self) -> tuple[str, ...]:
        """Does one round of each, in the caller's thread; gives what went wrong."""
        troubles: list[str] = []
        with connected(self._flow, role="duties", started=self._started) as sides:
            sides.prove = self._prove_at_once
            for duty in self._roster(sides):
                failed, _ = self._round(duty, sides)
                troubles += [f"{duty.name}: {text}" for text in failed]
        return tuple(troubles)

    def _main(self) -> None:
        with connected(self._flow, role="duties", started=self._started) as sides:
            sides.prove = self._prove_at_once
            duties = self._roster(sides)
            due = dict.fromkeys(range(len(duties)), 0.0)
            failures = dict.fromkeys(range(len(duties)), 0)
            while duties and not self._stop.is_set():
                number = min(due, key=lambda each: due[each])
                self._wake.wait(max(0.0, due[number] - time.monotonic()))
                self._wake.clear()
                if self._hurried:
                    self._hurried, soon = False, time.monotonic() + HURRY_SECONDS
                    due = {each: min(then, soon) for each, then in due.items()}
                if self._stop.is_set() or due[number] > time.monotonic():
                    continue
                duty = duties[number]
                _, whole = self._round(duty, sides)
                failures[number] = 0 if whole else failures[number] + 1
                due[number] = time.monotonic() + _pause(duty.interval_s or 0.0, failures[number])

    def _round(self, duty: Duty, sides: Sides) -> tuple[tuple[str, ...], bool]:
        """One round: what went wrong, and whether it was done at all."""
        results: Sequence[Result] = ()
        whole = True
        try:
            results = do_round(duty, self._prove)
            problems = tuple(dict.fromkeys(self._granting(result.failure) for result in results if not result.done))
        except SparkmirrorError as failure:
            problems, whole = (self._granting(str(failure)),), False
        except Exception as defect:
            if self._stop.is_set():  # whoever stops does not wait for ever, and closes the connections then
                log.debug("%s was broken off", duty.name, exc_info=True, extra={"flow": str(self._flow.name)})
                return (), True
            log.exception("%s failed", duty.name, extra={"flow": str(self._flow.name)})
            problems, whole = (f"{type(defect).__name__}: {defect}",), False
        self._audit(results)
        shown = _shown(problems)
        self._tell(duty.name, shown)
        self._record(duty, results, shown, sides)
        return problems, whole

    def _granting(self, failure: str) -> str:
        """The same, where a right is missing with who lacks it and how to find out what else is needed."""
        if "to this user" not in failure:
            return failure
        source = f"cluster {self._flow.source.alias}" in failure
        end, side = (self._flow.source, Side.SOURCE) if source else (self._flow.target, Side.TARGET)
        user = end.admin.security.username or "of this client's certificate, or ANONYMOUS"
        return f"{failure} (the user is {user}; sparkmirror acls --for {side.value} prints all that it needs)"

    def _audit(self, results: Sequence[Result]) -> None:
        for result in results:
            change = result.action.change
            if result.done:
                self._heed(result.action)
            if result.done and change is not None:
                log.info("%s", change.text, extra={"flow": str(self._flow.name)})

    def _tell(self, name: str, problems: tuple[str, ...]) -> None:
        known = self._told.get(name, ())
        for text in problems:
            if text not in known:
                self._note(f"{name}: {text}")
        if known and not problems:
            self._note(f"{name}: works again")
        self._told[name] = problems

    def _record(self, duty: Duty, results: Sequence[Result], problems: tuple[str, ...], sides: Sides) -> None:
        """Puts the round on record; a frequent one only when something was changed, went wrong, or is right again."""
        changes = (result.action.change for result in results if result.done)
        changed = sum(change is not None and change.sign is not Sign.NOTE for change in changes)
        interval_s = duty.interval_s or 0.0
        news = changed or problems != self._recorded.get(duty.name)
        if sides.store is None or (interval_s < FREQUENT_SECONDS and not news):
            return
        record = DutyRound(
            name=duty.name,
            time_ms=int(time.time() * 1000),
            interval_s=interval_s,
            changed=changed,
            problems=problems,
        )
        try:
            sides.store.write([record])
        except SparkmirrorError as failure:
            log.debug("%s is not on record: %s", duty.name, failure, extra={"flow": str(self._flow.name)})
        else:
            self._recorded[duty.name] = record.problems


def _shown(problems: tuple[str, ...]) -> tuple[str, ...]:
    """The first of many problems, and how many more there are."""
    more = len(problems) - TOLD_PROBLEMS
    return problems if more <= 0 else (*problems[:TOLD_PROBLEMS], f"and {more} more like these")


def _pause(interval_s: float, failures: int) -> float:
    """Until the next round: the interval, or less after one that failed as a whole."""
    if not failures:
        return interval_s
    return min(interval_s, MOST_RETRY_SECONDS, RETRY_SECONDS * failures)
