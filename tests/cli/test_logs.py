"""Log lines as they reach standard error."""

from __future__ import annotations

import json
import logging
import sys
import warnings
from collections.abc import Iterator
from io import StringIO

import pytest

from sparkmirror.cli.app import show_error
from sparkmirror.cli.logs import LIBRARIES, ROOT, LogFormat, configure
from sparkmirror.errors import SparkmirrorError


@pytest.fixture(autouse=True)
def _logging_as_before() -> Iterator[None]:
    loggers = [logging.getLogger(name) for name in ("", ROOT, *LIBRARIES)]
    levels, handlers = [each.level for each in loggers], list(loggers[0].handlers)
    yield
    loggers[0].filters.clear()
    logging.captureWarnings(False)
    loggers[0].handlers[:] = handlers
    for each, level in zip(loggers, levels, strict=True):
        each.setLevel(level)


Captured = pytest.CaptureFixture[str]


def test_a_plain_line_has_time_level_source_and_place(capsys: Captured):
    configure()
    logging.getLogger("sparkmirror.flow.controller").info("planned %d lanes", 2, extra={"flow": "A->B", "lane": 1})
    time, level, source, rest = capsys.readouterr().err.rstrip("\n").split(maxsplit=3)
    assert time.endswith("Z")
    assert (level, source, rest) == ("INFO", "flow.controller", "[A->B lane=1] planned 2 lanes")


def test_a_json_line_is_one_object_whatever_the_message_holds(capsys: Captured):
    configure(LogFormat.JSON)
    logging.getLogger("sparkmirror.copy.lane").warning('two\nlines and "quotes"', extra={"topic": "t", "partition": 0})
    (line,) = capsys.readouterr().err.splitlines()
    told = json.loads(line)
    assert told.pop("time").endswith("Z")
    assert told == {
        "level": "warning",
        "source": "copy.lane",
        "message": 'two\nlines and "quotes"',
        "topic": "t",
        "partition": 0,
    }


def test_a_json_line_carries_the_traceback(capsys: Captured):
    configure(LogFormat.JSON)
    try:
        raise OSError("gone")
    except OSError:
        logging.getLogger("sparkmirror").exception("failed")
    (line,) = capsys.readouterr().err.splitlines()
    assert json.loads(line)["traceback"].endswith("OSError: gone")


def test_libraries_are_quiet_below_warning_and_speak_under_a_name_people_know(capsys: Captured):
    configure()
    logging.getLogger("kafka.net.connection").info("connecting")
    logging.getLogger("py4j.clientserver").info("answering")
    assert capsys.readouterr().err == ""
    logging.getLogger("kafka.net.connection").error("refused")
    assert capsys.readouterr().err == ""
    logging.getLogger("py4j.clientserver").warning("closed")
    assert "spark closed" in capsys.readouterr().err


def test_debug_lets_libraries_speak_from_info_on(capsys: Captured):
    configure(debug=True)
    logging.getLogger("kafka.net.connection").info("connecting")
    logging.getLogger("kafka.net.connection").debug("a byte")
    logging.getLogger("sparkmirror.kafka").debug("ours")
    shown = capsys.readouterr().err
    assert "connecting" in shown
    assert "ours" in shown
    assert "a byte" not in shown


@pytest.mark.parametrize("debug", [False, True])
def test_what_py4j_logs_of_a_dead_jvm_is_told_by_the_error_that_it_raises(capsys: Captured, *, debug: bool):
    configure(debug=debug)
    try:
        raise OSError("connection refused")
    except OSError:
        logging.getLogger().exception("Exception while sending command.")
    logging.getLogger().error("another one")
    shown = capsys.readouterr().err
    assert ("Traceback" in shown) is debug
    assert "another one" in shown


def test_lines_follow_standard_error_when_a_display_takes_it(capsys: Captured, monkeypatch: pytest.MonkeyPatch):
    configure()
    display = StringIO()
    monkeypatch.setattr(sys, "stderr", display)
    logging.getLogger("sparkmirror").info("above the display")
    assert "above the display" in display.getvalue()
    assert capsys.readouterr().err == ""


def test_the_last_call_holds_and_lines_are_not_doubled(capsys: Captured):
    configure(LogFormat.JSON)
    configure()
    logging.getLogger("sparkmirror").info("once")
    assert capsys.readouterr().err.count("once") == 1


def test_warnings_of_libraries_are_log_lines(capsys: Captured):
    configure(LogFormat.JSON)
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        logging.captureWarnings(True)
        warnings.warn("old", DeprecationWarning, stacklevel=1)
    assert "old" in json.loads(capsys.readouterr().err)["message"]


def test_an_error_that_ends_a_command_is_a_json_line_where_json_was_asked_for(capsys: Captured) -> None:
    configure(LogFormat.JSON)
    show_error(SparkmirrorError("it broke"), with_traceback=True)
    (line,) = capsys.readouterr().err.splitlines()
    told = json.loads(line)
    assert (told["level"], told["source"], told["message"]) == ("error", "cli.app", "it broke")
    assert "SparkmirrorError: it broke" in told["traceback"]


def test_a_name_can_begin_no_line_and_move_no_cursor(capsys: Captured):
    name = "x\n2026-01-31T12:00:00.000Z INFO forged\x1b[2J"
    for log_format in LogFormat:
        configure(log_format)
        logging.getLogger("sparkmirror.flow").warning("group %s", name, extra={"topic": f"{name}\u202e"})
    plain, as_json = capsys.readouterr().err.splitlines()
    assert r"group x\n2026-01-31T12:00:00.000Z INFO forged\x1b[2J" in plain
    assert r"\u202e" in plain
    assert as_json.isprintable()
    assert json.loads(as_json)["message"] == f"group {name}"


def test_a_traceback_has_lines_of_its_own_and_no_control_character(capsys: Captured):
    configure()
    try:
        raise OSError("\x1b[2J")
    except OSError:
        logging.getLogger("sparkmirror.flow").exception("it failed")
    assert capsys.readouterr().err.splitlines()[-1] == r"OSError: \x1b[2J"


def test_an_error_is_shown_without_control_characters(capsys: Captured):
    for with_traceback in (False, True):
        show_error(SparkmirrorError("broker says \x1b[2J[/x]"), with_traceback=with_traceback)
    told = capsys.readouterr().err
    assert "\x1b" not in told
    assert r"broker says \x1b[2J[/x]" in told
