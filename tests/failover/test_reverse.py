"""``failover --reverse``: the flow back is run when the old cluster is there again."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest
from confluent_kafka import Producer

from sparkmirror.lab.cluster import start
from tests.failover.test_switching import begun, told
from tests.flow.running import create_topic, ends, reaches, until, write_file
from tests.invoking import sparkmirror

pytestmark = [pytest.mark.kafka, pytest.mark.slow]


def write(cluster, topic: str, count: int) -> None:
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "log_level": 0})
    for number in range(count):
        producer.produce(topic, b"%d" % number, partition=0)
    assert producer.flush(60) == 0


@pytest.mark.long
def test_the_flow_back_runs_when_the_old_cluster_is_there_again(cluster_b, topic, tmp_path):
    stem = topic("turn")
    name = f"{stem}-t"
    with start("turning") as doomed:
        flows = {f"{stem}->b": name, f"b->{stem}": name}
        file = write_file(tmp_path / "mm2.properties", {stem: doomed, "b": cluster_b}, flows)
        one_way = write_file(tmp_path / "one.properties", {stem: doomed, "b": cluster_b}, {f"{stem}->b": name})
        for cluster in (doomed, cluster_b):
            create_topic(cluster, name, 1)
        write(doomed, name, 10)
        copying = begun(one_way, "run", "--once")
        said = told(copying)
        assert copying.returncode == 0, said
        for broker in doomed.brokers:
            broker.kill()
        words = ("--from", stem, "--to", "b", "--yes", "--report", str(tmp_path), "--reverse")
        refused = sparkmirror("failover", one_way, *words)
        assert (refused.returncode, f"no enabled flow from b to {stem}" in refused.stderr) == (2, True), refused.stderr
        late = sparkmirror("failover", file, *words, "--reverse-within", "1")
        assert (late.returncode, "did not come back within 1 s" in late.stderr) == (1, True), late.stderr
        assert f"--flow 'b->{stem}'" in late.stderr

        write(cluster_b, name, 7)
        log = tmp_path / "back.log"
        with log.open("w") as out:
            line = [sys.executable, "-m", "sparkmirror", "failover", str(file), *words]
            back = subprocess.Popen(line, stdout=out, stderr=out, text=True)
            try:
                until(lambda: "is waited for" in log.read_text(), "it waits")
                for broker in doomed.brokers:
                    broker.start()
                reaches(doomed, f"b.{name}", 7)
                assert f"b->{stem} is started" in log.read_text()
                again = sparkmirror("failover", file, *words, "--force")
                assert (again.returncode, f"b->{stem} runs already" in again.stdout) == (0, True), again.stderr
                assert ends(cluster_b, f"{stem}.{name}") == {0: 10}
                back.send_signal(signal.SIGTERM)
                assert back.wait(60) == 0, log.read_text()
            finally:
                back.kill()
                back.wait()
