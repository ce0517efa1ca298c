"""An operation that was begun and has not ended: what takes its place, and how to go on with it. Pure.

Invariant: each refusal names a command that works in the state that the operation is in.
"""

from __future__ import annotations

from sparkmirror.failover.states import COMMITTING, ENDED, Kind, Step, at_home, can_be_taken_back
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


def said_of_given_up(unfinished: Operation) -> str:
    """What is told when a failover takes the place of an operation."""
    text = f"{unfinished.id} is given up, since {unfinished.source} does not answer"
    if unfinished.facts.get(COMMITTING):
        return (
            f"{text}: what groups that it has moved have read there meanwhile, they read again on {unfinished.target}, "
            "and what was written there is missing"
        )
    denied = unfinished.facts.get(at_home(unfinished), [])
    if not denied:
        return text
    return (
        f"{text}: writing to {len(denied)} topics stays denied there until a failback, or sparkmirror release --flow "
        f"'{unfinished.source}->{unfinished.target}' --fence-only"
    )


def told_of_unfinished(unfinished: Operation) -> str:
    """Why nothing else is begun, and how to go on."""
    command = f"sparkmirror {unfinished.kind} --from {unfinished.source} --to {unfinished.target}"
    if unfinished.kind == Kind.FAILBACK.value:
        command = f"sparkmirror failback --to {unfinished.source}"
    back = ", or add --abandon" if can_be_taken_back(Step[unfinished.step], unfinished.facts) else ""
    return (
        f"{unfinished.id} was begun by {unfinished.by} and has not ended ({Step[unfinished.step].value}): go on with "
        f"{command}{back}"
    )
