"""Does the faults of a schedule at their moments, side by side where they do not touch.

Invariant: a resource has one fault at a time; the next one waits until the one before is undone. Those that wait at the
same resource come in the order of the schedule.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from typing import TypeAlias, TypeVar

from sparkmirror.errors import LabError
from sparkmirror.lab.chaos import broker_faults, idle_faults, line_faults, mirror_faults
from sparkmirror.lab.chaos.deeds import Diary, Tell
from sparkmirror.lab.chaos.production import Application
from sparkmirror.lab.chaos.schedule import Fault, Kind, Resource
from sparkmirror.lab.chaos.site import Site
from sparkmirror.lab.chaos.standstill import Lookout
from sparkmirror.lab.chaos.supervision import Supervisor

Where = TypeVar("Where")
Doing: TypeAlias = Callable[[Fault, Tell], None]


def hands(
    site: Site, mirror: Supervisor, applications: Sequence[Application], lookout: Lookout, diary: Diary
) -> Mapping[Kind, Doing]:
    """Who does what."""
    on_brokers = partial(_with, broker_faults.stop_or_kill, site)
    on_lines = partial(_with, line_faults.disturb, site)
    driver = mirror_faults.Driver(mirror, lookout, diary.alone)
    idle = idle_faults.Idle(site, driver, applications)
    return {
        Kind.KILL_WORKER: lambda fault, tell: mirror_faults.kill_worker(fault, mirror, lookout, tell),
        Kind.KILL_DRIVER: partial(_with, mirror_faults.kill_driver, mirror),
        Kind.KILL_DRIVER_JVM: partial(_with, mirror_faults.kill_driver_jvm, mirror),
        Kind.KILL_EXECUTOR: partial(_with, mirror_faults.kill_executor, mirror),
        Kind.ZOMBIE: lambda fault, tell: mirror_faults.make_zombie(fault, mirror, lookout, tell),
        Kind.SECOND_DRIVER: lambda fault, tell: mirror_faults.start_second(fault, mirror, lookout, tell),
        Kind.STOP_BROKER: on_brokers,
        Kind.KILL_BROKER: on_brokers,
        Kind.UNCLEAN: partial(_with, broker_faults.elect_unclean, site),
        Kind.UNCLEAN_BACK: partial(_with, broker_faults.elect_unclean, site),
        Kind.DISK_FULL: partial(_with, broker_faults.fill_disk, site),
        Kind.CUT: on_lines,
        Kind.SLOW: on_lines,
        Kind.HOLD: on_lines,
        Kind.HALF_OPEN: on_lines,
        Kind.BROKER_CLOCK: partial(_with, broker_faults.step_clock, site),
        Kind.HEALED_STOP: lambda fault, tell: mirror_faults.heal_and_stop(fault, site, driver, tell),
        Kind.TORN_IDLE: idle.tear,
    }


def _with(do: Callable[[Fault, Where, Tell], None], where: Where, fault: Fault, tell: Tell) -> None:
    do(fault, where, tell)


def conduct(faults: Sequence[Fault], doing: Mapping[Kind, Doing], diary: Diary) -> None:
    """Does all faults; returns when the last is undone."""
    began = time.monotonic()
    locks = {resource: threading.Lock() for resource in Resource}
    rows = {resource: [fault for fault in faults if fault.resource is resource] for resource in Resource}
    threads = [
        threading.Thread(target=_row, args=(row, doing, diary, began, locks), name=str(resource), daemon=True)
        for resource, row in rows.items()
        if row
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def _row(
    row: Sequence[Fault],
    doing: Mapping[Kind, Doing],
    diary: Diary,
    began: float,
    locks: Mapping[Resource, threading.Lock],
) -> None:
    for fault in row:
        time.sleep(max(0.0, began + fault.at_s - time.monotonic()))
        with ExitStack() as held:
            for resource in fault.resources:
                held.enter_context(locks[resource])
            deed = diary.open(fault)
            try:
                doing[fault.kind](fault, partial(diary.tell, deed))
            except (LabError, OSError) as problem:
                diary.close(deed, str(problem) or type(problem).__name__)
            else:
                diary.close(deed)
