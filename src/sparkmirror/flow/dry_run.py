"""What a start of the flows would change on their clusters, as a diff; nothing is changed.

Invariants: only questions are asked, of source and target; a flow whose clusters cannot be asked says so and keeps no
other flow from its diff; what a duty would do is what its own ``look`` gives, so the diff cannot differ from the deed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from sparkmirror.config import FlowConfig, MirrorConfig
from sparkmirror.duties import dead_letters, roster, topics
from sparkmirror.duties.duty import Change, Sides, Sign
from sparkmirror.duties.internal_topics import missing_internal_topics
from sparkmirror.duties.topics import Action, AddPartitions, CreateTopic
from sparkmirror.errors import SparkmirrorError
from sparkmirror.flow.sides import connected, record
from sparkmirror.kafka import admin
from sparkmirror.kafka.admin import NewTopic
from sparkmirror.model import Alias

AT_ONCE = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Preview:
    """What the start of one flow would change.

    Attributes:
        flow: ``source->target``.
        changes: in the order in which they would be made.
        failure: why that is not known in full, or "".
    """

    flow: str
    changes: tuple[Change, ...] = ()
    failure: str = ""


def preview(config: MirrorConfig) -> tuple[Preview, ...]:
    """Asks the clusters of every flow, side by side.

    Args:
        config: what would be run.

    Returns:
        One preview per flow, in the order of the configuration.
    """
    with ThreadPoolExecutor(min(AT_ONCE, max(1, len(config.flows)))) as pool:
        return tuple(pool.map(_preview_flow, config.flows))


def _preview_flow(flow: FlowConfig) -> Preview:
    found: list[Change] = []
    failure = ""
    try:
        with connected(flow, role="plan") as sides:
            found += _topic_changes(sides)
            if record(sides) is None:
                sides.store = None
            found += _duty_changes(sides)
    except SparkmirrorError as trouble:
        failure = str(trouble)
    return Preview(flow=str(flow.name), changes=tuple(dict.fromkeys(found)), failure=failure)


def _topic_changes(sides: Sides) -> Iterator[Change]:
    flow, alias = sides.flow, sides.flow.target.alias
    for topic in missing_internal_topics(flow, sides.target):
        yield _creation(alias, topic, "of sparkmirror itself")
    observed = topics.observe(flow, sides.source, sides.target)
    for action in topics.decide(observed):
        yield topic_change(action, alias)
    letters = dead_letters.missing_dead_letter_topic(observed, sides.source)
    if letters is not None:
        yield _creation(alias, letters, "for records that fit nowhere")


def _duty_changes(sides: Sides) -> Iterator[Change]:
    for duty in (*roster.upkeep(sides), *roster.pulse(sides)):
        yield from _shown(duty.look())


def _shown(actions: Sequence[object]) -> Iterable[Change]:
    changes = (getattr(action, "change", None) for action in actions)
    return (change for change in changes if change is not None)


def topic_change(action: Action, cluster: Alias) -> Change:
    """A line of the diff for an action of the topics duty."""
    what = f"topic {action.target}"
    if isinstance(action, CreateTopic):
        said = [f"partitions: {action.partitions}", f"replication factor: {_factor(action.replication_factor)}"]
        said += [f"{name}: {value}" for name, value in action.configs]
        said += [f"(without {name}, which its brokers do not know)" for name in action.left_out]
        return Change(cluster=cluster, sign=Sign.ADD, what=what, detail=", ".join(said))
    if isinstance(action, AddPartitions):
        detail = f"partitions: {action.present} -> {action.total}"
        return Change(cluster=cluster, sign=Sign.CHANGE, what=what, detail=detail)
    return Change(cluster=cluster, sign=Sign.NOTE, what=what, detail=f"{action.source} is not copied: {action.reason}")


def _creation(cluster: Alias, topic: NewTopic, why: str) -> Change:
    said = [why, f"partitions: {topic.partitions}", f"replication factor: {_factor(topic.replication_factor)}"]
    said += [f"{name}: {value}" for name, value in topic.configs]
    return Change(cluster=cluster, sign=Sign.ADD, what=f"topic {topic.name}", detail=", ".join(said))


def _factor(number: int) -> str:
    return "the brokers' default" if number == admin.BROKER_DEFAULT else str(number)
