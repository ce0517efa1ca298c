"""Kernels are loaded once and no test is timed, since the first one may meet the compiler; clusters of the lab."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from hypothesis import settings

from sparkmirror import batches
from sparkmirror.config import ClientSettings, Endpoint, FlowConfig
from sparkmirror.kafka.cluster import Cluster
from sparkmirror.lab.cluster import LabCluster
from sparkmirror.model import Alias, FlowName

settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")


@pytest.fixture(scope="session", autouse=True)
def _kernels() -> None:
    batches.warm()


def _endpoint(alias: str, cluster: LabCluster) -> Endpoint:
    client = ClientSettings(bootstrap_servers=tuple(cluster.bootstrap_servers.split(",")))
    return Endpoint(alias=Alias(alias), consumer=client, producer=client, admin=client)


@pytest.fixture(scope="session")
def flow_on(cluster_a: LabCluster, cluster_b: LabCluster) -> FlowConfig:
    """The flow A->B between clusters of one broker each."""
    return FlowConfig(
        name=FlowName(source=Alias("A"), target=Alias("B")),
        source=_endpoint("A", cluster_a),
        target=_endpoint("B", cluster_b),
        replication_factor=1,
        internal_replication_factor=1,
    )


@pytest.fixture(scope="module")
def cluster_on(flow_on: FlowConfig) -> Iterator[Callable[[str], Cluster]]:
    """Connections to the flow's cluster ``"A"`` or ``"B"``, each opened once."""
    known = {end.alias: Cluster(end.alias, end.admin, role="test") for end in (flow_on.source, flow_on.target)}
    yield lambda alias: known[Alias(alias)]
    for cluster in known.values():
        cluster.close()
