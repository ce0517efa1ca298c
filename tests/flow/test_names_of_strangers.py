"""Topics whose names were chosen to keep an expression busy."""

from __future__ import annotations

import pytest

from tests.flow.running import Running, admin_of, create_topic, write_file

pytestmark = pytest.mark.kafka


def test_a_name_that_an_expression_could_try_for_ever_stops_nothing(cluster_a, cluster_b, topic, tmp_path):
    stem = topic("names")
    wanted, hostile = f"{stem}.aaa", f"{stem}.{'a' * 200}-b"
    for name in (wanted, hostile):
        create_topic(cluster_a, name)
    file = write_file(tmp_path / "mm2.properties", {"a": cluster_a, "b": cluster_b}, {"a->b": f"{stem}.(a+)+"})
    with Running(file, log=tmp_path / "run.log", options=("--once",)) as mirror:
        assert mirror.wait() == 0, mirror.tail()
    there = admin_of(cluster_b).list_topics().topics
    assert f"a.{wanted}" in there
    assert f"a.{hostile}" not in there
