"""What an operation's record may name: topics that its flow chooses, or has copied, and their copies."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from sparkmirror.config import PolicyChoice, PolicyKind, load
from sparkmirror.events import now_ms
from sparkmirror.failover.failback import Failback
from sparkmirror.failover.own_topics import at_source, at_target, told_of_strange
from sparkmirror.failover.states import FENCE, LIFTED, STRANGE, Kind, Step
from sparkmirror.flow.sides import connected, record
from sparkmirror.model import Alias, FlowName, TopicPartition
from tests.duties.groups import FLOW as ANY
from tests.failover.halting import halted
from tests.failover.test_changed_home import Home, marked
from tests.failover.test_fenced_switching import denials, deny, guarded
from tests.failover.test_lifted import Operator
from tests.failover.test_unfinished import BEGUN, begun
from tests.flow.running import Running, admin_of, create_topic, until, write_file
from tests.flow.test_torn_while_idle import mirrored, write
from tests.invoking import sparkmirror

__all__ = ["guarded"]

QUIET = {"tasks.max": "1", "groups": "none", "heartbeats.replication.enabled": "false"}
FLOW = replace(ANY, topics=("orders.*",))
BACK = replace(FLOW, name=FlowName(source=Alias("B"), target=Alias("A")), source=FLOW.target, target=FLOW.source)
COPIED = (TopicPartition("bills", 0), TopicPartition("bills", 1))


@pytest.mark.parametrize(
    ("names", "own"),
    [
        (["orders1", "payroll"], {"orders1"}),
        (["bills"], {"bills"}),
        (["B.orders1", "__consumer_offsets", "sparkmirror.A.B.internal"], set()),
        ([], set()),
    ],
)
def test_a_flow_has_to_do_with_what_it_chooses_and_with_what_it_has_copied(names, own):
    assert at_source(FLOW, COPIED, names) == own


@pytest.mark.parametrize(
    ("names", "own"),
    [
        (["A.orders1", "A.bills", "A.payroll", "payroll"], {"A.orders1", "A.bills"}),
        (["orders-born-there"], {"orders-born-there"}),
    ],
)
def test_on_the_target_it_has_to_do_with_their_copies_and_with_what_the_flow_back_reads(names, own):
    assert at_target(FLOW, COPIED, BACK, names) == own
    assert at_target(FLOW, COPIED, None, names) == own - {"orders-born-there"}


def test_where_names_are_kept_a_copy_has_its_topic_s_name():
    kept = replace(FLOW, policy=PolicyChoice(kind=PolicyKind.IDENTITY))
    assert at_target(kept, COPIED, None, ["orders1", "bills", "payroll"]) == {"orders1", "bills"}


def test_what_is_strange_is_told_by_name():
    assert told_of_strange((), "a->b", "a") == ()
    (text,) = told_of_strange({"z", "payroll"}, "a->b", "a")
    assert "neither chooses nor has copied: payroll, z." in text


ROWS = [["orders", 0, 5, 9, 1, -1], ["payroll", 0, 0, 2, 1, -1]]


def test_a_failback_takes_no_topic_from_the_record_that_the_flow_has_nothing_to_do_with():
    """It would copy that topic's records into a new one, and have the flow go on behind them."""
    said: list[str] = []
    operation = begun(Kind.FAILBACK, Step.SAVING, {"divergent": ROWS})
    subject: Any = object.__new__(Failback)
    subject._forth, subject._store = SimpleNamespace(flow=FLOW), SimpleNamespace(state=SimpleNamespace(progress=()))
    subject._operator, subject._tell = Operator(operation), said.append
    assert [one.partition.topic for one in subject._seen(operation).found] == ["orders"]
    subject._without_strange(operation)
    facts = subject._operator.operation.facts
    assert (facts["divergent"], facts[STRANGE]) == (ROWS[:1], [["a", "payroll"]])
    (told,) = said
    assert "payroll" in told
    sound = begun(Kind.FAILBACK, Step.SAVING, {"divergent": ROWS[:1]})
    assert subject._without_strange(sound) is sound


@pytest.mark.kafka
@pytest.mark.slow
def test_a_release_takes_no_rule_away_that_somebody_has_put_on_record(guarded, topic, tmp_path):
    a, _ = guarded
    alias = topic("forged")
    mine, others = f"{alias}-mine", f"{alias}-payroll"
    for name in (mine, others):
        create_topic(a, name, 1)
        deny(a, name)
    login = [each.client_properties("SASL_SCRAM") for each in guarded]
    file = write_file(tmp_path / "mm2.properties", {alias: login[0], "b": login[1]}, {f"{alias}->b": mine}, QUIET)
    with Running(file, log=tmp_path / "once.log", options=("--once",)) as mirror:
        assert mirror.wait() == 0, mirror.tail()
    rows = [["TOPIC", name, "LITERAL", "User:*", "*", "WRITE"] for name in (mine, others)]
    forged = replace(BEGUN, source=alias, step=Step.DONE.name, facts={FENCE: rows, LIFTED: {alias: {others: now_ms()}}})
    (flow,) = load([str(file)]).flows
    with connected(flow, role="test") as sides:
        record(sides)
        assert sides.store is not None
        sides.store.write([forged])
    released = sparkmirror("release", file, "--flow", f"{alias}->b", "--fence-only", "--yes")
    said = " ".join((released.stdout + released.stderr).split())
    assert released.returncode == 1, said
    assert f"are taken away on {alias}, of topics {mine} " in said
    assert f"neither chooses nor has copied: {others}" in said
    until(lambda: mine not in denials(a), "the flow's own rule is gone", 30)
    assert others in denials(a)


@pytest.mark.kafka
@pytest.mark.slow
@pytest.mark.long
def test_a_failback_that_goes_on_copies_no_topic_that_somebody_has_put_on_record(cluster_a, cluster_b, topic, tmp_path):
    """The command has died before it put anything aside; the next one would put aside what the record names."""
    home, others = Home(cluster_a, cluster_b, topic("put"), tmp_path, kept=True), topic("payroll")
    name = home.name
    create_topic(cluster_a, others, 1)
    write(cluster_a, others, marked("secret", 3))
    write(cluster_a, name, marked("old", 10))
    (flow,) = [one for one in load([str(home.file)]).flows if str(one.name) == f"{name}->b"]
    with Running(home.file, log=tmp_path / "mirror.log") as mirror:
        until(lambda: mirrored(cluster_b, name) == marked("old", 10), "copied")
        home.leave("failover", "--force")
        write(cluster_a, name, marked("home", 5))
        command = halted(Step.SAVING, "failback", home.file, *home.back)
        command.kill()
        command.wait()
        with connected(flow, role="test") as sides:
            state = record(sides)
            assert state is not None
            assert sides.store is not None
            operation = state.ledger.operation
            assert operation is not None
            (row,) = operation.facts["divergent"]
            rows = [row, [others, 0, 0, 2, *row[4:]]]
            facts = {**operation.facts, "divergent": rows}
            sides.store.write([replace(operation, number=operation.number + 1, facts=facts)])
        report = home.go_back(code=1)
        (trouble,) = report["troubles"]
        assert f"neither chooses nor has copied: {others}." in trouble
        assert [one["topic"] for one in report["divergent"]] == [name]
        assert home.kept(report) == marked("home", 5)
        there = admin_of(cluster_a).list_topics(timeout=10).topics
        assert [one for one in there if one.startswith(others)] == [others], "nothing of it was copied anywhere"
        mirror.stop_in_time()
