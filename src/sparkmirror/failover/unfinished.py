"""An operation that was begun and has not ended: what takes its place, and how to go on with it. Pure.

Invariants: each refusal names a command that works in the state that the operation is in. A command is made of words of
the configuration: whoever writes to the flow's internal topic must not choose what an operator pastes into a shell.
"""

from __future__ import annotations

from shlex import quote
from typing import Any

from sparkmirror.failover.states import COMMITTING, ENDED, ENDED_BEFORE, Kind, Step, at_home, can_be_taken_back, holders
from sparkmirror.model import FlowName
from sparkmirror.offsets.ledger import Operation
from sparkmirror.offsets.state import JournalState


def unfinished_of(state: JournalState) -> Operation | None:
    """The operation of a flow that was begun and has not ended, if there is one.

    Args:
        state: of the flow's internal topic.
    """
    newest = state.ledger.operation
    return None if newest is None or Step[newest.step] in ENDED else newest


def gives_up(unfinished: Operation, kind: Kind, *, answers: bool) -> bool:
    """Whether an operation takes the place of another one.

    A cluster that is gone can neither be gone back to nor be waited for. A switchover that has begun to move groups
    needs it no more, and goes on.

    Args:
        unfinished: the other one, of the same flow.
        kind: of the operation that was asked for.
        answers: whether the flow's source answers.
    """
    if kind is not Kind.FAILOVER or answers:
        return False
    if unfinished.kind == Kind.SWITCHOVER.value:
        return can_be_taken_back(Step[unfinished.step], unfinished.facts)
    return unfinished.kind == Kind.FAILBACK.value


def may_give_up(unfinished: Operation, kind: Kind) -> bool:
    """Whether it depends on the source whether an operation takes the place of another one."""
    return gives_up(unfinished, kind, answers=False)


def said_of_given_up(unfinished: Operation, flow: FlowName) -> str:
    """What is told when a failover takes the place of an operation.

    Args:
        unfinished: the operation.
        flow: whose.
    """
    text = f"{unfinished.id} is given up, since {flow.source} does not answer"
    if unfinished.facts.get(COMMITTING):
        return (
            f"{text}: what groups that it has moved have read there meanwhile, they read again on {flow.target}, "
            "and what was written there is missing"
        )
    denied = unfinished.facts.get(at_home(unfinished), [])
    if not denied:
        return text
    return (
        f"{text}: writing to {len(denied)} topics stays denied there until a failback, or sparkmirror release --flow "
        f"{quote(str(flow))} --fence-only"
    )


def is_overtaken(unfinished: Operation, back: JournalState | None) -> bool:
    """Whether applications have gone to the cluster of a failback another way meanwhile: it has nothing left to do.

    A failback compares while the flow back runs. One that is held later was stopped by an operation to that cluster,
    and one that was released since has that operation on record still. One that has not compared yet would take for
    left behind what applications have written there since.

    Args:
        unfinished: the operation.
        back: the state of the flow back's internal topic, where it can be read.
    """
    if unfinished.kind != Kind.FAILBACK.value or back is None:
        return False
    if went_back(unfinished.order, back):
        return True
    compared = Step.COMPARING.name in unfinished.facts.get("times", {})
    begun = unfinished_of(back)
    return compared and back.held is not None and (begun is None or back.held.operation not in holders(begun))


def went_back(after: int, back: JournalState) -> str:
    """The operation of the flow back by which applications have gone to its target after another one; "" for none.

    Args:
        after: the order of the other one, see `Operation.order_ms`.
        back: the state of the flow back's internal topic.
    """
    identity, order = ended_before(back.ledger.operation).get(ENDED_BEFORE, ["", 0])
    return str(identity) if order > after else ""


def ended_before(newest: Operation | None) -> dict[str, list[Any]]:
    """The fact of an operation that is begun behind ``newest``, see `states.ENDED_BEFORE`; empty if there is none."""
    if newest is None or (newest.kind == Kind.FAILBACK.value and newest.step == Step.DONE.name):
        return {}
    if newest.step == Step.DONE.name:
        return {ENDED_BEFORE: [newest.id, newest.order]}
    before = newest.facts.get(ENDED_BEFORE)
    return {} if before is None else {ENDED_BEFORE: before}


def told_of_unfinished(unfinished: Operation, flow: FlowName, *, overtaken: bool = False) -> str:
    """Why nothing else is begun, and how to go on.

    Args:
        unfinished: the operation that has not ended.
        flow: on whose record it is.
        overtaken: whether it `is_overtaken`.
    """
    began = f"{unfinished.id} was begun by {unfinished.by} and has not ended ({Step[unfinished.step].value})"
    if overtaken:
        return (
            f"{began}, and applications have gone to {flow.source} another way since: sparkmirror failback --to "
            f"{quote(flow.source)} --abandon gives it up"
        )
    command = f"sparkmirror {Kind(unfinished.kind).value} --from {quote(flow.source)} --to {quote(flow.target)}"
    if unfinished.kind == Kind.FAILBACK.value:
        command = f"sparkmirror failback --to {quote(flow.source)}"
    back = ", or add --abandon" if can_be_taken_back(Step[unfinished.step], unfinished.facts) else ""
    return f"{began}: go on with {command}{back}"


def why_forward_only(unfinished: Operation, flow: FlowName, back: JournalState | None) -> str:
    """Why an operation that has begun to move groups is not taken back, and how to go on.

    Args:
        unfinished: the operation.
        flow: on whose record it is.
        back: as for `is_overtaken`.
    """
    begun = None if back is None or back.held is None else unfinished_of(back)
    if unfinished.kind == Kind.FAILBACK.value and begun is not None:  # it goes neither on nor back before that one ends
        return told_of_unfinished(begun, flow.back)
    forward = f"{unfinished.id} has begun to move groups, and can only go forward: run the command without --abandon"
    if unfinished.kind == Kind.FAILBACK.value:
        return forward
    return (
        f"{forward}; or, where applications have stayed on {flow.source}, add --force: groups go on there, and "
        f"what it has committed on {flow.target} counts as a copy of that"
    )
