"""``sparkmirror status``: flows, partitions, lag, rates and events, read from the internal topics alone.

The reader is :mod:`sparkmirror.flow.status`; this file asks it once and shows what it says, as tables or as JSON. The
JSON holds the fields of :mod:`sparkmirror.flow.view` under their own names.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict
from datetime import datetime
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from sparkmirror.cli import figures
from sparkmirror.cli.exits import ExitCode
from sparkmirror.cli.options import Clusters, Files, Flow
from sparkmirror.cli.output import styled
from sparkmirror.cli.tables import table_console
from sparkmirror.events import Kind
from sparkmirror.flow.view import EventStatus, FlowStatus, PartitionStatus
from sparkmirror.printable import json_text

if TYPE_CHECKING:
    from sparkmirror.config import MirrorConfig
    from sparkmirror.failover.group_status import GroupStatus

PARTITIONS_SHOWN = 50
EVENTS_ALONE = 3


def status(
    files: Files,
    flow: Flow = None,
    clusters: Clusters = None,
    as_json: Annotated[bool, typer.Option("--json", help="Everything, as one JSON object.")] = False,
    everything: Annotated[bool, typer.Option("--all", help="Every partition, not only the furthest behind.")] = False,
    groups: Annotated[
        bool, typer.Option("--groups", help="What each consumer group would read again or miss.")
    ] = False,
) -> None:
    """Show flows, partitions, lag in records and in time, rates and events.

    Reads the flows' internal topics on their targets, so it works from any machine that reaches those clusters.
    """
    from sparkmirror import config
    from sparkmirror.flow.status import UNREADABLE, read

    loaded = config.load(files, clusters=clusters or (), flow=flow)
    flows = read(loaded)
    found = _groups(loaded, {one.name for one in flows if one.state != UNREADABLE}) if groups else {}
    if as_json:
        typer.echo(as_text(flows, found if groups else None))
    else:
        _show(flows, limit=None if everything else PARTITIONS_SHOWN)
        for name, some in found.items():
            table_console().print(group_table(name, some, now_ms=int(time.time() * 1000)))
    if any(one.state == UNREADABLE for one in flows):
        raise typer.Exit(ExitCode.FAILED)


def _groups(loaded: MirrorConfig, readable: Collection[str]) -> dict[str, tuple[GroupStatus, ...]]:
    from sparkmirror.failover.group_status import group_status

    return {str(flow.name): group_status(flow) for flow in loaded.flows if str(flow.name) in readable}


def group_table(flow: str, groups: Sequence[GroupStatus], *, now_ms: int) -> Table:
    """The groups of a flow, those that would read most again first."""
    table = Table(title_justify="left", box=None, pad_edge=False, header_style="dim")
    table.title = styled(f"groups of {flow}", "table.title")
    table.add_column("group", no_wrap=True)
    for heading in ("partitions", "read again", "ahead", "further", "skipped", "without an offset", "seen"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("")
    for each in sorted(groups, key=lambda each: (-(each.repeats or 0), each.group)):
        counts = (each.partitions, each.repeats, each.ahead, each.further, each.skipped, each.left_out)
        seen = f"{figures.span(max(0, now_ms - each.seen_ms))} ago" if each.seen_ms else "never"
        table.add_row(styled(each.group), *map(figures.count, counts), seen, styled(each.remark))
    return table


def _show(flows: Sequence[FlowStatus], *, limit: int | None) -> None:
    console = table_console()
    console.print(flow_table(flows, now_ms=int(time.time() * 1000)))
    for one in flows:
        if one.partitions:
            console.print()
            console.print(partition_table(one, limit=limit))
        if line := target_line(one):
            console.print(styled(line, style="dim"), soft_wrap=True)
        for line in (*limit_lines(one), *loop_lines(one), *event_lines(one), *duty_lines(one)):
            console.print(styled(line, style="yellow"), soft_wrap=True)


def target_line(flow: FlowStatus) -> str:
    """Where the target's topics come from, over how many flows, and how many there are; "" where nothing is known."""
    target = flow.target
    if target is None:
        return ""
    upstream = ", ".join(f"{cluster} ({_counted(hops, 'hop')})" for cluster, hops in target.upstream.items())
    topics = f"{_counted(len(target.remote), 'remote topic')}, {_counted(len(target.checkpoints), 'checkpoint topic')}"
    return (
        f"{flow.name}: on {flow.name.partition('->')[2]}: upstream {upstream or 'none'}; {topics}, "
        f"{_counted(len(target.heartbeats), 'heartbeat topic')} (--json names them)"
    )


def _counted(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"


def event_lines(flow: FlowStatus) -> list[str]:
    """One line for each event; one for all partitions of a topic that have the same kind, as of its newest."""
    groups: dict[tuple[str, str], list[EventStatus]] = {}
    for event in flow.events:
        groups.setdefault((event.kind, event.topic) if event.topic else ("", event.text), []).append(event)
    found = []
    for some in groups.values():
        shown = some if len(some) <= EVENTS_ALONE else some[-1:]
        found += [_event_line(flow.name, event) for event in shown]
        if len(some) > len(shown):
            found[-1] += f" (and {len(some) - 1} more of this kind in {some[0].topic}: --json shows them)"
    return found


def loop_lines(flow: FlowStatus) -> list[str]:
    """How much was left out as copies from the target, by who wrote it."""
    if not flow.loop_filtered:
        return []
    return [f"{flow.name}: {_counted(flow.loop_filtered, 'record')} left out, as copies of the target's own"]


def limit_lines(flow: FlowStatus) -> list[str]:
    """Whether the recovery point is within its limit, where there is one."""
    if flow.rpo_limit_ms is None:
        return []
    age = "of unknown age" if flow.rpo_ms is None else f"{figures.span(flow.rpo_ms)} old"
    verdict = "passed" if flow.rpo_passed else "kept"
    behind = f" ({flow.rpo_partition} is furthest behind)" if flow.rpo_passed and flow.rpo_partition else ""
    return [f"{flow.name}: recovery point {age}, limit {figures.span(flow.rpo_limit_ms)}: {verdict}{behind}"]


def duty_lines(flow: FlowStatus) -> list[str]:
    """One line for each thing that a duty could not do in its newest round."""
    return [
        f"{flow.name}: {datetime.fromtimestamp(duty.time_ms / 1000).astimezone():%Y-%m-%d %H:%M:%S} {duty.name}: {text}"
        for duty in flow.duties
        for text in duty.problems
    ]


def _event_line(flow: str, event: EventStatus) -> str:
    moment = ""
    if event.time_ms is not None:
        moment = f"{datetime.fromtimestamp(event.time_ms / 1000).astimezone():%Y-%m-%d %H:%M:%S} "
    place = f"{event.place}: " if event.place and not event.text.startswith(event.place) else ""
    kind = "" if event.kind == Kind.NOTE.value and not event.topic else f"[{event.kind}] "
    return f"{flow}: {moment}{kind}{place}{event.text}"


def as_text(flows: Sequence[FlowStatus], groups: Mapping[str, Sequence[GroupStatus]] | None = None) -> str:
    """All that is known, as JSON text: ``{"flows": [...]}``; with ``groups`` in each flow where they are given."""
    told = [asdict(flow) for flow in flows]
    if groups is not None:
        for one in told:
            one["groups"] = [asdict(group) for group in groups.get(one["name"], ())]
    return json_text({"flows": told}, indent=2)


def flow_table(flows: Sequence[FlowStatus], *, now_ms: int) -> Table:
    """One row per flow.

    Args:
        flows: what the reader found.
        now_ms: this moment, milliseconds since 1970; ages are counted from it.
    """
    table = _table(
        "flow", "state", "records", "MB", "lag", "lag in time", "rpo", "rpo records", "partitions", "events", "heard"
    )
    for flow in flows:
        table.add_row(
            styled(flow.name, style="bold"),
            styled(flow.state),
            figures.rate(flow.records_per_s),
            figures.megabytes_rate(flow.bytes_per_s),
            figures.count(flow.lag_records),
            figures.span(flow.lag_ms),
            styled(figures.span(flow.rpo_ms), style="bold red" if flow.rpo_passed else ""),
            figures.count(flow.rpo_records),
            figures.count(len(flow.partitions)),
            figures.count(len(flow.events)),
            figures.MISSING if flow.updated_ms is None else f"{figures.span(max(0, now_ms - flow.updated_ms))} ago",
        )
    return table


def partition_table(flow: FlowStatus, *, limit: int | None = None) -> Table:
    """One row per partition of a flow.

    Args:
        flow: the flow.
        limit: how many rows at most; then those with an event and those furthest behind are shown, and the table says
            that there are more.
    """
    shown = flow.partitions if limit is None else _worst(flow.partitions, limit)
    table = _table("topic-partition", "on the target", "position", "source end", "lag", "lag in time", "records", "MB")
    table.title = styled(flow.name, "table.title")
    if hidden := len(flow.partitions) - len(shown):
        table.caption = f"and {figures.count(hidden)} more that are no further behind (--all shows them)"
    for one in shown:
        table.add_row(
            styled(f"{one.topic}-{one.partition}"),
            styled(one.target_topic),
            figures.count(one.position),
            figures.count(one.source_end),
            figures.count(one.lag_records),
            figures.span(one.lag_ms),
            figures.rate(one.records_per_s),
            figures.megabytes_rate(one.bytes_per_s),
        )
        if one.event:
            table.add_row(styled(f"  {one.event}", style="yellow"))
    return table


def _worst(partitions: Sequence[PartitionStatus], limit: int) -> Sequence[PartitionStatus]:
    """Those that need looking at, in their usual order: with an event, not known, furthest behind."""
    if len(partitions) <= limit:
        return partitions
    ranked = sorted(partitions, key=lambda one: (not one.event, one.lag_records is not None, -(one.lag_records or 0)))
    chosen = set(ranked[:limit])
    return [one for one in partitions if one in chosen]


def _table(*columns: str) -> Table:
    table = Table(box=None, pad_edge=False, header_style="dim", title_justify="left", caption_justify="left")
    for number, column in enumerate(columns):
        table.add_column(column, justify="left" if number < 2 else "right", no_wrap=True)
    return table
