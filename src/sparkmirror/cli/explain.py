"""``sparkmirror explain``: why a topic is copied, or is not; where a consumer group stands, and why.

The reasons are found by :mod:`sparkmirror.flow.explain` and :mod:`sparkmirror.flow.explain_groups`; this file shows
them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from sparkmirror.cli import figures
from sparkmirror.cli.exits import ExitCode
from sparkmirror.cli.options import Clusters, Files, Flow
from sparkmirror.cli.output import styled
from sparkmirror.printable import json_text

if TYPE_CHECKING:
    from sparkmirror.flow.explain import Explanation
    from sparkmirror.flow.explain_groups import GroupExplanation

_COPIED = {True: ("copied", "green"), False: ("not copied", "yellow"), None: ("not known", "red")}


def explain(
    files: Files,
    topic: Annotated[
        str | None, typer.Option("--topic", metavar="TOPIC", help="A topic, by its name on the source.")
    ] = None,
    group: Annotated[str | None, typer.Option("--group", metavar="GROUP", help="A consumer group.")] = None,
    flow: Flow = None,
    clusters: Clusters = None,
    as_json: Annotated[bool, typer.Option("--json", help="Everything, as one JSON object.")] = False,
) -> None:
    """Say why a topic is copied, or is not; or where a consumer group stands, and why.

    For a topic: by which rule, to what name, since where, how each partition stands. For a group: for each partition
    that it has committed, the offset on both sides, and why the one on the target is what it is.
    """
    from sparkmirror import config

    if (topic is None) == (group is None):
        raise typer.BadParameter("give one of --topic and --group")
    loaded = config.load(files, clusters=clusters or (), flow=flow)
    if topic is not None:
        from sparkmirror.flow.explain import explain as of_topic

        topics = of_topic(loaded, topic)
        _print([asdict(one) for one in topics]) if as_json else _show(topics)
        unknown = any(one.copied is None for one in topics)
    else:
        from sparkmirror.flow.explain_groups import explain as of_group

        groups = of_group(loaded, group or "")
        _print([_as_dict(one) for one in groups]) if as_json else _show_groups(groups)
        unknown = any(one.failure for one in groups)
    if unknown:
        raise typer.Exit(ExitCode.FAILED)


def _print(flows: Sequence[dict[str, object]]) -> None:
    typer.echo(json_text({"flows": flows}, indent=2))


def _as_dict(one: GroupExplanation) -> dict[str, object]:
    lines = [
        {
            "topic": line.partition.topic if line.partition else None,
            "partition": line.partition.partition if line.partition else None,
            "standing": line.standing.name.lower().replace("_", "-"),
            "text": line.text,
            "committed": figures.known(line.committed),
            "translated": figures.known(line.translated),
            "there": figures.known(line.there),
        }
        for line in one.lines
    ]
    return {"flow": one.flow, "group": one.group, "lines": lines, "duties": one.duties, "failure": one.failure or None}


def _show_groups(found: Sequence[GroupExplanation]) -> None:
    console = Console()
    for one in found:
        console.print(styled(f"{one.flow}: group {one.group}", style="bold"), soft_wrap=True)
        if one.failure:
            console.print(styled(f"  not known: {one.failure}", style="red"), soft_wrap=True)
        for line in one.lines:
            place = "" if line.partition is None else f"{line.partition}: "
            offsets = "" if figures.known(line.committed) is None else f"committed {line.committed}"
            offsets += "" if figures.known(line.translated) is None else f", on the target {line.translated}"
            offsets += "" if figures.known(line.there) is None else f", it has {line.there} there"
            console.print(styled(f"  {place}{offsets}{': ' if offsets else ''}{line.text}"), soft_wrap=True)
        console.print(styled(f"  {one.duties}", style="dim"), soft_wrap=True)


def _show(found: Sequence[Explanation]) -> None:
    console = Console()
    for one in found:
        word, style = _COPIED[one.copied]
        name = f" to {one.target_topic}" if one.copied and one.target_topic != one.topic else ""
        console.print(styled(f"{one.flow}: {one.topic} is {word}{name}", style=style), soft_wrap=True)
        for line in (one.rule, *one.lines):
            console.print(styled(f"  {line}"), soft_wrap=True)
