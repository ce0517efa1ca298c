"""In which order an operation puts on record what it has moved."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, cast

import pytest

from sparkmirror.errors import SparkmirrorError
from sparkmirror.failover.moves import decide
from sparkmirror.failover.operator import Operator
from sparkmirror.failover.procedure import Procedure
from sparkmirror.failover.states import COMMITTING, MOVED
from sparkmirror.kafka.store import Store
from sparkmirror.offsets.group_records import GroupCommitted, GroupLeft
from sparkmirror.offsets.ledger import Operation
from sparkmirror.offsets.state import JournalState
from tests.failover.test_moves import sight

OPERATION = Operation(
    token="t",
    number=1,
    id="switchover-1",
    kind="switchover",
    step="MOVING",
    source="a",
    target="b",
    began_ms=9,
    time_ms=9,
    by="me",
    facts={},
    order_ms=9,
)


class Record:
    """Store and operator in one: what is written, in order."""

    def __init__(self) -> None:
        self.state, self.operation = JournalState(), OPERATION
        self.written: list[object] = []

    def write(self, records: Sequence[object], tombstones: Sequence[str] = ()) -> None:
        self.written += [type(one) for one in records]
        assert not tombstones

    def note(self, **facts: Any) -> None:
        self.written += [facts[name] if name == MOVED else name for name in (MOVED, COMMITTING) if name in facts]

    def check(self) -> None:
        """Nobody else has the operation."""


def test_what_a_group_leaves_behind_is_on_record_after_its_commits_and_that_it_was_moved():
    """Killed before, the command finds it not moved yet, also where the target has lost the commits since."""
    procedure, record = object.__new__(Procedure), Record()
    procedure._store, procedure._operator = cast("Store", record), cast("Operator", record)
    procedure._put_on_record(decide(sight(15)), {})
    assert record.written == [GroupCommitted, ["g"], GroupLeft]


@pytest.mark.parametrize("refuses", [False, True])
def test_which_groups_may_be_moved_is_told_before_the_first_is_and_without_that_none_is(refuses):
    """With the fault, a command that died in between left no trace of it with the flow that is held."""
    procedure, record = object.__new__(Procedure), Record()

    def announce(groups: Collection[str]) -> None:
        record.written.append(list(groups))
        if refuses:
            raise SparkmirrorError("the record of the flow back cannot be written")

    def commits(_decided: object) -> dict[str, Exception]:
        record.written.append("committed")
        return {}

    procedure._store, procedure._operator = cast("Store", record), cast("Operator", record)
    procedure._announce, procedure._tell, procedure._homeward = announce, lambda _text: None, False
    vars(procedure)["_commit"] = commits
    if refuses:
        with pytest.raises(SparkmirrorError, match="cannot be written"):
            procedure.commit(lambda: decide(sight(15)))
    else:
        procedure.commit(lambda: decide(sight(15)))
    assert record.written == [["g"], *([] if refuses else [COMMITTING, "committed"])]
