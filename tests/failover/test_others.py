"""What others write to copies is part of operations of the flow that brings it home; what their maker writes is not."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from confluent_kafka import Producer

from sparkmirror.config import FlowConfig, Isolation, load
from sparkmirror.copy.registrations import Registration
from sparkmirror.duties.duty import Sides
from sparkmirror.duties.written_by_others import Written, written
from sparkmirror.failover import late
from sparkmirror.failover.look import PartitionState, SourceState, partitions
from sparkmirror.failover.moves import decide
from sparkmirror.failover.others import Others, brought, homeward_ends
from sparkmirror.failover.unbrought import Cause, of_rows, rows_of, troubles
from sparkmirror.kafka.admin import find_offsets, list_topics
from sparkmirror.kafka.cluster import Cluster
from sparkmirror.kafka.fencing import fence
from sparkmirror.kafka.journal import Journal
from sparkmirror.kafka.leaders import OffsetSpec
from sparkmirror.kafka.producer_ids import acquire_writer
from sparkmirror.kafka.reading import Span
from sparkmirror.kafka.store import Store
from sparkmirror.lab.cluster import LabCluster
from sparkmirror.model import TopicPartition, Writer
from sparkmirror.naming import WRITERS_TOPIC
from sparkmirror.offsets.records import FlowRecord, Progress
from sparkmirror.offsets.state import JournalState
from tests.failover.test_moves import HERE, THERE, sight
from tests.flow.running import write_file
from tests.kafka.writing import NOBODY, TIMEOUT_MS, new_topic, write

COPY, OWN = TopicPartition("b.orders", 0), TopicPartition("local", 0)
HOME, GONE = frozenset({HERE}), frozenset({THERE})


def flow_of(directory: Path, homeward: str = "true") -> FlowConfig:
    """The flow from a, which brings home what others write on a to copies of b's topics."""
    a, b = ({"bootstrap.servers": f"localhost:{port}"} for port in (1, 2))
    settings = {"a->b.homeward.enabled": homeward}
    (flow,) = load([write_file(directory / "mm2.properties", {"a": a, "b": b}, {"a->b": ".*"}, settings)]).flows
    return flow


@pytest.mark.parametrize(
    ("position", "left"),
    [
        pytest.param(5, 3, id="it has brought none of them"),
        pytest.param(18, 2, id="at most what lies behind its position"),
        pytest.param(20, 0, id="it is behind the last one"),
        pytest.param(90, 0, id="it has gone over copies since"),
    ],
)
def test_of_what_others_wrote_that_is_missing_which_lies_behind_the_position(position, left):
    assert Written(20, 3).left(position) == left


def test_what_was_found_behind_counts_and_a_look_that_finds_nothing_moves_no_end():
    assert Written(5).more(Written(9, 2)) == Written(9, 2)
    assert Written(9, 2).more(Written(14, 3)) == Written(14, 5)
    assert Written(9, 2).more(Written(30)) == Written(9, 2), "the maker of the copies has gone on"


@pytest.mark.parametrize(("homeward", "found"), [("true", {COPY: 9}), ("false", {})])
def test_only_copies_that_are_brought_home_are_looked_at_for_others(tmp_path, homeward, found):
    ends = {COPY: 9, OWN: 4, TopicPartition("c.orders", 0): 7, TopicPartition("b.heartbeats", 0): 3}
    assert homeward_ends(flow_of(tmp_path, homeward), ends) == found


def progress(place: TopicPartition, position: int, end: int) -> Progress:
    writer = Writer(producer_id=1, epoch=1)
    return Progress(partition=place, writer=writer, generation=1, position=position, next_sequence=0, end=end)


def seen(directory: Path, source: SourceState, *, caught_up: bool = False) -> dict[TopicPartition, PartitionState]:
    """Both have a position of 10, and an end of 50 on record."""
    state = JournalState()
    for place in (COPY, OWN):
        state.progress[place] = progress(place, 10, 50)
    return {one.partition: one for one in partitions(flow_of(directory), state, source, caught_up=caught_up)}


@pytest.mark.parametrize(
    ("of_others", "missing"),
    [
        pytest.param(Written(10), 0, id="all that lies there was written by the maker of the copies"),
        pytest.param(Written(60, 7), 7, id="seven records of others among them"),
        pytest.param(Written(13, 7), 3, id="some were brought since they were counted"),
    ],
)
def test_a_plan_counts_of_a_copy_the_records_of_others(tmp_path, of_others, missing):
    source = SourceState(ends={COPY: 70, OWN: 70}, starts={COPY: 0, OWN: 0}, of_others={COPY: of_others})
    found = seen(tmp_path, source)
    assert {place: one.missing for place, one in found.items()} == {COPY: missing, OWN: 60}


def test_when_an_operation_has_caught_up_what_lies_behind_the_position_in_a_copy_is_its_makers(tmp_path):
    away = SourceState(failure="not asked")
    assert {place: one.missing for place, one in seen(tmp_path, away).items()} == {COPY: 40, OWN: 40}
    found = seen(tmp_path, away, caught_up=True)
    assert {place: one.missing for place, one in found.items()} == {COPY: 0, OWN: 40}


@pytest.mark.parametrize(
    ("seen_there", "exact", "why"),
    [
        pytest.param(sight(40), True, "", id="a topic that is copied as a whole"),
        pytest.param(replace(sight(30), homeward=HOME), True, "", id="the flow has gone over all before the place"),
        pytest.param(replace(sight(40), homeward=HOME), False, "may not be home", id="it had not come as far"),
        pytest.param(replace(sight(15), unbrought=HOME), False, "is not brought there", id="nothing brings it"),
        pytest.param(replace(sight(15), unbrought=HOME, absent=GONE), False, "is not brought", id="nor is there one"),
        pytest.param(replace(sight(15), absent=GONE), True, "does not exist", id="no partition, and no record"),
    ],
)
def test_a_group_in_a_copy_is_exact_only_where_what_others_wrote_before_it_is_home(seen_there, exact, why):
    (move,) = decide(seen_there)
    (place,) = move.places
    assert place.exact == exact
    assert why in place.text


@pytest.mark.parametrize(
    ("cause", "said"),
    [
        (Cause.NOT_BROUGHT, "what others have written on a to this copy has not been brought to b: no group"),
        (Cause.NO_ORIGINAL, "what others have written on a to this copy has not been brought to b, where its original"),
        (
            Cause.UNKNOWN_MAKER,
            "nobody has on record on a who makes this copy, as where MirrorMaker 2 does: what others",
        ),
    ],
)
def test_copies_that_nothing_brings_home_are_named_with_the_cause(cause, said):
    (text,) = troubles({COPY: cause}, "a", "b")
    assert text.startswith(f"b.orders-0: {said}")
    assert of_rows(rows_of({COPY: cause})) == {COPY: cause}


def test_a_record_of_such_copies_without_a_cause_or_with_one_of_a_later_release_is_read():
    assert of_rows([[*COPY]]) == of_rows([[*COPY, "a later cause"]]) == {COPY: Cause.NOT_BROUGHT}


def ends_of(source: Cluster, *places: TopicPartition) -> dict[TopicPartition, int]:
    return find_offsets(source, list(places), OffsetSpec.LATEST, timeout_ms=TIMEOUT_MS).complete()


@pytest.fixture
def sides(lab_cluster: Callable[[str], Cluster], lab_flow: FlowConfig, topic: Callable[..., str]) -> Sides:
    """The flow A->B that brings home, with a record of its own on B."""
    source, target, name = lab_cluster("A"), lab_cluster("B"), topic("internal")
    new_topic(target, name)
    store = Store(target, name, TIMEOUT_MS)
    record = FlowRecord(source_alias="A", source_id="one", target_alias="B", target_id="other", naming="", generation=1)
    store.write([record])
    store.follow()
    known = list_topics(source, [WRITERS_TOPIC], TIMEOUT_MS)
    if WRITERS_TOPIC not in known:
        new_topic(source, WRITERS_TOPIC, configs=[("cleanup.policy", "compact")])
    return Sides(flow=replace(lab_flow, homeward=True), source=source, target=target, store=store)


def maker(sides: Sides, name: str) -> Writer:
    """A producer of the flow that makes the copies, registered as such."""
    writer = acquire_writer(sides.source, name, TIMEOUT_MS)
    known = Registration(producer_id=writer.producer_id, flow="B->A", cluster="one", origin=("other",))
    sides.source.run(Journal(sides.source, WRITERS_TOPIC).append, [(known.key, known.value)], TIMEOUT_MS)
    return writer


def stands_at(sides: Sides, place: TopicPartition, position: int) -> None:
    assert sides.store is not None
    sides.store.write([progress(place, position, position)])
    sides.store.follow()


@pytest.mark.kafka
def test_its_makers_records_and_markers_move_no_end_of_a_copy_and_those_of_others_do(
    sides: Sides, cluster_a: LabCluster, topic: Callable[..., str]
):
    source, name = sides.source, topic("makes")
    (copy,) = new_topic(source, f"B.{topic('copy')}")
    (own,) = new_topic(source, topic("own"))
    first = maker(sides, f"{name}-1")
    stands_at(sides, copy, 2)
    others = Others(sides)
    for writer, count in ((first, 5), (NOBODY, 3)):
        assert write(source, copy, writer, 0 if writer is first else -1, count).code == 0
    assert write(source, copy, first, 5, 4).code == 0
    assert write(source, own, NOBODY, -1, 6).code == 0
    assert others.look(ends_of(source, copy, own)) == {copy: Written(8, 3)}

    fence(source, f"{name}-1", acquire_writer(source, f"{name}-1", TIMEOUT_MS), [copy], TIMEOUT_MS).complete()
    second = maker(sides, f"{name}-2")  # registered since the first look
    assert write(source, copy, second, 0, 20).code == 0
    assert others.look(ends_of(source, copy)) == {copy: Written(8, 3)}

    client = {"bootstrap.servers": cluster_a.bootstrap_servers, "log_level": 0, "transactional.id": f"{name}-open"}
    application = Producer(client)
    application.init_transactions(60)
    application.begin_transaction()
    application.produce(copy.topic, b"open", partition=0)
    assert application.flush(60) == 0
    end = ends_of(source, copy)[copy]
    assert others.look({copy: end}) == {copy: Written(end, 4)}, "before it is committed"
    without = brought(source, sides.store.state.flow) if sides.store is not None else frozenset()
    span = {copy: Span(2, end - 1)}
    assert written(source, span, without, TIMEOUT_MS, isolation=Isolation.READ_COMMITTED) == {copy: Written(8, 3)}
    application.abort_transaction(60)
    assert others.starts({copy: end}) == {copy: end - 4}


@pytest.mark.kafka
def test_however_much_the_maker_of_a_copy_writes_no_record_of_it_comes_late(
    sides: Sides, topic: Callable[..., str], monkeypatch: pytest.MonkeyPatch
):
    source = sides.source
    quiet, late_one, many = (new_topic(source, f"B.{topic(name)}")[0] for name in ("quiet", "late", "many"))
    writer = maker(sides, topic("makes"))
    for place in (quiet, late_one, many):
        stands_at(sides, place, 1)
        assert write(source, place, writer, 0, 9).code == 0
    assert write(source, late_one, NOBODY, -1, 2).code == 0
    assert write(source, many, NOBODY, -1, 5).code == 0
    assert write(source, many, writer, 9, 4).code == 0
    assert sides.store is not None
    ends = ends_of(source, quiet, late_one, many)
    assert late.records_behind(sides, sides.store.state, ends) == {late_one: 2, many: 5}
    monkeypatch.setattr(late, "MOST", 4)
    assert quiet not in late.records_behind(sides, sides.store.state, ends)


@pytest.mark.kafka
def test_a_log_that_has_lost_what_was_read_is_read_again(sides: Sides, topic: Callable[..., str]):
    (copy,) = new_topic(sides.source, f"B.{topic('shorter')}")
    stands_at(sides, copy, 0)
    assert write(sides.source, copy, NOBODY, -1, 6).code == 0
    others = Others(sides)
    assert others.look({copy: 6}) == {copy: Written(6, 6)}
    assert others.look({copy: 4}) == {copy: Written(4, 4)}
