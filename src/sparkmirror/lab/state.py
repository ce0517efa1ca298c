"""What ``sparkmirror lab up`` tells other shells about its clusters.

Invariants: a user has at most one lab; its process holds the lock as long as it lives, so a state file without a held
lock is a leftover and counts for nothing, however its writer ended; nor is one looked at that another user can have
written.
"""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from sparkmirror.errors import LabError
from sparkmirror.lab.cluster import LabCluster
from sparkmirror.lab.lock import is_held, locked
from sparkmirror.lab.ports import HOST
from sparkmirror.lab.ready import known_brokers
from sparkmirror.user_cache import own, user_cache

START_SIGNAL = signal.SIGUSR1
"""Tells the process that holds the lab to start brokers that have ended."""

START_SECONDS = 120.0
DOWN_SECONDS = 90.0
KILLED_SECONDS = 15.0
LOOK_SECONDS = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerState:
    """One broker as it was started: its node id, process id (0 if it has ended), PLAINTEXT port and log."""

    node: int
    pid: int
    port: int
    log: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterState:
    """One cluster.

    Attributes:
        listeners: listener name to the keys of a Java client for it.
    """

    name: str
    version: str
    cluster_id: str
    listeners: Mapping[str, Mapping[str, str]]
    brokers: tuple[BrokerState, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class LabState:
    """The lab: the process that holds it, and its clusters, none as long as they are being started."""

    pid: int
    clusters: tuple[ClusterState, ...]


def state_file() -> Path:
    """Where the state is: process ids that get signals, and addresses and passwords that clients use.

    Raises:
        SparkmirrorError: another user can have written it.
    """
    return own(user_cache() / "lab" / "state.json")


@contextmanager
def the_lab() -> Iterator[None]:
    """Makes this process the one that holds the user's lab.

    Raises:
        LabError: another one holds it.
    """
    with locked(_lock_file(), seconds=0, refusal="a lab is running already: `sparkmirror lab down` ends it"):
        publish(())
        try:
            yield
        finally:
            state_file().unlink(missing_ok=True)


def publish(clusters: Sequence[LabCluster]) -> None:
    """Writes the state of running clusters; only for the process that holds the lab."""
    state = LabState(pid=os.getpid(), clusters=tuple(_describe(cluster) for cluster in clusters))
    draft = state_file().with_suffix(".draft")
    draft.touch(mode=0o600)  # it holds the passwords of the lab's users
    draft.write_text(json.dumps(asdict(state), indent=2))
    draft.replace(state_file())


def read() -> LabState | None:
    """The lab that runs now, None when there is none."""
    if not is_held(_lock_file()):
        return None
    try:
        found = json.loads(state_file().read_text())
    except (FileNotFoundError, json.JSONDecodeError):
        return None
    clusters = tuple(
        ClusterState(**{**each, "brokers": tuple(BrokerState(**broker) for broker in each["brokers"])})
        for each in found["clusters"]
    )
    return LabState(pid=found["pid"], clusters=clusters)


def ended(state: LabState) -> tuple[tuple[ClusterState, BrokerState], ...]:
    """The brokers that do not answer, each with its cluster."""
    return tuple(
        (cluster, broker)
        for cluster in state.clusters
        for broker in cluster.brokers
        if not known_brokers((HOST, broker.port))
    )


def start_again(state: LabState) -> None:
    """Has the lab's process start its brokers that have ended, and returns when all answer.

    Raises:
        LabError: not all of them do in time.
    """
    os.kill(state.pid, START_SIGNAL)
    deadline = time.monotonic() + START_SECONDS
    while still := ended(state):
        if time.monotonic() > deadline:
            cluster, broker = still[0]
            raise LabError(
                f"broker {broker.node} of cluster {cluster.name} does not answer after {START_SECONDS:.0f} s: see "
                f"{broker.log}"
            )
        time.sleep(LOOK_SECONDS)


def end(state: LabState) -> None:
    """Ends the lab and returns when it is gone; kills its process when asking does not help.

    Raises:
        LabError: not even that helped.
    """
    for number, seconds in ((signal.SIGTERM, DOWN_SECONDS), (signal.SIGKILL, KILLED_SECONDS)):
        with suppress(ProcessLookupError):
            os.kill(state.pid, number)
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            if not is_held(_lock_file()):
                return
            time.sleep(LOOK_SECONDS)
    raise LabError(f"process {state.pid} holds the lab and does not end: look for what keeps it")


def _lock_file() -> Path:
    return state_file().with_name("lock")


def _describe(cluster: LabCluster) -> ClusterState:
    return ClusterState(
        name=cluster.name,
        version=cluster.version,
        cluster_id=cluster.cluster_id,
        listeners={str(name): cluster.client_properties(name) for name in cluster.listeners},
        brokers=tuple(
            BrokerState(node=each.node, pid=each.pid if each.running else 0, port=each.port, log=str(each.log))
            for each in cluster.brokers
        ),
    )
