"""``sparkmirror wait``: waits until all that the sources have now is copied; the exit code tells whether it is.

The waiting is done by :mod:`sparkmirror.flow.completion`; this file shows it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from sparkmirror.cli.exits import ExitCode
from sparkmirror.cli.options import Clusters, Files, Flow, finite
from sparkmirror.cli.output import say

if TYPE_CHECKING:
    from sparkmirror.flow.completion import Left


def wait(
    files: Files,
    caught_up: Annotated[
        bool, typer.Option("--caught-up", help="Wait until everything that the sources have now is copied.")
    ] = False,
    topic: Annotated[
        list[str] | None, typer.Option("--topic", metavar="TOPIC", help="Only this topic; may be repeated.")
    ] = None,
    timeout: Annotated[
        float, typer.Option("--timeout", min=0, callback=finite, metavar="SECONDS", help="0 for one look.")
    ] = 3600.0,
    flow: Flow = None,
    clusters: Clusters = None,
) -> None:
    """Wait until the flows have copied everything that their sources have now.

    What is produced after the command was started is not waited for. The exit code is 0 when all is copied, 1 when it
    is not in time.
    """
    if not caught_up:
        raise typer.BadParameter("say what to wait for: --caught-up")
    from sparkmirror import config
    from sparkmirror.flow import completion

    told: dict[str, str] = {}

    def tell(left: tuple[Left, ...]) -> None:
        for one in left:
            line = _line(one)
            if told.get(one.flow) != line:
                told[one.flow] = line
                say(line)

    loaded = config.load(files, clusters=clusters or (), flow=flow)
    if not all(one.complete for one in completion.wait(loaded, tuple(topic or ()), timeout, tell)):
        raise typer.Exit(ExitCode.FAILED)


def _line(left: Left) -> str:
    if left.complete:
        return f"{left.flow}: complete"
    trouble = f" ({left.trouble})" if left.trouble else ""
    worst = f", most in {left.worst}" if left.worst else ""
    missing = f"{left.records} records of " if left.records else ""
    return f"{left.flow}: {missing}{left.partitions} partitions are missing{worst}{trouble}"
