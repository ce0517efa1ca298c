"""Faults of the mirror: its workers, its driver, its executors, a second one beside it, and clean ends."""

from __future__ import annotations

import os
import re
import signal
import threading
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass

from confluent_kafka import KafkaException
from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource

from sparkmirror.errors import LabError
from sparkmirror.lab.chaos.deeds import Tell
from sparkmirror.lab.chaos.schedule import Fault
from sparkmirror.lab.chaos.site import LONGEST_S, Copy, Site, until
from sparkmirror.lab.chaos.standstill import Lookout
from sparkmirror.lab.chaos.supervision import Supervisor
from sparkmirror.lab.processes import command_line, descendants, is_there, send, sockets

SECOND_SECONDS = 40.0
LEAVE_SECONDS = 60.0
ZOMBIE_SECONDS = 60.0
SETTLED_SECONDS = 1.0
ANSWER_SECONDS = 30.0

SPARK_SOCKETS = 3
"""Of a worker that copies nothing. A lane has connections to brokers too, which it closes when its shift ends."""

_LIMIT = "max.message.bytes"
_TOO_SMALL = "90"
"""For every record of the applications, not for the control record of a fence, which takes 78 bytes."""
_RIGHT = "1048588"


@dataclass(frozen=True, slots=True)
class Driver:
    """The mirror's driver, to be stopped cleanly.

    Attributes:
        mirror: who starts it again.
        lookout: what it copies.
        alone: whether at most one fault was made since a moment of the monotonic clock.
    """

    mirror: Supervisor
    lookout: Lookout
    alone: Callable[[float], bool]

    def restart(self, began: float, tell: Tell, *, paused: Collection[int] = (), pause_s: float = 0.0) -> None:
        """Stops the driver as an operator would, and waits until it is started again.

        Args:
            began: when the fault began, on the monotonic clock: what other faults did since excuses an exit code.
            tell: takes what happens.
            paused: workers that stand still for a moment from just before the stop on.
            pause_s: how long.

        Raises:
            LabError: it did not end in time, its exit code was not 0, or it was not started again.
        """
        first = self.mirror.pid
        for worker in paused:
            send(worker, signal.SIGSTOP)
        waking = threading.Timer(pause_s, _wake, (paused,))
        waking.start()
        try:
            code = self.mirror.end()
        finally:
            waking.join()
        meanwhile = f"; workers {list(paused)} were paused for {pause_s:.1f} s meanwhile" if paused else ""
        tell(f"driver, pid {first}, exit code {code} after SIGTERM{meanwhile}")
        if code and self.alone(began):
            raise LabError(f"driver, pid {first}: its exit code was {code} after SIGTERM")
        until(lambda: self.mirror.pid_or_none() not in (first, None), "the driver is started again")

    def goes_on(self, moment: float, tell: Tell, *, idle: Collection[str] = ()) -> None:
        """Waits until something has come in every partition since a moment; a driver that lets one wait says why.

        Raises:
            LabError: nothing has.
        """
        _goes_on(self.mirror, self.lookout, moment, tell, idle=idle)


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


def heal_and_stop(fault: Fault, site: Site, driver: Driver, tell: Tell) -> None:
    """A copied topic's partitions stop, are helped, and go on in other lanes; then the driver is stopped cleanly.

    That happens while the lanes that stopped still run, so that both lanes of a partition end at the same time. The
    workers of those that ran before the stop may be paused at the end: their lanes then publish last.

    Raises:
        LabError: the partitions did not stop or go on, or the driver did not end cleanly.
    """
    began, mirror = time.monotonic(), driver.mirror
    _some(mirror, tell)
    among = [copy for copy in site.copies if copy.target is fault.side]
    copy = among[int(fault.pick * len(among))]
    said = len(mirror.output())
    _limit(site, copy, _TOO_SMALL)
    try:
        until(lambda: all_stand(copy, mirror.output()[said:]), f"every partition of {copy.copy} stands still")
        before = {worker: sockets(worker) for worker in mirror.workers()}
    finally:
        _limit(site, copy, _RIGHT)
    stood = time.monotonic()
    tell(f"every partition of {copy.copy} stood still after {stood - began:.1f} s; its {_LIMIT} is right again")
    driver.goes_on(stood, tell)
    time.sleep(fault.lasts_s)
    old = [worker for worker, had in before.items() if len(had & sockets(worker)) > SPARK_SOCKETS]
    tell(f"{len(old)} lanes from before the stop still run")
    driver.restart(began, tell, paused=() if fault.ways == 1 else old, pause_s=fault.amount / 1000)
    driver.goes_on(time.monotonic(), tell)


def all_stand(copy: Copy, output: str) -> bool:
    """Whether the mirror has said of each partition that it stands still; some errors name the partition themselves."""
    places = (re.escape(f"{copy.topic}-{number}") for number in range(copy.partitions))
    return all(re.search(rf"\b{place} stands still|stands still: {place}\b", output) for place in places)


def _limit(site: Site, copy: Copy, size: str) -> None:
    """Sets the largest batch that a copy takes; tries again while other faults keep its brokers away."""
    wanted = ConfigEntry(_LIMIT, size, incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ConfigResource.Type.TOPIC, copy.copy, incremental_configs=[wanted])
    client = site.client(copy.target)

    def is_set() -> bool:
        try:
            for future in client.incremental_alter_configs([resource]).values():
                future.result(ANSWER_SECONDS)
        except (KafkaException, TimeoutError):
            return False
        return True

    until(is_set, f"cluster {copy.target}: {_LIMIT} of {copy.copy} is {size}")


def make_right(site: Site) -> None:
    """Sets the limits of all copies once more: a broker that was paused may have set a wrong one late.

    Raises:
        LabError: a cluster does not take them.
    """
    for copy in site.copies:
        _limit(site, copy, _RIGHT)


def _wake(workers: Collection[int]) -> None:
    for worker in workers:
        send(worker, signal.SIGCONT)


def _goes_on(mirror: Supervisor, lookout: Lookout, moment: float, tell: Tell, *, idle: Collection[str] = ()) -> None:
    """Waits until something has come in every partition since a moment; a driver that lets one wait says why.

    Nothing is expected in those that are idle.
    """
    try:
        until(lambda: set(lookout.still(moment + SETTLED_SECONDS)) <= set(idle), "every partition goes on")
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
