"""The partitions of a lane that are read from followers (``client.rack``), and what only their leaders know.

A follower may be behind for hours and answer all the same. So two things are never taken from it: where the source's
log ends, which lag and recovery point go by, and whether an offset is in the log.

Invariants:
    * While a follower is read from, the end and the recovery point follow the leader, which is asked once a second.
    * A follower that refuses, whatever the reason, is left, and the leader decides.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence

from sparkmirror.config import Isolation
from sparkmirror.copy.fetch import Fetcher
from sparkmirror.copy.partition import PartitionCopy
from sparkmirror.events import now_ms
from sparkmirror.kafka.cluster import Cluster
from sparkmirror.kafka.codes import FENCED_LEADER_EPOCH, Advice, advice, name_of
from sparkmirror.kafka.fetching import Fetched
from sparkmirror.kafka.leaders import Leader, OffsetSpec, ask_each_leader
from sparkmirror.kafka.metadata import NO_LEADER
from sparkmirror.offsets.recovery import Answer

log = logging.getLogger(__name__)

ASK_MS = 5_000
"""For the answer of a leader; it is asked again a second later."""


class Followers:
    """Says which partitions are read from which follower.

    Args:
        source: the cluster.
        fetcher: of the lane.
        partitions: of the lane.
        isolation: of the flow.
        shift: for the log.
    """

    def __init__(
        self, source: Cluster, fetcher: Fetcher, partitions: Sequence[PartitionCopy], isolation: Isolation, shift: str
    ) -> None:
        self._source = source
        self._fetcher = fetcher
        self._partitions = partitions
        self._isolation = isolation
        self._shift = shift
        self._lease_s = source.settings.metadata_max_age_ms / 1000

    def follow(self, partition: PartitionCopy, node: int) -> None:
        """Takes a follower that the leader has named; one that the metadata does not have is looked up first."""
        if self._source.knows(node):
            partition.replica.follow(node, time.monotonic(), self._lease_s)
        else:
            partition.source_node = NO_LEADER
        self._fetcher.update(partition)

    def refused(self, partition: PartitionCopy, fetched: Fetched) -> None:
        """Leaves a follower that answered with an error or with another history: it may only be behind."""
        if fetched.code == FENCED_LEADER_EPOCH:  # there was an election; the follower did nothing wrong
            partition.replica.leave()
            self._ask_anew(partition)
            return
        why = name_of(fetched.code) if fetched.code else f"its log has not all below offset {partition.fetch_offset}"
        log.info(
            "%s: follower %d of %s refused a fetch of %s-%d: %s; the partition is read from its leader for %.0f s "
            "(metadata.max.age.ms)",
            *(self._shift, partition.replica.node, self._source.alias, *partition.source, why, self._lease_s),
        )
        self._avoid(partition)

    def leave_unreachable(self, nodes: set[int]) -> None:
        """Leaves the followers that do not answer."""
        for node in nodes - {NO_LEADER}:
            left = [p for p in self._partitions if p.replica.node == node and not p.error]
            for partition in left:
                self._avoid(partition)
            if left:
                log.warning(
                    "%s: broker %d of %s does not answer; %d partitions that were read from it as a follower are read "
                    "from their leaders for %.0f s (metadata.max.age.ms)",
                    *(self._shift, node, self._source.alias, len(left), self._lease_s),
                )

    def ask_for_better(self) -> None:
        """Goes back to the leaders of partitions whose follower has had them for a lease."""
        now = time.monotonic()
        for partition in self._partitions:
            # What a slow line brings is waited for once, or a short lease would end before anything has come.
            if partition.replica.is_due(now) and not partition.error and self._fetcher.has_told(partition):
                partition.replica.leave()
                self._fetcher.update(partition)

    async def ask_for_ends(self) -> None:
        """Asks the leaders of partitions that are read from followers where the logs end."""
        followed = {p.source: p for p in self._partitions if _is_followed(p) and p.source_node != NO_LEADER}
        if not followed:
            return
        leaders = {source: Leader(p.source_node, p.source_epoch) for source, p in followed.items()}
        asked_ms = now_ms()
        for answer in await ask_each_leader(self._source, leaders, OffsetSpec.LATEST, self._isolation, ASK_MS):
            partition = followed[answer.key]
            if not _is_followed(partition):
                continue
            if answer.value is not None and answer.code == 0:
                partition.end = max(answer.value, partition.fetch_offset)  # more may have come from the follower since
                partition.recovery.answered(Answer(asked_ms, answer.value))
            elif answer.link is not None or advice(answer.code) is Advice.REFRESH:
                partition.source_node = NO_LEADER

    def _avoid(self, partition: PartitionCopy) -> None:
        partition.replica.avoid(time.monotonic(), self._lease_s)
        self._ask_anew(partition)

    def _ask_anew(self, partition: PartitionCopy) -> None:
        """Has the leader learnt anew; nothing is fetched until then, which slows a partition that goes to and fro."""
        partition.source_node = NO_LEADER
        self._fetcher.update(partition)


def _is_followed(partition: PartitionCopy) -> bool:
    return partition.replica.followed and not (partition.error or partition.obstacle or partition.paused)
