"""Brokers that are there and do not answer: what their logs and threads say, for whoever reads of the failed test."""

from __future__ import annotations

import os
import signal
import time

from sparkmirror.lab.broker import Broker
from sparkmirror.lab.ports import HOST
from sparkmirror.lab.ready import known_brokers

ANSWER_SECONDS = 10
DUMP_SECONDS = 2
LOG_LINES, DUMP_LINES = 40, 400


def answers(broker: Broker) -> bool:
    """Whether it tells which brokers it knows, within `ANSWER_SECONDS`."""
    deadline = time.monotonic() + ANSWER_SECONDS
    while broker.running and time.monotonic() < deadline:
        if known_brokers((HOST, broker.port)) is not None:
            return True
        time.sleep(0.2)
    return False


def account(broker: Broker) -> str:
    """The end of its log, and where each of its threads stands."""
    before = broker.log.read_text(errors="replace").splitlines()
    if not broker.running:
        return "\n".join(["it has ended", *before[-LOG_LINES:]])
    os.kill(broker.pid, signal.SIGQUIT)  # a Java process writes its threads to its output then
    time.sleep(DUMP_SECONDS)
    dump = broker.log.read_text(errors="replace").splitlines()[len(before) :]
    return "\n".join([*before[-LOG_LINES:], *dump[:DUMP_LINES]])
