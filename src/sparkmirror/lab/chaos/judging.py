"""Whether a change kept what is promised: its report, the logs of both clusters and what groups have committed there.

Invariants: a record that the report says was copied is there once and in order; nothing is there that it says was not;
what only the old source has is kept as was asked for; no group reads again what it had committed when it was seen
last, none misses what is there.
"""

from __future__ import annotations

import base64
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from sparkmirror.failover.states import Keep
from sparkmirror.lab.chaos.accounts import Log, Moved, Standing, compared, moved
from sparkmirror.lab.chaos.changes import Round
from sparkmirror.lab.chaos.ground import GROUPS, TOPICS, Ground
from sparkmirror.lab.chaos.production import Style
from sparkmirror.lab.chaos.schedule import Side
from sparkmirror.lab.tally import Tally, number_of

SEEN_S = 15.0
"""Groups are looked at every second; a mirror that was just started, or stalls, takes longer."""

EVERYTHING = sys.maxsize


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What came of one change.

    Attributes:
        round: its number.
        what: the command.
        report: of the product.
        tally: of the records that had to be there.
        moved: of all groups and partitions.
        places: in which groups were moved.
        aside: records that only the old source has.
        problems: what is not as promised.
    """

    round: int
    what: str
    report: Mapping[str, Any]
    tally: Tally
    moved: Moved
    places: int
    aside: int = 0
    problems: Sequence[str] = ()

    @property
    def line(self) -> str:
        """For the diary."""
        counts, groups = self.tally, self.moved
        return (
            f"{self.what}: {counts.records} records, lost {counts.lost}, repeated {counts.repeated}, reordered "
            f"{counts.reordered}, foreign {counts.foreign}; {self.places} places of groups, read twice "
            f"{groups.repeated}, missed {groups.missed}; known to be missing {self.report['lost_records']}, "
            f"put aside {self.aside}; {self.report['seconds']} s"
        )


@dataclass(slots=True)
class Books:
    """What is known over all rounds.

    Attributes:
        ground: where.
        born: the sessions of applications, by the side that they wrote to.
        left_out: ranges of offsets of a, by topic and partition, that are on no other cluster.
    """

    ground: Ground
    born: dict[Side, set[int]] = field(default_factory=lambda: {side: set() for side in Side})
    left_out: dict[tuple[str, int], list[range]] = field(default_factory=dict)
    _logs: dict[tuple[Side, str], dict[int, Log]] = field(default_factory=dict)
    """Of one judgement: each is read once."""

    def after_failover(self, one: Round, report: Mapping[str, Any], killed_ms: int) -> Outcome:
        """Holds it against a's own logs, which are back.

        Raises:
            LabError: something cannot be read.
        """
        below = {(each["topic"], each["partition"]): each["copied_up_to"] for each in report["partitions"]}
        tally, problems = self._copied(Side.A, below)
        problems += self._seen(report, killed_ms)
        return self._outcome(one, report, Side.A, tally, problems, planned=False)

    def after_switchover(self, one: Round, report: Mapping[str, Any]) -> Outcome:
        """Everything has to be on b.

        Raises:
            LabError: something cannot be read.
        """
        tally, problems = self._copied(Side.A, None)
        return self._outcome(one, report, Side.A, tally, problems, planned=True)

    def after_failback(self, one: Round, report: Mapping[str, Any]) -> Outcome:
        """Everything that was written on b has to be on a, and what only a had has to be kept.

        Raises:
            LabError: something cannot be read.
        """
        ranges: dict[tuple[str, int], list[range]] = {}
        for each in report["divergent"]:
            some = ranges.setdefault((each["topic"], each["partition"]), [])
            some.append(range(each["first"], each["last"] + 1))
        aside, problems = self._kept(one, report, ranges)
        for place, some in ranges.items():
            self.left_out.setdefault(place, []).extend(some)
        tally, more = self._copied(Side.B, None)
        return self._outcome(one, report, Side.B, tally, [*problems, *more], planned=True, aside=aside)

    # -------------------------------------------------------------------------------------------------------- records

    def _copied(self, source: Side, below: Mapping[tuple[str, int], int] | None) -> tuple[Tally, list[str]]:
        total, problems = Tally(), []
        other = _other(source)
        for topic, style in TOPICS.items():
            copy = self.ground.copy(topic, source)
            here, there = self.ground.log(source, topic), self.ground.log(other, copy)
            for number in here:
                counted = compared(
                    here[number],
                    there.get(number, ()),
                    self.born[source],
                    below=EVERYTHING if below is None else below.get((topic, number), 0),
                    left_out=self.left_out.get((topic, number), ()) if source is Side.A else (),
                    compacted=style is Style.COMPACTED,
                )
                total += counted
                if not counted.clean:
                    problems.append(f"{copy}-{number}: {counted}")
        return total, problems

    def _kept(
        self, one: Round, report: Mapping[str, Any], ranges: Mapping[tuple[str, int], Sequence[range]]
    ) -> tuple[int, list[str]]:
        """Counts what only a has, and looks whether it is kept as was asked for."""
        problems, count = [], 0
        kept_in = {(each["topic"], each["partition"]): each["kept_in"] for each in report["divergent"]}
        for (topic, number), some in ranges.items():
            log = self.ground.log(Side.A, topic)[number]
            wanted = [entry.id for entry in log if any(entry.offset in each for each in some)]
            count += len(wanted)
            if one.keep is Keep.TOPIC:
                found = [entry.id for entry in self.ground.log(Side.A, kept_in[topic, number]).get(number, ())]
            elif one.keep is Keep.EXPORT:
                place = Path(report["directory"]) / f"{report['id']}.{topic}-{number}.jsonl"
                found = [
                    number_of(base64.b64decode(json.loads(line)["value"])) for line in place.read_text().splitlines()
                ]
            else:
                found = wanted
            if found != wanted:
                problems.append(f"{topic}-{number}: {len(wanted)} records are aside, {len(found)} are kept")
        return count, problems

    # --------------------------------------------------------------------------------------------------------- groups

    def _outcome(
        self,
        one: Round,
        report: Mapping[str, Any],
        left: Side,
        tally: Tally,
        problems: list[str],
        *,
        planned: bool,
        aside: int = 0,
    ) -> Outcome:
        problems += [str(trouble) for trouble in report["troubles"]]
        if planned and report["lost_records"]:
            problems.append(f"the report says that {report['lost_records']} records are lost")
        twice, missed, places = 0, 0, 0
        for each, standing, name, there in self._standings(report, left, problems, planned=planned):
            number = each["partition"]
            here_log, there_log = self._log(left, each["topic"])[number], self._log(_other(left), there)[number]
            done = moved(here_log, there_log, standing)
            further = each["text"].startswith("the group is further")
            twice, missed, places = twice + done.repeated, missed + (0 if further else done.missed), places + 1
            if done.repeated or (done.missed and not further):
                problems.append(f"{name} in {each['topic']}-{number}: {standing}: {done} ({each['text']})")
        self._logs.clear()
        return Outcome(
            round=one.number,
            what=f"{report['kind']} {report['from']} to {report['to']}",
            report=report,
            tally=tally,
            moved=Moved(twice, missed),
            places=places,
            aside=aside,
            problems=tuple(problems),
        )

    def _log(self, side: Side, topic: str) -> dict[int, Log]:
        if (side, topic) not in self._logs:
            self._logs[side, topic] = self.ground.log(side, topic)
        return self._logs[side, topic]

    def _standings(
        self, report: Mapping[str, Any], left: Side, problems: list[str], *, planned: bool
    ) -> Iterator[tuple[Mapping[str, Any], Standing, str, str]]:
        """Where groups stand on both sides, of which the report says that they were moved."""
        told = {each["group"]: each for each in report["groups"]}
        brought = TOPICS if left is Side.A else self.ground.read_on(left)  # copies of b are no business of a->b
        for group in GROUPS:
            here, there = self.ground.committed(left, group), self.ground.committed(_other(left), group)
            if group not in told or not told[group]["moved"]:
                problems.append(f"{group} was not moved")
                continue
            known = {(each["topic"], each["partition"]): each for each in told[group]["partitions"]}
            if planned:
                problems += [f"{group} is in {place}, and the report is silent" for place in here.keys() - known.keys()]
            for place, each in known.items():
                if place[0] not in brought:
                    continue
                if planned and here.get(place) != each["committed"]:
                    problems.append(f"{group} stands at {here.get(place)} in {place}, not at {each['committed']}")
                elif here.get(place, 0) < each["committed"]:
                    problems.append(f"{group} never was at {each['committed']} in {place}")
                target = (each["target_topic"], place[1])
                if target not in there:
                    problems.append(f"{group} has no offset in {target}: {each['text']}")
                    continue
                yield each, Standing(here=each["committed"], there=there[target]), group, target[0]

    def _seen(self, report: Mapping[str, Any], killed_ms: int) -> list[str]:
        """Groups were seen shortly before the source was killed."""
        problems = []
        for each in report["groups"]:
            if each["source_seen"] == "never":
                problems.append(f"{each['group']} was never seen")
                continue
            seen = datetime.fromisoformat(each["source_seen"]).timestamp() * 1000
            if killed_ms - seen > SEEN_S * 1000:
                problems.append(f"{each['group']} was seen last {(killed_ms - seen) / 1000:.1f} s before the end of a")
        return problems


def _other(side: Side) -> Side:
    return Side.B if side is Side.A else Side.A
