"""Settles a flow that nobody runs any more, without its source: nothing more comes, and what the target has is exact.

A driver that is told to end does this by itself. One that died, or went down with its site, left batches of which
nobody knows whether they arrived: whoever may still write them is fenced, and the target's own log tells, as at a start
(`flow.resuming`). Then positions and a clean end go on record, and the offset map is exact up to them.

Invariants: nothing is copied; a partition that cannot be settled in time is named, and the end is not called clean
then. An internal topic that has lost what was read of it, and does not take that again, is told of. Only partitions
that the flow copies, and whose copies exist, are waited for. What is on record of the others stays in doubt: the next
start that has to do with them reads the target's logs. Where only some are asked about, what is on record of the others
stays as it is, and none is waited for whose copy has no leader.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace

from sparkmirror.config import FlowConfig
from sparkmirror.duties.topics import read, remote_topic
from sparkmirror.flow.on_record import progress_at
from sparkmirror.flow.opening import Opened, open_without_source
from sparkmirror.flow.restoring import last_records
from sparkmirror.flow.resuming import Resuming
from sparkmirror.flow.takeover import Takeover
from sparkmirror.kafka import admin
from sparkmirror.kafka.cluster import Cluster
from sparkmirror.model import NO_OFFSET, TopicPartition
from sparkmirror.offsets.records import Happened, Stopped
from sparkmirror.offsets.state import JournalState

_POLL_SECONDS = 0.5


def settle(
    config: FlowConfig,
    target: Cluster,
    file: str,
    timeout_s: float,
    doubted: Collection[TopicPartition] = (),
    *,
    only: Collection[TopicPartition] | None = None,
    check: Callable[[JournalState], None] = lambda _known: None,
    tell: Callable[[str], None] = lambda _text: None,
) -> dict[TopicPartition, str]:
    """Takes the flow, and puts on record where each partition stands.

    Args:
        config: of the flow.
        target: where the copies are.
        file: the configuration file, for messages.
        timeout_s: seconds until partitions that cannot be settled are given up.
        doubted: source partitions of which the target's log is read though the flow ended in order.
        only: source partitions that are asked about; None for all.
        check: as in `open_without_source`.
        tell: gets what is the matter with the internal topic, where that has lost entries of the offset map meanwhile
            that could not be put there again, and what follows.

    Returns:
        the partitions that are not settled, and why; but for those that are not waited for.

    Raises:
        ConfigError: the flow was never started, or belongs to another pair of clusters.
        SparkmirrorError: the target cannot be asked or written to, or somebody else takes the flow.
    """
    opened = open_without_source(config, target, file, uuid.uuid4().hex[:12], check=check)
    state = opened.store.state
    resuming = Resuming(config, opened, target, Takeover(config, target, opened))
    resuming.hand_out(doubted)
    known = {place: TopicPartition(remote_topic(config, place.topic), place.partition) for place in _known(opened)}
    copied = set(read(config, {place.topic for place in known}, state.progress))
    asked = {here: there for here, there in known.items() if only is None or here in only}
    left = _that_answer(config, target, asked, copied if only is None else ())
    doubtful = len(left) < len(known)
    deadline = time.monotonic() + timeout_s
    while True:
        found = resuming.resume(list(left.items()), {})
        # Of a partition that the target has nothing of, the next start decides.
        stands = {place: where for place, where in found.resumed.items() if where.position != NO_OFFSET}
        opened.store.write([progress_at(place, where, state, opened.run) for place, where in stands.items()])
        left = {place: left[place] for place in found.waiting}
        awaited = [place for place in left if place.topic in copied]
        if not awaited or time.monotonic() + _POLL_SECONDS > deadline:
            break
        time.sleep(_POLL_SECONDS)
    for text in write_last(opened, over=not awaited, whole=not doubtful and not left):
        tell(text)
    return {place: found.waiting[place].reason for place in awaited}


def write_last(opened: Opened, *, over: bool, whole: bool) -> tuple[str, ...]:
    """Writes what goes on record last.

    Args:
        opened: what the opening gave.
        over: whether nobody else writes any more: no partition is waited for.
        whole: whether nothing that an earlier run has left stays in doubt.

    Returns:
        what the internal topic still lacks, and what follows.

    Raises:
        FencedError: another run has the flow.
        SparkmirrorError: the topic cannot be read or written to.
    """
    ends = last_records(opened, over=over)
    opened.store.write([replace(one, exact_after=0) if whole and isinstance(one, Stopped) else one for one in ends])
    return tuple(one.event.text for one in ends if isinstance(one, Happened))


def _that_answer(
    config: FlowConfig, target: Cluster, known: Mapping[TopicPartition, TopicPartition], awaited: Collection[str]
) -> dict[TopicPartition, TopicPartition]:
    """The partitions whose copies exist; of topics that are not among those to be waited for, those with a leader."""
    timeout_ms = config.admin_timeout_ms
    absent = admin.absent(target, known.values(), timeout_ms)
    others = sorted({there.topic for here, there in known.items() if here.topic not in awaited})
    led = {
        TopicPartition(name, number)
        for name, topic in admin.list_topics(target, others, timeout_ms).items()
        for number, leader in topic.partitions.items()
        if leader.node >= 0
    }
    return {
        here: there for here, there in known.items() if there not in absent and (here.topic in awaited or there in led)
    }


def _known(opened: Opened) -> set[TopicPartition]:
    state = opened.store.state
    return {place for place in (*state.progress, *state.maps) if place in state.progress or len(state.map_of(place))}
