"""What the registry of writers says, and what a flow does with the batches of other mirrors."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparkmirror.copy.registrations import (
    Carrier,
    Registration,
    carried_into,
    closing,
    doubt,
    foreign_among,
    gone,
    ids_of_flow,
    of_flow,
    overdue,
    registration,
    unconfirmed,
)
from sparkmirror.events import Kind
from sparkmirror.kafka.journal import Entry
from sparkmirror.model import Writer
from sparkmirror.naming import WRITERS_TOPIC

clusters = st.lists(st.text(), max_size=4).map(tuple)
epochs = st.none() | st.integers(0, 32_767)


@given(
    st.builds(
        Registration,
        producer_id=st.integers(0, 2**62),
        flow=st.text(),
        cluster=st.text(),
        origin=clusters,
        group=st.none() | st.integers(0, 7),
        carried=clusters,
        headers=epochs,
    )
)
def test_a_registration_comes_back_as_it_was_written(wanted: Registration):
    assert registration(wanted.key, wanted.value) == wanted


def test_a_copy_that_may_hold_what_came_from_the_target_by_another_way_does_not_go_home():
    carrier = Carrier(source_id="b", target_id="a")
    other = Registration(producer_id=7, flow="C->B", cluster="b", origin=("c",))
    assert carrier.refuses_home(other) is None
    refusal = carrier.refuses_home(replace(other, carried=("a",)))
    assert refusal is not None
    assert (refusal.kind, "C->B mirrored it here under identity naming" in refusal.text) == (Kind.LOOP, True)


def test_a_writer_is_confirmed_by_the_transactional_id_of_its_flow_origin_and_group_alone():
    known = Registration(producer_id=7, flow="B->A", cluster="id-a", origin=("id-b",), group=3)
    assert known.transactional_id.startswith("sparkmirror.B->A.")
    assert known.transactional_id.endswith(".3")
    assert doubt(known, Writer(producer_id=7, epoch=0)) == ""
    assert "another producer id" in doubt(known, Writer(producer_id=8, epoch=0))
    assert "does not know transactional id sparkmirror.B->A." in doubt(known, None)
    for other in (replace(known, flow="C->A"), replace(known, origin=("id-c",)), replace(known, group=2)):
        assert other.transactional_id != known.transactional_id
    assert replace(known, group=None).transactional_id == ""
    for told in (unconfirmed, overdue):
        text = told(replace(known, flow="x" * 100_000), doubt(replace(known, flow="x" * 100_000), None))
        assert len(text) < 1_000
        assert "producer id 7" in text


def test_what_earlier_releases_wrote_is_read():
    value = '{"v": 1, "flow": "A->B", "cluster": "b", "origin": ["a"]}'
    assert registration('["writer", 7]', value) == Registration(producer_id=7, flow="A->B", cluster="b", origin=("a",))


@pytest.mark.parametrize(
    ("key", "value"),
    [('["chain",1,2]', '{"v":1}'), ('["writer", 7]', '{"v":2,"else":1}')],
    ids=["kind", "version"],
)
def test_what_a_later_release_writes_is_passed_over(key: str, value: str):
    assert registration(key, value) is None


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("hello", "{}"),
        ("[]", '{"v":1}'),
        ('["writer"]', '{"v":1}'),
        ('["writer",1]', "[]"),
        ('["writer","x"]', '{"v":1}'),
        ('["writer",1]', '{"v":1,"flow":"a->b","cluster":"b","origin":["a"]}'),
        ('["writer", 1.0]', '{"v":1,"flow":"a->b","cluster":"b","origin":["a"]}'),
    ],
)
def test_what_is_not_a_registration_is_an_error(key: str, value: str):
    with pytest.raises(ValueError, match=f"not a record of {WRITERS_TOPIC}"):
        registration(key, value)


def registered(
    producer_id: int,
    group: int | None = 0,
    flow: str = "A->B",
    cluster: str = "b",
    origin: str = "a",
    carried: str = "",
    headers: int | None = None,
) -> Registration:
    return Registration(
        producer_id=producer_id,
        flow=flow,
        cluster=cluster,
        origin=tuple(origin),
        group=group,
        carried=tuple(carried),
        headers=headers,
    )


def entries(*records: Registration) -> list[Entry]:
    return [Entry(offset, each.key, each.value) for offset, each in enumerate(records)]


def test_the_registry_tells_every_producer_id_of_a_flow_oldest_first():
    found = [
        *entries(
            registered(1, 0),
            registered(2, 1),
            registered(3, 0, flow="A->C"),
            registered(4, 0, cluster="c"),
            registered(5, 0, origin="ac"),
            registered(6, None),
            registered(7, 1),
            registered(8, 2, carried="x"),
        ),
        Entry(9, '["writer",2]', None),
        Entry(10, "hello", "{}"),
        Entry(11, '["writer",12]', '{"v":2}'),
    ]
    assert ids_of_flow(found, "A->B", "b", ("a",)) == {1: 0, 2: 1, 6: None, 7: 1, 8: 2}
    assert of_flow(found, "A->B", "b", ("a",))[8] == registered(8, 2, carried="x")
    assert ids_of_flow(found, "A->B", "b", ("c", "a")) == {5: 0}


@pytest.mark.parametrize(
    ("there", "again"),
    [
        ([0, 1, 2], []),
        ([0, 1], [2]),
        ([0], [1, 2]),
        ([], [0, 1, 2]),
        ([1, 2], [0, 1, 2]),
        ([2, 1, 0], []),
    ],
)
def test_what_a_registry_has_lost_is_written_again_with_all_that_came_later(there: list[int], again: list[int]):
    ours = [Registration(producer_id=n, flow="a->b", cluster="b", origin=("a",), group=0) for n in range(3)]
    other = Registration(producer_id=9, flow="c->b", cluster="b", origin=("c",), group=0)
    assert gone(ours, entries(*(ours[n] for n in there), other)) == [ours[n] for n in again]


def test_a_registration_that_says_less_than_it_did_is_written_again_but_not_one_that_was_removed():
    ours = [Registration(producer_id=n, flow="a->b", cluster="b", origin=("a",), group=n) for n in range(2)]
    declared = replace(ours[1], carried=("x",))
    assert gone([ours[0], declared], entries(*ours)) == [declared]
    removed = Entry(offset=2, key=ours[0].key, value=None)
    assert gone(ours, [*entries(ours[1]), removed]) == []


def test_what_an_id_carries_does_not_make_it_a_younger_one():
    again = entries(registered(1), registered(2, 1), registered(1, carried="x"))
    assert list(ids_of_flow(again, "A->B", "b", ("a",))) == [2, 1]
    assert of_flow(again, "A->B", "b", ("a",))[1].carried == ("x",)


def test_a_flow_carries_on_what_mirrors_bring_to_its_source_but_not_what_came_from_its_target():
    into_b = entries(
        registered(1, origin="a", carried="xb"),
        registered(2, flow="C->B", origin="c", carried="y"),
        registered(3, flow="D->C", cluster="c", origin="d"),
    )
    assert carried_into(into_b, "b", "c") == {"a", "x"}
    assert carried_into(into_b, "b", "z") == {"a", "x", "c", "y"}
    assert carried_into(into_b, "b", "x") == {"a", "c", "y"}
    assert carried_into([], "b", "c") == frozenset()


@pytest.mark.parametrize(
    ("brought", "epoch", "declared", "headers", "kind"),
    [
        (registered(1), 0, "a", False, None),
        (registered(1), 0, "", False, Kind.RELAYED),
        (registered(1, carried="x"), 0, "a", False, Kind.RELAYED),
        (registered(1, carried="x"), 0, "ax", False, None),
        (registered(1, carried="b"), 0, "a", False, None),
        (registered(1, carried="c"), 0, "a", False, Kind.LOOP),
        (registered(1, carried="c"), 0, "", False, Kind.LOOP),
        (registered(1, carried="c", headers=5), 5, "a", False, Kind.LOOP),
        (registered(1, carried="c", headers=5), 5, "a", True, None),
        (registered(1, carried="c", headers=5), 4, "a", True, Kind.LOOP),
        (registered(1, carried="c"), 5, "a", True, Kind.LOOP),
        (registered(1, carried="x"), 5, "ax", True, Kind.LOOP),
        (registered(1, carried="x", headers=5), 5, "ax", True, None),
        (registered(1, carried="x", headers=5), 5, "a", True, Kind.RELAYED),
        (registered(1), 5, "a", True, None),
    ],
)
def test_batches_of_another_mirror_are_carried_on_when_that_is_declared_and_none_may_come_from_the_target(
    brought: Registration, epoch: int, declared: str, headers: bool, kind: Kind | None
):
    carrier = Carrier(source_id="b", target_id="c", headers=headers)
    refusal = carrier.refuses(brought, epoch, frozenset(declared))
    assert (refusal and refusal.kind) == kind


def test_the_way_of_a_record_is_the_registrations_where_the_record_does_not_tell():
    carrier = Carrier(source_id="b", target_id="c", headers=True)
    assert carrier.way(registered(1), 3) == ("a",)
    assert carrier.way(registered(1, headers=4), 3) == ("a",)
    assert carrier.way(registered(1, headers=3), 3) == ()


@pytest.mark.parametrize(
    ("flow", "cluster", "origin", "carried", "closes"),
    [
        pytest.param("C->A", "a", "c", "b", True, id="a ring"),
        pytest.param("C->A", "a", "c", "db", True, id="a ring of four"),
        pytest.param("C->A", "a", "c", "d", False, id="a chain that ends here"),
        pytest.param("B->A", "a", "b", "c", False, id="the flow back, with a chain behind it"),
        pytest.param("C->A", "other", "c", "b", False, id="copied here from another cluster"),
    ],
)
def test_a_ring_is_closed_by_who_brings_the_source_what_came_from_the_target_through_others(
    flow, cluster, origin, carried, closes
):
    one = Registration(producer_id=7, flow=flow, cluster=cluster, origin=tuple(origin), carried=tuple(carried))
    assert closing([one], "a", "b") == ((one,) if closes else ())


def test_what_is_no_registration_is_told_of_by_what_is_wrong_with_it():
    pairs = [
        ("hello", "x"),
        ('["writer", 7]', "x"),
        ('["writer",8]', None),
        ('["chain",1]', '{"v":1}'),
        ('["writer"]', "x"),
    ]
    lines = foreign_among([Entry(offset, key, value) for offset, (key, value) in enumerate(pairs)]).lines("t-0")
    assert [line.split(": passed over")[0] for line in lines] == [
        't-0 holds 2 records with keys that no mirror writes, the last at offset 4, key ["writer"]',
        't-0 holds a record with values that no mirror writes, the last at offset 1, key ["writer", 7]',
    ]
