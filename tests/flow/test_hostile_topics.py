"""Whatever lies in the topics of a mirror: nothing that reads them ends, or raises but what it says that it raises.

Some tens of thousands of records run with the fast tests, from a fixed seed; ``SPARKMIRROR_EXAMPLES=100000`` runs as
many of each, from another seed each time.
"""

from __future__ import annotations

import os
import random
import struct
import time
import tracemalloc
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import fields
from typing import Any

import pytest

from sparkmirror.batches import Codec
from sparkmirror.config import ClientSettings, Endpoint, FlowConfig
from sparkmirror.copy import control
from sparkmirror.copy.control import ControlState, Handed
from sparkmirror.copy.orders import Orders
from sparkmirror.copy.registrations import Registration, registrations
from sparkmirror.copy.target_facts import TargetFacts
from sparkmirror.errors import BatchError
from sparkmirror.events import Event, Kind
from sparkmirror.flow.signs import Heard
from sparkmirror.flow.status import told
from sparkmirror.kafka.journal import Entry, decode, encode
from sparkmirror.kafka.stored_records import OPENED_BYTES, open_records
from sparkmirror.mm2.checkpoints import Checkpoint, read_checkpoint, read_key
from sparkmirror.mm2.offset_syncs import OffsetSync, read_offset_sync
from sparkmirror.mm2.stored_offsets import Owner, StoredOffset, newest
from sparkmirror.model import Alias, Copied, FlowName, LastRecord, Reached, TopicPartition, Writer
from sparkmirror.offsets.duty_records import AclRecord, DutyRound, OccupiedTopic
from sparkmirror.offsets.group_records import (
    ExactTarget,
    FlowCommit,
    GroupCommitted,
    GroupLeft,
    GroupSeen,
    GroupsSeen,
    LogBefore,
    Origin,
    UpstreamOffset,
)
from sparkmirror.offsets.holes import pack
from sparkmirror.offsets.inherited import Elsewhere, Inherited
from sparkmirror.offsets.ledger import Claim, Operation
from sparkmirror.offsets.orders import DiscoverOrder, HoldOrder, MoveOrder, RateOrder, TopicOrder
from sparkmirror.offsets.records import (
    FlowRecord,
    Happened,
    Life,
    Progress,
    Record,
    SourceEpoch,
    Stopped,
    parse,
    part_of,
    partition_of,
)
from sparkmirror.offsets.recovery import RecoveryPoint
from sparkmirror.offsets.segments import Moved, Ordered, Parted, Segments, Targets
from sparkmirror.offsets.source_history import Begun
from sparkmirror.offsets.state import JournalState
from tests.batches.building import Rec, Written, sealed
from tests.offsets.hostile import changed

EXAMPLES = int(os.environ.get("SPARKMIRROR_EXAMPLES", "0"))
RUN = "run-1"
HERE, WRITER = TopicPartition("orders", 7), Writer(producer_id=4_000, epoch=3)
HAPPENED = Event(kind=Kind.STOPPED, text="it stood", first=1, last=2, time_ms=3)
FLOW = FlowConfig(
    name=FlowName(source=Alias("A"), target=Alias("B")),
    source=Endpoint(
        alias=Alias("A"), **dict.fromkeys(("consumer", "producer", "admin"), ClientSettings(bootstrap_servers=("a:1",)))
    ),
    target=Endpoint(
        alias=Alias("B"), **dict.fromkeys(("consumer", "producer", "admin"), ClientSettings(bootstrap_servers=("b:1",)))
    ),
)
OURS: tuple[Record, ...] = (
    FlowRecord(source_alias="A", source_id="a", target_alias="B", target_id="b", naming="n", generation=3),
    Segments(partition=HERE, writer=WRITER, sequence=4, source=9, holes=pack([0, 3, 5, 9], [0, 4, 8, 20])),
    Targets(partition=HERE, writer=WRITER, sequence=4, target=9, holes=pack([0, 3], [0, 4])),
    Parted(partition=HERE, writer=WRITER, source=4),
    Moved(partition=HERE, writer=WRITER),
    Ordered(partition=HERE, writer=WRITER, stood=4, source=9),
    Progress(
        partition=HERE, writer=WRITER, generation=2, position=9, next_sequence=4, sequence=3, source=8, target=8,
        settled=True, reached=Reached(3, 9), topic_id="x", error="e", events=(HAPPENED,), newest_ms=5, time_ms=6,
    ),
    SourceEpoch(partition=HERE, epoch=4, offset=5, topic_id="x"),
    Happened(partition=HERE, event=HAPPENED),
    Life(
        generation=3, time_ms=4, state="running", lanes=2, events=("e",), recovery_ms=7, behind="orders-7", waiting=1,
        began_ms=3,
    ),
    DutyRound(name="topics", time_ms=1, interval_s=2.5, problems=("p",)),
    AclRecord(binding=("TOPIC", "t", "LITERAL", "User:a", "*", "READ", "ALLOW"), time_ms=1),
    OccupiedTopic(topic="t", topic_id="x", time_ms=1),
    TopicOrder(topic="orders", time_ms=1, by="me"),
    RateOrder(bytes_per_s=5, time_ms=1, by="me"),
    MoveOrder(partition=HERE, to=4, topic_id="x", time_ms=1, by="me", leader_epoch=2),
    HoldOrder(operation="failover-1", reason="r", time_ms=1, by="me"),
    DiscoverOrder(time_ms=1, by="me"),
    GroupSeen(
        group="g", topic="orders", offsets={0: (1, "m"), 7: (5, "")}, time_ms=1, topic_id="x",
        upstream={0: UpstreamOffset(3, "EXACT", left_out=2, log=LogBefore("x", (Begun(1, -1),)))},
        targets={7: ExactTarget(4, WRITER)},
    ),
    GroupsSeen(time_ms=1, unread={"g": 0}, origin=Origin("a", "b")),
    GroupCommitted(
        group="g", topic="A.orders", commits={7: FlowCommit(9, 8, (FlowCommit(5, 4),))}, tried={0: FlowCommit(1, 1)}
    ),
    GroupLeft(group="g", topic="orders", offsets={7: 3}, time_ms=1),
    Claim(token="t", displaces="", sign=1, by="me", time_ms=1),
    Operation(
        token="t", number=1, id="failover-1", kind="failover", step="STOPPING", source="A", target="B", began_ms=1,
        time_ms=1, by="me", facts={"times": {"MOVING": [1, 2]}},
    ),
    Stopped(generation=3, time_ms=1, exact_after=1, writers=(WRITER,)),
    Inherited(partition=HERE, spans=((0, 5),), end=5, points=((1, 1), (3, 3)), epochs=((0, 0),), time_ms=1),
    Elsewhere(topic="mm2-offsets", time_ms=1, pending=True),
)  # fmt: skip
HANDED = Handed(
    position=9, sequence=4, writer=WRITER, opened=True, last=LastRecord(3, 8, 8), copied=Copied(1, 2, 3), error="e"
)
ORDERS = Orders(
    paused=frozenset({"o"}), moving=frozenset({HERE}), share=1.5, shares={"lane-0": 2.0}, guarded_ms=5,
    facts={"t": TargetFacts(max_message_bytes=5, log_append_time=True, codec="zstd")},
)  # fmt: skip
CONTROL: tuple[tuple[str, str], ...] = (
    (control.RUN_KEY, control.run_value(control.Announced(run=RUN, generation=3, driver=WRITER))),
    (control.drain_key(RUN), "{}"),
    (control.ready_key(RUN, "lane-0.1"), "{}"),
    (control.alive_key(RUN, "lane-0.1"), control.alive_value(RecoveryPoint(7, HERE))),
    (control.orders_key(RUN), ORDERS.text()),
    (control.lost_key(RUN, "lane-0.2"), "{}"),
    *control.handover_entries(RUN, "lane-0.1", {HERE: HANDED}),
)
WRITERS = Registration(producer_id=4_000, flow="A->B", cluster="b", origin=("a",), group=1, carried=("c",), headers=2)
STORED = StoredOffset(owner=Owner(connector="c", cluster=Alias("A")), partition=HERE, offset=5)
SYNC = OffsetSync(partition=HERE, upstream=5, downstream=6)
CHECKPOINT = Checkpoint(group="g", partition=HERE, upstream=5, downstream=6, metadata="m")


def chance_of() -> random.Random:
    return random.Random(time.time_ns() if EXAMPLES else 11)


def hostile(sound: Iterable[tuple[str | bytes, str | bytes]], count: int) -> Iterable[tuple[bytes, bytes]]:
    """Records that were sound; of some the key is changed, of some the value, of some both."""
    chance = chance_of()
    pairs = [tuple(part.encode() if isinstance(part, str) else part for part in pair) for pair in sound]
    for _ in range(EXAMPLES or count):
        key, value = chance.choice(pairs)
        which = chance.random()
        yield (changed(key, chance) if which < 0.4 else key, changed(value, chance) if which > 0.3 else value)


def entries(sound: Iterable[tuple[str | bytes, str | bytes]], count: int) -> Iterable[Entry]:
    """As `Journal` reads them."""
    for offset, (key, value) in enumerate(hostile(sound, count)):
        text = [part.decode(errors="surrogateescape") for part in (key, value)]
        yield Entry(offset, *text)


def assert_typed(record: Any) -> None:
    """Fields are of the types that they are declared with, so that nobody behind the border has to look."""
    plain = {"int": int, "str": str, "bool": bool, "float": float}
    for one in fields(record):
        if one.type in plain:
            assert type(getattr(record, one.name)) is plain[str(one.type)], (record, one.name)


def test_the_internal_topic_is_read_whatever_it_holds():
    state, taken = JournalState(), 0
    for entry in entries([(one.key, one.value()) for one in OURS], 20_000):
        with suppress(ValueError):
            record = parse(entry.key, entry.value or "")
            if record is not None:
                assert_typed(record)
                state.take(record)
                taken += 1
        if entry.offset % 16 == 0:
            state.forget(entry.key)
        part_of(entry.key)
        partition_of(entry.key)
        if entry.offset % 1_000 == 0:
            told(FLOW, state, now_ms=1)
            state.in_doubt()
            state.endings()
            state = JournalState()
    assert taken > 100, "some stay sound"


@pytest.mark.parametrize("one", OURS, ids=lambda one: type(one).__name__)
def test_the_records_that_are_changed_are_sound_before(one: Record):
    assert parse(one.key, one.value()) == one


def test_lanes_and_drivers_read_the_control_topic_whatever_it_holds():
    lane, driver = ControlState(run=RUN), Heard(RUN)
    for entry in entries(CONTROL, 8_000):
        lane.take([entry])
        driver.take([entry], 1.0)
        lane.ended("lane-0.1")
        lane.orders.rate("lane-0.1")
    assert len(driver.foreign) > 0
    assert all(map(str.isprintable, driver.foreign.lines("t-0")[0].split(" key ")[0]))


def test_registrations_and_positions_of_mirror_maker_are_read_whatever_lies_beside_them():
    assert len(registrations(entries([(WRITERS.key, WRITERS.value)], 3_000))) > 100
    readers: tuple[tuple[bytes, bytes, Callable[[bytes, bytes], object]], ...] = (
        (STORED.key, STORED.value or b"", lambda key, value: newest([(key, value)])),
        (SYNC.key, SYNC.value, read_offset_sync),
        (CHECKPOINT.key(), CHECKPOINT.value(), read_checkpoint),
        (CHECKPOINT.key(), CHECKPOINT.value(), lambda key, _: read_key(key)),
    )
    for sound_key, sound_value, read in readers:
        for key, value in hostile([(sound_key, sound_value)], 2_000):
            with suppress(ValueError):
                read(key, value)


def damaged(whole: bytes, chance: random.Random) -> bytes:
    """Some batches with bits turned; of one in two the checksums are right again."""
    data = bytearray(whole)
    for _ in range(chance.randint(1, 3)):
        data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
    if chance.random() < 0.2:
        del data[chance.randrange(len(data)) :]
    if chance.random() < 0.5 and len(data) > 61:
        size = struct.unpack_from(">i", data, 8)[0] + 12
        if 61 <= size <= len(data):
            data[:size] = sealed(bytes(data[:size]))
    return bytes(data)


def test_batches_are_read_whatever_became_of_them():
    """One that opens to more than any of ours costs the memory of one, and no other is lost."""
    chance = chance_of()
    pairs = [(one.key, one.value()) for one in OURS]
    plain = Written(records=(Rec(0, 1, b"k"), Rec(1, 2, b"l")), base_offset=len(pairs), codec=Codec.ZSTD).encode()
    bomb = Written(records=(Rec(0, 1, b"k", bytes(2 * OPENED_BYTES)),), codec=Codec.ZSTD).encode()
    sound = encode(pairs) + plain
    assert len(decode(sound, 0)[0]) == len(pairs) + 2
    for _ in range(EXAMPLES or 1_500):
        with suppress(BatchError):
            assert open_records(damaged(sound, chance), 0).following >= 0
    tracemalloc.start()
    for answer in (bomb, bomb * 3, sound, damaged(sound, chance)):
        with suppress(BatchError):
            open_records(answer, 0)
    assert tracemalloc.get_traced_memory()[1] < 3 * OPENED_BYTES
    tracemalloc.stop()
