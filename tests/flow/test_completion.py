"""What is missing of a copy, as the flow's own record tells."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sparkmirror.flow.completion import Left, asking_ms, outstanding
from sparkmirror.model import TopicPartition, Writer
from sparkmirror.offsets.orders import TopicOrder
from sparkmirror.offsets.records import Progress
from sparkmirror.offsets.state import state_of

PLACES = [TopicPartition("t", number) for number in range(3)]


def progress(number: int, position: int) -> Progress:
    writer = Writer(producer_id=1, epoch=0)
    return Progress(
        partition=PLACES[number], writer=writer, generation=1, position=position, next_sequence=0, time_ms=1
    )


@pytest.mark.parametrize(("left_s", "asked"), [(3600.0, 60_000), (20.0, 20_000), (0.0, 10_000), (-3.0, 10_000)])
def test_a_source_that_does_not_answer_is_asked_no_longer_than_is_waited_for(left_s, asked):
    assert asking_ms(60_000, left_s) == asked
    assert asking_ms(5_000, left_s) == 5_000


@pytest.mark.parametrize(
    ("ranges", "records", "left"),
    [
        ([(0, 10)], [progress(0, 10)], Left(flow="f")),
        ([(0, 10)], [progress(0, 12)], Left(flow="f")),
        ([(0, 10)], [progress(0, 7)], Left(flow="f", records=3, partitions=1, worst="t-0")),
        ([(4, 10)], [], Left(flow="f", records=6, partitions=1, worst="t-0")),
        ([(10, 10)], [], Left(flow="f")),
        ([(0, 0)], [], Left(flow="f")),
        (
            [(0, 10), (0, 20), (0, 30)],
            [progress(0, 9), progress(1, 5), progress(2, 30)],
            Left(flow="f", records=16, partitions=2, worst="t-1"),
        ),
        (
            [(0, 10)],
            [progress(0, 7), TopicOrder(topic="t", time_ms=1, by="me")],
            Left(flow="f", records=3, partitions=1, worst="t-0", trouble="paused: t"),
        ),
        ([(0, 10)], [progress(0, 10), TopicOrder(topic="t", time_ms=1, by="me")], Left(flow="f")),
    ],
)
def test_what_is_missing_is_counted_from_the_log_start_or_the_position(ranges, records, left):
    asked = dict(zip(PLACES, ranges, strict=False))
    found = outstanding("f", asked, state_of(records))
    assert found == left
    assert found.complete is not bool(left.partitions)


def test_how_far_another_topic_of_the_name_was_copied_says_nothing():
    known = state_of([replace(progress(0, 10), topic_id="aa")])
    ranges = {PLACES[0]: (0, 4)}
    assert outstanding("f", ranges, known, {"t": "bb"}) == Left(flow="f", records=4, partitions=1, worst="t-0")
    assert outstanding("f", ranges, known, {"t": "aa"}).complete
    assert outstanding("f", ranges, known, {"t": ""}).complete, "before Kafka 2.8 nobody can tell"
    assert outstanding("f", ranges, state_of([progress(0, 10)]), {"t": "bb"}).complete, "nor where none is on record"


def test_a_partition_that_stands_still_is_not_complete_wherever_it_stands():
    found = outstanding("f", {PLACES[0]: (0, 4)}, state_of([replace(progress(0, 10), error="was made anew")]))
    assert found == Left(flow="f", partitions=1, worst="t-0", trouble="t-0 stands still: was made anew")
    assert not found.complete


def test_a_partition_whose_copy_is_gone_is_not_complete_whatever_the_record_says():
    """The flow finds that when it writes there again, and has no error on record until then."""
    gone = {PLACES[0]: "its copy a.t-0 does not exist", PLACES[1]: "the second", PLACES[2]: "of another command"}
    ranges, known = {PLACES[0]: (0, 4), PLACES[1]: (0, 4)}, state_of([progress(0, 4), progress(1, 4)])
    found = outstanding("f", ranges, known, {}, gone)
    assert found == Left(flow="f", partitions=2, worst="t-0", trouble="t-0: its copy a.t-0 does not exist")
    assert not found.complete


def test_why_nothing_of_a_partition_is_copied_is_told_of_the_first_one_that_lacks_records():
    held_up = {PLACES[0]: "level all the same", PLACES[1]: "no record of its maker", PLACES[2]: "the third"}
    ranges, known = dict.fromkeys(PLACES, (0, 4)), state_of([progress(0, 4), progress(1, 3), progress(2, 0)])
    found = outstanding("f", ranges, known, held_up=held_up)
    assert found == Left(flow="f", records=5, partitions=2, worst="t-2", trouble="t-1: no record of its maker")


def test_a_flow_that_was_never_started_is_not_complete_even_without_partitions():
    assert not outstanding("f", {}, None).complete
