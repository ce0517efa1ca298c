"""``sparkmirror run`` for tests that do not look at Spark: forked from a process that has all of it loaded.

To start a mirror costs eight seconds of CPU time, nearly all of it Python's imports and Spark's JVM. Here the driver is
the real one, a process of its own with the real command line, and so is each lane, which can be killed or stopped. Only
what Spark would do is done here: a shift's plan goes to a process, its receipts come back.

    pytest ── lines of JSON ──► server ── fork ──► driver ── fork ──► daemon ── fork ──► lane

Invariants: the server and each daemon have one thread when they fork. A driver ends with the server, which ends with
its pytest process; lanes end with their driver, a moment later, as Spark's do.
"""

from __future__ import annotations

import ctypes
import importlib
import json
import logging
import os
import pickle
import selectors
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import ModuleType
from typing import Any, NoReturn

from sparkmirror.config import FlowConfig
from sparkmirror.copy.lane import Lane
from sparkmirror.copy.plan import ShiftPlan
from sparkmirror.copy.receipt import Receipt
from sparkmirror.errors import SparkmirrorError
from sparkmirror.kafka.cluster import Cluster, new_loop

ROOT = Path(__file__).parents[1]
PR_SET_PDEATHSIG = 1
START_SECONDS = 60.0
GO_SECONDS = 1.0
"""So long lanes go on at most when their driver is gone."""

_LOADED = (
    "sparkmirror.cli.run",
    "sparkmirror.copy.lane",
    "sparkmirror.copy.dead_letters",
    "sparkmirror.flow.first_look",
    "sparkmirror.flow.moving_in",
    "sparkmirror.flow.runner",
)


# ------------------------------------------------------------------------------------------------- the side of pytest


class Forked:
    """A driver that was forked, with the methods of `subprocess.Popen` that tests need."""

    def __init__(self) -> None:
        self.pid = 0
        self.returncode: int | None = None
        self._started, self._ended = threading.Event(), threading.Event()

    def poll(self) -> int | None:
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        if not self._ended.wait(timeout):
            raise subprocess.TimeoutExpired("sparkmirror run", timeout or 0.0)
        assert self.returncode is not None
        return self.returncode

    def wait_for_start(self) -> None:
        assert self._started.wait(START_SECONDS), "the server of drivers does not answer"

    def take(self, said: Mapping[str, int]) -> None:
        """What the server has said about it."""
        if "code" in said:
            self.returncode = said["code"]
            self._ended.set()
        else:
            self.pid = said["pid"]
            self._started.set()


class Server:
    """The process that drivers are forked from, one for each process of pytest; it is started with the first driver."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process: subprocess.Popen[str] | None = None
        self._forked: list[Forked] = []

    def start(self, arguments: Sequence[str], log: Path) -> Forked:
        """Starts ``sparkmirror`` with arguments, this process's environment, and a file for its output."""
        forked = Forked()
        log.write_bytes(b"")  # a test may read it before the driver is there
        with self._lock:
            if self._process is None:
                self._process = self._open()
            number = len(self._forked)
            self._forked.append(forked)
            request = {"number": number, "arguments": arguments, "log": str(log), "environment": dict(os.environ)}
            assert self._process.stdin is not None
            self._process.stdin.write(json.dumps(request | {"directory": str(Path.cwd())}) + "\n")
            self._process.stdin.flush()
        forked.wait_for_start()
        return forked

    def close(self) -> None:
        with self._lock:
            if self._process is not None:
                self._process.kill()
                self._process.wait()

    def _open(self) -> subprocess.Popen[str]:
        path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.forking"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            process_group=0,
            env=os.environ | {"PYTHONPATH": path},
        )
        threading.Thread(target=self._listen, args=(process,), daemon=True, name="drivers").start()
        return process

    def _listen(self, process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None
        for line in process.stdout:
            said = json.loads(line)
            self._forked[said["number"]].take(said)


SERVER = Server()


# ------------------------------------------------------------------------------------------------------- the server


def serve() -> None:
    """Forks drivers as standard input says, and says on standard output how they begin and end, until it closes."""
    from sparkmirror import batches

    for name in _LOADED:
        importlib.import_module(name)
    batches.warm()
    drivers: dict[int, int] = {}
    woken, waker = os.pipe()
    os.set_blocking(waker, False)
    signal.set_wakeup_fd(waker)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    with selectors.DefaultSelector() as selector, os.fdopen(0, closefd=False) as requests:
        selector.register(0, selectors.EVENT_READ)
        selector.register(woken, selectors.EVENT_READ)
        while True:
            ready = {key.fd for key, _ in selector.select()}
            if 0 in ready:
                line = requests.readline()
                if not line:
                    break
                request = json.loads(line)
                pid = os.fork()
                if pid == 0:
                    signal.set_wakeup_fd(-1)
                    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                    selector.close()
                    for each in (woken, waker):
                        os.close(each)
                    drive(request)
                drivers[pid] = request["number"]
                _say({"number": request["number"], "pid": pid})
            if woken in ready:
                os.read(woken, 1024)
                _bury(drivers)
    for pid in drivers:
        os.kill(pid, signal.SIGKILL)


def _bury(drivers: dict[int, int]) -> None:
    while drivers:
        pid, status = os.waitpid(-1, os.WNOHANG)
        if not pid:
            return
        code = os.waitstatus_to_exitcode(status)
        _say({"number": drivers.pop(pid), "code": code if code >= 0 else 128 - code})


def _say(answer: Mapping[str, int]) -> None:
    os.write(1, (json.dumps(answer) + "\n").encode())


def _die_with_parent() -> None:
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


# ------------------------------------------------------------------------------------------------------- a driver


def drive(request: Mapping[str, Any]) -> NoReturn:
    """Becomes a driver: ``sparkmirror`` with the arguments asked for, whose lanes are forked by a daemon."""
    _die_with_parent()
    os.setpgid(0, 0)
    with Path(request["log"]).open("wb", buffering=0) as log, Path(os.devnull).open("rb") as nothing:
        for source, descriptor in ((nothing, 0), (log, 1), (log, 2)):
            os.dup2(source.fileno(), descriptor)
    os.environ.clear()
    os.environ.update(request["environment"])
    os.chdir(request["directory"])
    sys.argv = ["sparkmirror", *request["arguments"]]
    sys.path[1:1] = [place for place in os.environ.get("PYTHONPATH", "").split(os.pathsep) if place not in sys.path]
    lanes = Lanes()
    from sparkmirror.cli.app import main

    runner: Any = importlib.import_module("sparkmirror.flow.runner")
    runner.open_session = lambda _options, _slots: lanes
    runner.close_session = lambda _session: lanes.close()
    runner.has_ended = lambda _session: False
    sys.modules["sparkmirror.spark.job"] = lanes.job()
    main()


class Lanes:
    """In the place of a Spark session: a daemon forks a process for each shift."""

    def __init__(self) -> None:
        self._control, theirs = socket.socketpair()
        self._lock = threading.Lock()
        self._running: dict[tuple[str, str], tuple[socket.socket, list[str]]] = {}
        if os.fork() == 0:
            self._control.close()
            watch_lanes(theirs)
        theirs.close()

    def job(self) -> ModuleType:
        """What `sparkmirror.spark.job` is to the driver."""
        job: Any = ModuleType("sparkmirror.spark.job")
        job.packed = lambda config: config
        job.run_shift = lambda _session, plan, config: self.run(plan, config)
        job.cancel_flow = lambda _session, _run, flow: self.cancel(flow, "", "the flow is cancelled")
        job.cancel_shift = lambda _session, _run, flow, shift, reason: self.cancel(flow, shift, reason)
        found: ModuleType = job
        return found

    def run(self, plan: ShiftPlan, config: FlowConfig) -> tuple[Receipt, ...]:
        """Runs a shift in a process of its own, and waits for it."""
        mine, theirs = socket.socketpair()
        reasons: list[str] = []
        with self._lock:
            self._running[plan.flow, plan.shift] = (mine, reasons)
            socket.send_fds(self._control, [b"x"], [theirs.fileno()])
        theirs.close()
        try:
            request = pickle.dumps((plan, config))
            mine.sendall(len(request).to_bytes(8, "big") + request)
            answer = _read(mine, sys.maxsize)
        except OSError:
            answer = b""
        finally:
            with self._lock:
                del self._running[plan.flow, plan.shift]
            mine.close()
        if reasons:
            raise SparkmirrorError(f"the lane was cancelled: {reasons[0]}")
        if not answer:
            raise SparkmirrorError("the process of the lane ended without an answer")
        found: tuple[Receipt, ...] | str = pickle.loads(answer)
        if isinstance(found, str):
            raise SparkmirrorError(found)
        return found

    def cancel(self, flow: str, shift: str, reason: str) -> None:
        """Has shifts return to their driver at once; their processes end when they see that."""
        with self._lock:
            for (its_flow, its_shift), (lane, reasons) in self._running.items():
                if its_flow == flow and shift in ("", its_shift):
                    reasons.append(reason)
                    with suppress(OSError):
                        lane.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        self._control.close()


# ---------------------------------------------------------------------------------------------- the daemon, and a lane


def watch_lanes(control: socket.socket) -> NoReturn:
    """Becomes the daemon: forks lanes while its driver lives; those that are left end with it."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody asks how they ended
    while True:
        message, descriptors, _, _ = socket.recv_fds(control, 1, 1)
        if not message:
            time.sleep(GO_SECONDS)
            os._exit(0)
        if os.fork() == 0:
            control.close()
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            copy(socket.socket(fileno=descriptors[0]))
        os.close(descriptors[0])


def copy(driver: socket.socket) -> NoReturn:
    """Becomes a lane: takes its plan, copies, and answers with receipts, or why there are none."""
    _die_with_parent()
    plan, config = pickle.loads(_read(driver, int.from_bytes(_read(driver, 8), "big")))
    threading.Thread(target=_end_with, args=(driver,), daemon=True).start()
    logging.basicConfig(stream=sys.stderr, level=logging.WARNING)
    logging.getLogger("kafka").setLevel(logging.CRITICAL)
    loop = new_loop(plan.shift)
    source = Cluster(config.source.alias, config.source.consumer, role=plan.shift, loop=loop)
    target = Cluster(config.target.alias, config.target.producer, role=plan.shift, loop=loop)
    answer: object
    try:
        answer = loop.run(Lane(plan, config, source, target).copy)
    except Exception as failure:  # noqa: BLE001  # whatever it is, the driver is told, as by Spark
        answer = f"{type(failure).__name__}: {failure}"
    finally:
        source.close()
        target.close()
    with suppress(OSError):
        driver.sendall(pickle.dumps(answer))
    os._exit(0)


def _end_with(driver: socket.socket) -> None:
    """Ends this process a moment after its driver has died or given it up."""
    driver.recv(1)
    time.sleep(GO_SECONDS)
    os._exit(1)


def _read(lane: socket.socket, size: int) -> bytes:
    """So many bytes, or fewer at the end."""
    found = bytearray()
    while len(found) < size and (more := lane.recv(min(size - len(found), 1 << 20))):
        found += more
    return bytes(found)


if __name__ == "__main__":
    serve()
