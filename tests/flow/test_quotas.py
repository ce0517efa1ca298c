"""A source that holds all requests of a mirror's user back: nothing may be copied then, and that is told."""

from __future__ import annotations

import pytest

from sparkmirror.lab.cluster import start
from tests.copy.test_quotas import quota
from tests.flow.running import Running, create_topic, ends, until, write_file
from tests.flow.test_events import records
from tests.flow.test_torn_while_idle import write
from tests.invoking import sparkmirror

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

TOLD_SECONDS = 240.0


def test_a_request_quota_of_the_mirrors_user_is_told_by_log_and_status_and_the_flow_goes_on_without_it(
    cluster_b, topic, tmp_path
):
    name = topic("quota")
    with start("q") as source:
        create_topic(source, name, 1)
        write(source, name, records(100))
        settings = {"tasks.max": "1", "sync.group.offsets.enabled": "false"}
        file = write_file(tmp_path / "mm2.properties", {name: source, "b": cluster_b}, {f"{name}->b": name}, settings)

        def told() -> str:
            shown = " ".join(sparkmirror("status", file).stdout.split())
            return shown if "request_percentage" in shown else ""

        with Running(file, log=tmp_path / "run.log") as mirror:
            until(lambda: ends(cluster_b, f"{name}.{name}") == {0: 100}, "copied", TOLD_SECONDS)
            with quota(source.bootstrap_servers, "ANONYMOUS", "request_percentage", 0.01, kind="user"):
                shown = until(told, "status says why", TOLD_SECONDS)
                assert f"of {name} held " in shown
                until(lambda: f"of this user or client id on cluster {name}" in mirror.output, "the log", TOLD_SECONDS)
            write(source, name, records(1, 100))
            until(lambda: ends(cluster_b, f"{name}.{name}") == {0: 101}, "it goes on", TOLD_SECONDS)
            mirror.stop_in_time()
