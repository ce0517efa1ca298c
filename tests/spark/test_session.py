"""What a session looks after: where executors listen, where files of its JVM lie."""

from __future__ import annotations

import socket
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from py4j.protocol import Py4JNetworkError

from sparkmirror.errors import SparkmirrorError
from sparkmirror.lab.spark_cluster import start_spark
from sparkmirror.spark import job
from sparkmirror.spark.job import cancel_flow, cancel_shift
from sparkmirror.spark.session import _java_options, slots_of
from sparkmirror.spark.settings import is_loopback

SESSION = """
import sys, time
from sparkmirror.errors import ConfigError
from sparkmirror.spark.job import run_shift
from sparkmirror.spark.session import check_executors, close_session, open_session, slots_of
from sparkmirror.spark.settings import parse_options

session = open_session(parse_options(sys.argv[1], (), None), slots=0)

def wait_for(slots):
    deadline = time.monotonic() + 180
    while slots_of(session) < slots and time.monotonic() < deadline:
        time.sleep(0.05)

wait_for(1)
check_executors(session, seconds=60)
print("all are here", flush=True)
sys.stdin.readline()
wait_for(2)
for check in (lambda: run_shift(session, None, b""), lambda: check_executors(session)):
    try:
        check()
    except ConfigError as refused:
        print("refused:", refused, flush=True)
close_session(session)
"""


def other_address() -> str:
    """Of this machine, on another interface than loopback; nothing is sent."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))
        except OSError:
            return "127.0.0.1"
        return str(probe.getsockname()[0])


def test_crash_logs_of_java_lie_in_the_folder_of_the_run_which_is_open_to_its_user_only():
    assert "-XX:ErrorFile=/run/of/mine/hs_err_pid%p.log" in _java_options("-Xshare:auto", Path("/run/of/mine")).split()


def session_of(context: Any, *, stopped: Callable[[], bool]) -> Any:
    """A session whose JVM answers nothing but whether it is stopped."""
    context.isStopped = stopped
    return SimpleNamespace(
        sparkContext=SimpleNamespace(_jsc=SimpleNamespace(sc=lambda: context), cancelJobsWithTag=gone)
    )


def gone(*_: Any) -> Any:
    raise Py4JNetworkError("An error occurred while trying to connect to the Java server")


def test_a_session_that_ends_while_it_is_asked_has_no_slots_and_nothing_to_cancel():
    ended = session_of(SimpleNamespace(), stopped=gone)
    without = SimpleNamespace(sparkContext=SimpleNamespace(_jsc=None, cancelJobsWithTag=gone))
    for session in (ended, without):
        cancel_flow(session, "run", "a->b")  # type: ignore[arg-type]  # of a session only this is used
        cancel_shift(session, "run", "a->b", "shift", "it is silent")  # type: ignore[arg-type]  # the same
        assert slots_of(session) == 0  # type: ignore[arg-type]  # the same


@pytest.mark.parametrize(("ended", "reason"), [(True, "Spark has ended"), (False, "AssertionError: AssertionError")])
def test_a_shift_says_that_spark_has_ended_whatever_pyspark_makes_of_that(
    ended: bool, reason: str, monkeypatch: pytest.MonkeyPatch
):
    def to_arrow() -> None:
        raise AssertionError

    frame: Any = SimpleNamespace(toArrow=to_arrow)
    frame.coalesce = frame.mapInArrow = lambda *_: frame
    context = SimpleNamespace(
        setLocalProperty=print, setJobGroup=print, clearJobTags=lambda: None, addJobTag=lambda _: None
    )
    session: Any = SimpleNamespace(sparkContext=context, createDataFrame=lambda *_, **__: frame)
    for name, value in (("check_executors", print), ("has_ended", lambda _: ended), ("plan_table", str)):
        monkeypatch.setattr(job, name, value)
    plan: Any = SimpleNamespace(run="r", flow="a->b", shift="s", partitions=())
    with pytest.raises(SparkmirrorError) as failed:
        job.run_shift(session, plan, b"")
    assert str(failed.value) == reason


def test_what_fails_in_a_session_that_goes_on_is_told():
    session = session_of(
        SimpleNamespace(maxNumConcurrentTasks=gone, resourceProfileManager=gone), stopped=lambda: False
    )
    for ask in (partial(cancel_flow, session, "run", "a->b"), partial(slots_of, session)):
        with pytest.raises(Py4JNetworkError):
            ask()


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.long
def test_no_shift_is_sent_once_an_executor_of_a_cluster_on_this_machine_listens_on_the_network():
    host = other_address()
    if is_loopback(host):
        pytest.skip("this machine has no other interface than loopback")
    with (
        start_spark(workers=1, cores=1) as spark,
        subprocess.Popen(
            [sys.executable, "-c", SESSION, spark.url], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        ) as session,
    ):
        assert session.stdout is not None
        assert session.stdout.readline() == "all are here\n"
        spark.add_worker(cores=1, host=host)
        answers, _ = session.communicate("\n", timeout=240)
    refused = answers.splitlines()
    assert len(refused) == 2
    assert all(f"executors listen on {host}" in line and "passwords included" in line for line in refused)
