"""What ``run`` shows while it runs: one line per flow that changes in place, or log lines where nobody watches.

Both views take the same plain values (:class:`sparkmirror.flow.view.FlowView`) and are called from one thread, as often
as the caller likes; each decides by itself how often it draws.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Protocol, Self

from rich.console import Console
from rich.live import Live
from rich.table import Table

from sparkmirror.cli import figures
from sparkmirror.cli.output import styled
from sparkmirror.flow.view import FlowView

log = logging.getLogger(__name__)

LOG_INTERVAL_S = 10.0
DRAWS_PER_S = 4
EVENTS_SHOWN = 5

STATE_STYLES = {"running": "green", "done": "green", "failed": "bold red", "stopped": "dim"}
"""States not named here are passed through on the way to one of these."""


class View(Protocol):
    """Shows flows until it is closed."""

    def __enter__(self) -> Self:
        """Starts to show."""
        ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Shows the last state once more and stops."""
        ...

    def update(self, flows: Sequence[FlowView]) -> None:
        """Takes what there is to show now."""
        ...


def open_view(*, console: Console | None = None, interval_s: float = LOG_INTERVAL_S) -> View:
    """The view that fits where standard error goes: a live display on a terminal, log lines elsewhere.

    Args:
        console: where to draw; standard error by default.
        interval_s: seconds between two log lines of one flow.
    """
    console = console or Console(stderr=True)
    return TerminalView(console) if console.is_terminal else LogView(interval_s=interval_s)


class TerminalView:
    """One line per flow, drawn in place; log lines appear above it."""

    def __init__(self, console: Console) -> None:
        self._live = Live(console=console, refresh_per_second=DRAWS_PER_S, redirect_stdout=False)

    def __enter__(self) -> Self:
        """Starts to draw."""
        self._live.start()
        return self

    def __exit__(self, *_error: object) -> None:
        """Leaves the last state on the screen."""
        self._live.stop()

    def update(self, flows: Sequence[FlowView]) -> None:
        """Takes what there is to show now."""
        self._live.update(flow_lines(flows))


class LogView:
    """One log line per flow: at once when its state changes or something happens to it, else at each interval."""

    def __init__(self, *, interval_s: float = LOG_INTERVAL_S, clock: Callable[[], float] = time.monotonic) -> None:
        self._interval_s, self._clock = interval_s, clock
        self._logged: dict[str, tuple[float, FlowView]] = {}
        self._newest: Sequence[FlowView] = ()

    def __enter__(self) -> Self:
        """Nothing to prepare."""
        return self

    def __exit__(self, *_error: object) -> None:
        """Logs each flow as it ended."""
        for flow in self._newest:
            if self._logged.get(flow.name, (0.0, None))[1] != flow:
                self._log(flow)

    def update(self, flows: Sequence[FlowView]) -> None:
        """Takes what there is to show now."""
        self._newest = flows
        for flow in flows:
            at, before = self._logged.get(flow.name, (None, None))
            changed = before is None or before.state != flow.state or before.events != flow.events
            if changed or at is None or self._clock() - at >= self._interval_s:
                self._log(flow)

    def _log(self, flow: FlowView) -> None:
        log.info("%s", line(flow), extra={"flow": flow.name})
        self._logged[flow.name] = (self._clock(), flow)


def line(flow: FlowView) -> str:
    """A flow in words, without its name, for the log."""
    lag = f"lag {figures.count(flow.lag_records)}"
    if flow.lag_ms is not None:
        lag += f" ({figures.span(flow.lag_ms)})"
    parts = [
        flow.state,
        f"{figures.count(flow.records_per_s)} records/s",
        figures.megabytes_rate(flow.bytes_per_s),
        lag,
        f"rpo {figures.span(flow.rpo_ms)}",
        _counted(flow.lanes, "lane"),
        _counted(flow.partitions, "partition"),
    ]
    if flow.events:
        parts.append(_counted(len(flow.events), "event"))
    return "  ".join(parts)


def flow_lines(flows: Sequence[FlowView]) -> Table:
    """All flows as lines with aligned figures, and the newest events of each below them; fits 80 columns."""
    table = Table(box=None, pad_edge=False, padding=(0, 1), header_style="dim")
    table.add_column("flow", overflow="fold")
    table.add_column("state", no_wrap=True)
    for figure in ("records/s", "MB/s", "lag", "in time", "rpo", "lanes", "partitions"):
        table.add_column(figure, justify="right", no_wrap=True)
    for flow in flows:
        table.add_row(
            styled(flow.name, style="bold"),
            styled(flow.state, style=STATE_STYLES.get(flow.state, "yellow")),
            figures.count(flow.records_per_s),
            f"{flow.bytes_per_s / 1e6:,.1f}",
            figures.count(flow.lag_records),
            figures.span(flow.lag_ms),
            figures.span(flow.rpo_ms),
            figures.count(flow.lanes),
            figures.count(flow.partitions),
        )
    events = [(flow.name, event) for flow in flows for event in flow.events[-EVENTS_SHOWN:]]
    if not events:
        return table
    both = Table.grid()
    both.add_row(table)
    for name, event in events:
        both.add_row(styled(f"{name}: {event}", style="yellow"))
    return both


def _counted(number: int, noun: str) -> str:
    return f"{figures.count(number)} {noun}" + ("" if number == 1 else "s")
