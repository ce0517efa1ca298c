"""One Spark session for all flows of a process, set up so that Spark never repeats a lane behind the driver's back.

Invariants: ``spark.task.maxFailures=1``, no speculation, fair scheduling, reused Python workers (their connections and
loaded kernels outlive a shift). Locally the session listens on the loopback interface only and shows no web page.

Reference: https://spark.apache.org/docs/latest/configuration.html
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from sparkmirror.spark.archive import options
from sparkmirror.spark.java import set_java_home

LOCAL = "local"

Session = SparkSession
"""The type, for rooms that may not import pyspark."""

_ALWAYS = {
    "spark.task.maxFailures": "1",
    "spark.speculation": "false",
    "spark.stage.maxConsecutiveAttempts": "1",
    "spark.scheduler.mode": "FAIR",
    "spark.python.worker.reuse": "true",
    "spark.python.daemon.module": "sparkmirror.spark.daemon",
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.sql.execution.pyspark.udf.idleTimeoutSeconds": "0",
    "spark.sql.artifact.isolation.enabled": "false",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.wholeStage": "false",
    "spark.ui.showConsoleProgress": "false",
}

_LOCALLY = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.ui.enabled": "false",
    "spark.driver.memory": "512m",
}


def open_session(master: str | None, slots: int, java_options: str | None = None) -> SparkSession:
    """Starts Spark, or connects to a cluster.

    Args:
        master: a Spark master's URL; None for this process with ``slots`` slots.
        slots: how many lanes may run at once in this process, overlaps included.
        java_options: further options of a local JVM; by default those that use the class-data archive, if it is there.

    Raises:
        JavaError: there is no Java 17 or 21.
    """
    java = set_java_home()
    archive = options(java) if java_options is None else java_options
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder: Any = SparkSession.builder
    builder = builder.appName("sparkmirror").master(master or f"{LOCAL}[{slots}]")
    local = master is None or master.startswith(LOCAL)
    settings = _ALWAYS | {"spark.driver.extraJavaOptions": _java_options(local, archive)} | (_LOCALLY if local else {})
    for key, value in settings.items():
        builder = builder.config(key, value)
    session: SparkSession = builder.getOrCreate()
    return session


def _java_options(local: bool, archive: str) -> str:
    """Quiet logs; and locally a JVM that starts fast, since it only schedules."""
    quiet = f"-Dlog4j2.configurationFile={Path(__file__).with_name('log4j2.properties').as_uri()}"
    return f"{quiet} -XX:+UseSerialGC -XX:TieredStopAtLevel=1 {archive}".rstrip() if local else quiet
