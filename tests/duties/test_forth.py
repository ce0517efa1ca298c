"""What may go home of copies: each doubt by itself, and where partitions begin."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sparkmirror.duties.forth import AT_END, SETTLED_SECONDS, Pair, Verdict, judge
from sparkmirror.duties.missing_topics import Observed, decide, not_home
from sparkmirror.duties.topics import homeward, is_homeward, places, read, remote_topic, wanted
from sparkmirror.flow.homecoming import Before, adjusted, obstacles
from sparkmirror.model import NO_OFFSET, TopicPartition, Writer
from sparkmirror.offsets.inherited import Elsewhere, Inherited
from sparkmirror.offsets.records import FlowRecord, Later, Life, Progress, Record
from sparkmirror.offsets.state import JournalState
from tests.duties.groups import FLOW
from tests.duties.test_topics import topic_of
from tests.offsets.segments import Segment, records_of

# FLOW, A->B, is the flow back: it reads on A the copies B.orders that the flow forth, B->A, has made there.
BACK = replace(FLOW, topics=("orders",), homeward=True)
PAIR = Pair(source_id="id-a", target_id="id-b", naming="DefaultReplicationPolicy .")
ORIGINAL, COPY = TopicPartition("orders", 0), TopicPartition("B.orders", 0)
SINCE_MS = 1_700_000_000_000
NOW_MS = SINCE_MS + int(SETTLED_SECONDS * 1000)
UNTOLD = Before(None, 2)
WRITER = Writer(producer_id=7, epoch=0)
RECORD = FlowRecord(
    source_alias="B",
    source_id="id-b",
    target_alias="A",
    target_id="id-a",
    naming=PAIR.naming,
    generation=1,
    tells_since_ms=SINCE_MS,
)


def progress(position: int, end: int, time_ms: int = NOW_MS) -> Progress:
    return Progress(
        partition=ORIGINAL,
        writer=WRITER,
        generation=1,
        position=position,
        next_sequence=NO_OFFSET,
        end=end,
        time_ms=time_ms,
    )


def segment(source: int, target: int) -> Segment:
    return Segment(partition=ORIGINAL, writer=WRITER, sequence=0, source=source, target=target)


COPIED: tuple[Record, ...] = (
    *records_of([segment(10, 4)]),
    replace(progress(20, 20), next_sequence=10, sequence=9, source=19, target=13),
)


def judged(*records: Record | Later, registered: tuple[int, ...] = (7,), seen_s: float = SETTLED_SECONDS) -> Verdict:
    state = JournalState()
    for record in records:
        state.take(record)
    return judge(BACK, PAIR, state, registered, [COPY], seen_s=seen_s)


@pytest.mark.parametrize(
    ("records", "doubt"),
    [
        ((), "there is no record of B->A on cluster A"),
        ((replace(RECORD, tells_since_ms=0), *COPIED), "B->A would copy it once more"),
        ((replace(RECORD, source_id="other"), *COPIED), "its record is about a flow from cluster other to id-a"),
        ((replace(RECORD, naming="DefaultReplicationPolicy -"), *COPIED), "its record is about a flow"),
        ((RECORD, *COPIED, Elsewhere(topic="mm2-offsets", time_ms=1)), "was handed over to MirrorMaker 2"),
        ((RECORD, *COPIED, Elsewhere(topic="x", time_ms=1, pending=True)), "was handed over to MirrorMaker 2"),
        ((RECORD, *COPIED, Later(key="new", version=2)), "holds records of a later release"),
    ],
)
def test_a_doubt_about_who_wrote_a_copy_keeps_all_of_it_where_it_is(records: tuple[Record, ...], doubt: str):
    verdict = judged(*records)
    assert doubt in verdict.doubt
    assert (verdict.begins, verdict.floors) == ({}, {})


def test_without_its_record_or_a_registration_nothing_goes_home():
    assert "no record of B->A" in judge(BACK, PAIR, None, (), [COPY], seen_s=SETTLED_SECONDS).doubt
    assert "producer id 7 is missing in sparkmirror.writers.internal" in judged(RECORD, *COPIED, registered=(8,)).doubt


def told(verdict: Verdict, *extra: TopicPartition, lasting: bool = False) -> str:
    return obstacles(BACK, [COPY], verdict, extra, lasting=lasting).get(COPY, "")


def test_whoever_waits_for_what_does_not_go_home_is_told_why_and_what_helps():
    away, none, early = judged(), judged(RECORD), judged(RECORD, *COPIED, seen_s=0.0)
    assert told(away).startswith("there is no record of B->A on cluster A")
    assert "start A->B with A->B.homeward.enabled = false if nobody is to wait for these records" in told(away)
    assert told(none) == "the record of B->A has nothing of B.orders-0 yet, so nothing tells who wrote it"
    assert told(early) == early.doubt != ""
    assert told(judged(RECORD, *COPIED)) == ""
    assert told(judged(RECORD, *COPIED), COPY) == told(away, COPY)
    assert told(away, COPY).startswith(
        "orders-0 does not exist on B: give orders as many partitions as B.orders has on"
    )


def test_a_plan_is_told_only_what_does_not_pass_by_itself():
    assert told(judged(), lasting=True) == told(judged())
    assert told(judged(RECORD, *COPIED), COPY, lasting=True)
    assert told(judged(RECORD), lasting=True) == told(judged(RECORD, *COPIED, seen_s=0.0), lasting=True) == ""


def test_lanes_that_do_not_tell_writers_yet_are_waited_for():
    early = judged(RECORD, *COPIED, seen_s=SETTLED_SECONDS - 1)
    assert ("has just begun to register producers" in early.doubt, early.passing, early.begins) == (True, True, {})
    assert judged(RECORD, *COPIED).doubt == ""
    assert not judged(replace(RECORD, tells_since_ms=0)).passing


@pytest.mark.parametrize(
    ("generation", "time_ms", "passing"), [(1, NOW_MS, False), (1, NOW_MS - 1, True), (0, NOW_MS + 60_000, True)]
)
def test_how_long_writers_are_told_goes_by_the_clock_that_says_since_when(generation: int, time_ms: int, passing: bool):
    life = Life(generation=generation, time_ms=time_ms, state="running", lanes=1)
    assert judged(RECORD, *COPIED, life, seen_s=0.0).passing == passing


@pytest.mark.parametrize(
    ("records", "begin"),
    [
        (COPIED, 4),
        ((progress(0, 0),), 0),
        ((progress(0, 9),), None),
        ((progress(5, 5),), AT_END),
        ((progress(0, NO_OFFSET),), None),
        ((segment(10, NO_OFFSET).segments, progress(10, 20)), None),
        ((), None),
    ],
    ids=[
        "at the first copy that is on record",
        "at the beginning of what never had a record",
        "not where records wait that another mirror may have copied before",
        "at the end where nothing that was copied is on record",
        "not before the end of the original is known",
        "not before the place of the first copy is known",
        "not where nothing is on record",
    ],
)
def test_a_partition_begins(records: tuple[Record, ...], begin: int | None):
    verdict = judged(RECORD, *records)
    assert verdict.doubt == ""
    assert verdict.begins == ({} if begin is None else {COPY: begin})
    assert verdict.since_ms == SINCE_MS


def test_what_mirror_maker_2_wrote_before_a_takeover_never_goes_home():
    inherited = Inherited(partition=ORIGINAL, spans=((0, 10),), end=9)
    assert judged(RECORD, inherited).begins == {COPY: 9}
    verdict = judged(RECORD, *COPIED, inherited)
    assert (verdict.begins, verdict.floors) == ({COPY: 9}, {COPY: 9})


def test_what_was_begun_before_the_record_of_forth_was_made_anew_begins_anew():
    verdict = judged(RECORD, *COPIED)
    now, then = progress(2, 9), progress(2, 9, time_ms=SINCE_MS - 1)
    assert adjusted(verdict, {COPY: now}, UNTOLD) == verdict
    assert adjusted(verdict, {COPY: then}, UNTOLD).floors == {COPY: 4}
    at_end = judged(RECORD, progress(5, 5))
    assert adjusted(at_end, {COPY: then}, UNTOLD).begins == {}, "nobody knows from where"


def test_whether_a_position_is_of_another_record_of_forth_is_told_by_starts_and_by_no_clock():
    verdict, here = judged(RECORD, *COPIED), progress(2, 9, time_ms=SINCE_MS - 3_600_000)

    def floors(record: FlowRecord) -> dict[TopicPartition, int]:
        return dict(adjusted(verdict, {COPY: here}, Before(record, here.generation + 2)).floors)

    told = replace(RECORD, home_since_ms=SINCE_MS, home_generation=here.generation)
    assert floors(told) == {}, "the clock of the lane is an hour behind"
    assert floors(replace(told, home_generation=0)) == {}
    assert floors(replace(told, home_generation=here.generation + 1)) == {COPY: 4}
    ahead = replace(here, time_ms=SINCE_MS + 3_600_000)
    another = Before(replace(told, home_since_ms=SINCE_MS - 1), here.generation + 1)
    assert adjusted(verdict, {COPY: ahead}, another).floors == {COPY: 4}, "the clock of the lane is an hour ahead"


def test_only_copies_of_the_targets_own_topics_are_homeward():
    names = ["orders", "B.orders", "A.orders", "C.orders", "C.B.orders", "B.A.orders", "B.heartbeats", "B.bills"]
    assert homeward(BACK, names) == ["B.orders"]
    assert homeward(replace(BACK, homeward=False), names) == []
    assert "B.orders" not in wanted(BACK, names)
    assert homeward(replace(BACK, topics=(r"B\.bills",)), names) == ["B.bills"], "by the copy's own name too"
    assert homeward(replace(BACK, topics_exclude=("B.*",)), names) == []
    assert homeward(replace(BACK, topics_exclude=("orders",)), names) == []
    assert remote_topic(BACK, "B.orders") == "orders"
    assert remote_topic(FLOW, "B.orders") == "A.B.orders"
    assert [is_homeward(BACK, name) for name in ("B.orders", "orders")] == [True, False]


def test_whoever_waits_counts_homeward_topics_that_were_begun_with():
    names = ["orders", "B.orders"]
    assert read(BACK, names, []) == ["orders"]
    assert read(BACK, names, [COPY]) == ["B.orders", "orders"]
    assert read(FLOW, ["other", "B.orders"], [COPY]) == ["other"]
    described = {name: topic_of(2) for name in names}
    ordinary = [TopicPartition("orders", 0), TopicPartition("orders", 1)]
    assert places(BACK, described, [COPY]) == [COPY, *ordinary], "one that was not begun would be waited for for ever"
    assert places(BACK, described, []) == ordinary


def test_originals_are_only_those_that_the_target_has_and_that_are_no_copies_themselves():
    names = ("B.orders", "B.bills", "B.C.stock")
    homewards = {name: topic_of(3) for name in names}
    there = {"orders": topic_of(2), "C.stock": topic_of(3), "sparkmirror.C.B.internal": topic_of(1)}
    seen = Observed(flow=replace(BACK, topics=(".*",)), homeward=homewards, target=there)
    assert seen.homeward_pairs == (
        (TopicPartition("B.orders", 0), TopicPartition("orders", 0)),
        (TopicPartition("B.orders", 1), TopicPartition("orders", 1)),
    )
    assert seen.without_original == (TopicPartition("B.orders", 2),)
    assert not_home(seen, "B.orders") == ""
    assert "its original, bills, is not on B" in not_home(seen, "B.bills")
    assert not_home(seen, "B.C.stock") == "its original, C.stock, is itself a copy, made by C->B"
    assert (seen.pairs, decide(seen)) == ((), ()), "nothing is made, or enlarged, for their sake"
