"""The steps of each operation and how one follows another: a table, and the only place that says so.

Invariant: a step may be done again from its begin, since whoever takes an operation over does not know how far it came.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import Enum
from typing import Any

from sparkmirror.offsets.ledger import Operation


class Kind(Enum):
    """What is done."""

    FAILOVER = "failover"
    SWITCHOVER = "switchover"
    FAILBACK = "failback"


class Keep(Enum):
    """What becomes of records that only the cluster that came back has."""

    TOPIC = "keep-topic"
    """They are copied to a topic of their own beside theirs."""

    EXPORT = "export"
    """They are written to files beside the report."""

    DISCARD = "discard"
    """They stay where they are, and are copied nowhere."""


class Step(Enum):
    """What is being done; the value is for people."""

    COMPARING = "what only the cluster that came back has is looked for"
    SAVING = "what only it has is put aside"
    FENCING = "producers are kept from the source"
    CATCHING_UP = "the flow copies what is left"
    IDLING = "groups leave the source"
    STOPPING = "the flow is stopped"
    MOVING = "groups are moved"
    VERIFYING = "groups are looked at on the target"
    RELEASING = "the flow goes on"
    UNDOING = "what was done is taken back"
    DONE = "done"
    ABANDONED = "abandoned"


ORDER: dict[Kind, tuple[Step, ...]] = {
    Kind.FAILOVER: (Step.STOPPING, Step.MOVING, Step.VERIFYING, Step.DONE),
    Kind.SWITCHOVER: (
        Step.FENCING,
        Step.CATCHING_UP,
        Step.IDLING,
        Step.STOPPING,
        Step.MOVING,
        Step.VERIFYING,
        Step.DONE,
    ),
    Kind.FAILBACK: (
        Step.COMPARING,
        Step.SAVING,
        Step.FENCING,
        Step.CATCHING_UP,
        Step.IDLING,
        Step.MOVING,
        Step.VERIFYING,
        Step.RELEASING,
        Step.DONE,
    ),
}

ENDED = frozenset({Step.DONE, Step.ABANDONED})

REVERSIBLE = frozenset(
    {
        Step.COMPARING,
        Step.SAVING,
        Step.FENCING,
        Step.CATCHING_UP,
        Step.IDLING,
        Step.STOPPING,
        Step.UNDOING,
    }
)
"""These come before the step that moves groups: an operation can be taken back, and leaves nothing."""

COMMITTING = "committing"
"""The fact that is on record before the first offset of a group is committed."""


TRIED = "tried"
"""The fact that has the commits that are about to be made, as ``tried.Tried``."""


TORN = "torn"
"""The fact that has the partitions of the source whose copies have lost their end since the flow was stopped: topic,
partition, and from which target offset on. Where the flow back stood behind that, it has seen what is gone."""


UNBROUGHT = "unbrought"
"""The fact that has the copies that others have written to, where that is not brought to the cluster that groups go to
though it is to be brought, as ``unbrought.rows_of``."""


NOT_HOME = "not_home"
"""The fact that has what the flow said last of copies that it does not bring home, where the cluster that has them is
gone: as ``unbrought.told_last``."""


UNSETTLED = "unsettled"
"""The fact that has the partitions of the source of which nobody could find out how far they are copied, and why."""


MAP_LACKS = "map_lacks"
"""The fact that has what the flow's internal topic still lacks of the offset map, as it was told when the operation had
put on record where the partitions stand: a line for each topic, for people."""


LOST_START = "lost_start"
"""The fact that says that the flow's internal topic had lost the records of its starts when the operation was begun."""


CAME_BACK = "came_back"
"""The fact that has the groups that operations of the flow back had brought to the source when it was asked: what they
have on the target dates from before that, unless others have used them there since."""


MOVED, MOVED_BEFORE = "moved", "moved_before"
"""The facts that have the groups that the operation has moved, and those that earlier ones have moved to where
applications are, since the flow is held: what is on record of these at the source is older."""


TAKEN_BACK = "taken_back"
"""The fact that has the groups that operations of the flow back, or this failback, have brought to the source since the
flow is held, or were about to: id and order of each of these operations, and its groups."""


RETURNED = "returned"
"""The same, as an operation has found it when it was begun: of these groups what is on record is old."""


UNFOLLOWED = "unfollowed"
"""The fact that has since when the flow has not followed groups on its source, as ``unfollowed.Since``: as an operation
has found it when it was begun, or as the release of the flow has left it."""


APART = "apart"
"""The fact that has the groups that an operation has found on the target too and not taken there, since they have
members there or are used by others, or have no translation: two groups of one name, for a failback too."""


NOT_TAKEN = "not_taken"
"""The fact that has the groups whose offsets the cluster that they are moved to does not take, and why."""


UNASKED = "unasked"
"""The fact that has the groups of which a source that answers has not said what they have there now: they go by what
was seen last."""


UNTOLD = "untold"
"""The fact that has what such a source has not said, a line for each, for people."""


STRANGE = "strange"
"""The fact that has the topics that were on record and that the flow has nothing to do with: cluster and name."""


BROUGHT = "brought"
"""The fact of a failback that has how far the logs went into which records had been brought when groups were moved, as
``brought.rows_of``."""


GONE = "gone"
"""The fact of a failback that has the groups that were taken to where applications are, and the partitions in which
they have no offset there any more: group, topic, partition."""


UNSURE = "unsure"
"""The fact that has the places of which nobody knows whether a command that was broken off has moved them: they have
neither the offsets that they had before nor those that it was about to commit. Also those of `AGAIN`."""


EARLIER, AGAIN = "earlier", "again"
"""The facts that have where groups stood before they were moved, as long as the operation has not ended, and the places
that stood there once more, or nowhere, and were moved again; both as ``earlier.Kept``."""


FORGOTTEN = "forgotten"
"""Of what is on record of an operation: groups and partitions that have an offset of the flow's on the target, and that
are not on record any more."""

FENCE, HOME_FENCE = "fence", "home_fence"
"""The facts that have what is denied to producers: on the source of the operation, and, of a failback, on the cluster
that came back, by operations before."""

LIFTED = "lifted"
"""The fact that has the topics that this operation, or one before, has denied to producers and allowed again, by the
cluster's alias, and when: a request to deny them may come late, see ``lifted``."""

HELD_BEFORE = "held_before"
"""The fact that has the order by which an earlier operation held the flow: it counts again if this is taken back."""


ENDED_BEFORE = "ended_before"
"""The fact that has the last failover or switchover that came to its end before this operation: id and order. An
operation that is given up must not hide it."""

LEFT_BEFORE = "left_before"
"""The fact that has the groups that had left something behind when the operation was begun: they stay where they live
if it is given up."""

BACK = "back"
"""The fact that has how the flow back stood when the operation was begun, as ``standing.Standing``; [] where nobody
could tell."""

GIVEN_UP = "given_up"
"""The fact that has the id of the operation whose place this one has taken: a hold of that one is its own."""


_ID = re.compile(r"[a-z]{1,20}-[0-9-]{1,40}")


def file_name(operation: Operation) -> str:
    """What files of an operation are called: its id, unless somebody else has put one on record that is no name."""
    return operation.id if _ID.fullmatch(operation.id) else "operation-of-others"


def holders(operation: Operation) -> tuple[str, ...]:
    """The ids of the operations whose hold of the flow is this one's."""
    given_up = operation.facts.get(GIVEN_UP)
    return (operation.id, given_up) if given_up else (operation.id,)


def at_home(operation: Operation) -> str:
    """The fact that has what is denied on the cluster from which the flow copies."""
    return HOME_FENCE if operation.kind == Kind.FAILBACK.value else FENCE


def can_be_taken_back(step: Step, facts: Mapping[str, Any]) -> bool:
    """Whether no group can have been moved yet."""
    return step in REVERSIBLE or (step is Step.MOVING and not facts.get(COMMITTING))


def first(kind: Kind) -> Step:
    """The step that an operation begins with."""
    return ORDER[kind][0]


def following(kind: Kind, step: Step) -> Step:
    """The step after one that is done.

    Raises:
        ValueError: nothing follows it, which is a defect of the caller.
    """
    if step is Step.UNDOING:
        return Step.ABANDONED
    order = ORDER[kind]
    place = order.index(step)
    if place + 1 == len(order):
        raise ValueError(f"nothing follows {step.name} of a {kind.value}")
    return order[place + 1]
