"""Loss of data on the target while nothing is written to the topics that lose it, and the lanes begin with new epochs.

The lane's first batch then comes to a log that has lost its tail, led by a broker that led it before. Where the frail
topics have two partitions, the one comes back to its former leader and the other to its former follower.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

from sparkmirror.errors import LabError
from sparkmirror.lab.chaos.broker_faults import elect_preferred, elect_unclean
from sparkmirror.lab.chaos.deeds import Tell
from sparkmirror.lab.chaos.mirror_faults import Driver
from sparkmirror.lab.chaos.production import Application
from sparkmirror.lab.chaos.schedule import Fault
from sparkmirror.lab.chaos.site import LONGEST_S, Site
from sparkmirror.lab.chaos.verdict import caught_up

HANDED_OVER_SECONDS = 1.0
"""Until what an application handed to its producer is on the source; what comes later does no harm."""


@dataclass(frozen=True, slots=True)
class Idle:
    """Makes the frail topics idle and the target lose their tails.

    Attributes:
        site: where.
        driver: is restarted meanwhile.
        applications: all of them.
    """

    site: Site
    driver: Driver
    applications: Sequence[Application]

    def tear(self, fault: Fault, tell: Tell) -> None:
        """The frail topics are idle, the driver is restarted, their tails are lost, the former leaders lead again.

        Raises:
            LabError: it did not come to that, or nothing is copied afterwards.
        """
        try:
            elect_unclean(fault, self.site, tell, lambda: self._restart_idle(fault, tell))
            elect_preferred(self.site, tell)
        finally:
            for each in self._frail_applications():
                each.go_on()
        tell("their applications write again")
        self.driver.goes_on(time.monotonic(), tell)

    def _restart_idle(self, fault: Fault, tell: Tell) -> None:
        began = time.monotonic()
        for each in self._frail_applications():
            each.pause()
        idle = {f"{copy.copy}-{number}" for copy in self.site.frail for number in range(copy.partitions)}
        time.sleep(HANDED_OVER_SECONDS)
        missing = caught_up(self.site, self.site.frail, LONGEST_S)
        if missing:
            raise LabError(f"not copied within {LONGEST_S:.0f} s of the last write: {missing}")
        tell(f"everything is copied, {time.monotonic() - began:.1f} s after the last write")
        self.driver.restart(began, tell)
        self.driver.goes_on(time.monotonic(), tell, idle=idle)
        time.sleep(fault.lasts_s)

    def _frail_applications(self) -> list[Application]:
        topics = {copy.topic for copy in self.site.frail}
        return [each for each in self.applications if each.topic in topics]
