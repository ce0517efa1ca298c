"""What ``RemoteClusterUtils.translateOffsets`` says after operations: where they have put the groups, names kept."""

from __future__ import annotations

import pytest

from sparkmirror.lab.cluster import start
from tests.failover.test_changed_home import NAMES_KEPT, marked
from tests.flow.running import Running, commit, committed, create_topic, until, write_file
from tests.flow.test_groups import as_java_tells
from tests.flow.test_torn_while_idle import mirrored, write
from tests.invoking import sparkmirror

pytestmark = [pytest.mark.kafka, pytest.mark.slow]


@pytest.mark.parametrize("interval_s", [1, 60])
@pytest.mark.long
def test_checkpoints_say_where_groups_go_on_after_each_operation(topic, tmp_path, interval_s):
    """Also in a partition where nothing is written, and where the flow's duty has had no round since."""
    name = topic("rcu")
    group = f"{name}-g"
    settings = {"tasks.max": "1", "groups": group, "emit.checkpoints.interval.seconds": str(interval_s)}
    with start("home") as a, start("away") as b:
        flows = {"a->b": name, "b->a": name}
        file = write_file(tmp_path / "mm2.properties", {"a": a, "b": b}, flows, settings | NAMES_KEPT)
        for cluster in (a, b):
            create_topic(cluster, name, 1)
        report_to = ("--yes", "--report", str(tmp_path))

        def told() -> int | None:
            found = as_java_tells(b.bootstrap_servers, [group], name)[group]
            return found[0][0] if found else None

        def done(command: str, *words: str) -> None:
            over = sparkmirror(command, file, *words, *report_to)
            assert over.returncode == 0, over.stdout + over.stderr

        with Running(file, log=tmp_path / "mirror.log") as mirror:
            write(a, name, marked("old", 20))
            until(lambda: mirrored(b, name) == marked("old", 20), "copied")
            commit(a, group, name, {0: 15})
            done("switchover", "--from", "a", "--to", "b", "--wait-for-idle", "1")
            assert (committed(b, group, name), told()) == ({0: 15}, 15)
            commit(b, group, name, {0: 20})
            done("failback", "--to", "a", "--wait-for-idle", "1")
            assert committed(a, group, name) == {0: 20}
            if interval_s == 1:
                until(lambda: told() == 20, "the flow's duty writes it")
            for broker in a.brokers:
                broker.kill()
            done("failover", "--from", "a", "--to", "b")
            assert (committed(b, group, name), told()) == ({0: 20}, 20)
            mirror.stop(seconds=60)
