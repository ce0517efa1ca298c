"""What a run was and what came of it, as JSON (everything) and Markdown (what a reader wants to know)."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from sparkmirror.lab.chaos.deeds import Deed, Diary
from sparkmirror.lab.chaos.schedule import Fault, Kind
from sparkmirror.lab.chaos.standstill import Standstill, longest
from sparkmirror.lab.chaos.verdict import Finding
from sparkmirror.lab.tally import Tally


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One run of the laboratory.

    Attributes:
        command: with which it can be done again.
        versions: of what took part.
        left_out: kinds of faults that could not be made, and why.
        faults: the schedule.
        diary: what was done.
        standstills: what the target showed meanwhile.
        seconds: from the first record to the end of the comparison.
        written: records that applications handed over.
        failures: topic to how often its application had to begin with a new producer.
        starts: how often a mirror was started.
        problems: what went wrong beside the copies: faults that could not be undone, a mirror that did not catch up.
        findings: the copies.
    """

    command: str
    versions: Mapping[str, str]
    left_out: Mapping[Kind, str]
    faults: Sequence[Fault]
    diary: Diary
    standstills: Sequence[Standstill]
    seconds: float
    written: int
    failures: Mapping[str, int]
    starts: int
    problems: Sequence[str]
    findings: Sequence[Finding]

    @property
    def clean(self) -> bool:
        """Whether everything is as promised."""
        return not self.problems and bool(self.findings) and all(finding.clean for finding in self.findings)

    @property
    def total(self) -> Tally:
        """Over all copies."""
        return sum((finding.tally for finding in self.findings), Tally())


def write(run: Run, directory: Path, name: str) -> tuple[Path, Path]:
    """Writes both forms and gives their paths."""
    directory.mkdir(parents=True, exist_ok=True)
    data, text = directory / f"{name}.json", directory / f"{name}.md"
    data.write_text(json.dumps(_plain(run), indent=1) + "\n")
    text.write_text(markdown(run))
    return data, text


def markdown(run: Run) -> str:
    """The report for readers."""
    total = run.total
    lines = [
        f"# Fault laboratory: {'as promised' if run.clean else 'NOT as promised'}",
        "",
        f"`{run.command}` · {', '.join(f'{name} {version}' for name, version in run.versions.items())}",
        "",
        f"{len(run.diary.deeds)} faults in {run.seconds:.0f} s; {total.records:,} records on the sources.",
        f"Lost {total.lost}, repeated {total.repeated}, reordered {total.reordered}, foreign {total.foreign}.",
        f"The mirror was started {run.starts} times.",
        "",
        *(f"- {problem}" for problem in run.problems),
        *([""] if run.problems else []),
        "| fault | done | longest standstill, s |",
        "| --- | --- | --- |",
        *_kinds(run),
        "",
        "The standstill is the longest time that any partition of the target did not grow while faults of that kind",
        "were made, which other faults may have lengthened: several are made side by side.",
        "",
        "| copy | records | lost | repeated | reordered | offsets mapped | |",
        "| --- | --- | --- | --- | --- | --- | --- |",
        *(_row(finding) for finding in run.findings),
        "",
    ]
    return "\n".join(lines)


def _kinds(run: Run) -> list[str]:
    rows = []
    for kind in Kind:
        deeds = [deed for deed in run.diary.deeds if deed.fault.kind is kind]
        if kind in run.left_out:
            rows.append(f"| {kind} | not made: {run.left_out[kind]} | |")
        elif deeds:
            stood = max(standstill(run, deed) for deed in deeds)
            rows.append(f"| {kind} | {len(deeds)} | {stood:.1f} |")
    return rows


def standstill(run: Run, deed: Deed) -> float:
    """The longest standstill while this fault was made."""
    return longest(run.standstills, deed.began, deed.ended)


def _row(finding: Finding) -> str:
    tally = finding.tally
    remark = "; ".join(each for each in (finding.difference, finding.map_problem) if each)
    figures = f"{tally.records:,} | {tally.lost} | {tally.repeated} | {tally.reordered} | {finding.mapped:,}"
    return f"| {finding.copy.flow} {finding.copy.topic} ({finding.copy.style}) | {figures} | {remark} |"


def _plain(run: Run) -> dict[str, Any]:
    return {
        "clean": run.clean,
        "command": run.command,
        "versions": dict(run.versions),
        "left_out": {kind.name: why for kind, why in run.left_out.items()},
        "seconds": round(run.seconds, 1),
        "written": run.written,
        "starts": run.starts,
        "problems": list(run.problems),
        "total": asdict(run.total),
        "schedule": [{**asdict(fault), "kind": fault.kind.name} for fault in run.faults],
        "done": [_deed(run, deed) for deed in run.diary.deeds],
        "standstills": [_standstill(run, each) for each in sorted(run.standstills, key=lambda each: each.began)],
        "applications": dict(run.failures),
        "copies": [{**asdict(finding), "clean": finding.clean} for finding in run.findings],
        "diary": run.diary.notes,
    }


def _standstill(run: Run, each: Standstill) -> dict[str, Any]:
    began, ended = (round(moment - run.diary.began, 1) for moment in (each.began, each.ended))
    return {"copy": each.topic, "partition": each.partition, "began_s": began, "ended_s": ended}


def _deed(run: Run, deed: Deed) -> dict[str, Any]:
    return {
        "number": deed.fault.number,
        "kind": deed.fault.kind.name,
        "began_s": round(deed.began - run.diary.began, 2),
        "undone_s": round(deed.ended - run.diary.began, 2),
        "standstill_s": round(standstill(run, deed), 1),
        "words": deed.words,
        "problem": deed.problem,
    }
