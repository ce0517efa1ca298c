"""``sparkmirror status``: rows as they come from the reader, as tables and as JSON."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import datetime
from io import StringIO

from rich.console import Console
from rich.table import Table

from sparkmirror.cli.figures import MISSING
from sparkmirror.cli.status import (
    as_text,
    event_lines,
    flow_table,
    group_table,
    limit_lines,
    loop_lines,
    partition_table,
    target_line,
)
from sparkmirror.failover.group_status import GroupStatus
from sparkmirror.flow.view import EventStatus, FlowStatus, PartitionStatus
from sparkmirror.naming import Lineage


def partition(number: int, *, lag: int | None = 0, event: str = "") -> PartitionStatus:
    return PartitionStatus(
        topic="orders",
        partition=number,
        target_topic="A.orders",
        position=1_000,
        target_offset=990,
        source_end=None if lag is None else 1_000 + lag,
        lag_records=lag,
        lag_ms=None if lag is None else lag * 10,
        records_per_s=5_000.0,
        bytes_per_s=2_500_000.0,
        updated_ms=1_700_000_000_000,
        event=event,
    )


def flow(*partitions: PartitionStatus) -> FlowStatus:
    return FlowStatus(
        name="A->B",
        state="running",
        records_per_s=10_000.0,
        bytes_per_s=5_000_000.0,
        lag_records=None,
        lag_ms=40,
        rpo_ms=2_500,
        rpo_records=1_234,
        rpo_partition="orders-1",
        updated_ms=1_700_000_000_000,
        partitions=partitions,
        events=(EventStatus(kind="source-retention", text="gap", topic="orders", partition=1, time_ms=0),),
    )


def lines(table: Table) -> list[str]:
    console = Console(file=StringIO(), width=160, color_system=None)
    console.print(table)
    assert isinstance(console.file, StringIO)
    return [line.rstrip() for line in console.file.getvalue().splitlines()]


def numbers_shown(table: Table) -> list[int]:
    return [int(line.split()[0].removeprefix("orders-")) for line in lines(table) if line.startswith("orders-")]


def test_a_flow_is_one_row_with_its_age():
    header, row = lines(flow_table([flow(partition(0), partition(1))], now_ms=1_700_000_001_500))
    assert header.split()[:2] == ["flow", "state"]
    assert row.split() == "A->B running 10,000/s 5.0 MB/s - 40 ms 2.5 s 1,234 2 1 1.5 s ago".split()


def test_a_flow_that_never_ran_shows_dashes():
    never = FlowStatus(name="A->B", state="never started")
    assert lines(flow_table([never], now_ms=0))[1].split() == "A->B never started - - - - - - 0 0 -".split()


def test_a_clock_that_is_ahead_does_not_make_an_age_negative():
    assert lines(flow_table([flow()], now_ms=1_600_000_000_000))[1].endswith("0 ms ago")


def test_a_partition_is_one_row_and_its_event_another():
    title, _, row, event = lines(partition_table(flow(partition(3, lag=5, event="stopped at offset 7"))))
    assert title == "A->B"
    assert row.split() == "orders-3 A.orders 1,000 1,005 5 50 ms 5,000/s 2.5 MB/s".split()
    assert event.strip() == "stopped at offset 7"


def test_a_limited_table_shows_what_needs_looking_at_in_the_usual_order():
    rows = [partition(n, lag=n) for n in range(6)]
    rows[1] = partition(1, lag=0, event="stopped")
    rows[2] = partition(2, lag=None)
    table = partition_table(flow(*rows), limit=3)
    assert numbers_shown(table) == [1, 2, 5]
    assert lines(table)[-1] == "and 3 more that are no further behind (--all shows them)"


def test_a_table_without_a_limit_shows_every_partition():
    assert numbers_shown(partition_table(flow(*map(partition, range(80))))) == list(range(80))


def test_json_holds_every_field_under_its_name():
    told = json.loads(as_text([flow(partition(3, lag=5))]))
    (one,) = told["flows"]
    assert one["name"] == "A->B"
    assert one["lag_records"] is None
    assert [one[f"rpo_{name}"] for name in ("ms", "records", "partition", "limit_ms", "passed")] == [
        2_500,
        1_234,
        "orders-1",
        None,
        None,
    ]
    assert one["events"] == [
        {
            "kind": "source-retention",
            "text": "gap",
            "topic": "orders",
            "partition": 1,
            "first": None,
            "last": None,
            "time_ms": 0,
        }
    ]
    assert one["partitions"][0] == {
        "topic": "orders",
        "partition": 3,
        "target_topic": "A.orders",
        "position": 1000,
        "target_offset": 990,
        "source_end": 1005,
        "lag_records": 5,
        "lag_ms": 50,
        "records_per_s": 5000.0,
        "bytes_per_s": 2500000.0,
        "updated_ms": 1700000000000,
        "dead_letters": None,
        "loop_filtered": None,
        "event": "",
    }


def test_what_was_left_out_is_a_line_of_the_flow():
    assert loop_lines(replace(flow(), loop_filtered=2_000)) == [
        "A->B: 2000 records left out, as copies of the target's own"
    ]
    assert loop_lines(replace(flow(), loop_filtered=0)) == loop_lines(flow()) == []


def test_an_event_is_a_line_with_its_time_and_kind_and_many_of_one_topic_are_one_line():
    gap = EventStatus(kind="source-retention", text="gap", topic="orders", partition=1, time_ms=0)
    few = replace(flow(), events=(gap, EventStatus(kind="note", text="a lane was lost")))
    moment = datetime.fromtimestamp(0).astimezone()
    assert event_lines(few) == [
        f"A->B: {moment:%Y-%m-%d %H:%M:%S} [source-retention] orders-1: gap",
        "A->B: a lane was lost",
    ]
    many = replace(flow(), events=tuple(replace(gap, partition=number) for number in range(5)))
    (line,) = event_lines(many)
    assert line.endswith("orders-4: gap (and 4 more of this kind in orders: --json shows them)")


def test_an_event_of_the_whole_flow_has_a_kind_and_no_place():
    passed = EventStatus(kind="rpo-passed", text="the recovery point is old", time_ms=0)
    (line,) = event_lines(replace(flow(), events=(passed,)))
    assert line.endswith(" [rpo-passed] the recovery point is old")


def test_a_limit_is_a_line_that_says_whether_it_is_passed():
    assert limit_lines(flow()) == []
    limited = replace(flow(), rpo_limit_ms=60_000, rpo_passed=False)
    assert limit_lines(limited) == ["A->B: recovery point 2.5 s old, limit 1 min 0 s: kept"]
    assert limit_lines(replace(limited, rpo_ms=125_000, rpo_passed=True)) == [
        "A->B: recovery point 2 min 5 s old, limit 1 min 0 s: passed (orders-1 is furthest behind)"
    ]
    assert limit_lines(replace(limited, rpo_ms=None)) == ["A->B: recovery point of unknown age, limit 1 min 0 s: kept"]


def test_where_the_targets_topics_come_from_is_one_line_and_all_of_it_in_json():
    there = Lineage(
        upstream={"A": 1, "X": 2},
        remote={"A.orders": "A", "A.heartbeats": "A"},
        checkpoints=("A.checkpoints.internal",),
        heartbeats=("A.X.heartbeats", "A.heartbeats"),
    )
    assert target_line(replace(flow(), target=there)) == (
        "A->B: on B: upstream A (1 hop), X (2 hops); 2 remote topics, 1 checkpoint topic, 2 heartbeat topics "
        "(--json names them)"
    )
    assert target_line(flow()) == ""
    assert "upstream none; 0 remote topics" in target_line(replace(flow(), target=Lineage()))
    (shown,) = json.loads(as_text([replace(flow(), target=there)]))["flows"]
    assert shown["target"] == {
        "upstream": {"A": 1, "X": 2},
        "remote": {"A.orders": "A", "A.heartbeats": "A"},
        "checkpoints": ["A.checkpoints.internal"],
        "heartbeats": ["A.X.heartbeats", "A.heartbeats"],
    }


def test_groups_are_shown_with_what_they_would_read_again_and_are_in_the_json() -> None:
    billing = GroupStatus(
        group="billing", seen_ms=6_000, partitions=12, repeats=None, ahead=3, further=0, skipped=0, left_out=0
    )
    groups = (billing, replace(billing, group="search", repeats=41, hindrance="why"))
    console = Console(width=120, record=True, file=StringIO())
    console.print(group_table("a->b", groups, now_ms=10_000))
    first, second = console.export_text().splitlines()[-2:]
    assert first.split() == ["search", "12", "41", "3", "0", "0", "0", "4.0", "s", "ago", "why"]
    assert second.split() == ["billing", "12", MISSING, "3", "0", "0", "0", "4.0", "s", "ago"]
    (flow,) = json.loads(as_text([FlowStatus(name="a->b", state="running")], {"a->b": groups}))["flows"]
    assert [each["repeats"] for each in flow["groups"]] == [None, 41]
    assert "groups" not in json.loads(as_text([FlowStatus(name="a->b", state="running")]))["flows"][0]


def test_names_and_reasons_of_groups_are_shown_as_they_are_and_do_nothing() -> None:
    hostile = GroupStatus(
        group="\x1b[31m[/x]",
        seen_ms=6_000,
        partitions=1,
        repeats=None,
        ahead=0,
        further=0,
        skipped=0,
        left_out=0,
        hindrance="[/x] cannot be read\nsparkmirror: done",
    )
    console = Console(width=160, file=StringIO())
    console.print(group_table("a->b", [hostile], now_ms=10_000))
    shown = console.file.getvalue()  # type: ignore[attr-defined]  # it is the StringIO above
    assert r"\x1b[31m[/x]" in shown
    assert r"[/x] cannot be read\nsparkmirror: done" in shown
