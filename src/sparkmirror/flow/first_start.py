"""Where the next start of each flow would begin, as far as MirrorMaker 2 matters: goes on, takes over, or is refused.

Invariants: nothing is changed; what is told is what a start itself finds (`sparkmirror.flow.unasked`), with the same
user and the same questions; a flow that cannot be asked hides no other.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any

from sparkmirror.config import FlowConfig, MirrorConfig
from sparkmirror.errors import BrokerError, ConfigError, SparkmirrorError
from sparkmirror.flow import unasked
from sparkmirror.flow.connections import AT_ONCE
from sparkmirror.flow.sides import BOTH, connected, record
from sparkmirror.flow.unasked import Found
from sparkmirror.model import TopicPartition
from sparkmirror.offsets.state import JournalState

_NAMED = 5
"""So many topics are named in a line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FirstStart:
    """What the next start of one flow does with what MirrorMaker 2 has left.

    Attributes:
        flow: ``source->target``.
        text: what it does, as in "a start goes on at its own positions"; "" where it is refused.
        topic: the topic of MirrorMaker 2's positions, where these are taken over.
        cluster: that has it.
        positions: the next source offset of each partition that is taken over, before the logs are compared.
        failure: why it is refused, or cannot be told; "" where all is well.
    """

    flow: str
    text: str = ""
    topic: str = ""
    cluster: str = ""
    positions: tuple[tuple[TopicPartition, int], ...] = ()
    failure: str = ""

    def as_json(self) -> dict[str, Any]:
        """For scripts."""
        return {
            "flow": self.flow,
            "text": self.text,
            "topic": self.topic,
            "cluster": self.cluster,
            "positions": [
                {"topic": here.topic, "partition": here.partition, "position": position}
                for here, position in self.positions
            ],
            "failure": self.failure,
        }


def first_starts(config: MirrorConfig, without: Collection[str] = ()) -> tuple[FirstStart, ...]:
    """Asks the clusters of every flow, side by side.

    Args:
        config: what would be run.
        without: flows that are left out, since a cluster of theirs cannot be reached.

    Returns:
        one for each flow, in the order of the configuration.
    """
    flows = [flow for flow in config.flows if str(flow.name) not in without]
    with ThreadPoolExecutor(max(1, min(AT_ONCE, len(flows)))) as pool:
        return tuple(pool.map(partial(_first_start, config.file), flows))


def _first_start(file: str, flow: FlowConfig) -> FirstStart:
    name = str(flow.name)
    try:
        with connected(flow, role="check", needs=BOTH) as sides:
            known = record(sides) or JournalState()
            found = unasked.find(sides, known, file)
    except (BrokerError, ConfigError) as refusal:
        return FirstStart(flow=name, failure=f"a start is refused: {refusal}")
    except SparkmirrorError as failure:
        return FirstStart(flow=name, failure=f"what a start would do cannot be told: {failure}")
    if found is None:
        return FirstStart(flow=name, text=_without_takeover(flow, known))
    return FirstStart(
        flow=name,
        text=_taking_over(found),
        topic=found.stored.topic,
        cluster=found.stored.cluster.alias,
        positions=tuple((one.here, one.position) for one in found.copied),
    )


def _taking_over(found: Found) -> str:
    topics = sorted({one.here.topic for one in found.copied})
    return (
        f"takes over from MirrorMaker 2: {len(found.copied)} partitions of {len(topics)} topics ({_listed(topics)}), "
        f"at its positions in {found.stored.topic} on {found.stored.cluster.alias}"
    )


def _without_takeover(flow: FlowConfig, known: JournalState) -> str:
    if known.elsewhere is not None:
        return (
            f"goes on only while MirrorMaker 2 has copied nothing since the flow was handed over to it, by "
            f"{known.elsewhere.topic}; else it needs --take-over mm2"
        )
    if unasked.has_begun(known):
        return "goes on at its own positions"
    stored = flow.stored_positions
    if not stored.takeover:
        return "begins as the file says, without MirrorMaker 2's positions (mm2.takeover.enabled=false)"
    if not stored.topic:
        return "begins as the file says: where MirrorMaker 2 keeps its positions is not told (mm2.offsets.topic)"
    return f"begins as the file says: {stored.topic} has nothing for it, or its target topics have no records"


def _listed(topics: Iterable[str]) -> str:
    names = list(topics)
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return ", ".join(names[:_NAMED]) + more
