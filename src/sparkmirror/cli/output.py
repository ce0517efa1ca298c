"""Lines and cells for whoever reads along. Names and errors come from clusters: all of them pass through here, escaped.

Invariant: rich never gets such a text as ``str``, which it would read as markup.
"""

from __future__ import annotations

import typer
from rich.text import Text

from sparkmirror.printable import printable


def styled(text: str, style: str = "") -> Text:
    """A line or a cell of rich."""
    return Text(printable(text), style=style)


def say(text: str) -> None:
    """Prints one line."""
    typer.echo(printable(text))
