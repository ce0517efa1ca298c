"""Users mirror across versions: an older broker as source and as target."""

from __future__ import annotations

import pytest

from sparkmirror.lab.cluster import start
from sparkmirror.lab.jars import OLDER_KAFKA_VERSION, OLDEST_KAFKA_VERSION
from sparkmirror.lab.referee import compare
from tests.flow import offset_map
from tests.flow.running import Running, create_topic, write_file
from tests.flow.traffic import Traffic

pytestmark = [pytest.mark.kafka, pytest.mark.slow]


@pytest.mark.parametrize("version", [pytest.param(OLDER_KAFKA_VERSION, marks=pytest.mark.long), OLDEST_KAFKA_VERSION])
def test_an_older_cluster_is_mirrored_to_a_newer_one_and_the_other_way(version, cluster_b, topic, tmp_path):
    with start("older", version=version) as older:
        kinds, old = ("small", "large", "transactions"), f"old{version.replace('.', '')}"
        ways = {"up": (older, cluster_b, old, "new"), "down": (cluster_b, older, "new", old)}
        names = {way: [topic(f"{way}-{kind}") for kind in kinds] for way in ways}
        written = {}
        for way, (source, _, _, _) in ways.items():
            for name, kind in zip(names[way], kinds, strict=True):
                create_topic(source, name, 2, {"retention.bytes": "100000000"})
                written[name] = Traffic(source, name, 2).some(kind, 300)
        flows = {f"{old}->new": ",".join(names["up"]), f"new->{old}": ",".join(names["down"])}
        file = write_file(tmp_path / "mm2.properties", {old: older, "new": cluster_b}, flows)
        with Running(file, log=tmp_path / "run.log", options=("--once",)) as mirror:
            assert mirror.wait() == 0, mirror.tail()
        for way, (source, target, here, there) in ways.items():
            copies = {name: f"{here}.{name}" for name in names[way]}
            results = compare(source.bootstrap_servers, target.bootstrap_servers, copies)
            assert [result.difference for result in results] == ["", "", ""]
            assert [result.records for result in results] == [written[name] for name in names[way]]
            for name, copy in copies.items():
                assert offset_map.check(source, target, name, copy, f"sparkmirror.{here}.{there}.internal")
