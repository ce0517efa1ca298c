"""Bulk requests: what is sent again, what is given up, and that items do not hang on each other."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence

import pytest

from sparkmirror.errors import BrokerError, LinkError
from sparkmirror.kafka.backoff import Backoff
from sparkmirror.kafka.rounds import Answer, Deadline, chunks, explained, out_of_time, repeat
from tests.kafka.unreachable import PAUSES, SETTINGS, assert_paused

QUICK = Backoff(first=0.02, most=0.05)
LINK = LinkError(cluster="A", address="localhost:1", reason="gone")


def _explain(key: str, code: int, message: str) -> BrokerError:
    return explained(code, "A", topic=key, remedy="do this", message=message)


def _script(answers: dict[str, list[int]], asked: list[list[str]]):
    def ask(items: Sequence[str], deadline: Deadline) -> Iterable[Answer[str, str]]:
        asked.append(list(items))
        for item in items:
            code = answers[item].pop(0) if len(answers[item]) > 1 else answers[item][0]
            if code < 0:
                yield Answer(key=item, link=LINK)
            else:
                yield Answer(key=item, value=f"{item}!", code=code)

    return ask


def test_asks_again_only_for_what_may_still_be_answered() -> None:
    asked: list[list[str]] = []
    results = repeat(["a", "b", "c"], _script({"a": [0], "b": [5, 6, 0], "c": [29]}, asked), _explain, 5_000, QUICK)
    assert results.found == {"a": "a!", "b": "b!"}
    assert set(results.failed) == {"c"}
    assert asked == [["a", "b", "c"], ["b"], ["b"]]


def test_a_refusal_names_place_remedy_and_what_the_broker_says() -> None:
    def ask(items: Sequence[str], deadline: Deadline) -> Iterable[Answer[str, None]]:
        yield Answer(key="orders", code=44, message="too many")

    results = repeat(["orders"], ask, _explain, 1_000, QUICK)
    assert str(results.failed["orders"]) == (
        "cluster A, orders: POLICY_VIOLATION (44): do this; the broker says: too many"
    )
    with pytest.raises(BrokerError, match="POLICY_VIOLATION"):
        results.complete()


def test_what_is_not_answered_by_the_deadline_has_failed_with_the_last_error() -> None:
    results = repeat(["a", "b"], _script({"a": [7], "b": [0]}, []), _explain, 200, QUICK)
    assert results.found == {"b": "b!"}
    failure = results.failed["a"]
    assert isinstance(failure, BrokerError)
    assert failure.name == "REQUEST_TIMED_OUT"


def test_an_unknown_topic_is_asked_for_a_while_only() -> None:
    asked: list[list[str]] = []
    deadline = Deadline(10_000, QUICK)
    results = repeat(["a"], _script({"a": [3]}, asked), _explain, 10_000, QUICK, unknown_ms=150)
    assert set(results.failed) == {"a"}
    assert len(asked) > 1
    assert deadline.elapsed_ms < 9_000


def test_a_broken_link_is_tried_again_and_told_at_the_end() -> None:
    assert repeat(["a"], _script({"a": [-1, 0]}, []), _explain, 5_000, QUICK).complete() == {"a": "a!"}
    with pytest.raises(LinkError, match="gone"):
        repeat(["a"], _script({"a": [-1]}, []), _explain, 100, QUICK).complete()


def test_rounds_are_as_far_apart_as_the_backoff_says() -> None:
    asked: list[float] = []

    def ask(items: Sequence[str], deadline: Deadline) -> Iterable[Answer[str, None]]:
        asked.append(time.monotonic())
        yield Answer(key=items[0], code=6 if len(asked) <= len(PAUSES) else 0)

    repeat(["a"], ask, _explain, 60_000, Backoff.of(SETTINGS)).complete()
    assert_paused(asked)


def test_pieces_hold_everything_in_order() -> None:
    assert [list(piece) for piece in chunks(["a", "b", "c"], 2)] == [["a", "b"], ["c"]]
    assert list(chunks([], 2)) == []


def test_what_no_answer_speaks_of_is_asked_again_and_is_a_failure_in_the_end() -> None:
    asked: list[list[str]] = []

    def ask(items: Sequence[str], deadline: Deadline) -> Iterable[Answer[str, str]]:
        asked.append(list(items))
        yield from (Answer(key=item, value="!") for item in items if item != "b" and (item != "c" or len(asked) > 1))
        yield Answer(key="foreign", value="!")

    results = repeat(["a", "b", "c"], ask, _explain, 200, QUICK)
    assert results.found == {"a": "!", "c": "!"}
    assert asked[:2] == [["a", "b", "c"], ["b", "c"]]
    assert list(results.failed) == ["b"]
    assert "UNKNOWN_SERVER_ERROR" in str(results.failed["b"])
    assert "its answer leaves this out" in str(results.failed["b"])


def test_a_round_goes_on_beyond_its_deadline_while_there_are_answers_and_not_for_long(monkeypatch: pytest.MonkeyPatch):
    early, late = Deadline(60_000, QUICK), Deadline(0, QUICK)
    assert out_of_time(early, LINK, "A", "a:1") is None
    assert out_of_time(late, None, "A", "a:1") is None
    assert out_of_time(late, LINK, "A", "a:1") is LINK
    monkeypatch.setattr("sparkmirror.kafka.rounds.OVERDUE", 0)
    assert "0 times as long" in str(out_of_time(late, None, "A", "a:1"))
