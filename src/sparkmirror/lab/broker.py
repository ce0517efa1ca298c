"""One broker: a Java process with its directory, its ports and its log.

Invariants: it runs under watch.py, so it ends with the process that started it; ``start`` returns when the broker has
answered a request, never after a sleep; after ``kill`` and ``stop`` it comes back with the same ports and data.
"""

from __future__ import annotations

import signal
import subprocess
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from sparkmirror.errors import LabError
from sparkmirror.lab.ports import HOST, PortTakenError
from sparkmirror.lab.process import KILL_SECONDS, Owned
from sparkmirror.lab.ready import known_brokers
from sparkmirror.lab.zookeeper import ZooKeeper

READY_SECONDS = 120.0
STOP_SECONDS = 60.0
TOOL_SECONDS = 60.0
LOOK_SECONDS = 0.05

_LOGGING = (
    "-Dorg.slf4j.simpleLogger.showDateTime=true",
    "-Dorg.slf4j.simpleLogger.dateTimeFormat=yyyy-MM-dd'T'HH:mm:ss.SSS",
    "-Dorg.slf4j.simpleLogger.levelInBrackets=true",
    # Two thousand lines at every start: all settings, ours are in server.properties.
    "-Dorg.slf4j.simpleLogger.log.kafka.server.KafkaConfig=warn",
    "-Dorg.slf4j.simpleLogger.log.org.apache.kafka.common.config.AbstractConfig=warn",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """What the brokers of one cluster are started with.

    Attributes:
        java: the executable.
        jars: Kafka's jars.
        heap_mb: the heap of one broker.
        options: of its JVM, and of the storage tool's.
        removed: the directory to remove when the owner is gone, None to leave everything.
        prefix: what stands before the command, such as ``env`` with variables.
    """

    java: Path
    jars: Path
    heap_mb: int
    options: tuple[str, ...]
    removed: Path | None
    prefix: tuple[str, ...] = ()


class Broker:
    """One broker of a lab cluster.

    Args:
        node: its node id.
        directory: for its settings, its log and its data.
        port: of the PLAINTEXT listener.
        settings: its server.properties.
        launch: what it is started with.
        zookeeper: where it registers, None for one that does without.

    Attributes:
        node: its node id.
        directory: holds server.properties, server.log and data.
        port: of the PLAINTEXT listener.
    """

    def __init__(
        self,
        *,
        node: int,
        directory: Path,
        port: int,
        settings: Mapping[str, str],
        launch: Launch,
        zookeeper: ZooKeeper | None = None,
    ) -> None:
        self.node, self.directory, self.port = node, directory, port
        self._launch, self._zookeeper = launch, zookeeper
        self._process = Owned(
            name=f"broker {node} in {directory}", log=directory / "server.log", removed=launch.removed
        )
        directory.mkdir(parents=True, exist_ok=True)
        (directory / "tmp").mkdir(exist_ok=True)
        lines = (f"{key}={value}\n".replace("\\", "\\\\") for key, value in settings.items())
        (directory / "server.properties").write_text("".join(lines))

    @property
    def pid(self) -> int:
        """The process id of the broker itself.

        Raises:
            LabError: it does not run.
        """
        return self._process.pid

    @property
    def running(self) -> bool:
        """Whether its process is there; says nothing about whether it answers."""
        return self._process.running

    @property
    def log(self) -> Path:
        """What it wrote, from its first start on."""
        return self._process.log

    def format(self, cluster_id: str, scram_users: Mapping[str, str]) -> None:
        """Writes the metadata that a broker needs before its first start.

        Raises:
            LabError: the storage tool refused.
        """
        command = [
            *(str(self._launch.java), "-Xmx128m", *self._launch.options),
            *("-cp", f"{self._launch.jars}/*", "kafka.tools.StorageTool", "format", "--cluster-id", cluster_id),
            *("--config", str(self.directory / "server.properties")),
        ]
        for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512"):
            for name, password in scram_users.items():
                command += ["--add-scram", f"{mechanism}=[name={name},password={password}]"]
        with self.log.open("ab") as log:
            try:
                tool = subprocess.run(command, stdout=log, stderr=log, timeout=TOOL_SECONDS, check=False)
            except subprocess.TimeoutExpired:
                raise LabError(
                    f"broker {self.node}: formatting took over {TOOL_SECONDS:.0f} s: {self._process.tail()}"
                ) from None
        if tool.returncode:
            raise LabError(f"broker {self.node}: formatting failed: {self._process.tail()}")

    def begin(self) -> None:
        """Starts the process, without waiting until it answers; does nothing while it runs.

        Raises:
            LabError: ZooKeeper does not forget its earlier life.
        """
        if self._zookeeper is not None and not self.running:
            self._zookeeper.wait_until_forgotten(self.node)
        self._process.begin(self._command())

    def wait_until_ready(self, expected: frozenset[int], *, seconds: float = READY_SECONDS) -> None:
        """Returns when this broker has answered and knows all expected brokers as alive.

        Raises:
            PortTakenError: it ended since a port was not free any more.
            LabError: it ended, or the time is over; with the end of its log.
        """
        deadline = time.monotonic() + seconds
        known: frozenset[int] | None = None
        while time.monotonic() < deadline:
            if not self.running:
                tail = self._process.tail()
                kind = PortTakenError if "Address already in use" in self.log.read_text(errors="replace") else LabError
                raise kind(f"broker {self.node} ended while it started: {tail}")
            known = known_brokers((HOST, self.port))
            if known is not None and known >= expected:
                return
            time.sleep(LOOK_SECONDS)
        heard = "it does not answer" if known is None else f"it knows only {sorted(known)} of {sorted(expected)}"
        raise LabError(f"broker {self.node} was not ready after {seconds:.0f} s, {heard}: {self._process.tail()}")

    def start(self) -> None:
        """Starts it again, on the same ports and data, and waits until it answers and counts itself in.

        Raises:
            LabError: it did not get ready.
        """
        self.begin()
        self.wait_until_ready(frozenset({self.node}))

    def kill(self) -> None:
        """Ends it as a crash would (SIGKILL). Does nothing when it does not run."""
        self._process.end(signal.SIGKILL, KILL_SECONDS)

    def stop(self) -> None:
        """Ends it cleanly: it hands its leaderships over and closes its logs (SIGTERM).

        Raises:
            LabError: it did not end in time; it has been killed then.
        """
        self._process.end(signal.SIGTERM, STOP_SECONDS)

    def _command(self) -> list[str]:
        heap = self._launch.heap_mb
        return [
            *self._launch.prefix,
            *(str(self._launch.java), f"-Xmx{heap}m", f"-Xms{min(heap, 256)}m", *self._launch.options),
            *("-XX:+ExitOnOutOfMemoryError", "-XX:-UsePerfData", "-Djava.net.preferIPv4Stack=true"),
            # Native codec libraries are unpacked there; a killed broker would leave them in the system's directory.
            f"-Djava.io.tmpdir={self.directory / 'tmp'}",
            *_LOGGING,
            *("-cp", f"{self._launch.jars}/*", "kafka.Kafka", str(self.directory / "server.properties")),
        ]
