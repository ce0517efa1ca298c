"""Where partitions go on that may have been handed out before: what is on record is believed, or they are taken over.

Invariants: what this run handed out and did not get back settled is taken over, whatever is on record; partitions whose
data brokers do not guard are taken over only when the lanes that had them have surely ended.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence

from sparkmirror.config import FlowConfig
from sparkmirror.flow.opening import Opened
from sparkmirror.flow.planner import patience_ms
from sparkmirror.flow.positions import Resumed
from sparkmirror.flow.takeover import LEASE_SECONDS, Resumption, Takeover, Waiting
from sparkmirror.flow.trust import Seen, distrust
from sparkmirror.kafka import admin
from sparkmirror.kafka.cluster import Cluster
from sparkmirror.kafka.leaders import OffsetSpec
from sparkmirror.kafka.topic_ids import ids_of_topics
from sparkmirror.model import TopicPartition

Pairs = Sequence[tuple[TopicPartition, TopicPartition]]


class Resuming:
    """Knows of one flow what was handed out and has not come back.

    Args:
        config: of the flow.
        opened: what its opening gave.
        target: for questions.
        takeover: takes partitions over.
    """

    def __init__(self, config: FlowConfig, opened: Opened, target: Cluster, takeover: Takeover) -> None:
        self._config = config
        self._opened = opened
        self._target = target
        self._takeover = takeover
        self._handed_out: set[TopicPartition] = set()
        self._safe: dict[TopicPartition, float] = {}
        self._haunted_until = time.monotonic() + LEASE_SECONDS if opened.signs.haunted else 0.0

    def hand_out(self, partitions: Iterable[TopicPartition]) -> None:
        """Partitions go to a lane."""
        self._handed_out.update(partitions)

    def lose(self, partitions: Iterable[TopicPartition]) -> None:
        """The lane that had the partitions is lost, and may still live."""
        self._safe.update(dict.fromkeys(partitions, time.monotonic() + LEASE_SECONDS))

    def resume(self, pairs: Pairs, settled: Mapping[TopicPartition, Resumed]) -> Resumption:
        """Finds where ``pairs`` go on; those that nobody ever had are in neither part of the answer.

        Args:
            pairs: source and target partitions.
            settled: those that came back with nothing unacknowledged.

        Raises:
            SparkmirrorError: the target cannot be asked.
        """
        ids = ids_of_topics(self._target, {there.topic for _, there in pairs})
        suspects = self._suspects([pair for pair in pairs if pair[0] not in settled], ids)
        waiting = {}
        for here in suspects:
            seconds = self._unsafe_for(here)
            if seconds > 0:
                waiting[here] = Waiting("it waits until the lane that had it has surely ended", seconds)
        due = [(here, there) for here, there in pairs if here in suspects and here not in waiting]
        taken = self._takeover.take_over(due, ids) if due else Resumption(resumed={}, waiting={})
        return Resumption(resumed={**settled, **taken.resumed}, waiting={**waiting, **taken.waiting})

    def _suspects(self, pairs: Pairs, ids: Mapping[str, str]) -> set[TopicPartition]:
        state = self._opened.store.state
        lost_runs = self._opened.lost_runs
        believable = [
            there for here, there in pairs if here not in self._handed_out and (lost_runs or here in state.progress)
        ]
        timeout_ms = patience_ms(self._config, len(believable))
        ends = admin.find_offsets(self._target, believable, OffsetSpec.LATEST, timeout_ms=timeout_ms).found
        return {
            here
            for here, there in pairs
            if distrust(
                Seen(
                    progress=state.progress.get(here),
                    mapped=len(state.map_of(here)) > 0,
                    handed_out=here in self._handed_out,
                    exact_after=self._opened.exact_after,
                    end=ends.get(there),
                    target_id=ids.get(there.topic, ""),
                    sole_writer=not self._opened.tells_writers,
                    lost_runs=lost_runs,
                )
            )
        }

    def _unsafe_for(self, partition: TopicPartition) -> float:
        """Seconds that the partition must wait: only where the brokers would not refuse what an old lane sends."""
        state = self._opened.store.state
        if not state.map_of(partition).unguarded(state.progress.get(partition), self._opened.writers.ids):
            return 0.0
        since = self._safe.get(partition, self._haunted_until)
        return since - time.monotonic()
