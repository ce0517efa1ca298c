"""What two readers, or two sides of a mirror, do not agree on is named by place, offsets and field."""

from __future__ import annotations

from typing import Any

import pytest

from sparkmirror.lab.agreement import mirror_differences, reader_differences
from sparkmirror.lab.readers import Logs, Seen


def seen(number: int, **changed: Any) -> Seen:
    headers: tuple[tuple[str, bytes | None], ...] = (("h", b"1"), ("h", None))
    return Seen(number, "CreateTime", 1000 + number, b"k%d" % number, b"v%d" % number, headers)._replace(**changed)


SOURCE: Logs = {("t", partition): [seen(number) for number in range(5)] for partition in range(2)}


def mirrored(place: int, changed: list[Seen]) -> list[str]:
    target = {("a.t", partition): changed if partition == place else log for (_, partition), log in SOURCE.items()}
    return mirror_differences(SOURCE, target, {"t": "a.t"})


def test_a_mirror_may_give_other_offsets_and_two_readers_may_not():
    moved = [record._replace(offset=record.offset + 7) for record in SOURCE["t", 1]]
    assert mirrored(1, moved) == []
    (words,) = reader_differences(SOURCE, SOURCE | {("t", 1): moved})
    assert words == "t partition 1: record 0, offset 0 against 7: offset 0 against 7"
    assert reader_differences(SOURCE, SOURCE) == []


@pytest.mark.parametrize(
    ("field", "value", "named"),
    [
        ("key", b"", "key b'k3' against b''"),
        ("value", None, "value b'v3' against None"),
        (
            "headers",
            (("h", None), ("h", b"1")),
            "headers (('h', b'1'), ('h', None)) against (('h', None), ('h', b'1'))",
        ),
        ("timestamp_ms", -1, "timestamp_ms 1003 against -1"),
        ("timestamp_type", "LogAppendTime", "timestamp_type 'CreateTime' against 'LogAppendTime'"),
    ],
)
def test_a_changed_field_is_named(field: str, value: Any, named: str):
    changed = [record._replace(**{field: value}) if record.offset == 3 else record for record in SOURCE["t", 1]]
    assert mirrored(1, changed) == [f"t partition 1: record 3, offset 3 against 3: {named}"]


def test_missing_extra_and_exchanged_records_are_found():
    whole = SOURCE["t", 0]
    (words,) = mirrored(0, whole[:-1])
    assert words.startswith("t partition 0: 5 records against 4: only one side has Seen(offset=4")
    assert "4 records against 5" in mirror_differences({("t", 0): whole[:-1]}, {("c", 0): whole}, {"t": "c"})[0]
    assert mirrored(0, [whole[1], whole[0], *whole[2:]]) != []


def test_a_partition_that_only_one_side_has_is_found_and_other_topics_are_not_looked_at():
    alone = {("a.t", 0): SOURCE["t", 0], ("a.t", 1): SOURCE["t", 1], ("a.t", 2): [seen(0)], ("other", 0): [seen(0)]}
    (words,) = mirror_differences(SOURCE, alone, {"t": "a.t"})
    assert words.startswith("t partition 2: 0 records against 1")
