"""Who is switching a flow's clusters over, and how far that has come; part of ``offsets.records``.

    ["operator", token]   somebody claims the operation, and lives
    ["operation"]         the newest operation: what it is, and which step was begun

The log's order decides between two operators: a claim counts if nobody has the operation, or if it names the one that
it displaces, who was watched and gave no sign. What a displaced operator still writes is not taken.

Invariants: at most one claim counts at each offset, and every reader finds the same one; steps are numbered, and a
number that is not greater than the newest is old news. Operations of a flow and of the flow back lie in two topics:
which of them came first is told by `Operation.order_ms`, and not by the clocks of the machines that they were run on.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from sparkmirror.offsets import json_text
from sparkmirror.offsets.json_text import count, moment, text
from sparkmirror.offsets.operation_facts import STEPS, check, one_of

KINDS = frozenset({"failover", "switchover", "failback"})
OPERATION_KEY = json_text.write(["operation"])


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """An operator's claim, written anew as its sign of life.

    Attributes:
        token: of this operator's process.
        displaces: the token of the one who had the operation and gave no sign; "" for none.
        sign: grows with each sign of life.
        by: who it is, for people.
        time_ms: when, by the operator's own clock; for people.
    """

    token: str
    displaces: str
    sign: int
    by: str
    time_ms: int

    @property
    def key(self) -> str:
        """The record's key."""
        return claim_key(self.token)

    def value(self) -> str:
        """The record's value."""
        said = {"v": json_text.VERSION, "displaces": self.displaces, "sign": self.sign}
        return json_text.write(said | {"by": self.by, "time_ms": self.time_ms})


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """An operation, at one of its steps.

    Attributes:
        token: of the operator who wrote this.
        number: grows with each record.
        id: of the operation, the same from its begin to its end.
        kind, step: as ``failover.states`` names them.
        source, target: the clusters, by the flow that is concerned.
        began_ms, time_ms: when it was begun, and when this was written.
        by: who, for people.
        facts: what later steps need of earlier ones, and how it was asked for.
        failure: why it did not go on, or "".
        order_ms: greater than that of each operation that was known when it was begun, of the flow or of the flow back;
            `began_ms` where no clock is wrong.
    """

    token: str
    number: int
    id: str
    kind: str
    step: str
    source: str
    target: str
    began_ms: int
    time_ms: int
    by: str
    facts: Mapping[str, Any] = field(default_factory=dict)
    failure: str = ""
    order_ms: int = 0

    @property
    def key(self) -> str:
        """The record's key."""
        return OPERATION_KEY

    @property
    def order(self) -> int:
        """`order_ms`; when it was begun, for one of a release that did not put that on record."""
        return self.order_ms or self.began_ms

    def value(self) -> str:
        """The record's value."""
        return json_text.write(
            {
                "v": json_text.VERSION,
                "token": self.token,
                "number": self.number,
                "id": self.id,
                "kind": self.kind,
                "step": self.step,
                "source": self.source,
                "target": self.target,
                "began_ms": self.began_ms,
                "time_ms": self.time_ms,
                "by": self.by,
                "facts": dict(self.facts),
                "failure": self.failure,
                "order_ms": self.order_ms,
            }
        )


@dataclass(slots=True)
class Ledger:
    """What these records say together, in the order of the log.

    Attributes:
        owner: the claim that counts, or None.
        operation: the newest one, or None.
    """

    owner: Claim | None = None
    operation: Operation | None = None

    def take(self, record: Claim | Operation) -> None:
        """Adds one record."""
        if isinstance(record, Claim):
            if self.owner is None or self.owner.token in (record.token, record.displaces):
                self.owner = record
            return
        mine = self.owner is None or self.owner.token == record.token
        if mine and (self.operation is None or record.number > self.operation.number):
            self.operation = record

    def forget(self, key: str) -> None:
        """Takes a tombstone: an operator has ended."""
        if self.owner is not None and key == self.owner.key:
            self.owner = None


LedgerRecord = Claim | Operation


def claim_key(token: str) -> str:
    """The key of a `Claim`."""
    return json_text.write(["operator", token])


def _claim(name: list[Any], data: dict[str, Any]) -> Claim:
    return Claim(
        token=name[1],
        displaces=text(data["displaces"]),
        sign=count(data["sign"]),
        by=text(data["by"]),
        time_ms=moment(data["time_ms"]),
    )


def _facts(value: Any) -> dict[str, Any]:
    if type(value) is not dict:
        raise ValueError("facts are missing")
    text(json_text.write(value))
    check(value)
    return value


def _operation(_name: list[Any], data: dict[str, Any]) -> Operation:
    return Operation(
        token=text(data["token"]),
        number=count(data["number"]),
        id=text(data["id"]),
        kind=one_of(KINDS, data["kind"]),
        step=one_of(STEPS, data["step"]),
        source=text(data["source"]),
        target=text(data["target"]),
        began_ms=moment(data["began_ms"]),
        time_ms=moment(data["time_ms"]),
        by=text(data["by"]),
        facts=_facts(data["facts"]),
        failure=text(data["failure"]),
        order_ms=moment(data.get("order_ms", 0)),
    )


READERS: dict[str, Callable[[list[Any], dict[str, Any]], LedgerRecord]] = {
    "operator": _claim,
    "operation": _operation,
}
"""The readers of these kinds, for ``records.parse``."""
