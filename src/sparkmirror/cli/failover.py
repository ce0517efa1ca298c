"""``sparkmirror failover``, ``switchover``, ``failback``, ``release``: to the other cluster and back, first as a plan.

The work is done by :mod:`sparkmirror.failover.switching`; this file asks, shows and writes the report.
"""

from __future__ import annotations

import tempfile
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sparkmirror.cli.exits import ExitCode
from sparkmirror.cli.logs import LogFormat
from sparkmirror.cli.options import Files, OneFlow, finite, one_flow
from sparkmirror.cli.output import say
from sparkmirror.cli.run import Signals, prepare, run_flows
from sparkmirror.errors import SparkmirrorError
from sparkmirror.failover.private_files import make_private_directory, private_file
from sparkmirror.failover.states import Keep
from sparkmirror.printable import json_text

if TYPE_CHECKING:
    from sparkmirror.failover.plan import Plan
    from sparkmirror.failover.procedure import Options
    from sparkmirror.failover.report import Report
    from sparkmirror.failover.states import Kind
    from sparkmirror.failover.switching import Desk

LONGEST = 31_536_000.0
"""A year; one without an end cannot be put on record."""

From = Annotated[str, typer.Option("--from", metavar="CLUSTER", help="The cluster that is left, by its alias.")]
To = Annotated[str, typer.Option("--to", metavar="CLUSTER", help="The cluster that takes its place.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Print the plan and change nothing.")]
Yes = Annotated[bool, typer.Option("--yes", help="Do not ask.")]
Force = Annotated[bool, typer.Option("--force", help="Go on in spite of what speaks against it.")]
Abandon = Annotated[
    bool,
    typer.Option("--abandon", help="Take an interrupted one back, as long as no group was moved; with --force later."),
]
Idle = Annotated[
    float,
    typer.Option(
        "--wait-for-idle",
        min=0.5,
        max=LONGEST,
        callback=finite,
        metavar="SECONDS",
        help="Nothing must be written for so long.",
    ),
]
FenceByAcl = Annotated[
    bool, typer.Option("--fence-by-acl", help="Deny everybody to write to the topics where applications are now.")
]
Timeout = Annotated[
    float,
    typer.Option(
        "--timeout",
        min=1,
        max=LONGEST,
        callback=finite,
        metavar="SECONDS",
        help="For each step that waits for others.",
    ),
]
ReportTo = Annotated[
    Path, typer.Option("--report", metavar="DIRECTORY", help="Where the report goes, as Markdown and as JSON.")
]


def failover(
    context: typer.Context,
    files: Files,
    from_: From,
    to: To,
    dry_run: DryRun = False,
    yes: Yes = False,
    force: Force = False,
    abandon: Abandon = False,
    report: ReportTo = Path(),
    reverse: Annotated[
        bool, typer.Option("--reverse", help="Stay, and run the flow back when the old cluster is there again.")
    ] = False,
    reverse_within: Annotated[
        float,
        typer.Option(
            "--reverse-within",
            min=1,
            max=LONGEST,
            callback=finite,
            metavar="SECONDS",
            help="Wait so long for the old cluster.",
        ),
    ] = 86_400.0,
) -> None:
    """Go over to the other cluster, because the source is gone.

    The flow is stopped, what the target has of it is settled, and every consumer group gets its place there. Nothing of
    that needs the source. What the target is known to lack is listed for each partition.
    """
    from sparkmirror import config
    from sparkmirror.failover.procedure import Options
    from sparkmirror.failover.states import Kind
    from sparkmirror.failover.switching import flow_between

    if reverse:
        flow_between(config.load(files), to, from_)  # a flow back that is not there is told of first
    _go_over(files, from_, to, Kind.FAILOVER, Options(), dry_run, yes, force, abandon, report)
    if reverse and not dry_run and not abandon:
        _run_back(context, files, from_, to, reverse_within)


def _run_back(context: typer.Context, files: list[Path], left: str, taken: str, seconds: float) -> None:
    """Waits for the old cluster, and runs the flow to it until a signal, unless somebody does."""
    from sparkmirror import config
    from sparkmirror.failover.reverse import wait_for_return
    from sparkmirror.failover.switching import flow_between

    loaded = config.load(files)
    forth, back = flow_between(loaded, left, taken), flow_between(loaded, taken, left)
    if wait_for_return(forth, back, loaded.file, seconds, _tell):
        signals, spark = Signals(), prepare(context, None, None, None, LogFormat.PLAIN)
        run_flows(config.load(files, flow=str(back.name)), spark, once=False, signals=signals)


def switchover(
    files: Files,
    from_: From,
    to: To,
    wait_for_idle: Idle = 5.0,
    fence_by_acl: FenceByAcl = False,
    timeout: Timeout = 600.0,
    dry_run: DryRun = False,
    yes: Yes = False,
    force: Force = False,
    abandon: Abandon = False,
    report: ReportTo = Path(),
) -> None:
    """Go over to the other cluster while both are there: nothing is lost, nothing is read twice.

    Producers are kept from the source or waited for, the flow copies what is left, groups are waited for until they
    have left the source, the flow is stopped, and every group gets its place on the target.
    """
    from sparkmirror.failover.procedure import Fence, Options
    from sparkmirror.failover.states import Kind

    options = Options(fence=Fence.ACL if fence_by_acl else Fence.IDLE, idle_s=wait_for_idle, timeout_s=timeout)
    _go_over(files, from_, to, Kind.SWITCHOVER, options, dry_run, yes, force, abandon, report)


def failback(
    files: Files,
    to: Annotated[str, typer.Option("--to", metavar="CLUSTER", help="The cluster that came back, by its alias.")],
    from_: Annotated[
        str | None, typer.Option("--from", metavar="CLUSTER", help="Where applications are now, if that is not clear.")
    ] = None,
    divergent: Annotated[
        Keep, typer.Option("--divergent", help="What becomes of records that only the cluster that came back has.")
    ] = Keep.TOPIC,
    wait_for_idle: Idle = 5.0,
    fence_by_acl: FenceByAcl = False,
    timeout: Timeout = 600.0,
    dry_run: DryRun = False,
    yes: Yes = False,
    force: Force = False,
    abandon: Abandon = False,
    report: ReportTo = Path(),
) -> None:
    """Go back to the cluster that was left, once it is there again.

    What only that cluster has is put aside, what was written meanwhile is brought there, every group gets its place
    there, and the flow from there goes on.
    """
    from sparkmirror import config
    from sparkmirror.failover.procedure import Fence, Options
    from sparkmirror.failover.states import Kind
    from sparkmirror.failover.switching import flows_back, prepared_back

    options = Options(
        fence=Fence.ACL if fence_by_acl else Fence.IDLE,
        idle_s=wait_for_idle,
        timeout_s=timeout,
        divergent=divergent.value,
        directory=str(report.resolve()),
    )
    loaded = config.load(files)
    forth, back = flows_back(loaded, to, from_)
    with prepared_back(forth, back, loaded.file, home=not abandon) as desk:
        _operate(desk, Kind.FAILBACK, options, dry_run, yes, force, abandon, report)


def release(
    files: Files,
    flow: OneFlow = None,
    fence_only: Annotated[
        bool, typer.Option("--fence-only", help="Only let producers write again; the flow stays stopped.")
    ] = False,
    yes: Yes = False,
) -> None:
    """Let a flow copy again that a failover or a switchover has stopped.

    What the source has got meanwhile is copied then; what producers were denied by --fence-by-acl they may do again.
    """
    from sparkmirror import config
    from sparkmirror.failover.switching import back_of, prepared

    chosen, file = one_flow(files, flow)
    with prepared(chosen, file, back_of(config.load(files), chosen)) as desk:
        if not yes:
            what = f"everybody write to {chosen.source.alias}" if fence_only else f"{chosen.name} copy"
            typer.confirm(f"Let {what} again?", abort=True)
        desk.release(_tell, fence_only=fence_only)


def _go_over(
    files: list[Path],
    source: str,
    target: str,
    kind: Kind,
    options: Options,
    dry_run: bool,
    yes: bool,
    force: bool,
    abandon: bool,
    directory: Path,
) -> None:
    from sparkmirror import config
    from sparkmirror.failover.switching import back_of, flow_between, prepared

    loaded = config.load(files)
    flow = flow_between(loaded, source, target)
    with prepared(flow, loaded.file, back_of(loaded, flow)) as desk:
        _operate(desk, kind, options, dry_run, yes, force, abandon, directory)


def _operate(
    desk: Desk, kind: Kind, options: Options, dry_run: bool, yes: bool, force: bool, abandon: bool, directory: Path
) -> None:
    if not dry_run:
        _check_writable(directory)
    if abandon:
        _end(desk.abandon(_tell, force=force), directory)
        return
    answers = False
    if dry_run or desk.is_planned(kind):
        plan = desk.plan(kind, options)
        _show(plan)
        if dry_run:
            raise typer.Exit(ExitCode.FAILED if plan.refusals and not force else ExitCode.DONE)
        _consent(plan, yes=yes, force=force)
        answers = plan.source.answers
    _end(_carried_out(desk, kind, options, directory, answers=answers), directory)


def _carried_out(desk: Desk, kind: Kind, options: Options, directory: Path, *, answers: bool) -> Report:
    try:
        return desk.carry_out(kind, options, _tell, answers=answers)
    except SparkmirrorError:
        with suppress(SparkmirrorError, OSError):  # why it did not end says more than that it has no report
            interrupted = desk.broken_off  # the report of another's is that command's to write
            if interrupted is not None and interrupted.kind == kind.value:
                paths = _write(desk.report(interrupted), directory)
                _tell(f"report of what was done so far: {paths[0]} and {paths[1]}")
        raise


def _check_writable(directory: Path) -> None:
    """A report that cannot be written is told of before anything is done."""
    try:
        make_private_directory(directory)
        with tempfile.TemporaryFile(dir=directory):
            pass
    except OSError as failure:
        raise SparkmirrorError(f"the report cannot be written: {failure} (name a directory with --report)") from failure


def _consent(plan: Plan, *, yes: bool, force: bool) -> None:
    if plan.refusals and not force:
        raise SparkmirrorError(
            f"{len(plan.refusals)} thing{'s speak' if len(plan.refusals) > 1 else ' speaks'} against it, see above: "
            "mend it, or add --force"
        )
    if not yes:
        typer.confirm("Go on?", abort=True)


def _show(plan: Plan) -> None:
    from sparkmirror.failover.moves import count

    say(f"{plan.kind.value} of flow {plan.flow} ({plan.state})")
    say(f"  source        {'answers' if plan.source.answers else plan.source.failure}")
    say(f"  to be moved   {count(plan.moves).text}")
    say(f"  missing now   {plan.missing} records of {len(plan.partitions)} partitions, as far as is known")
    say(f"  takes         about {plan.seconds:.0f} s, and what others are waited for")
    for each in sorted(plan.partitions, key=lambda each: -each.missing)[:10]:
        if each.missing:
            at = (
                f"copied up to {each.position} of {each.end}"
                if each.found
                else f"not found yet, {each.missing} records"
            )
            say(f"    {each.partition}: {at}")
    for text in plan.warnings:
        say(f"  note: {text}")
    for text in plan.refusals:
        say(f"  against it: {text}")


def _end(report: Report, directory: Path) -> None:
    paths = _write(report, directory)
    say(
        f"{report.operation.id}: {report.count.text} on {report.taken}, "
        f"{report.missing} records known to be missing, {report.seconds:.1f} s; report: {paths[0]} and {paths[1]}"
    )
    for text in report.notes:
        say(f"  note: {text}")
    for text in report.troubles:
        say(f"  trouble: {text}")
    if report.troubles:
        raise typer.Exit(ExitCode.FAILED)


def _write(report: Report, directory: Path) -> tuple[Path, Path]:
    from sparkmirror.failover.report import as_dict, as_markdown

    markdown, machine = (directory / f"{report.name}.{end}" for end in ("md", "json"))
    texts = {markdown: as_markdown(report), machine: json_text(as_dict(report), indent=2) + "\n"}
    for path, text in texts.items():
        with private_file(path) as file:
            file.write(text)
    return markdown, machine


def _tell(text: str) -> None:
    say(f"  {text}")
