"""The process that Spark forks its Python workers from, with everything loaded that a lane needs.

Spark ends a worker that was idle for a minute, so nearly every shift begins in a new one. Forked from a process that
has imported the copy and loaded its kernels, it begins in milliseconds instead of a second of CPU time, and shares most
of its memory with the others.

Where its JVM ignores the signals that end a run (``launch``), this process and its workers never get them: PySpark
makes them die of SIGTERM, and a lane that dies cannot hand over. They end when the JVM closes the pipe to them, or
kills them. An executor's JVM ignores none, and is ended by them with its lanes.

Invariant: nothing here starts a thread or opens a connection before the fork. pyarrow does start one when it is
imported, so it is left to the worker.

Reference: ``pyspark.daemon``, ``org.apache.spark.api.python.PythonWorkerFactory`` (``spark.python.daemon.module``).
"""

from __future__ import annotations

import gc
import os
import signal

LOCATORS = (
    "sparkmirror.spark.kernel_cache.Shipped",
    "UserProvidedCacheLocator",
    "InTreeCacheLocator",
    "sparkmirror.batches.kernels.places.OfUser",
    "sparkmirror.batches.kernels.places.OfProcess",
)
"""Where Numba keeps compiled kernels, the first that can: see ``kernel_cache`` and ``places``."""

# Numba reads its settings when it is imported, so before everything else.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("NUMBA_CACHE_LOCATOR_CLASSES", ",".join(LOCATORS))


def load() -> None:
    """Imports the copy and loads its kernels."""
    from sparkmirror import batches
    from sparkmirror.copy import lane

    del lane
    batches.warm()
    gc.collect()
    gc.freeze()


def hold_back_signals() -> None:
    """Blocks the signals that this process was started to ignore: PySpark sets handlers, and leaves masks alone."""
    ignored = {each for each in (signal.SIGTERM, signal.SIGINT) if signal.getsignal(each) is signal.SIG_IGN}
    signal.pthread_sigmask(signal.SIG_BLOCK, ignored)


if __name__ == "__main__":
    from pyspark.daemon import manager

    from sparkmirror.spark import core_dumps

    if not os.environ.get("SPARKMIRROR_DEBUG"):
        core_dumps.forbid()
    hold_back_signals()
    load()
    manager()
