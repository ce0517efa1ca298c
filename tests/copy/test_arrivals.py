"""What an answer of a Fetch brings: runs, holes, segments and the place that comes next."""

from __future__ import annotations

import itertools
import struct
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from sparkmirror import batches
from sparkmirror.batches import Codec
from sparkmirror.copy.arrivals import Arrival, Place, Prepared, Run, arrival
from sparkmirror.model import NO_OFFSET, NO_RECORD
from sparkmirror.offsets.pieces import STRIDE
from sparkmirror.offsets.segments import SEQUENCES, Opening
from tests.batches.building import CONTROL, LOG_APPEND_TIME, TRANSACTIONAL, Rec, Written, logs, read, sealed
from tests.batches.old_messages import Old, old_logs, wrapper
from tests.copy.making import LARGE, NOW_MS, SOURCE, WRITER, answer, batch, partition, place, rules, take
from tests.offsets.segments import points

PRODUCER = (900, 1, 0)
ABORT, COMMIT = 0, 1


def marker(offset: int, kind: int, producer_id: int = 900) -> Written:
    """A control batch, as ``EndTransactionMarker`` writes it."""
    record = Rec(0, NOW_MS, struct.pack(">hh", 0, kind), struct.pack(">hi", 0, 0))
    return Written(records=(record,), base_offset=offset, bits=CONTROL | TRANSACTIONAL, producer=(producer_id, 1, -1))


def segments(arrived: Arrival) -> list[tuple[int, int]]:
    assert (arrived.segments is None) == (not arrived.openings)
    return [(opening.sequence, opening.offset) for opening in arrived.openings]


def test_consecutive_batches_are_one_run_and_one_segment():
    arrived = answer([batch(0, 3), batch(3, 2), batch(5, 1)], place())
    (run,) = arrived.items
    assert isinstance(run, Run)
    assert (run.at, run.stop, run.sequence, run.small) == (0, 3, 0, True)
    assert segments(arrived) == [(0, 0)]
    assert (arrived.end, arrived.next_sequence, arrived.continues_at, arrived.dropped) == (6, 6, 6, 0)


def test_what_continues_the_last_answer_opens_no_segment():
    arrived = answer([batch(40, 3)], place(40, next_sequence=9, continues_at=40))
    assert segments(arrived) == []
    assert arrived.next_sequence == 12


def test_a_hole_between_batches_opens_a_segment():
    arrived = answer([batch(0, 3), batch(10, 2)], place())
    assert [item.sequence for item in arrived.items] == [0, 3]
    assert segments(arrived) == [(0, 0), (3, 10)]


def test_large_batches_do_not_share_a_run_with_small_ones():
    arrived = answer([batch(0), batch(3, size=LARGE), batch(6, size=LARGE), batch(9)], place())
    assert [(run.at, run.stop, run.small) for run in arrived.items if isinstance(run, Run)] == [
        (0, 1, True),
        (1, 3, False),
        (3, 4, True),
    ]
    assert segments(arrived) == [(0, 0)]


def test_control_batches_are_dropped_and_leave_a_hole():
    arrived = answer([batch(0, 3), marker(3, COMMIT), batch(4, 2)], place())
    assert segments(arrived) == [(0, 0), (3, 4)]
    assert (arrived.dropped, arrived.end) == (1, 6)


def test_aborted_transactions_are_dropped_under_read_committed():
    doomed: dict[str, Any] = {"producer": PRODUCER, "bits": TRANSACTIONAL}
    written = [batch(0, 2), batch(2, 3, **doomed), batch(5, 1), marker(6, ABORT), batch(7, 2, **doomed)]
    arrived = answer(written, place(), aborted=((900, 2),))
    assert segments(arrived) == [(0, 0), (2, 5), (3, 7)]
    assert arrived.dropped == 2
    everything = answer(written, place(), aborted=((900, 2),), wanted=rules(read_committed=False))
    assert segments(everything) == [(0, 0), (6, 7)]
    assert everything.dropped == 1


def test_batches_that_came_from_the_target_are_dropped():
    wanted = rules(loops=batches.producers([900]))
    arrived = answer([batch(0, 2, producer=PRODUCER), batch(2, 2)], place(), wanted=wanted)
    assert segments(arrived) == [(0, 2)]
    assert arrived.dropped == 1


def test_an_answer_of_nothing_but_dropped_batches_moves_the_place():
    arrived = answer([marker(0, COMMIT), marker(1, COMMIT)], place())
    assert (arrived.items, arrived.openings, arrived.end, arrived.next_sequence) == ([], [], 2, 0)


def test_an_empty_answer_moves_nothing():
    arrived = answer([], place(7, next_sequence=3, continues_at=7))
    assert (arrived.end, arrived.next_sequence, arrived.continues_at) == (7, 3, 7)


def test_nothing_from_until_on_is_taken_or_passed():
    """A copy for once leaves what it did not take to the next one."""
    arrived = answer([batch(0, 3), batch(3, 2), batch(5, 4), batch(9, 1)], place(until=5))
    assert (arrived.end, arrived.next_sequence, arrived.dropped) == (5, 5, 0)
    assert answer([batch(5, 4)], place(5, until=5)).end == 5


def test_a_batch_that_begins_before_until_is_taken_whole():
    arrived = answer([batch(0, 3), batch(3, 4), batch(7, 2)], place(until=5))
    assert (arrived.end, arrived.next_sequence) == (7, 7)


def test_until_behind_dropped_batches_is_reached():
    arrived = answer([batch(0, 3), marker(3, COMMIT)], place(until=4))
    assert (arrived.end, arrived.dropped) == (4, 1)


def test_a_position_inside_a_batch_trims_it():
    arrived = answer([batch(10, 5)], place(12))
    (item,) = arrived.items
    assert isinstance(item, Prepared)
    assert [record.key for record in read(item.payload).records] == [b"12", b"13", b"14"]
    assert (item.sequence, item.count, item.source, item.last_source, item.end) == (0, 3, 12, 14, 15)
    assert segments(arrived) == [(0, 12)]


def test_a_compacted_batch_opens_a_segment_for_each_gap_in_it():
    recs = tuple(Rec(delta, NOW_MS, b"%d" % delta) for delta in (0, 1, 4, 5, 9))
    arrived = answer([Written(records=recs, base_offset=100, last_delta=11), batch(112, 1)], place(100))
    prepared, run = arrived.items
    assert isinstance(prepared, Prepared)
    assert read(prepared.payload).records[2].offset == 2
    assert segments(arrived) == [(0, 100), (2, 104), (4, 109), (5, 112)]
    assert (prepared.count, prepared.end, run.sequence) == (5, 112, 5)


def test_a_gap_in_a_batch_behind_records_that_go_on_without_one_comes_after_the_last_of_these():
    recs = tuple(Rec(delta, NOW_MS, b"%d" % delta) for delta in (0, 1, 4, 5, 9))
    arrived = answer(
        [Written(records=recs, base_offset=100, last_delta=11)], place(100, next_sequence=7, continues_at=100)
    )
    assert arrived.openings == [Opening(9, 104, after=101), Opening(11, 109, after=105)]


def test_the_brokers_time_is_written_into_the_records():
    recs = (Rec(0, 5_000), Rec(1, 6_000))
    written = Written(records=recs, bits=LOG_APPEND_TIME, max_time=9_000)
    (item,) = answer([written], place()).items
    assert isinstance(item, Prepared)
    seen = read(item.payload)
    assert [record.time for record in seen.records] == [9_000, 9_000]
    assert not seen.attributes & LOG_APPEND_TIME


def test_a_target_that_sets_the_time_itself_gets_the_batch_unopened():
    target = batches.TargetTopic(log_append_time=True, max_message_bytes=1 << 20)
    written = Written(records=(Rec(0, 5_000),), bits=LOG_APPEND_TIME, max_time=9_000)
    (item,) = answer([written], place(), wanted=rules(target=target)).items
    assert isinstance(item, Run)


def test_a_batch_above_the_targets_limit_is_split():
    target = batches.TargetTopic(log_append_time=False, max_message_bytes=70_000)
    arrived = answer([batch(0, 4, size=30_000)], place(), wanted=rules(target=target))
    assert all(isinstance(item, Prepared) and item.held <= 70_000 for item in arrived.items)
    assert [(i.sequence, i.source, i.end) for i in arrived.items if isinstance(i, Prepared)] == [(0, 0, 2), (2, 2, 4)]
    assert segments(arrived) == [(0, 0)]


def test_a_record_above_the_targets_limit_is_an_obstacle_and_what_lies_before_it_is_taken():
    target = batches.TargetTopic(log_append_time=False, max_message_bytes=20_000)
    arrived = answer(
        [batch(0, 1), replace(batch(1, 2), records=(Rec(0, 1), Rec(1, 1, None, b"x" * LARGE))), batch(3, 1)],
        place(),
        wanted=rules(target=target),
    )
    assert "the record is larger than" in str(arrived.obstacle)
    assert "max.message.bytes, 20000" in str(arrived.obstacle)
    assert (len(arrived.items), arrived.end, arrived.next_sequence) == (1, 1, 1)


def test_a_segment_begins_after_every_stride_even_without_a_hole():
    """Sequences come back after 2**31 records: counts are told from segments that are closer together."""
    crossing = answer([batch(40, 3), batch(43, 2)], place(40, next_sequence=STRIDE - 1, continues_at=40))
    assert (segments(crossing), crossing.next_sequence) == ([], STRIDE + 4)
    following = answer([batch(45, 2)], place(45, next_sequence=STRIDE + 4, continues_at=crossing.continues_at))
    assert segments(following) == [(STRIDE + 4, 45)]
    assert segments(answer([batch(47, 2)], place(47, next_sequence=STRIDE + 6, continues_at=47))) == []


def test_sequences_wrap():
    arrived = answer([batch(0, 3), batch(10, 2)], place(next_sequence=SEQUENCES - 2))
    assert segments(arrived) == [(SEQUENCES - 2, 0), (1, 10)]
    assert arrived.next_sequence == 3


@given(logs(), st.data())
def test_items_and_segments_account_for_every_record(written: Sequence[Written], data: st.DataObject):
    """Whatever the log looks like: each record to copy has its sequence, and its segment tells its source offset."""
    first, last = written[0].base_offset, written[-1].last_offset
    position = data.draw(st.integers(first, last))
    until = data.draw(st.sampled_from([NO_OFFSET, NO_OFFSET, data.draw(st.integers(position, last + 1))]))
    began = data.draw(st.sampled_from([0, 7, SEQUENCES - 3]))
    continues_at = data.draw(st.sampled_from([NO_OFFSET, position, max(0, position - 2)]))
    arrived = answer(written, place(position, until=until, next_sequence=began, continues_at=continues_at))
    taken = [b for b in written if b.last_offset >= position and (until == NO_OFFSET or b.base_offset < until)]
    wanted = [r.offset for b in taken for r in b.seen() if r.offset >= position]
    begun = {(opening.sequence - began) % SEQUENCES: opening.offset for opening in arrived.openings}
    translated, source = [], NO_OFFSET if continues_at == NO_OFFSET else continues_at - 1
    for count in range((arrived.next_sequence - began) % SEQUENCES):
        source = begun.get(count, source + 1)
        translated.append(source)
    assert translated == wanted
    for opening in arrived.openings:
        behind = (opening.sequence - began) % SEQUENCES
        known = translated[behind - 1] if behind else max(NO_OFFSET, continues_at - 1)
        crossed = opening.sequence // STRIDE != began // STRIDE
        assert opening.after in {known, NO_OFFSET if crossed else known}
    sequence = began
    for item in arrived.items:
        assert item.sequence == sequence
        counts = item.index.count[item.at : item.stop].sum() if isinstance(item, Run) else item.count
        sequence = (sequence + int(counts)) % SEQUENCES
    assert sequence == arrived.next_sequence
    if arrived.segments is not None:
        assert (arrived.segments.partition, arrived.segments.writer) == (SOURCE, WRITER)
        behind = (arrived.segments.sequence - began) % SEQUENCES
        there = dict(points(replace(arrived.segments, sequence=behind), arrived.segments.source))
        for count, source in enumerate(translated[behind:], behind):
            assert source == there.get(count, source if count == behind else translated[count - 1] + 1)
    if until == NO_OFFSET:
        assert arrived.end == last + 1
    else:
        assert all(r.offset >= arrived.end for b in written if b not in taken for r in b.seen() if r.offset > position)


def prepared(arrived: Arrival) -> list[Prepared]:
    """The items, all of which were written anew."""
    assert all(isinstance(item, Prepared) for item in arrived.items)
    return [item for item in arrived.items if isinstance(item, Prepared)]


def thin(base_offset: int, **more: Any) -> Written:
    """A tiny batch of which compaction took the second of three records."""
    return replace(batch(base_offset, 3), records=(Rec(0, NOW_MS, b"a"), Rec(2, NOW_MS, b"c")), **more)


def test_neighbours_that_must_be_opened_become_one_batch_and_keep_their_holes():
    arrived = answer([thin(10 * n) for n in range(50)], place())
    (item,) = prepared(arrived)
    assert (item.sequence, item.count, item.batches, item.source, item.last_source) == (0, 100, 50, 0, 492)
    assert segments(arrived) == [(2 * n + half, 10 * n + 2 * half) for n in range(50) for half in (0, 1)]
    assert (arrived.end, item.end, arrived.next_sequence, arrived.continues_at) == (493, 493, 100, 493)


def test_they_fill_batches_up_to_the_batch_size():
    arrived = answer([thin(10 * n) for n in range(50)], replace(place(), batch_bytes=200))
    items = prepared(arrived)
    assert len(items) > 3
    assert all(len(item.payload) <= 200 for item in items)
    assert [(item.sequence, item.end) for item in items[1:]] == [
        (before.sequence + before.count, item.last_source + 1) for before, item in itertools.pairwise(items)
    ]
    assert sum(item.batches for item in items) == 50


def test_small_batches_between_those_that_must_be_opened_go_with_them():
    arrived = answer([batch(0), thin(3), batch(6), batch(10), thin(13), batch(16), batch(20)], place())
    first, opened, *behind = arrived.items
    assert isinstance(first, Run)
    assert isinstance(opened, Prepared)
    assert (first.stop, opened.count, opened.batches, opened.end) == (1, 10, 4, 16)
    assert [(run.at, run.stop) for run in behind if isinstance(run, Run)] == [(5, 6), (6, 7)]
    assert segments(arrived) == [(0, 0), (4, 5), (8, 10), (12, 15), (16, 20)]


def test_a_large_batch_between_those_that_must_be_opened_is_not():
    arrived = answer([thin(0), batch(3, size=LARGE), thin(6)], place())
    assert [type(item) for item in arrived.items] == [Prepared, Run, Prepared]


def test_what_is_dropped_between_those_that_must_be_opened_is_not_in_them():
    arrived = answer([thin(0), marker(3, COMMIT), thin(4), marker(7, COMMIT)], place())
    (item,) = prepared(arrived)
    assert (item.count, item.batches, item.end, arrived.end, arrived.dropped) == (4, 2, 7, 8, 2)
    assert segments(arrived) == [(0, 0), (1, 2), (2, 4), (3, 6)]


def test_what_lies_before_a_batch_that_cannot_be_opened_is_taken():
    bad = bytearray(thin(20).encode())
    bad[61] = 0
    records = thin(0).encode() + thin(10).encode() + sealed(bytes(bad)) + thin(30).encode()
    arrived = arrival(batches.index(records), records, (), place(), rules())
    (item,) = prepared(arrived)
    assert (item.count, item.end) == (4, 13)
    assert (arrived.end, arrived.next_sequence, arrived.continues_at) == (20, 4, 13)
    assert "offset 20" in str(arrived.obstacle)


def old_answer(log: Sequence[Old], here: Place) -> Arrival:
    records = b"".join(old.encode() for old in log)
    return arrival(batches.index(records), records, (), here, rules())


def test_a_backlog_of_old_messages_becomes_one_batch():
    recs = tuple(Rec(n, NOW_MS + n, b"%d" % n, b"v" * 100) for n in range(1000))
    arrived = old_answer([Old(records=recs, magic=0), Old(records=recs, base_offset=1000)], place())
    (item,) = prepared(arrived)
    assert (item.count, item.batches, item.end, segments(arrived)) == (2000, 2000, 2000, [(0, 0)])


def test_a_position_inside_a_compressed_old_message_trims_it():
    """Its header tells of its last record alone."""
    recs = tuple(Rec(n, NOW_MS, b"%d" % n) for n in range(10))
    log = [Old(records=recs, base_offset=100, codec=Codec.GZIP), Old(records=recs, base_offset=110, codec=Codec.GZIP)]
    arrived = old_answer(log, place(104))
    (item,) = prepared(arrived)
    assert [r.key for r in read(item.payload).records] == [b"%d" % n for n in [*range(4, 10), *range(10)]]
    assert (item.source, item.last_source, arrived.end, segments(arrived)) == (104, 119, 120, [(0, 104)])
    assert old_answer(log, place(110)).dropped == 1


def test_an_obstacle_among_old_messages_leaves_what_lies_before_it():
    recs = (Rec(0, NOW_MS), Rec(4, NOW_MS))
    bad = wrapper(1, 24, b"", Codec.GZIP)
    for before in (Old(records=recs, base_offset=10, codec=Codec.LZ4), Old(records=recs, base_offset=10)):
        records = before.encode() + bad + Old(records=recs, base_offset=30).encode()
        arrived = arrival(batches.index(records), records, (), place(7), rules())
        (item,) = prepared(arrived)
        assert (item.count, item.end, arrived.end, segments(arrived)) == (2, 15, 15, [(0, 10), (1, 14)])
        assert "offset 24: the compressed message holds no messages" in str(arrived.obstacle)


@given(old_logs(), st.data())
def test_items_and_segments_account_for_every_old_record(log: list[Old], data: st.DataObject):
    position = data.draw(st.integers(log[0].base_offset, log[-1].last_offset))
    arrived = old_answer(log, replace(place(position), batch_bytes=data.draw(st.integers(62, 500))))
    wanted = [r.offset for old in log for r in old.seen() if r.offset >= position]
    begun, translated, source = dict(segments(arrived)), [], NO_OFFSET
    for count in range(arrived.next_sequence):
        source = begun.get(count, source + 1)
        translated.append(source)
    assert translated == wanted
    assert [item.sequence for item in arrived.items] == [0, *itertools.accumulate(i.count for i in prepared(arrived))][
        :-1
    ]
    assert (arrived.end, arrived.obstacle) == (log[-1].last_offset + 1, None)


def test_a_partition_has_what_must_be_opened_merged_up_to_its_batch_size():
    copy = replace(partition(), batch_bytes=250)
    copy.begin(0, 0, NO_RECORD, opened=True)
    take(copy, *(thin(10 * n) for n in range(50)))
    sent = [copy.next_batch() for _ in range(3)]
    assert [0 < 250 - len(batch.payload) < 70 for batch in sent if batch] == [True] * 3
    last = [batch for batch in sent if batch][-1]
    assert (last.opened, last.end) == (True, last.last_source + 1)
    assert last.batches > 3


def test_old_messages_from_until_on_are_not_taken():
    recs = tuple(Rec(n, NOW_MS) for n in range(5))
    log = [Old(records=recs, base_offset=5 * n, codec=Codec.GZIP) for n in range(4)]
    for until, end in ((10, 10), (9, 10), (11, 15)):
        arrived = old_answer(log, place(3, until=until))
        assert (arrived.end, arrived.next_sequence, arrived.dropped) == (end, end - 3, 0)
