"""What a failed test tells of brokers that do not answer."""

from __future__ import annotations

import os
import signal

import pytest

from sparkmirror.lab.cluster import LabCluster
from tests import hung_brokers
from tests.hung_brokers import account, answers

pytestmark = pytest.mark.kafka


def test_a_hung_broker_is_told_from_one_that_answers_and_its_threads_are_listed(
    cluster_a: LabCluster, monkeypatch: pytest.MonkeyPatch
):
    (broker,) = cluster_a.brokers
    assert answers(broker)
    monkeypatch.setattr(hung_brokers, "ANSWER_SECONDS", 1)
    os.kill(broker.pid, signal.SIGSTOP)
    try:
        assert not answers(broker)
    finally:
        os.kill(broker.pid, signal.SIGCONT)
    told = account(broker)
    assert "Full thread dump" in told
    assert "data-plane-kafka-request-handler-0" in told
    assert answers(broker)
