"""What every duty of the control side is: it looks, decides, and applies what it decided.

A duty's ``look`` observes both clusters and gives what it would change, as plain data; ``apply`` carries that out.
So a dry run is a look without an apply, and an audit is the list of results.

Invariants: ``look`` changes nothing anywhere; an action that fails says why and does not stop the others; a duty keeps
in memory only what a look can find again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, Protocol

from sparkmirror.config import FlowConfig
from sparkmirror.errors import SparkmirrorError
from sparkmirror.kafka.cluster import Cluster
from sparkmirror.kafka.store import Store
from sparkmirror.model import Alias, TopicPartition
from sparkmirror.offsets.records import Progress


class Sign(Enum):
    """How a change shows in a diff."""

    ADD = "+"
    CHANGE = "~"
    REMOVE = "-"
    NOTE = "!"
    """Nothing is changed: something that its owner should know, such as what cannot be copied."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One line of a diff.

    Attributes:
        cluster: that is changed.
        sign: how.
        what: the thing, such as ``topic A.orders``.
        detail: what about it, such as ``retention.ms: 1000 -> 2000``.
    """

    cluster: Alias
    sign: Sign
    what: str
    detail: str = ""

    @property
    def text(self) -> str:
        """The line."""
        return f"{self.sign.value} {self.cluster}: {self.what}" + (f"  {self.detail}" if self.detail else "")


class Action(Protocol):
    """What a duty would do."""

    @property
    def change(self) -> Change | None:
        """How it shows in a diff; None for what happens all the time and changes no setting, such as a heartbeat."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """What became of an action.

    Attributes:
        action: the action.
        failure: why it was not done; "" where it was.
    """

    action: Action
    failure: str = ""

    @property
    def done(self) -> bool:
        """Whether it was done."""
        return not self.failure


@dataclass(slots=True, kw_only=True)
class Sides:
    """What a duty works with. For one thread.

    Attributes:
        flow: the flow.
        source, target: the clusters, to ask and to change.
        store: the flow's internal topic, to be followed by whoever reads it; None before the flow's first start.
        prove: raises where another driver has the flow by now; right before what no broker refuses to a former owner.
    """

    flow: FlowConfig
    source: Cluster
    target: Cluster
    store: Store | None
    prove: Callable[[], None] = lambda: None

    @property
    def progress(self) -> Mapping[TopicPartition, Progress]:
        """How far the flow's partitions have come, as it is on record; nothing before the flow's first start."""
        return {} if self.store is None else self.store.state.progress


class Duty(Protocol):
    """One duty of one flow.

    Attributes:
        name: for people, such as ``topic configs``.
        interval_s: seconds between rounds; None where the flow's configuration switches the duty off.
    """

    name: str
    interval_s: float | None

    def look(self) -> Sequence[Any]:
        """Observes and decides; changes nothing.

        Raises:
            SparkmirrorError: a cluster cannot be asked.
        """

    def apply(self, actions: Sequence[Any]) -> Sequence[Result]:
        """Carries out what `look` gave.

        Raises:
            SparkmirrorError: a cluster cannot be asked; then nothing is known of the actions.
        """


def do_round(duty: Duty, prove: Callable[[], None] = lambda: None) -> tuple[Result, ...]:
    """One round: looks, and applies what there is to do.

    Args:
        duty: the duty.
        prove: raises where another driver has the flow by now. What was decided before a pause is not applied then.

    Raises:
        SparkmirrorError: a cluster cannot be asked, or another driver has the flow.
    """
    actions = duty.look()
    if not actions:
        return ()
    prove()
    return tuple(duty.apply(actions))


def each(actions: Sequence[Any], do: Callable[[Any], None]) -> tuple[Result, ...]:
    """Does the actions one after the other; one that fails says why."""
    results = []
    for action in actions:
        try:
            do(action)
        except SparkmirrorError as failure:
            results.append(Result(action=action, failure=str(failure)))
        else:
            results.append(Result(action=action))
    return tuple(results)
