"""Tables on a terminal and in a file."""

from __future__ import annotations

from rich.console import Console

WIDTH_IN_A_FILE = 160


def table_console() -> Console:
    """Standard output: as wide as the terminal, or wide enough for a table where it is none."""
    console = Console()
    return console if console.is_terminal else Console(width=WIDTH_IN_A_FILE)
