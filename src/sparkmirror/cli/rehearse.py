"""``sparkmirror rehearse``: whether a failover would work now; nothing is changed, and the exit code tells.

The looking is done by :mod:`sparkmirror.failover.rehearsal`, what it means is decided by
:mod:`sparkmirror.failover.verdict`; this file shows it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from sparkmirror.cli import figures
from sparkmirror.cli.exits import ExitCode
from sparkmirror.cli.options import Clusters, Files, Flow, finite
from sparkmirror.cli.output import styled
from sparkmirror.cli.tables import table_console
from sparkmirror.failover.group_outcomes import GroupOutcome, Offset
from sparkmirror.failover.recovery_point import RecoveryPoint
from sparkmirror.failover.verdict import UNVERIFIABLE, Look, notes, problems, recovery_ms, standing_still
from sparkmirror.failover.verifying import Verdict
from sparkmirror.model import NO_OFFSET
from sparkmirror.printable import json_text

GROUPS_SHOWN, PARTITIONS_SHOWN, PROBLEMS_SHOWN = 30, 5, 20


def rehearse(
    files: Files,
    flow: Flow = None,
    clusters: Clusters = None,
    group: Annotated[
        list[str] | None, typer.Option("--group", metavar="GROUP", help="Only this consumer group; may be repeated.")
    ] = None,
    timeout: Annotated[
        float, typer.Option("--timeout", min=1, callback=finite, metavar="SECONDS", help="For all of it.")
    ] = 120.0,
    as_json: Annotated[bool, typer.Option("--json", help="Everything, as one JSON object.")] = False,
) -> None:
    """Look whether a failover to the target would work now, and change nothing.

    Both clusters, this user's rights, the flow, what is not copied yet, and for each consumer group whether its
    translated offsets lead to the right records, which are read on both sides. The exit code is 0 when all is well and
    1 when something would go wrong.
    """
    from sparkmirror import config
    from sparkmirror.failover.rehearsal import rehearse as look_at

    looks = look_at(config.load(files, clusters=clusters or (), flow=flow), group or (), timeout)
    if as_json:
        typer.echo(json_text({"flows": [as_dict(look) for look in looks]}, indent=2))
    else:
        console = table_console()
        for look in looks:
            show(look, console)
    if any(problems(look) for look in looks):
        raise typer.Exit(ExitCode.FAILED)


def verdict_line(look: Look) -> str:
    """The answer in one line."""
    found = problems(look)
    answer = f"would NOT go well ({_counted(len(found), 'reason')})" if found else "would work"
    took = figures.span(recovery_ms(look))
    return (
        f"a failover now {answer}: {_missing(look)}; {_verified(look)}; {took} to read the record, translate and verify"
    )


def _missing(look: Look) -> str:
    if look.known is None:
        return "what would be missing is not known"
    point = look.point
    if not point.records:
        return "no record would be missing"
    age = "" if point.time_ms is None else f" of up to {figures.span(point.time_ms)}"
    return f"{_counted(point.records, 'record')}{age} would be missing"


def _verified(look: Look) -> str:
    counts = look.verdicts
    said = [f"{counts[Verdict.VERIFIED]} verified"]
    for verdict, words in (
        (Verdict.GONE, "at records that are gone"),
        (Verdict.INEXACT, "that MirrorMaker 2 copied"),
        (Verdict.THINNED, "where the offset map is thinned"),
        (Verdict.WRONG, "WRONG"),
        (Verdict.UNREADABLE, "that could not be read"),
        (Verdict.LATE, "not verified in time"),
    ):
        said += [f"{counts[verdict]} {words}"] if counts[verdict] else []
    without = look.offsets - counts.total()
    said += [f"{without} without a translation"] if without else []
    return f"{_counted(len(look.groups), 'group')}, {_counted(look.offsets, 'offset')}: {', '.join(said)}"


def _counted(number: int, what: str) -> str:
    return f"{figures.count(number)} {what}{'' if number == 1 else 's'}"


def show(look: Look, console: Console) -> None:
    """Prints what was found of a flow: the answer first, then what it is made of."""
    found = problems(look)
    console.print(
        styled(f"{look.flow.name}: {verdict_line(look)}", style="bold red" if found else "bold"), soft_wrap=True
    )
    for line in found[:PROBLEMS_SHOWN]:
        console.print(styled(f"  ! {line}", style="red"), soft_wrap=True)
    if len(found) > PROBLEMS_SHOWN:
        console.print(styled(f"  ! and {len(found) - PROBLEMS_SHOWN} more (--json names them)", style="red"))
    for line in notes(look):
        console.print(styled(f"  {line}", style="yellow"), soft_wrap=True)
    console.print(styled(f"  {_flow_line(look)}", style="dim"), soft_wrap=True)
    if look.point.partitions:
        console.print(partition_table(look.point))
    if look.groups:
        console.print(group_table(look.groups))
    console.print()


def _flow_line(look: Look) -> str:
    said = [f"the flow is {look.state}"]
    for one in look.connections:
        if one.found is not None:
            version = ".".join(map(str, one.found.version))
            said.append(f"{one.alias} as {', '.join(one.roles)}: {one.found.cluster_id}, {version} or newer")
    return "; ".join(said)


def partition_table(point: RecoveryPoint) -> Table:
    """The partitions that are furthest behind."""
    table = _table("topic-partition", "position", "records that wait", "for")
    for one in point.partitions[:PARTITIONS_SHOWN]:
        age = figures.span(one.waits_ms)
        table.add_row(styled(str(one.partition)), figures.count(one.position), figures.count(one.records), age)
    if hidden := len(point.partitions) - PARTITIONS_SHOWN:
        table.caption = f"and {hidden} more that are behind (--json)" if hidden > 0 else None
    return table


def group_table(groups: Sequence[GroupOutcome]) -> Table:
    """One row for each group, those with problems first, then those that would read most again."""
    table = _table("group", "offsets", "verified", "gone", "WRONG", "read again", "skipped", "ahead")
    ranked = sorted(groups, key=lambda group: (not group.problems, -group.repeats - group.ahead))
    for group in ranked[:GROUPS_SHOWN]:
        counts = group.verdicts
        wrong = counts[Verdict.WRONG]
        table.add_row(
            styled(group.group, style="red" if group.problems else ""),
            figures.count(group.copied),
            figures.count(counts[Verdict.VERIFIED]),
            figures.count(sum(counts[verdict] for verdict in UNVERIFIABLE)),
            styled(figures.count(wrong), style="bold red" if wrong else ""),
            *(figures.count(number) for number in (group.repeats, group.skips, group.ahead)),
        )
    if len(ranked) > GROUPS_SHOWN:
        table.caption = f"and {len(ranked) - GROUPS_SHOWN} more groups (--json names them)"
    return table


def _table(*columns: str) -> Table:
    table = Table(box=None, pad_edge=True, header_style="dim", caption_justify="left")
    for number, column in enumerate(columns):
        table.add_column(column, justify="right" if number else "left", no_wrap=True)
    return table


def as_dict(look: Look) -> dict[str, Any]:
    """Everything that was found of a flow, for scripts."""
    found = problems(look)
    record = look.known.flow if look.known is not None else None
    return {
        "flow": str(look.flow.name),
        "works": not found,
        "verdict": verdict_line(look),
        "problems": found,
        "notes": notes(look),
        "state": look.state,
        "recorded_ids": None if record is None else {"source": record.source_id, "target": record.target_id},
        "connections": [one.as_json() for one in look.connections],
        "lacking_rights": [lack.text for lack in look.lacks],
        "standing_still": {str(place): reason for place, reason in standing_still(look).items()},
        "absent_copies": look.absent,
        "without_leader": [str(place) for place in look.leaderless],
        "missing": {
            "records": look.point.records if look.known is not None else None,
            "ms": look.point.time_ms if look.known is not None else None,
            "partitions": [
                {
                    "topic": one.partition.topic,
                    "partition": one.partition.partition,
                    "position": one.position,
                    "records": one.records,
                    "ms": one.waits_ms,
                }
                for one in look.point.partitions
            ],
        },
        "recovery_ms": recovery_ms(look),
        "took_ms": dict(look.took_ms),
        "late": look.late or bool(look.verdicts[Verdict.LATE]),
        "offsets": {"all": look.offsets} | _counts(look.verdicts),
        "groups": [_group(group) for group in look.groups],
    }


def _counts(verdicts: Any) -> dict[str, int]:
    return {verdict.name.lower(): verdicts[verdict] for verdict in Verdict}


def _group(group: GroupOutcome) -> dict[str, Any]:
    return {
        "group": group.group,
        "repeats": group.repeats,
        "skips": group.skips,
        "ahead": group.ahead,
        "problems": group.problems,
        "offsets": {"all": group.copied} | _counts(group.verdicts),
        "partitions": [_offset(one) for one in group.offsets],
    }


def _offset(one: Offset) -> dict[str, Any]:
    line, finding = one.line, one.finding
    return {
        "topic": line.partition.topic if line.partition else None,
        "partition": line.partition.partition if line.partition else None,
        "target_topic": line.target.topic if line.target else None,
        "standing": line.standing.name.lower().replace("_", "-"),
        "text": line.text,
        "committed": figures.known(line.committed),
        "translated": figures.known(line.translated),
        "there": figures.known(line.there),
        "verdict": None if finding is None else finding.verdict.name.lower(),
        "detail": None if finding is None else finding.detail,
        "compared": None
        if finding is None or NO_OFFSET in (finding.source, finding.target)
        else {"source": finding.source, "target": finding.target, "before": finding.before},
        "left_out": None if finding is None else figures.known(finding.left_out),
        "hindrance": one.hindrance or None,
        "repeats": one.repeats,
        "skips": one.skips,
        "ahead": one.ahead,
    }
