"""What speaks against an operation, in words that say what would be lost."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sparkmirror.failover.look import PartitionState, SourceState
from sparkmirror.failover.moves import GroupMove, MovedPlace
from sparkmirror.failover.plan import Plan, back_held, back_unknown, decide, held_before, without
from sparkmirror.failover.states import Kind
from sparkmirror.kafka.groups import Committed, GroupKind, GroupListing
from sparkmirror.model import NO_OFFSET, Alias, FlowName, TopicPartition
from sparkmirror.offsets.orders import HoldOrder

HERE, THERE = TopicPartition("orders", 0), TopicPartition("a.orders", 0)
LEVEL = PartitionState(partition=HERE, target=THERE, position=100, end=100, seen_ms=1)
BEHIND = replace(LEVEL, end=130)
GONE = SourceState(failure="connection refused")
IDLE, BUSY = SourceState(ends={HERE: 100}), SourceState(ends={HERE: 100}, produced=12)
PLACE = MovedPlace(partition=HERE, target=THERE, committed=Committed(50), offset=50)
MOVE = GroupMove(group="g", seen_ms=1, places=(PLACE,))
MEMBERS = replace(MOVE, hindrance="members", active=True)


def plan(kind: Kind, source: SourceState, *partitions: PartitionState, state: str = "running", moves=(MOVE,), **more):
    return decide(kind, "a->b", state, source, partitions or (LEVEL,), moves, **more)


@pytest.mark.parametrize(
    ("made", "words"),
    [
        (plan(Kind.FAILOVER, GONE, BEHIND, state="silent"), []),
        (plan(Kind.FAILOVER, GONE, LEVEL), []),
        (plan(Kind.FAILOVER, IDLE), ["the source answers: everything it had is on the target"]),
        (plan(Kind.FAILOVER, BUSY, BEHIND), ["took 12 records in the last seconds: 30 of its records are not on"]),
        (plan(Kind.SWITCHOVER, BUSY), []),
        (plan(Kind.SWITCHOVER, IDLE, BEHIND), []),
        (plan(Kind.SWITCHOVER, GONE), ["does not answer: connection refused"]),
        (plan(Kind.SWITCHOVER, IDLE, state="silent"), ["the flow is silent, and has to run"]),
        (plan(Kind.SWITCHOVER, IDLE, replace(LEVEL, standing="too large")), ["orders-0 (too large)"]),
        (plan(Kind.SWITCHOVER, IDLE, paused=["orders"]), ["topics are paused: orders"]),
        (
            plan(Kind.FAILOVER, GONE, moves=[MEMBERS]),
            ["live on the target", "g"],
        ),
        (plan(Kind.FAILOVER, GONE, moves=[replace(MOVE, hindrance="a share group")]), ["g (a share group) (--force"]),
        (plan(Kind.SWITCHOVER, IDLE, state="held"), ["the flow is held", "(sparkmirror release)"]),
        (plan(Kind.SWITCHOVER, replace(IDLE, leaderless=3)), ["3 partitions of __consumer_offsets have no leader"]),
        (
            plan(Kind.FAILOVER, replace(BUSY, silent={HERE: "no answer"})),
            ["answers in part (1 partitions are without a leader", "orders-0 among them: no answer) and took 12"],
        ),
        (plan(Kind.SWITCHOVER, replace(IDLE, silent={HERE: "no answer"})), ["answers in part: 1 partitions are"]),
        (plan(Kind.SWITCHOVER, replace(IDLE, unlisted="no answer")), ["does not list its groups: no answer"]),
        (plan(Kind.FAILBACK, replace(IDLE, leaderless=1)), ["1 partitions of __consumer_offsets have no leader"]),
    ],
)
def test_what_speaks_against_it(made: Plan, words: list[str]):
    assert len(made.refusals) == bool(words)
    assert all(each in made.refusals[0] for each in words)


@pytest.mark.parametrize(
    ("made", "words"),
    [
        (plan(Kind.FAILOVER, GONE), ""),
        (
            plan(Kind.SWITCHOVER, IDLE, replace(BEHIND, found=False)),
            "the flow has not found topics yet: orders (it is told to look",
        ),
        (
            plan(Kind.FAILOVER, IDLE, replace(BEHIND, found=False)),
            "the flow has not found topics yet: orders (nothing of them is on the target)",
        ),
        (plan(Kind.SWITCHOVER, IDLE, replace(LEVEL, found=False)), ""),
        (plan(Kind.FAILOVER, GONE, replace(LEVEL, end=NO_OFFSET)), "the end of the source was never seen of orders-0"),
        (
            plan(
                Kind.FAILOVER,
                GONE,
                moves=[replace(MOVE, places=(PLACE, replace(PLACE, partition=TopicPartition("x", 0), target=None)))],
            ),
            "g (also reads x)",
        ),
        (
            plan(Kind.FAILOVER, GONE, moves=[replace(MOVE, places=(replace(PLACE, offset=NO_OFFSET, text="why"),))]),
            "no offset on the target for g at orders-0 (why)",
        ),
        (
            plan(Kind.FAILOVER, IDLE, moves=[replace(MOVE, places=(replace(PLACE, offset=NO_OFFSET, text="why"),))]),
            "orders-0 (why); the source is asked once more",
        ),
        (plan(Kind.FAILOVER, GONE, moves=[replace(MOVE, places=(replace(PLACE, exact=False),))]), "twice"),
        (
            plan(Kind.SWITCHOVER, replace(IDLE, listed=(GroupListing(name="g", state="Stable"),))),
            "members on the source: g",
        ),
        (plan(Kind.FAILOVER, replace(IDLE, leaderless=3)), "3 partitions of __consumer_offsets have no leader"),
    ],
)
def test_what_its_operator_should_know(made: Plan, words: str):
    assert len(made.warnings) == bool(words)
    assert all(words in text for text in made.warnings)


def test_what_is_missing_is_summed_up_and_a_dead_driver_takes_longer():
    made = plan(Kind.FAILOVER, GONE, BEHIND, LEVEL)
    assert made.missing == 30
    assert plan(Kind.FAILOVER, GONE, state="silent").seconds > made.seconds


def test_many_names_are_cut_short():
    made = plan(
        Kind.FAILOVER, GONE, moves=[replace(MOVE, group=f"g{n}", hindrance="members", active=True) for n in range(9)]
    )
    assert "g4 and 4 more" in made.refusals[0]


def test_what_a_flow_that_is_held_since_an_earlier_operation_lacks_is_told():
    flow = FlowName(source=Alias("a"), target=Alias("b"))
    hold = HoldOrder(operation="failover-1", reason="failover to b (failover-1)", time_ms=1_700_000_000_000, by="me")
    assert held_before(flow, None) == ()
    (said,) = held_before(flow, hold)
    assert said == (
        "a->b has been stopped since 2023-11-14T22:13:20Z by failover to b (failover-1): "
        "what a took after that is not on b"
    )


def test_a_flow_back_that_is_still_held_is_told_with_the_command_that_ends_that():
    back = FlowName(source=Alias("a"), target=Alias("b"))
    hold = HoldOrder(operation="failover-1", reason="failover to b (failover-1)", time_ms=1_700_000_000_000, by="me")
    assert back_held(back, None, "mm2.properties") == ()
    (said,) = back_held(back, hold, "mm2.properties")
    assert said.startswith("a->b is still stopped by failover to b (failover-1): nothing that a takes is copied to b")
    assert "sparkmirror release mm2.properties --flow 'a->b'" in said


def test_a_flow_back_of_which_nobody_can_tell_whether_it_is_held_is_told_with_the_command_too():
    (said,) = back_unknown(FlowName(source=Alias("a"), target=Alias("b")), "mm2.properties")
    assert said.startswith("whether an earlier operation still stops a->b is not known, since its record lies on b.")
    assert "nothing that a takes is copied to b, and groups are not followed on a" in said
    assert "when b is there again, sparkmirror release mm2.properties --flow 'a->b' ends that" in said


def test_a_group_without_a_translation_keeps_what_it_has_on_the_target_and_that_is_told():
    kept = replace(PLACE, offset=NO_OFFSET, before=70, exact=False, text="no syncs")
    none = replace(PLACE, offset=NO_OFFSET, exact=False, text="no syncs")
    (said,) = plan(Kind.SWITCHOVER, IDLE, moves=[replace(MOVE, places=(kept,))]).warnings
    assert said.startswith("groups keep their offsets on the target, and may skip records or read some again")
    assert said.endswith(": g at orders-0 (no syncs; it stays at offset 70)")
    (said,) = plan(Kind.SWITCHOVER, IDLE, moves=[replace(MOVE, places=(none,))]).warnings
    assert said.startswith("there is no offset on the target for g at orders-0 (no syncs)")


def test_topics_that_an_outdated_file_leaves_out_are_named():
    flow = FlowName(source=Alias("a"), target=Alias("b"))
    assert without(flow, []) == ()
    (said,) = without(flow, ["payments"])
    assert said.startswith("this file leaves out topics that a->b has copied")
    assert said.endswith(": payments")


def test_groups_of_a_kind_that_nobody_translates_are_named():
    kinds = (GroupListing(name="s", kind=GroupKind.SHARE), GroupListing(name="t", kind=GroupKind.STREAMS))
    (note,) = plan(Kind.SWITCHOVER, replace(IDLE, untranslated=kinds)).warnings
    said = "groups of the source are of a kind whose offsets nobody translates, and stay"
    assert note == f"{said}: s ({GroupKind.SHARE.value}), t ({GroupKind.STREAMS.value})"
    assert plan(Kind.SWITCHOVER, IDLE).warnings == ()
