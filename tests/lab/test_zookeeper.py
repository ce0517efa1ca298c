from __future__ import annotations

import pytest

from sparkmirror.lab.zookeeper import needs_zookeeper


@pytest.mark.parametrize(
    ("version", "needed"), [("2.8.2", True), ("3.2.3", True), ("3.3.0", False), ("3.9.1", False), ("4.3.1", False)]
)
def test_brokers_older_than_3_3_run_with_zookeeper(version: str, needed: bool) -> None:
    assert needs_zookeeper(version) is needed
