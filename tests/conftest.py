"""Real clusters for the tests that are marked ``kafka``, started at most once per run and only when a test asks."""

from __future__ import annotations

import itertools
import os
import sys
import uuid
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cached_property
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from xdist.remote import Producer
from xdist.scheduler import LoadFileScheduling
from xdist.workermanage import WorkerController

from sparkmirror.config import ClientSettings, Endpoint, FlowConfig
from sparkmirror.kafka.cluster import Cluster
from sparkmirror.lab import ports
from sparkmirror.lab.cluster import LabCluster, start
from sparkmirror.model import Alias, FlowName
from tests.flow.running import create_topic
from tests.forking import SERVER
from tests.hung_brokers import account, answers

settings.register_profile("untimed", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("untimed")  # no test asserts a time, and the first example of a test pays for its imports

CLUSTERS = ("cluster_a", "cluster_b", "cluster_c")
LISTENERS = {"cluster_b": ("LINK",)}
"""Beside PLAINTEXT: the second cluster can be reached as a far one too."""


def pytest_configure() -> None:
    """Says at once what would fail in many places otherwise, and gives each process its own ports."""
    if sys.platform != "linux":
        raise pytest.UsageError(f"the tests look at processes through /proc and need Linux; this is {sys.platform}")
    number = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
    share = len(ports.RANGE) // int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    ports.RANGE = ports.RANGE[number * share : (number + 1) * share]


class _Dealing(LoadFileScheduling):  # type: ignore[misc]  # pytest-xdist is not typed
    """Deals the tests out to three processes, of which two at a time start Spark: a small machine bears no more.

    Tests are dealt file by file; those that run mirrors one by one, where they share nothing that their file makes. The
    fault laboratory, six brokers under load, comes last: nothing else runs then.
    """

    @cached_property
    def _texts(self) -> dict[str, str]:
        root: Path = self.config.rootpath
        return {
            path.relative_to(root).as_posix(): path.read_text("utf-8") for path in (root / "tests").rglob("test_*.py")
        }

    def _starts_spark(self, scope: str) -> bool:
        return "mark.spark" in self._texts[scope.partition("::")[0]]

    def _split_scope(self, nodeid: str) -> str:
        file: str = super()._split_scope(nodeid)
        text = self._texts[file]
        alone = ("mark.spark" in text or "Running(" in text) and 'scope="module"' not in text
        return nodeid if alone else file

    def _assign_work_unit(self, node: WorkerController) -> None:
        """Spark's first and elsewhere none of them, so that nobody waits at the end; then the others, then chaos.

        A process that takes the place of one that died gets nothing before it has told which tests it has found.
        """
        if node not in self.registered_collections:
            return
        place = self.nodes.index(node)
        sparks = [scope for scope in self.workqueue if self._starts_spark(scope)]
        chaos = [scope for scope in sparks if "chaos" in scope]
        mine = [scope for scope in sparks if scope not in chaos] if place < 2 else []
        mine += [scope for scope in self.workqueue if scope not in sparks]
        mine += chaos if place == 0 else []
        if not mine:
            node.shutdown()
            return
        self.workqueue.move_to_end(mine[0], last=False)
        super()._assign_work_unit(node)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> LoadFileScheduling:
    """Where the tests run in several processes."""
    return _Dealing(config, log)


def _lived_in(name: str, security: Sequence[str]) -> LabCluster:
    """A cluster that other mirrors have written to already: a flow copies their heartbeats, whatever its topics are."""
    cluster = start(name, security=security)
    try:
        for topic in ("heartbeats", "elsewhere.heartbeats"):
            create_topic(cluster, topic)
    except BaseException:
        cluster.stop()
        raise
    return cluster


class Clusters:
    """Starts the clusters that the collected tests need, all at the first request, side by side."""

    def __init__(self, wanted: frozenset[str]) -> None:
        self._wanted = wanted
        self._pool = ThreadPoolExecutor(len(CLUSTERS))
        self._started: dict[str, Future[LabCluster]] = {}

    def get(self, fixture: str) -> LabCluster:
        for each in sorted(self._wanted | {fixture}):
            if each not in self._started:
                self._started[each] = self._start(each)
        return self._started[fixture].result()

    def _start(self, fixture: str) -> Future[LabCluster]:
        return self._pool.submit(_lived_in, fixture.removeprefix("cluster_"), LISTENERS.get(fixture, ()))

    def stop(self) -> None:
        for future in self._started.values():
            if future.exception() is None:
                future.result().stop()
        self._pool.shutdown()


@pytest.fixture(scope="session")
def clusters(request: pytest.FixtureRequest) -> Iterator[Clusters]:
    """The clusters of this run by fixture name: ``clusters.get("cluster_a")``."""
    names = {name for item in request.session.items for name in getattr(item, "fixturenames", ())}
    clusters = Clusters(frozenset(names & set(CLUSTERS)))
    yield clusters
    clusters.stop()


@pytest.fixture(scope="session", autouse=True)
def _drivers() -> Iterator[None]:
    """Whatever drivers were left by tests end with the process that they were forked from."""
    yield
    SERVER.close()


@pytest.fixture(scope="session")
def cluster_a(clusters: Clusters) -> LabCluster:
    """A cluster of one broker, shared by all tests; the source, where there is one."""
    return clusters.get("cluster_a")


@pytest.fixture(scope="session")
def cluster_b(clusters: Clusters) -> LabCluster:
    """A second cluster, shared by all tests; the target, where there is one."""
    return clusters.get("cluster_b")


@pytest.fixture(scope="session")
def cluster_c(clusters: Clusters) -> LabCluster:
    """A third cluster, shared by all tests."""
    return clusters.get("cluster_c")


@pytest.fixture(autouse=True)
def _alive(request: pytest.FixtureRequest) -> None:
    """A broker of a shared cluster that a failed test has left dead or hung is started again, for the others."""
    for name in set(CLUSTERS).intersection(request.fixturenames):
        for broker in request.getfixturevalue(name).brokers:
            if not answers(broker):
                broker.kill()
                broker.start()


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Iterator[None]:
    """A test that fails tells which broker of a shared cluster does not answer, and what its threads do."""
    outcome: Any = yield
    report = outcome.get_result()
    if not report.failed or not isinstance(item, pytest.Function):
        return
    for name, cluster in item.funcargs.items():
        if isinstance(cluster, LabCluster) and name in CLUSTERS:
            hung = [broker for broker in cluster.brokers if not answers(broker)]
            report.sections += [(f"{name} does not answer", account(broker)) for broker in hung]


_run = uuid.uuid4().hex[:6]
_numbers = itertools.count(1)


@pytest.fixture
def topic_name(topic: Callable[..., str]) -> str:
    """One topic name that no other test uses."""
    return topic()


@pytest.fixture
def topic() -> Callable[..., str]:
    """Makes topic names that no other test uses: ``topic()`` or ``topic("orders")``. It creates nothing."""

    def name(stem: str = "topic") -> str:
        return f"{stem}-{_run}-{next(_numbers)}"

    return name


def _endpoint(alias: str, cluster: LabCluster) -> Endpoint:
    client = ClientSettings(bootstrap_servers=tuple(cluster.bootstrap_servers.split(",")))
    return Endpoint(alias=Alias(alias), consumer=client, producer=client, admin=client)


@pytest.fixture(scope="session")
def lab_flow(cluster_a: LabCluster, cluster_b: LabCluster) -> FlowConfig:
    """The flow A->B between clusters of one broker each."""
    return FlowConfig(
        name=FlowName(source=Alias("A"), target=Alias("B")),
        source=_endpoint("A", cluster_a),
        target=_endpoint("B", cluster_b),
        replication_factor=1,
        internal_replication_factor=1,
    )


@pytest.fixture(scope="module")
def lab_cluster(lab_flow: FlowConfig) -> Iterator[Callable[[str], Cluster]]:
    """Connections to the flow's cluster ``"A"`` or ``"B"``, each opened once."""
    known = {end.alias: Cluster(end.alias, end.admin, role="test") for end in (lab_flow.source, lab_flow.target)}
    yield lambda alias: known[Alias(alias)]
    for cluster in known.values():
        cluster.close()
