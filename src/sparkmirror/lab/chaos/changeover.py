"""Changes over and back again and again, while applications write and groups read.

In each round applications write to cluster a and groups read there, then comes a failover upon SIGKILL of all of a's
brokers, or a switchover; then applications write to cluster b and groups read there, then comes a failback. The
operator's command and the mirror's driver are killed at moments of chance and started again.

Invariant: what is held against each other was read with librdkafka; of the product's reports it is asked whether they
are true.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Timer
from typing import Any

from sparkmirror.errors import LabError
from sparkmirror.failover.states import Kind
from sparkmirror.lab.chaos.accounts import SESSION, Log, session
from sparkmirror.lab.chaos.changes import Change, Round
from sparkmirror.lab.chaos.deeds import Tell
from sparkmirror.lab.chaos.ground import GROUPS, PARTITIONS, TOPICS, Ground
from sparkmirror.lab.chaos.judging import Books, Outcome
from sparkmirror.lab.chaos.production import Application
from sparkmirror.lab.chaos.schedule import Side
from sparkmirror.lab.chaos.site import until
from sparkmirror.lab.chaos.supervision import Supervisor
from sparkmirror.lab.members import Members

COMMAND_S = 180.0
WRITE_ON_S, READ_ON_S = 4.5, 6.5
"""A planned change is begun while applications still write and groups still read; then they are stopped."""

REFUSED_S, REFUSED_PAUSE_S = 90.0, 3.0
SILENT = "against it: the flow is silent"
"""What an operator is told who comes while the driver is being started again, and tries it once more."""

COPYING_S = 420.0
"""The first time kernels are compiled, which takes minutes on a busy machine."""


class Changeover:
    """The rounds of one run.

    Args:
        ground: where.
        mirror: the flows' driver, supervised.
        say: is told what happens.
    """

    def __init__(self, ground: Ground, mirror: Supervisor, say: Tell) -> None:
        self._ground, self._mirror, self._say = ground, mirror, say
        self._books = Books(ground)
        self._sessions = 0

    def go(self, one: Round) -> Iterator[Outcome]:
        """Over and back; gives each change when it is judged.

        Raises:
            LabError: a command failed, or a cluster does not answer.
        """
        self._say(f"round {one.number}: {one}")
        yield self._unplanned(one) if one.kind is Kind.FAILOVER else self._planned(one)
        yield self._home(one)

    def _unplanned(self, one: Round) -> Outcome:
        source = self._ground.clusters[Side.A]
        with self._applications(Side.A) as applications, self._members(Side.A, one) as members:
            self._copying(Side.A)
            time.sleep(one.over.run_s)
            killed_ms = int(time.time() * 1000)
            with ThreadPoolExecutor(2) as pool:
                if one.over.driver_s:
                    pool.submit(self._mirror.kill)
                for broker in source.brokers:
                    pool.submit(broker.kill)
            members.leave()
            self._say("every broker of a is killed" + (", and the mirror" if one.over.driver_s else ""))
            report = self._command(one, "over", ("failover", "--from", Side.A, "--to", Side.B), one.over.operator_s)
            for broker in source.brokers:
                broker.start()
            time.sleep(one.stray_s)
            for each in applications:
                each.stop()
        return self._told(self._books.after_failover(one, report, killed_ms))

    def _planned(self, one: Round) -> Outcome:
        words = ("switchover", "--from", Side.A, "--to", Side.B, "--wait-for-idle", "1", "--timeout", "120")
        report = self._while_in_use(one, "over", words, Side.A, one.over)
        return self._told(self._books.after_switchover(one, report))

    def _home(self, one: Round) -> Outcome:
        words = ("failback", "--to", Side.A, "--divergent", one.keep.value, "--wait-for-idle", "1", "--timeout", "120")
        report = self._while_in_use(one, "back", words, Side.B, one.back)
        return self._told(self._books.after_failback(one, report))

    def _while_in_use(self, one: Round, way: str, words: Sequence[str], side: Side, change: Change) -> dict[str, Any]:
        """A planned change, which begins while applications write and groups read."""
        with self._applications(side) as applications, self._members(side, one) as members:
            self._copying(side)
            time.sleep(change.run_s)

            def quit_writing() -> None:
                for each in applications:
                    each.stop()

            later = [Timer(WRITE_ON_S, quit_writing), Timer(READ_ON_S, members.stop)]
            if change.driver_s:
                later.append(Timer(change.driver_s, self._kill_driver))
            for timer in later:
                timer.start()
            try:
                return self._command(one, way, words, change.operator_s)
            finally:
                for timer in later:
                    timer.join()

    def _kill_driver(self) -> None:
        self._say("the driver is killed")
        self._mirror.kill()

    def _command(self, one: Round, way: str, words: Sequence[str], operator_s: float) -> dict[str, Any]:
        """Gives a command; one that is killed is given once more. Returns the report."""
        directory = self._ground.directory / "reports" / f"round-{one.number}-{way}"
        line = [sys.executable, "-m", "sparkmirror", words[0], str(self._ground.file), *words[1:]]
        line += ["--yes", "--report", str(directory)]
        directory.mkdir(parents=True)
        said = directory / "said.txt"
        code = _ended(line, said, operator_s) if operator_s else None
        if code is None and operator_s:
            self._say(f"{words[0]} was killed after {operator_s} s")
        deadline = time.monotonic() + REFUSED_S
        while code is None or (code and SILENT in said.read_text() and time.monotonic() < deadline):
            if _written(directory):  # the one that was killed had done it, and was about to end
                code = 0
                break
            if code:
                self._say(f"{words[0]} is refused, since the driver was killed")
                time.sleep(REFUSED_PAUSE_S)
                said.write_text("")
            self._say(f"{words[0]} is given")
            code = _ended(line, said, COMMAND_S)
            if code is None:
                raise LabError(f"{words[0]} did not end within {COMMAND_S:.0f} s: {directory}")
        if code:
            raise LabError(f"{words[0]} ended with {code}: {_tail(said)}")
        (written,) = _written(directory)
        report: dict[str, Any] = json.loads(written.read_text())
        return report | {"directory": str(directory)}

    def _told(self, outcome: Outcome) -> Outcome:
        self._say(outcome.line)
        for problem in outcome.problems:
            self._say(f"  PROBLEM: {problem}")
        return outcome

    # ---------------------------------------------------------------------------------------------------- applications

    @contextmanager
    def _applications(self, side: Side) -> Iterator[list[Application]]:
        """Writes to every topic of a side until it is told to stop, or whoever asked for it has failed."""
        self._sessions += 1
        self._books.born[side].add(self._sessions)
        first = self._sessions * SESSION
        servers = self._ground.servers(side)
        begun = [Application(servers, topic, PARTITIONS, style, first) for topic, style in TOPICS.items()]
        for each in begun:
            each.start()
        try:
            yield begun
        except BaseException:
            with suppress(LabError):
                for each in begun:
                    each.stop()
            raise

    def _members(self, side: Side, one: Round) -> Members:
        ground = self._ground
        return Members(ground.servers(side), ground.read_on(side), GROUPS, one.number)

    def _copying(self, side: Side) -> None:
        """Waits until what is written now is copied, and every group has committed."""
        ground = self._ground
        other = Side.B if side is Side.A else Side.A

        def there() -> bool:
            copied = (ground.log(other, ground.copy(topic, side)) for topic in TOPICS)
            return all(_has(parts, self._sessions) for parts in copied)

        until(there, "what is written now is copied", COPYING_S)
        until(lambda: all(ground.committed(side, group) for group in GROUPS), "groups have committed", COPYING_S)


def _has(parts: Mapping[int, Log], number: int) -> bool:
    return any(session(entry.id) == number for log in parts.values() for entry in log)


def _written(directory: Path) -> list[Path]:
    """The report of an operation that has ended; those of interruptions lie beside it."""
    return [path for path in directory.glob("*.json") if ".interrupted-" not in path.name]


def _ended(line: Sequence[str], said: Path, seconds: float) -> int | None:
    """The exit code of a command; None if it had to be killed after so long."""
    with said.open("a") as out:
        command = subprocess.Popen(line, stdout=out, stderr=out)
    try:
        return command.wait(seconds)
    except subprocess.TimeoutExpired:
        command.kill()
        command.wait()
        return None


def _tail(said: Path) -> str:
    return " / ".join(said.read_text(errors="replace").splitlines()[-8:])
