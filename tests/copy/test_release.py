"""A partition has one holder at a time: what a lane publishes of one that it does not have any more is nothing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from sparkmirror.copy.handover import Handover
from sparkmirror.copy.lease import LEASE_SECONDS, now
from sparkmirror.copy.partition import PartitionCopy
from sparkmirror.copy.plan import ShiftPlan
from sparkmirror.copy.receipt import Outcome, receipts
from sparkmirror.flow.settled import settled_by, settled_in
from sparkmirror.kafka.journal import Entry
from sparkmirror.model import NO_OFFSET, LastRecord, Reached
from sparkmirror.offsets.records import Progress, parse
from tests.batches.building import Rec, Written, log
from tests.copy.lanes import OneLane, Topic, loop, with_holes
from tests.copy.making import (
    BEGIN,
    EVERY_AGE,
    LARGE,
    NOW_MS,
    SOURCE,
    WRITER,
    Bench,
    batch,
    partition,
    plan,
)

__all__ = ["loop"]  # a fixture

NOT_ENOUGH_REPLICAS, NETWORK_EXCEPTION = 19, 13


def refused_lane(topic: Topic, written: Sequence[Written], *, acknowledged: int = 1) -> OneLane:
    """A lane whose partition was stopped: some batches are acknowledged, the others in flight are refused for good."""
    lane = OneLane(topic, "lane-0.0", partition(opened=False))
    lane.copy.patience_s = -1
    lane.bring(*written)
    for offset in range(acknowledged):
        out = lane.copy.next_batch()
        assert out is not None
        lane.copy.acknowledged(out, offset)
    sent = []
    while (out := lane.copy.next_batch()) is not None:
        sent.append(out)
    for out in sent:
        lane.copy.refused(out, NOT_ENOUGH_REPLICAS, "")
    assert lane.copy.error
    assert lane.copy.all_acknowledged
    return lane


def next_lane(topic: Topic, name: str = "lane-1.0") -> OneLane:
    """The lane that goes on where the one before settled, under the same writer epoch."""
    where = settled_in(topic.progress)
    assert where is not None
    copy = partition(opened=False)
    copy.begin(where.position, where.sequence, where.last, opened=where.opened)
    return OneLane(topic, name, copy)


@pytest.mark.parametrize("old_last", [True, False])
def test_a_former_holder_changes_nothing_whichever_lane_publishes_last(loop, old_last):
    topic, source = Topic(loop), with_holes(12)
    old = refused_lane(topic, source)
    old.publish()
    assert topic.progress.released
    new = next_lane(topic)
    new.bring(*source)
    new.acknowledge_all(1)
    last = [old, new] if not old_last else [new, old]
    new.publish()
    for lane in last:
        lane.publish()
        lane.publish(final=True)
    assert (topic.progress.lane, topic.progress.position) == ("lane-1.0", 23)
    mapped = topic.map
    assert [mapped.source_to_target(2 * n) for n in range(12)] == list(range(12))


def test_the_next_holder_keeps_on_record_which_record_was_acknowledged_last(loop):
    """Or a takeover could not see that the target has lost it."""
    topic, source = Topic(loop), with_holes(12)
    old = refused_lane(topic, source)
    old.publish()
    before = topic.progress
    new = next_lane(topic)
    new.publish()
    after = topic.progress
    assert (after.lane, after.sequence, after.source) == ("lane-1.0", before.sequence, before.source)
    assert after.target == before.target >= 0


def test_a_stopped_partition_is_released_only_when_no_answer_is_owed(loop):
    topic = Topic(loop)
    lane = OneLane(topic, "lane-0.0", partition())
    lane.bring(batch(0, size=LARGE), batch(3, size=LARGE))
    first, second = lane.copy.next_batch(), lane.copy.next_batch()
    assert first is not None
    assert second is not None
    lane.copy.stop("no")
    lane.publish()
    assert (topic.progress.error, topic.progress.released, topic.progress.position) == ("no", False, 0)
    lane.copy.acknowledged(first, 0)
    lane.publish()
    assert not topic.progress.released
    lane.copy.acknowledged(second, 3)
    lane.publish()
    assert (topic.progress.released, topic.progress.settled, topic.progress.position) == (True, True, 6)


def test_what_was_given_back_is_released_at_once_and_is_not_settled(loop):
    topic = Topic(loop)
    lane = OneLane(topic, "lane-0.0", partition())
    lane.bring(batch(0, size=LARGE), batch(3, size=LARGE))
    first, second = lane.copy.next_batch(), lane.copy.next_batch()
    assert first is not None
    assert second is not None
    lane.copy.footing.reached = lane.copy.footing.reached._replace(leader_epoch=1, end=50)
    lane.copy.acknowledged(first, 0)
    lane.publish()
    assert (topic.progress.released, topic.progress.settled) == (True, False)
    written = len(topic.log)
    lane.copy.acknowledged(second, 60)
    lane.publish()
    lane.publish(final=True)
    assert len(topic.log) == written


def test_the_progress_that_releases_lies_behind_what_takes_segments_back(loop):
    topic = Topic(loop)
    lane = refused_lane(topic, with_holes(12))
    mark = len(topic.log)
    lane.publish()
    kinds = [
        ("tombstone" if value is None else parse(key, value).__class__.__name__) for key, value in topic.log[mark:]
    ]
    assert kinds[-1] == "Progress"
    assert kinds[:-1] == ["Targets", "Segments"], "the record of the answer, without the eleven that are void"
    pieces = topic.state.map_of(SOURCE).pieces(WRITER)
    assert pieces is not None
    assert [piece.offset for piece in pieces.sources.pieces(0)] == [0]
    assert kinds.count("Progress") == 1


@pytest.mark.parametrize("answered", [True, False])
def test_an_epoch_that_goes_on_over_a_source_compacted_meanwhile_has_a_right_map(loop, answered):
    """The batch that was refused had segments inside; what the cleaner left is numbered otherwise."""

    def thin(offsets: Sequence[int]) -> Written:
        recs = tuple(Rec(n, NOW_MS + n, b"%d" % n, b"v") for n in offsets)
        return Written(records=recs, base_offset=0, last_delta=99)

    before = [n for n in range(100) if n % 10 < 8]
    after = [n for n in before if n % 10 < 5 or n >= 95]
    topic = Topic(loop)
    old = refused_lane(topic, [thin(before)], acknowledged=0)
    old.publish()
    new = next_lane(topic)
    new.bring(thin(after))
    if answered:
        new.acknowledge_all(0)
        new.publish(final=True)
    else:
        assert new.copy.next_batch() is not None  # it is sent, and its lane dies
    pieces = topic.state.map_of(SOURCE).pieces(WRITER)
    assert pieces is not None
    assert [pieces.source_of(count) for count in range(len(after))] == after
    if answered:
        mapped = topic.map
        assert [mapped.source_to_target(source) for source in after] == list(range(len(after)))


def test_the_end_of_a_shift_leaves_no_segment_that_the_target_did_not_reach(loop):
    topic, source = Topic(loop), with_holes(12)
    lane = OneLane(topic, "lane-0.0", partition(opened=False))
    lane.bring(*source)
    out = lane.copy.next_batch()
    assert out is not None
    lane.copy.acknowledged(out, 0)
    lane.copy.abandon()
    lane.publish(final=True)
    pieces = topic.state.map_of(SOURCE).pieces(WRITER)
    assert pieces is not None
    assert [piece.offset for piece in pieces.sources.pieces(0)] == [0]


def test_what_was_never_begun_is_not_published(loop):
    topic = Topic(loop)
    copy = PartitionCopy(plan=plan(after="lane-0.0"), rules=partition().rules, batch_bytes=1, patience_s=1)
    lane = OneLane(topic, "lane-0.1", copy)
    copy.stop("shift lane-0.0 did not hand the partition over")
    lane.publish()
    lane.publish(final=True)
    assert topic.log == []


# ------------------------------------------------------------------------------------------------------- handing over


class Control:
    """The control topic as a list, shared by the two shifts of a lane."""

    def __init__(self, topic: Topic) -> None:
        self.topic, self.log = topic, list[tuple[str, str | None]]()

    async def append(self, entries: Sequence[tuple[str, str | None]]) -> int:
        self.log.extend(entries)
        self.topic.log.extend(("control", key) for key, _ in entries)
        return len(self.log)

    async def read(self, offset: int, max_wait_ms: int = 0) -> tuple[list[Entry], int, int]:  # noqa: ARG002 - as of any journal
        found = [Entry(at, key, value) for at, (key, value) in enumerate(self.log)][offset:]
        return found, len(self.log), len(self.log)


def shift_plan(name: str, *plans: Any) -> ShiftPlan:
    return ShiftPlan(flow="A->B", run="r", shift=name, generation=1, partitions=plans, control_topic="control")


def handover(topic: Topic, control: Control, shift: ShiftPlan) -> Handover:
    made = Handover(shift, _of(topic))
    made.journal = control  # type: ignore[assignment]  # as much of one as is used
    return made


def _of(topic: Topic) -> Any:
    class Here:
        loop = topic.loop
        alias = "B"
        backoff = None

    return Here()


def hand_on(lane: OneLane, control: Control, shift: ShiftPlan) -> None:
    made = handover(lane.topic, control, shift)

    async def give() -> None:
        await made.hand_on([lane.copy], lane.publisher)

    lane.topic.loop.run(give)


def take_over(topic: Topic, control: Control, copy: PartitionCopy, shift: ShiftPlan) -> bool:
    made = handover(topic, control, shift)

    async def take_it() -> bool:
        return await made.take_over([copy])

    return bool(topic.loop.run(take_it))


def successor(topic: Topic, control: Control) -> OneLane:
    """The next shift of the lane, begun from what the one before handed over."""
    later = plan(position=NO_OFFSET, after="lane-0.0")
    copy = PartitionCopy(plan=later, rules=partition().rules, batch_bytes=1 << 20, patience_s=60, guard=EVERY_AGE)
    assert take_over(topic, control, copy, shift_plan("lane-0.1", later))
    return OneLane(topic, "lane-0.1", copy)


def test_a_partition_that_no_shift_hands_over_begins_as_its_plan_says(loop):
    topic, last = Topic(loop), LastRecord(76, 499, 620)
    first = plan(position=500, sequence=77, opened=True, last=last, reached=Reached(3, 621))
    copy = PartitionCopy(plan=first, rules=partition().rules, batch_bytes=1 << 20, patience_s=60, guard=EVERY_AGE)
    assert take_over(topic, Control(topic), copy, shift_plan("lane-0.0", first))
    OneLane(topic, "lane-0.0", copy).publish()
    found = topic.progress
    assert (found.position, found.next_sequence, found.reached) == (500, 77, Reached(3, 621))
    assert LastRecord(found.sequence, found.source, found.target) == last


def test_a_shift_publishes_its_last_progress_before_it_hands_over_and_nothing_behind(loop):
    topic = Topic(loop)
    control = Control(topic)
    lane = OneLane(topic, "lane-0.0", partition(opened=False))
    lane.bring(*with_holes(3))
    lane.acknowledge_all(0)
    hand_on(lane, control, shift_plan("lane-0.0", lane.copy.plan))
    kinds = [key for key, _ in topic.log]
    assert kinds[-1] == "control"
    assert any("progress" in key for key in kinds[:-1])


def test_a_successor_goes_on_exactly_where_the_shift_before_ended(loop):
    """Its last record too: so no segment is opened where nothing changed, and another writer is noticed."""
    topic = Topic(loop)
    control = Control(topic)
    lane = OneLane(topic, "lane-0.0", partition(opened=False))
    lane.bring(batch(0), batch(3))
    lane.acknowledge_all(0)
    hand_on(lane, control, shift_plan("lane-0.0", lane.copy.plan))
    after = successor(topic, control)
    assert (after.copy.position, after.copy.sequence, after.copy.last) == (6, 6, LastRecord(5, 5, 5, 0, 0))
    assert (after.copy.unsettled, after.copy.released, after.copy.opened) == (False, False, True)
    mark = len(topic.log)
    after.bring(batch(6))
    assert len(topic.log) == mark


def test_a_successor_puts_leader_epochs_on_record_that_were_only_met(loop):
    """What a lane met and could not put on record is met again."""
    topic = Topic(loop)
    control = Control(topic)
    lane = OneLane(topic, "lane-0.0", partition(opened=False))
    lane.copy.epoch_on_record, lane.copy.epoch_met = 3, 5
    hand_on(lane, control, shift_plan("lane-0.0", lane.copy.plan))
    after = successor(topic, control)
    assert (after.copy.epoch_on_record, after.copy.epoch_met) == (3, 3)


def test_a_successor_leaves_alone_what_was_released(loop):
    topic = Topic(loop)
    control = Control(topic)
    lane = refused_lane(topic, with_holes(4))
    hand_on(lane, control, shift_plan("lane-0.0", lane.copy.plan))
    assert topic.progress.released
    after = successor(topic, control)
    mark = len(topic.log)
    after.publish()
    after.publish(final=True)
    assert len(topic.log) == mark
    (receipt,) = receipts([after.copy], started=True)
    assert receipt.outcome is Outcome.STOPPED
    assert settled_by(receipt) == settled_in(topic.progress)


def test_an_answer_lost_before_a_handover_is_not_taken_for_settled(loop):
    topic = Topic(loop)
    control = Control(topic)
    lane = OneLane(topic, "lane-0.0", partition())
    lane.bring(batch(0))
    out = lane.copy.next_batch()
    assert out is not None
    lane.copy.refused(out, NETWORK_EXCEPTION, "")
    lane.copy.stop("the target did not acknowledge in time while the shift ended")
    hand_on(lane, control, shift_plan("lane-0.0", lane.copy.plan))
    after = successor(topic, control)
    (receipt,) = receipts([after.copy], started=True)
    assert (receipt.settled, settled_by(receipt)) == (False, None)
    assert settled_in(topic.progress) is None


def test_a_shift_that_hands_over_leaves_no_segment_that_the_target_did_not_reach(loop):
    topic = Topic(loop)
    control = Control(topic)
    lane = OneLane(topic, "lane-0.0", partition(opened=False))
    lane.bring(*with_holes(12))
    out = lane.copy.next_batch()
    assert out is not None
    lane.copy.acknowledged(out, 0)
    lane.copy.abandon()
    hand_on(lane, control, shift_plan("lane-0.0", lane.copy.plan))
    pieces = topic.state.map_of(SOURCE).pieces(WRITER)
    assert pieces is not None
    assert [piece.offset for piece in pieces.sources.pieces(0)] == [0]


# ------------------------------------------------------------------------------------------------- without the lease


@pytest.fixture
def bench() -> Iterator[Bench]:
    made = Bench(1)
    yield made
    made.close()


@pytest.fixture
def topic(bench: Bench) -> Topic:
    """The internal and the control topic of a lane that has copied one batch and publishes to a list."""
    topic = Topic(bench.target.loop)
    bench.lane.watch.publisher._journal = topic  # type: ignore[assignment]  # as much of one as is used
    bench.lane.handover.journal = Control(topic)  # type: ignore[assignment]  # as much of one as is used
    bench.bring(0, log([batch(BEGIN, 1, size=LARGE)]))
    bench.send()
    assert bench[0].position == BEGIN + 1
    return topic


async def begun() -> bool:
    """Stands for the begin of a lane, which has no target to ask; the bench has begun its partitions."""
    return True


def test_a_lane_without_the_lease_publishes_nothing(bench: Bench, topic: Topic):
    """It may have been given up, so another one may have its partitions."""
    bench.lane.lease.renew(now() - LEASE_SECONDS - 1)
    bench.run(bench.lane.watch._publish)
    assert topic.log == []
    bench.lane.lease.renew(now() + 60)
    bench.run(bench.lane.watch._publish)
    assert [parse(key, value).__class__ for key, value in topic.log if value is not None][-1] is Progress


def test_a_lane_that_was_given_up_publishes_and_hands_over_nothing(bench: Bench, topic: Topic):
    bench.lane._begin = begun  # type: ignore[method-assign]  # nothing is connected
    bench.lane.lease.end("the driver heard nothing of it")
    (receipt,) = bench.run(bench.lane.copy)
    assert topic.log == []
    assert (receipt.outcome, receipt.settled, settled_by(receipt)) == (Outcome.STOPPED, False, None)


def test_a_lane_whose_shift_is_over_publishes_and_hands_over(bench: Bench, topic: Topic):
    bench.lane._begin = begun  # type: ignore[method-assign]  # nothing is connected
    bench.lane.watch.draining = True
    (receipt,) = bench.run(bench.lane.copy)
    assert topic.log[-1][0] == "control"
    assert (receipt.outcome, receipt.settled, receipt.position) == (Outcome.HANDED_ON, True, BEGIN + 1)
