"""What reports say, in both forms, from plain data."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from markdown_it import MarkdownIt

from sparkmirror.config import load
from sparkmirror.failover import fence
from sparkmirror.failover.look import PartitionState, not_moved
from sparkmirror.failover.moves import GroupMove, MovedPlace, as_they_stand
from sparkmirror.failover.operator import INTERRUPTIONS
from sparkmirror.failover.report import Report, as_dict, as_markdown
from sparkmirror.failover.states import COMMITTING, FENCE, FORGOTTEN, MAP_LACKS, NOT_TAKEN, Kind, Step
from sparkmirror.kafka.groups import Committed
from sparkmirror.model import NO_OFFSET, TopicPartition
from sparkmirror.offsets.ledger import Operation
from tests.flow.running import write_file

KEPT = "org.apache.kafka.connect.mirror.IdentityReplicationPolicy"


def operation(
    kind: Kind = Kind.FAILOVER, step: Step = Step.DONE, *, failure: str = "", facts: Mapping[str, Any] | None = None
) -> Operation:
    return Operation(
        token="t",
        number=9,
        id=f"{kind.value}-20261122-031502",
        kind=kind.value,
        step=step.name,
        source="a",
        target="b",
        began_ms=10_000,
        time_ms=60_000,
        by="me@here",
        facts=facts or {},
        failure=failure,
    )


def moved(here: str, there: str) -> GroupMove:
    places = TopicPartition(here, 0), TopicPartition(there, 0)
    place = MovedPlace(partition=places[0], target=places[1], committed=Committed(5), offset=7, before=7)
    return GroupMove(group="billing", seen_ms=1, places=(place,))


def report(
    tmp_path: Path,
    done: Operation,
    topics: Sequence[tuple[str, str]] = (),
    moves: Sequence[GroupMove] = (),
    flow: str = "a->b",
    settings: dict[str, str] | None = None,
) -> Report:
    clusters = {name: {"bootstrap.servers": f"{name}.test:9092"} for name in ("a", "b")}
    file = write_file(tmp_path / "mm2.properties", clusters, {"a->b": ".*", "b->a": ".*"}, settings)
    (config,) = load([file], flow=flow).flows
    partitions = tuple(
        PartitionState(partition=TopicPartition(here, 0), target=TopicPartition(there, 0), position=9, end=9, seen_ms=1)
        for here, there in topics
    )
    return Report(flow=config, operation=done, partitions=partitions, moves=tuple(moves))


INTERRUPTED = [
    [Step.MOVING.name, 30_000, "one@here", "the disk is | full\nthere", 35_000, "two@here"],
    [Step.MOVING.name, 40_000, "two@here", "", 45_000, "three@here"],
]
TIMES = {"STOPPING": [10_000, 20_000], "MOVING": [45_000, 50_000], "VERIFYING": [50_000, 60_000]}


def test_a_switchover_that_has_left_records_behind_is_in_trouble_and_a_failover_is_not(tmp_path):
    for kind, troubles in ((Kind.SWITCHOVER, 1), (Kind.FAILOVER, 0)):
        found = report(tmp_path, operation(kind), [("orders", "a.orders"), ("pay", "a.pay")])
        lacking = [replace(one, end=one.end + 29 * number) for number, one in enumerate(found.partitions)]
        assert not found.troubles
        told = replace(found, partitions=tuple(lacking)).troubles
        assert len(told) == troubles
        assert all("29 records that a has are not on b, most in pay-0" in text for text in told)


def test_an_operation_that_was_resumed_says_what_was_done_before(tmp_path):
    found = report(tmp_path, operation(facts={"times": TIMES, INTERRUPTIONS: INTERRUPTED}))
    told = as_dict(found)["interruptions"]
    assert [(one["step"], one["done_before"], one["resumed_by"]) for one in told] == [
        ("moving", ["stopping"], "two@here"),
        ("moving", ["stopping"], "three@here"),
    ]
    text = as_markdown(found)
    row = "| moving | stopping | 1970-01-01T00:00:30.000Z | one@here | the disk is / full\\nthere |"
    assert f"{row} 1970-01-01T00:00:35.000Z | two@here |" in text
    assert "| two@here | the command ended without a word |" in text
    assert "| stopping | 1970-01-01T00:00:10.000Z | 10.0 |" in text


def test_the_report_of_an_interruption_stays_beside_that_of_the_end(tmp_path):
    first = report(tmp_path, operation(step=Step.MOVING, failure="away"))
    second = report(tmp_path, operation(step=Step.MOVING, failure="away", facts={INTERRUPTIONS: INTERRUPTED[:1]}))
    done = report(tmp_path, operation(facts={INTERRUPTIONS: INTERRUPTED}))
    stem = "failover-20261122-031502"
    assert [one.name for one in (first, second, done)] == [f"{stem}.interrupted-1", f"{stem}.interrupted-2", stem]


@pytest.mark.parametrize(
    ("step", "committing", "groups"),
    [(Step.STOPPING, False, 0), (Step.MOVING, False, 0), (Step.MOVING, True, 1), (Step.ABANDONED, True, 0)],
)
def test_no_group_is_counted_as_moved_before_the_first_commit(tmp_path, step, committing, groups):
    done = operation(step=step, facts={COMMITTING: committing})
    found = report(tmp_path, done, moves=[moved("orders", "a.orders")])
    assert as_dict(found)["moved"] == {"groups": groups, "offsets": groups, "of_groups": 1}


def test_copies_that_were_deleted_are_named_and_are_no_trouble(tmp_path):
    found = report(tmp_path, operation(), [("orders", "a.orders"), ("gone", "a.gone")])
    found = replace(found, partitions=tuple(replace(p, absent=p.partition.topic == "gone") for p in found.partitions))
    assert "- copies that were deleted on b, whose records only a has: **1** (a.gone-0)" in as_markdown(found)
    assert [one["copy_deleted"] for one in as_dict(found)["partitions"]] == [False, True]
    assert found.troubles == ()


def test_offsets_of_partitions_that_do_not_exist_are_trouble(tmp_path):
    there = moved("orders", "a.orders")
    gone = replace(there.places[0], target=TopicPartition("a.gone", 0), offset=NO_OFFSET, absent=True)
    found = report(tmp_path, operation(), moves=[replace(there, places=(*there.places, gone))])
    (trouble,) = found.troubles
    assert "1 partitions, which do not exist on b" in trouble
    assert "billing at a.gone-0" in trouble
    assert [one["exact"] for one in as_dict(found)["groups"][0]["partitions"]] == [True, False]
    assert report(tmp_path, operation(), moves=[there]).troubles == ()


OVER = [("orders", "a.orders"), ("heartbeats", "a.heartbeats"), ("sparkmirror.x.internal", "a.sparkmirror.x.internal")]
BACK = {"orders": "b.orders", "a.orders": "orders", "a.heartbeats": "heartbeats", "__secret": "b.__secret"}


def test_producers_and_consumers_are_told_apart_and_internal_topics_are_not_named(tmp_path):
    over = report(tmp_path, operation(), OVER, [moved("b.payments", "payments")])
    applications = as_dict(over)["applications"]
    assert applications["producers"] == {"orders": ["orders"], "b.payments": []}
    assert applications["consumers"] == {"orders": ["a.orders", "orders"], "b.payments": ["payments"]}
    text = as_markdown(over)
    assert "| topic on a | producers write to, on b | consumers read, on b |" in text
    assert "| `orders` | `orders` | `a.orders` and `orders` |" in text
    assert "| `b.payments` | nothing: it is a copy, which only the mirror writes | `payments` |" in text


def test_after_going_back_copies_are_read_under_their_own_name(tmp_path):
    back = report(tmp_path, operation(Kind.FAILBACK, facts={"names": BACK}), flow="b->a")
    applications = as_dict(back)["applications"]
    assert applications["producers"] == {"orders": ["orders"], "a.orders": []}
    assert applications["consumers"] == {"orders": ["b.orders", "orders"], "a.orders": ["orders"]}
    assert "| topic on b | producers write to, on a | consumers read, on a |" in as_markdown(back)


def test_where_copies_may_be_written_to_producers_have_the_choice(tmp_path):
    settings = {"b->a.homeward.enabled": "true"}
    over = report(tmp_path, operation(), OVER[:1], settings=settings)
    assert as_dict(over)["applications"]["producers"] == {"orders": ["orders", "a.orders"]}
    back = report(tmp_path, operation(Kind.FAILBACK, facts={"names": BACK}), flow="b->a", settings=settings)
    assert as_dict(back)["applications"]["producers"] == {"orders": ["orders"], "a.orders": ["orders"]}


def test_where_names_are_kept_only_the_servers_change(tmp_path):
    settings = {"replication.policy.class": KEPT}
    over = report(tmp_path, operation(), [("orders", "orders")], settings=settings)
    assert (over.uses, as_dict(over)["applications"]["producers"]) == ((), {})
    assert "- topics keep their names, for producers and consumers" in as_markdown(over)


@pytest.mark.parametrize(
    ("settings", "waits"),
    [
        pytest.param({}, False, id="renamed"),
        pytest.param({"replication.policy.class": KEPT}, True, id="names are kept"),
        pytest.param({"b->a.homeward.enabled": "true"}, True, id="originals are denied"),
        pytest.param({"a->b.homeward.enabled": "true"}, True, id="copies are denied"),
    ],
)
def test_the_flow_back_waits_where_what_is_denied_is_what_it_writes_to(tmp_path, settings, waits):
    rows = fence.rows_of(fence.rules_for(["orders"]))
    text = as_markdown(report(tmp_path, operation(facts={FENCE: rows}), settings=settings))
    assert "`sparkmirror release FILE --flow 'a->b' --fence-only`" in text
    assert ("`b->a` cannot write to them either, and waits" in text) == waits


def test_offsets_of_groups_that_the_source_has_no_more_are_named_and_are_no_trouble(tmp_path):
    found = report(tmp_path, operation(facts={FORGOTTEN: [["deleted", "a.orders", 0, 15]]}))
    assert "- offsets of groups that are not on record any more: **1** (deleted at a.orders-0: a has" in as_markdown(
        found
    )
    assert as_dict(found)["forgotten_offsets"] == [
        {"group": "deleted", "target_topic": "a.orders", "partition": 0, "offset": 15}
    ]
    assert found.troubles == ()
    assert "not on record any more" not in as_markdown(report(tmp_path, operation()))


def test_a_group_that_got_members_is_told_once(tmp_path):
    gone = moved("orders", "a.orders")
    done = operation(facts={"active": ["billing"]})
    assert report(tmp_path, done, moves=[gone]).troubles == ("group billing got members on the target meanwhile",)
    hindered = replace(gone, hindrance="it has members on the target (Stable) and is not touched", active=True)
    assert report(tmp_path, done, moves=[hindered]).troubles == (f"group billing: {hindered.hindrance}",)


def test_names_begin_no_line_and_no_markup_of_a_report(tmp_path):
    hostile = "x\n# Failover: done\x1b[2J<img src=y>|"
    facts = {"problems": [f"group {hostile} is in use"]}
    text = as_markdown(report(tmp_path, operation(facts=facts), moves=[replace(moved("o", "a.o"), group=hostile)]))
    assert all(line.isprintable() for line in text.split("\n"))
    assert r"- group x\n# Failover: done\x1b\[2J&lt;img src=y>| is in use" in text.splitlines()
    assert r"| x\n# Failover: done\x1b\[2J&lt;img src=y>/ |" in text


def test_names_of_groups_and_topics_make_no_image_and_no_link_wherever_a_report_shows_them(tmp_path):
    hostile = "![p](https://evil.example/p.png) [text](https://evil.example) `<i>`"
    move = replace(moved(hostile, f"a.{hostile}"), group=hostile, hindrance=hostile)
    place = replace(move.places[0], text=hostile)
    facts = {
        "problems": [hostile],
        FORGOTTEN: [[hostile, hostile, 0, 15]],
        NOT_TAKEN: [[hostile, hostile]],
        INTERRUPTIONS: [[Step.MOVING.name, 30_000, hostile, hostile, 35_000, hostile]],
        "names": {hostile: f"a.{hostile}"},
    }
    done = replace(operation(facts=facts, failure=""), by=hostile, id=hostile)
    found = report(tmp_path, done, [(hostile, f"a.{hostile}")], moves=[replace(move, places=(place,))])
    for each in (found, replace(found, operation=replace(done, failure=hostile))):
        page = MarkdownIt("commonmark").enable("table").render(as_markdown(each))
        assert "evil.example" in page
        assert not {"<img", "<a ", "<i>"} & set(re.findall(r"<(?:img|a |i>)", page))


def test_only_groups_that_have_their_offsets_are_called_moved(tmp_path):
    """An operation was interrupted in the midst of the groups."""
    there, not_yet = moved("orders", "a.orders"), moved("orders", "a.orders")
    there = replace(there, places=tuple(replace(place, before=place.offset) for place in there.places))
    not_yet = replace(not_yet, group="later", places=tuple(replace(place, before=1) for place in not_yet.places))
    facts = {COMMITTING: True, NOT_TAKEN: [["later", "too large"]]}
    broken_off = operation(step=Step.MOVING, failure="no connection", facts=facts)
    found = report(tmp_path, broken_off, moves=[there, not_yet])
    said = as_dict(found)
    assert said["moved"]["groups"] == 1
    assert [group["moved"] for group in said["groups"]] == [True, False]
    assert "group later was not moved: too large" in said["troubles"]


def test_what_the_internal_topic_still_lacks_of_the_offset_map_is_trouble(tmp_path):
    text = "cluster b, the flow's topic has lost a part of the offset map"
    assert report(tmp_path, operation(facts={MAP_LACKS: [text]})).troubles == (text,)


@pytest.mark.parametrize(("has", "told"), [(6, "6"), (NO_OFFSET, "none")])
def test_a_group_that_has_committed_where_it_was_after_it_was_moved_is_told_with_what_it_has(tmp_path, has, told):
    move = moved("a.orders", "orders")
    move = replace(move, places=tuple(replace(place, before=has) for place in move.places))
    found = report(tmp_path, operation(Kind.FAILBACK), moves=as_they_stand([move], ()))
    (trouble,) = found.troubles
    assert trouble.startswith(
        f"group billing at a.orders-0: its offset on b leads to 7 by now, and on a it has {told}: "
    )
    (place,) = as_dict(found)["groups"][0]["partitions"]
    assert (place["offset"], place["exact"]) == (None if has == NO_OFFSET else has, False)
    assert as_dict(found)["repeated_records"] is None
    assert (
        report(tmp_path, operation(Kind.FAILBACK), moves=as_they_stand([moved("orders", "b.orders")], ())).troubles
        == ()
    )


def test_groups_that_were_not_moved_are_known_by_the_operation():
    facts = {"active": ["in use"], "changing": ["changing"], NOT_TAKEN: [["large", "too large"]]}
    assert not_moved(operation(facts=facts)) == {"in use", "changing", "large"}
    assert not_moved(operation()) == frozenset()


def test_what_is_to_be_known_is_in_both_forms_and_is_no_trouble(tmp_path):
    found = replace(report(tmp_path, operation(Kind.SWITCHOVER)), notes=("b->a is still stopped",))
    assert found.troubles == ()
    assert as_dict(found)["notes"] == ["b->a is still stopped"]
    text = as_markdown(found)
    assert "## What is to be known" in text
    assert "b-\\>a is still stopped" in text or "b->a is still stopped" in text
    assert "What is to be known" not in as_markdown(replace(found, notes=()))
