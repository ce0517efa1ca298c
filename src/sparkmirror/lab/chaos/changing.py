"""One run of changing over, from nothing to the report."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from sparkmirror.errors import LabError
from sparkmirror.lab.chaos.changeover import Changeover
from sparkmirror.lab.chaos.changes import rounds
from sparkmirror.lab.chaos.deeds import Diary, Tell
from sparkmirror.lab.chaos.ground import ground
from sparkmirror.lab.chaos.judging import Outcome
from sparkmirror.lab.chaos.naming import Naming
from sparkmirror.lab.chaos.supervision import Supervisor
from sparkmirror.lab.tally import Tally

LOG_LINES = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Changes:
    """A run.

    Attributes:
        command: with which it can be done again.
        naming: of the copies.
        outcomes: two of each round.
        problems: why it did not come to its end.
        starts: how often a mirror was started.
        seconds: from the first record to the last comparison.
        notes: what was done when.
    """

    command: str
    naming: Naming
    outcomes: Sequence[Outcome]
    problems: Sequence[str]
    starts: int
    seconds: float
    notes: Sequence[str]

    @property
    def clean(self) -> bool:
        """Whether everything is as promised."""
        return bool(self.outcomes) and not self.problems and not any(each.problems for each in self.outcomes)


def change_over(seed: int, count: int, naming: Naming, directory: Path, say: Tell) -> Changes:
    """Makes a run; whatever goes wrong with the product is in the result.

    Args:
        seed: everything follows from it.
        count: of rounds.
        naming: of the copies.
        directory: for everything; stays.
        say: is told what happens.

    Raises:
        LabError: the clusters could not be started.
    """
    diary = Diary(say)
    outcomes: list[Outcome] = []
    problems: list[str] = []
    with ground(directory, naming) as where:
        began = time.monotonic()
        logs = directory / "mirror"
        logs.mkdir()
        mirror = Supervisor(where.file, logs, options=(), spark=list, note=diary.note)
        try:
            changeover = Changeover(where, mirror, diary.note)
            for one in rounds(seed, count):
                outcomes.extend(changeover.go(one))
            code = mirror.stop()
            if code:
                problems.append(f"the mirror's exit code was {code}")
        except LabError as problem:
            problems.append(str(problem))
            diary.note(f"PROBLEM: {problem}; the mirror's log ends with\n{_end(mirror.output())}")
        finally:
            mirror.abandon()
        return Changes(
            command=f'make chaos ARGS="--seed {seed} --changeovers {count} --naming {naming}"',
            naming=naming,
            outcomes=outcomes,
            problems=problems,
            starts=mirror.starts,
            seconds=time.monotonic() - began,
            notes=diary.notes,
        )


def _end(output: str) -> str:
    """The last lines of a log, without the figures that are written every few seconds."""
    lines = [line for line in output.splitlines() if " cli.live " not in line]
    return "\n".join(lines[-LOG_LINES:])


def write(changes: Changes, directory: Path, name: str) -> tuple[Path, Path]:
    """Writes the report as JSON and as Markdown, and gives their paths."""
    directory.mkdir(parents=True, exist_ok=True)
    data, text = directory / f"{name}.json", directory / f"{name}.md"
    plain = asdict(changes) | {"clean": changes.clean, "naming": changes.naming.value}
    data.write_text(json.dumps(plain, indent=1) + "\n")
    text.write_text(markdown(changes))
    return data, text


def markdown(changes: Changes) -> str:
    """The report for readers."""
    moved = [each.moved for each in changes.outcomes]
    records = sum((each.tally for each in changes.outcomes), Tally())
    lines = [
        f"# Changing over: {'as promised' if changes.clean else 'NOT as promised'}",
        "",
        f"`{changes.command}`",
        "",
        f"{len(changes.outcomes)} changes in {changes.seconds:.0f} s; the mirror was started {changes.starts} times.",
        f"Lost {records.lost}, repeated {records.repeated}, reordered {records.reordered}, foreign {records.foreign}.",
        f"Read twice by groups {sum(each.repeated for each in moved)}, missed {sum(each.missed for each in moved)}.",
        "",
        *(f"- {problem}" for problem in changes.problems),
        *(f"- round {each.round}: {problem}" for each in changes.outcomes for problem in each.problems),
        "",
        f"| {' | '.join(_HEAD)} |",
        f"| {' | '.join('---' for _ in _HEAD)} |",
        *(_row(each) for each in changes.outcomes),
        "",
    ]
    return "\n".join(lines)


_HEAD = (
    "round",
    "change",
    "seconds",
    "records",
    "lost",
    "repeated",
    "reordered",
    "places of groups",
    "read twice",
    "missed",
    "known to be missing",
    "put aside",
)


def _row(each: Outcome) -> str:
    tally, groups = each.tally, each.moved
    cells = (
        each.round,
        each.what,
        each.report["seconds"],
        tally.records,
        tally.lost,
        tally.repeated,
        tally.reordered,
        each.places,
        groups.repeated,
        groups.missed,
        each.report["lost_records"],
        each.aside,
    )
    return f"| {' | '.join(map(str, cells))} |"
