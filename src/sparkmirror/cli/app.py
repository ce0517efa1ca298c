"""The command ``sparkmirror``: finds the subcommand, runs it, turns errors into one line and an exit code.

Invariants:
    - A command's module is imported when that command runs, never for ``--help`` of the others: importing PySpark and
      Numba takes seconds, and a help page may not.
    - Errors that sparkmirror raises on purpose are shown as one line, since they name place and remedy; the traceback
      is there with ``--debug``. Any other exception is a defect and keeps its traceback, which a report needs.
"""

from __future__ import annotations

import gc
import inspect
import logging
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from importlib.metadata import version
from types import TracebackType
from typing import Annotated, Any, NoReturn

import typer
from rich.console import Console
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command, get_group

from sparkmirror.cli import logs
from sparkmirror.cli.exits import exit_code
from sparkmirror.cli.options import spread_clusters
from sparkmirror.cli.output import styled
from sparkmirror.errors import SparkmirrorError
from sparkmirror.printable import printable_lines
from sparkmirror.spark import core_dumps

YOUNG_OBJECTS = 50_000
"""Until Python looks for garbage among the newest. At its own 700 that takes a tenth of the processor's time: what is
imported, and read of topics, makes many objects and hardly any garbage."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One subcommand, known without importing it.

    Attributes:
        name: as typed.
        place: ``module:attribute`` of a function with typer's annotations, or of a ``typer.Typer`` with commands of
            its own.
        summary: the line in ``sparkmirror --help``.
    """

    name: str
    place: str
    summary: str


COMMANDS = (
    Entry(name="run", place="sparkmirror.cli.run:run", summary="Run the enabled flows of a configuration."),
    Entry(name="check", place="sparkmirror.cli.check:check", summary="Validate a configuration and print what holds."),
    Entry(name="plan", place="sparkmirror.cli.plan:plan", summary="Print what a start would change; change nothing."),
    Entry(name="explain", place="sparkmirror.cli.explain:explain", summary="Say why a topic or a group is as it is."),
    Entry(name="wait", place="sparkmirror.cli.wait:wait", summary="Wait until the copy is complete."),
    Entry(name="status", place="sparkmirror.cli.status:status", summary="Show flows, partitions, lag, rates, events."),
    Entry(name="pause", place="sparkmirror.cli.orders:pause", summary="Stop copying topics until they are resumed."),
    Entry(name="resume", place="sparkmirror.cli.orders:resume", summary="Copy paused topics again."),
    Entry(name="limit", place="sparkmirror.cli.orders:limit", summary="Change how fast flows may copy."),
    Entry(name="positions", place="sparkmirror.cli.positions:app", summary="Show or change where partitions go on."),
    Entry(name="offsets", place="sparkmirror.cli.offsets:offsets", summary="Translate a group's offsets, either way."),
    Entry(
        name="rehearse",
        place="sparkmirror.cli.rehearse:rehearse",
        summary="Look whether a failover would work now; change nothing.",
    ),
    Entry(name="failover", place="sparkmirror.cli.failover:failover", summary="Go over from a cluster that is gone."),
    Entry(
        name="switchover", place="sparkmirror.cli.failover:switchover", summary="Go over while both clusters are there."
    ),
    Entry(name="failback", place="sparkmirror.cli.failover:failback", summary="Go back to a cluster that came back."),
    Entry(name="release", place="sparkmirror.cli.failover:release", summary="Let a flow copy again after that."),
    Entry(name="hand-over", place="sparkmirror.cli.hand_over:hand_over", summary="Let MirrorMaker 2 go on."),
    Entry(name="acls", place="sparkmirror.cli.acls:acls", summary="Print the least rights that a configuration needs."),
    Entry(name="convert", place="sparkmirror.cli.convert:convert", summary="Turn any configuration into properties."),
    Entry(
        name="mirror-maker",
        place="sparkmirror.cli.mirror_maker:mirror_maker",
        summary="Run a command line of the first MirrorMaker.",
    ),
    Entry(name="lab", place="sparkmirror.cli.lab:app", summary="Start and stop real local Kafka clusters."),
    Entry(name="demo", place="sparkmirror.cli.demo:demo", summary="Mirror real records between two real clusters."),
)


@dataclass(slots=True)
class Settings:
    """What holds for every command; filled by the options before the subcommand."""

    debug: bool = False


class LazyCommand(TyperCommand):
    """Stands for a subcommand in the list and becomes it when it is called."""

    def __init__(self, entry: Entry) -> None:
        super().__init__(entry.name, help=entry.summary, short_help=entry.summary)
        self.entry = entry

    def make_context(self, info_name: str | None, args: list[str], parent: Any = None, **extra: Any) -> Any:
        """Parses with the real command; the context names that one as its command, so it also runs it."""
        return load(self.entry).make_context(info_name, args, parent=parent, **extra)


def load(entry: Entry) -> Any:
    """Imports a subcommand and gives it as a typer command."""
    module, attribute = entry.place.split(":")
    found = getattr(import_module(module), attribute)
    if not isinstance(found, typer.Typer):
        holder = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
        holder.command(entry.name, help=_help(found) or entry.summary)(found)
        found = holder
    command = get_command(found)
    command.name = entry.name
    return command


def _help(function: object) -> str:
    """The part of a docstring for whoever runs the command: no sections for readers of the code, no line ends."""
    text = re.split(r"\n\s*\n(?:Args|Returns|Raises):", inspect.getdoc(function) or "")[0]
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in text.split("\n\n"))


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"sparkmirror {version('sparkmirror')}")
        raise typer.Exit


def _root(
    context: typer.Context,
    debug: Annotated[
        bool,
        typer.Option(
            "--debug", envvar="SPARKMIRROR_DEBUG", help="Errors with traceback, logs with details, core dumps."
        ),
    ] = False,
    _version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Replicate topics between Kafka clusters, on Spark, from MirrorMaker 2's configuration files."""
    context.ensure_object(Settings).debug = debug
    if not debug:
        core_dumps.forbid()


def group() -> TyperGroup:
    """The whole command line, with its subcommands not yet imported."""
    app = typer.Typer(name="sparkmirror", no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False)
    app.callback()(_root)
    built = get_group(app)
    built.commands.update({entry.name: LazyCommand(entry) for entry in COMMANDS})
    return built


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """The console script.

    Args:
        arguments: the command line after the program's name; that of this process by default.

    Raises:
        SystemExit: always, with a code of :class:`sparkmirror.cli.exits.ExitCode`, or 130 after Ctrl-C.
    """
    settings = Settings()
    gc.set_threshold(YOUNG_OBJECTS)
    logs.without_setup()
    if arguments is None:
        sys.excepthook = _show_defect
    try:
        group().main(
            args=spread_clusters(sys.argv[1:] if arguments is None else arguments),
            prog_name="sparkmirror",
            obj=settings,
        )
    except SparkmirrorError as error:
        show_error(error, with_traceback=settings.debug)
        sys.exit(exit_code(error))
    sys.exit(0)


def show_error(error: SparkmirrorError, *, with_traceback: bool = False) -> None:
    """Prints an error as one red line on standard error, after its traceback if that is wanted; or logs it as JSON."""
    if logs.speaks_json():
        logging.getLogger(__name__).error("%s", error, exc_info=error if with_traceback else None)
        return
    console = Console(stderr=True)
    if with_traceback:
        import traceback

        console.out(printable_lines("".join(traceback.format_exception(error))), end="", highlight=False)
    line = " ".join(str(error).split())
    console.print(styled(f"sparkmirror: {line}", style="bold red"), soft_wrap=True)


def _show_defect(_kind: type[BaseException], error: BaseException, _trace: TracebackType | None) -> None:
    """A traceback as Python prints it: a defect may be one of reading what clusters say."""
    import traceback

    sys.stderr.write(printable_lines("".join(traceback.format_exception(error))))


if __name__ == "__main__":
    main()
