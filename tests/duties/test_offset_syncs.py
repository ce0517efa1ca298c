"""Offset syncs: which are written, and that MirrorMaker 2's own store translates with them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparkmirror.config import ClientSettings, Endpoint, FlowConfig, OffsetSyncSettings, PolicyChoice, Side
from sparkmirror.duties import roster
from sparkmirror.duties.offset_syncs import MOST_AT_ONCE, Line, decide, topic_of
from sparkmirror.flow.schedule import connected
from sparkmirror.lab.jars import mirror_maker_jars
from sparkmirror.mm2.offset_syncs import OffsetSync
from sparkmirror.model import Alias, FlowName, TopicPartition
from sparkmirror.offsets.map import OffsetMap
from sparkmirror.spark.gateway import Gateway
from tests.offsets.test_map import piece_map, progress

PLACE = TopicPartition("orders", 1)
LAG = 100


def mapped(*stretches: tuple[int, int, int]) -> OffsetMap:
    """Stretches of source, target and length; everything in them is acknowledged."""
    sequence, segments = 0, []
    for source, target, length in stretches:
        segments.append((sequence, source, target))
        sequence += length
    source, target, length = stretches[-1]
    last = progress(sequence - 1, source + length - 1, target + length - 1, source + length)
    return piece_map(*segments).offsets(last, (7,))


def sync(upstream: int, downstream: int) -> OffsetSync:
    return OffsetSync(partition=PLACE, upstream=upstream, downstream=downstream)


def points(
    line: OffsetMap, written: tuple[int, int] | None = None, *, still: bool = False, whole: bool = True, lag: int = LAG
) -> list[tuple[int, int]]:
    known = None if written is None else sync(*written)
    made = decide({PLACE: Line(mapped=line, written=known, still=still, whole=whole)}, lag)
    assert all(one.partition == PLACE for one in made)
    return [(one.upstream, one.downstream) for one in made]


@pytest.mark.parametrize(
    ("stretches", "written", "still", "expected"),
    [
        ([(0, 0, 50)], None, False, [(0, 0), (49, 49)]),
        ([(5, 2, 1)], None, False, [(5, 2)]),
        ([(5, 2, 10), (20, 12, 10)], None, False, [(5, 2), (20, 12), (29, 21)]),
        ([(0, 0, 250)], None, False, [(0, 0), (100, 100), (200, 200), (249, 249)]),
        ([(0, 0, 50)], (49, 49), True, []),
        ([(0, 0, 60)], (49, 49), False, []),
        ([(0, 0, 60)], (49, 49), True, [(50, 50), (59, 59)]),
        ([(0, 0, 150)], (49, 49), False, []),
        ([(0, 0, 151)], (49, 49), False, [(50, 50), (150, 150)]),
        ([(0, 0, 50), (55, 50, 5)], (49, 49), False, [(55, 50), (59, 54)]),
        ([(0, 0, 50), (50, 53, 5)], (49, 49), False, [(50, 53), (54, 57)]),
    ],
    ids=[
        "the first ones",
        "a single record",
        "one where the difference changes",
        "some on the way",
        "nothing moved",
        "moved a little, and goes on",
        "moved a little, and stands still",
        "moved by less than the lag that is allowed",
        "moved by so much",
        "a hole at the source",
        "others wrote on the target",
    ],
)
def test_what_is_written(stretches, written, still, expected):
    assert points(mapped(*stretches), written, still=still) == expected


def test_what_an_earlier_run_has_told_is_not_told_again():
    assert points(mapped((0, 0, 250), (300, 250, 10)), whole=False) == [(309, 259)]


def test_another_history_is_told_from_its_beginning():
    """The target was made anew: the reader sees an offset that it had, and forgets what it knew."""
    assert points(mapped((0, 5, 50)), (40, 40)) == [(0, 5), (49, 54)]


def test_what_the_target_lost_is_told_anew():
    assert points(mapped((0, 0, 20), (20, 21, 5)), (40, 40)) == [(0, 0), (20, 21), (24, 25)]


def test_nothing_is_told_of_what_is_not_acknowledged():
    written_ahead = piece_map((0, 0, 0), (10, 15, -1))
    assert points(written_ahead.offsets(progress(9, 9, 9, 10), (7,))) == [(0, 0), (9, 9)]
    nothing = piece_map((0, 0, -1))
    assert points(nothing.offsets(progress(-1, -1, -1, 0), (7,))) == []


lengths = st.lists(st.tuples(st.integers(0, 5), st.integers(0, 3), st.integers(1, 400)), min_size=1, max_size=90)


@given(lengths, st.integers(0, 150), st.booleans())
def test_every_pair_is_one_record_s_and_the_newest_is_the_last(steps, lag, whole):
    stretches, source, target = [], 0, 0
    for hole, others, length in steps:
        source, target = source + hole, target + others
        stretches.append((source, target, length))
        source, target = source + length, target + length
    line = mapped(*stretches)
    found = points(line, whole=whole, lag=lag)
    assert 1 <= len(found) <= MOST_AT_ONCE
    assert found == sorted(set(found))
    assert found[-1] == (source - 1, target - 1)
    assert all(line.mirrored(here) and line.source_to_target(here) == there for here, there in found)


def far_flow(settings: OffsetSyncSettings, policy: PolicyChoice | None = None) -> FlowConfig:
    client = ClientSettings(bootstrap_servers=("127.0.0.1:1",))
    sides = [Endpoint(alias=Alias(alias), consumer=client, producer=client, admin=client) for alias in ("A", "B")]
    name = FlowName(source=Alias("A"), target=Alias("B"))
    flow = FlowConfig(name=name, source=sides[0], target=sides[1], offset_syncs=settings)
    return flow if policy is None else replace(flow, policy=policy)


@pytest.mark.parametrize(
    ("location", "separator", "topic"),
    [
        (Side.SOURCE, ".", "mm2-offset-syncs.B.internal"),
        (Side.TARGET, ".", "mm2-offset-syncs.A.internal"),
        (Side.SOURCE, "_", "mm2-offset-syncs_B_internal"),
    ],
)
def test_the_topic_names_the_cluster_that_it_is_not_on(location, separator, topic):
    assert topic_of(far_flow(OffsetSyncSettings(location=location), PolicyChoice(separator=separator))) == topic


@pytest.mark.parametrize("enabled", [True, False])
def test_a_flow_has_the_duty_unless_it_is_switched_off(enabled):
    with connected(far_flow(OffsetSyncSettings(enabled=enabled)), lambda _: None, role="test", started=False) as sides:
        assert ("offset syncs" in [duty.name for duty in roster.upkeep(sides)]) is enabled


@pytest.fixture(scope="module")
def jvm() -> Iterator[Any]:
    with Gateway(mirror_maker_jars(), options=("-Xmx128m",)) as gateway:
        yield gateway.jvm


def translated(jvm: Any, syncs: list[tuple[int, int]], offsets: list[int]) -> Mapping[int, int]:
    """What MirrorMaker 2's store, having read the syncs, makes of a group's offsets at the source."""
    kafka = jvm.org.apache.kafka
    kind = kafka.connect.mirror.OffsetSync._java_lang_class.getClassLoader().loadClass(
        "org.apache.kafka.connect.mirror.OffsetSyncStore"
    )
    made = next(one for one in kind.getDeclaredConstructors() if not one.getParameterCount())
    made.setAccessible(True)
    nothing = jvm.java.util.ArrayList().toArray()
    store = made.newInstance(nothing)
    for name, value in (("initializationMustReadToEnd", False), ("readToEnd", True)):
        field = kind.getDeclaredField(name)
        field.setAccessible(True)
        field.setBoolean(store, value)
    take = next(one for one in kind.getDeclaredMethods() if one.getName() == "handleRecord")
    take.setAccessible(True)
    for one in (sync(*pair) for pair in syncs):
        arguments = jvm.java.util.ArrayList()
        arguments.add(kafka.clients.consumer.ConsumerRecord("t", 0, 0, one.key, one.value))
        take.invoke(store, arguments.toArray())
    place = kafka.common.TopicPartition(*PLACE)
    answers = {offset: store.translateDownstream("group", place, offset) for offset in offsets}
    return {offset: answer.getAsLong() for offset, answer in answers.items() if answer.isPresent()}


@pytest.mark.kafka
def test_mm2_translates_with_them_and_never_too_far(jvm: Any) -> None:
    """A transaction marker every 40 records at the source; others wrote once on the target."""
    first = [(41 * n, 40 * n, 40) for n in range(20)]
    line = mapped(*first)
    told = points(line)
    later = mapped(*first, (820, 805, 300))
    told += points(later, told[-1])
    offsets = list(range(1120))
    answers = translated(jvm, told, offsets)
    assert list(answers) == offsets
    exact = {offset: later.source_to_target(offset) for offset in offsets}
    assert all(answers[offset] <= (exact[offset] or 0) for offset in offsets)
    last = told[-1]
    assert last == (1119, 1104)
    assert (answers[1119], answers[0]) == (1104, 0)
    assert (exact[1000] or 0) - answers[1000] <= 2 * LAG
