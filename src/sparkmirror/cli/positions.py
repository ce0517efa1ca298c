"""``sparkmirror positions show|set|reset``: where the partitions of a flow go on.

The work is done by :mod:`sparkmirror.flow.repositioning`; this file reads places and shows what becomes of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from datetime import datetime
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from sparkmirror.cli import figures
from sparkmirror.cli.options import Files, OneFlow, one_flow
from sparkmirror.cli.output import say, styled
from sparkmirror.cli.tables import table_console
from sparkmirror.printable import json_text

if TYPE_CHECKING:
    from sparkmirror.flow.repositioning import Standing, Wanted

app = typer.Typer(
    add_completion=False,
    pretty_exceptions_enable=False,
    no_args_is_help=True,
    help="Show where the partitions of a flow go on, and change it, whether the flow runs or not.",
)

Topic = Annotated[str, typer.Option("--topic", metavar="TOPIC", help="A topic, by its name on the source.")]
Partition = Annotated[int | None, typer.Option("--partition", min=0, help="Only this partition of it.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Only tell what would change.")]


@app.command()
def show(
    files: Files,
    flow: OneFlow = None,
    topic: Annotated[
        list[str] | None, typer.Option("--topic", metavar="TOPIC", help="Only this topic; may be repeated.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="As one JSON object.")] = False,
) -> None:
    """Show for each partition the next source offset to copy, and what the source has."""
    from sparkmirror.flow import repositioning

    one, _ = one_flow(files, flow)
    found = repositioning.show(one, tuple(topic or ()))
    if as_json:
        typer.echo(json_text({"flow": str(one.name), "partitions": [_as_dict(each) for each in found]}, indent=2))
    else:
        _print(found)


@app.command("set")
def set_(
    files: Files,
    topic: Topic,
    to: Annotated[
        str,
        typer.Option("--to", metavar="PLACE", help="earliest, latest, an offset, or a time (ISO 8601)."),
    ],
    partition: Partition = None,
    flow: OneFlow = None,
    dry_run: DryRun = False,
) -> None:
    """Change where a topic goes on. A flow that runs obeys within seconds.

    Going back copies records once more, behind those that are there; going on leaves records out.
    """
    _move(files, flow, topic, partition, _place(to), dry_run=dry_run)


@app.command()
def reset(
    files: Files, topic: Topic, partition: Partition = None, flow: OneFlow = None, dry_run: DryRun = False
) -> None:
    """Let a topic begin anew, where the configuration says."""
    from sparkmirror.flow.repositioning import Place

    _move(files, flow, topic, partition, Place.CONFIGURED, dry_run=dry_run)


def _move(files: Files, flow: str | None, topic: str, partition: int | None, to: Wanted, *, dry_run: bool) -> None:
    from sparkmirror.flow import repositioning

    one, file = one_flow(files, flow)
    found, effect, waiting = repositioning.move(one, file, topic, partition, to, dry_run=dry_run)
    _print(found)
    for text in (*(each.lost for each in found if each.lost), *(f"waits for the next start: {why}" for why in waiting)):
        say(text)
    again, skipped = sum(each.again for each in found), sum(each.skipped for each in found)
    said = [f"{again} offsets are copied once more" * bool(again), f"{skipped} offsets are left out" * bool(skipped)]
    means = " and ".join(each for each in said if each) or "nothing is copied twice or left out"
    if dry_run:
        means = f"would be: {means}"
    elif effect is not repositioning.Effect.NONE:
        means = f"{means}; {effect.value}"
    say(means)


def _place(text: str) -> Wanted:
    from sparkmirror.config.beginnings import milliseconds
    from sparkmirror.flow.repositioning import Exactly, Moment, Place

    if text in (Place.EARLIEST.value, Place.LATEST.value):
        return Place(text)
    if text.isdecimal():
        return Exactly(int(text))
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise typer.BadParameter(f"{text!r} is neither earliest nor latest, an offset, or a time (ISO 8601)") from None
    if moment.tzinfo is None:
        raise typer.BadParameter(f"{text!r} has no zone: write Z or an offset such as +01:00 behind it")
    return Moment(milliseconds(moment))


def _as_dict(one: Standing) -> dict[str, object]:
    said = asdict(one) | {"topic": one.partition.topic, "partition": one.partition.partition}
    del said["to"]
    said["position"] = None if one.position < 0 else one.position
    return said


def _print(found: Sequence[Standing]) -> None:
    console = table_console()
    table = Table(box=None, pad_edge=False, header_style="dim")
    table.add_column("topic-partition", no_wrap=True)
    for column in ("position", "new position", "source from", "source to"):
        table.add_column(column, justify="right", no_wrap=True)
    for one in found:
        moved = figures.count(one.to) if one.to != one.position else ""
        position = figures.count(None if one.position < 0 else one.position)
        table.add_row(styled(str(one.partition)), position, moved, figures.count(one.first), figures.count(one.end))
    console.print(table)
