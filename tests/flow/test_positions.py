"""Where a partition begins."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sparkmirror.config import GoOn, Policies, Refill
from sparkmirror.copy.plan import group_of
from sparkmirror.copy.target_facts import TargetFacts
from sparkmirror.events import Event, Kind
from sparkmirror.flow.on_record import Run, Written, going_on
from sparkmirror.flow.positions import Known, Resumed, Stand, Start, decide_start, is_dead
from sparkmirror.model import NO_OFFSET, UNKNOWN, Copied, LastRecord, Reached, TopicPartition, Writer
from sparkmirror.offsets.orders import MoveOrder
from sparkmirror.offsets.records import Progress
from sparkmirror.offsets.recovery import UNKNOWN_MS, Answer
from sparkmirror.offsets.source_history import UNDEFINED, Begun, EpochEnd
from sparkmirror.offsets.state import state_of

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


def decide(**more: object) -> Start | Stand:
    return decide_start(SOURCE, TARGET, replace(KNOWN, **more))  # type: ignore[arg-type]  # the fields of Known


def start(**more: object) -> Start:
    begun = decide(**more)
    assert isinstance(begun, Start)
    return begun


def stand(**more: object) -> Event:
    refused = decide(**more)
    assert isinstance(refused, Stand)
    assert refused.source == SOURCE
    return refused.event


def test_a_new_partition_begins_where_the_configuration_says():
    assert (start().plan.position, start().event, start().first, start().end) == (20, None, True, NO_OFFSET)
    assert start(answers={SOURCE: Answer(900, 44)}).end == 44


def test_a_known_partition_goes_on_from_its_progress():
    known = start(progress={SOURCE: PROGRESS})
    assert (known.plan.position, known.event, known.first) == (500, None, False)


def test_the_recovery_point_goes_on_with_a_partition_that_does_not_go_back():
    known = {SOURCE: replace(PROGRESS, recovery_ms=70, lane="lane-0.0")}
    gone_back = {SOURCE: replace(PROGRESS, recovery_ms=UNKNOWN_MS, lane="")}
    assert start(progress=gone_back, floors={SOURCE: 90}).plan.recovery_ms == UNKNOWN_MS
    assert start().plan.recovery_ms == UNKNOWN_MS
    assert start(progress=known).plan.recovery_ms == 70
    assert start(progress=known, floors={SOURCE: 90}).plan.recovery_ms == 90
    assert start(progress=known, floors={SOURCE: 50}).plan.recovery_ms == 70
    further, back = (Resumed(position=at, writer=PROGRESS.writer) for at in (501, 499))
    assert start(progress=known, resumed={SOURCE: further}).plan.recovery_ms == 70
    assert start(progress=known, floors={SOURCE: 90}, resumed={SOURCE: back}).plan.recovery_ms == UNKNOWN_MS
    anew = start(progress=known, floors={SOURCE: 90}, topic_ids={"orders": "bb"})
    assert anew.plan.recovery_ms == UNKNOWN_MS


def test_a_partition_with_which_the_source_is_level_is_so_before_a_lane_has_it():
    """A copy for once fetches nothing of it."""
    behind, level = ({SOURCE: Answer(900, end)} for end in (501, 500))
    known = {SOURCE: replace(PROGRESS, recovery_ms=70)}
    assert start(progress=known, answers=behind).plan.recovery_ms == 70
    assert start(progress=known, answers=level).plan.recovery_ms == 900
    assert start(answers={SOURCE: Answer(900, 20)}).plan.recovery_ms == 900


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
        "the source topic was deleted and made anew (its topic id was aa, now it is bb); of the old one all below "
        "offset 500 was copied; going on from its oldest record, offset 10"
    )
    on = Policies(source_recreated=GoOn.STOP)
    assert stand(progress={SOURCE: PROGRESS}, topic_ids={"orders": "bb"}, on=on).kind is Kind.SOURCE_RECREATED


RESUMED = Resumed(position=500, writer=Writer(producer_id=9, epoch=9), sequence=88, opened=True)
ELSEWHERE = {"progress": {SOURCE: replace(PROGRESS, target_id="cc")}, "target_ids": {"A.orders": "dd"}}


@pytest.mark.parametrize(
    ("refill", "position", "words"),
    [
        (Refill.OLDEST, 10, "copying again from the source's oldest record, offset 10"),
        (Refill.POSITION, 500, "going on from offset 500: what was copied before is not there any more"),
    ],
)
def test_a_target_topic_made_anew_is_filled_as_the_setting_says(refill: Refill, position: int, words: str):
    begun = start(**ELSEWHERE, resumed={SOURCE: RESUMED}, on=Policies(target_recreated=refill))
    assert (begun.plan.position, begun.plan.target_id) == (position, "dd")
    assert (begun.plan.writer, begun.plan.sequence, begun.plan.opened) == (WRITERS[group_of(SOURCE, 8)], 0, False)
    assert begun.event is not None
    assert (begun.event.kind, begun.event.first, begun.event.last) == (Kind.TARGET_RECREATED, 10, 499)
    assert begun.event.text.endswith(words)


def test_a_target_topic_made_anew_may_stop_the_copy():
    assert stand(**ELSEWHERE, on=Policies(target_recreated=Refill.STOP)).kind is Kind.TARGET_RECREATED


BOTH = {**ELSEWHERE, "topic_ids": {"orders": "bb"}}


@pytest.mark.parametrize("refill", [Refill.OLDEST, Refill.POSITION])
def test_where_source_and_target_topic_are_made_anew_both_are_told_and_the_new_one_is_copied_as_a_whole(refill):
    begun = start(**BOTH, on=Policies(target_recreated=refill))
    assert (begun.plan.position, begun.plan.target_id, begun.anew, begun.parted) == (10, "dd", True, 0)
    assert [event.kind for event in begun.events] == [Kind.SOURCE_RECREATED, Kind.TARGET_RECREATED]
    of_source, of_target = begun.events
    assert of_source.text.endswith("going on from its oldest record, offset 10")
    assert of_target.text.endswith("the new source topic is copied from its oldest record, offset 10")
    assert (of_target.first, of_target.last) == (10, 499)


@pytest.mark.parametrize(
    ("of_source", "of_target", "kind"),
    [
        (GoOn.CONTINUE, Refill.STOP, Kind.TARGET_RECREATED),
        (GoOn.STOP, Refill.OLDEST, Kind.SOURCE_RECREATED),
        (GoOn.STOP, Refill.STOP, Kind.TARGET_RECREATED),
    ],
)
def test_where_source_and_target_topic_are_made_anew_either_setting_stops_the_copy(of_source, of_target, kind):
    on = Policies(source_recreated=of_source, target_recreated=of_target)
    event = stand(**BOTH, on=on)
    assert event.kind is kind
    assert "the source topic was deleted" in event.text
    assert "the target topic A.orders was deleted" in event.text
    order = replace(MOVE, topic_id="bb", target_id="dd")
    begun = start(**BOTH, on=on, moves={SOURCE: order})
    assert (begun.plan.position, begun.moved) == (300, True)
    assert [event.kind for event in begun.events] == [Kind.MOVED, Kind.TARGET_RECREATED]
    if of_target is Refill.STOP:
        assert stand(**BOTH, on=on, moves={SOURCE: replace(order, target_id="cc")}).kind is kind


@pytest.mark.parametrize(("before", "now"), [("", "dd"), ("cc", ""), ("cc", "cc")])
def test_a_target_topic_is_made_anew_only_if_both_ids_are_known_and_differ(before: str, now: str):
    begun = start(progress={SOURCE: replace(PROGRESS, target_id=before)}, target_ids={"A.orders": now})
    assert (begun.plan.position, begun.event) == (500, None)


COPIED = {SOURCE: replace(PROGRESS, leader_epoch=4)}


def test_a_source_that_lost_its_tail_goes_on_from_where_the_histories_part():
    copied = {"progress": COPIED, "left_of": {SOURCE: 4}}
    begun = start(**copied, epochs={SOURCE: EpochEnd(3, 450)}, resumed={SOURCE: RESUMED})
    assert (begun.plan.position, begun.plan.sequence) == (450, 0)
    assert begun.plan.writer == WRITERS[group_of(SOURCE, 8)]
    assert begun.event is not None
    assert (begun.event.kind, begun.event.first, begun.event.last) == (Kind.SOURCE_TAIL_LOST, 450, 499)
    assert "leader epoch 4; the two part after epoch 3" in begun.event.text
    on = Policies(source_tail_lost=GoOn.STOP)
    assert stand(progress=COPIED, epochs={SOURCE: EpochEnd(3, 450)}, on=on).first == 450


def test_records_that_somebody_has_forged_or_the_source_has_lost_stand_still_where_a_loss_is_to_stop_the_copy():
    event = Event(kind=Kind.FORGED_BATCH, text="others", first=450, last=499)
    forged = {SOURCE: replace(RESUMED, position=450, event=event, anew=True)}
    begun = start(progress=COPIED, resumed=forged)
    assert (begun.plan.position, begun.event) == (450, event)
    stopped = stand(progress=COPIED, resumed=forged, on=Policies(source_tail_lost=GoOn.STOP))
    assert stopped == replace(event, text="others; the copy stands still until on.source.tail.lost is continue")
    order = replace(MOVE, leader_epoch=4)
    moved = start(
        progress=COPIED,
        resumed=forged,
        on=Policies(source_tail_lost=GoOn.STOP),
        moves={SOURCE: order},
        ordered={SOURCE: EpochEnd(4, 520)},
    )
    assert (moved.plan.position, moved.moved) == (order.to, True)


@pytest.mark.parametrize(
    ("end", "epoch"),
    [
        (EpochEnd(4, 500), 4),  # nothing was lost
        (EpochEnd(3, 500), 3),  # what was lost had been fetched and not copied
        (EpochEnd(-1, -1), -1),  # the leader knows no epoch
    ],
)
def test_a_source_that_has_what_was_copied_lost_nothing(end: EpochEnd, epoch: int):
    begun = start(progress=COPIED, epochs={SOURCE: end})
    assert (begun.plan.position, begun.event, begun.plan.leader_epoch) == (500, None, epoch)


def test_a_takeover_that_goes_on_further_than_the_progress_is_measured_by_the_epoch_that_was_written_ahead():
    """A broker that restarts begins an epoch: that of the progress ends before what was copied after it."""
    further = {"progress": COPIED, "resumed": {SOURCE: replace(RESUMED, position=700)}, "left_of": {SOURCE: 5}}
    begun = start(**further, epochs={SOURCE: EpochEnd(5, 700)})
    assert (begun.plan.position, begun.event, begun.plan.leader_epoch) == (700, None, 5)
    for end in (EpochEnd(3, 450), EpochEnd(4, 520), EpochEnd(5, 699)):
        lost = start(**further, epochs={SOURCE: end})
        assert lost.event is not None
        assert (lost.plan.position, lost.event.first, lost.event.last) == (end.end, end.end, 699)


def test_a_log_that_ends_below_the_position_lost_its_tail_whatever_its_epochs():
    begun = start(progress={SOURCE: PROGRESS}, log_ends={SOURCE: 499})
    assert begun.event is not None
    assert (begun.plan.position, begun.event.first, begun.event.last) == (499, 499, 499)
    assert start(progress={SOURCE: PROGRESS}, log_ends={SOURCE: 500}).event is None


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
    resumed = Resumed(position=600, writer=writer, sequence=88, opened=True, last=LastRecord(87, 599, 700), event=TOLD)
    begun = start(progress={SOURCE: PROGRESS}, resumed={SOURCE: resumed})
    assert (begun.plan.opened, begun.plan.last, begun.event) == (True, LastRecord(87, 599, 700), TOLD)


def test_nothing_of_an_older_topic_of_the_name_translates_offsets_of_the_newer_one():
    assert start(progress={SOURCE: PROGRESS}, topic_ids={"orders": "bb"}).parted == 0
    assert start(progress={SOURCE: PROGRESS}).parted == NO_OFFSET


def test_a_topic_made_anew_begins_at_its_oldest_record_also_when_it_was_handed_out_before():
    resumed = Resumed(position=600, writer=Writer(producer_id=9, epoch=9), sequence=88, opened=True)
    begun = start(progress={SOURCE: PROGRESS}, resumed={SOURCE: resumed}, topic_ids={"orders": "bb"})
    assert (begun.plan.position, begun.plan.sequence, begun.plan.opened) == (10, 0, False)
    assert begun.plan.writer == WRITERS[group_of(SOURCE, 8)], "a copy that goes back takes another epoch"


def test_a_copy_for_once_ends_at_the_ends_of_the_start():
    assert start(ends={SOURCE: 900}).plan.until == 900
    assert start().plan.until == NO_OFFSET


def test_the_plan_knows_what_the_target_topic_asks():
    plan = start(copied={SOURCE: Copied(4, 40, 1)}).plan
    assert (plan.target, plan.max_message_bytes, plan.log_append_time, plan.codec) == (TARGET, 5_000, True, "gzip")
    assert plan.copied == Copied(4, 40, 1)


MOVE = MoveOrder(partition=SOURCE, to=300, topic_id="aa", time_ms=1, by="me@here")


@pytest.mark.parametrize(("to", "first", "last"), [(300, 300, 499), (700, 500, 699)])
def test_a_partition_goes_where_its_operator_wants_it_under_another_epoch(to, first, last):
    resumed = Resumed(position=500, writer=Writer(producer_id=9, epoch=9), sequence=88, opened=True)
    begun = start(progress={SOURCE: PROGRESS}, resumed={SOURCE: resumed}, moves={SOURCE: replace(MOVE, to=to)})
    assert (begun.plan.position, begun.plan.sequence, begun.plan.opened, begun.plan.anew) == (to, 0, False, True)
    assert begun.plan.writer == WRITERS[group_of(SOURCE, 8)]
    assert begun.moved
    assert begun.event is not None
    assert (begun.event.kind, begun.event.first, begun.event.last) == (Kind.MOVED, first, last)
    assert begun.event.text == f"moved from offset 500 to offset {to}, as me@here has ordered"


@pytest.mark.parametrize("taken_over", [False, True])
def test_an_order_to_where_a_partition_stands_ends_and_begins_no_epoch_anew(taken_over: bool):
    """What an order before has copied again counts on; its last record may lie before a marker, and so before 500."""
    resumed = Resumed(position=500, writer=Writer(producer_id=9, epoch=9), sequence=88, opened=True)
    known = {"progress": {SOURCE: PROGRESS}, "resumed": {SOURCE: resumed} if taken_over else {}}
    order = replace(MOVE, to=500)
    begun, without = start(**known, moves={SOURCE: order}), start(**known)
    assert (begun.plan, begun.moved) == (without.plan, True)
    assert begun.event is not None
    assert (begun.event.kind, begun.event.first, begun.event.last) == (Kind.MOVED, 500, 500)
    assert begun.event.text == "goes on at offset 500, where it stands, as me@here has ordered: nothing is copied again"
    state = state_of([PROGRESS, order])
    written = going_on(
        state,
        Run(ids=(7,), generation=2, first_generation=2),
        starts=[begun],
        plans=[begun.plan],
        orders={SOURCE: order},
        took_over=(),
        passed={},
    )
    assert written == Written(tombstones=(order.key,))


def test_a_partition_that_was_never_copied_begins_where_its_operator_wants_it():
    begun = start(moves={SOURCE: MOVE})
    assert (begun.plan.position, begun.moved) == (300, True)


def test_an_order_for_another_topic_of_the_name_moves_nothing_and_a_stop_stays_one():
    both = {"progress": {SOURCE: PROGRESS}, "topic_ids": {"orders": "bb"}, "moves": {SOURCE: MOVE}}
    begun = start(**both)
    assert (begun.plan.position, begun.moved) == (10, False)
    assert stand(**both, on=Policies(source_recreated=GoOn.STOP)).kind is Kind.SOURCE_RECREATED


def test_an_order_says_where_a_partition_goes_on_that_stands_still():
    lost = {
        "progress": {SOURCE: PROGRESS},
        "epochs": {SOURCE: EpochEnd(3, 5)},
        "on": Policies(source_tail_lost=GoOn.STOP),
    }
    order = replace(MOVE, leader_epoch=4)
    assert stand(**lost).kind is Kind.SOURCE_TAIL_LOST
    begun = start(**lost, moves={SOURCE: order}, ordered={SOURCE: EpochEnd(4, 320)})
    assert (begun.plan.position, begun.moved, begun.parted) == (300, True, 5)
    assert begun.event is not None
    assert "stands still" not in begun.event.text
    assert stand(**lost, moves={SOURCE: order}, ordered={SOURCE: EpochEnd(3, 5)}).kind is Kind.SOURCE_TAIL_LOST, "older"


LOST = {"progress": {SOURCE: PROGRESS}, "left_of": {SOURCE: 7}, "epochs": {SOURCE: EpochEnd(3, 90)}}


@pytest.mark.parametrize(
    ("order", "ordered", "goes_on"),
    [
        ({"leader_epoch": 4}, EpochEnd(4, 320), True),
        ({"leader_epoch": 4}, EpochEnd(4, 290), False),
        ({"leader_epoch": 4}, EpochEnd(3, 320), False),
        ({"leader_epoch": 7}, EpochEnd(7, 320), True),
        ({}, EpochEnd(4, 320), True),
    ],
)
def test_a_partition_that_waits_since_its_source_lost_something_goes_on_by_an_order_for_the_log_that_is_there(
    order, ordered, goes_on
):
    known = {**LOST, "moves": {SOURCE: replace(MOVE, **order)}, "ordered": {SOURCE: ordered}}
    found = decide(**known, on=Policies(source_tail_lost=GoOn.STOP))
    assert (found.plan.position == 300 and found.moved) if isinstance(found, Start) else not goes_on
    assert isinstance(found, Start) == goes_on


def test_a_partition_that_waits_since_a_topic_was_created_again_goes_on_by_an_order_for_the_new_one():
    on = Policies(source_recreated=GoOn.STOP, target_recreated=Refill.STOP)
    known = {"progress": {SOURCE: PROGRESS}, "topic_ids": {"orders": "bb"}, "on": on}
    begun = start(**known, moves={SOURCE: replace(MOVE, topic_id="bb")})
    assert (begun.plan.position, begun.parted) == (300, 0)
    known = {"progress": {SOURCE: replace(PROGRESS, target_id="old")}, "target_ids": {"A.orders": "new"}, "on": on}
    assert start(**known, moves={SOURCE: replace(MOVE, target_id="new")}).plan.position == 300
    assert stand(**known, moves={SOURCE: MOVE}).kind is Kind.TARGET_RECREATED


STOPPING = Policies(source_tail_lost=GoOn.STOP, source_recreated=GoOn.STOP, target_recreated=Refill.STOP)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"epochs": {SOURCE: EpochEnd(3, 90)}}, "offsets 90 to 499 is not in its log any more"),
        ({"topic_ids": {"orders": "bb"}}, "the source topic was deleted and made anew"),
        ({"target_ids": {"A.orders": "new"}}, "the target topic A.orders was deleted"),
    ],
)
@pytest.mark.parametrize("to", [80, 300])
def test_a_partition_that_a_setting_has_stopped_goes_where_its_operator_wants_it(change, words, to):
    copied = {"progress": {SOURCE: replace(PROGRESS, target_id="old")}, "on": STOPPING, **change}
    assert words in stand(**copied).text
    order = replace(MOVE, to=to, topic_id=str(change.get("topic_ids", {"orders": "aa"})["orders"]), leader_epoch=4)
    order = replace(order, target_id="new")
    begun = start(**copied, moves={SOURCE: order}, ordered={SOURCE: EpochEnd(4, 300)})
    assert (begun.plan.position, begun.plan.anew, begun.moved) == (to, True, True)
    assert begun.event is not None
    assert begun.event.kind is Kind.MOVED
    assert words in begun.event.text
    assert "stands still" not in begun.event.text


@pytest.mark.parametrize("end", [EpochEnd(4, 290), EpochEnd(UNDEFINED, UNDEFINED)])
def test_an_order_of_before_the_source_lost_what_it_names_ends_no_stop(end):
    copied = {"progress": {SOURCE: PROGRESS}, "on": STOPPING, "epochs": {SOURCE: EpochEnd(3, 90)}}
    order = replace(MOVE, leader_epoch=4)
    assert stand(**copied, moves={SOURCE: order}, ordered={SOURCE: end}).kind is Kind.SOURCE_TAIL_LOST


def test_what_the_flow_orders_itself_ends_no_stop():
    copied = {"progress": {SOURCE: PROGRESS}, "on": STOPPING, "epochs": {SOURCE: EpochEnd(3, 90)}}
    assert stand(**copied, homeward={SOURCE: MOVE}).kind is Kind.SOURCE_TAIL_LOST
    assert start(progress={SOURCE: PROGRESS}, homeward={SOURCE: MOVE}, moves={SOURCE: replace(MOVE, to=7)}).moved


@pytest.mark.parametrize(
    ("end", "position", "epoch", "told"),
    [
        (EpochEnd(4, 320), 300, 4, False),
        (EpochEnd(4, 300), 300, 4, False),
        (EpochEnd(4, 290), 290, 4, True),
        (EpochEnd(3, 280), 280, 3, True),
        (EpochEnd(UNDEFINED, UNDEFINED), 20, -1, True),
        (None, 300, -1, False),
    ],
)
def test_an_order_does_not_lead_beyond_what_is_left_of_the_log_that_was_meant(end, position, epoch, told):
    order = replace(MOVE, leader_epoch=4)
    begun = start(moves={SOURCE: order}, ordered={} if end is None else {SOURCE: end})
    assert (begun.plan.position, begun.plan.leader_epoch) == (position, epoch)
    assert begun.event is not None
    assert ("has lost its tail since me@here ordered" in begun.event.text) == told


@pytest.mark.parametrize(("to", "position", "told"), [(700, 500, True), (60, 60, False)])
def test_an_order_leads_nowhere_beyond_what_was_copied_where_the_log_went_back_as_a_whole(to, position, told):
    order, gone = replace(MOVE, to=to, topic_id="", leader_epoch=4), {SOURCE: EpochEnd(UNDEFINED, UNDEFINED)}
    begun = start(progress={SOURCE: PROGRESS}, left_of={SOURCE: 3}, moves={SOURCE: order}, ordered=gone)
    assert begun.plan.position == position
    assert begun.event is not None
    assert ("has lost its tail since me@here ordered" in begun.event.text) == told


def test_where_a_partition_begins_or_goes_back_to_it_is_known_of_which_log_that_is():
    assert start(newest={SOURCE: 6}).plan.leader_epoch == 6
    assert start(moves={SOURCE: MOVE}, newest={SOURCE: 6}).plan.leader_epoch == 6
    back = start(progress={SOURCE: PROGRESS}, left_of={SOURCE: 4}, epochs={SOURCE: EpochEnd(3, 90)})
    assert (back.plan.position, back.plan.leader_epoch) == (90, 3)


@pytest.mark.parametrize(
    ("change", "to", "parted"),
    [
        ({"epochs": {SOURCE: EpochEnd(3, 90)}}, 300, 90),
        ({"epochs": {SOURCE: EpochEnd(3, 90)}}, 80, 90),
        ({"topic_ids": {"orders": "bb"}}, 300, 0),
        ({"target_ids": {"A.orders": "new"}}, 300, NO_OFFSET),
        ({}, 300, NO_OFFSET),
    ],
)
def test_an_order_leads_past_what_the_source_has_in_the_place_of_what_was_copied(change, to, parted):
    order = replace(MOVE, to=to, topic_id="")
    begun = start(progress={SOURCE: replace(PROGRESS, target_id="old")}, moves={SOURCE: order}, **change)
    assert (begun.plan.position, begun.plan.anew, begun.parted) == (to, True, parted)


def test_an_order_that_leads_where_the_copy_goes_back_to_anyway_leaves_the_event_as_it_is():
    known = {"progress": {SOURCE: PROGRESS}, "left_of": {SOURCE: 7}, "epochs": {SOURCE: EpochEnd(3, 90)}}
    begun = start(**known, moves={SOURCE: replace(MOVE, to=90)})
    assert (begun.plan.position, begun.moved) == (90, True)
    assert begun.event is not None
    assert (begun.event.kind, begun.event.first, begun.event.last) == (Kind.SOURCE_TAIL_LOST, 90, 499)


def test_an_order_wins_over_what_happened_to_the_target_and_both_are_told():
    begun = start(
        progress={SOURCE: replace(PROGRESS, target_id="old")}, target_ids={"A.orders": "new"}, moves={SOURCE: MOVE}
    )
    assert (begun.plan.position, begun.moved) == (300, True)
    assert "made anew" in str(begun.event)
    assert "moved from offset 10 to offset 300" in str(begun.event)


REACHED = Reached(5, 100)


@pytest.mark.parametrize(
    "why",
    [
        {},
        {"resumed": {SOURCE: Resumed(position=500, writer=PROGRESS.writer, reached=REACHED)}},
        {"moves": {SOURCE: MoveOrder(partition=SOURCE, to=600, topic_id="aa", time_ms=1, by="ann")}},
        {"moves": {SOURCE: MoveOrder(partition=SOURCE, to=7, topic_id="aa", time_ms=1, by="ann")}},
        {"epochs": {SOURCE: EpochEnd(3, 90)}},
        {"topic_ids": {"orders": "bb"}},
    ],
)
def test_wherever_the_copy_goes_on_it_is_known_how_far_the_targets_log_goes(why: dict[str, object]):
    assert start(progress={SOURCE: replace(PROGRESS, leader_epoch=4, reached=REACHED)}, **why).plan.reached == REACHED


def test_of_a_target_topic_made_anew_nothing_is_known():
    progress = replace(PROGRESS, target_id="yy", reached=REACHED)
    assert start(progress={SOURCE: progress}, target_ids={"A.orders": "zz"}).plan.reached == UNKNOWN


@pytest.mark.parametrize(
    ("begun", "position", "leader_epoch", "anew", "dead"),
    [
        pytest.param(Begun(5, 60), 200, 7, False, False, id="below the position"),
        pytest.param(Begun(8, 250), 200, 7, False, True, id="of a later epoch: met again, or of a log that is lost"),
        pytest.param(Begun(5, 60), 50, 7, True, True, id="the copy goes back behind it"),
        pytest.param(Begun(5, 60), 60, 7, True, True, id="the copy goes back to it"),
        pytest.param(Begun(5, 60), 61, 7, True, False, id="the copy goes back into it"),
        pytest.param(Begun(5, 60), 200, -1, False, False, id="nobody knows, and it only goes on"),
        pytest.param(Begun(5, 60), 200, -1, True, True, id="nobody knows the log where it goes on"),
    ],
)
def test_begins_of_leader_epochs_count_where_they_are_not_met_again(begun, position, leader_epoch, anew, dead):
    assert is_dead(begun, position, leader_epoch, anew=anew) is dead
