"""Where groups stood before they were moved, on the operation's record."""

from __future__ import annotations

import gzip
import random
from typing import Any

from sparkmirror.failover.earlier import AT_MOST, Row, added, earlier_in, told_of_again, with_before
from sparkmirror.failover.states import AGAIN, EARLIER, MOVED, Kind, Step
from sparkmirror.kafka.journal import BATCH_BYTES
from sparkmirror.model import NO_OFFSET, TopicPartition
from sparkmirror.offsets.ledger import Operation

ORDERS, OTHERS = TopicPartition("orders", 0), TopicPartition("others", 3)


def operation(**facts: Any) -> Operation:
    return Operation(
        token="t",
        number=1,
        id="failover-1",
        kind=Kind.FAILOVER.value,
        step=Step.VERIFYING.name,
        source="a",
        target="b",
        began_ms=0,
        time_ms=0,
        by="me",
        facts=facts,
    )


def test_what_places_had_is_kept_by_topic_and_group_and_each_offset_once():
    kept = added({}, [("g", ORDERS, 5), ("g", OTHERS, 7), ("h", ORDERS, 5)])
    assert kept == {"orders": {"g": [0, 5], "h": [0, 5]}, "others": {"g": [3, 7]}}
    more = added(kept, [("g", ORDERS, 5), ("g", ORDERS, 8)])
    assert more["orders"]["g"] == [0, 5, 0, 8]
    assert kept["orders"]["g"] == [0, 5], "what is on record is another object's"
    read = earlier_in(operation(**{MOVED: ["g"], EARLIER: more, AGAIN: {"orders": {"g": [0, 5]}}}))
    assert set(read.moved) == {"g"}
    assert [set(read.before[(group, ORDERS)]) for group in "gh"] == [{5, 8}, {5}]
    assert read.again == {("g", ORDERS): {5}}


def test_what_was_moved_once_more_is_told_in_one_line():
    assert told_of_again(earlier_in(operation()), "b") == ()
    rows: list[Row] = [(f"g{number}", ORDERS, number) for number in range(4)]
    (line,) = told_of_again(earlier_in(operation(**{AGAIN: added({}, [("f", OTHERS, NO_OFFSET), *rows])})), "b")
    assert "f at others-3 (none), g0 at orders-0 (0), g1 at orders-0 (1) and 2 more" in line


def test_what_does_not_fit_is_not_kept():
    rows: list[Row] = [(f"g{number}", ORDERS, number) for number in range(AT_MOST + 5)]
    half = with_before({}, rows[: AT_MOST - 2])
    full = with_before(half, rows[AT_MOST - 2 :])
    assert len(full["orders"]) == AT_MOST
    assert with_before(full, rows[-1:]) == full


def test_thousands_of_groups_fit_into_one_record():
    """Brokers take 1 MiB in a batch by default; one this large is compressed."""
    chance = random.Random(1)
    names = [f"application-{number:05d}" for number in range(5_000)]
    rows = [
        (name, TopicPartition("orders", number), chance.randrange(10_000_000)) for name in names for number in range(2)
    ]
    text = operation(**{MOVED: names, EARLIER: added({}, rows)}).value()
    assert len(text) < BATCH_BYTES // 2
    assert len(gzip.compress(text.encode())) < BATCH_BYTES // 6
