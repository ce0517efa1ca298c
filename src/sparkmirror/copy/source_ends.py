"""Where the source's logs end, asked of their leaders where the fetch does not tell.

Lag goes by the end that an answer of a Fetch brings. Such an answer may not come: the partition is paused, a question
about it is open, more of it is held than its share, or something is wrong with the fetch. A copy that is level then
would look level for as long as that lasts. So leaders are asked by ListOffsets, over connections of their own: those of
the fetch may be full, or the reason.

Invariants:
    * What a fetch has told after the question left counts, not the answer.
    * An end below what was fetched moves no recovery point: the log has lost its end, or is another one.
    * A leader that cannot be asked changes nothing; one that is none any more is learnt anew.
"""

from __future__ import annotations

from collections.abc import Sequence

from sparkmirror.config import Isolation
from sparkmirror.copy.fetch import Fetcher
from sparkmirror.copy.partition import PartitionCopy
from sparkmirror.events import now_ms
from sparkmirror.kafka.cluster import Cluster
from sparkmirror.kafka.codes import Advice, advice
from sparkmirror.kafka.leaders import Leader, OffsetSpec, ask_each_leader
from sparkmirror.kafka.metadata import NO_LEADER
from sparkmirror.model import NO_OFFSET, TopicPartition
from sparkmirror.offsets.recovery import Answer

ASK_MS = 10_000
QUIET_MS = 5_000
"""Beyond what a Fetch waits for news: a partition of which the source has told nothing for longer is asked about."""


class SourceEnds:
    """Asks for the ends of a lane's partitions.

    Args:
        source: with connections for nothing else.
        fetcher: of the lane.
        partitions: of the lane.
        isolation: of the flow.
    """

    def __init__(
        self, source: Cluster, fetcher: Fetcher, partitions: Sequence[PartitionCopy], isolation: Isolation
    ) -> None:
        self._source = source
        self._fetcher = fetcher
        self._partitions = partitions
        self._isolation = isolation
        self._began_ms = now_ms()
        self._told_ms: dict[TopicPartition, int] = {}

    async def ask(self) -> None:
        """Asks about the partitions of which the source has told nothing for a while."""
        asked_ms = now_ms()
        quiet = {p.source: p for p in self._partitions if self._is_quiet(p, asked_ms)}
        if not quiet:
            return
        leaders = {source: Leader(p.source_node, p.source_epoch) for source, p in quiet.items()}
        for answer in await ask_each_leader(self._source, leaders, OffsetSpec.LATEST, self._isolation, ASK_MS):
            partition = quiet[answer.key]
            if answer.value is not None and answer.code == 0:
                self._take(partition, Answer(asked_ms, answer.value))
            elif answer.link is None and advice(answer.code) is Advice.REFRESH and not partition.error:
                self._fetcher.lose_leader(partition)

    def _is_quiet(self, partition: PartitionCopy, asked_ms: int) -> bool:
        if partition.error or partition.obstacle or partition.fetched_all or partition.replica.followed:
            return False
        told_ms = max(self._told_ms.get(partition.source, self._began_ms), self._fetcher.answered_ms(partition))
        has_begun = partition.position != NO_OFFSET and partition.source_node != NO_LEADER
        return has_begun and asked_ms - told_ms > QUIET_MS + self._fetcher.max_wait_ms

    def _take(self, partition: PartitionCopy, answer: Answer) -> None:
        self._told_ms[partition.source] = answer.asked_ms
        if self._fetcher.answered_ms(partition) >= answer.asked_ms:
            return
        partition.end = max(answer.end, partition.fetch_offset)
        if answer.end >= partition.fetch_offset and not partition.paused:
            partition.recovery.answered(answer)
