"""``sparkmirror explain``: why a topic is copied, or is not.

The reasons are found by :mod:`sparkmirror.flow.explain`; this file shows them.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.text import Text

from sparkmirror.cli.options import Clusters, Files, Flow

if TYPE_CHECKING:
    from sparkmirror.flow.explain import Explanation

_COPIED = {True: ("copied", "green"), False: ("not copied", "yellow"), None: ("not known", "red")}


def explain(
    files: Files,
    topic: Annotated[str, typer.Option("--topic", metavar="TOPIC", help="A topic, by its name on the source.")],
    flow: Flow = None,
    clusters: Clusters = None,
    as_json: Annotated[bool, typer.Option("--json", help="Everything, as one JSON object.")] = False,
) -> None:
    """Say whether a topic is copied, by which rule, to what name, since where, and if not, why not."""
    from sparkmirror import config
    from sparkmirror.flow import explain as reasons

    found = reasons.explain(config.load(files, clusters=clusters or (), flow=flow), topic)
    if as_json:
        typer.echo(json.dumps({"flows": [asdict(one) for one in found]}, indent=2, ensure_ascii=False))
    else:
        _show(found)


def _show(found: Sequence[Explanation]) -> None:
    console = Console()
    for one in found:
        word, style = _COPIED[one.copied]
        name = f" to {one.target_topic}" if one.copied and one.target_topic != one.topic else ""
        console.print(Text(f"{one.flow}: {one.topic} is {word}{name}", style=style), soft_wrap=True)
        for line in (one.rule, *one.lines):
            console.print(Text(f"  {line}"), soft_wrap=True)
