"""Faults of the mirror: its workers, its driver, its executors, and a second one beside it."""

from __future__ import annotations

import os
import signal
import time

from sparkmirror.errors import LabError
from sparkmirror.lab.chaos.deeds import Tell
from sparkmirror.lab.chaos.schedule import Fault
from sparkmirror.lab.chaos.site import LONGEST_S, until
from sparkmirror.lab.chaos.standstill import Lookout
from sparkmirror.lab.chaos.supervision import Supervisor
from sparkmirror.lab.processes import command_line, descendants, is_there, send

SECOND_SECONDS = 40.0
LEAVE_SECONDS = 60.0
ZOMBIE_SECONDS = 60.0
SETTLED_SECONDS = 1.0


def kill_worker(fault: Fault, mirror: Supervisor, lookout: Lookout, tell: Tell) -> None:
    """One lane's worker is killed; others copy what it copied.

    Raises:
        LabError: nobody does.
    """
    before = _some(mirror, tell)
    victim = _pick(fault, before)
    os.kill(victim, signal.SIGKILL)
    tell(f"worker, pid {victim}, one of {len(before)}")
    _goes_on(mirror, lookout, time.monotonic(), tell)


def kill_driver(fault: Fault, mirror: Supervisor, tell: Tell) -> None:  # noqa: ARG001  # every fault is given
    """The driver's Python process is killed, and started again by its supervisor.

    Raises:
        LabError: it does not come back to work.
    """
    before = _some(mirror, tell)
    tell(f"driver, pid {mirror.pid}, with {len(before)} workers")
    mirror.kill()
    until(lambda: bool(set(mirror.workers()) - set(before)), "workers of a new driver")
    tell(f"new driver, pid {mirror.pid}")


def kill_driver_jvm(fault: Fault, mirror: Supervisor, tell: Tell) -> None:  # noqa: ARG001  # every fault is given
    """Spark's JVM beside the driver is killed; the driver cannot go on and has to end.

    Raises:
        LabError: it does not end (it is killed then), or does not come back to work.
    """
    before = _some(mirror, tell)
    driver = mirror.pid
    jvms = [pid for pid in descendants(driver) if "SparkSubmit" in command_line(pid)]
    tell(f"JVM, pid {jvms}, of driver {driver}")
    for pid in jvms:
        send(pid, signal.SIGKILL)
    try:
        until(lambda: not is_there(driver), "the driver without Spark ends", LEAVE_SECONDS)
    finally:
        send(driver, signal.SIGKILL)
    until(lambda: bool(set(mirror.workers()) - set(before)), "workers of a new driver")
    tell(f"new driver, pid {mirror.pid}")


def kill_executor(fault: Fault, mirror: Supervisor, tell: Tell) -> None:
    """One of Spark's executors is killed; Spark starts another.

    Raises:
        LabError: it does not.
    """
    until(lambda: bool(mirror.executors()), "an executor")
    before = sorted(mirror.executors())
    victim = _pick(fault, before)
    os.kill(victim, signal.SIGKILL)
    tell(f"executor, pid {victim}, one of {len(before)}")
    until(lambda: bool(set(mirror.executors()) - set(before)), "a new executor")


def make_zombie(fault: Fault, mirror: Supervisor, lookout: Lookout, tell: Tell) -> None:
    """One lane's worker is stopped until its partitions are copied by another, and continued then.

    Raises:
        LabError: nobody took its place.
    """
    before = _some(mirror, tell)
    victim = _pick(fault, before)
    os.kill(victim, signal.SIGSTOP)
    stopped = time.monotonic()
    tell(f"worker, pid {victim}, one of {len(before)}, is stopped")
    try:
        _goes_on(mirror, lookout, stopped, tell)
    finally:
        woken = send(victim, signal.SIGCONT)
    if not woken:
        tell("it is gone by then")
        return
    deadline = time.monotonic() + ZOMBIE_SECONDS
    while is_there(victim) and time.monotonic() < deadline:
        time.sleep(SETTLED_SECONDS / 10)
    tell("it was continued and lives on" if is_there(victim) else "it was continued and has ended")


def start_second(
    fault: Fault,  # noqa: ARG001  # every fault is given
    mirror: Supervisor,
    lookout: Lookout,
    tell: Tell,
) -> None:
    """Somebody starts the same file once more; of each flow one of the two has to give way.

    Then the second one is stopped, and the first one started anew if it is still there: a flow that it has lost does
    not come back by itself.

    Raises:
        LabError: one of them cannot be stopped, or nothing is copied afterwards.
    """
    first = mirror.pid
    second = mirror.another()
    tell(f"second driver, pid {second.pid}, beside {first}")
    deadline = time.monotonic() + SECOND_SECONDS
    while second.running and time.monotonic() < deadline:
        time.sleep(SETTLED_SECONDS / 10)
    left = mirror.pid_or_none() != first
    tell(f"the first one {'gave way' if left else 'stayed'}, the second one " + _state(second.code))
    if second.running:
        tell(f"the second one is stopped: exit code {second.stop(seconds=LEAVE_SECONDS)}")
    if mirror.pid_or_none() == first:
        send(first, signal.SIGTERM)
        until(lambda: mirror.pid_or_none() not in (first, None), "the first one is started anew")
    _goes_on(mirror, lookout, time.monotonic(), tell)


def _goes_on(mirror: Supervisor, lookout: Lookout, moment: float, tell: Tell) -> None:
    """Waits until something has come in every partition since a moment; a driver that lets one wait says why."""
    try:
        until(lambda: not lookout.still(moment + SETTLED_SECONDS), "every partition goes on")
    except LabError:
        driver = mirror.pid_or_none()
        if driver is not None:
            send(driver, signal.SIGUSR1)  # its log gets what every thread of it is at
        tell(f"nothing has come since in {', '.join(lookout.still(moment + SETTLED_SECONDS))}")
        raise
    tell(f"every partition goes on after {time.monotonic() - moment:.1f} s")


def _some(mirror: Supervisor, tell: Tell) -> list[int]:
    """The workers, once there are any."""
    if not mirror.workers():
        tell("no lane copies now: it waits for one")
    deadline = time.monotonic() + LONGEST_S
    while time.monotonic() < deadline:
        found = mirror.workers()
        if found:
            return sorted(found)
        time.sleep(SETTLED_SECONDS / 10)
    raise LabError(f"no lane copies for {LONGEST_S:.0f} s")


def _pick(fault: Fault, among: list[int]) -> int:
    return among[int(fault.pick * len(among))]


def _state(code: int | None) -> str:
    return "runs" if code is None else f"ended with {code}"
