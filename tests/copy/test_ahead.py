"""Segments written ahead, divided and taken back: what is on record says at every moment where each record lies."""

from __future__ import annotations

from collections import deque

from hypothesis import given
from hypothesis import strategies as st

from sparkmirror.copy.ahead import SegmentsAhead
from sparkmirror.copy.outgoing import Outgoing
from sparkmirror.model import NO_OFFSET
from sparkmirror.offsets.pieces import Pieces
from sparkmirror.offsets.records import part_of
from sparkmirror.offsets.segments import SEQUENCES, Opening, Segments, SegmentsKey, segments_of
from tests.copy.making import plan

_answers = st.lists(
    st.lists(st.tuples(st.integers(1, 4), st.integers(0, 3)), min_size=1, max_size=5), min_size=1, max_size=5
)


def batch(sequence: int, count: int, source: int) -> Outgoing:
    return Outgoing(
        payload=memoryview(b""),
        sequence=sequence % SEQUENCES,
        count=count,
        source=source,
        last_source=source,
        end=source,
        batches=1,
        held=0,
        newest_ms=0,
        arrived=0.0,
    )


class Topic:
    """The internal topic, and where each record of the source lies."""

    def __init__(self, first: int) -> None:
        self.first = first
        self.pieces = Pieces()
        self.lies: list[int] = []
        self.old: set[int] = set()

    def take(self, segments: Segments) -> None:
        self.pieces.take(segments)

    def forget(self, key: str) -> None:
        part = part_of(key)
        assert isinstance(part, SegmentsKey)
        self.pieces.forget_segments(part.sequence)

    def check(self, records: int) -> None:
        for number in range(records):
            count = self.pieces.count_of((self.first + number) % SEQUENCES, self.first + number)
            assert self.pieces.source_of(count) == self.lies[number], number
            assert number not in self.old or self.pieces.unguarded(count, count + 1)


def arrive(copy: SegmentsAhead, topic: Topic, answers: list[list[tuple[int, int]]], data: st.DataObject) -> None:
    """Each answer is a list of (records, hole behind them)."""
    source = 100
    for answer in answers:
        openings = []
        for records, hole in answer:
            begins = not topic.lies or source != topic.lies[-1] + 1
            if begins or data.draw(st.booleans(), label="a segment without a hole"):
                openings.append(Opening((topic.first + len(topic.lies)) % SEQUENCES, source))
            topic.lies += range(source, source + records)
            source += records + hole
        if openings:
            topic.take(segments_of(copy.plan.source, copy.plan.writer, openings, unguarded=False, anew=False))
            copy.add(openings, unguarded=False)


def send(copy: SegmentsAhead, topic: Topic, flying: deque[Outgoing], data: st.DataObject) -> int:
    """Sends batches, some of which turned old, and takes some acknowledgements; gives how many records were sent."""
    number = 0
    for _ in range(data.draw(st.integers(0, 4), label="batches")):
        count = data.draw(st.integers(1, 6), label="records")
        if number + count > len(topic.lies):
            break
        one = batch(topic.first + number, count, topic.lies[number])
        if data.draw(st.booleans(), label="turned old"):
            for segments in copy.flag(one):
                topic.take(segments)
                topic.check(len(topic.lies))
            topic.old |= set(range(number, number + count))
            topic.check(len(topic.lies))
        assert [copy.source_of(one, n) for n in range(count)] == topic.lies[number : number + count]
        flying.append(one)
        number += count
        if data.draw(st.booleans(), label="acknowledged"):
            copy.place(flying.popleft(), 0, None)
    return number


def names_its_newest(ahead: int, topic: Topic) -> None:
    """The newest segments that are not reached are the newest on record; all may be reached."""
    written = topic.pieces.sources.taken()
    assert ahead == NO_OFFSET or ahead == max(written, key=lambda sequence: (sequence - topic.first) % SEQUENCES)


@given(_answers, st.sampled_from([0, SEQUENCES - 5]), st.data())
def test_whatever_is_divided_or_taken_back_each_record_that_may_be_sent_is_on_record(answers, first, data):
    copy, topic = SegmentsAhead(plan()), Topic(first)
    arrive(copy, topic, answers, data)
    topic.check(len(topic.lies))
    flying: deque[Outgoing] = deque()
    sent = send(copy, topic, flying, data)
    names_its_newest(copy.newest(), topic)
    left = copy.newest(flying)
    unreached = copy.unreached(flying)
    for segments in unreached.shortened:
        topic.take(segments)
    for key in unreached.void:
        topic.forget(key)
    topic.check(sent)
    names_its_newest(left, topic)
    if not sent:
        assert not len(topic.pieces), "nothing was sent, and nothing is left"
    else:
        assert (topic.pieces.sources.last.count - first) % SEQUENCES < sent


def test_the_newest_segments_that_are_not_reached_are_named_and_of_a_partition_that_leaves_those_that_stay():
    copy = SegmentsAhead(plan())
    assert (copy.newest(), copy.newest(())) == (NO_OFFSET, NO_OFFSET)
    for sequence in (0, 5, 9):
        copy.add([Opening(sequence, 100 + 2 * sequence), Opening(sequence + 2, 103 + 2 * sequence)], unguarded=False)
    assert copy.newest() == 9
    assert copy.newest(()) == NO_OFFSET, "nothing was sent"
    assert copy.newest([batch(0, 2, 100), batch(2, 4, 103)]) == 5
    copy.place(batch(0, 2, 100), 0, None)
    assert copy.newest(()) == 0, "it is shortened, and stays"
    for first, count in ((2, 3), (5, 4), (9, 3)):
        copy.place(batch(first, count, 0), first, first)
    assert copy.newest() == NO_OFFSET


def test_a_point_on_the_target_is_written_where_a_batch_does_not_follow_the_one_before():
    copy = SegmentsAhead(plan())
    expected = None
    for sequence, offset in ((0, 7), (3, 10), (6, 15), (9, 18)):
        copy.place(batch(sequence, 3, sequence), offset, expected)
        expected = offset + 3
    assert [each[:2] for each in copy.settled] == [(0, 7), (6, 15)]
