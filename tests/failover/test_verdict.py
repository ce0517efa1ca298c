"""What is a problem, what is only to be known, and what is in order."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sparkmirror.config import GroupSettings
from sparkmirror.duties.groups import GroupLine, Standing
from sparkmirror.errors import ConfigError
from sparkmirror.failover.group_outcomes import GroupOutcome, Offset
from sparkmirror.failover.missing_rights import Lack
from sparkmirror.failover.recovery_point import Behind, RecoveryPoint
from sparkmirror.failover.verdict import RUNNING, Look, notes, problems, recovery_ms
from sparkmirror.failover.verifying import Finding, Verdict
from sparkmirror.flow.connections import Connection
from sparkmirror.flow.status import NEVER_STARTED, SILENT
from sparkmirror.kafka.acls import Operation
from sparkmirror.kafka.survey import Survey
from sparkmirror.model import Alias, ClusterId, TopicPartition, Writer
from sparkmirror.offsets.inherited import Elsewhere
from sparkmirror.offsets.orders import TopicOrder
from sparkmirror.offsets.records import FlowRecord, Later, Progress, Record
from sparkmirror.offsets.state import JournalState
from tests.duties.groups import FLOW, HERE

ORDERS, BILLS = TopicPartition("orders", 0), TopicPartition("bills", 1)
LETTER = FlowRecord(source_alias="A", source_id="id-a", target_alias="B", target_id="id-b", naming="n", generation=1)
WAITING = RecoveryPoint(records=7, time_ms=900, partitions=(Behind(partition=ORDERS, position=3, records=7),))


def known(*records: Record | Later) -> JournalState:
    state = JournalState()
    for record in (LETTER, progress(), *records):
        state.take(record)
    return state


def progress(place: TopicPartition = ORDERS, error: str = "") -> Progress:
    writer = Writer(producer_id=1, epoch=0)
    return Progress(partition=place, writer=writer, generation=1, position=3, next_sequence=0, error=error)


def connection(alias: str, cluster_id: str = "", failure: ConfigError | None = None) -> Connection:
    survey = Survey(cluster_id=ClusterId(cluster_id), brokers=1, version=(4, 3), rights=None) if cluster_id else None
    return Connection(alias=Alias(alias), roles=("admin",), flows=("A->B",), found=survey, failure=failure)


BOTH = (connection("A", "id-a"), connection("B", "id-b"))
SYNCED = replace(FLOW, groups=GroupSettings(sync_enabled=True))
WELL = Look(flow=SYNCED, connections=BOTH, state=RUNNING, known=known(), asked=True, copies={"orders": "A.orders"})


def group(verdict: Verdict, **attributes: object) -> GroupOutcome:
    line = GroupLine(group="readers", standing=Standing.LEVEL, partition=HERE)
    finding = Finding(verdict, "why", **attributes)  # type: ignore[arg-type]  # what a case names
    return GroupOutcome(group="readers", offsets=(Offset(line=line, finding=finding),))


def lack(reason: str) -> Lack:
    return Lack(cluster=Alias("B"), operation=Operation.READ, names=("A.orders",), reason=reason)


def test_where_all_is_well_there_is_no_problem_and_no_note():
    assert problems(WELL) == ()
    assert notes(WELL) == ()
    assert problems(replace(WELL, point=WAITING, groups=(group(Verdict.VERIFIED), group(Verdict.GONE)))) == ()


@pytest.mark.parametrize(
    ("look", "text"),
    [
        (
            replace(
                WELL, connections=(BOTH[0], connection("B", failure=ConfigError(file="f", key="k", reason="away")))
            ),
            "f: k: away",
        ),
        (replace(WELL, failures=("cluster B: no",)), "cluster B: no"),
        (Look(flow=SYNCED, state=NEVER_STARTED), "the flow was never started"),
        (replace(WELL, state=SILENT), "the flow does not run: it is silent"),
        (
            replace(WELL, connections=(connection("A", "id-c"), BOTH[1])),
            "A is cluster id-c now, and the flow's record is of cluster id-a",
        ),
        (
            replace(WELL, connections=(BOTH[0], connection("B", "id-c"))),
            "B is cluster id-c now, and the flow's record is of cluster id-b",
        ),
        (
            replace(WELL, known=known(Elsewhere(topic="mm2-offsets", time_ms=1))),
            "the flow's positions are with MirrorMaker 2, in mm2-offsets",
        ),
        (
            replace(WELL, known=known(Later('["flow"]', 9))),
            "the flow's record holds records of a later release, which may know more",
        ),
        (replace(WELL, known=known(progress(error="too large"))), "orders-0 stands still: too large"),
        (
            replace(WELL, known=known(progress(error="too large"), progress(BILLS, "no"))),
            "bills-1 and 1 more stands still: no",
        ),
        (
            replace(WELL, known=known(TopicOrder(topic="orders", time_ms=1, by="me")), point=WAITING),
            "orders is paused, and 7 of its records are not copied",
        ),
        (
            replace(WELL, point=RecoveryPoint(records=2, partitions=(Behind(partition=BILLS, position=0, records=2),))),
            "bills-1 is not copied yet",
        ),
        (
            replace(WELL, absent=("A.bills", "A.orders")),
            "cluster B has no topic A.bills and 1 more, or this user may not see it",
        ),
        (
            replace(WELL, leaderless=(TopicPartition("A.orders", 2),)),
            "cluster B: A.orders-2 has no leader",
        ),
        (
            replace(WELL, lacks=(lack("copying"),)),
            "cluster B: this user is not allowed to READ Topic A.orders (copying)",
        ),
        (
            replace(WELL, groups=(group(Verdict.WRONG),)),
            "group readers: orders-0: its translation is WRONG (why)",
        ),
        (
            replace(WELL, groups=(group(Verdict.LATE),)),
            "the time was over: 1 offsets were not verified (--timeout gives more)",
        ),
        (replace(WELL, late=True), "the time was over before everything was looked at (--timeout gives more)"),
    ],
)
def test_each_problem_is_told_by_itself(look, text):
    assert problems(look) == (text,)


def test_a_topic_that_the_target_does_not_have_is_told_once():
    point = RecoveryPoint(records=2, partitions=(Behind(partition=BILLS, position=0, records=2),))
    look = replace(WELL, point=point, copies={"bills": "A.bills"}, absent=("A.bills",))
    assert problems(look) == ("cluster B has no topic A.bills, or this user may not see it",)


@pytest.mark.parametrize(
    ("look", "text"),
    [
        (replace(WELL, lacks=(lack("ACLs"),)), "cluster B: this user is not allowed to READ Topic A.orders (ACLs)"),
        (
            replace(WELL, asked=False),
            "the source was not asked: what would be missing is told by the flow's own record",
        ),
        (
            replace(WELL, known=known(TopicOrder(topic="orders", time_ms=1, by="me"))),
            "orders is paused, and nothing of it waits",
        ),
        (
            replace(WELL, flow=FLOW, groups=(group(Verdict.VERIFIED),)),
            (
                "no offsets are committed on the target meanwhile (sync.group.offsets.enabled is false): sparkmirror "
                "failover and switchover commit them; groups that start there without these need sparkmirror offsets "
                "--apply, or clients that translate"
            ),
        ),
        (
            replace(WELL, flow=replace(SYNCED, provenance_header=True), groups=(group(Verdict.VERIFIED, left_out=3),)),
            "1 offsets lie at records that the flow leaves out (dead letters, or of other mirrors)",
        ),
    ],
)
def test_what_is_only_to_be_known_is_a_note_and_no_problem(look, text):
    assert problems(look) == ()
    assert notes(look) == (text,)


def test_the_time_of_a_recovery_is_that_of_its_steps_and_not_of_connecting():
    assert recovery_ms(replace(WELL, took_ms={"record": 20, "groups": 30, "verifying": 50, "other": 900})) == 100


def test_a_flow_that_does_not_put_its_groups_on_record_has_a_problem():
    flow = replace(FLOW, groups=GroupSettings(checkpoints_enabled=False))
    (problem,) = problems(replace(WELL, flow=flow, groups=(group(Verdict.VERIFIED),)))
    assert "emit.checkpoints.enabled and sync.group.offsets.enabled are false" in problem
    assert problems(replace(WELL, flow=flow)) == ()
