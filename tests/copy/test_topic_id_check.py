"""What comes by name is held back until the source has confirmed the topic's id; no cluster is asked here."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from kafka.protocol.consumer import FetchRequest
from kafka.protocol.metadata import MetadataRequest, MetadataResponse

from sparkmirror.batches.layout import TRANSACTIONAL
from sparkmirror.copy import intake, topic_id_check
from sparkmirror.copy.progress import follow
from sparkmirror.copy.topic_id_check import Identity, identity
from sparkmirror.errors import LinkError
from sparkmirror.events import Kind
from sparkmirror.kafka.metadata import NO_LEADER, Leader, TopicView
from sparkmirror.model import TopicPartition
from sparkmirror.offsets.recovery import UNKNOWN_MS
from tests.batches.building import log
from tests.copy.making import BEGIN, Bench, batch, partition, told

PLANNED, OTHER = uuid.UUID(int=11), uuid.UUID(int=12)
NO_ID = uuid.UUID(int=0)
OUT_OF_RANGE, NO_SUCH_TOPIC, NO_LEADER_NOW = 1, 3, 5
FIRST, SECOND = 1, 2
"""Brokers of the source."""


@pytest.fixture
def bench() -> Iterator[Bench]:
    made = Bench(2)
    for copy in made.lane.partitions:
        copy.plan = replace(copy.plan, topic_id=PLANNED.hex)
        made.lane.fetcher.update(copy)
    yield made
    made.close()


def turn(bench: Bench) -> None:
    """What a lane does in one turn, but for its Fetch."""
    bench.lane.topic_ids.turn()
    bench.send()


def bring(bench: Bench, at: int, records: int = 3) -> None:
    """An answer by name, and the lane's turn in which it is taken."""
    bench.bring(0, log([batch(at, records)]), by_name=True)
    turn(bench)


def metadata(topic_id: uuid.UUID, code: int = 0) -> Any:
    topic = MetadataResponse.MetadataResponseTopic
    return MetadataResponse(
        topics=[topic(name="orders", error_code=code, topic_id=topic_id, is_internal=False, partitions=[])]
    )


def answer(bench: Bench, said: Any) -> None:
    """The oldest question is answered, and the lane does its turn."""
    request, _, done = bench.source.asked.pop(0)
    assert isinstance(request, MetadataRequest)
    assert [topic.name for topic in request.topics] == ["orders"]
    done(said)
    turn(bench)


def sent(bench: Bench, number: int = 0) -> int:
    return len(bench.target.written(number))


def view(topic_id: uuid.UUID | None, code: int = 0) -> TopicView:
    return TopicView(name="orders", code=code, topic_id=topic_id, leaders={} if code else {0: Leader(1, 0)})


@pytest.mark.parametrize(
    ("planned", "seen", "said"),
    [
        (PLANNED.hex, view(PLANNED), Identity.SAME),
        (PLANNED.hex, view(OTHER), Identity.OTHER),
        (PLANNED.hex, view(None), Identity.SAME),
        ("", view(OTHER), Identity.SAME),
        (PLANNED.hex, view(None, NO_SUCH_TOPIC), Identity.UNKNOWN),
        (PLANNED.hex, view(OTHER, NO_LEADER_NOW), Identity.UNKNOWN),
        (PLANNED.hex, None, Identity.UNKNOWN),
    ],
    ids=["same", "made anew", "the broker has no ids", "nothing planned", "gone", "no leader", "not in the answer"],
)
def test_the_metadata_says_whether_a_topic_is_the_planned_one(planned: str, seen: TopicView | None, said: Identity):
    assert identity(planned, seen) is said


def test_batches_that_came_by_name_are_sent_once_the_id_is_confirmed(bench: Bench):
    bring(bench, BEGIN)
    assert [node for _, node, _ in bench.source.asked] == [FIRST], "the broker that gave the answer is asked"
    assert (sent(bench), bench[0].fetch_offset) == (0, BEGIN + 3), "what follows is fetched meanwhile"
    answer(bench, metadata(PLANNED))
    assert (sent(bench), bench[0].position) == (1, BEGIN + 3)


def test_a_topic_made_anew_stops_its_partition_and_nothing_of_it_is_sent_or_put_on_record(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
):
    written: list[Any] = []
    monkeypatch.setattr(bench.lane.watch, "write_ahead", lambda *ahead: written.append(ahead))
    bring(bench, BEGIN + 5)  # there is a hole before it: a segment
    answer(bench, metadata(OTHER))
    copy = bench[0]
    assert "source topic orders was deleted and made anew" in copy.error
    assert [(event.kind, event.first, event.last) for event in copy.tally.events] == [
        (Kind.SOURCE_RECREATED, BEGIN, BEGIN)
    ]
    assert (sent(bench), written, copy.position, copy.idle, bench.lane.load.bytes) == (0, [], BEGIN, True, 0)


@pytest.mark.parametrize(
    "said",
    [metadata(NO_ID, NO_SUCH_TOPIC), LinkError(cluster="A", address="a:1", reason="no answer")],
    ids=["unknown topic", "no answer"],
)
def test_without_an_answer_the_leader_is_learnt_and_asked_again(bench: Bench, said: Any):
    bring(bench, BEGIN)
    answer(bench, said)
    copy = bench[0]
    assert (sent(bench), copy.source_node, copy.error, bench.source.asked) == (0, NO_LEADER, "", [])
    copy.source_node = SECOND
    turn(bench)
    assert [node for _, node, _ in bench.source.asked] == [SECOND]
    answer(bench, metadata(PLANNED))
    assert sent(bench) == 1


def test_an_id_counts_for_what_came_before_the_question_and_for_nothing_after_it(bench: Bench):
    bring(bench, BEGIN)
    bring(bench, BEGIN + 3)
    answer(bench, metadata(PLANNED))
    assert (sent(bench), bench[0].position) == (1, BEGIN + 3)
    answer(bench, metadata(OTHER))
    assert (sent(bench), bench[0].position) == (1, BEGIN + 3)
    assert bench[0].error


def test_an_id_that_is_confirmed_later_counts_for_all_before_it(bench: Bench):
    bring(bench, BEGIN)
    bring(bench, BEGIN + 3)
    bench.source.asked.pop(0)  # the first question is never answered
    answer(bench, metadata(PLANNED))
    assert bench[0].position == BEGIN + 6


def test_partitions_of_a_topic_are_asked_about_at_once(bench: Bench):
    for number in (0, 1):
        bench.bring(number, log([batch(BEGIN)]), by_name=True)
    turn(bench)
    (_,) = bench.source.asked
    answer(bench, metadata(PLANNED))
    assert [sent(bench, number) for number in (0, 1)] == [1, 1]


def test_what_came_by_id_is_sent_without_a_question(bench: Bench):
    bench.bring(0, log([batch(BEGIN)]))
    turn(bench)
    assert (sent(bench), bench.source.asked) == (1, [])


def test_where_no_id_was_planned_nothing_is_asked():
    bench = Bench(1)
    try:
        bring(bench, BEGIN)
        bench.lane.topic_ids.look(bench.lane.partitions)
        turn(bench)
        assert (sent(bench), bench.source.asked) == (1, [])
    finally:
        bench.close()


def test_what_came_by_id_waits_behind_what_came_by_name(bench: Bench):
    """The leader has moved to a broker that is newer."""
    bring(bench, BEGIN)
    bench.bring(0, log([batch(BEGIN + 3)]))
    turn(bench)
    assert sent(bench) == 0
    for _ in range(2):
        answer(bench, metadata(PLANNED))
    assert bench[0].position == BEGIN + 6


def test_a_question_goes_before_the_next_fetch(bench: Bench):
    """A broker does the requests of one connection in turn: behind a Fetch it would wait for records."""
    bench.lane._turn()
    ((fetch, _, done),) = bench.source.asked
    assert isinstance(fetch, FetchRequest)
    bench.source.asked.clear()
    done(told(log([batch(BEGIN)])))
    bench.lane._turn()
    assert [type(request) for request, _, _ in bench.source.asked] == [MetadataRequest, FetchRequest]


def test_a_broker_that_holds_us_back_is_asked_when_it_may_be(bench: Bench, monkeypatch: pytest.MonkeyPatch):
    with monkeypatch.context() as throttled:
        throttled.setattr(bench.source, "can_send", lambda _: False)
        bring(bench, BEGIN)
        assert bench.source.asked == []
    turn(bench)
    answer(bench, metadata(PLANNED))
    assert sent(bench) == 1


def test_more_questions_than_a_connection_takes_wait_for_their_turn(bench: Bench, monkeypatch: pytest.MonkeyPatch):
    """One that the connection refuses would look like a broker that is away."""
    monkeypatch.setattr(topic_id_check, "TOPICS_PER_REQUEST", 1)
    monkeypatch.setattr(bench.source, "can_send", lambda _: not bench.source.asked)
    copies = [partition(source=TopicPartition(name, 0), topic_id=PLANNED.hex) for name in ("clicks", "orders")]
    for copy in copies:
        copy.source_node, copy.by_name = FIRST, True
    check = bench.lane.topic_ids
    check.look(copies)
    for copy in copies:
        check.turn()
        ((request, _, _),) = bench.source.asked
        assert [topic.name for topic in request.topics] == [copy.source.topic]
        bench.source.asked.clear()
    check.turn()
    assert bench.source.asked == []


def test_offsets_that_are_dropped_move_the_position_once_the_id_is_confirmed(bench: Bench):
    records = log([batch(BEGIN, 3, bits=TRANSACTIONAL, producer=(900, 0, 0))])
    bench.bring(0, records, aborted=((900, BEGIN),), by_name=True)
    turn(bench)
    assert (bench[0].position, bench[0].idle) == (BEGIN, False)
    answer(bench, metadata(PLANNED))
    assert (bench[0].position, bench[0].idle) == (BEGIN + 3, True)


def test_a_shift_that_ends_forgets_what_was_not_confirmed(bench: Bench):
    bring(bench, BEGIN)
    bench[0].abandon()
    answer(bench, metadata(PLANNED))
    assert (sent(bench), bench[0].position, bench[0].fetch_offset, bench[0].idle) == (0, BEGIN, BEGIN, True)


def test_the_end_of_an_unconfirmed_log_moves_no_recovery_point(bench: Bench, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(bench.lane.fetcher, "answered_ms", lambda _: 7_000)
    copy = bench[0]
    bench.bring(0, b"", by_name=True)
    copy.end = BEGIN  # as many records as have been copied
    copy.unconfirmed[-1].answer = None
    turn(bench)
    follow(copy, 7_000)
    assert copy.recovery.point_ms == UNKNOWN_MS
    answer(bench, metadata(PLANNED))
    follow(copy, 7_000)
    assert copy.recovery.point_ms == 7_000


def test_a_tail_that_seems_lost_is_told_of_the_planned_topic_only(bench: Bench, monkeypatch: pytest.MonkeyPatch):
    async def range_of(*_: Any) -> tuple[int, int]:
        return 0, BEGIN - 1

    monkeypatch.setattr(intake, "log_range", range_of)
    bench.bring(0, b"", code=OUT_OF_RANGE, by_name=True)
    bench.run(bench.rest)
    assert bench[0].error == ""
    turn(bench)
    answer(bench, metadata(OTHER))
    bench.run(bench.rest)
    assert [event.kind for event in bench[0].tally.events] == [Kind.SOURCE_RECREATED]


def test_idle_topics_that_are_fetched_by_name_are_looked_at(bench: Bench):
    """One that was made anew may have come to the very end that the old one had."""
    bring(bench, BEGIN)
    answer(bench, metadata(PLANNED))
    copy = bench[0]
    bench.lane.topic_ids.look(bench.lane.partitions)
    turn(bench)
    answer(bench, metadata(PLANNED))
    assert not copy.error
    copy.paused = True
    bench.lane.topic_ids.look(bench.lane.partitions)
    turn(bench)
    assert bench.source.asked == [], "it is looked at when it is fetched again"
    copy.paused = False
    bench.lane.topic_ids.look(bench.lane.partitions)
    turn(bench)
    answer(bench, metadata(OTHER))
    assert [event.kind for event in copy.tally.events] == [Kind.SOURCE_RECREATED]
    assert not bench[1].error, "nothing says that it is fetched by name"
