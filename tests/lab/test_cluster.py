from __future__ import annotations

import pytest

from sparkmirror.lab.cluster import LabCluster
from sparkmirror.lab.ready import known_brokers

pytestmark = pytest.mark.kafka


def test_two_clusters_answer_and_have_different_ids(cluster_a: LabCluster, cluster_b: LabCluster) -> None:
    for cluster in (cluster_a, cluster_b):
        assert known_brokers(("127.0.0.1", cluster.brokers[0].port)) == frozenset({1})
    assert cluster_a.cluster_id != cluster_b.cluster_id
