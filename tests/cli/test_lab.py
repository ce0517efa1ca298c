"""The command as a user runs it: in processes of its own, on a cache that shares only the jars."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from sparkmirror import config
from sparkmirror.lab.jars import jars
from sparkmirror.lab.ports import HOST
from sparkmirror.lab.ready import known_brokers

TIMEOUT = 120

Lab = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    cache = tmp_path / "cache" / "sparkmirror"
    cache.mkdir(parents=True)
    (cache / "jars").symlink_to(jars().parent)
    return {**os.environ, "XDG_CACHE_HOME": str(cache.parent), "COLUMNS": "200"}


@pytest.fixture
def lab(environ: dict[str, str]) -> Iterator[Lab]:
    """Runs ``sparkmirror lab …``; takes down at the end what is still up."""

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "sparkmirror", "lab", *arguments]
        return subprocess.run(command, env=environ, capture_output=True, text=True, timeout=TIMEOUT, check=False)

    yield run
    run("down")


def state_of(lab: Lab) -> dict[str, object]:
    state = json.loads(lab("status", "--json").stdout)
    assert isinstance(state, dict)
    return state


def ports_of(state: dict[str, object]) -> list[int]:
    return [broker["port"] for cluster in state["clusters"] for broker in cluster["brokers"]]  # type: ignore[attr-defined]  # read from JSON


def wait_until_gone(ports: list[int]) -> None:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and any(known_brokers((HOST, port)) for port in ports):
        time.sleep(0.05)
    assert not any(known_brokers((HOST, port)) for port in ports)


def test_without_a_lab_down_is_content_and_status_is_not(lab: Lab) -> None:
    assert lab("down").returncode == 0
    shown = lab("status")
    assert (shown.returncode, shown.stdout) == (1, "")
    assert "sparkmirror lab up" in shown.stderr


def test_without_a_lab_nothing_is_started_again(lab: Lab) -> None:
    started = lab("start")
    assert (started.returncode, "sparkmirror lab up" in started.stderr) == (1, True)


def test_a_setting_that_is_none_is_refused(lab: Lab) -> None:
    assert lab("up", "--config", "nonsense").returncode == 2


@pytest.mark.kafka
def test_a_detached_lab_is_seen_and_ended_from_other_shells(lab: Lab, tmp_path: Path) -> None:
    begun = lab("up", "--detach", "--clusters", "x,y", "--security", "SASL_SSL", "--config", "num.partitions=3")
    assert begun.returncode == 0, begun.stderr
    assert "x->y.enabled = true" in begun.stdout
    ports = ports_of(state_of(lab))
    assert all(known_brokers((HOST, port)) for port in ports)
    second = lab("up")
    assert second.returncode == 1
    assert "a lab is running already" in second.stderr
    written = tmp_path / "mm2.properties"
    written.write_text(lab("status", "--properties", "--listener", "SASL_SSL").stdout)
    assert [str(flow.name) for flow in config.load([written]).flows] == ["x->y", "y->x"]
    assert lab("status", "--properties", "--listener", "MTLS").returncode == 1
    check_a_dead_broker_is_started_again(lab)
    assert lab("down").stdout == "the lab is down\n"
    wait_until_gone(ports)
    assert lab("status").returncode == 1


def check_a_dead_broker_is_started_again(lab: Lab) -> None:
    assert lab("start").stdout == "all brokers run\n"
    (broker,) = state_of(lab)["clusters"][0]["brokers"]  # type: ignore[index]  # read from JSON
    os.kill(broker["pid"], signal.SIGKILL)
    wait_until_gone([broker["port"]])
    again = lab("start")
    assert (again.returncode, again.stdout) == (0, "broker 1 of cluster x answers again\n"), again.stderr
    (now,) = state_of(lab)["clusters"][0]["brokers"]  # type: ignore[index]  # read from JSON
    assert known_brokers((HOST, broker["port"]))
    assert now["port"] == broker["port"]
    assert now["pid"] not in (0, broker["pid"])


@pytest.mark.kafka
@pytest.mark.parametrize(
    ("number", "code"),
    [pytest.param(signal.SIGINT, 0, marks=pytest.mark.long), (signal.SIGTERM, 0), (signal.SIGKILL, -9)],
)
def test_a_lab_in_the_foreground_ends_with_its_process(
    lab: Lab, environ: dict[str, str], number: signal.Signals, code: int
) -> None:
    command = [sys.executable, "-m", "sparkmirror", "lab", "up", "--clusters", "only"]
    process = subprocess.Popen(command, env=environ, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    with process.stdout as output:
        while "replication.factor" not in (line := output.readline()):
            assert line, "ended while it started"
        ports = ports_of(state_of(lab))
        process.send_signal(number)
        assert process.wait(TIMEOUT) == code
    wait_until_gone(ports)
    assert lab("status").returncode == 1
