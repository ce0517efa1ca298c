"""``sparkmirror hand-over``: MirrorMaker 2 goes on where stopped flows were.

The work is done by :mod:`sparkmirror.flow.moving_out`; this file shows what was written.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from sparkmirror.cli import figures
from sparkmirror.cli.options import Files, Flow
from sparkmirror.cli.output import styled
from sparkmirror.cli.tables import table_console

if TYPE_CHECKING:
    from sparkmirror.flow.moving_out import HandedOver


def hand_over(
    files: Files,
    flow: Flow = None,
    offsets_topic: Annotated[
        str,
        typer.Option("--offsets-topic", metavar="TOPIC", help="Where Kafka Connect keeps MirrorMaker 2's positions."),
    ] = "",
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only tell what would be written.")] = False,
) -> None:
    """Write the positions of stopped flows where MirrorMaker 2 finds them.

    It then goes on with the same file. Both must be stopped; a flow that was handed over starts again with
    --take-over mm2.
    """
    from sparkmirror import config
    from sparkmirror.flow import moving_out

    loaded = config.load(files, flow=flow)
    found = [moving_out.hand_over(one, loaded.file, topic=offsets_topic, dry_run=True) for one in loaded.flows]
    if not dry_run:
        found = [moving_out.hand_over(one, loaded.file, topic=offsets_topic) for one in loaded.flows]
    for one in found:
        _show(one, dry_run=dry_run)


def _show(one: HandedOver, *, dry_run: bool) -> None:
    console = table_console()
    verb = "would be written" if dry_run else "written"
    created = f", which {'would be' if dry_run else 'was'} created" if one.created else ""
    title = f"{one.flow}: {len(one.stored)} positions {verb} to {one.topic} on {one.cluster}{created}"
    console.print(styled(title, style="bold"), soft_wrap=True)
    table = Table(box=None, pad_edge=False, header_style="dim")
    table.add_column("topic-partition", no_wrap=True)
    table.add_column("last copied", justify="right", no_wrap=True)
    for stored in one.stored:
        table.add_row(styled(str(stored.partition)), figures.count(stored.offset))
    console.print(table)
