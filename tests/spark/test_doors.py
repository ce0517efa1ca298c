"""What another user of the machine gets from a session that runs in this process: its ports, asked without a secret.

Reference: ``org.apache.spark.network.protocol`` (frames), ``OpenBlocks`` of the block manager.
"""

from __future__ import annotations

import os
import re
import socket
import stat
import struct
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

SECRET = "the-password-of-a-cluster"

SESSION = f"""
import os, sys
from pathlib import Path
from sparkmirror.spark.session import close_session, open_session
from sparkmirror.spark.settings import SparkOptions

session = open_session(SparkOptions(), 2)
context = session.sparkContext
password = {SECRET!r} * 100_000  # so large that Spark sends the function by its block manager, as with many settings
lengths = context.parallelize(range(2), 2).map(lambda number: len(password) + number).collect()
print(lengths[0], context.getConf().get("spark.python.unix.domain.socket.dir"), flush=True)
sys.stdin.readline()
close_session(session)
"""

RPC_REQUEST, RPC_RESPONSE = 3, 4
OPEN_BLOCKS = 0
LISTENS = "0A"


@dataclass(frozen=True)
class Running:
    """A session in a process of its own: its processes, the folder of its sockets, what it looks like on the wire."""

    pids: tuple[int, ...]
    sockets: Path

    @property
    def ports(self) -> dict[int, str]:
        """The TCP ports on which its processes listen, with the names of their programs."""
        found, listening = {}, _listening()
        for pid in self.pids:
            for place in Path(f"/proc/{pid}/fd").iterdir():
                inode = re.fullmatch(r"socket:\[(\d+)\]", str(place.readlink()))
                if inode and inode[1] in listening:
                    found[listening[inode[1]]] = Path(f"/proc/{pid}/exe").resolve().name
        return found


def _listening() -> dict[str, int]:
    """The ports of this machine on which somebody listens, by the inodes of their sockets."""
    found = {}
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        for line in Path(table).read_text().splitlines()[1:]:
            columns = line.split()
            if columns[3] == LISTENS:
                found[columns[9]] = int(columns[1].rpartition(":")[2], 16)
    return found


def _descendants(pid: int) -> list[int]:
    children = [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    return [pid, *(each for child in children for each in _descendants(child))]


@pytest.fixture(scope="module")
def running() -> Iterator[Running]:
    command = [sys.executable, "-c", SESSION]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        length, sockets = process.stdout.readline().split()
        assert int(length) == len(SECRET) * 100_000
        yield Running(tuple(_descendants(process.pid)), Path(sockets))
        process.stdin.close()
        assert process.wait(60) == 0


def _text(value: str) -> bytes:
    return struct.pack(">i", len(value)) + value.encode()


def _answer(port: int, body: bytes) -> bytes:
    """What a port of Spark answers to one request of its protocol; nothing where it hangs up."""
    message = struct.pack(">qi", 1, len(body)) + body
    with socket.create_connection(("127.0.0.1", port), 5) as asked:
        asked.settimeout(1)
        asked.sendall(struct.pack(">qb", 9 + len(message), RPC_REQUEST) + message)
        found = b""
        try:
            while len(found) < 4096 and (some := asked.recv(4096)):
                found += some
        except (TimeoutError, ConnectionError):
            pass
    return found


@pytest.mark.spark
def test_spark_gives_nobody_a_block_who_does_not_know_its_secret(running):
    ports = [port for port, program in running.ports.items() if program == "java"]
    assert len(ports) >= 3  # RPC, block manager, Py4J
    refused = []
    for port in ports:
        for block in ("broadcast_0_piece0", "broadcast_1_piece0"):
            blocks = struct.pack(">i", 1) + _text(block)
            answer = _answer(port, bytes([OPEN_BLOCKS]) + _text("application") + _text("driver") + blocks)
            assert len(answer) < 9 or answer[8] != RPC_RESPONSE
            refused.append(b"SaslMessage" in answer)
    assert sum(refused) >= 4  # both of Spark's ports, and not since nobody listened


@pytest.mark.spark
def test_spark_reads_no_java_object_of_somebody_who_does_not_know_its_secret(running):
    ports = [port for port, program in running.ports.items() if program == "java"]
    answers = [_answer(port, b"\xac\xed\x00\x05\x77\x04\xde\xad\xbe\xef") for port in ports]
    assert not any(b"ObjectInputStream" in answer for answer in answers)
    assert sum(b"SaslMessage" in answer for answer in answers) >= 2


@pytest.mark.spark
def test_python_listens_on_no_port_and_its_sockets_lie_where_nobody_else_may_go(running):
    assert "java" in running.ports.values()
    assert not [port for port, program in running.ports.items() if program.startswith("python")]
    assert [path for path in running.sockets.iterdir() if stat.S_ISSOCK(path.stat().st_mode)]
    found = running.sockets.stat()
    assert (found.st_uid, stat.S_IMODE(found.st_mode)) == (os.getuid(), 0o700)


@pytest.mark.spark
def test_what_a_function_carries_is_in_no_file(running):
    files = [path for path in running.sockets.rglob("*") if path.is_file()]
    assert files
    assert not [path for path in files if SECRET.encode() in path.read_bytes()]


@pytest.mark.spark
def test_a_module_in_the_working_directory_is_not_run(tmp_path):
    for name in ("javaproperties", "numba", "sparkmirror"):
        (tmp_path / f"{name}.py").write_text("from pathlib import Path\nPath('was-run').touch()\n")
    given = "import sys; sys.path.remove('') if '' in sys.path else None\n" + SESSION
    subprocess.run([sys.executable, "-c", given], stdin=subprocess.DEVNULL, cwd=tmp_path, timeout=120, check=True)
    assert not (tmp_path / "was-run").exists()
