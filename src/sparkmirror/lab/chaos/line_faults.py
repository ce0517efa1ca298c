"""Faults of the lines between the mirror and the brokers: cut, slow, held up, half dead."""

from __future__ import annotations

import time

from sparkmirror.lab.chaos.deeds import Tell
from sparkmirror.lab.chaos.schedule import Fault, Kind
from sparkmirror.lab.chaos.site import Site
from sparkmirror.lab.link import Link, Way

ALL_OF_THEM = 0.75
"""A pick above it means all lines of the cluster."""

_WAYS = {1: (Way.TO_BROKER,), 2: (Way.FROM_BROKER,), 3: tuple(Way)}


def disturb(fault: Fault, site: Site, tell: Tell) -> None:
    """One line, or all lines to a cluster, are disturbed for a while.

    Raises:
        LabError: a line does not answer.
    """
    lines = _lines(fault, site)
    ways = _WAYS[fault.ways]
    try:
        for link in lines.values():
            _begin(fault, link, ways)
        how = {
            Kind.CUT: "cut",
            Kind.SLOW: f"each byte is {fault.amount:.0f} ms on its way",
            Kind.HOLD: f"bytes {' and '.join(way.value for way in ways)} wait",
            Kind.HALF_OPEN: f"bytes {' and '.join(way.value for way in ways)} vanish",
        }[fault.kind]
        tell(f"to broker {', '.join(map(str, lines))} of {fault.side}, for {fault.lasts_s} s: {how}")
        time.sleep(fault.lasts_s)
    finally:
        for link in lines.values():
            link.mend()


def _lines(fault: Fault, site: Site) -> dict[int, Link]:
    links = site.clusters[fault.side].links
    if fault.pick >= ALL_OF_THEM:
        return links
    chosen = sorted(links)[int(fault.pick / ALL_OF_THEM * len(links))]
    return {chosen: links[chosen]}


def _begin(fault: Fault, link: Link, ways: tuple[Way, ...]) -> None:
    match fault.kind:
        case Kind.CUT:
            link.cut()
        case Kind.SLOW:
            link.slow(fault.amount)
        case Kind.HOLD:
            link.hold(*ways)
        case _:
            link.lose(*ways)
