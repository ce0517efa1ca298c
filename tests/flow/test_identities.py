"""An alias is a cluster, and a cluster has one alias."""

from __future__ import annotations

import pytest

from sparkmirror.errors import ConfigError
from sparkmirror.flow.identities import Identities
from sparkmirror.model import Alias, ClusterId

A, B, C = Alias("A"), Alias("B"), Alias("C")
ONE, OTHER = ClusterId("one"), ClusterId("other")


def test_flows_may_share_clusters_under_the_same_aliases():
    known = Identities("mm2.properties")
    for alias, cluster in ((A, ONE), (B, OTHER), (A, ONE), (B, OTHER)):
        known.claim(alias, cluster)


def test_a_second_alias_for_a_cluster_is_refused_with_both_names():
    known = Identities("mm2.properties")
    known.claim(A, ONE)
    known.claim(B, OTHER)
    with pytest.raises(ConfigError, match="A and C are one cluster, with the id one") as refusal:
        known.claim(C, ONE)
    assert "mm2.properties" in str(refusal.value)
    assert "several.aliases.per.cluster" in str(refusal.value)
    known.claim(A, ONE)


def test_a_file_may_say_that_it_is_meant():
    known = Identities("mm2.properties", several=True)
    known.claim(A, ONE)
    known.claim(C, ONE)
