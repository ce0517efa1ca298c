"""What a lane makes of an answer whose records name the clusters they have come through."""

from __future__ import annotations

import numpy as np
import pytest

from sparkmirror import batches
from sparkmirror.batches import HEADER_NAME, Codec, Provenance
from sparkmirror.copy.arrivals import Arrival, Ticket, arrival
from sparkmirror.model import NO_OFFSET
from tests.batches.building import Rec, Written, log, read, sealed
from tests.batches.oracle import Header
from tests.copy.making import WRITER, partition, place, rules

FLOW = Provenance(source="b", target="c")
CAME = (HEADER_NAME, b"a")
BACK = (HEADER_NAME, b"c,a")


def written(offset: int, *headers: Header | None, codec: Codec = Codec.NONE) -> Written:
    """A batch of records, one for each header that it has or not."""
    records = tuple(
        Rec(number, 1_000 + number, b"k", b"%d" % (offset + number), () if header is None else (header,))
        for number, header in enumerate(headers)
    )
    return Written(records=records, base_offset=offset, codec=codec)


def answered(*some: Written, ways: batches.Ways | None = None, position: int = 0) -> Arrival:
    data = log(some)
    return arrival(batches.index(data), data, (), place(position), rules(provenance=FLOW), ways)


def sent(arrived: Arrival) -> list[tuple[int, int, Codec, list[tuple[bytes | None, bytes | None]]]]:
    """What leaves: sequence, source offset, codec, and value and header of each record."""
    copy = partition()
    copy.take(arrived, Ticket(acknowledged=True))
    found = []
    while (batch := copy.next_batch()) is not None:
        made = read(batch.payload)
        values = [(record.value, dict(record.headers)[HEADER_NAME]) for record in made.records]
        found.append((batch.sequence, batch.source, made.codec, values))
        copy.acknowledged(batch, batch.sequence)
    return found


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.ZSTD])
def test_each_record_leaves_with_its_way_and_the_codec_that_it_came_with(codec: Codec) -> None:
    arrived = answered(written(0, None, CAME, codec=codec), written(2, CAME, codec=codec))
    assert [each[:2] for each in arrived.openings] == [(0, 0)]
    assert (arrived.end, arrived.next_sequence, arrived.obstacle) == (3, 3, None)
    assert sent(arrived) == [(0, 0, codec, [(b"0", b"b"), (b"1", b"a,b"), (b"2", b"a,b")])]


def test_what_has_been_on_the_target_leaves_a_hole_in_the_map() -> None:
    arrived = answered(written(0, None, BACK, None), written(3, BACK, BACK), written(5, None), written(6, BACK))
    assert [each[:2] for each in arrived.openings] == [(0, 0), (1, 2), (2, 5)]
    assert (arrived.end, arrived.next_sequence, arrived.dropped) == (7, 3, 2)
    values = [value for *_, some in sent(arrived) for value, _ in some]
    assert values == [b"0", b"2", b"5"]


def test_an_answer_of_which_nothing_is_left_moves_the_position() -> None:
    arrived = answered(written(0, BACK), written(1, BACK))
    assert (arrived.items, arrived.openings, arrived.end, arrived.dropped) == ([], [], 2, 2)
    copy = partition()
    copy.take(arrived, Ticket(acknowledged=True))
    assert copy.position == 2


def test_the_position_may_lie_inside_a_batch() -> None:
    arrived = answered(written(0, None, BACK, None, None), position=2)
    assert sent(arrived) == [(0, 2, Codec.NONE, [(b"2", b"b"), (b"3", b"b")])]


def test_what_the_registry_tells_of_a_batch_is_written_where_its_records_do_not_tell() -> None:
    ways: batches.Ways = {("a",): np.array([True, False])}
    arrived = answered(written(0, None, (HEADER_NAME, b"x")), written(2, None), ways=ways)
    assert [header for *_, some in sent(arrived) for _, header in some] == [b"a,b", b"x,b", b"b"]


def test_a_batch_that_cannot_be_opened_stops_the_partition_behind_what_lies_before_it() -> None:
    bad = bytearray(written(1, None, None, codec=Codec.GZIP).encode())
    bad[66:76] = bytes(10)
    data = log([written(0, None)]) + sealed(bytes(bad))
    arrived = arrival(batches.index(data), data, (), place(), rules(provenance=FLOW))
    assert arrived.obstacle is not None
    assert (arrived.obstacle.offset, arrived.end, len(arrived.items)) == (1, 1, 1)


def test_a_record_that_no_longer_fits_is_the_obstacle() -> None:
    data = log([Written(records=(Rec(0, 1, None, bytes(900)),))])
    target = batches.TargetTopic(log_append_time=False, max_message_bytes=len(data) + 20)
    index = batches.index(data)
    assert arrival(index, data, (), place(), rules(target=target)).obstacle is None
    refused = arrival(index, data, (), place(), rules(target=target, provenance=FLOW)).obstacle
    assert refused is not None
    assert (refused.offset, "larger than the target topic's max.message.bytes" in str(refused)) == (0, True)


def test_the_writer_of_what_is_marked_is_the_lane() -> None:
    copy = partition()
    copy.take(answered(Written(records=(Rec(0, 1),), producer=(900, 7, 5))), Ticket(acknowledged=True))
    batch = copy.next_batch()
    assert batch is not None
    made = read(batch.payload)
    assert (made.producer, copy.plan.until) == ((WRITER.producer_id, WRITER.epoch, 0), NO_OFFSET)
