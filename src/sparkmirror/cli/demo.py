"""``sparkmirror demo``: two real clusters, real records, a mirror and the proof, in one command.

The exit code is 0 only when every record that was written is on the target, unchanged, and the mirror ended cleanly.
"""

from __future__ import annotations

import signal
import sys
import time
from types import FrameType, TracebackType
from typing import Annotated, NoReturn, Self

import typer
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TaskID, TextColumn, TimeElapsedColumn
from rich.table import Table

from sparkmirror.cli import figures
from sparkmirror.cli.exits import ExitCode
from sparkmirror.lab.demo import SOURCE, TARGET, Outcome, run_demo
from sparkmirror.lab.demo_topics import RECORDS

PLAIN_WIDTH = WIDE = 110


def demo(
    records: Annotated[int, typer.Option("--records", min=1_000, help="Records in all, about.")] = RECORDS,
) -> None:
    """Mirror real records between two real clusters, compare every one of them, and go over to the other cluster."""
    console = Console(width=None if sys.stdout.isatty() else PLAIN_WIDTH)
    # The clusters and the mirror must be taken down in whatever way this ends.
    signal.signal(signal.SIGTERM, _leave)
    signal.signal(signal.SIGHUP, _leave)
    began = time.monotonic()
    with _Steps(console) as steps:
        outcome = run_demo(steps, records=records)
    console.print(_table(outcome, wide=console.width >= WIDE))
    _conclude(console, outcome, time.monotonic() - began)
    raise typer.Exit(ExitCode.DONE if outcome.passed else ExitCode.FAILED)


def _leave(number: int, _: FrameType | None) -> NoReturn:
    sys.exit(128 + number)


class _Steps:
    """Shows what goes on: a line that moves on a terminal, and a line per step that is done everywhere."""

    def __init__(self, console: Console) -> None:
        self._console = console
        columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[count]}"))
        self._progress = Progress(*columns, TimeElapsedColumn(), console=console, transient=True)
        self._task: TaskID | None = None

    def __enter__(self) -> Self:
        if self._console.is_terminal:
            self._progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._progress.stop()

    def step(self, text: str) -> None:
        """Something begins."""
        self._end()
        self._task = self._progress.add_task(text, total=None, count="")

    def done(self, text: str) -> None:
        """It is done."""
        self._end()
        self._console.print(f"[green]✓[/] {text}", highlight=False)

    def copied(self, records: int, of: int) -> None:
        """Moves the bar."""
        if self._task is not None:
            self._progress.update(self._task, completed=records, total=of, count=f"{records:,} of {of:,} on {TARGET}")

    def _end(self) -> None:
        if self._task is not None:
            self._progress.remove_task(self._task)
            self._task = None


def _table(outcome: Outcome, *, wide: bool) -> Table:
    table = Table(
        title=f"{SOURCE} → {TARGET}",
        title_justify="left",
        title_style="bold",
        box=SIMPLE_HEAD,
        pad_edge=False,
        show_edge=False,
    )
    for heading in ("topic", "producer", "codec"):
        table.add_column(heading, no_wrap=True)
    if wide:
        table.add_column("what is in it", no_wrap=True)
    for heading in ("records", "bytes", "rate", "lag"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("verdict")
    for each in outcome.topics:
        topic, found = each.topic, each.comparison
        verdict = "[green]equal[/]" if each.passed else f"[bold red]{found.difference or 'records are missing'}[/]"
        names = (topic.name, topic.client.value, topic.codec, *((topic.holds,) if wide else ()))
        size, rate = figures.megabytes(found.bytes), figures.rate(each.rate)
        table.add_row(*names, figures.count(found.target_records), size, rate, figures.count(each.lag), verdict)
    return table


def _conclude(console: Console, outcome: Outcome, seconds: float) -> None:
    records = sum(each.comparison.target_records for each in outcome.topics)
    if outcome.passed:
        console.print(
            f"[bold green]All {records:,} records arrived unchanged: key, value, headers, timestamp, partition and "
            f"order[/], in {seconds:.0f} s with everything.",
            highlight=False,
            soft_wrap=True,
        )
        return
    console.print("[bold red]The demo failed.[/]")
    for switched in outcome.switched:
        if not switched.passed:
            console.print(f"The {switched.kind} failed: {switched.report}", markup=False)
    if outcome.exit_code:
        console.print(f"sparkmirror run ended with exit code {outcome.exit_code}; {outcome.mirror_log}", markup=False)
