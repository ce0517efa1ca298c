"""One broker of the source hangs, the others take records: the source is not gone."""

from __future__ import annotations

import os
import signal

import pytest

from sparkmirror.lab.cluster import start
from tests.failover.test_changed_home import marked
from tests.failover.test_lost_offsets import put
from tests.flow.running import Running, create_topic, until, write_file
from tests.flow.test_torn_while_idle import mirrored, write
from tests.invoking import sparkmirror

pytestmark = [pytest.mark.kafka, pytest.mark.slow]


def test_a_failover_is_refused_while_other_brokers_of_the_source_answer(cluster_b, topic, tmp_path):
    name = topic("hung")
    with start("hung", brokers=3, config={"offsets.topic.num.partitions": "3"}) as source:
        create_topic(source, name, 3)
        file = write_file(
            tmp_path / "mm2.properties", {name: source, "b": cluster_b}, {f"{name}->b": name}, {"tasks.max": "1"}
        )
        with Running(file, log=tmp_path / "mirror.log") as mirror:
            write(source, name, marked("old", 10))
            put(source, f"{name}-g", name, 5)
            until(lambda: mirrored(cluster_b, f"{name}.{name}") == marked("old", 10), "copied")
            hung = source.brokers[2].pid
            os.kill(hung, signal.SIGSTOP)
            try:
                words = ("--from", name, "--to", "b", "--yes", "--report", tmp_path)
                done = sparkmirror("failover", file, *words)
                assert done.returncode == 1, done.stdout + done.stderr
                assert "against it: the source answers" in done.stdout
                assert list(tmp_path.glob("failover-*")) == []
            finally:
                os.kill(hung, signal.SIGCONT)
            mirror.kill()
