"""What the Python worker of an executor logs, without Spark."""

from __future__ import annotations

import logging
import sys

from sparkmirror.spark.job import OneLine


def test_a_line_of_an_executor_is_one_line_and_its_traceback_does_nothing():
    try:
        raise OSError("\x1b[2J")
    except OSError:
        record = logging.LogRecord("kafka", logging.WARNING, "", 0, "group %s", ("x\n\x1b[31m",), sys.exc_info())
    first, *_, last = OneLine(logging.BASIC_FORMAT).format(record).split("\n")
    assert first == r"WARNING:kafka:group x\n\x1b[31m"
    assert last == r"OSError: \x1b[2J"
