"""The answer of a rehearsal as its readers see it: one line, tables, JSON."""

from __future__ import annotations

import io
import json
from dataclasses import replace

import pytest
from rich.console import Console

from sparkmirror.cli.rehearse import GROUPS_SHOWN, PROBLEMS_SHOWN, as_dict, show, verdict_line
from sparkmirror.duties.groups import GroupLine, Standing
from sparkmirror.failover.group_outcomes import GroupOutcome, Offset
from sparkmirror.failover.recovery_point import Behind, RecoveryPoint
from sparkmirror.failover.verdict import Look
from sparkmirror.failover.verifying import Finding, Verdict
from sparkmirror.flow.status import NEVER_STARTED
from sparkmirror.model import TopicPartition
from tests.duties.groups import FLOW, HERE
from tests.failover.test_verdict import WAITING, WELL, known, progress

TOOK = {"record": 100, "groups": 200, "verifying": 500}


def outcome(name: str, *verdicts: Verdict | None, hindrance: str = "") -> GroupOutcome:
    lines = [
        GroupLine(group=name, standing=Standing.LEVEL, partition=TopicPartition("orders", number), committed=number)
        for number, _ in enumerate(verdicts)
    ]
    offsets = [
        Offset(line=line, finding=verdict and Finding(verdict, "why", 1, 2), hindrance=hindrance, repeats=1)
        for line, verdict in zip(lines, verdicts, strict=True)
    ]
    return GroupOutcome(group=name, offsets=tuple(offsets))


def printed(look: Look) -> str:
    console = Console(file=io.StringIO(), width=120)
    show(look, console)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


@pytest.mark.parametrize(
    ("look", "line"),
    [
        (
            replace(WELL, took_ms=TOOK),
            (
                "a failover now would work: no record would be missing; 0 groups, 0 offsets: 0 verified; "
                "800 ms to read the record, translate and verify"
            ),
        ),
        (
            replace(
                WELL,
                took_ms=TOOK,
                point=WAITING,
                groups=(outcome("a", Verdict.VERIFIED, Verdict.GONE), outcome("b", Verdict.VERIFIED, Verdict.INEXACT)),
            ),
            (
                "a failover now would work: 7 records of up to 900 ms would be missing; 2 groups, 4 offsets: 2 "
                "verified, 1 at records that are gone, 1 that MirrorMaker 2 copied; 800 ms to read the record, "
                "translate and verify"
            ),
        ),
        (
            replace(
                WELL,
                point=replace(WAITING, time_ms=None),
                groups=(outcome("a", Verdict.WRONG, Verdict.LATE, Verdict.UNREADABLE, None, hindrance="no"),),
            ),
            (
                "a failover now would NOT go well (4 reasons): 7 records would be missing; 1 group, 4 offsets: 0 "
                "verified, 1 WRONG, 1 that could not be read, 1 not verified in time, 1 without a translation; "
                "0 ms to read the record, translate and verify"
            ),
        ),
        (
            Look(flow=FLOW, state=NEVER_STARTED),
            (
                "a failover now would NOT go well (1 reason): what would be missing is not known; 0 groups, 0 offsets: "
                "0 verified; 0 ms to read the record, translate and verify"
            ),
        ),
    ],
)
def test_the_answer_is_one_line(look, line):
    assert verdict_line(look) == line


def test_the_screen_has_the_answer_what_would_go_wrong_and_the_figures():
    calm, busy = outcome("calm", Verdict.VERIFIED), outcome("busy", Verdict.VERIFIED, Verdict.GONE)
    look = replace(WELL, point=WAITING, groups=(calm, busy, outcome("bad", Verdict.WRONG)))
    lines = printed(look).splitlines()
    assert lines[0].startswith("A->B: a failover now would NOT go well (1 reason): 7 records of up to 900 ms")
    assert "  ! group bad: orders-0: its translation is WRONG (why)" in lines
    assert "  the flow is running; A as admin: id-a, 4.3 or newer; B as admin: id-b, 4.3 or newer" in lines
    rows = [line.split() for line in lines]
    assert ["orders-0", "3", "7", "-"] in rows
    assert rows[-4:-1] == [
        ["bad", "1", "0", "0", "1", "1", "0", "0"],
        ["busy", "2", "1", "1", "0", "2", "0", "0"],
        ["calm", "1", "1", "0", "0", "1", "0", "0"],
    ]


def test_what_does_not_fit_is_counted():
    many = tuple(outcome(f"g{number:02}", Verdict.WRONG) for number in range(GROUPS_SHOWN + 3))
    behind = tuple(Behind(partition=TopicPartition("t", number), position=0, records=1) for number in range(9))
    text = printed(replace(WELL, groups=many, point=RecoveryPoint(records=9, partitions=behind)))
    assert f"! and {GROUPS_SHOWN + 3 + 1 - PROBLEMS_SHOWN} more (--json names them)" in text
    assert "and 3 more groups (--json names them)" in text
    assert "and 4 more that are behind (--json)" in text


def test_scripts_get_every_figure():
    wrong = outcome("bad", Verdict.WRONG, None, hindrance="it waits")
    well = replace(WELL, absent=("A.bills",), leaderless=(HERE,), known=known(progress(error="too large")))
    told = json.loads(json.dumps(as_dict(replace(well, took_ms=TOOK, point=WAITING, groups=(wrong,)))))
    assert (told["flow"], told["works"], told["state"], told["recovery_ms"]) == ("A->B", False, "running", 800)
    assert told["recorded_ids"] == {"source": "id-a", "target": "id-b"}
    assert told["missing"]["partitions"] == [
        {"topic": "orders", "partition": 0, "position": 3, "records": 7, "ms": None}
    ]
    assert (told["missing"]["records"], told["missing"]["ms"], told["late"]) == (7, 900, False)
    assert (told["offsets"]["all"], told["offsets"]["wrong"], told["offsets"]["verified"]) == (2, 1, 0)
    assert (told["standing_still"], told["absent_copies"]) == ({"orders-0": "too large"}, ["A.bills"])
    assert told["without_leader"] == ["orders-0"]
    (group,) = told["groups"]
    assert (group["group"], group["repeats"], len(group["problems"])) == ("bad", 2, 2)
    first, second = group["partitions"]
    assert (first["verdict"], first["detail"], first["compared"]) == (
        "wrong",
        "why",
        {"source": 1, "target": 2, "before": False},
    )
    assert (first["topic"], first["partition"], first["committed"], first["translated"]) == (HERE.topic, 0, 0, None)
    assert (second["verdict"], second["compared"], second["hindrance"]) == (None, None, "it waits")
