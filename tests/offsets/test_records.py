"""Records of the internal topic: what is written is read again, by this release and past later ones."""

from __future__ import annotations

import json
import pickle
from dataclasses import fields, replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparkmirror.events import Event, Kind
from sparkmirror.model import NO_OFFSET, UNKNOWN, Began, CopiedBefore, Reached, TopicPartition, Writer
from sparkmirror.offsets.duty_records import ACL_WORDS, AclRecord, DutyRound, OccupiedTopic
from sparkmirror.offsets.holes import NO_HOLES, pack
from sparkmirror.offsets.json_text import VERSION
from sparkmirror.offsets.orders import DiscoverOrder, MoveOrder, RateOrder, TopicOrder
from sparkmirror.offsets.records import (
    FLOW_KEY,
    STOPPED_KEY,
    FlowRecord,
    Happened,
    Later,
    Life,
    Progress,
    Record,
    SourceEpoch,
    Stopped,
    closing,
    parse,
)
from sparkmirror.offsets.recovery import UNKNOWN_MS
from sparkmirror.offsets.segments import (
    SEQUENCES,
    Moved,
    Opening,
    Ordered,
    Parted,
    Segments,
    Targets,
    segments_of,
    targets_of,
)

_offsets = st.integers(-1, 2**62)
_numbers = st.integers(0, 2**53)
_moments = st.integers(0, 253_402_214_400_000)
_leader_epochs = st.integers(-1, 2**31 - 1)
_texts = st.text(max_size=20)
_partitions = st.builds(TopicPartition, _texts, st.integers(0, 10_000))
_writers = st.builds(Writer, producer_id=_numbers, epoch=st.integers(0, 32_767))
_rates = st.integers(0, 10**10).map(lambda tenths: tenths / 10)
_happenings = st.builds(Event, kind=st.sampled_from(Kind), text=_texts, first=_offsets, last=_offsets, time_ms=_moments)
_events = st.lists(_texts, max_size=3).map(tuple)

_steps = st.lists(st.tuples(st.integers(1, 2**20), st.integers(1, 2**20)), max_size=5)
_holes = st.builds(
    lambda steps, thinned: pack(
        [sum(records for records, _ in steps[:n]) for n in range(len(steps) + 1)],
        [sum(map(sum, steps[:n])) for n in range(len(steps) + 1)],
        thinned=thinned,
    ),
    _steps,
    st.booleans(),
)

records: dict[str, st.SearchStrategy[Record]] = {
    "flow": st.builds(
        FlowRecord,
        source_alias=_texts,
        source_id=_texts,
        target_alias=_texts,
        target_id=_texts,
        naming=_texts,
        generation=_numbers,
        tells_since_ms=_moments,
        exact_after=_numbers,
        topics=st.lists(_texts).map(tuple),
        topics_exclude=st.lists(_texts).map(tuple),
        homeward=st.booleans(),
        groups=st.lists(_texts).map(tuple),
        groups_exclude=st.lists(_texts).map(tuple),
        home_since_ms=_moments,
        home_generation=_numbers,
        before=st.lists(_writers).map(tuple),
    ).map(lambda one: one if one.home_since_ms else replace(one, home_generation=0)),
    "segments": st.builds(
        Segments,
        partition=_partitions,
        writer=_writers,
        sequence=st.integers(0, SEQUENCES - 1),
        source=_numbers,
        holes=_holes,
        unguarded=st.booleans(),
        anew=st.booleans(),
    ),
    "targets": st.builds(
        Targets,
        partition=_partitions,
        writer=_writers,
        sequence=st.integers(0, SEQUENCES - 1),
        target=_offsets,
        holes=_holes,
    ),
    "moved": st.builds(Moved, partition=_partitions, writer=_writers),
    "ordered": st.builds(Ordered, partition=_partitions, writer=_writers, stood=_numbers, source=_numbers),
    "parted": st.builds(Parted, partition=_partitions, writer=_writers, source=_offsets),
    "progress": st.builds(
        Progress,
        partition=_partitions,
        writer=_writers,
        generation=_numbers,
        position=_offsets,
        next_sequence=st.integers(0, SEQUENCES - 1),
        sequence=_offsets,
        source=_offsets,
        target=_offsets,
        end=_offsets,
        leader_epoch=st.integers(-1, 2**31 - 1),
        topic_id=_texts,
        target_id=_texts,
        settled=st.booleans(),
        anew=st.booleans(),
        reached=st.builds(Reached, st.integers(-1, 9), st.integers(-1, 1 << 40)),
        records=_numbers,
        bytes=_numbers,
        rate=st.tuples(_rates, _rates),
        newest_ms=_offsets,
        recovery_ms=_offsets,
        time_ms=_moments,
        lane=_texts,
        error=_texts,
        events=st.lists(_happenings, max_size=3).map(tuple),
    ),
    "event": st.builds(Happened, partition=_partitions, event=_happenings),
    "life": st.builds(
        Life,
        generation=_numbers,
        time_ms=_moments,
        state=_texts,
        lanes=_numbers,
        events=_events,
        recovery_ms=_offsets,
        behind=_texts,
        waiting=_offsets,
    ),
    "duty": st.builds(
        DutyRound, name=_texts, time_ms=_moments, interval_s=st.floats(0, 1e9), changed=_numbers, problems=_events
    ),
    "acl": st.builds(
        AclRecord, binding=st.lists(_texts, min_size=ACL_WORDS, max_size=ACL_WORDS).map(tuple), time_ms=_moments
    ),
    "occupied": st.builds(OccupiedTopic, topic=_texts, topic_id=_texts, time_ms=_moments),
    "stopped": st.builds(
        Stopped,
        generation=_numbers,
        time_ms=_moments,
        exact_after=_numbers,
        writers=st.lists(_writers, max_size=3).map(tuple),
    ),
    "source-epoch": st.builds(
        SourceEpoch,
        partition=_partitions,
        epoch=_leader_epochs,
        offset=_numbers,
        topic_id=_texts,
    ),
    "paused": st.builds(TopicOrder, topic=_texts, time_ms=_moments, by=_texts),
    "discover": st.builds(DiscoverOrder, time_ms=_moments, by=_texts),
    "rate": st.builds(RateOrder, bytes_per_s=st.none() | _numbers, time_ms=_moments, by=_texts),
    "move": st.builds(
        MoveOrder,
        partition=_partitions,
        to=_numbers,
        topic_id=_texts,
        time_ms=_moments,
        by=_texts,
        target_id=_texts,
    ),
}
_any = st.one_of(*records.values())


@given(_any)
def test_a_record_comes_back_as_it_was_written(record: Record):
    assert parse(record.key, record.value()) == record
    assert pickle.loads(pickle.dumps(record)) == record


@given(_any)
def test_keys_and_values_are_plain_text_of_one_line(record: Record):
    for text in (record.key, record.value()):
        assert "\n" not in text
        text.encode()


@given(_any, st.integers(VERSION + 1, 99))
def test_a_record_of_a_later_version_is_named_and_not_read(record: Record, version: int):
    value = {"v": version, "everything": "else is new"}
    assert parse(record.key, json.dumps(value)) == Later(record.key, version)


@given(_any, st.sampled_from([0, -1, "1", None, 1.5]))
def test_a_version_that_no_release_writes_is_an_error(record: Record, version: object):
    value = json.loads(record.value()) | {"v": version}
    with pytest.raises(ValueError, match="not a record of an internal topic"):
        parse(record.key, json.dumps(value))


def test_a_kind_of_a_later_release_is_passed_over():
    assert parse('["checkpoint","orders",3]', '{"v":1,"anything":{}}') is None


@given(_any)
def test_what_a_later_release_adds_to_a_value_does_no_harm(record: Record):
    value = json.loads(record.value()) | {"added later": 1}
    assert parse(record.key, json.dumps(value)) == record


ADDED: dict[str, dict[str, Any]] = {
    "flow": {"tells_since_ms": 0, "exact_after": 0, "topics": (), "topics_exclude": (), "homeward": False}
    | {"groups": (), "groups_exclude": ()}
    | {"home_since_ms": 0, "home_generation": 0, "before": ()},
    "segments": {"unguarded": False, "anew": False, "holes": NO_HOLES},
    "targets": {"holes": NO_HOLES},
    "progress": {
        "dead_letters": 0,
        "loop_filtered": 0,
        "target_id": "",
        "settled": False,
        "anew": False,
        "reached": UNKNOWN,
        "recovery_ms": UNKNOWN_MS,
        "cut": NO_OFFSET,
        "copies_end": NO_OFFSET,
    },
    "event": {},
    "discover": {},
    "life": {"recovery_ms": UNKNOWN_MS, "behind": "", "waiting": -1, "began_ms": 0},
    "duty": {},
    "acl": {},
    "paused": {},
    "source-epoch": {},
    "stopped": {"exact_after": 0, "writers": ()},
    "rate": {},
    "move": {"target_id": ""},
}
"""Fields that the first records of this version did not have, and what they mean where they are missing."""


@pytest.mark.parametrize("kind", ADDED)
@given(data=st.data())
def test_a_field_that_was_added_to_this_version_may_be_missing(kind: str, data: st.DataObject):
    record = data.draw(records[kind])
    value = {name: field for name, field in json.loads(record.value()).items() if name not in ADDED[kind]}
    assert parse(record.key, json.dumps(value)) == replace(record, **ADDED[kind])


def test_segments_say_that_they_are_unguarded_anew_or_have_holes_only_where_it_is_so():
    here = Segments(partition=TopicPartition("t", 0), writer=Writer(producer_id=1, epoch=0), sequence=4, source=9)
    assert json.loads(here.value()).keys() == {"v", "source"}
    assert json.loads(replace(here, unguarded=True).value())["unguarded"] is True
    assert json.loads(replace(here, anew=True).value())["anew"] is True
    holes = pack([0, 3, 5], [0, 4, 8])
    assert json.loads(replace(here, holes=holes).value()).keys() == {"v", "source", "last", "holes"}
    assert json.loads(replace(here, holes=holes._replace(thinned=True)).value())["thinned"] is True


@given(_any, st.data())
def test_a_value_that_lacks_something_is_an_error(record: Record, data: st.DataObject):
    value = json.loads(record.value())
    del value[data.draw(st.sampled_from(sorted(value.keys() - {"thinned", *ADDED.get(json.loads(record.key)[0], ())})))]
    with pytest.raises(ValueError, match="not a record of an internal topic"):
        parse(record.key, json.dumps(value))


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("", "{}"),
        ("hello", "{}"),
        ("[]", '{"v":1}'),
        ("7", '{"v":1}'),
        ("{}", '{"v":1}'),
        ('[["flow"]]', '{"v":1}'),
        ('["flow"]', "hello"),
        ('["flow"]', "[1]"),
        ('["flow"]', '{"v":1}'),
        ('["segments","t",0]', '{"v":1,"source":1}'),
        ('["segments","t",0,1,1,1,1]', '{"v":1,"source":1}'),
        ('["segments","t",0,1,1,1]', '{"v":1,"source":1,"last":[1,2],"holes":"no base64"}'),
        ('["segments","t",0,1,1,1]', '{"v":1,"source":1,"holes":"AAAA"}'),
        ('["progress","t",0,1,1]', '{"v":1,"last":[1]}'),
        ('["acl","TOPIC","t"]', '{"v":1,"time_ms":1}'),
    ],
)
def test_what_is_not_a_record_is_an_error_that_names_its_key(key: str, value: str):
    with pytest.raises(ValueError, match="not a record of an internal topic") as caught:
        parse(key, value)
    assert key[:200] in str(caught.value)


@given(st.text(max_size=30), st.text(max_size=30))
def test_garbage_is_a_value_error_and_nothing_else(key: str, value: str):
    try:
        parse(key, value)
    except ValueError as failure:
        assert "not a record of an internal topic" in str(failure)  # noqa: PT017  # most garbage is one, some is a later kind


@pytest.mark.parametrize(
    ("records", "packed"),
    [(2**31 - 1, "AQX/////Bw=="), (2**31, "AQWAgICACA=="), (2**40, "AQWAgICAgCA=")],
    ids=["as many as there are sequence numbers", "one more", "any number"],
)
def test_a_block_has_no_more_records_than_an_epoch_has_sequence_numbers(records: int, packed: str):
    """A row stands for as many points as it says; what no mirror can have written is told before it is used."""
    value = json.dumps({"v": 1, "source": 1, "last": [records, 2 * records], "holes": packed})
    if records < SEQUENCES:
        assert isinstance(parse('["segments","t",0,1,1,1]', value), Segments)
        return
    with pytest.raises(ValueError, match="more records than an epoch has sequence numbers"):
        parse('["segments","t",0,1,1,1]', value)


def test_the_end_of_an_epoch_is_a_target_of_null():
    here = Targets(
        partition=TopicPartition("t", 0), writer=Writer(producer_id=1, epoch=0), sequence=4, target=NO_OFFSET
    )
    assert json.loads(here.value()) == {"v": 1, "target": None}
    assert parse(here.key, here.value()) == here


@given(records["progress"], records["progress"])
def test_progress_of_two_writers_or_partitions_never_shares_a_key(one: Progress, other: Progress):
    """An old lane's record must not overwrite a newer one's."""
    same = (one.partition, one.writer) == (other.partition, other.writer)
    assert (one.key == other.key) == same


def test_topics_that_look_like_keys_stay_apart():
    names = ['a","0', "a", "a,0", "ä", "\\u00e4", ""]
    keys = {
        Segments(partition=TopicPartition(n, 0), writer=Writer(producer_id=1, epoch=0), sequence=0, source=0).key
        for n in names
    }
    assert len(keys) == len(names)


def test_the_newest_progress_has_the_greatest_order():
    base = Progress(
        partition=TopicPartition("t", 0),
        writer=Writer(producer_id=1, epoch=5),
        generation=3,
        position=100,
        next_sequence=0,
    )
    older = [
        replace(base, generation=2, writer=Writer(producer_id=1, epoch=9), position=900),
        replace(base, writer=Writer(producer_id=1, epoch=4), position=900),
    ]
    assert all(one.order < base.order for one in older)


def test_fixed_keys_are_what_the_records_have():
    assert Stopped(generation=1, time_ms=2).key == STOPPED_KEY
    assert (
        FlowRecord(source_alias="A", source_id="a", target_alias="B", target_id="b", naming="n", generation=1).key
        == FLOW_KEY
    )


def test_the_format_on_the_topic_does_not_change():
    """Other releases read it: a change needs a new version."""
    place, writer = TopicPartition("größen", 2), Writer(producer_id=7, epoch=1)
    openings = [Opening(5, 40), Opening(15, 51), Opening(25, 62), Opening(28, 70)]
    here = segments_of(place, writer, openings, unguarded=False, anew=False)
    assert here.key == '["segments","größen",2,7,1,5]'
    assert here.value() == '{"v":1,"source":40,"last":[23,30],"holes":"AikOBQI="}'
    there = targets_of(place, writer, openings[:1])
    assert (there.key, there.value()) == ('["targets","größen",2,7,1,5]', '{"v":1,"target":40}')
    progress = Progress(
        partition=TopicPartition("t", 0),
        writer=Writer(producer_id=7, epoch=1),
        generation=3,
        position=9,
        next_sequence=4,
        ahead=6,
        restored=True,
        first=(3, 4),
        before=(9, 2, 3),
        inherited=CopiedBefore(0, 2, 1),
        began=Began(moved=3),
    )
    assert progress.key == '["progress","t",0,7,1]'
    assert set(json.loads(progress.value())) == {
        *(field.name for field in fields(Progress)),
        "v",
        "next",
        "last",
    } - {"partition", "writer", "next_sequence", "sequence", "source", "target"}


@pytest.mark.parametrize(
    ("changes", "ends"),
    [
        ({}, True),
        ({"settled": False}, False),
        ({"sequence": NO_OFFSET}, False),
        ({"sequence": SEQUENCES - 1, "next_sequence": 0}, False),
    ],
)
def test_an_epoch_ends_behind_its_last_record_unless_only_a_takeover_can_tell(changes: dict[str, Any], ends: bool):
    known = Progress(
        partition=TopicPartition("orders", 1),
        writer=Writer(producer_id=7, epoch=1),
        generation=1,
        position=10,
        next_sequence=10,
        sequence=9,
        settled=True,
    )
    found = closing(replace(known, **changes))
    assert [(one.sequence, one.target) for one in found] == ([(10, NO_OFFSET)] if ends else [])
