"""What a start of the flows would change on their clusters, as a diff; nothing is changed.

Invariants: only questions are asked, of source and target; a flow whose clusters cannot be asked says so and keeps no
other flow from its diff; what a duty would do is what its own ``look`` gives, so the diff cannot differ from the deed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from sparkmirror.config import FlowConfig, MirrorConfig
from sparkmirror.duties import dead_letters, roster
from sparkmirror.duties.creations import TopicCreations
from sparkmirror.duties.duty import Change, Sides, Sign
from sparkmirror.duties.internal_topics import missing_internal_topics
from sparkmirror.duties.missing_topics import creation
from sparkmirror.errors import SparkmirrorError
from sparkmirror.flow.homecoming import left_there
from sparkmirror.flow.sides import connected, record

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
        yield creation(alias, topic, before=("of sparkmirror itself",))
    topics = TopicCreations(sides)
    yield from _shown(topics.look())
    doubt = left_there(sides, topics.observed)
    if doubt:
        detail = f"nothing that others wrote to them is brought home: {doubt}"
        yield Change(cluster=alias, sign=Sign.NOTE, what=f"copies of {flow.name.back}", detail=detail)
    letters = dead_letters.missing_dead_letter_topic(topics.observed, sides.source)
    if letters is not None:
        yield creation(alias, letters, before=("for records that fit nowhere",))


def _duty_changes(sides: Sides) -> Iterator[Change]:
    for duty in (*roster.upkeep(sides), *roster.pulse(sides)):
        yield from _shown(duty.look())


def _shown(actions: Sequence[object]) -> Iterable[Change]:
    changes = (getattr(action, "change", None) for action in actions)
    return (change for change in changes if change is not None)
