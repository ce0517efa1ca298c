"""What a failed test tells of brokers that do not answer."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from sparkmirror.lab.cluster import LabCluster
from tests import hung_brokers
from tests.flow.running import until
from tests.hung_brokers import account, answers

pytestmark = pytest.mark.kafka


def is_stopped(pid: int) -> bool:
    tasks = Path(f"/proc/{pid}/task").glob("*/stat")
    return all(task.read_text().rpartition(")")[2].split()[0] == "T" for task in tasks)


def test_a_hung_broker_is_told_from_one_that_answers_and_its_threads_are_listed(
    cluster_a: LabCluster, monkeypatch: pytest.MonkeyPatch
):
    (broker,) = cluster_a.brokers
    assert answers(broker)
    monkeypatch.setattr(hung_brokers, "ANSWER_SECONDS", 1)
    os.kill(broker.pid, signal.SIGSTOP)
    until(lambda: is_stopped(broker.pid), "each of its threads has met the signal", 30)
    try:
        assert not answers(broker)
    finally:
        os.kill(broker.pid, signal.SIGCONT)
    told = account(broker)
    assert "Full thread dump" in told
    assert "data-plane-kafka-request-handler-0" in told
    assert answers(broker)
