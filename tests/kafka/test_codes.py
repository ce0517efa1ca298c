"""Every error code has been decided on: the codes that kafka-python knows, and those of Kafka's own client."""

from __future__ import annotations

import inspect

import pytest

from kafka import errors as kafka_errors
from sparkmirror.errors import BrokerError
from sparkmirror.kafka import codes
from sparkmirror.kafka.codes import DECIDED, Advice, advice, broker_error, may_be_appended, name_of

NEWEST_OF_4_3_1 = 133
"""``Errors`` of kafka-clients 4.3.1 goes from -1 to here without a gap."""

RETRIABLE_IN_JAVA = frozenset(
    {2, 3, 5, 6, 7, 9, 13, 14, 15, 16, 19, 20, 41, 51, 56, 70, 71, 72, 74, 75, 78, 80, 83, 84, 88, 89, 100, 103, 106}
    | {122, 123, 133}
)
"""Those of 4.3.1 whose exceptions are ``RetriableException``."""

DECIDED_OTHERWISE = {
    2: "a corrupt disk would be asked for ever",
    8: "a broker that is away; nothing is lost by asking again",
    84: "an administrator's request that was not needed",
    122: "share groups",
    123: "share groups",
    133: "share groups",
}

_numbers = (getattr(found, "errno", None) for _, found in inspect.getmembers(kafka_errors, inspect.isclass))
known = {number for number in _numbers if isinstance(number, int)}


def test_every_code_of_kafka_python_has_a_row():
    assert not known - DECIDED


def test_every_code_of_kafka_4_3_1_has_a_row_and_no_row_is_made_up():
    assert set(range(-1, NEWEST_OF_4_3_1 + 1)) == DECIDED


def test_no_code_is_decided_twice():
    assert not set(codes._ADVICE) & codes._GIVE_UP


def test_what_java_retries_is_retried_here_unless_decided_otherwise():
    ours = {code for code in DECIDED if advice(code) in (Advice.RETRY, Advice.REFRESH)}
    assert ours ^ RETRIABLE_IN_JAVA == set(DECIDED_OTHERWISE)


def test_the_leader_is_learnt_anew_where_java_refreshes_its_metadata():
    for code in (3, 5, 6, 9, 13, 56, 72, 74, 80, 83, 100, 103):
        assert advice(code) is Advice.REFRESH


def test_a_lost_place_among_the_sequences_gives_the_partition_back():
    assert {code for code in DECIDED if advice(code) is Advice.GIVE_BACK} == {45, 46, 47, 59, 90}


def test_a_batch_is_believed_to_be_missing_only_where_the_broker_looked_before_it_appended():
    """What ``DelayedProduce`` answers for batches that were appended, and what an answer that never came stands for."""
    assert all(may_be_appended(code) for code in (-1, 3, 6, 7, 13, 20, 46, 56, NEWEST_OF_4_3_1 + 1))
    assert not any(may_be_appended(code) for code in (0, 2, 10, 19, 29, 32, 45, 47, 59, 87, 90))


def test_a_code_of_a_later_release_is_given_up_on():
    assert advice(NEWEST_OF_4_3_1 + 1) is Advice.GIVE_UP


def test_only_no_error_is_none():
    assert [code for code in sorted(DECIDED) if advice(code) is Advice.NONE] == [0]


@pytest.mark.parametrize("code", range(1, NEWEST_OF_4_3_1 + 1))
def test_every_code_has_kafkas_own_name(code: int):
    assert name_of(code).isupper()
    assert "UNRECOGNIZED" not in name_of(code)


@pytest.mark.parametrize(
    ("code", "name"),
    [
        (-1, "UNKNOWN_SERVER_ERROR"),
        (6, "NOT_LEADER_OR_FOLLOWER"),
        (7, "REQUEST_TIMED_OUT"),
        (10, "MESSAGE_TOO_LARGE"),
        (45, "OUT_OF_ORDER_SEQUENCE_NUMBER"),
        (47, "INVALID_PRODUCER_EPOCH"),
        (128, "INVALID_REGULAR_EXPRESSION"),
        (133, "SHARE_SESSION_LIMIT_REACHED"),
    ],
)
def test_names_are_spelt_as_kafka_spells_them(code: int, name: str):
    assert name_of(code) == name


def test_an_error_tells_where_and_what_to_do():
    error = broker_error(10, "B", topic="A.orders", partition=3, offset=77)
    assert isinstance(error, BrokerError)
    assert str(error) == (
        "cluster B, A.orders-3 at offset 77: MESSAGE_TOO_LARGE (10): raise max.message.bytes of the target topic"
    )


def test_remedies_are_for_codes_that_are_given_up_on_or_may_last():
    assert set(codes._REMEDY) <= DECIDED
