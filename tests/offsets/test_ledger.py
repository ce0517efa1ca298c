"""Who has an operation, as the log's order says."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import permutations

import pytest

from sparkmirror.offsets.ledger import Claim, Ledger, Operation, claim_key
from sparkmirror.offsets.records import parse
from sparkmirror.offsets.state import JournalState


def claim(token: str, displaces: str = "", sign: int = 0) -> Claim:
    return Claim(token=token, displaces=displaces, sign=sign, by=f"{token}@host", time_ms=1)


def operation(token: str, number: int, step: str = "STOPPING") -> Operation:
    return Operation(
        token=token,
        number=number,
        id="failover-1",
        kind="failover",
        step=step,
        source="a",
        target="b",
        began_ms=1,
        time_ms=2,
        by=f"{token}@host",
        facts={"options": {"fence": "idle", "idle_s": 5.0, "timeout_s": 9}, "fence": [["TOPIC", "größe"]]},
        failure="it broke",
    )


def after(*records: Claim | Operation | str) -> Ledger:
    ledger = Ledger()
    for one in records:
        ledger.forget(one) if isinstance(one, str) else ledger.take(one)
    return ledger


def owner(ledger: Ledger) -> str:
    return "" if ledger.owner is None else ledger.owner.token


@pytest.mark.parametrize(
    ("records", "has"),
    [
        ((), ""),
        ((claim("x"),), "x"),
        ((claim("x"), claim("y")), "x"),
        ((claim("x"), claim("y", "x")), "y"),
        ((claim("x"), claim("y", "x"), claim("x", sign=9)), "y"),
        ((claim("x"), claim("y", "x"), claim("z", "x")), "y"),
        ((claim("x"), claim_key("x")), ""),
        ((claim("x"), claim_key("y")), "x"),
        ((claim("x"), claim_key("x"), claim("y")), "y"),
        ((claim("x"), claim("y"), claim_key("x")), ""),
    ],
)
def test_a_claim_counts_where_nobody_has_it_or_where_it_displaces_who_has(records, has):
    assert owner(after(*records)) == has


def test_signs_of_life_are_seen():
    ledger = after(claim("x"), claim("x", sign=3))
    assert ledger.owner is not None
    assert ledger.owner.sign == 3


def test_what_a_displaced_operator_writes_is_not_taken():
    taken = after(claim("x"), operation("x", 1), claim("y", "x"), operation("x", 2, "DONE"))
    assert taken.operation == operation("x", 1)
    assert after(claim("y"), operation("x", 1)).operation is None


def test_old_news_is_not_taken_when_everybody_has_left():
    both = (claim("x"), operation("x", 1), claim("y", "x"), operation("y", 2), claim_key("y"))
    assert after(*both, operation("x", 2, "DONE")).operation == operation("y", 2)


def test_a_compacted_log_says_the_same():
    """What compaction leaves of a log in which y displaced x, whose late signs were never taken."""
    signs = [claim("x", sign=5), claim("y", "x", sign=7)]
    for left in permutations(signs):
        assert owner(after(*left)) == "y"


@pytest.mark.parametrize("one", [claim("x", "y", 4), operation("x", 3)])
def test_records_are_read_as_they_were_written(one):
    assert parse(one.key, one.value()) == one
    state = JournalState()
    state.take(one)
    found = state.ledger.owner if isinstance(one, Claim) else state.ledger.operation
    assert found == one


def test_an_operator_that_ends_is_forgotten_by_the_state():
    state = JournalState()
    state.take(claim("x"))
    state.forget(claim_key("x"))
    assert state.ledger.owner is None
    state.take(replace(claim("y"), sign=1))
    assert owner(state.ledger) == "y"


@pytest.mark.parametrize("change", [{"step": "RESTING"}, {"kind": "release"}, {"number": -1}, {"facts": []}])
def test_an_operation_that_no_release_has_written_is_none(change: dict[str, object]):
    one = operation("a", 1)
    with pytest.raises(ValueError, match="not a record of an internal topic"):
        parse(one.key, json.dumps(json.loads(one.value()) | change))
