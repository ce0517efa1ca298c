"""A failover after a failback that did not come to its end: groups stand where their owners have put them since."""

from __future__ import annotations

import json
from typing import Any

import pytest

from sparkmirror.failover.moves import NOT_FOLLOWED
from sparkmirror.failover.states import Step
from sparkmirror.lab.cluster import start
from tests.failover.clients import next_records
from tests.failover.dying import COMMITTED
from tests.failover.test_changed_home import Home, marked
from tests.failover.test_switching import begun, died
from tests.flow.logs import read
from tests.flow.running import Running, commit, committed, ends, until
from tests.flow.test_torn_while_idle import mirrored, write
from tests.invoking import sparkmirror

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

MOVED = 10
SINCE = {"back": 3, "on": 15, "still": 10}
"""Where the groups stand on b by the time of the failback, which the switchover had put at `MOVED`."""


def taken_back(home: Home, step: Step) -> None:
    died(begun(home.file, "failback", *home.back, dies_in=step))
    done = sparkmirror("failback", home.file, *home.back, "--abandon")
    assert done.returncode == 0, done.stdout + done.stderr


def left_behind(home: Home, how: str) -> None:
    """Failbacks that do not come to their end."""
    if how != "given up":
        taken_back(home, Step.COMPARING)
    if how == "taken back twice":
        taken_back(home, Step.IDLING)
    if how == "given up":
        died(begun(home.file, "failback", *home.back, dies_in=Step.MOVING))
        assert {end: committed(home.a, f"{home.name}-{end}", home.name) for end in SINCE} == {
            end: {0: offset} for end, offset in SINCE.items()
        }


@pytest.mark.parametrize(
    "how",
    [
        "given up",
        "taken back",
        "taken back twice",
    ],
)
@pytest.mark.long
def test_groups_stay_where_their_owners_have_put_them_since_they_were_moved(cluster_b, topic, tmp_path, how):
    with start("home") as cluster:
        home = Home(cluster, cluster_b, topic("given"), tmp_path, kept=True)
        (broker,), name = cluster.brokers, home.name
        groups = {end: f"{name}-{end}" for end in SINCE}
        for value in marked("old", 20):
            write(cluster, name, [value])
        for group in groups.values():
            commit(cluster, group, name, {0: MOVED})
        with Running(home.file, log=tmp_path / "mirror.log") as mirror:
            until(lambda: mirrored(cluster_b, name) == marked("old", 20), "copied")
            home.leave("switchover", "--wait-for-idle", "1")
            for end, offset in SINCE.items():
                if offset != MOVED:
                    commit(cluster_b, groups[end], name, {0: offset})
            left_behind(home, how)
            broker.kill()
            over = ("failover", home.file, "--from", name, "--to", "b")
            planned = sparkmirror(*over, "--dry-run")
            assert planned.returncode == 0, planned.stdout + planned.stderr
            assert "left further" not in " ".join(planned.stdout.split())
            for turn in range(2):
                doubtful = how == "given up" and turn == 0  # what they have done there meanwhile nobody knows
                done = sparkmirror(*over, "--yes", "--report", str(tmp_path / str(turn)))
                assert done.returncode == 1, done.stdout + done.stderr
                now = {end: committed(cluster_b, group, name) for end, group in groups.items()}
                assert now == {end: {0: offset} for end, offset in SINCE.items()}
                report = json.loads(next((tmp_path / str(turn)).glob("failover-*.json")).read_text())
                assert (report["offsets_left_further"], report["offsets_skipped"]) == (0, 0)
                places = {end: place_of(report, group) for end, group in groups.items()}
                assert not any(place["exact"] for place in places.values())
                told = {end: place["text"] for end, place in places.items()}
                (trouble,) = report["troubles"]
                if doubtful:
                    assert all(
                        text.startswith("where it stood there, but it was brought back") for text in told.values()
                    )
                    assert f"groups were brought back to {name} by failback-" in trouble
                else:  # the source was there since the flow is held, and is gone
                    stays = f"committed there since the group was moved: left there, {NOT_FOLLOWED}"
                    assert told["back"] == told["on"] == stays
                    assert told["still"] == f"the record itself, {NOT_FOLLOWED}"
                    assert "what 3 groups have done on" in trouble
            mirror.stop(seconds=60)


def place_of(report: dict[str, Any], group: str) -> dict[str, Any]:
    (found,) = (one for one in report["groups"] if one["group"] == group)
    (place,) = found["partitions"]
    return dict(place)


def test_a_second_failover_that_is_taken_back_leaves_the_flow_held_by_the_first(cluster_a, cluster_b, topic, tmp_path):
    home = Home(cluster_a, cluster_b, topic("second"), tmp_path, kept=True)
    name = home.name
    write(cluster_a, name, marked("old", 10))
    with Running(home.file, log=tmp_path / "mirror.log") as mirror:
        until(lambda: mirrored(cluster_b, name) == marked("old", 10), "copied")
        home.leave("failover", "--force")
        write(cluster_a, name, marked("home", 5))
        write(cluster_b, name, marked("away", 5))
        until(lambda: marked("away", 5)[-1] in mirrored(cluster_a, name), "mirrored back")
        words = ("--from", name, "--to", "b", "--yes", "--report", str(tmp_path), "--force")
        died(begun(home.file, "failover", *words, dies_in=Step.STOPPING))
        done = sparkmirror("failover", home.file, *words[:4], "--abandon", "--yes", "--report", str(tmp_path))
        assert done.returncode == 0, done.stdout + done.stderr
        assert "stays held, by failover to b" in done.stdout
        report = home.go_back()
        assert home.kept(report) == marked("home", 5)
        assert mirrored(cluster_b, name) == [*marked("old", 10), *marked("away", 5)]
        mirror.stop(seconds=60)


@pytest.mark.parametrize(("dies_in", "next_on_a"), [(COMMITTED, b"away-2"), (Step.IDLING, b"home-0")])
@pytest.mark.long
def test_a_failback_is_given_up_when_applications_have_gone_there_another_way(topic, tmp_path, dies_in, next_on_a):
    """Their cluster dies in its midst, and comes back: from then on all is as after any failover.

    A group that the failback has moved is behind what was put aside. One that only the failover has moved reads it: it
    lies in the log, and nobody has read it.
    """
    with start("home") as a, start("away") as b:
        home = Home(a, b, topic("overtaken"), tmp_path, kept=True)
        name, group = home.name, f"{home.name}-g"
        write(a, name, marked("old", 10))
        commit(a, group, name, {0: 10})
        with Running(home.file, log=tmp_path / "mirror.log") as mirror:
            until(lambda: mirrored(b, name) == marked("old", 10), "copied")
            home.leave("failover", "--force")
            write(a, name, marked("home", 3))
            write(b, name, marked("away", 5))
            until(lambda: marked("away", 5)[-1] in mirrored(a, name), "mirrored back")
            commit(b, group, name, {0: 12})
            died(begun(home.file, "failback", *home.back, dies_in=dies_in))
            for broker in b.brokers:
                broker.kill()
            over = says("failover", home.file, "--from", "b", "--to", name, "--yes", "--report", str(tmp_path))
            assert "1 of 1 groups" in over
            write(a, name, marked("then", 4))
            for broker in b.brokers:
                broker.start()
            report_to = ("--wait-for-idle", "1", "--yes", "--report", str(tmp_path))
            way_out = f"sparkmirror failback --to {name} --abandon gives it up"
            assert way_out in says("failback", home.file, "--to", "b", *report_to, code=1)
            assert way_out in says("release", home.file, "--flow", f"{name}->b", "--yes", code=1)
            given_up = says("failback", home.file, "--to", name, "--abandon", *report_to)
            assert f"{name}->b is released" in given_up
            until(lambda: mirrored(b, name)[-1] == marked("then", 4)[-1], "the flow goes on")
            assert mirrored(b, name) == [*marked("old", 10), *marked("away", 5), *marked("then", 4)]
            assert home.next_on_a(group) == next_on_a
            commit(a, group, name, {0: ends(a, name)[0] - 1})
            back = says("failback", home.file, "--to", "b", *report_to)
            assert "1 of 1 groups" in back
            assert next_records(b, group, name, read(b, name))[0] == marked("then", 4)[-1]
            write(b, name, marked("last", 2))
            until(lambda: mirrored(a, name)[-1] == marked("last", 2)[-1], "both flows go on")
            mirror.stop(seconds=60)


def says(command: str, *words: object, code: int = 0) -> str:
    done = sparkmirror(command, *words)
    assert done.returncode == code, done.stdout + done.stderr
    return " ".join((done.stdout + done.stderr).split())
