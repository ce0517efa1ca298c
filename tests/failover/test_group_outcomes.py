"""What a failover means for a group: each reason, and how much it would read again or miss."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest

from sparkmirror.config import DeadLetters, FlowConfig, GroupSettings, Tolerance
from sparkmirror.duties.groups import Observed, Standing
from sparkmirror.failover.group_outcomes import (
    SEEN_BEFORE,
    GroupOutcome,
    moves_yet,
    names_of,
    outcomes,
    questions,
    unlisted,
)
from sparkmirror.failover.verifying import Finding, Question, Verdict
from sparkmirror.kafka.groups import Committed, GroupKind, GroupListing
from sparkmirror.model import NO_OFFSET, TopicPartition
from sparkmirror.offsets.left_offsets import Left
from sparkmirror.offsets.translation import Place
from tests.duties.groups import FLOW, HERE, READERS, THERE, at, with_target
from tests.offsets.segments import offset_map

SYNCED = replace(FLOW, groups=GroupSettings(sync_enabled=True))
NAMES = ("readers",)
RANGES = {HERE: (0, 200)}
HOLES = offset_map([(100, 10, 5), (110, 20, 5)], 115)
"""Others wrote at 15 to 19; source 105 to 109 were never copied."""


def synced(observed: Observed) -> Observed:
    return replace(observed, flow=SYNCED)


def outcome(
    observed: Observed, finding: Finding | None = None, ranges: Mapping[TopicPartition, tuple[int, int]] = RANGES
) -> GroupOutcome:
    asked = questions(observed, NAMES).values()
    (found,) = outcomes(observed, NAMES, dict.fromkeys(asked, finding) if finding else {}, ranges)
    return found


@pytest.mark.parametrize(
    ("observed", "problems"),
    [
        pytest.param(synced(with_target(30)), (), id="level"),
        pytest.param(synced(with_target(25)), (), id="it would read some again"),
        pytest.param(
            replace(synced(with_target(30)), lost=frozenset({("readers", HERE)})),
            (f"orders-0: {SEEN_BEFORE}",),
            id="lost",
        ),
        pytest.param(READERS, (), id="not committed on the target, and not to be"),
        pytest.param(synced(READERS), ("orders-0: would not go on: nothing is committed for it on the target yet",)),
        pytest.param(synced(with_target(32)), ("orders-0: would skip 2 records",), id="further there"),
        pytest.param(with_target(32), (), id="further there, where the flow commits nothing"),
        pytest.param(synced(with_target(12, "Stable")), (), id="active there"),
        pytest.param(at(160), ("orders-0: would not go on: the group is ahead of the mirror, by 10",)),
        pytest.param(
            replace(
                synced(READERS), unreadable_there={"readers": "no"}, target={"readers": GroupListing(name="readers")}
            ),
            ("orders-0: would not go on: its offsets on the target cannot be read (no)",),
        ),
        pytest.param(
            replace(READERS, unreadable_there={"readers": "no"}), (), id="unreadable where it does not matter"
        ),
        pytest.param(replace(READERS, renamed={}), (), id="a topic that is not copied"),
        pytest.param(
            replace(READERS, offsets={}, unreadable={"readers": "no"}),
            ("would not go on: its offsets cannot be read (no)",),
        ),
        pytest.param(
            replace(READERS, source={"readers": GroupListing(name="readers", kind=GroupKind.SHARE)}),
            (f"would not go on: {Standing.SHARE.value}",),
        ),
        pytest.param(replace(READERS, source={"readers": GroupListing(name="readers", protocol="connect")}), ()),
        pytest.param(replace(READERS, offsets={"readers": {}}), (), id="nothing committed"),
        pytest.param(replace(READERS, source={}), (f"would not go on: {Standing.UNKNOWN.value}",)),
        pytest.param(
            replace(READERS, flow=replace(FLOW, groups=GroupSettings(include=("others",)))),
            (f"would not go on: {Standing.FILTERED.value}",),
        ),
    ],
)
def test_each_reason_is_told_and_what_is_in_order_is_none(observed, problems):
    assert outcome(observed).problems == tuple(f"group readers: {each}" for each in problems)


@pytest.mark.parametrize(
    ("ranges", "hindered"),
    [({HERE: (0, 200)}, True), ({HERE: (0, 120)}, False), ({HERE: (120, 120)}, False), ({}, True)],
)
def test_nothing_mirrored_is_a_matter_only_where_something_is_to_be_read(ranges, hindered):
    found = outcome(replace(READERS, maps={}), ranges=ranges)
    assert bool(found.problems) is hindered


@pytest.mark.parametrize(
    ("committed", "there", "repeats", "skips"),
    [
        (112, 22, 0, 0),
        (112, 20, 2, 0),
        (112, 17, 2, 0),
        (112, 12, 5, 0),
        (102, 22, 0, 5),
        (102, 25, 0, 8),
        (102, 99, 0, 8),
        (115, 24, 1, 0),
    ],
)
def test_records_of_the_mirror_are_counted_and_not_what_others_wrote(committed, there, repeats, skips):
    observed = replace(synced(at(committed, with_target(there))), maps={HERE: HOLES})
    found = outcome(observed)
    assert (found.repeats, found.skips) == (repeats, skips)


def test_what_was_never_copied_would_be_missed_unless_it_is_left_out_on_purpose():
    observed = replace(at(105), maps={HERE: HOLES})
    finding = Finding(Verdict.VERIFIED, source=110, target=20, left_out=106)
    assert outcome(observed, finding).problems == ("group readers: orders-0: would skip 4 records",)
    letters = DeadLetters(tolerance=Tolerance.ALL, topic="letters")
    assert outcome(replace(observed, flow=replace(FLOW, dead_letters=letters)), finding).problems == ()


@pytest.mark.parametrize(
    ("verdict", "told"),
    [
        (Verdict.VERIFIED, ""),
        (Verdict.GONE, ""),
        (Verdict.INEXACT, ""),
        (Verdict.LATE, ""),
        (Verdict.WRONG, "its translation is WRONG (why)"),
        (Verdict.UNREADABLE, "its translation could not be read (why)"),
    ],
)
def test_what_the_records_say_is_told_and_counted(verdict, told):
    found = outcome(READERS, Finding(verdict, "why"))
    assert found.problems == ((f"group readers: orders-0: {told}",) if told else ())
    assert found.verdicts == {verdict: 1}
    assert found.copied == 1


def test_one_reason_in_many_partitions_is_one_line():
    others = {TopicPartition("orders", number): Committed(160) for number in range(3)}
    maps = dict.fromkeys(others, READERS.maps[HERE])
    found = outcome(replace(READERS, offsets={"readers": others}, maps=maps))
    assert found.problems == (
        "group readers: orders-0 and 2 more: would not go on: the group is ahead of the mirror, by 10",
    )
    assert found.ahead == 30


def test_the_question_names_the_places_of_both_sides():
    asked = questions(READERS, NAMES)
    assert asked == {("readers", HERE): Question(HERE, THERE, 120, 30, Place.RECORD)}
    assert questions(READERS, ("others",)) == {}
    empty = replace(READERS, maps={HERE: offset_map([], 120)}, empty={HERE: 0})
    assert questions(empty, NAMES) == {}, "where nothing was mirrored there is no record to compare"


def test_those_are_rehearsed_that_the_flow_chooses_or_that_are_asked_for():
    listed = {name: GroupListing(name=name) for name in ("b", "a", "console-consumer-1")}
    assert names_of(replace(READERS, source=listed), ()) == ("a", "b")
    assert names_of(replace(READERS, source=listed), ("console-consumer-1", "z")) == ("console-consumer-1", "z")


@pytest.mark.parametrize(
    ("observed", "moves"),
    [(READERS, False), (at(160), True), (with_target(40), False), (synced(with_target(40)), True)],
)
def test_another_look_is_worth_it_only_where_the_mirror_may_come_to_the_group(observed, moves):
    assert moves_yet(observed, NAMES) is moves


def test_what_the_copy_has_lost_to_retention_is_counted_once():
    observed = replace(synced(with_target(40)), log_starts={THERE: 40})
    assert questions(observed, NAMES) == questions(READERS, NAMES), "by the maps"
    assert outcome(observed, Finding(Verdict.GONE, skipped=10)).skips == 10
    (found,) = outcome(observed, Finding(Verdict.GONE, skipped=10)).offsets
    assert found.line.translated == 30, "as it was verified"


@pytest.mark.parametrize(("there", "skips"), [(25, 3), (28, 0), (NO_OFFSET, 0)])
def test_a_group_that_an_operation_has_taken_to_the_target_skips_what_is_gone_where_it_stands_there(there, skips):
    """What it has left behind on the source leads it nowhere."""
    left = Left(offsets={"readers": {HERE: 120}})
    seen = replace(synced(READERS if there == NO_OFFSET else with_target(there)), left=left, log_starts={THERE: 28})
    assert outcome(seen, Finding(Verdict.VERIFIED)).skips == skips


def test_what_the_copy_has_lost_to_retention_nobody_reads_again():
    observed = replace(synced(with_target(25)), log_starts={THERE: 28})
    assert outcome(observed).repeats == 2
    assert outcome(replace(observed, log_starts={THERE: 40})).repeats == 0


@pytest.mark.parametrize("flow", [FLOW, replace(FLOW, provenance_header=True)])
def test_what_an_order_left_out_would_be_missed_whatever_a_flow_leaves_out_on_purpose(flow: FlowConfig):
    ordered = offset_map([(100, 10, 5), (110, 20, 5)], 115, [(105, 110)])
    observed = replace(at(106), maps={HERE: ordered}, flow=flow)
    finding = Finding(Verdict.VERIFIED, source=110, target=20, left_out=106)
    assert outcome(observed, finding).problems == ("group readers: orders-0: would skip 4 records",)
    assert outcome(observed).skips == 4


def test_groups_that_no_broker_lists_are_not_left_out_of_a_rehearsal_without_a_word():
    hidden = replace(READERS, leaderless=(0, 2))
    (said,) = unlisted(hidden, ())
    assert "__consumer_offsets has no leader for partitions 0, 2: groups there are not listed" in said
    assert unlisted(hidden, ("away",)) == (said,)
    assert unlisted(hidden, NAMES) == unlisted(READERS, ()) == ()
