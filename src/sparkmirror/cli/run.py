"""``sparkmirror run``: all enabled flows of a configuration, until a signal or, with ``--once``, until all is copied.

SIGTERM and SIGINT drain and stop; a second one stops at once.
"""

from __future__ import annotations

import faulthandler
import logging
import os
import signal
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import suppress
from enum import Enum
from functools import partial
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Annotated, NoReturn, TypeVar

import typer

from sparkmirror.cli import logs
from sparkmirror.cli.exits import ExitCode
from sparkmirror.cli.live import open_view
from sparkmirror.cli.logs import LogFormat, LogFormatOption
from sparkmirror.cli.options import Archive, Clusters, Conf, Files, Flow, Master
from sparkmirror.errors import ConfigError, SparkmirrorError

if TYPE_CHECKING:
    from sparkmirror.config import MirrorConfig
    from sparkmirror.flow.first_look import Trouble
    from sparkmirror.flow.runner import Runner
    from sparkmirror.spark.settings import SparkOptions

log = logging.getLogger(__name__)

LOOK_SECONDS = 0.25

T = TypeVar("T")


class TakeOver(Enum):
    """Whose positions a flow can begin with."""

    MM2 = "mm2"
    NONE = "none"


def run(
    context: typer.Context,
    files: Files,
    once: Annotated[bool, typer.Option("--once", help="Copy to the present end of every topic, then exit.")] = False,
    flow: Flow = None,
    clusters: Clusters = None,
    master: Master = None,
    conf: Conf = None,
    archive: Archive = None,
    log_format: LogFormatOption = LogFormat.PLAIN,
    take_over: Annotated[
        TakeOver | None,
        typer.Option(
            "--take-over",
            help="mm2: begin where MirrorMaker 2 left off, which must be stopped. none: never do; by default a flow "
            "that has never run does so where it finds MirrorMaker 2's positions.",
        ),
    ] = None,
    offsets_topic: Annotated[
        str,
        typer.Option("--offsets-topic", metavar="TOPIC", help="Where Kafka Connect keeps MirrorMaker 2's positions."),
    ] = "",
) -> None:
    """Run the enabled flows of a configuration."""
    from sparkmirror import config

    signals = Signals()
    spark = prepare(context, master, conf, archive, log_format)
    loaded = config.load(files, clusters=clusters or (), flow=flow)
    if take_over is TakeOver.MM2:
        _unless_stopped(partial(_take_over, loaded, offsets_topic), signals)
    elif offsets_topic:
        raise typer.BadParameter("--offsets-topic belongs to --take-over mm2")
    if take_over is TakeOver.NONE:
        loaded = config.without_takeover(loaded)
    run_flows(loaded, spark, once=once, signals=signals)


def _take_over(loaded: MirrorConfig, topic: str) -> None:
    """Takes every flow over from MirrorMaker 2, or none: what is refused is found first."""
    from sparkmirror.flow import moving_in

    for flow in loaded.flows:
        moving_in.check(flow, loaded.file, topic=topic)
    for flow in loaded.flows:
        moving_in.take_over(flow, loaded.file, topic=topic)


def prepare(
    context: typer.Context,
    master: str | None,
    conf: Sequence[str] | None,
    archive: Path | None,
    log_format: LogFormat,
) -> SparkOptions:
    """What comes before a configuration is read: the log, and Spark's options as they were given."""
    from sparkmirror.spark.settings import parse_options

    logs.configure(log_format, debug=bool(getattr(context.obj, "debug", False)))
    return parse_options(master, tuple(conf or ()), archive)


def run_flows(loaded: MirrorConfig, spark: SparkOptions, *, once: bool, signals: Signals) -> None:
    """Runs flows until a signal or, with ``once``, until all is copied.

    Args:
        loaded: the flows.
        spark: where and how Spark runs.
        once: copy to the present ends, then end.
        signals: caught from before the configuration was read.

    Raises:
        Exit: a flow failed; with its exit code.
    """
    for warning in loaded.warnings:
        log.warning("%s", warning)
    troubles = _first_look(loaded, once=once, signals=signals)
    from sparkmirror.flow.runner import Runner

    runner = Runner(loaded, spark=spark, once=once, troubles=troubles)
    with open_view() as view:
        runner.start()
        while runner.running:
            view.update(runner.views)
            time.sleep(LOOK_SECONDS)
            if signals.came and not runner.stopping:
                log.info("draining; another signal stops at once")
                runner.stop()
            _look_after_spark(runner)
        view.update(runner.views)
    failures = runner.failures
    runner.close()
    for failure in failures:
        log.error("%s", failure)
    wrong = len(failures) == len(loaded.flows) and all(isinstance(each, ConfigError) for each in failures)
    code = ExitCode.CONFIG_WRONG if wrong else ExitCode.FAILED if failures else ExitCode.DONE
    _leave(code)


def _look_after_spark(runner: Runner) -> None:
    """Without Spark nothing can be copied."""
    try:
        runner.check()
    except SparkmirrorError:
        runner.stop()
        runner.close()
        raise


def _first_look(loaded: MirrorConfig, *, once: bool, signals: Signals) -> dict[str, Trouble]:
    """Why flows cannot begin now, while others can.

    Raises:
        Exit: none can, and waiting does not help.
    """
    from sparkmirror.flow.first_look import first_look, hopeless

    troubles = _unless_stopped(partial(first_look, loaded, once=once), signals)
    if not hopeless(loaded, troubles, once=once):
        return troubles
    for error in dict.fromkeys(str(trouble.error) for trouble in troubles.values()):
        log.error("%s", error)
    log.error("nothing was started, and nothing was written")
    raise typer.Exit(ExitCode.CONFIG_WRONG)


def _unless_stopped(work: Callable[[], T], signals: Signals) -> T:
    """Does what may take long before flows begin; a signal ends the process meanwhile."""
    pool = ThreadPoolExecutor(1, thread_name_prefix="before the start")
    doing = pool.submit(work)
    pool.shutdown(wait=False)
    while not wait([doing], LOOK_SECONDS).done:
        if signals.came:
            log.info("stopped before anything was started")
            _leave(ExitCode.DONE)
    return doing.result()


def _leave(code: ExitCode) -> NoReturn:
    """Ends the process without taking it apart.

    Threads that wait for a cluster would hold that up, and one that is in Arrow or Numba just then would abort it.
    """
    logging.shutdown()
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):
            stream.flush()
    os._exit(code)


class Signals:
    """Takes SIGTERM and SIGINT: the first is kept for the main loop, the second ends the process at once.

    SIGUSR1 prints what every thread is at, for whoever wonders why nothing happens.

    A plain flag: the handler runs in the main thread between any two instructions, where it must not wait for a lock.
    """

    def __init__(self) -> None:
        self.came = False
        signal.signal(signal.SIGTERM, self._handle)
        signal.signal(signal.SIGINT, self._handle)
        faulthandler.register(signal.SIGUSR1, all_threads=True)

    def _handle(self, number: int, _frame: FrameType | None) -> None:
        if self.came:
            os._exit(128 + number)
        self.came = True
