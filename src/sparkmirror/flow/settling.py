"""Settles a flow that nobody runs any more, without its source: nothing more comes, and what the target has is exact.

A driver that is told to end does this by itself. One that died, or went down with its site, left batches of which
nobody knows whether they arrived: whoever may still write them is fenced, and the target's own log tells, as at a start
(`flow.resuming`). Then positions and a clean end go on record, and the offset map is exact up to them.

Invariant: nothing is copied; a partition that cannot be settled in time is named, and the end is not called clean then.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Collection
from dataclasses import replace

from sparkmirror.config import FlowConfig
from sparkmirror.duties.topics import remote_topic
from sparkmirror.flow.opening import Opened, open_without_source
from sparkmirror.flow.resuming import Resuming
from sparkmirror.flow.takeover import Takeover, progress_at
from sparkmirror.kafka.cluster import Cluster
from sparkmirror.model import NO_OFFSET, TopicPartition

_POLL_SECONDS = 0.5


def settle(
    config: FlowConfig, target: Cluster, file: str, timeout_s: float, doubted: Collection[TopicPartition] = ()
) -> dict[TopicPartition, str]:
    """Takes the flow, and puts on record where each partition stands.

    Args:
        config: of the flow.
        target: where the copies are.
        file: the configuration file, for messages.
        timeout_s: seconds until partitions that cannot be settled are given up.
        doubted: source partitions of which the target's log is read though the flow ended in order.

    Returns:
        the partitions that are not settled, and why.

    Raises:
        ConfigError: the flow was never started, or belongs to another pair of clusters.
        SparkmirrorError: the target cannot be asked or written to, or somebody else takes the flow.
    """
    opened = open_without_source(config, target, file, uuid.uuid4().hex[:12])
    state = opened.store.state
    resuming = Resuming(config, opened, target, Takeover(config, target, opened))
    resuming.hand_out(doubted)
    left = {place: TopicPartition(remote_topic(config, place.topic), place.partition) for place in _known(opened)}
    deadline = time.monotonic() + timeout_s
    while True:
        found = resuming.resume(list(left.items()), {})
        # Of a partition that the target has nothing of, the next start decides.
        stands = {place: where for place, where in found.resumed.items() if where.position != NO_OFFSET}
        opened.store.write([progress_at(place, where, opened) for place, where in stands.items()])
        left = {place: left[place] for place in found.waiting}
        if not left or time.monotonic() + _POLL_SECONDS > deadline:
            break
        time.sleep(_POLL_SECONDS)
    if not left:
        assert state.flow is not None  # the opening wrote it
        opened.store.write([replace(opened.stopped(), exact_after=0)])
    return {place: found.waiting[place].reason for place in left}


def _known(opened: Opened) -> set[TopicPartition]:
    state = opened.store.state
    return {place for place in (*state.progress, *state.maps) if place in state.progress or len(state.map_of(place))}
