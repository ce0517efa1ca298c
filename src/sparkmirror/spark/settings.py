"""Spark's settings for a session of ours, decided without Spark: pure, and PySpark is not imported.

Invariants, whatever the user sets: ``spark.task.maxFailures=1``, no speculation, fair scheduling, our daemon, a fixed
set of executors. A task that Spark repeated behind the driver's back would be a lane that it did not plan. Locally
whoever reaches one of Spark's ports has to know its secret, which Spark makes for each session, and Python's sockets
are files of the user.

On a cluster an executor that is dead is known at once by its closed connection, one that is stopped or cut off by its
missing heartbeats: after 20 s here, after 120 s with Spark's own settings, and until then Spark would give it lanes.

The flows' settings, secrets included, go to executors as broadcast blocks, by the same transport as Spark's messages.
``spark.authenticate`` keeps others from fetching them; what travels is encrypted by one of `_ENCRYPTION` only, of which
the first two need ``spark.authenticate``.

References: https://spark.apache.org/docs/latest/configuration.html, ``org.apache.spark.HeartbeatReceiver``; for the
encryption https://spark.apache.org/docs/latest/security.html, ``TransportConf``, ``SecurityManager``
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from ipaddress import ip_address
from pathlib import Path

from sparkmirror.errors import ConfigError

LOCAL = "local"
ENVIRONMENT = "environment"
"""The directory into which executors unpack a shipped environment."""

PYTHON = "spark.pyspark.python"
ARCHIVES = "spark.archives"

_OWN = {
    "spark.task.maxFailures": "1",
    "spark.speculation": "false",
    "spark.stage.maxConsecutiveAttempts": "1",
    "spark.excludeOnFailure.enabled": "false",
    "spark.dynamicAllocation.enabled": "false",
    "spark.scheduler.mode": "FAIR",
    "spark.python.worker.reuse": "true",
    "spark.python.daemon.module": "sparkmirror.spark.daemon",
    "spark.sql.execution.pyspark.udf.idleTimeoutSeconds": "0",
    "spark.sql.artifact.isolation.enabled": "false",
    # PySpark writes functions above this size to disk, and the settings of the clusters travel in one.
    "spark.broadcast.UDFCompressionThreshold": "1g",
    "spark.executorEnv.PYTHONSAFEPATH": "1",  # the directory in which somebody starts Spark is no place for modules
}
"""Nobody may change these."""

_OWN_LOCALLY = {"spark.authenticate": "true"}
"""Nor these where Spark runs in this process: other users of the machine reach its ports."""

_DEFAULTS = {
    "spark.app.name": "sparkmirror",
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.wholeStage": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.ui.enabled": "false",  # it asks nobody for a login
}

_LOCALLY = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.memory": "512m",
}

_ON_A_CLUSTER = {
    "spark.executor.memory": "512m",  # executors only look after Python workers, whose memory is outside of this
    "spark.executor.heartbeatInterval": "2s",
    "spark.storage.blockManagerHeartbeatTimeoutMs": "20s",
    "spark.network.timeoutInterval": "5s",
}

_MASTER_KEY = "spark.master"
_DRIVER, _BIND = "spark.driver.host", "spark.driver.bindAddress"
_AUTHENTICATE = "spark.authenticate"
_CRYPTO = "spark.network.crypto.enabled"
_SUBMISSIONS = "spark.master.rest.enabled"
_ENCRYPTION = (_CRYPTO, "spark.authenticate.enableSaslEncryption", "spark.ssl.rpc.enabled")

_ADDRESS = r"(?:[A-Za-z0-9.-]+|\[[0-9A-Fa-f:.]+\]):\d{1,5}"
_MASTER = re.compile(rf"local(?:\[(?:[1-9]\d{{0,4}}|\*)\])?|spark://{_ADDRESS}(?:,{_ADDRESS})*|yarn|k8s://[!-~]+")
"""Spark's forms but for ``local[N,F]``, which repeats tasks, and ``local-cluster``, which is for Spark's own tests."""
_CORES = re.compile(r"local\[(\d+)\]")

_SOCKET_PATH_BYTES, _SOCKET_NAME_BYTES = 107, len("/.01234567-89ab-cdef-0123-456789abcdef.sock")
"""How long the path of a Unix-domain socket may be, and how long the name is that Spark gives one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkOptions:
    """What the user says about Spark.

    Attributes:
        master: a master's URL; None for this process.
        conf: settings of Spark.
        archive: a packed environment to ship to the executors.
    """

    master: str | None = None
    conf: tuple[tuple[str, str], ...] = ()
    archive: Path | None = None

    @property
    def local(self) -> bool:
        """Whether lanes run on this machine, in processes that Spark starts for them."""
        return self.master is None or self.master.startswith(LOCAL)

    @property
    def cores(self) -> int | None:
        """For how many cores the user wants lanes in this process; None for those that there are."""
        found = _CORES.fullmatch(self.master or "")
        return None if found is None else int(found[1])


def parse_options(master: str | None, conf: tuple[str, ...], archive: Path | None) -> SparkOptions:
    """Checks what came from the command line.

    Args:
        master: a master's URL, or None.
        conf: ``KEY=VALUE`` each.
        archive: a packed environment, or None.

    Raises:
        ConfigError: what is wrong with it.
    """
    if master is not None and _MASTER.fullmatch(master) is None:
        shown = re.sub("//.*@", "//…@", master)[:100]  # somebody may have written a password there
        raise _wrong(
            f"--master {shown!r} is no master of Spark", "write spark://HOST:PORT, or leave it away to run here"
        )
    pairs = []
    for text in conf:
        key, equals, value = text.partition("=")
        if not equals or not key:
            raise _wrong(f"{text!r} is not KEY=VALUE", "write --conf spark.executor.memory=1g")
        pairs.append((key, value))
    if archive is not None and not archive.is_file():
        raise _wrong(f"the archive {archive} is not there", "see docs/spark.md for how to pack one")
    options = SparkOptions(master=master, conf=tuple(pairs), archive=archive)
    own = _OWN | (_OWN_LOCALLY if options.local else {})
    for key, value in options.conf:
        if key == _MASTER_KEY:
            raise _wrong(f"{_MASTER_KEY} is no setting of a run", "write --master, or leave it away to run here")
        if value != own.get(key, value):
            raise _wrong(f"{key} must stay {own[key]}", "lanes and their secrets depend on it")
    if archive is not None and options.local:
        raise _wrong("--archive needs --master", "lanes in this process use the environment that it runs in")
    return options


def session_settings(options: SparkOptions, slots: int, java_options: str, files: Path) -> dict[str, str]:
    """All settings of the session.

    Args:
        options: what the user says.
        slots: how many lanes may run at once in this process, overlaps included; unused on a cluster.
        java_options: of the driver's JVM.
        files: the folder of the run, which is open to its user only.
    """
    settings = {**_DEFAULTS, _MASTER_KEY: f"{LOCAL}[{slots}]" if options.local else options.master or ""}
    if options.local:
        settings |= _LOCALLY | _sockets_in(files)
    else:
        settings |= _ON_A_CLUSTER | _driver_address(options.master or "")
    if options.archive is not None:
        settings[ARCHIVES] = f"{options.archive.resolve().as_uri()}#{ENVIRONMENT}"
    settings |= dict(options.conf)
    for role, own in (("driver", java_options), ("executor", "")):
        key = f"spark.{role}.extraJavaOptions"
        settings[key] = _joined(own, settings.get(key, ""))
    return settings | _OWN | (_OWN_LOCALLY if options.local else {})


def _joined(own: str, given: str) -> str:
    """Options of a JVM that schedules and looks after Python workers, and does not live from what it compiles.

    What the user gives comes last and wins; of two garbage collectors Java takes none.
    """
    collector = "" if re.search(r"-XX:\+Use\w+GC\b", given) else "-XX:+UseSerialGC"
    return " ".join(filter(None, [own, collector, "-XX:TieredStopAtLevel=1", given]))


def executors_python(options: SparkOptions, environ: Mapping[str, str] | None = None) -> str:
    """The Python that lanes run in: as configured, else that of the archive, else the one that runs here."""
    environ = os.environ if environ is None else environ
    shipped = f"./{ENVIRONMENT}/bin/python" if options.archive is not None else ""
    return dict(options.conf).get(PYTHON) or environ.get("PYSPARK_PYTHON") or shipped or sys.executable


class Exposure(Enum):
    """What others can do with what the driver has for its executors; for people."""

    NOTHING = ""
    TO_USERS = (
        "other users of this machine can fetch the flows' settings, passwords included, from Spark, and make it run "
        "programs: its connections are not authenticated; set spark.authenticate on the master, the workers and here"
    )
    FETCHED = (
        "anybody who reaches Spark's ports could fetch the flows' settings, passwords included, and make it run "
        "programs: its connections are not authenticated"
    )
    READ = (
        "anybody who sees Spark's network traffic could read the flows' settings, passwords included: its connections "
        "are authenticated and not encrypted"
    )


def exposure(settings: Mapping[str, str]) -> Exposure:
    """What others can do on a cluster, given all settings of its session.

    Where its executors listen is not among them: see `Executors`.
    """
    authenticates = _is_on(settings, _AUTHENTICATE)
    driver = settings.get(_DRIVER, "")
    if all(map(is_loopback, (driver, settings.get(_BIND, driver), *_masters(settings.get(_MASTER_KEY, ""))))):
        return Exposure.NOTHING if authenticates else Exposure.TO_USERS
    if not authenticates:
        return Exposure.FETCHED
    return Exposure.NOTHING if any(_is_on(settings, key) for key in _ENCRYPTION) else Exposure.READ


def check_submissions(options: SparkOptions, hosts: Sequence[str]) -> str:
    """Refuses a cluster whose master takes programs from whoever asks, unless the command line says that it may.

    Args:
        options: what the user says.
        hosts: of masters that take them.

    Returns:
        What the log is to say; "" for nothing.

    Raises:
        ConfigError: with what has to be set.
    """
    if not hosts:
        return ""
    near = all(map(is_loopback, hosts))
    reason = (
        f"{'other users of this machine' if near else 'anybody who reaches it'} can have the Spark master on "
        f"{', '.join(hosts)} run programs as its workers' user, and so read the flows' settings, passwords included: "
        "its REST server of submissions (port 6066) asks nobody for a login, also where spark.authenticate is on"
    )
    remedy = f"set {_SUBMISSIONS}=false on the master and start it again, see docs/spark.md#secrets"
    if near or dict(options.conf).get(_SUBMISSIONS, "").lower() == "true":
        return f"{reason}: {remedy}"
    raise _wrong(reason, f"{remedy}; or say that it may be so with --conf {_SUBMISSIONS}=true")


def masters_of(options: SparkOptions) -> list[str]:
    """The hosts of the masters of a standalone cluster; none of another manager."""
    return _masters(options.master) if options.master is not None and options.master.startswith("spark://") else []


def is_loopback(host: str) -> bool:
    """Whether this machine alone reaches what listens there; a name other than ``localhost`` may be anywhere."""
    try:
        return host == "localhost" or ip_address(host.removeprefix("[").removesuffix("]")).is_loopback
    except ValueError:
        return False


@dataclass(frozen=True, slots=True, kw_only=True)
class Executors:
    """The executors of a session at a moment.

    An executor registers, then tells where its blocks are fetched, and takes tasks only after that.

    Attributes:
        registered: their ids.
        hosts: where each listens; some have not told it yet.
    """

    registered: frozenset[str]
    hosts: Mapping[str, str]

    @property
    def untold(self) -> frozenset[str]:
        """Those of which it is not known where they listen."""
        return self.registered - self.hosts.keys()

    @property
    def near(self) -> frozenset[str]:
        """Those that listen on the loopback interface."""
        return frozenset(name for name, host in self.hosts.items() if is_loopback(host))

    @property
    def away(self) -> tuple[str, ...]:
        """The hosts beyond the loopback interface on which some listen."""
        return tuple(sorted({host for host in self.hosts.values() if not is_loopback(host)}))


def check_exposure(options: SparkOptions, found: Exposure, hosts: Sequence[str] = ()) -> None:
    """Refuses a cluster whose network is not closed, unless the command line says that it need not be.

    Args:
        options: what the user says.
        found: what others can do.
        hosts: beyond the loopback interface, on which executors listen.

    Raises:
        ConfigError: with what has to be set.
    """
    where = f" (executors listen on {', '.join(hosts)}: start their workers with --host 127.0.0.1)" if hosts else ""
    given = {key: value.lower() for key, value in options.conf}
    for danger, key in ((Exposure.FETCHED, _AUTHENTICATE), (Exposure.READ, _CRYPTO)):
        if found is danger and given.get(key) != "false":
            raise _wrong(
                f"{found.value}{where}",
                f"set spark.authenticate and {_CRYPTO} on the master, the workers and here, see docs/spark.md#secrets; "
                f"or say that it may be so with --conf {key}=false",
            )


def _is_on(settings: Mapping[str, str], key: str) -> bool:
    return settings.get(key, "").strip().lower() == "true"


def _sockets_in(folder: Path) -> dict[str, str]:
    """Has Python and its JVM talk through files, to which other users have no way; ports where the path is too long."""
    if len(os.fsencode(folder)) + _SOCKET_NAME_BYTES > _SOCKET_PATH_BYTES:
        return {}
    return {"spark.python.unix.domain.socket.enabled": "true", "spark.python.unix.domain.socket.dir": str(folder)}


def _driver_address(master: str) -> dict[str, str]:
    """A master on the loopback interface has its executors there: the driver need not be seen from elsewhere."""
    if all(map(is_loopback, _masters(master))):
        return {_DRIVER: "127.0.0.1", _BIND: "127.0.0.1"}
    return {}


def _masters(url: str) -> list[str]:
    """The hosts of the masters that a URL names; of another manager than Spark's own, what is no host."""
    return [address.rpartition(":")[0] for address in url.removeprefix("spark://").split(",")]


def _wrong(reason: str, remedy: str) -> ConfigError:
    return ConfigError(file="command line", key="", reason=reason, remedy=remedy)
