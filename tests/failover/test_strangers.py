"""A failback tells of groups that were never seen where they go, and stand there all the same."""

from __future__ import annotations

import pytest

from sparkmirror.failover.failback import strangers
from sparkmirror.failover.moves import GroupMove, MovedPlace
from sparkmirror.kafka.groups import Committed
from sparkmirror.model import NO_OFFSET, TopicPartition
from sparkmirror.offsets.group_records import FlowCommit
from tests.failover.test_changed_home import Home, marked
from tests.flow.running import Running, commit, until
from tests.flow.test_torn_while_idle import mirrored, write
from tests.invoking import sparkmirror

HERE, THERE = TopicPartition("a.orders", 0), TopicPartition("orders", 0)


@pytest.mark.parametrize(
    ("before", "known", "placed", "found"),
    [
        (50, (), None, ["g at orders-0 (50)"]),
        pytest.param(50, ("g",), None, [], id="the flow from there has seen it"),
        pytest.param(50, (), 50, [], id="the flow to there has put it there"),
        pytest.param(50, (), 40, ["g at orders-0 (50)"], id="it has gone on there since"),
        pytest.param(NO_OFFSET, (), None, [], id="it has nothing there"),
        pytest.param(70, (), None, [], id="it stands there already"),
    ],
)
def test_a_group_of_that_name_may_be_another_one_where_the_flow_from_there_has_never_seen_it(
    before, known, placed, found
):
    place = MovedPlace(partition=HERE, target=THERE, committed=Committed(60), offset=70, before=before)
    move = GroupMove(group="g", seen_ms=1, places=(place,))
    commits = {} if placed is None else {"g": {THERE: FlowCommit(placed, 60)}}
    assert strangers([move], known, commits) == found


@pytest.mark.kafka
@pytest.mark.slow
def test_the_plan_names_a_group_that_only_the_flow_to_there_chooses(cluster_a, cluster_b, topic, tmp_path):
    home = Home(cluster_a, cluster_b, topic("stranger"), tmp_path, kept=False)
    name, other = home.name, f"{home.name}-other"
    with home.file.open("a") as file:
        file.write(f"{name}->b.groups = {name}-g\n")
    write(cluster_a, name, marked("old", 10))
    for group in (f"{name}-g", other):
        commit(cluster_a, group, name, {0: 3})
    with Running(home.file, log=tmp_path / "mirror.log") as mirror:
        until(lambda: mirrored(cluster_b, home.copy) == marked("old", 10), "copied")
        home.leave("switchover", "--wait-for-idle", "1")
        for group in (f"{name}-g", other):
            commit(cluster_b, group, home.copy, {0: 7})
        plan = " ".join(sparkmirror("failback", home.file, *home.back[:2], "--dry-run").stdout.split())
        assert f"{name}->b has never seen them there" in plan
        assert f"stand on b: {other} at {name}-0 (3) (b->{name}.groups.exclude leaves them out)" in plan
        mirror.stop_in_time()
