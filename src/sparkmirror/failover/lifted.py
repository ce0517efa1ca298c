"""What operations have denied to producers and allowed again: it stays on record, since a request may come late.

A broker that stands still has the request of a command in its socket, also when that command was killed, or when it
went on with another broker: it carries the request out when it goes on, after the rule was taken away. Kafka has
nothing by which such a request could be refused. So it is seen by plans, and `release --fence-only` takes the rule away
again, as often as it is given.

Invariants: whatever the record says, only rules are taken away that `fence` makes, of topics that the flow has to do
with (`own_topics`); their names are told before; what was allowed again more than a
day ago counts no more, since a rule that is there by then is most likely somebody's own.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from shlex import quote
from typing import Any

from sparkmirror.duties.duty import Sides
from sparkmirror.events import now_ms
from sparkmirror.failover import fence
from sparkmirror.failover.operator import INTERRUPTIONS, Operator
from sparkmirror.failover.own_topics import Own
from sparkmirror.failover.plan import some
from sparkmirror.failover.states import FENCE, LIFTED, STRANGE, Kind, Step, at_home
from sparkmirror.kafka.cluster import Cluster
from sparkmirror.model import FlowName
from sparkmirror.offsets.ledger import Operation

Tell = Callable[[str], None]

LATE_MS = 24 * 3_600_000
"""For so long a request may come late. After that the rule is told as one that no operation has on record."""

Lifted = Mapping[str, Mapping[str, int]]
"""When topics that were denied were allowed again, milliseconds since 1970, by the cluster's alias and their names."""


def let_in(
    operator: Operator, cluster: Cluster, rows: fence.Rows, fact: str, own: Own, timeout_ms: int, tell: Tell
) -> tuple[str, ...]:
    """Takes away what an operation denies on a cluster, if it denies anything; from now on that was lifted.

    Returns:
        the topics on record that the flow has nothing to do with: their rules stay.

    Args:
        operator: who has the operation.
        cluster: where.
        rows: the rules, as they are on record.
        fact: where they are on record.
        own: the flow's topics there.
        timeout_ms: of the request.
        tell: is given what was done.

    Raises:
        SparkmirrorError: the cluster cannot be asked or refuses, or somebody else has the operation.
    """
    if not rows:
        return ()
    named = {rule.name for rule in fence.rules_of(rows)}
    mine = own(named)
    strange = sorted(named - mine)
    rules = fence.rows_of(fence.rules_for(strange))
    rows = [row for row in rows if list(row) not in rules]
    _tell_names(tell, mine, cluster.alias)
    operator.prove()
    done = fence.lift(cluster, rows, timeout_ms)
    before = operator.operation
    facts: Mapping[str, Any] = {} if before is None else before.facts
    more = {STRANGE: [*facts.get(STRANGE, []), *([cluster.alias, name] for name in strange)]} if strange else {}
    operator.note(**{fact: [], LIFTED: with_more(facts.get(LIFTED, {}), cluster.alias, rows, now_ms())}, **more)
    tell(done)
    return tuple(strange)


def _tell_names(tell: Tell, names: Collection[str], alias: str) -> None:
    if names:
        tell(f"rules that deny everybody writing are taken away on {alias}, of topics {', '.join(sorted(names))}")


def let_in_again(
    operator: Operator, sides: Sides, operation: Operation | None, own: Mapping[str, Own], tell: Tell
) -> tuple[tuple[str, str], ...]:
    """Takes away once more what was denied before on both clusters of a flow: it may have come late.

    Args:
        operator: who has the operation.
        sides: of the flow.
        operation: the newest one, or None.
        own: the flow's topics, by the cluster's alias.
        tell: is given what was done.

    Returns:
        clusters and topics on record that the flow has nothing to do with: their rules stay.

    Raises:
        SparkmirrorError: a cluster cannot be asked or refuses, or somebody else has the operation.
    """
    strange: list[tuple[str, str]] = []
    for cluster in (sides.source, sides.target):
        known = () if operation is None else topics_of(operation, cluster.alias, now_ms())
        names = own[cluster.alias](known) if known else frozenset()
        strange += ((cluster.alias, name) for name in known if name not in names)
        if names:
            _tell_names(tell, names, cluster.alias)
            operator.prove()
            fence.take_down(cluster, fence.rules_for(names), sides.flow.admin_timeout_ms)
            tell(f"rules that may have come late are taken away on {cluster.alias}, of {len(names)} topics")
    return tuple(strange)


def with_more(known: Lifted, alias: str, rows: fence.Rows, at_ms: int) -> dict[str, dict[str, int]]:
    """What may still come late, with the topics of some rules that are taken away now. Pure.

    Args:
        known: before.
        alias: of the cluster.
        rows: the rules, as they are on record.
        at_ms: the moment, milliseconds since 1970.
    """
    kept = lately(known, at_ms)
    return {**kept, alias: kept.get(alias, {}) | {rule.name: at_ms for rule in fence.rules_of(rows)}}


def lately(known: Lifted, at_ms: int) -> dict[str, dict[str, int]]:
    """What may still come late. Pure.

    Args:
        known: what was allowed again.
        at_ms: the moment, milliseconds since 1970.
    """
    found = {
        alias: {name: lifted_ms for name, lifted_ms in own.items() if lifted_ms > at_ms - LATE_MS}
        for alias, own in known.items()
    }
    return {alias: own for alias, own in found.items() if own}


def topics_of(operation: Operation, alias: str, at_ms: int) -> tuple[str, ...]:
    """The topics of a cluster that were denied to producers lately and are not any more."""
    return tuple(sorted(lately(operation.facts.get(LIFTED, {}), at_ms).get(alias, {})))


def may_come_late(operation: Operation) -> bool:
    """Whether a command was broken off while it denied something: what it sent may still be on its way."""
    return any(row[0] == Step.FENCING.name for row in operation.facts.get(INTERRUPTIONS, []))


def said_of_late(flow: FlowName, alias: str, file: str) -> str:
    """What is told of requests of a command that was broken off."""
    return (
        f"a request of the command that was broken off may still come to {alias}: where producers are refused there "
        f"later, {_release(flow, file)} takes the rule away again"
    )


def said_of_denied(
    denied: Collection[str], operation: Operation | None, flow: FlowName, alias: str, file: str, at_ms: int
) -> tuple[str, ...]:
    """What is told of topics that everybody is denied to write to, and that the newest operation does not deny.

    Args:
        denied: the topics.
        operation: the newest of the flow, if there is one.
        flow: on whose record it is.
        alias: the cluster.
        file: the configuration file.
        at_ms: the moment, milliseconds since 1970.
    """
    known, late = set(denied), set[str]()
    if operation is not None:
        known -= _denied_by(operation, flow, alias)
        late = known.intersection(topics_of(operation, alias, at_ms))
    found = []
    if operation is not None and late:
        found.append(
            f"everybody is denied again to write to {_topics(late)} on {alias}, by a request of an operation that came "
            f"after its rules were taken away: {_release(flow, file)} takes them away again"
        )
    if others := known - late:
        found.append(
            f"everybody is denied to write to {_topics(others)} on {alias}, by rules that no operation has on record: "
            "they stay. Where nobody else wants them, delete them: kafka-acls --remove --deny-principal 'User:*' "
            f"--operation Write --topic {quote(min(others))}"
        )
    return tuple(found)


def _denied_by(operation: Operation, flow: FlowName, alias: str) -> set[str]:
    """The topics of a cluster that the operation denies still."""
    if alias == flow.source:
        fact = at_home(operation)
    elif operation.kind == Kind.FAILBACK.value:
        fact = FENCE
    else:
        return set()
    return {rule.name for rule in fence.rules_of(operation.facts.get(fact, []))}


def _topics(names: Collection[str]) -> str:
    return f"topics {some(sorted(names))}"


def _release(flow: FlowName, file: str) -> str:
    return f"sparkmirror release {quote(file)} --flow {quote(str(flow))} --fence-only"
