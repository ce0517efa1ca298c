"""What is said of a step that a cluster did not let come to its end."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sparkmirror.errors import BrokerError, ConfigError, FencedError, LinkError, SparkmirrorError
from sparkmirror.failover.broken_off import cause, told_of
from sparkmirror.failover.states import COMMITTING, Step
from sparkmirror.model import Alias, FlowName
from sparkmirror.offsets.ledger import Operation

OPERATION = Operation(
    token="t",
    number=3,
    id="failover-1",
    kind="failover",
    step=Step.MOVING.name,
    source="a",
    target="b",
    began_ms=1,
    time_ms=2,
    by="me",
)
FLOW = FlowName(source=Alias("a"), target=Alias("b"))
DISK = "see the brokers' logs, and whether a disk is full"
GOES_ON = 'failover-1 is not done, it stands at "groups are moved": mend it, and run the same command again'
SILENT = LinkError(cluster="b", address="b:9092", reason="connection refused")
LOGIN = LinkError(cluster="b", address="b:9092", reason="wrong password", hint="check it", lasting=True)


def refused(code: int) -> BrokerError:
    return BrokerError(code=code, name="SOME_NAME", cluster="b")


@pytest.mark.parametrize(
    ("failure", "may_be_the_disk"),
    [
        (SILENT, True),
        (refused(56), True),
        (refused(16), True),
        (refused(15), True),
        (refused(5), True),
        (refused(30), False),
        (refused(3), False),
        (LOGIN, False),
    ],
)
def test_a_cluster_that_stops_answering_or_writing_is_told_of_with_the_disk_as_a_cause(failure, may_be_the_disk):
    said = str(told_of(failure, OPERATION, FLOW))
    assert said.startswith(str(failure))
    assert (DISK in said, GOES_ON in said) == (may_be_the_disk, True), said
    assert bool(cause(failure)) is may_be_the_disk


@pytest.mark.parametrize(
    "failure",
    [
        SparkmirrorError("producers wrote to the source again: stop them"),
        ConfigError(file="f", key="k", reason="r"),
    ],
)
def test_what_says_by_itself_what_to_do_stays_as_it_is(failure):
    assert told_of(failure, OPERATION, FLOW) is failure


def test_whoever_is_fenced_is_told_how_to_go_on_as_well():
    fenced = FencedError(code=47, name="INVALID_PRODUCER_EPOCH", cluster="b", remedy="only one may go on")
    assert GOES_ON in str(told_of(fenced, OPERATION, FLOW))


@pytest.mark.parametrize(
    ("kind", "step", "facts", "cluster", "is_told"),
    [
        ("switchover", Step.IDLING, {}, "a", True),
        ("switchover", Step.UNDOING, {}, "a", True),
        ("failback", Step.MOVING, {COMMITTING: True}, "a", True),
        ("switchover", Step.MOVING, {COMMITTING: True}, "a", False),
        ("switchover", Step.IDLING, {}, "b", False),
        ("failover", Step.MOVING, {}, "a", False),
    ],
)
def test_where_the_cluster_is_gone_that_is_left_a_failover_is_named(kind, step, facts, cluster, is_told):
    operation = replace(OPERATION, id=f"{kind}-1", kind=kind, step=step.name, facts=facts)
    gone = LinkError(cluster=cluster, address="it:9092", reason="connection refused")
    said = str(told_of(gone, operation, FLOW))
    assert ("if a is gone, sparkmirror failover --from a --to b takes its place" in said) is is_told, said
