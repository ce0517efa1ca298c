"""Groups that stand in what an order left out: status, rehearsal and switchover say alike how much they skip."""

from __future__ import annotations

import json

import pytest

from tests.failover.clients import next_records
from tests.failover.test_changed_home import Home, marked
from tests.flow.logs import read
from tests.flow.running import Running, commit, until
from tests.flow.test_torn_while_idle import mirrored, write
from tests.invoking import sparkmirror

pytestmark = [pytest.mark.kafka, pytest.mark.slow]


@pytest.mark.parametrize("kept", [pytest.param(False, marks=pytest.mark.long), True])
def test_what_an_order_left_out_is_told_as_skipped_before_and_after_a_switchover(
    cluster_a, cluster_b, kept, topic, tmp_path
):
    home = Home(cluster_a, cluster_b, topic("ordered"), tmp_path, kept=kept)
    name, group = home.name, f"{home.name}-g"
    write(cluster_a, name, marked("old", 20))
    commit(cluster_a, group, name, {0: 22})
    with Running(home.file, log=tmp_path / "first.log") as mirror:
        until(lambda: mirrored(cluster_b, home.copy) == marked("old", 20), "copied")
        mirror.stop_in_time()
    write(cluster_a, name, marked("left", 10))
    order = ("--flow", f"{name}->b", "--topic", name, "--to", "latest")
    assert sparkmirror("positions", "set", home.file, *order).returncode == 0
    write(cluster_a, name, marked("new", 5))
    with Running(home.file, log=tmp_path / "second.log") as mirror:
        until(lambda: mirrored(cluster_b, home.copy) == [*marked("old", 20), *marked("new", 5)], "copied")

        def skipped() -> int:
            (flow, _) = json.loads(sparkmirror("status", home.file, "--groups", "--json").stdout)["flows"]
            return sum(one["skipped"] for one in flow["groups"])

        until(lambda: skipped() == 8, "status tells of it", 60)
        rehearsal = sparkmirror("rehearse", home.file, "--flow", f"{name}->b")
        assert rehearsal.returncode == 1
        assert "would skip 8 records" in " ".join(rehearsal.stdout.split())
        home.leave("switchover", "--wait-for-idle", "1")
        (path,) = tmp_path.glob("switchover-*.json")
        report = json.loads(path.read_text())
        ((place,),) = (each["partitions"] for each in report["groups"])
        assert (report["offsets_skipped"], place["skipped"], place["exact"]) == (8, 8, False)
        assert next_records(cluster_b, group, home.copy, read(cluster_b, home.copy)) == {0: marked("new", 5)[0]}
        mirror.stop_in_time()


@pytest.mark.long
@pytest.mark.parametrize("kept", [False, True])
def test_a_failback_puts_a_group_that_nobody_has_used_back_to_where_it_stood_in_what_an_order_left_out(
    cluster_a, cluster_b, kept, topic, tmp_path
):
    """Another group is used on the other cluster: it skips what was left out, and that is told."""
    home = Home(cluster_a, cluster_b, topic("ordered"), tmp_path, kept=kept)
    name, group, used = home.name, f"{home.name}-g", f"{home.name}-used"
    write(cluster_a, name, marked("old", 20))
    with Running(home.file, log=tmp_path / "first.log") as mirror:
        until(lambda: mirrored(cluster_b, home.copy) == marked("old", 20), "copied")
        mirror.stop_in_time()
    write(cluster_a, name, marked("left", 10))
    order = ("--flow", f"{name}->b", "--topic", name, "--to", "latest")
    assert sparkmirror("positions", "set", home.file, *order).returncode == 0
    write(cluster_a, name, marked("new", 5))
    commit(cluster_a, group, name, {0: 22})
    commit(cluster_a, used, name, {0: 19})
    with Running(home.file, log=tmp_path / "second.log") as mirror:
        until(lambda: mirrored(cluster_b, home.copy) == [*marked("old", 20), *marked("new", 5)], "copied")
        home.leave("switchover", "--wait-for-idle", "1")
        commit(cluster_b, used, home.copy, {0: 20})
        report = home.go_back()
        mirror.stop_in_time()
    places = [home.group(report, each) for each in (group, used)]
    assert [(one["offset"], one["skipped"], one["exact"]) for one in places] == [(22, 0, True), (30, 10, False)]
    assert report["offsets_skipped"] == 10
    assert home.next_on_a(group) == marked("left", 10)[2]
