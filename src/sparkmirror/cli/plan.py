"""``sparkmirror plan``: what a start of the flows would change on the clusters, as a diff, without changing anything.

The asking is done by :mod:`sparkmirror.flow.dry_run`; this file shows what it found.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import typer
from rich.console import Console

from sparkmirror.cli.exits import ExitCode
from sparkmirror.cli.options import Clusters, Files, Flow
from sparkmirror.cli.output import styled
from sparkmirror.duties.duty import Sign
from sparkmirror.flow.dry_run import Preview
from sparkmirror.printable import json_text

_STYLES = {Sign.ADD: "green", Sign.CHANGE: "cyan", Sign.REMOVE: "red", Sign.NOTE: "yellow"}


def plan(
    files: Files,
    flow: Flow = None,
    clusters: Clusters = None,
    as_json: Annotated[bool, typer.Option("--json", help="The changes, as one JSON object.")] = False,
) -> None:
    """Print what a start of the flows would change on both clusters, as a diff; changes nothing.

    Lines begin with + (made anew), ~ (changed), - (removed) or ! (not possible, or to be known).
    """
    from sparkmirror import config
    from sparkmirror.flow.dry_run import preview

    found = preview(config.load(files, clusters=clusters or (), flow=flow))
    if as_json:
        typer.echo(as_text(found))
    else:
        _show(found)
    if any(one.failure for one in found):
        raise typer.Exit(ExitCode.FAILED)


def as_text(found: Sequence[Preview]) -> str:
    """The changes as JSON text: ``{"flows": [{"name", "changes": [...], "failure"}]}``."""
    flows = [
        {
            "name": one.flow,
            "changes": [
                {"cluster": each.cluster, "sign": each.sign.value, "what": each.what, "detail": each.detail}
                for each in one.changes
            ],
            "failure": one.failure or None,
        }
        for one in found
    ]
    return json_text({"flows": flows}, indent=2)


def _show(found: Sequence[Preview]) -> None:
    console = Console()
    for one in found:
        made = sum(change.sign is not Sign.NOTE for change in one.changes)
        counted = f"{made} change{'' if made == 1 else 's'}" if made else "nothing to change"
        if one.failure:
            known = "not known in full" if one.changes else "not known"
            said = f"{one.flow}: what a start would change is {known}: {one.failure}"
            console.print(styled(said, style="bold red"), soft_wrap=True)
        else:
            console.print(styled(f"{one.flow}: {counted}", style="bold"), soft_wrap=True)
        for change in one.changes:
            console.print(styled(f"  {change.text}", style=_STYLES[change.sign]), soft_wrap=True)
