"""Going back where a failover could not find out how far the flow had copied: logs are read before groups move."""

from __future__ import annotations

import pytest

from sparkmirror.config import load
from sparkmirror.events import now_ms
from sparkmirror.flow.sides import connected, record
from sparkmirror.lab.cluster import start
from sparkmirror.model import TopicPartition
from sparkmirror.offsets.orders import HoldOrder
from tests.failover.test_changed_home import Home, marked, runs
from tests.flow.logs import read
from tests.flow.running import Running, commit, ends, until
from tests.flow.test_torn_while_idle import mirrored, write

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

OLD, MORE, AWAY = marked("old", 10), marked("more", 10), marked("away", 5)


def hold(home: Home) -> None:
    """What a failover leaves that could not read the target's logs, as their leaders were away."""
    (flow,) = [one for one in load([str(home.file)]).flows if str(one.name) == f"{home.name}->b"]
    with connected(flow, role="test") as sides:
        state = record(sides)
        assert state is not None
        assert sides.store is not None
        assert TopicPartition(home.name, 0) in state.in_doubt()
        sides.store.write([HoldOrder(operation="failover-1", reason="failover to b", time_ms=now_ms(), by="test")])


@pytest.mark.parametrize("kept", [pytest.param(False, marks=pytest.mark.long), True])
def test_what_a_killed_run_had_copied_is_put_on_record_before_groups_go_back(topic, tmp_path, kept):
    with start("home") as a, start("away") as b:
        home = Home(a, b, topic("unsettled"), tmp_path, kept=kept)
        name, group = home.name, f"{home.name}-g"
        with Running(home.file, log=tmp_path / "killed.log") as killed:
            write(a, name, OLD)
            until(lambda: mirrored(b, home.copy) == OLD, "copied")
            until(lambda: runs(home, f"{name}->b"), "on record")
            write(a, name, MORE)
            while ends(b, home.copy) != {0: len(OLD + MORE)}:  # a second later it would be on record
                pass
            killed.kill_all()
        hold(home)
        with Running(home.file, log=tmp_path / "back.log") as mirror:
            commit(b, group, home.copy, {0: read(b, home.copy)[0][15].offset})
            write(b, name, AWAY)
            brought = name if kept else f"b.{name}"
            until(lambda: AWAY[-1] in mirrored(a, brought), "brought")
            report = home.go_back()
            assert (report["troubles"], home.divergent(report)) == ([], [])
            assert home.group(report, group)["exact"]
            assert home.next_on_a(group) == MORE[5]
            write(a, name, marked("then", 1))
            until(lambda: marked("then", 1)[0] in mirrored(b, home.copy), "goes on")
            assert [one for one in mirrored(b, home.copy) if one not in AWAY] == [*OLD, *MORE, *marked("then", 1)]
            mirror.stop_in_time()
