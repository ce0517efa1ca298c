"""What the JVMs of a cluster are started with: how much they compile, and which classes lie ready for them.

A broker of a test lives for seconds and has next to nothing to do, so what it costs is its start: loading 9,000
classes and compiling them. From an archive of its classes, with the first compiler alone, a start took 1.6 s of CPU
time instead of 4.9, and 20 s of light traffic 3.0 s instead of 6.8 (2 cores, Java 17). Under heavy traffic the second
compiler earns what it costs.

References: JEP 350 (dynamic CDS archives).
"""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Callable
from contextlib import suppress
from enum import StrEnum
from pathlib import Path

from sparkmirror.errors import LabError
from sparkmirror.lab.lock import locked
from sparkmirror.spark.java import JavaHome
from sparkmirror.user_cache import own, user_cache

MAKING_SECONDS = 180.0


class Load(StrEnum):
    """What a cluster is for."""

    LIGHT = "light"
    """A short life with little traffic, beside other work: tests, the demo."""
    HEAVY = "heavy"
    """As much traffic as it can take: benchmarks, a lab that somebody else uses."""


_QUIET = ("-Xlog:cds=off", "-Xlog:cds+dynamic=off")
_COMPILERS = {
    Load.LIGHT: ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"),
    # Parallel took 5 to 15 % less CPU than G1 for the same load, 1.5 M records of 512 B on 2 cores.
    Load.HEAVY: ("-XX:+UseParallelGC",),
}


def options(load: Load, archive: Path | None) -> tuple[str, ...]:
    """The options of a broker's JVM, beside its heap.

    Args:
        load: what the broker is for.
        archive: of its classes, if there is one.
    """
    return (*_COMPILERS[load], *((f"-XX:SharedArchiveFile={archive}", *_QUIET) if archive else ()))


def archive_of(java: JavaHome, jars: Path, making: Callable[[tuple[str, ...]], None]) -> Path | None:
    """The archive of the classes that brokers load, made at the first use.

    Args:
        java: that will run them.
        jars: the directory of Kafka's jars.
        making: runs a broker once from start to clean end, with these further options.

    Returns:
        None when this Java does not make one, or the broker did not start: others will start without, slower, or say
        what is wrong.

    Raises:
        LabError: another process is at it for minutes.
        SparkmirrorError: somebody else may have made it.
    """
    release = java.home / "release"
    identity = (str(java.home), release.read_text() if release.is_file() else str(java.version), str(jars))
    place = user_cache() / "broker-classes"
    name = hashlib.sha256("\0".join(identity).encode()).hexdigest()[:16]
    archive, none = own(place / f"{name}.jsa"), place / f"{name}.none"
    if archive.is_file():
        return archive
    with locked(place / ".lock", seconds=MAKING_SECONDS):
        if none.is_file():
            return None
        if not archive.is_file():
            with tempfile.TemporaryDirectory(dir=place) as directory:
                fresh = Path(directory, "fresh.jsa")
                with suppress(LabError):
                    making((f"-XX:ArchiveClassesAtExit={fresh}", *_QUIET))
                if not fresh.is_file():
                    none.touch()  # tried once
                    return None
                fresh.replace(archive)
    return archive
