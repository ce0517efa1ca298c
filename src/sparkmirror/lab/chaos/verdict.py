"""What arrived: every partition of every copy compared with its source, by clients that others wrote."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sparkmirror.errors import LabError
from sparkmirror.lab import offset_map
from sparkmirror.lab.chaos.site import Copy, Site
from sparkmirror.lab.referee import compare
from sparkmirror.lab.tally import Tally, ids_of, tally_all

TAIL_OFFSETS = 60
"""More than the control records that takeovers leave at the end of a partition in which nothing else is written."""

LOOK_SECONDS = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One copy against its source.

    Attributes:
        copy: the topic.
        tally: of all partitions.
        worst: partitions that are not clean, with their counts.
        difference: what the referee says of keys, values, headers and timestamps; "" when both are equal.
        mapped: records whose place the offset map told rightly.
        map_problem: the first that it did not; "" when there is none.
    """

    copy: Copy
    tally: Tally
    worst: Mapping[int, Tally]
    difference: str
    mapped: int
    map_problem: str

    @property
    def clean(self) -> bool:
        """Whether everything is as promised."""
        return self.tally.clean and not self.difference and not self.map_problem and self.mapped == self.tally.records


def caught_up(site: Site, copies: Sequence[Copy], seconds: float) -> str:
    """Waits until the last record of every source partition is on the target; the sources may not grow any more.

    Returns:
        what is still missing when the time is over; "" when nothing is.

    Raises:
        LabError: a source cannot be read.
    """
    wanted = {copy.topic: _last(site.servers(copy.source), copy.topic) for copy in copies}
    missing = dict.fromkeys(copies, "not looked at")
    deadline = time.monotonic() + seconds
    while missing and time.monotonic() < deadline:
        time.sleep(LOOK_SECONDS)
        for copy in tuple(missing):
            missing[copy] = _behind(site, copy, wanted[copy.topic])
            if not missing[copy]:
                del missing[copy]
    return "; ".join(f"{copy.copy}: {words}" for copy, words in missing.items())


def judge(site: Site) -> tuple[Finding, ...]:
    """Compares all copies; what cannot be read counts as a difference."""
    return tuple(_finding(site, copy) for copy in site.copies)


def _finding(site: Site, copy: Copy) -> Finding:
    here, there = site.servers(copy.source), site.servers(copy.target)
    parts = tally_all(ids_of(here, copy.topic), ids_of(there, copy.copy))
    (referee,) = compare(here, there, {copy.topic: copy.copy})
    mapped, problem = 0, ""
    try:
        clusters = site.clusters
        source, target = clusters[copy.source], clusters[copy.target]
        mapped = offset_map.check(source, target, copy.topic, copy.copy, copy.internal)
    except LabError as wrong:
        problem = str(wrong)
    return Finding(
        copy=copy,
        tally=sum(parts.values(), Tally()),
        worst={number: each for number, each in parts.items() if not each.clean},
        difference=referee.difference,
        mapped=mapped,
        map_problem=problem,
    )


def _last(servers: str, topic: str) -> dict[int, int]:
    """The id of the last record of each partition that holds one."""
    return {number: ids[-1] for number, ids in ids_of(servers, topic, last=TAIL_OFFSETS).items() if ids}


def _behind(site: Site, copy: Copy, wanted: Mapping[int, int]) -> str:
    try:
        has = _last(site.servers(copy.target), copy.copy)
    except LabError as problem:
        return str(problem)
    behind = [number for number, last in wanted.items() if has.get(number) != last]
    return f"the last records of partitions {behind}" if behind else ""
