"""The next batch of a queue: passed, merged or prepared, whatever the order in which answers came."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from sparkmirror import batches
from sparkmirror.copy.arrivals import Rules, Ticket
from sparkmirror.copy.outgoing import Outgoing, Waiting, next_outgoing
from sparkmirror.offsets.segments import SEQUENCES
from tests.batches.building import Rec, Written, logs, read
from tests.copy.making import LARGE, NOW_MS, WRITER, answer, batch, place, rules

RULES = rules()

_limits, _sequences = st.sampled_from([300, 2_000, 1 << 20]), st.sampled_from([0, SEQUENCES - 5])


def queue(*answers: Sequence[Written], sequence: int = 0, start: int = 0, **limits: int) -> deque[Waiting]:
    """What waits after answers came one after the other."""
    waiting: deque[Waiting] = deque()
    here = place(start, next_sequence=sequence, **limits)
    for written in answers:
        arrived = answer(written, here)
        waiting += arrived.items
        here = place(arrived.end, next_sequence=arrived.next_sequence, continues_at=arrived.continues_at, **limits)
    return waiting


def drained(waiting: deque[Waiting], limit: int = 1 << 20, asked: Rules = RULES, room: int = 0) -> list[Outgoing]:
    sent = []
    while waiting:
        sent.append(next_outgoing(waiting, WRITER, asked, limit, room))
    return sent


def test_a_lone_batch_passes_as_it_is():
    written = batch(5, 3, codec=batches.Codec.ZSTD)
    (one,) = drained(queue([written], start=5, sequence=40))
    assert bytes(one.payload[61:]) == written.encode()[61:]
    assert (one.sequence, one.count, one.source, one.last_source, one.end) == (40, 3, 5, 7, 8)
    assert (one.batches, one.opened, one.held) == (1, False, len(written.encode()))
    seen = read(one.payload)
    assert (seen.base_offset, seen.producer) == (0, (WRITER.producer_id, WRITER.epoch, 40))


def test_the_answers_bytes_stay_as_they_came():
    """They may be read again: by the batches beside, and by a retry of the whole answer."""
    waiting = queue([batch(0, size=LARGE), batch(3, size=LARGE)])
    before = waiting[0].records  # type: ignore[union-attr]  # a run
    copy = bytes(before)
    drained(waiting)
    assert before == copy


def test_small_batches_that_wait_together_become_one():
    (one,) = drained(queue([batch(0, 3), batch(3, 2)], [batch(5, 4)]))
    assert [record.key for record in read(one.payload).records] == [b"%d" % n for n in range(9)]
    assert (one.batches, one.count, one.source, one.last_source, one.end, one.opened) == (3, 9, 0, 8, 9, False)
    assert one.held == sum(len(b.encode()) for b in (batch(0, 3), batch(3, 2), batch(5, 4)))


def test_large_batches_are_never_merged():
    assert [one.batches for one in drained(queue([batch(n, 1, size=LARGE) for n in range(3)]))] == [1, 1, 1]


def test_merging_goes_on_across_a_hole_when_its_segment_is_on_record():
    waiting = queue([batch(0, 2)], [batch(50, 2)])
    waiting[1].ticket = Ticket(acknowledged=True)
    (one,) = drained(waiting)
    assert (one.count, one.source, one.last_source, one.end) == (4, 0, 51, 52)


def test_merging_ends_before_what_waits_for_its_ticket():
    waiting = queue([batch(0, 2)], [batch(50, 2)])
    waiting[1].ticket = Ticket()
    one = next_outgoing(waiting, WRITER, RULES, 1 << 20)
    assert (one.count, one.end, len(waiting)) == (2, 2, 1)


def test_merged_batches_stay_below_the_limit():
    written = [batch(n, 1, size=1_000) for n in range(40)]
    sent = drained(queue(written), limit=10_000)
    assert all(len(one.payload) <= 10_000 for one in sent)
    assert [one.sequence for one in sent] == [one.source for one in sent]
    assert sum(one.batches for one in sent) == 40
    assert len(sent) <= 6


def test_a_batch_above_the_merge_limit_goes_alone():
    sent = drained(queue([batch(0, 1, size=100), batch(1, 1, size=20_000), batch(2, 1, size=100)]), limit=10_000)
    assert [one.source for one in sent] == [0, 1, 2]


def test_a_prepared_batch_goes_between_its_neighbours():
    thin = Written(records=(Rec(0, NOW_MS, b"2"), Rec(3, NOW_MS, b"5")), base_offset=2)
    sent = drained(queue([batch(0, 2), thin, batch(6, 1)]))
    assert [(one.sequence, one.count, one.source, one.opened) for one in sent] == [
        (0, 2, 0, False),
        (2, 2, 2, True),
        (4, 1, 6, False),
    ]


def test_sequences_wrap_between_batches_and_inside_one():
    alone = drained(queue([batch(n, 2, size=LARGE) for n in (0, 2, 4)], sequence=SEQUENCES - 3))
    assert [one.sequence for one in alone] == [SEQUENCES - 3, SEQUENCES - 1, 1]
    (merged,) = drained(queue([batch(0, 2), batch(2, 2)], sequence=SEQUENCES - 3))
    assert read(merged.payload).producer[2] == SEQUENCES - 3
    parts = drained(queue([batch(n, 1, size=3_000) for n in range(6)], sequence=SEQUENCES - 3), limit=7_000)
    assert [one.sequence for one in parts] == [(SEQUENCES - 3 + one.source) % SEQUENCES for one in parts]


@given(
    st.lists(logs(), min_size=1, max_size=3), st.sampled_from([300, 2_000, 1 << 20]), st.sampled_from([0, 2**31 - 5])
)
def test_whatever_waits_is_sent_once_and_in_order(answers: list[list[Written]], limit: int, began: int):
    """Offsets of the answers are made to follow each other; keys and values are compared, byte for byte."""
    shift, moved = answers[0][0].base_offset, []
    for written in answers:
        gap = shift - written[0].base_offset
        moved.append([_moved(one, gap) for one in written])
        shift = moved[-1][-1].last_offset + 1
    waiting = queue(*moved, sequence=began, start=moved[0][0].base_offset)
    held = sum(item.held for item in waiting)
    sent = drained(waiting, limit=limit)
    wanted = [record for written in moved for one in written for record in one.seen()]
    got = [record for one in sent for record in read(one.payload).records]
    assert [(r.key, r.value, r.headers, r.time) for r in got] == [(r.key, r.value, r.headers, r.time) for r in wanted]
    assert sum(one.held for one in sent) == held
    sequence = began
    for one in sent:
        assert read(one.payload).producer == (WRITER.producer_id, WRITER.epoch, one.sequence)
        assert one.sequence == sequence
        sequence = (sequence + one.count) % SEQUENCES
    assert [one.source for one in sent] == sorted(one.source for one in sent)
    assert sent[-1].end == moved[-1][-1].last_offset + 1


def _moved(written: Written, gap: int) -> Written:
    return replace(written, base_offset=written.base_offset + gap)


def compressible(count: int) -> list[Written]:
    """Batches of one record each, compressed, which shrink to about a tenth when they are merged."""
    return [batch(n, 1, size=2_000, codec=batches.Codec.LZ4) for n in range(count)]


def test_more_goes_into_a_batch_that_compression_makes_small_enough():
    plain = drained(queue(compressible(60), small_compressed=1 << 20), limit=20_000)
    roomy = drained(queue(compressible(60), small_compressed=1 << 20), limit=20_000, room=100_000)
    assert len(roomy) < len(plain) / 3
    assert all(len(one.payload) <= 20_000 for one in roomy)
    assert [record.key for one in roomy for record in read(one.payload).records] == [b"%d" % n for n in range(60)]
    assert [one.poured for one in roomy] == [100_000] * (len(roomy) - 1) + [0], "the last one was not full"


def test_a_batch_that_comes_out_too_large_is_made_again_without_the_room():
    """Records that do not shrink: the guess was wrong, and the target must not see it."""
    written = [batch(n, 1, size=1_000) for n in range(40)]
    sent = drained(queue(written), limit=10_000, room=40_000)
    assert all(len(one.payload) <= 10_000 for one in sent)
    assert [record.key for one in sent for record in read(one.payload).records] == [b"%d" % n for n in range(40)]
    assert sent[0].poured == 10_000


def test_headers_do_not_count_when_small_batches_fill_a_large_one():
    """Of a batch of one record of ten bytes most is header: several answers go in one."""
    answers = [[batch(100 * number + n, 1, size=5) for n in range(100)] for number in range(4)]
    first, *_ = drained(queue(*answers), limit=8_000)
    assert first.batches > 200


def test_there_is_no_room_where_brokers_compress_anew_and_look_at_the_size_then():
    target = batches.TargetTopic(
        log_append_time=False, max_message_bytes=20_000, codec=batches.Codec.LZ4, enforced=True
    )
    sent = drained(queue(compressible(60), small_compressed=1 << 20), 20_000, rules(target=target), room=100_000)
    assert all(one.poured <= 20_000 for one in sent)
    assert len(sent) >= 60 * 2_000 / 20_000
