"""What others wrote to copies, and nobody brings to the cluster that groups go back to: nothing is exact there."""

from __future__ import annotations

from pathlib import Path

import pytest

from sparkmirror.config import FlowConfig, load
from sparkmirror.failover.comparison import Comparison
from sparkmirror.failover.unbrought import Cause, before_copies, candidates, not_in, reached_of, told_last
from sparkmirror.kafka.reading import Span
from sparkmirror.lab.cluster import start
from sparkmirror.model import Reached, TopicPartition, Writer
from sparkmirror.offsets.inherited import Inherited
from sparkmirror.offsets.map import Stretch
from sparkmirror.offsets.records import Life, Progress
from sparkmirror.offsets.state import state_of
from tests.failover.test_changed_home import NAMES_KEPT, Home, marked, runs
from tests.flow.logs import read
from tests.flow.running import Running, commit, committed, create_topic, ends, until, write_file
from tests.flow.test_torn_while_idle import mirrored, write
from tests.invoking import sparkmirror
from tests.offsets.segments import Segment, records_of

ORDERS, OTHER = TopicPartition("orders", 0), TopicPartition("other", 0)
FIRSTS = {ORDERS: 7, OTHER: 0}
"""Where the first record of each lies in the copy."""


def flows(directory: Path, settings: dict[str, str]) -> list[FlowConfig]:
    """The flow forth has two topics, the flow back one of them."""
    a, b = ({"bootstrap.servers": f"localhost:{port}"} for port in (1, 2))
    topics = {"a->b": "orders|other", "b->a": "orders"}
    file = write_file(directory / "mm2.properties", {"a": a, "b": b}, topics, settings)
    return list(load([str(file)]).flows)


def under(alias: str, place: TopicPartition) -> TopicPartition:
    return TopicPartition(f"{alias}.{place.topic}", place.partition)


def test_where_names_are_kept_the_topics_of_the_flow_back_say_what_it_brings(tmp_path):
    forth, back = flows(tmp_path, NAMES_KEPT)
    assert candidates(forth, back, [OTHER, ORDERS], {ORDERS, OTHER}) == (OTHER,)


@pytest.mark.parametrize(("homeward", "left"), [("false", {ORDERS, OTHER}), ("true", {OTHER})])
def test_under_renaming_it_brings_what_it_has_begun_with(tmp_path, homeward, left):
    forth, back = flows(tmp_path, {"b->a.homeward.enabled": homeward})
    copies = [under("a", place) for place in (ORDERS, OTHER)]
    assert set(candidates(forth, back, copies, {copies[0]})) == {under("a", place) for place in left}


def progress(place: TopicPartition, *, target: int, end: int = -1) -> Progress:
    writer = Writer(producer_id=1, epoch=1)
    reached = Reached(0, end)
    return Progress(
        partition=place, writer=writer, generation=1, position=9, next_sequence=0, target=target, reached=reached
    )


def test_others_have_written_behind_the_last_copy_or_anything_where_there_is_none(tmp_path):
    forth, _ = flows(tmp_path, {})
    untold, inherited = TopicPartition("untold", 0), TopicPartition("inherited", 0)
    known = [
        progress(ORDERS, target=19, end=21),
        progress(OTHER, target=-1),
        progress(untold, target=19),  # an older release did not put the end on record
        progress(inherited, target=-1),
        progress(TopicPartition("heartbeats", 0), target=19, end=20),
    ]
    state = state_of(known)
    state.inherited[inherited] = Inherited(partition=inherited, spans=((0, 9),), end=9)
    assert reached_of(forth, state) == {under("a", ORDERS): 21, under("a", OTHER): 0}


def test_what_is_in_doubt_and_what_is_not_brought_is_on_record_and_named():
    seen = Comparison(unsettled=(ORDERS,), unbrought={OTHER: Cause.NOT_BROUGHT})
    assert Comparison.of(seen.facts) == seen
    doubtful, others = seen.troubles("b", "a")
    assert doubtful.startswith("orders-0: how far it had been copied to b is not known")
    assert others.startswith("other-0: what others have written on b to this copy has not been brought to a")


@pytest.mark.parametrize(
    ("stretches", "left"),
    [
        ((), [Span(3, 20)]),
        (((0, 0, 5), (8, 5, 4)), [Span(5, 8), Span(12, 20)]),
        (((3, 0, 17),), []),
        (((0, 0, 40),), []),
        (((25, 0, 5),), [Span(3, 20)]),
    ],
)
def test_what_the_flow_back_has_not_brought_lies_between_what_it_has(stretches, left):
    assert list(not_in([Stretch(*one) for one in stretches], Span(3, 20))) == left


@pytest.mark.parametrize(
    ("settings", "begun", "inherited", "found"),
    [
        ({}, True, False, {"a.orders": 7}),
        ({}, False, False, {}),
        ({}, True, True, {}),
        ({"a->b.topics.append": "orders"}, True, False, {}),
        ({"b->a.homeward.enabled": "false"}, True, False, {}),
    ],
)
def test_what_lies_before_the_first_copied_record_is_nobodys_to_bring(tmp_path, settings, begun, inherited, found):
    """Not where a file says that the copy goes on behind another mirror's, or where that was taken over."""
    forth, back = flows(tmp_path, {"b->a.homeward.enabled": "true", **settings})
    state = state_of([progress(ORDERS, target=9), progress(OTHER, target=9)])
    writer = state.progress[ORDERS].writer
    pieces = [Segment(partition=at, writer=writer, sequence=0, source=0, target=to) for at, to in FIRSTS.items()]
    for record in records_of(pieces):
        state.take(record)
    if inherited:
        state.inherited[ORDERS] = Inherited(partition=ORDERS, spans=((0, 9),), end=9)
    copies = [under("a", place) for place in (ORDERS, OTHER)] if begun else []
    assert before_copies(forth, back, state, (1,), copies) == {
        TopicPartition(name, 0): first for name, first in found.items()
    }


@pytest.mark.parametrize(("homeward", "count"), [("true", 2), ("false", 0)])
def test_a_failover_tells_what_the_flow_said_last_of_copies_that_it_does_not_bring_home(tmp_path, homeward, count):
    _, back = flows(tmp_path, {"b->a.homeward.enabled": homeward})
    events = (
        "a.orders: what others wrote to partition 1 of it is not brought home: orders-1 does not exist on a",
        "copies of a->b: nothing that others wrote to them is brought home: there is no record of a->b",
        "other: not authorized",
    )
    state = state_of([])
    assert told_last(back, state) == ()
    state.life = Life(generation=1, time_ms=1, state="running", lanes=1, events=events)
    assert told_last(back, state) == tuple(f"b->a said last: {text}" for text in events[:count])


@pytest.mark.kafka
@pytest.mark.slow
@pytest.mark.parametrize("between", [False, True], ids=["behind the last copy", "between copies"])
def test_where_names_are_kept_a_topic_that_the_flow_back_leaves_out_is_named(topic, tmp_path, between):
    with start("home") as a, start("away") as b:
        home = Home(a, b, topic("brought"), tmp_path, kept=True)
        name, other = home.name, topic("left-out")
        write_file(
            home.file,
            {name: a, "b": b},
            {f"{name}->b": f"{name}|{other}", f"b->{name}": name},
            {"tasks.max": "1", "groups": f"{name}-.*", "heartbeats.replication.enabled": "false", **NAMES_KEPT},
        )
        for cluster in (a, b):
            create_topic(cluster, other, 1)
        with Running(home.file, log=tmp_path / "mirror.log") as mirror:
            for one in (name, other):
                write(a, one, marked("old", 10))
                until(lambda: mirrored(b, one) == marked("old", 10), "copied")  # noqa: B023 - at once
                commit(a, f"{name}-{one}", one, {0: 10})
            if between:
                write(b, other, marked("away", 5))
                write(a, other, marked("new", 5))
                until(lambda: marked("new", 5)[-1] in mirrored(b, other), "copied behind them")
            home.leave("switchover", "--wait-for-idle", "1")
            for one in (name,) if between else (name, other):
                write(b, one, marked("away", 5))
            for one in (name, other):
                commit(b, f"{name}-{one}", one, {0: 12})
            until(lambda: marked("away", 5)[-1] in mirrored(a, name), "brought")
            dry = sparkmirror("failback", home.file, "--to", name, "--dry-run")
            assert f"{other}-0: what others have written on b to this copy has not been brought" in dry.stdout
            report = home.go_back(code=1)
            (trouble,) = report["troubles"]
            assert trouble.startswith(f"{other}-0: what others have written on b to this copy has not been brought")
            exact = {p["target_topic"]: p["exact"] for group in report["groups"] for p in group["partitions"]}
            assert exact == {name: True, other: False}
            assert committed(a, f"{name}-{other}", other) == {0: 10}
            mirror.stop_in_time()


@pytest.mark.kafka
@pytest.mark.slow
@pytest.mark.long
def test_what_others_wrote_to_a_copy_that_the_flow_back_has_not_found_is_waited_for(topic, tmp_path):
    """That flow looks for topics every 600 s, and the copy is younger."""
    with start("home") as a, start("away") as b:
        home = Home(a, b, topic("young"), tmp_path, kept=False)
        name, group = home.name, f"{home.name}-g"
        with home.file.open("a") as file:
            file.write("homeward.enabled = true\nrefresh.topics.interval.seconds = 600\n")
        with Running(home.file, log=tmp_path / "mirror.log") as mirror:
            until(lambda: runs(home, f"b->{name}"), "the flow back has looked")
            write(a, name, marked("old", 10))
            until(lambda: mirrored(b, home.copy) == marked("old", 10), "copied")
            commit(a, group, name, {0: 10})
            home.leave("switchover", "--wait-for-idle", "1")
            write(b, home.copy, marked("home", 6))
            commit(b, group, home.copy, {0: ends(b, home.copy)[0] - 2})
            report = home.go_back()
            assert report["troubles"] == []
            assert mirrored(a, name) == [*marked("old", 10), *marked("home", 6)]
            assert home.next_on_a(group) == marked("home", 6)[4]
            assert read(a, name)[0][-1].value == marked("home", 6)[-1]
            mirror.stop_in_time()
