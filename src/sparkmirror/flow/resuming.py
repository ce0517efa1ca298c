"""Where partitions go on that may have been handed out before: what is on record is believed, or they are taken over.

Invariants: what this run handed out and did not get back settled is taken over, whatever is on record; partitions whose
data brokers do not guard are taken over only when the lanes that had them have surely ended. A partition of which
nothing is on record begins only when the target's log has been looked at (`unexplained`): the internal topic may have
lost the end of its log.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence

from sparkmirror.config import FlowConfig
from sparkmirror.copy.plan import PartitionPlan
from sparkmirror.duties.topics import remote_topic
from sparkmirror.flow.opening import Opened
from sparkmirror.flow.planner import patience_ms
from sparkmirror.flow.positions import Resumed
from sparkmirror.flow.takeover import LEASE_SECONDS, READ_IN_TURNS, Resumption, Takeover, Waiting
from sparkmirror.flow.trust import Seen, distrust
from sparkmirror.flow.unexplained import is_absent, unexplained
from sparkmirror.kafka import admin
from sparkmirror.kafka.cluster import Cluster
from sparkmirror.kafka.leaders import OffsetSpec
from sparkmirror.kafka.rounds import Results
from sparkmirror.kafka.tails import LogCache
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
        self._looked: set[TopicPartition] = set()
        self._cache = LogCache()
        self._safe: dict[TopicPartition, float] = {}
        self._haunted_until = time.monotonic() + LEASE_SECONDS if opened.signs.haunted else 0.0

    def hand_out(self, partitions: Iterable[TopicPartition]) -> None:
        """Partitions go to a lane."""
        self._handed_out.update(partitions)

    def planned(self, plans: Sequence[PartitionPlan]) -> None:
        """Partitions have plans, by which lanes may write."""
        for plan in plans:
            self._cache.forget(plan.target)
        self._takeover.planned(plans)

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
        suspects, waiting = self._suspects([pair for pair in pairs if pair[0] not in settled], ids)
        for here in suspects:
            seconds = self._unsafe_for(here)
            if seconds > 0:
                waiting[here] = Waiting("it waits until the lane that had it has surely ended", seconds)
        due = [(here, there) for here, there in pairs if here in suspects and here not in waiting]
        taken = self._takeover.take_over(due, ids) if due else Resumption(resumed={}, waiting={})
        return Resumption(resumed={**settled, **taken.resumed}, waiting={**waiting, **taken.waiting})

    def _suspects(
        self, pairs: Pairs, ids: Mapping[str, str]
    ) -> tuple[set[TopicPartition], dict[TopicPartition, Waiting]]:
        """The partitions that must be taken over, and those of which nothing tells that now."""
        state = self._opened.store.state
        asked = [there for here, there in pairs if here not in self._handed_out]
        timeout_ms = patience_ms(self._config, len(asked))
        ends = admin.find_offsets(self._target, asked, OffsetSpec.LATEST, timeout_ms=timeout_ms)
        unexplained, waiting = self._unexplained(pairs, ends, ids)
        suspects = {
            here
            for here, there in pairs
            if distrust(
                Seen(
                    progress=state.progress.get(here),
                    mapped=len(state.map_of(here)) > 0,
                    handed_out=here in self._handed_out,
                    exact_after=self._opened.exact_after,
                    end=ends.found.get(there),
                    target_id=ids.get(there.topic, ""),
                    sole_writer=not self._opened.tells_writers,
                    lost_runs=self._opened.lost_runs,
                    unexplained=here in unexplained,
                )
            )
        }
        return suspects, waiting

    def _unexplained(
        self, pairs: Pairs, ends: Results[TopicPartition, int], ids: Mapping[str, str]
    ) -> tuple[set[TopicPartition], dict[TopicPartition, Waiting]]:
        """Partitions without anything on record whose targets have batches of the flow, or do not tell.

        Where an own policy gives two topics of the source one name, what the other one has copied is on record.
        """
        state = self._opened.store.state
        unknown = {} if self._opened.lost_runs else {here: there for here, there in pairs if self._is_unknown(here)}
        used = {there: end for there in unknown.values() if (end := ends.found.get(there, 0)) > 0}
        looked = unexplained(
            self._target,
            used,
            self._opened.writers.ids,
            self._opened.before,
            patience_ms(self._config, len(used)),
            self._looked,
            self._cache,
        )
        copies = (place for place in state.progress if looked.found and place not in unknown)
        of_others = {TopicPartition(remote_topic(self._config, place.topic), place.partition) for place in copies}
        untold = {there: e for there, e in ends.failed.items() if not is_absent(e) or ids.get(there.topic)}
        failed = {**untold, **looked.failed}
        found = {here for here, there in unknown.items() if there in looked.found and there not in of_others}
        waiting = {
            here: READ_IN_TURNS if there in self._cache.unfinished else Waiting(str(failed[there]))
            for here, there in unknown.items()
            if there in failed
        }
        return found, waiting

    def _is_unknown(self, here: TopicPartition) -> bool:
        state = self._opened.store.state
        return here not in self._handed_out and here not in state.progress and not len(state.map_of(here))

    def _unsafe_for(self, partition: TopicPartition) -> float:
        """Seconds that the partition must wait: only where the brokers would not refuse what an old lane sends."""
        state = self._opened.store.state
        if not state.map_of(partition).unguarded(state.progress.get(partition), self._opened.writers.ids):
            return 0.0
        since = self._safe.get(partition, self._haunted_until)
        return since - time.monotonic()
