"""Kafka's jars, fetched once per user by the Ivy that PySpark carries.

Invariants: a directory that exists is complete (it is filled under another name and renamed); one process fetches, the
others wait for it; what is pinned (`jar_checksums`) is used only as it was released; nothing is fetched when the
directory is there, so a machine that has fetched once works offline.

References: Ivy's standalone main class, https://ant.apache.org/ivy/history/latest-milestone/standalone.html
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO
from urllib.parse import urlsplit

from rich.console import Console

from sparkmirror.errors import LabError
from sparkmirror.lab.jar_checksums import difference, found, pinned
from sparkmirror.lab.lock import locked
from sparkmirror.lab.trust import trust_options
from sparkmirror.spark.java import find_java, spark_jar
from sparkmirror.user_cache import own, user_cache

KAFKA_VERSION = "4.3.1"
OLDER_KAFKA_VERSION = "3.9.1"
OLDEST_KAFKA_VERSION = "2.8.2"
"""It runs with ZooKeeper, on the Java that Spark needs."""

IVY_CACHE = ".ivy"
SETTINGS_VARIABLE = "SPARKMIRROR_IVY_SETTINGS"

ATTEMPTS = 3
ATTEMPT_SECONDS = 600.0
TELL_SECONDS = 3.0
WAIT_SECONDS = ATTEMPTS * ATTEMPT_SECONDS + 60

_SCALA = "2.13"
_SLF4J = ("org.slf4j", "slf4j-simple", "1.7.36")  # the jars come without a logging back end; this one needs no file
_ABSENT = "module not found"
_UNTRUSTED = "PKIX path building failed"
_PATTERN = "[artifact]-[revision](-[classifier]).[ext]"


@dataclass(frozen=True, slots=True, kw_only=True)
class Coordinates:
    """What one directory of jars holds: a name for it and Maven coordinates, fetched with all they depend on."""

    name: str
    modules: tuple[tuple[str, str, str], ...]

    def ivy_file(self) -> str:
        """The Ivy module descriptor that asks for these coordinates."""
        lines = (
            f'    <dependency org="{org}" name="{name}" rev="{rev}" conf="default->default"/>\n'
            for org, name, rev in self.modules
        )
        return (
            '<ivy-module version="2.0">\n  <info organisation="sparkmirror" module="lab"/>\n'
            '  <configurations><conf name="default"/></configurations>\n'
            f"  <dependencies>\n{''.join(lines)}  </dependencies>\n</ivy-module>\n"
        )

    def directory(self) -> Path:
        """Where the jars are, or will be; a changed recipe gets another directory."""
        recipe = hashlib.sha256(self.ivy_file().encode()).hexdigest()[:8]
        return user_cache() / "jars" / f"{self.name}-{recipe}"


def jars(version: str = KAFKA_VERSION) -> Path:
    """The directory with the jars of Kafka's broker, storage tool and clients.

    Raises:
        LabError: they could not be fetched; the message holds Ivy's reason and what to do.
    """
    modules = (("org.apache.kafka", f"kafka_{_SCALA}", version), _SLF4J)
    return fetch(Coordinates(name=f"kafka-{version}", modules=modules))


def mirror_maker_jars(version: str = KAFKA_VERSION) -> Path:
    """The directory with the jars of MirrorMaker 2 and of Kafka's command line tools.

    Raises:
        LabError: they could not be fetched.
    """
    names = ("connect-mirror", "connect-runtime", "kafka-tools")
    modules = (*(("org.apache.kafka", name, version) for name in names), _SLF4J)
    return fetch(Coordinates(name=f"mirror-maker-{version}", modules=modules))


def fetch(coordinates: Coordinates) -> Path:
    """The directory of these coordinates, fetched when it is not there yet.

    Raises:
        LabError: Ivy failed several times, or another process did not finish fetching in time.
        SparkmirrorError: somebody else may have put jars there.
    """
    directory = own(coordinates.directory())
    if directory.is_dir():
        return directory
    directory.parent.mkdir(parents=True, exist_ok=True)
    # One lock for all: Ivy's own cache, which the directories share, is not made for two processes.
    with locked(directory.parent / ".lock", seconds=WAIT_SECONDS):
        if not directory.is_dir():
            _fetch_with_retries(coordinates, directory)
    return directory


def _fetch_with_retries(coordinates: Coordinates, directory: Path) -> None:
    draft = directory.with_name(f".{directory.name}.draft")
    trust: tuple[str, ...] = ()
    for attempt in range(1, ATTEMPTS + 1):
        shutil.rmtree(draft, ignore_errors=True)
        draft.mkdir()
        problem = _run_ivy(coordinates, draft, (*_proxy_options(), *trust))
        if not problem:
            _check(coordinates, draft)
            draft.rename(directory)
            return
        if problem.startswith(_ABSENT):
            break
        if _UNTRUSTED in problem and not trust:
            trust = trust_options(draft.parent)
        elif attempt < ATTEMPTS:
            time.sleep(2.0 * attempt)
    shutil.rmtree(draft, ignore_errors=True)
    if problem.startswith(_ABSENT):
        raise LabError(f"{coordinates.name} could not be fetched: {problem}: name a version that has been released")
    raise LabError(
        f"{coordinates.name} could not be fetched in {attempt} attempts: {problem}. The first use needs "
        f"https://repo1.maven.org; behind a proxy set HTTPS_PROXY, for a mirror name an Ivy settings file in "
        f"{SETTINGS_VARIABLE}; or copy {directory} from a machine that has it"
    )


def _check(coordinates: Coordinates, draft: Path) -> None:
    """Compares what was fetched with the checksums of this repository.

    Raises:
        LabError: it is something else; nothing of it is left, in Ivy's cache neither.
    """
    pins = pinned(coordinates.name)
    if not pins:
        Console(stderr=True, highlight=False, soft_wrap=True).print(
            f"no checksums of {coordinates.name} are pinned: what was fetched is not checked"
        )
        return
    wrong = difference(pins, found(draft))
    if wrong:
        shutil.rmtree(draft, ignore_errors=True)
        shutil.rmtree(draft.parent / IVY_CACHE, ignore_errors=True)
        raise LabError(
            f"{coordinates.name} is not what was released, by its SHA-256: {wrong}. It is not used: find out where it "
            f"came from (a proxy, a mirror, {SETTINGS_VARIABLE})"
        )


def _run_ivy(coordinates: Coordinates, draft: Path, options: Sequence[str]) -> str:
    """One attempt; returns what went wrong, or "" when all jars are there."""
    module = draft.parent / ".ivy.xml"
    module.write_text(coordinates.ivy_file())
    settings = os.environ.get(SETTINGS_VARIABLE)
    command = [
        *(str(find_java().executable), *options, "-jar", str(spark_jar("ivy-*.jar"))),
        *(("-settings", settings) if settings else ()),
        *("-ivy", str(module), "-confs", "default", "-cache", str(draft.parent / IVY_CACHE)),
        *("-types", "jar", "bundle", "-retrieve", f"{draft}/{_PATTERN}"),
    ]
    with tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as said:
        code = _ended(coordinates, command, draft.parent / IVY_CACHE, said)
        said.seek(0)
        output = said.read()
    if code is None:
        return f"Ivy was not done after {ATTEMPT_SECONDS:.0f} s"
    wanted = (f"{name}-{rev}.jar" for _, name, rev in coordinates.modules)
    missing = [jar for jar in wanted if not (draft / jar).exists()]
    if code or missing:
        return _reason(output) or f"Ivy ended with {code}, missing {', '.join(missing)}"
    return ""


def _ended(coordinates: Coordinates, command: Sequence[str], cache: Path, said: IO[str]) -> int | None:
    """Runs Ivy, tells how far it is, and gives its exit code; None where it was not done in time and was ended."""
    console, before, began = Console(stderr=True, highlight=False), _megabytes(cache), time.monotonic()
    console.print(f"fetching {coordinates.name}, once for this user")
    with subprocess.Popen(command, stdout=said, stderr=subprocess.STDOUT, text=True) as process:
        while time.monotonic() - began < ATTEMPT_SECONDS:
            try:
                return process.wait(TELL_SECONDS)
            except subprocess.TimeoutExpired:
                took = time.monotonic() - began
                console.print(f"  {_megabytes(cache) - before:.0f} MB after {took:.0f} s")
        process.kill()
    return None


def _megabytes(directory: Path) -> float:
    """How large the files of a directory are that others may be writing to."""
    size = 0
    for path in directory.rglob("*"):
        with suppress(OSError):
            size += path.stat().st_size
    return size / 1e6


def _reason(output: str) -> str:
    """The line of Ivy's output that tells best why; "" when there is none."""
    for sign in ("Exception", "Server access error", "not found", "FAILED"):
        for line in output.splitlines():
            if sign in line:
                return line.strip(" \t:")
    return ""


def _proxy_options() -> tuple[str, ...]:
    """Java does not read the proxy variables that everything else on the machine reads."""
    options: list[str] = []
    for scheme in ("http", "https"):
        value = os.environ.get(f"{scheme}_proxy") or os.environ.get(f"{scheme.upper()}_PROXY") or ""
        proxy = urlsplit(value if "//" in value else f"//{value}")
        if proxy.hostname:
            options += [f"-D{scheme}.proxyHost={proxy.hostname}", f"-D{scheme}.proxyPort={proxy.port or 80}"]
    excluded = os.environ.get("no_proxy") or os.environ.get("NO_PROXY") or ""
    if options and excluded:
        hosts = (host.strip() for host in excluded.split(","))
        patterns = "|".join(f"*{host}" if host.startswith(".") else host for host in hosts if host)
        options.append(f"-Dhttp.nonProxyHosts={patterns}")
    return tuple(options)
