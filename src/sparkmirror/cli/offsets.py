"""``sparkmirror offsets``: what a group's offsets are on the other side of a flow.

The work is done by :mod:`sparkmirror.flow.translating`; this file shows it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from sparkmirror.cli import figures
from sparkmirror.cli.exits import ExitCode
from sparkmirror.cli.options import Files, OneFlow, one_flow
from sparkmirror.cli.output import say, styled
from sparkmirror.cli.tables import table_console
from sparkmirror.model import NO_OFFSET
from sparkmirror.printable import json_text

if TYPE_CHECKING:
    from sparkmirror.flow.translating import Line


def offsets(
    files: Files,
    group: Annotated[str, typer.Option("--group", metavar="GROUP", help="A consumer group.")],
    flow: OneFlow = None,
    topic: Annotated[
        list[str] | None,
        typer.Option("--topic", metavar="TOPIC", help="Only this topic, by its name where the group is; repeatable."),
    ] = None,
    reverse: Annotated[bool, typer.Option("--reverse", help="From the target to the source.")] = False,
    apply: Annotated[bool, typer.Option("--apply", help="Commit them on the other side.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="As one JSON object.")] = False,
) -> None:
    """Translate what a group has committed on one side of a flow into offsets of the other side.

    Each offset is exact, or the reason is given why there is none. With --apply they are committed there, for a group
    that has no members there; the command then ends with 1 if a partition was left out.
    """
    from sparkmirror.flow.translating import open_translator

    chosen, _ = one_flow(files, flow)
    with open_translator(chosen) as translator:
        lines = translator.translate_group(group, topic or (), reverse=reverse)
        unchecked = translator.unchecked
        applied = translator.apply(group, lines, reverse=reverse) if apply else None
    there = chosen.source.alias if reverse else chosen.target.alias
    missing = sum(line.offset == NO_OFFSET for line in lines)
    if as_json:
        said = {
            "flow": str(chosen.name),
            "group": group,
            "to": there,
            "applied": applied,
            "partitions": [_as_dict(line) for line in lines],
            "unchecked": unchecked or None,
        }
        typer.echo(json_text(said, indent=2))
    else:
        _print(lines, there)
        if unchecked:
            say(unchecked)
        if applied is not None:
            say(f"{applied} offsets committed for group {group} on cluster {there}, {missing} left out")
    if apply and missing:
        raise typer.Exit(ExitCode.FAILED)


def _as_dict(line: Line) -> dict[str, object]:
    return {
        "topic": line.partition.topic,
        "partition": line.partition.partition,
        "committed": line.committed,
        "to_topic": line.other.topic if line.other else None,
        "offset": figures.known(line.offset),
        "text": line.text,
        "there": figures.known(line.there),
    }


def _print(lines: Sequence[Line], there: str) -> None:
    console = table_console()
    table = Table(box=None, pad_edge=False, header_style="dim")
    table.add_column("topic-partition", no_wrap=True)
    for column in ("committed", f"on {there}", "it has there"):
        table.add_column(styled(column), justify="right", no_wrap=True)
    table.add_column("what lies there")
    for line in lines:
        offset, now = figures.count(figures.known(line.offset)), figures.count(figures.known(line.there))
        table.add_row(styled(str(line.partition)), figures.count(line.committed), offset, now, styled(line.text))
    console.print(table)
