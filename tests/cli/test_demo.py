"""What `sparkmirror demo` shows, its exit code, and that nothing is left when it is ended early."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

import sparkmirror.cli.demo as command
from sparkmirror.cli.app import main
from sparkmirror.lab.demo import Outcome, TopicOutcome, Watcher
from sparkmirror.lab.demo_topics import TOPICS
from sparkmirror.lab.referee import Comparison

OUTCOME = Outcome(
    topics=tuple(
        TopicOutcome(
            topic=topic,
            written=1_000,
            comparison=Comparison(
                topic=topic.name,
                target_topic=f"east.{topic.name}",
                records=1_000,
                target_records=1_000,
                bytes=123_456,
                difference="",
            ),
            rate=50_000.0,
        )
        for topic in TOPICS
    ),
    switched=(),
    exit_code=0,
    mirror_log="the end of the log",
    start_s=1.0,
    stop_s=1.0,
)


Demo = Callable[[Outcome], tuple[object, str]]


@pytest.fixture
def demo(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Demo:
    """Runs the command on a demo that ended so; gives exit code and output."""

    def ended(outcome: Outcome) -> tuple[object, str]:
        def run(watcher: Watcher, *, records: int) -> Outcome:
            watcher.step("one")
            watcher.copied(5, records)
            watcher.done("one is done")
            return outcome

        monkeypatch.setattr(command, "run_demo", run)
        monkeypatch.setattr(signal, "signal", lambda *_: None)
        with pytest.raises(SystemExit) as end:
            main(["demo"])
        return end.value.code, capsys.readouterr().out

    return ended


def test_equal_topics_are_shown_and_the_exit_code_is_0(demo: Demo) -> None:
    code, output = demo(OUTCOME)
    assert code == 0
    assert "one is done" in output
    assert output.count("equal") == len(TOPICS)
    assert f"All {len(TOPICS) * 1_000:,} records arrived unchanged" in output


def test_a_difference_is_shown_and_the_exit_code_is_1(demo: Demo) -> None:
    first = OUTCOME.topics[0]
    differing = replace(first, comparison=replace(first.comparison, difference="a value differs"))
    code, output = demo(replace(OUTCOME, topics=(differing, *OUTCOME.topics[1:])))
    assert code == 1
    assert "a value differs" in " ".join(output.split())
    assert "The demo failed" in output


def test_a_mirror_that_failed_shows_its_log_and_the_exit_code_is_1(demo: Demo) -> None:
    code, output = demo(replace(OUTCOME, exit_code=3))
    assert code == 1
    assert "exit code 3" in output
    assert "the end of the log" in output


@pytest.mark.kafka
@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGKILL])
def test_nothing_is_left_running_when_it_is_ended_early(number: signal.Signals, tmp_path: Path) -> None:
    mark = {"SPARKMIRROR_TEST_MARK": str(tmp_path)}
    process = subprocess.Popen(
        [sys.executable, "-m", "sparkmirror", "demo", "--records", "2000"],
        env={**os.environ, **mark},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # noqa: PLW1509  # ignored behind "&"
    )
    deadline = time.monotonic() + 120
    while not any(b"sparkmirror\0run\0" in command_line for command_line in _marked(tmp_path)):
        assert process.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.1)
    process.send_signal(number)
    assert process.wait(60) != 0
    deadline = time.monotonic() + 60
    while left := _marked(tmp_path):
        assert time.monotonic() < deadline, left
        time.sleep(0.1)


def _marked(mark: Path) -> list[bytes]:
    """Command lines of the processes that were started, at any depth, by the one that carries the mark."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                if str(mark).encode() in (entry / "environ").read_bytes():
                    found.append((entry / "cmdline").read_bytes())
            except OSError:  # it has ended meanwhile
                continue
    return found
