"""Rules that keep producers out may come after they were taken away: who sends them, what is on record and told."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from sparkmirror.errors import SparkmirrorError
from sparkmirror.failover import fence, lifted
from sparkmirror.failover.operator import INTERRUPTIONS
from sparkmirror.failover.procedure import Fence, Options, Procedure
from sparkmirror.failover.states import FENCE, HOME_FENCE, LIFTED, STRANGE, Kind, Step
from sparkmirror.kafka.acls import CHANGED_BINDINGS, AclBinding
from sparkmirror.kafka.backoff import Backoff
from sparkmirror.model import TopicPartition
from sparkmirror.offsets.ledger import Operation
from tests.failover.test_unfinished import BEGUN, FLOW, ROW, begun

NOW_MS = 1_700_000_000_000
ROW_OF_OTHERS = [ROW[0], "payroll", *ROW[2:]]
EVERY: dict[str, Any] = {"a": frozenset, "b": frozenset}
RELEASE = "sparkmirror release mm2.properties --flow 'a->b' --fence-only takes"


class Operator:
    """Who has the operation, until somebody else takes it over.

    Attributes:
        did: what was done, in order.
    """

    def __init__(self, operation: Operation, proofs: int = 1_000) -> None:
        self.operation, self.did, self._proofs = operation, list[Any](), proofs

    def prove(self) -> None:
        self.did.append("proven")
        self._proofs -= 1
        if self._proofs < 0:
            raise SparkmirrorError("somebody else has it")

    def note(self, **facts: Any) -> None:
        self.did.append("noted")
        self.operation = replace(self.operation, facts={**self.operation.facts, **facts})


class Brokers:
    """Take requests for ACLs.

    Attributes:
        sent: how many rules each request was about.
        said: what was told meanwhile.
    """

    alias = "a"
    address = "a.test:9092"
    backoff = Backoff()

    def __init__(self) -> None:
        self.sent: list[int] = []
        self.said: list[str] = []

    def call(self, request: Any, *_: Any) -> Any:
        self.sent.append(len(request.creations))
        return SimpleNamespace(results=[SimpleNamespace(error_code=0, error_message=None)] * self.sent[-1])

    def told(self, words: str | None) -> str:
        return words or ""


@pytest.mark.parametrize(("proofs", "sent"), [(0, []), (1, [500]), (2, [500, 500]), (3, [500, 500, 1])])
def test_no_rule_is_made_by_who_has_the_operation_no_more(proofs: int, sent: list[int]):
    assert CHANGED_BINDINGS == 500
    brokers: Any = Brokers()
    operator = Operator(BEGUN, proofs)
    rules = fence.rules_for(f"t-{number}" for number in range(1_001))
    if proofs < 3:
        with pytest.raises(SparkmirrorError, match="somebody else"):
            fence.put_up(brokers, rules, 1_000, operator.prove)
    else:
        fence.put_up(brokers, rules, 1_000, operator.prove)
    assert brokers.sent == sent


@pytest.fixture
def keeping_out(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """Gives a function that makes an operation of two topics, of which rules of some are not there."""

    def made(operator: Operator, brokers: Brokers, lacking: Sequence[str]) -> Procedure:
        subject = object.__new__(Procedure)
        fields = {"_sides": SimpleNamespace(source=brokers), "_operator": operator, "_timeout_ms": 1_000}
        for name, value in {**fields, "_tell": brokers.said.append}.items():
            setattr(subject, name, value)
        monkeypatch.setattr(Procedure, "_ends", lambda *_, **__: {TopicPartition("orders", 0): 1})
        monkeypatch.setattr(fence, "missing", lambda _source, _names, _timeout_ms: fence.rules_for(lacking))
        return subject

    return made


def by_acl(**facts: Any) -> Operation:
    return replace(BEGUN, facts=Options(fence=Fence.ACL, idle_s=0.0).facts | facts)


def test_the_step_that_keeps_producers_out_proves_that_it_may_after_the_rules_are_on_record(keeping_out):
    brokers, operator = Brokers(), Operator(by_acl(), proofs=0)
    with pytest.raises(SparkmirrorError, match="somebody else"):
        keeping_out(operator, brokers, ["orders"])._fence(operator.operation)
    assert operator.did == ["noted", "proven"]
    assert operator.operation.facts[FENCE] == [ROW]
    assert (brokers.sent, brokers.said) == ([], [])


def test_a_rule_that_was_taken_away_while_the_operation_needs_it_is_made_again_and_told(keeping_out):
    brokers, operator = Brokers(), Operator(by_acl(**{FENCE: [ROW]}))
    (told,) = keeping_out(operator, brokers, ["orders"]).deny_again()
    assert told.startswith("producers were not kept from topics orders on a: ")
    assert brokers.said == [told]
    assert (brokers.sent, operator.operation.facts[FENCE]) == ([1], [ROW])
    assert keeping_out(operator, brokers, []).deny_again() == ()
    by_owners = Operator(replace(BEGUN, facts=Options().facts))
    assert keeping_out(by_owners, brokers, ["orders"]).deny_again() == (), "producers are stopped by their owners"
    assert brokers.sent == [1]


@pytest.fixture
def taken(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, list[str]]]:
    """The topics of the rules that were taken away, by the cluster's alias."""
    found: list[tuple[str, list[str]]] = []

    def take_down(cluster: Any, rules: Sequence[AclBinding], _timeout_ms: int) -> None:
        assert rules == fence.rules_for(rule.name for rule in rules)
        found.append((cluster.alias, [rule.name for rule in rules]))

    monkeypatch.setattr(fence, "take_down", take_down)
    monkeypatch.setattr(lifted, "now_ms", lambda: NOW_MS)
    return found


def test_what_was_taken_away_stays_on_record_and_is_taken_away_again_as_often_as_that_is_asked_for(taken):
    operator: Any = Operator(begun(Kind.FAILBACK, Step.DONE, {HOME_FENCE: [ROW], LIFTED: {"b": {"bills": NOW_MS}}}))
    sides: Any = SimpleNamespace(
        source=SimpleNamespace(alias="a"),
        target=SimpleNamespace(alias="b"),
        flow=SimpleNamespace(admin_timeout_ms=1),
    )
    said: list[str] = []
    assert lifted.let_in(operator, sides.source, [], HOME_FENCE, frozenset, 1, said.append) == ()
    assert (operator.did, said, taken) == ([], [], [])
    assert lifted.let_in(operator, sides.source, [ROW], HOME_FENCE, frozenset, 1, said.append) == ()
    assert operator.did == ["proven", "noted"]
    assert operator.operation.facts == {HOME_FENCE: [], LIFTED: {"a": {"orders": NOW_MS}, "b": {"bills": NOW_MS}}}
    assert said == [
        "rules that deny everybody writing are taken away on a, of topics orders",
        "writing to 1 topics is no longer denied on a",
    ]
    for _ in range(2):
        taken.clear()
        assert lifted.let_in_again(operator, sides, operator.operation, EVERY, said.append) == ()
        assert taken == [("a", ["orders"]), ("b", ["bills"])]
    lifted.let_in_again(operator, sides, None, EVERY, said.append)
    assert len(said) == 10


def test_rules_of_topics_that_the_flow_has_nothing_to_do_with_stay_and_are_told(taken):
    """Who may write to the flow's internal topic names an administrator's own rule there."""
    rows = [ROW, ROW_OF_OTHERS]
    operator: Any = Operator(begun(Kind.SWITCHOVER, Step.DONE, {FENCE: rows, LIFTED: {"b": {"payroll": NOW_MS}}}))
    sides: Any = SimpleNamespace(
        source=SimpleNamespace(alias="a"),
        target=SimpleNamespace(alias="b"),
        flow=SimpleNamespace(admin_timeout_ms=1),
    )
    said: list[str] = []
    own = frozenset({"orders"}).intersection
    assert lifted.let_in(operator, sides.source, rows, FENCE, own, 1, said.append) == ("payroll",)
    assert taken == [("a", ["orders"])]
    assert operator.operation.facts[STRANGE] == [["a", "payroll"]]
    assert operator.operation.facts[LIFTED]["a"] == {"orders": NOW_MS}
    again = lifted.let_in_again(operator, sides, operator.operation, {"a": own, "b": own}, said.append)
    assert again == (("b", "payroll"),)
    assert taken == [("a", ["orders"])] * 2
    assert not any("payroll" in each for each in said)


@pytest.mark.parametrize("name", ["*", ".", "..", "a/b", "\0", "x" * 250, ""])
def test_no_rule_is_read_of_a_topic_that_kafka_cannot_have(name: str):
    assert fence.rules_of([[ROW[0], name, *ROW[2:]]]) == ()


def test_a_rule_that_is_there_a_day_after_it_was_taken_away_is_taken_for_somebody_s_own(taken, monkeypatch):
    later, sides = NOW_MS + lifted.LATE_MS, SimpleNamespace(source=SimpleNamespace(alias="a"))
    operation = begun(Kind.SWITCHOVER, Step.ABANDONED, {LIFTED: {"a": {"orders": NOW_MS}}})
    assert lifted.topics_of(operation, "a", later - 1) == ("orders",)
    assert lifted.topics_of(operation, "a", later) == ()
    (said,) = lifted.said_of_denied(["orders"], operation, FLOW, "a", "mm2.properties", later)
    assert UNKNOWN in said
    assert lifted.lately({"a": {"orders": NOW_MS, "bills": later}, "b": {"x": NOW_MS}}, later) == {
        "a": {"bills": later}
    }
    monkeypatch.setattr(lifted, "now_ms", lambda: later)
    operator: Any = Operator(operation)
    sides.target, sides.flow = SimpleNamespace(alias="b"), SimpleNamespace(admin_timeout_ms=1)
    among: Any = sides
    lifted.let_in_again(operator, among, operation, EVERY, print)
    assert taken == []


def test_only_rules_that_an_operation_makes_are_kept_and_none_that_is_about_all_topics():
    rows = [ROW, ["TOPIC", "pay", "PREFIXED", "User:*", "*", "WRITE"]]
    more = lifted.with_more({"a": {"z": NOW_MS, "b": 1}}, "a", rows, NOW_MS + 5)
    assert more == {"a": {"orders": NOW_MS + 5, "z": NOW_MS}}
    assert [rule.name for rule in fence.rules_for(["z", "*", "b", "z"])] == ["b", "z"]


UNKNOWN, LATE = "by rules that no operation has on record", "came after its rules were taken away"


@pytest.mark.parametrize(
    ("operation", "alias", "words"),
    [
        (None, "a", [UNKNOWN]),
        (begun(Kind.SWITCHOVER, Step.DONE, {}), "a", [UNKNOWN]),
        (begun(Kind.SWITCHOVER, Step.DONE, {FENCE: [ROW]}), "a", []),
        (begun(Kind.SWITCHOVER, Step.DONE, {FENCE: [ROW]}), "b", [UNKNOWN]),
        (begun(Kind.SWITCHOVER, Step.ABANDONED, {LIFTED: {"a": {"orders": NOW_MS}}}), "a", [LATE]),
        (begun(Kind.SWITCHOVER, Step.ABANDONED, {LIFTED: {"a": {"orders": NOW_MS}}}), "b", [UNKNOWN]),
        (begun(Kind.SWITCHOVER, Step.IDLING, {FENCE: [ROW], LIFTED: {"a": {"orders": NOW_MS}}}), "a", []),
        (begun(Kind.FAILBACK, Step.IDLING, {FENCE: [ROW]}), "b", []),
        (begun(Kind.FAILBACK, Step.IDLING, {FENCE: [ROW]}), "a", [UNKNOWN]),
        (begun(Kind.FAILBACK, Step.DONE, {HOME_FENCE: [ROW]}), "a", []),
    ],
)
def test_a_plan_names_the_topics_that_are_denied_and_that_the_operation_on_record_does_not_deny(
    operation, alias, words
):
    found = lifted.said_of_denied(["orders"], operation, FLOW, alias, "mm2.properties", NOW_MS)
    assert len(found) == len(words)
    for said, word in zip(found, words, strict=True):
        assert f"to write to topics orders on {alias}" in said
        assert word in said
        assert (RELEASE if word is LATE else "delete them: kafka-acls --remove") in said
    assert lifted.said_of_denied([], operation, FLOW, alias, "mm2.properties", NOW_MS) == ()


def test_a_command_that_was_broken_off_while_it_kept_producers_out_may_have_a_request_on_its_way():
    def broken_off(step: Step) -> Operation:
        return replace(BEGUN, facts={INTERRUPTIONS: [[step.name, 1, "me", "", 2, "you"]]})

    assert not lifted.may_come_late(BEGUN)
    assert not lifted.may_come_late(broken_off(Step.MOVING))
    assert lifted.may_come_late(broken_off(Step.FENCING))
    said = lifted.said_of_late(FLOW, "a", "mm2.properties")
    assert f"where producers are refused there later, {RELEASE} the rule away again" in said
