"""What is said of a step that a cluster did not let come to its end: the likely cause, and how to go on. Pure.

A broker whose disk is full closes its log directory, and ends itself when it has no other: clients see a coordinator
that is away, a partition without a leader, or nothing at all. They cannot tell a full disk from a machine that is off;
the broker's own log can.
"""

from __future__ import annotations

from shlex import quote

from sparkmirror.errors import BrokerError, LinkError, SparkmirrorError
from sparkmirror.failover.states import Kind, Step
from sparkmirror.failover.unfinished import gives_up
from sparkmirror.kafka.codes import GONE, Advice, advice
from sparkmirror.model import FlowName
from sparkmirror.offsets.ledger import Operation


def cause(failure: SparkmirrorError) -> str:
    """What may be behind it and where to look, or "" where the failure itself says that."""
    away = isinstance(failure, LinkError) and not failure.lasting
    unable = isinstance(failure, BrokerError) and advice(failure.code) in (Advice.RETRY, Advice.REFRESH)
    gone = isinstance(failure, BrokerError) and failure.code in GONE
    if gone or not (away or unable):
        return ""
    return "a broker may have ended, or cannot write: see the brokers' logs, and whether a disk is full"


def told_of(failure: SparkmirrorError, operation: Operation, flow: FlowName) -> SparkmirrorError:
    """The failure of a step as a person is told of it; one that says what to do stays as it is.

    Args:
        failure: of the step that the operation is at.
        operation: as it is on record.
        flow: on whose record.
    """
    if not isinstance(failure, BrokerError | LinkError):
        return failure
    behind = cause(failure)
    instead = _instead(operation, flow) if behind and failure.cluster == flow.source else ""
    return SparkmirrorError(
        f"{failure}{f': {behind}' if behind else ''}; {operation.id} is not done, it stands at "
        f'"{Step[operation.step].value}": mend it, and run the same command again, which goes on there{instead}'
    )


def _instead(operation: Operation, flow: FlowName) -> str:
    """What to do where the cluster is gone that is left, or was, and a failover takes the operation's place."""
    if not gives_up(operation, Kind.FAILOVER, answers=False):
        return ""
    command = f"sparkmirror failover --from {quote(flow.source)} --to {quote(flow.target)}"
    return f"; if {flow.source} is gone, {command} takes its place"
