"""What ``run`` shows while it runs."""

from __future__ import annotations

import logging
from dataclasses import replace
from io import StringIO

import pytest
from rich.console import Console

from sparkmirror.cli.live import LogView, TerminalView, flow_lines, open_view
from sparkmirror.flow.view import FlowView

FLOW = FlowView(
    name="A->B",
    state="running",
    records_per_s=12_345.0,
    bytes_per_s=98_700_000.0,
    lag_records=1_234,
    lag_ms=2_100,
    rpo_ms=3_000,
    lanes=1,
    partitions=24,
)


def terminal(*, width: int = 120) -> Console:
    return Console(file=StringIO(), force_terminal=True, width=width, color_system=None)


def drawn(console: Console) -> str:
    assert isinstance(console.file, StringIO)
    return console.file.getvalue()


class Clock:
    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


def test_one_line_tells_a_flow():
    console = terminal()
    console.print(flow_lines([FLOW]))
    header, line = drawn(console).splitlines()
    assert header.split() == "flow state records/s MB/s lag in time rpo lanes partitions".split()
    assert line.split() == "A->B running 12,345 98.7 1,234 2.1 s 3.0 s 1 24".split()


def test_no_figure_is_cut_on_a_terminal_of_80_columns():
    console = terminal(width=80)
    busy = replace(
        FLOW,
        records_per_s=1_234_567.0,
        lag_records=123_456_789,
        lag_ms=187_200_000,
        rpo_ms=187_200_000,
        partitions=10_000,
    )
    console.print(flow_lines([busy, replace(busy, name="us-west-2-primary->eu-central-1-analytics")]))
    text = drawn(console)
    assert "…" not in text
    assert text.count("1,234,567") == text.count("123,456,789") == text.count("10,000") == 2
    assert text.count("2 d 4 h") == 4


def test_events_are_shown_below_the_lines_and_are_not_markup():
    console = terminal()
    console.print(flow_lines([replace(FLOW, events=("orders-3 stopped at offset 7 [bold]",))]))
    assert drawn(console).splitlines()[2].strip() == "A->B: orders-3 stopped at offset 7 [bold]"


def test_a_lag_or_an_age_that_is_not_known_is_a_dash():
    console = terminal()
    console.print(flow_lines([replace(FLOW, lag_records=None, lag_ms=None, rpo_ms=None)]))
    assert drawn(console).splitlines()[1].split()[4:7] == ["-", "-", "-"]


def test_a_terminal_gets_a_display_and_a_pipe_gets_log_lines():
    assert isinstance(open_view(console=terminal()), TerminalView)
    assert isinstance(open_view(console=Console(file=StringIO())), LogView)


def test_the_display_leaves_the_last_state_on_the_screen():
    console = terminal()
    with open_view(console=console) as view:
        view.update([FLOW])
        view.update([replace(FLOW, state="stopped")])
    last = [line for line in drawn(console).splitlines() if "A->B" in line][-1]
    assert "stopped" in last


def test_log_lines_come_at_each_interval(caplog: pytest.LogCaptureFixture):
    caplog.set_level(logging.INFO, "sparkmirror")
    clock = Clock()
    view = LogView(interval_s=10, clock=clock)
    for clock.now_s in (0.0, 1.0, 9.9, 10.0, 10.5, 20.0):
        view.update([FLOW])
    assert len(caplog.messages) == 3
    assert "12,345 records/s" in caplog.messages[0]
    assert [record.flow for record in caplog.records] == ["A->B"] * 3  # type: ignore[attr-defined]  # given as extra


def test_a_change_of_state_is_logged_at_once(caplog: pytest.LogCaptureFixture):
    caplog.set_level(logging.INFO, "sparkmirror")
    view = LogView(interval_s=10, clock=Clock())
    view.update([FLOW])
    view.update([replace(FLOW, state="draining")])
    assert [message.split()[0] for message in caplog.messages] == ["running", "draining"]


def test_an_event_brings_the_line_of_its_flow_at_once(caplog: pytest.LogCaptureFixture):
    caplog.set_level(logging.INFO, "sparkmirror")
    clock = Clock()
    view = LogView(interval_s=10, clock=clock)
    for clock.now_s, events in ((0.0, ()), (1.0, ("gap",)), (2.0, ("gap",)), (3.0, ("gap", "stopped"))):
        view.update([replace(FLOW, events=events)])
    assert [message.split("  ")[-1] for message in caplog.messages] == ["24 partitions", "1 event", "2 events"]


def test_the_end_is_logged_if_it_was_not_yet(caplog: pytest.LogCaptureFixture):
    caplog.set_level(logging.INFO, "sparkmirror")
    with LogView(interval_s=10, clock=Clock()) as view:
        view.update([FLOW])
        view.update([replace(FLOW, lag_records=0)])
    assert [message.split("lag ")[1].split()[0] for message in caplog.messages] == ["1,234", "0"]


def test_the_end_is_not_logged_twice(caplog: pytest.LogCaptureFixture):
    caplog.set_level(logging.INFO, "sparkmirror")
    with LogView(interval_s=10, clock=Clock()) as view:
        view.update([FLOW])
    assert len(caplog.messages) == 1
