"""One Spark session for all flows of a process, and what it can tell about itself.

Settings are decided in `settings`; the JVM is started by `launch`, and keeps its files in a `folder` of this run.
Locally the session listens on the loopback interface only, and asks everybody for its secret there. It shows no web
page unless it is told to. On a cluster it ends at once where others could get at what it sends, unless it was told that
they may. A cluster on the loopback interface need not authenticate: but where its executors listen is known only once
they have registered, so it is looked at before each shift is sent, and while the session lasts.
"""

from __future__ import annotations

import logging
import os
import re
import time
from collections.abc import Iterator, Set
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

from py4j.protocol import Py4JError
from pyspark.sql import SparkSession

from sparkmirror.errors import ConfigError, SparkmirrorError
from sparkmirror.spark import folder, launch
from sparkmirror.spark.archive import options as archive_options
from sparkmirror.spark.failures import reason_of
from sparkmirror.spark.java import set_java_home
from sparkmirror.spark.settings import (
    Executors,
    Exposure,
    SparkOptions,
    check_exposure,
    check_submissions,
    executors_python,
    exposure,
    masters_of,
    session_settings,
)
from sparkmirror.spark.submissions import open_to_all

log = logging.getLogger(__name__)

LOOK_SECONDS = 0.05
_PORT = re.compile(r":\d+$")  # an executor that has only registered has none yet

Session = SparkSession
"""The type, for rooms that may not import pyspark."""


def open_session(options: SparkOptions, slots: int, java_options: str | None = None) -> SparkSession:
    """Starts Spark, or connects to a cluster.

    Args:
        options: where, and with which settings.
        slots: how many lanes may run at once in this process, overlaps included.
        java_options: further options of the JVM; by default those that use the class-data archive, if it is there.

    Raises:
        JavaError: there is no Java 17 or 21.
        ConfigError: others could get at the flows' settings on the cluster's network, and nobody said that they may.
        SparkmirrorError: the cluster does not answer, or Spark refuses a setting.
    """
    java = set_java_home()
    archive = archive_options(java) if java_options is None else java_options
    place = folder.make(_local_directory(options))
    settings = session_settings(options, slots, _java_options(archive, place.path), place.path)
    builder: Any = SparkSession.builder
    for key, value in settings.items():
        builder = builder.config(key, value)
    try:
        launch.start(settings, place.path)
        session: SparkSession = builder.getOrCreate()
    except Exception as failure:
        launch.end()
        place.remove()
        raise SparkmirrorError(_not_started(options, failure)) from failure
    _places[session] = place
    session.sparkContext.pythonExec = executors_python(options)
    if not options.local:
        _check_network(session, options)
    return session


def _check_network(session: SparkSession, options: SparkOptions) -> None:
    """Ends a session on a network that is not closed, unless that was ordered; nothing secret was sent yet."""
    found = exposure(dict(session.sparkContext.getConf().getAll()))
    try:
        check_exposure(options, found)
        submissions = check_submissions(options, open_to_all(masters_of(options)))
    except ConfigError:
        close_session(session)
        raise
    if submissions:
        log.warning("%s", submissions)
    if found is not Exposure.NOTHING:
        log.warning("%s", found.value)
    if found is Exposure.TO_USERS:
        _only_here[session] = _Watched(options=options)


def check_executors(session: SparkSession, seconds: float = 0.0) -> None:
    """Ends a session that was let through as it stays on this machine, once an executor of it listens elsewhere.

    Executors keep what they are sent, and give it to whoever asks. Costs a round trip to the JVM where no executor is
    new, and nothing in a session that authenticates.

    Args:
        session: from `open_session`.
        seconds: to wait at most until each executor has told where it listens.

    Raises:
        ConfigError: one listens elsewhere, and nobody said that it may.
        SparkmirrorError: one has not told it in time, or Spark has ended.
    """
    watched = _only_here.get(session)
    if watched is None:
        return
    deadline = time.monotonic() + seconds
    found = _executors(session, watched.near)
    while found.untold and not found.away and time.monotonic() < deadline:
        time.sleep(LOOK_SECONDS)
        found = _executors(session, watched.near)
    watched.near |= found.near
    if found.away:
        check_exposure(watched.options, Exposure.FETCHED, found.away)
        log.warning("%s: executors listen on %s", Exposure.FETCHED.value, ", ".join(found.away))
        _only_here.pop(session, None)
    elif found.untold and seconds:
        raise SparkmirrorError(f"the addresses of Spark's executors were not known within {seconds:g} s")


def _executors(session: SparkSession, known: Set[str]) -> Executors:
    """The executors but for known ones, whose ids Spark gives to no others."""
    try:
        context: Any = session.sparkContext._jsc.sc()
        registered = frozenset(context.getExecutorIds().mkString(" ").split()) - known
        hosts = {}
        if registered:
            listed = context.statusStore().executorList(True)
            for each in map(listed.apply, range(listed.size())):
                if each.id() in registered and each.hostPort():
                    hosts[each.id()] = _PORT.sub("", each.hostPort())
        return Executors(registered=registered, hosts=hosts)
    except (Py4JError, OSError, AttributeError) as failure:
        raise SparkmirrorError(f"Spark gave no list of its executors: {reason_of(failure)}") from failure


@dataclass(slots=True, kw_only=True)
class _Watched:
    """A session that does not authenticate, and was let through as it stays on this machine.

    Attributes:
        options: what the user says.
        near: executors that were seen to listen on the loopback interface.
    """

    options: SparkOptions
    near: frozenset[str] = frozenset()


_only_here: WeakKeyDictionary[SparkSession, _Watched] = WeakKeyDictionary()

_places: WeakKeyDictionary[SparkSession, folder.RunFolder] = WeakKeyDictionary()


def close_session(session: SparkSession, seconds: float = launch.END_SECONDS) -> None:
    """Ends Spark, its JVM, and the run's folder.

    Args:
        session: from `open_session`; one that has ended is no error.
        seconds: to wait for the JVM at most.
    """
    if not has_ended(session):
        session.stop()
    launch.end(seconds)
    place = _places.pop(session, None)
    if place is not None:
        place.remove()


def slots_of(session: SparkSession) -> int:
    """How many tasks the session's executors can run at this moment; changes when executors come and go.

    A session that has ended has none.
    """
    with unless_ended(session):
        context: Any = session.sparkContext._jsc.sc()
        return int(context.maxNumConcurrentTasks(context.resourceProfileManager().defaultResourceProfile()))
    return 0


@contextmanager
def unless_ended(session: SparkSession) -> Iterator[None]:
    """Does nothing in a session that has ended, also while it is asked: its JVM may die at any moment."""
    try:
        yield
    except (Py4JError, OSError, AttributeError):
        if not has_ended(session):
            raise


def has_ended(session: SparkSession) -> bool:
    """Whether Spark has ended under us: its JVM died, or the cluster removed the application."""
    try:
        return bool(session.sparkContext._jsc.sc().isStopped())
    except (Py4JError, OSError, AttributeError):  # the last: PySpark's own context was stopped
        return True


def _not_started(options: SparkOptions, failure: Exception) -> str:
    reason = str(failure) if isinstance(failure, SparkmirrorError) else reason_of(failure)
    if options.local:
        return f"Spark did not start: {reason}"
    return (
        f"Spark at {options.master} did not take the application: {reason} "
        "(does the master answer, is it Spark of this version, can it reach spark.driver.host?)"
    )


def _local_directory(options: SparkOptions) -> Path | None:
    """Where the user wants Spark's files, the first of several places; None for the temporary directory."""
    given = os.environ.get("SPARK_LOCAL_DIRS") or dict(options.conf).get("spark.local.dir", "")
    first = given.partition(",")[0].strip()
    return Path(first) if first else None


def _java_options(archive: str, files: Path) -> str:
    """Quiet logs, files in the run's folder, and classes from the archive."""
    logs = Path(__file__).with_name("log4j2.properties").as_uri()
    crashes = f"-XX:ErrorFile={files}/hs_err_pid%p.log"  # it shows settings and memory: by default others may read it
    return f"-Dlog4j2.configurationFile={logs} -Djava.io.tmpdir={files} {crashes} {archive}".rstrip()
