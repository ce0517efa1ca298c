"""Which target topics hold heartbeats and nothing else."""

from __future__ import annotations

import pytest

from sparkmirror import batches
from sparkmirror.duties.heartbeat_copies import LARGEST, are_heartbeats, hold_heartbeats
from sparkmirror.errors import LinkError
from sparkmirror.kafka.leaders import OffsetSpec
from sparkmirror.kafka.reading import Read
from sparkmirror.kafka.rounds import Results
from sparkmirror.mm2.heartbeats import Heartbeat
from sparkmirror.model import TopicPartition
from tests.batches.building import Rec, Written

BEAT = Heartbeat(source="A", target="B", timestamp_ms=1_700_000_000_000)
PLACES = [TopicPartition("A.heartbeats", number) for number in (0, 1)]


def test_a_heartbeat_is_a_record_that_has_nothing_beside_one():
    rows: list[tuple[bytes | None, bytes | None]] = [
        (BEAT.key, BEAT.value),
        (BEAT.key + b"x", BEAT.value),
        (BEAT.key, BEAT.value + b"x"),
        (None, BEAT.value),
    ]
    rows += [(BEAT.key, None), (b"17", b"only on B"), (b"", b""), (b"\xff" * 8, BEAT.value)]
    large = bytes(LARGEST + 1)
    rows += [(large, BEAT.value), (BEAT.key, large)]
    records = tuple(Rec(number, 1, key, value) for number, (key, value) in enumerate(rows))
    table = batches.decode(batches.index(Written(records=records).encode()))
    assert are_heartbeats(table) == [True, *[False] * 9]


@pytest.mark.parametrize(
    ("told", "failed", "held"),
    [
        ({0: [True, True]}, (), True),
        ({0: [True], 1: [True]}, (), True),
        ({0: [True], 1: [True, False]}, (), False),
        ({0: []}, (), False),
        ({}, (), False),
        ({0: [True]}, (1,), False),
    ],
)
def test_what_cannot_be_read_or_has_anything_else_is_no_copy_of_heartbeats(
    monkeypatch: pytest.MonkeyPatch, told: dict[int, list[bool]], failed: tuple[int, ...], *, held: bool
):
    ends = {OffsetSpec.LATEST: 9, OffsetSpec.EARLIEST: 0}
    monkeypatch.setattr(
        "sparkmirror.duties.heartbeat_copies.admin.find_offsets",
        lambda _, places, at, **__: Results(found=dict.fromkeys(places, ends[at]), failed={}),
    )
    read = Results(
        found={PLACES[number]: Read(records=some, end=9) for number, some in told.items()},
        failed={PLACES[number]: LinkError(cluster="B", address="b:1", reason="no") for number in failed},
    )
    monkeypatch.setattr("sparkmirror.duties.heartbeat_copies.read_up_to", lambda *_: read)
    assert hold_heartbeats(None, PLACES, 1_000) == ({"A.heartbeats"} if held else frozenset())  # type: ignore[arg-type]  # nobody is asked
