"""``sparkmirror check``: validates a configuration and prints what holds for each flow, secrets hidden.

A wrong configuration ends with exit code 2 through the error that names file, key and remedy.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from sparkmirror import config
from sparkmirror.cli.exits import ExitCode
from sparkmirror.cli.options import Clusters, Files, Flow
from sparkmirror.cli.output import styled
from sparkmirror.cli.tables import table_console
from sparkmirror.config import FlowConfig, MirrorConfig, Row
from sparkmirror.printable import json_text

if TYPE_CHECKING:
    from sparkmirror.flow.connections import Connection
    from sparkmirror.flow.first_start import FirstStart

_ALWAYS = ("bootstrap.servers", "security.protocol", "isolation.level", "auto.offset.reset")
"""Client settings that are shown even where the file leaves them alone."""


def check(
    files: Files,
    flow: Flow = None,
    clusters: Clusters = None,
    as_json: Annotated[bool, typer.Option("--json", help="Every setting, as one JSON object.")] = False,
    everything: Annotated[
        bool, typer.Option("--all", help="Every setting of the clients, not only what is set.")
    ] = False,
    connect: Annotated[
        bool, typer.Option("--connect", help="Also connect to every cluster, and print what it says of itself.")
    ] = False,
) -> None:
    """Validate a configuration and print the effective settings of each flow, secrets hidden.

    The last column names the key of the file that set a value. Keys that have no effect are named in warnings. No
    cluster is contacted unless --connect asks for it; then each is asked for its id, its brokers, its version and this
    user's rights on it, and of each flow is told whether a start takes over from MirrorMaker 2. The exit code is 2 if a
    cluster cannot be used, or a start would be refused.

    A replication policy of one's own is Python code: this command imports the module that the file names.
    """
    found = config.load(files, clusters=clusters or (), flow=flow)
    connections = _connections(found) if connect else ()
    starts = _first_starts(found, connections) if connect else ()
    if as_json:
        typer.echo(as_text(found, connections, starts))
    else:
        _show(found, connections, everything=everything)
        _show_starts(starts)
    if any(one.failure for one in connections) or any(one.failure for one in starts):
        raise typer.Exit(ExitCode.CONFIG_WRONG)


def _connections(found: MirrorConfig) -> tuple[Connection, ...]:
    from sparkmirror.flow import connections
    from sparkmirror.flow.first_look import LOOK_MS

    return connections.connect(found, LOOK_MS)


def _first_starts(found: MirrorConfig, connections: Sequence[Connection]) -> tuple[FirstStart, ...]:
    from sparkmirror.flow.first_start import first_starts

    return first_starts(found, {flow for one in connections if one.failure is not None for flow in one.flows})


def _show(found: MirrorConfig, connections: Sequence[Connection], *, everything: bool) -> None:
    console = table_console()
    for one in found.flows:
        console.print(table(one, everything=everything))
    if found.pulses:
        pulses = ", ".join(str(one.name) for one in found.pulses)
        console.print(styled(f"heartbeats without a flow: {pulses}"), soft_wrap=True)
    errors = Console(stderr=True)
    for warning in found.warnings:
        errors.print(styled(f"warning: {warning}", style="yellow"), soft_wrap=True)
    if connections:
        console.print(connection_table(connections))
    for tried in connections:
        if tried.failure is not None:
            said = f"{tried.alias} as {', '.join(tried.roles)}: {tried.failure}"
            errors.print(styled(said, style="bold red"), soft_wrap=True)


def _show_starts(starts: Sequence[FirstStart]) -> None:
    console, errors = table_console(), Console(stderr=True)
    for one in starts:
        if one.failure:
            errors.print(styled(f"{one.flow}: {one.failure}", style="bold red"), soft_wrap=True)
        else:
            console.print(styled(f"{one.flow}: a start {one.text}"), soft_wrap=True)


def connection_table(connections: Sequence[Connection]) -> Table:
    """What each cluster said, one row for each way of connecting to it."""
    drawn = Table(title="clusters", title_justify="left", title_style="bold", box=SIMPLE_HEAD, show_edge=False)
    for column in ("cluster", "as", "id", "brokers", "version", "rights on the cluster"):
        drawn.add_column(column, overflow="fold")
    for one in connections:
        said = one.found
        rights = "" if said is None else "not told" if said.rights is None else ", ".join(said.rights) or "none"
        drawn.add_row(
            styled(one.alias),
            styled(", ".join(one.roles)),
            styled("no connection" if said is None else said.cluster_id),
            styled("" if said is None else str(said.brokers)),
            styled("" if said is None else ".".join(map(str, said.version)) + " or newer"),
            styled(rights),
        )
    return drawn


def as_text(found: MirrorConfig, connections: Sequence[Connection] = (), starts: Sequence[FirstStart] = ()) -> str:
    """All settings as JSON text: ``file``, ``flows`` with their ``settings``, ``warnings`` and more."""
    flows = [
        {
            "name": str(flow.name),
            "settings": [
                {"setting": row.setting, "value": row.value, "from": row.origin or None}
                for row in config.effective(flow)
            ],
        }
        for flow in found.flows
    ]
    pulses = [str(one.name) for one in found.pulses]
    told = {"file": found.file, "flows": flows, "pulses": pulses, "warnings": found.warnings}
    told |= {"connections": [one.as_json() for one in connections]} if connections else {}
    told |= {"starts": [one.as_json() for one in starts]} if starts else {}
    return json_text(told, indent=2)


def table(flow: FlowConfig, *, everything: bool = False) -> Table:
    """The settings of a flow, one row each.

    Args:
        flow: the flow.
        everything: also the settings of clients that are at their defaults.
    """
    drawn = Table(title=styled(str(flow.name), style="bold"), title_justify="left", box=SIMPLE_HEAD, show_edge=False)
    drawn.add_column("setting", no_wrap=True)
    drawn.add_column("value", overflow="fold", ratio=1)
    drawn.add_column("from", overflow="fold")
    for row in config.effective(flow):
        if everything or _shown(row):
            origin = styled(row.origin or "default", style="" if row.origin else "dim")
            drawn.add_row(styled(row.setting), styled(row.value), origin)
    return drawn


def _shown(row: Row) -> bool:
    client = row.setting.startswith(("source.", "target."))
    return not client or bool(row.origin) or row.setting.endswith(_ALWAYS)
