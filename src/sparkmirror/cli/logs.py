"""Logging for commands that run long: lines on standard error, plain or as JSON.

Invariants:
    - Nothing is redacted here, because nothing secret gets here: secrets are held by
      :class:`sparkmirror.config.secret.Secret`, which shows itself as ``[hidden]``.
    - Libraries speak from WARNING on and under their own name; kafka-python not at all, since what it reports about
      connections comes again, with cluster and remedy, as our own errors.
    - Whatever a message holds, it is one line without control characters; only a traceback has lines of its own.
    - Each line goes to what ``sys.stderr`` is at that moment, so that a live display can put it above itself.

A line carries the place it is about as ``extra``: ``log.info("…", extra={"flow": str(name), "lane": 3})``.
"""

from __future__ import annotations

import logging
import sys
from datetime import UTC, datetime
from enum import StrEnum
from typing import Annotated, TextIO

import typer

from sparkmirror.printable import OneLine, json_text, printable, printable_lines

ROOT = "sparkmirror"

LIBRARIES = {"kafka": "kafka-python", "py4j": "spark", "pyspark": "spark", "numba": "numba", "asyncio": "asyncio"}
"""Loggers of libraries, by the first part of the name, and what an operator knows them as."""

PY4J_FAILS = "Exception while sending command."
"""What Py4J logs, with a traceback, of each call that a dead JVM does not answer."""

PLACES = ("flow", "cluster", "topic", "partition", "lane")
"""The fields that say what a line is about, in the order in which they are shown."""


class LogFormat(StrEnum):
    """How a log line is written."""

    PLAIN = "plain"
    JSON = "json"


LogFormatOption = Annotated[LogFormat, typer.Option("--log-format", help="How log lines are written.")]
"""The option of every command that logs."""


class PlainFormatter(logging.Formatter):
    """``2026-01-31T12:00:00.000Z INFO  flow.controller [A->B] message``."""

    def format(self, record: logging.LogRecord) -> str:
        """One line, and the traceback below it if the record has one."""
        place = " ".join(f"{name}={value}" if name != "flow" else f"{value}" for name, value in _places(record).items())
        line = f"{_time(record)} {record.levelname:<7} {_source(record)} "
        line = printable(line + (f"[{place}] {_message(record)}" if place else _message(record)))
        return f"{line}\n{printable_lines(self.formatException(record.exc_info))}" if record.exc_info else line


class JsonFormatter(logging.Formatter):
    """One JSON object per line: time, level, source, message, the place, and the traceback if there is one."""

    def format(self, record: logging.LogRecord) -> str:
        """One line, whatever the message holds."""
        line = {
            "time": _time(record),
            "level": record.levelname.lower(),
            "source": _source(record),
            "message": _message(record),
            **_places(record),
        }
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        return json_text(line, default=str)


class CurrentStderr(logging.StreamHandler[TextIO]):
    """Writes to what ``sys.stderr`` is now, not to what it was when logging was set up."""

    def __init__(self) -> None:
        logging.Handler.__init__(self)  # StreamHandler's own would set the stream that is a property here

    @property
    def stream(self) -> TextIO:
        """The stream of this moment."""
        return sys.stderr

    @stream.setter
    def stream(self, _stream: TextIO) -> None:
        raise AttributeError("this handler follows sys.stderr")


def configure(log_format: LogFormat = LogFormat.PLAIN, *, debug: bool = False) -> None:
    """Sets up logging for this process; may be called again, the last call holds.

    Args:
        log_format: plain lines or JSON lines.
        debug: our own DEBUG lines and the libraries' INFO lines too.
    """
    handler = CurrentStderr()
    handler.setFormatter(JsonFormatter() if log_format is LogFormat.JSON else PlainFormatter())
    logging.getLogger().handlers[:] = [handler]
    logging.getLogger().setLevel(logging.INFO if debug else logging.WARNING)
    logging.getLogger(ROOT).setLevel(logging.DEBUG if debug else logging.INFO)
    for library in LIBRARIES:
        logging.getLogger(library).setLevel(logging.INFO if debug else logging.WARNING)
    # It logs every refused connection as an error, several lines each; what matters of that comes as our own errors.
    logging.getLogger("kafka").setLevel(logging.INFO if debug else logging.CRITICAL)
    logging.getLogger().filters[:] = [] if debug else [_raised_too]
    logging.captureWarnings(True)


def _raised_too(record: logging.LogRecord) -> bool:
    """Whether a record of the root logger, which is a library's, is not of what Py4J raises as well."""
    return record.msg != PY4J_FAILS


def without_setup() -> None:
    """Has warnings of commands that set up no log come as plain words; Python prints these by itself."""
    if logging.lastResort is not None:
        logging.lastResort.setFormatter(OneLine("%(message)s"))


def speaks_json() -> bool:
    """Whether this process logs JSON lines, so that nothing else may go to standard error."""
    return any(isinstance(handler.formatter, JsonFormatter) for handler in logging.getLogger().handlers)


def _time(record: logging.LogRecord) -> str:
    moment = datetime.fromtimestamp(record.created, UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _source(record: logging.LogRecord) -> str:
    first, _, rest = record.name.partition(".")
    if first == ROOT:
        return rest or first
    return LIBRARIES.get(first, first)


def _message(record: logging.LogRecord) -> str:
    return record.getMessage().rstrip("\n")  # a warning of Python ends with a line end


def _places(record: logging.LogRecord) -> dict[str, object]:
    return {name: value for name in PLACES if (value := getattr(record, name, None)) is not None}
