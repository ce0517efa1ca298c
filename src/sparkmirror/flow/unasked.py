"""The takeover from MirrorMaker 2 that a flow does by itself at its first start.

Whoever starts sparkmirror on MirrorMaker 2's file would otherwise copy everything once more. What is done is what
``run --take-over mm2`` does (`moving_in`), for what is certainly MirrorMaker 2's part of this flow:

    * the flow has never copied anything, and its file does not say ``mm2.takeover.enabled=false``;
    * Connect's topic of offsets has positions of topics that the flow copies, heartbeats aside;
    * a partition's target has had records. One that never had any is copied from where the file says;
    * where others may write the target topics too, some of these records are copies of the source's
      (`sparkmirror.flow.occupied`): a position alone does not tell under which name MirrorMaker 2 copied;
    * the file does not name a place for the partition, other than the oldest record.

Workers store positions every ``offset.flush.interval.ms``, a minute by default. While none at all are stored and
workers run, a flow whose target topics have records is refused too.

A topic of offsets that this user may not see, or not read, looks like one that is not there. A flow whose target topics
have records does not begin then: the error names the right.

Invariants: nothing is asked of MirrorMaker 2's topics once the flow has copied; nothing is written while MirrorMaker 2
seems to run; a takeover that did not end is finished by the next start.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass

from sparkmirror.config import FlowConfig
from sparkmirror.duties.duty import Sides
from sparkmirror.errors import BrokerError
from sparkmirror.events import Event
from sparkmirror.flow.comparing import compare
from sparkmirror.flow.inheriting import Copied
from sparkmirror.flow.mirror_maker import (
    AT_ONCE_MS,
    Positions,
    Stored,
    check_no_workers,
    known_syncs,
    owner_of,
    place_of,
    read_settled,
)
from sparkmirror.flow.moving_in import Ends, Syncs, TakenOver, copied_partitions, put_on_record, told, with_syncs
from sparkmirror.flow.occupied import TargetLogs
from sparkmirror.flow.opening import Opened
from sparkmirror.kafka import admin
from sparkmirror.kafka.cluster import Cluster
from sparkmirror.kafka.codes import UNAUTHORIZED
from sparkmirror.kafka.rounds import explained
from sparkmirror.model import NO_OFFSET
from sparkmirror.naming import policy_for
from sparkmirror.offsets.state import JournalState

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What MirrorMaker 2 has left of a flow that has never run.

    Attributes:
        stored: its positions.
        copied: the partitions that go on from them.
        syncs: its offset syncs.
    """

    stored: Stored
    copied: tuple[Copied, ...]
    syncs: Syncs


class Unasked:
    """The takeover of one flow at one opening.

    Args:
        flow: the flow.
        source, target: to ask and to write to.
        file: the configuration file, for messages.
    """

    def __init__(self, flow: FlowConfig, source: Cluster, target: Cluster, file: str) -> None:
        self._sides = Sides(flow=flow, source=source, target=target, store=None)
        self._file = file
        self._taken: TakenOver | None = None
        self._found: Found | None = None

    def look(self, known: JournalState) -> bool:
        """Whether positions are to be taken over; they are found, and compared with the target.

        Args:
            known: what is on record of the flow.

        Raises:
            ConfigError: MirrorMaker 2 runs.
            SparkmirrorError: a cluster cannot be asked.
        """
        found = find(self._sides, known, self._file)
        if found is None:
            return False
        arrived = tuple(compare(self._sides, found.copied))
        self._taken, self._found = TakenOver(topic=found.stored.topic, arrived=arrived), found
        return True

    def take_over(self, opened: Opened) -> Event | None:
        """Puts what was found on record; the flow must be opened anew then. None where nothing was found.

        Raises:
            ConfigError: MirrorMaker 2 runs again.
            SparkmirrorError: a cluster cannot be asked or written to.
        """
        if self._taken is None or self._found is None:
            return None
        check_no_workers(self._sides.flow, self._found.stored.cluster, self._file)
        event = put_on_record(self._sides, opened, self._taken, self._found.syncs, unasked=True)
        for line in told(self._taken):
            log.info("%s", line, extra={"flow": str(self._sides.flow.name)})
        return event


def find(sides: Sides, known: JournalState, file: str) -> Found | None:
    """What a start of the flow would take over unasked; None for nothing.

    Args:
        sides: of the flow.
        known: what is on record of it.
        file: the configuration file, for messages.

    Raises:
        ConfigError: MirrorMaker 2 runs.
        SparkmirrorError: a cluster cannot be asked, or a transaction stays open where MirrorMaker 2 wrote.
    """
    flow = sides.flow
    topic = where_to_look(flow, known)
    read = _read(sides, topic) if topic else None
    if read is None:
        return None
    cluster, positions = read
    offsets = positions.get(owner_of(flow), {})
    if positions and not offsets:
        return None
    copied = _certain(sides, offsets, copied_partitions(sides, offsets, AT_ONCE_MS))
    if not copied:
        return None
    check_no_workers(flow, cluster, file)
    if not offsets:
        return None
    stored, syncs = Stored(cluster=cluster, topic=topic, offsets=offsets), known_syncs(sides)
    return Found(stored=stored, copied=tuple(with_syncs(copied, syncs)), syncs=syncs)


def _read(sides: Sides, topic: str) -> tuple[Cluster, Positions] | None:
    """The stored positions of all flows, and where they are; None where there are none to take over.

    Raises:
        BrokerError: this user may not read the topic, and MirrorMaker 2 may have copied for this flow.
        SparkmirrorError: a cluster cannot be asked.
    """
    try:
        cluster = place_of(sides, topic)
        return None if cluster is None else (cluster, read_settled(sides.flow, cluster, topic, AT_ONCE_MS))
    except BrokerError as refusal:
        if refusal.code not in UNAUTHORIZED:
            raise
        if not _certain(sides, {}, copied_partitions(sides, {}, AT_ONCE_MS)):
            return None  # nothing on the target that a start could repeat
        consequence = (
            f"{refusal.remedy}, since the target topics of {sides.flow.name} have records and the flow has never run: "
            "without it the flow cannot see whether MirrorMaker 2 copied them, and does not begin. Where it did not, "
            "set mm2.takeover.enabled=false or start with --take-over none"
        )
        raise explained(refusal.code, refusal.cluster, topic=topic, remedy=consequence) from refusal


def where_to_look(flow: FlowConfig, known: JournalState) -> str:
    """The topic in which a start looks for MirrorMaker 2's positions; "" for none."""
    if not flow.stored_positions.takeover:
        return ""
    if known.elsewhere is not None:
        return known.elsewhere.topic if known.elsewhere.pending and known.elsewhere.unasked else ""
    return "" if has_begun(known) else flow.stored_positions.topic


def has_begun(known: JournalState) -> bool:
    """Whether the flow has ever copied, by what is on record."""
    return bool(known.maps) or any(one.position != NO_OFFSET for one in known.progress.values())


def _certain(sides: Sides, stored: Ends, found: Sequence[Copied]) -> tuple[Copied, ...]:
    """The partitions that MirrorMaker 2 certainly copied for this flow; without positions, those that it may have."""
    flow, topics = sides.flow, {place.topic for place in stored}
    certain = [
        one
        for one in found
        if (not topics or one.here.topic in topics) and one.target_end > 0 and not flow.start.chosen(*one.here)
    ]
    if flow.tells_writers:
        certain = _copies(sides, certain)
    policy = policy_for(flow.policy, flow.source.alias)
    if all(policy.is_heartbeats_topic(one.here.topic) for one in certain):
        return ()
    return tuple(certain)


def _copies(sides: Sides, found: Sequence[Copied]) -> list[Copied]:
    """Those of topics that have copies of the source's records among their newest."""
    flow, timeout_ms = sides.flow, sides.flow.admin_timeout_ms
    ids = (admin.cluster_id(sides.source, timeout_ms), admin.cluster_id(sides.target, timeout_ms))
    logs = TargetLogs(flow, sides.source, sides.target, *ids)
    pairs = [(one.here, one.there) for one in found]
    copies = logs.copied(pairs, logs.of_others([there for _, there in pairs]))
    for failure in copies.failed.values():
        raise failure
    topics = {there.topic for there in copies.records}
    return [one for one in found if one.there.topic in topics]
