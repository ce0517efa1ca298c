"""The ZooKeeper beside a cluster of brokers that are too old to do without: one process, from Kafka's own dependency.

Invariants: ``start`` returns when it has answered a request; a broker is started only when no session of its earlier
life is left, since two of its kind may not register under one id.

References: ZooKeeper's four letter words (``ruok``, ``dump``); KIP-833, which calls KRaft ready from Kafka 3.3 on.
"""

from __future__ import annotations

import signal
import socket
import subprocess
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from sparkmirror.errors import LabError
from sparkmirror.lab.ports import HOST, PortTakenError
from sparkmirror.lab.process import Owned

READY_SECONDS = 60.0
FORGOTTEN_SECONDS = 60.0
STOP_SECONDS = 20.0
TOOL_SECONDS = 60.0
LOOK_SECONDS = 0.05
SESSION_MS = 4_000
FIRST_WITHOUT = (3, 3)

_SMALL_JVM = ("-Xmx128m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")


def needs_zookeeper(version: str) -> bool:
    """Whether brokers of this version of Kafka are run with ZooKeeper."""
    numbers = tuple(int(part) for part in version.split(".")[:2] if part.isdigit())
    return numbers < FIRST_WITHOUT


class ZooKeeper(Owned):
    """One ZooKeeper server.

    Args:
        directory: for its data, its settings and its log.
        port: where it listens.
        java: the executable.
        jars: Kafka's jars, with ZooKeeper's among them.
        removed: the directory to remove when the owner is gone, None to leave everything.
    """

    def __init__(self, *, directory: Path, port: int, java: Path, jars: Path, removed: Path | None) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        super().__init__(name="ZooKeeper", log=directory / "server.log", removed=removed)
        self._port, self._java = port, [str(java), *_SMALL_JVM, "-cp", f"{jars}/*"]
        self._settings = directory / "zookeeper.properties"
        settings = {
            "dataDir": str(directory / "data"),
            "clientPort": str(port),
            "clientPortAddress": HOST,
            "tickTime": str(SESSION_MS // 2),  # a session lasts two ticks at least
            "maxClientCnxns": "0",
            "admin.enableServer": "false",
            "4lw.commands.whitelist": "ruok,dump",
        }
        self._settings.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))

    def start(self) -> None:
        """Starts it and returns when it answers.

        Raises:
            PortTakenError: it ended since its port was not free any more.
            LabError: it ended, or did not answer in time; with the end of its log.
        """
        main = "org.apache.zookeeper.server.quorum.QuorumPeerMain"
        self.begin([*self._java, "-Djava.net.preferIPv4Stack=true", main, str(self._settings)])
        self._until(lambda: self._asked("ruok") == "imok", READY_SECONDS, "does not answer")

    def wait_until_forgotten(self, node: int) -> None:
        """Returns when no session holds this broker's registration any more.

        Raises:
            LabError: one still does after all that time; with the end of its log.
        """
        place = f"/brokers/ids/{node}"

        def forgotten() -> bool:
            dump = self._asked("dump")
            return bool(dump) and place not in dump.split()

        self._until(forgotten, FORGOTTEN_SECONDS, f"still has a session of broker {node}")

    def add_users(self, users: Mapping[str, str]) -> None:
        """Stores SCRAM users, before the first broker starts.

        Raises:
            LabError: Kafka's tool refused.
        """
        for name, password in users.items():
            secrets = ",".join(f"{kind}=[password={password}]" for kind in ("SCRAM-SHA-256", "SCRAM-SHA-512"))
            command = [*self._java, "kafka.admin.ConfigCommand", "--zookeeper", f"{HOST}:{self._port}", "--alter"]
            command += ["--add-config", secrets, "--entity-type", "users", "--entity-name", name]
            run = subprocess.run(command, capture_output=True, text=True, timeout=TOOL_SECONDS, check=False)
            if run.returncode:
                raise LabError(f"ZooKeeper: user {name} could not be added: {run.stdout}{run.stderr}")

    def stop(self) -> None:
        """Ends it; its data is on disk by then."""
        self.end(signal.SIGTERM, STOP_SECONDS)

    def _until(self, condition: Callable[[], bool], seconds: float, problem: str) -> None:
        deadline = time.monotonic() + seconds
        while not condition():
            if not self.running:
                taken = "Address already in use" in self.log.read_text(errors="replace")
                raise (PortTakenError if taken else LabError)(f"ZooKeeper ended: {self.tail()}")
            if time.monotonic() > deadline:
                raise LabError(f"ZooKeeper {problem}: {self.tail()}")
            time.sleep(LOOK_SECONDS)

    def _asked(self, word: str) -> str:
        """What it answers to a four letter word; "" while it does not."""
        try:
            with socket.create_connection((HOST, self._port), timeout=2.0) as connection:
                connection.sendall(word.encode())
                pieces = []
                while piece := connection.recv(1 << 16):
                    pieces.append(piece)
        except OSError:
            return ""
        return b"".join(pieces).decode(errors="replace")
