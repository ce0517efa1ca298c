"""What a flow copies: its topics and partitions as they were found last, and what became of those that are gone."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping

from sparkmirror.config import FlowConfig
from sparkmirror.duties.creations import TopicCreations, problems
from sparkmirror.duties.dead_letters import ensure_dead_letter_topic
from sparkmirror.duties.duty import Sides, do_round
from sparkmirror.duties.offset_map import bound_offset_map, condense_offset_map
from sparkmirror.duties.topics import wanted
from sparkmirror.events import Event
from sparkmirror.flow.extra_partitions import BROUGHT_HOME, ExtraPartitions
from sparkmirror.flow.homecoming import Homecoming
from sparkmirror.flow.opening import Opened
from sparkmirror.flow.planner import Pairs, absent
from sparkmirror.flow.telling import Note
from sparkmirror.kafka.cluster import Cluster
from sparkmirror.model import TopicPartition
from sparkmirror.offsets.orders import DiscoverOrder

CONDENSE_SECONDS = 15.0
"""In which lanes may write some ten thousand records of the offset map."""


class Discovery:
    """Looks for the partitions of one flow.

    Args:
        config: of the flow.
        opened: what its opening gave.
        source, target: to ask, and to create topics on.
        note: takes what cannot be copied, for the operator.
        once: whether the copy ends by itself; what is paused would never come to its end.

    Attributes:
        pairs: source to target partition, as found last.
        homecoming: knows what may be brought home.
    """

    def __init__(
        self, config: FlowConfig, opened: Opened, source: Cluster, target: Cluster, note: Note, *, once: bool
    ) -> None:
        self._config = config
        self._opened = opened
        self._source = source
        self._target = target
        self._note = note
        self._once = once
        self._topics = TopicCreations(Sides(flow=config, source=source, target=target, store=opened.store))
        self._problems: dict[str, str] | None = None
        self._obeyed: DiscoverOrder | None = None
        self._condensed = time.monotonic()
        self._extra = ExtraPartitions(config, source, opened.source_id, opened.target_id)
        self.homecoming = Homecoming(config, opened, source)
        self.pairs: dict[TopicPartition, TopicPartition] = {}

    @property
    def looked(self) -> bool:
        """Whether there was a look at all."""
        return self._problems is not None

    @property
    def interval_s(self) -> float | None:
        """How often to look, in seconds; None for once."""
        return self._topics.interval_s

    @property
    def problems(self) -> dict[str, str]:
        """The topics that cannot be copied, and why."""
        return self._problems or {}

    def find(self) -> Pairs:
        """Looks at both clusters, and creates on the target what is missing there.

        Raises:
            SparkmirrorError: a cluster cannot be asked.
        """
        self._obeyed = self._opened.store.state.discover  # one that comes while the clusters are asked is a new one
        self._problems = problems(do_round(self._topics, self._opened.store.prove))
        found = self._topics.observed
        home = self.homecoming.admit(found.homeward_pairs)
        self._problems |= self._extra.look(found.without_original)
        if self.homecoming.problem and not (self._once and self.homecoming.passing):
            copies = f"copies of {self._config.name.back}"
            self._problems[copies] = f"nothing that others wrote to them is {BROUGHT_HOME}: {self.homecoming.problem}"
        for topic, reason in self._problems.items():
            self._note(f"{topic}: {reason}")
        ensure_dead_letter_topic(found, self._source, self._target)
        state = self._opened.store.state
        paused = {order.topic for order in state.paused.values()} if self._once else frozenset[str]()
        self.pairs = {here: there for here, there in (*found.pairs, *home) if here.topic not in paused}
        return tuple(self.pairs.items())

    def watch(self) -> tuple[bool, bool]:
        """What comes between two looks.

        Returns:
            whether something that is copied may not go on as it is; and whether to look now.
        """
        stale, more = self.homecoming.watch()
        return stale, more or self._opened.store.state.discover != self._obeyed

    def absent(self, partitions: Iterable[TopicPartition]) -> Mapping[TopicPartition, Event]:
        """What became of those that are not among the pairs any more.

        Raises:
            LinkError: the source cannot be asked.
        """
        return absent(self._config, self._source, [p for p in partitions if p not in self.pairs])

    def departed(self) -> Mapping[TopicPartition, Event]:
        """What became of partitions on record that are not among the pairs, when the flow did not run or before.

        Raises:
            LinkError: the source cannot be asked.
        """
        state = self._opened.store.state
        topics = set(wanted(self._config, {p.topic for p in state.progress}))
        return self.absent(p for p in state.progress if p.topic in topics)

    def bound_offset_map(self) -> None:
        """Takes from the offset map what lies below the logs of source and target.

        Raises:
            SparkmirrorError: a cluster cannot be asked or written to.
        """
        store = self._opened.store
        bound_offset_map(
            store.state,
            self.pairs,
            self._opened.writers.ids,
            self._source,
            self._target,
            store.write,
            self._config.admin_timeout_ms,
        )

    def condense_offset_map(self) -> None:
        """Joins the records of the offset map every so often, and keeps it within its budget.

        Raises:
            SparkmirrorError: the target cannot be written to.
        """
        now = time.monotonic()
        if now - self._condensed >= CONDENSE_SECONDS:
            self._condensed = now
            store, ids = self._opened.store, self._opened.writers.ids
            condense_offset_map(str(self._config.name), store.state, ids, self._config.offset_map_bytes, store.write)
