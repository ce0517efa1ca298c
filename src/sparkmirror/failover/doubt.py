"""Of which partitions a flow may have copied more than is on record, so that its map ends too early.

A run that dies leaves the last second in doubt. The next one reads the target's logs, but only of the topics that it
copies: what was excluded since stays in doubt, and a flow back that runs cannot be settled from here. The flow forth of
a failback is held. A failover that has stopped it may not have found out how far it was, since the target's log could
not be read then; `settle_held` reads it.

Invariant: a partition is only named where more can have come: its source is longer than the position on record, and
its copy longer than it was then. What cannot be asked counts as longer.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence

from sparkmirror.duties.duty import Sides
from sparkmirror.duties.lost_copies import lost_copies
from sparkmirror.duties.topics import remote_topic
from sparkmirror.errors import BrokerError
from sparkmirror.failover.operator import Operator
from sparkmirror.failover.states import MAP_LACKS
from sparkmirror.flow.opening import check_still_held
from sparkmirror.flow.settling import settle
from sparkmirror.flow.status import WORKING, observed
from sparkmirror.kafka import admin
from sparkmirror.kafka.cluster import Cluster
from sparkmirror.kafka.codes import GONE
from sparkmirror.kafka.leaders import OffsetSpec
from sparkmirror.model import TopicPartition
from sparkmirror.offsets.records import Progress
from sparkmirror.offsets.state import JournalState
from sparkmirror.offsets.track import FAR

ASK_MS = 10_000
"""A partition without a leader has no readers either, and is not waited for longer."""

SETTLE_SECONDS = 60.0


def in_doubt(sides: Sides) -> frozenset[TopicPartition]:
    """The partitions of the flow's source of which it may have copied more than is on record.

    Raises:
        SparkmirrorError: a cluster cannot be asked at all.
    """
    assert sides.store is not None
    flow = sides.flow
    progress = candidates(sides.store.state, alive=observed(sides.store) in WORKING)
    if not progress:
        return frozenset()
    copies = {place: TopicPartition(remote_topic(flow, place.topic), place.partition) for place in progress}
    timeout_ms = min(flow.admin_timeout_ms, ASK_MS)
    ends = _ends(sides.source, progress, timeout_ms)
    there = _ends(sides.target, copies.values(), timeout_ms)
    return decide(progress, ends, {place: there[copy] for place, copy in copies.items()})


def candidates(state: JournalState, *, alive: bool) -> dict[TopicPartition, Progress]:
    """Those that no run has, as the record tells. Pure.

    Args:
        state: of the flow's internal topic.
        alive: whether its driver lives: what that has is not in doubt.
    """
    places = state.left_in_doubt() if alive else state.in_doubt()
    return {place: state.progress[place] for place in places}


def decide(
    progress: Mapping[TopicPartition, Progress],
    ends: Mapping[TopicPartition, int],
    copied: Mapping[TopicPartition, int],
) -> frozenset[TopicPartition]:
    """Those of the candidates of which more can have come. Pure.

    Args:
        progress: of the candidates.
        ends: of their logs on the source.
        copied: of their copies' logs.
    """
    return frozenset(
        place
        for place, one in progress.items()
        if ends[place] > max(0, one.position) and copied[place] > max(0, one.reached.end)
    )


def settle_held(sides: Sides, file: str, prove: Callable[[], None], tell: Callable[[str], None]) -> bool:
    """Has the target's logs read of the partitions of a flow that is held and that a run has left in doubt.

    Not of one that has lost its end: what was lost would be forgotten with what is on record of it.

    Args:
        sides: the flow and its clusters.
        file: the configuration file, for messages.
        prove: raises where the caller has lost its operation.
        tell: as in `settle`.

    Returns:
        whether logs were read.

    Raises:
        SparkmirrorError: the target cannot be asked or written to, or somebody else takes the flow.
    """
    assert sides.store is not None
    sides.store.follow()
    state, flow = sides.store.state, sides.flow
    progress = {place: state.progress[place] for place in state.in_doubt()}
    if state.held is None or not progress:  # once it is released it reads them itself, and would be shut out by this
        return False
    copies = {place: TopicPartition(remote_topic(flow, place.topic), place.partition) for place in progress}
    absent = admin.absent(sides.target, copies.values(), flow.admin_timeout_ms)
    torn = lost_copies(flow, sides.target, progress, min(flow.admin_timeout_ms, ASK_MS)).found
    whole = {place for place, copy in copies.items() if copy not in absent and place not in torn}
    if whole:
        hold = state.held.operation

        def check(known: JournalState) -> None:
            check_still_held(flow, known, (hold,))
            prove()

        settle(flow, sides.target, file, SETTLE_SECONDS, only=whole, check=check, tell=tell)
        sides.store.follow()
    return bool(whole)


def note_lacks(operator: Operator, said: Sequence[str], tell: Callable[[str], None]) -> None:
    """Tells what an internal topic still lacks when a flow is settled, and puts it on record for the report.

    Args:
        operator: who has the operation.
        said: what `settle` has told.
        tell: what the operator sees.

    Raises:
        SparkmirrorError: somebody else has the operation, or the target cannot be written to.
    """
    if said:
        texts = [f"{text}. So it is for groups that this operation moves" for text in said]
        for text in texts:
            tell(text)
        operator.note(**{MAP_LACKS: texts})


def said_of(places: Collection[TopicPartition], flow: str) -> tuple[str, ...]:
    """What an operator is told, a line for each topic."""
    topics: dict[str, list[int]] = {}
    for place in sorted(places):
        topics.setdefault(place.topic, []).append(place.partition)
    return tuple(
        f"{topic}, partitions {', '.join(map(str, numbers))}: a run of {flow} did not end cleanly, and no later one "
        "has put them on record: more may have been copied than the record says, groups may read it again, and what is "
        f"missing is not known. Run {flow} with that topic to settle this"
        for topic, numbers in topics.items()
    )


def _ends(cluster: Cluster, places: Collection[TopicPartition], timeout_ms: int) -> dict[TopicPartition, int]:
    """The ends of logs: 0 for what does not exist, beyond all for what does not answer."""
    asked = admin.find_offsets(cluster, sorted(places), OffsetSpec.LATEST, timeout_ms=timeout_ms)
    gone = [one for one, why in asked.failed.items() if isinstance(why, BrokerError) and why.code in GONE]
    return dict.fromkeys(places, FAR) | dict.fromkeys(gone, 0) | dict(asked.found)
