"""Which shifts are silent, and who lived before."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sparkmirror.config.settings import ClientSettings
from sparkmirror.copy.control import RUN_KEY, Announced, alive_key, alive_value, ready_key, run_value, told_run
from sparkmirror.flow.signs import FIRST_SECONDS, MOST_PATIENCE, SILENT_SECONDS, Heard, Signs
from sparkmirror.kafka.cluster import Cluster
from sparkmirror.kafka.journal import Entry, Journal
from sparkmirror.model import TopicPartition, Writer
from sparkmirror.offsets.recovery import RecoveryPoint
from tests.flow.running import create_topic
from tests.flow.test_events import delete_topic


def sign(shift: str, run: str = "mine") -> Entry:
    return Entry(offset=0, key=alive_key(run, shift), value="{}")


def listened(heard: Heard, begin: float, seconds: float) -> float:
    """Reads nothing new once a second; gives the moment after it."""
    for second in range(int(seconds) + 1):
        heard.take([], begin + second)
    return begin + int(seconds)


def test_a_shift_that_was_heard_and_says_no_more_is_silent():
    heard = Heard("mine")
    heard.take([sign("lane-0.0"), sign("lane-1.0")], 100.0)
    now = listened(heard, 100.0, SILENT_SECONDS)
    assert not heard.silent(now)
    heard.take([sign("lane-1.0")], now + 1)
    assert heard.silent(now + 1) == {"lane-0.0"}


def test_a_shift_that_is_not_expected_is_not_missed():
    heard = Heard("mine")
    assert not heard.silent(listened(heard, 0.0, 1_000))


def test_a_shift_that_spark_never_lets_speak_is_given_up_in_the_end():
    heard = Heard("mine")
    heard.expect("lane-0.0", 100.0)
    now = listened(heard, 100.0, FIRST_SECONDS)
    assert not heard.silent(now)
    heard.take([], now + 1)
    assert heard.silent(now + 1) == {"lane-0.0"}


def test_each_shift_that_is_given_up_unheard_gives_the_next_twice_the_time():
    heard = Heard("mine")
    now = 100.0
    for patience in (1, 2, 4, MOST_PATIENCE):
        heard.expect("lane", now)
        now = listened(heard, now, FIRST_SECONDS * patience)
        assert not heard.silent(now)
        heard.take([], now + 1)
        assert heard.silent(now + 1) == {"lane"}
        heard.give_up("lane")


def test_a_first_sign_ends_the_patience_and_one_that_was_heard_does_not_begin_it():
    heard = Heard("mine")
    heard.expect("lane-0.0", 100.0)
    heard.give_up("lane-0.0")
    heard.expect("lane-1.0", 100.0)
    heard.take([sign("lane-1.0")], 101.0)
    heard.give_up("lane-1.0")
    heard.expect("lane-2.0", 101.0)
    assert heard.silent(listened(heard, 101.0, FIRST_SECONDS + 1)) == {"lane-2.0"}


def test_a_shift_that_was_heard_in_time_is_like_any_other():
    heard = Heard("mine")
    heard.expect("lane-0.0", 100.0)
    heard.take([sign("lane-0.0")], 103.0)
    assert heard.silent(listened(heard, 103.0, SILENT_SECONDS + 1)) == {"lane-0.0"}


def test_a_driver_that_was_deaf_gives_everybody_time_to_speak():
    heard = Heard("mine")
    heard.take([sign("lane-0.0")], 100.0)
    heard.take([], 100.0 + 10 * SILENT_SECONDS)
    assert not heard.silent(100.0 + 10 * SILENT_SECONDS)
    assert heard.silent(listened(heard, 201.0, SILENT_SECONDS + 1)) == {"lane-0.0"}


def test_a_shift_that_ended_is_not_silent():
    heard = Heard("mine")
    heard.take([sign("lane-0.0")], 100.0)
    heard.forget("lane-0.0")
    assert not heard.silent(listened(heard, 100.0, 60))


@pytest.mark.parametrize(
    "entry",
    [
        sign("lane-0.0", run="other"),
        Entry(offset=0, key=alive_key("mine", "lane-0.0"), value=None),
        Entry(offset=0, key=ready_key("mine", "lane-0.0"), value="{}"),
        Entry(offset=0, key='["alive", "mine"]', value="{}"),
        Entry(offset=0, key='["alive', value="{}"),
    ],
)
def test_what_is_no_sign_of_this_run_is_passed_over(entry):
    heard = Heard("mine")
    heard.take([entry], 100.0)
    assert not heard.silent(listened(heard, 100.0, 60))


def test_the_recovery_point_that_a_shift_told_last_is_known_until_it_ends():
    heard, shift = Heard("mine"), "lane-0.0"
    key = alive_key("mine", shift)
    points = [RecoveryPoint(5, TopicPartition("a", 1)), None, RecoveryPoint(-1, TopicPartition('b"', 0))]
    told = []
    for point in points:
        heard.take([Entry(offset=0, key=key, value=alive_value(point))], 100.0)
        told.append(heard.points.get(shift))
    assert told == [points[0], points[0], points[2]]
    heard.forget(shift)
    assert heard.points == {}


def test_the_run_that_spoke_last_has_the_flow():
    heard = Heard("mine")
    heard.take([Entry(offset=0, key=RUN_KEY, value=run_value(Announced(run="mine")))], 1.0)
    assert heard.follower == ""
    heard.take([Entry(offset=1, key=RUN_KEY, value=run_value(Announced(run="other")))], 2.0)
    assert heard.follower == "other"


MINE = Announced(run="mine", generation=5, driver=Writer(producer_id=9, epoch=4))


@pytest.mark.parametrize(
    ("words", "doubted"),
    [
        ([MINE], False),
        ([replace(MINE, run="later", generation=6)], True),
        ([replace(MINE, run="dead", generation=4, driver=Writer(producer_id=9, epoch=3))], True),
        ([replace(MINE, run="dead", generation=4), MINE], False),
        pytest.param([replace(MINE, driver=Writer(producer_id=9, epoch=3))], True, id="its own from before, come late"),
        ([MINE, replace(MINE, run="later", generation=6)], True),
    ],
)
def test_a_driver_whose_word_is_not_the_last_one_is_to_look_whether_it_has_the_flow(
    words: list[Announced], doubted: bool
):
    heard = Heard("mine", MINE)
    heard.take([Entry(offset=at, key=RUN_KEY, value=run_value(word)) for at, word in enumerate(words)], 1.0)
    assert (heard.doubted, heard.follower) == (doubted, "")


@pytest.mark.kafka
def test_a_driver_whose_control_topic_has_lost_its_end_reads_it_again_and_says_once_more_that_it_has_the_flow(
    cluster_b, topic
):
    name = topic("signs")
    create_topic(cluster_b, name)
    settings = ClientSettings(bootstrap_servers=tuple(cluster_b.bootstrap_servers.split(",")))
    cluster = Cluster("b", settings, role="test")
    try:
        journal, signs = Journal(cluster, name), Signs(cluster, name, "mine", 30_000)
        cluster.run(journal.append, [(alive_key("dead", "lane-0.0"), "{}")] * 5)
        signs.announce(MINE)
        cluster.run(journal.append, [(alive_key("mine", "lane-0.0"), "{}")])
        signs.follow()
        assert not signs.doubted
        delete_topic(cluster_b, name)
        create_topic(cluster_b, name)
        word = replace(MINE, run="dead", generation=4, driver=Writer(producer_id=9, epoch=3))
        cluster.run(Journal(cluster, name).append, [(RUN_KEY, run_value(word))])
        signs.follow()
        assert (signs.doubted, signs.follower) == (True, "")
        signs.announce_again(6, MINE.driver)
        signs.follow()
        assert not signs.doubted
        newest, _ = cluster.run(Journal(cluster, name).read_all)
        assert told_run(newest[RUN_KEY].value or "") == replace(MINE, generation=6)
    finally:
        cluster.close()


@pytest.mark.kafka
def test_a_new_run_takes_the_flow_and_knows_whether_lanes_of_others_may_live(cluster_b, topic):
    name = topic("signs")
    create_topic(cluster_b, name, 1, {"cleanup.policy": "compact"})
    settings = ClientSettings(bootstrap_servers=tuple(cluster_b.bootstrap_servers.split(",")))
    cluster = Cluster("b", settings, role="test")
    try:
        journal = Journal(cluster, name)
        old, new = Signs(cluster, name, "old", 30_000), Signs(cluster, name, "new", 30_000)
        later = Writer(producer_id=9, epoch=5)
        assert (old.announce(replace(MINE, run="old")), old.haunted) == (1, False)
        old.follow()
        assert (old.follower, old.doubted, old.silent()) == ("", False, frozenset())
        cluster.run(journal.append, [(alive_key("old", "lane-0.3"), "{}"), (alive_key("new", "lane-0.0"), "{}")])
        assert (new.announce(Announced(run="new", generation=6, driver=later)), new.haunted) == (4, True)
        old.follow()
        assert (old.follower, old.doubted) == ("", True), "it looks whether it still has the flow"
        again = Signs(cluster, name, "new", 30_000)
        again.announce(Announced(run="new", generation=7, driver=Writer(producer_id=9, epoch=6)))
        assert again.haunted, "a start that is tried again is as careful as the first"
        new.bury()
        assert not new.haunted
        newest, _ = cluster.run(journal.read_all)
        assert set(newest) == {RUN_KEY, alive_key("new", "lane-0.0")}
    finally:
        cluster.close()
