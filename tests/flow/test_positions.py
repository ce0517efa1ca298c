"""Where a partition begins."""

from __future__ import annotations

from dataclasses import replace

from sparkmirror.copy.plan import group_of
from sparkmirror.events import Event, Kind
from sparkmirror.flow.positions import Known, Resumed, Start, TargetFacts, decide_start
from sparkmirror.model import NO_OFFSET, Copied, TopicPartition, Writer
from sparkmirror.offsets.records import Progress

SOURCE, TARGET = TopicPartition("orders", 3), TopicPartition("A.orders", 3)
WRITERS = tuple(Writer(producer_id=100 + group, epoch=group) for group in range(8))
PROGRESS = Progress(
    partition=SOURCE,
    writer=Writer(producer_id=1, epoch=0),
    generation=1,
    position=500,
    next_sequence=77,
    topic_id="aa",
    records=9,
)
TOLD = Event(kind=Kind.TARGET_TAIL_LOST, text="told")
KNOWN = Known(
    progress={},
    topic_ids={"orders": "aa"},
    starts={SOURCE: 20},
    oldest={SOURCE: 10},
    ends={},
    targets={"A.orders": TargetFacts(max_message_bytes=5_000, log_append_time=True, codec="gzip")},
    writers=WRITERS,
    copied={},
)


def start(**more: object) -> Start:
    return decide_start(SOURCE, TARGET, replace(KNOWN, **more))  # type: ignore[arg-type]  # the fields of Known


def test_a_new_partition_begins_where_the_configuration_says():
    assert (start().plan.position, start().event) == (20, None)


def test_a_known_partition_goes_on_from_its_progress():
    assert (start(progress={SOURCE: PROGRESS}).plan.position, start().event) == (500, None)


def test_progress_without_a_position_is_none():
    """A shift that never started has published that it knows nothing."""
    assert start(progress={SOURCE: replace(PROGRESS, position=NO_OFFSET)}).plan.position == 20


def test_a_topic_made_anew_begins_at_its_oldest_record_and_says_so():
    begun = start(progress={SOURCE: PROGRESS}, topic_ids={"orders": "bb"})
    assert begun.plan.position == 10
    assert begun.plan.topic_id == "bb"
    assert begun.event is not None
    assert (begun.event.kind, begun.event.first) == (Kind.SOURCE_RECREATED, 500)
    assert begun.event.text == (
        "the source topic was deleted and made anew since offset 500; going on from its oldest record, offset 10"
    )


def test_brokers_without_topic_ids_are_believed():
    assert start(progress={SOURCE: PROGRESS}, topic_ids={}).plan.position == 500
    assert start(progress={SOURCE: replace(PROGRESS, topic_id="")}).plan.position == 500


def test_sequences_begin_at_nought_in_the_epoch_of_the_partitions_group():
    plan = start(progress={SOURCE: PROGRESS}).plan
    assert plan.writer == WRITERS[group_of(SOURCE, 8)]
    assert (plan.sequence, plan.opened, plan.after) == (0, False, "")


def test_a_partition_that_was_handed_out_before_goes_on_where_that_ended():
    writer = Writer(producer_id=9, epoch=9)
    plan = start(progress={SOURCE: PROGRESS}, resumed={SOURCE: Resumed(position=600, writer=writer, sequence=88)}).plan
    assert (plan.position, plan.writer, plan.sequence, plan.opened) == (600, writer, 88, False)
    resumed = Resumed(position=600, writer=writer, sequence=88, opened=True, event=TOLD)
    begun = start(progress={SOURCE: PROGRESS}, resumed={SOURCE: resumed})
    assert (begun.plan.opened, begun.event) == (True, TOLD)


def test_a_topic_made_anew_begins_at_its_oldest_record_also_when_it_was_handed_out_before():
    resumed = Resumed(position=600, writer=Writer(producer_id=9, epoch=9), sequence=88, opened=True)
    begun = start(progress={SOURCE: PROGRESS}, resumed={SOURCE: resumed}, topic_ids={"orders": "bb"})
    assert (begun.plan.position, begun.plan.sequence) == (10, 88)


def test_a_copy_for_once_ends_at_the_ends_of_the_start():
    assert start(ends={SOURCE: 900}).plan.until == 900
    assert start().plan.until == NO_OFFSET


def test_the_plan_knows_what_the_target_topic_asks():
    plan = start(copied={SOURCE: Copied(4, 40, 1)}).plan
    assert (plan.target, plan.max_message_bytes, plan.log_append_time, plan.codec) == (TARGET, 5_000, True, "gzip")
    assert plan.copied == Copied(4, 40, 1)
