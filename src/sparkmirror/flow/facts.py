"""What the target asks of batches, and how long its brokers remember who wrote them, as both are now.

Everything that the copying takes from the target's configuration is asked for here: when partitions are planned, and
again every `LOOK_SECONDS` while they are copied, from a thread of its own. What has changed since is told to the lanes:
a partition under another plan is given back and planned again, and the window in which batches are guarded changes at
once. Answers of the target tell some of it sooner, see ``copy.target_changes``.

Invariant: the newest answer counts, whoever asked for it; every shift that is submitted has it.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from threading import Lock

from sparkmirror.copy.plan import PartitionPlan
from sparkmirror.copy.target_facts import TargetFacts
from sparkmirror.duties.duty import Result, Sides
from sparkmirror.errors import BrokerError, LinkError
from sparkmirror.kafka.cluster import Cluster
from sparkmirror.kafka.codes import GONE
from sparkmirror.kafka.configs import ConfigEntry, describe_configs
from sparkmirror.kafka.memory import Memory, memories_ms
from sparkmirror.kafka.rounds import Results
from sparkmirror.model import MAX_MESSAGE_BYTES

log = logging.getLogger(__name__)

LOOK_SECONDS = 10.0
"""Between two looks, unless topics are looked for more often."""

ASK_MS = 10_000

CLOCKS_MS = 3_600_000
"""By so much clocks may differ, and batches wait, before a broker forgets a producer that is believed to be known."""

PROPERTIES = ("max.message.bytes", "message.timestamp.type", "compression.type")

_CODECS = {"uncompressed": "none", **{name: name for name in ("gzip", "snappy", "lz4", "zstd")}}
"""A topic's ``compression.type`` as its batches have it; ``producer`` leaves them as they come."""


def facts_of(entries: Mapping[str, ConfigEntry]) -> TargetFacts:
    """What a topic with these properties asks of a batch."""
    size, time_type, codec = (entries[name].value or "" for name in PROPERTIES)
    return TargetFacts(
        max_message_bytes=int(size or MAX_MESSAGE_BYTES),
        log_append_time=time_type == "LogAppendTime",
        codec=_CODECS.get(codec, ""),
    )


class Facts:
    """Of one flow's target; for several threads.

    Args:
        told: how long each broker remembers a producer, see `memories_ms`.

    Attributes:
        topics: those that lanes write to now.
    """

    def __init__(self, told: Mapping[int, int | None]) -> None:
        self._lock = Lock()
        self._memory = Memory()
        self._memory.take(told)
        self._seen: dict[str, tuple[float, TargetFacts]] = {}
        self.guarded_ms = self._memory.shortest_ms - CLOCKS_MS
        self.topics: frozenset[str] = frozenset()

    def ask(self, target: Cluster, topics: Sequence[str], timeout_ms: int) -> Results[str, TargetFacts]:
        """Asks what topics of the target are like now.

        Raises:
            LinkError: no broker could be asked.
        """
        asked = time.monotonic()
        described = describe_configs(target, topics, timeout_ms, PROPERTIES)
        found = {name: facts_of(entries) for name, entries in described.found.items()}
        self.take(found, asked)
        return Results(found=found, failed=described.failed)

    def ask_brokers(self, target: Cluster, timeout_ms: int) -> None:
        """Asks how long the target's brokers remember a producer now.

        Raises:
            LinkError: no broker answers.
        """
        before = self._memory.shortest_ms
        self._memory.take(memories_ms(target, timeout_ms))
        now = self._memory.shortest_ms
        self.guarded_ms = now - CLOCKS_MS
        if now != before:
            log.info("cluster %s remembers producers for %d ms now, and did for %d ms", target.alias, now, before)

    def take(self, found: Mapping[str, TargetFacts], asked: float) -> None:
        """Takes answers, unless newer ones are known; ``asked`` is when the question left, on the monotonic clock."""
        with self._lock:
            for topic, facts in found.items():
                if topic not in self._seen or self._seen[topic][0] <= asked:
                    self._seen[topic] = (asked, facts)

    def newest(self, plan: PartitionPlan) -> PartitionPlan:
        """The same plan for the target topic as it was seen last."""
        seen = self._seen.get(plan.target_topic)
        return plan if seen is None else plan.with_facts(seen[1])

    def follow(self, plans: Iterable[PartitionPlan]) -> dict[str, TargetFacts]:
        """Keeps in sight what is written to by these plans, and gives the topics that are not as a plan says."""
        plans = tuple(plans)
        self.topics = frozenset(plan.target_topic for plan in plans)
        changed = {plan.target_topic for plan in plans if self.newest(plan) != plan}
        return {topic: self._seen[topic][1] for topic in sorted(changed)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Unseen:
    """A topic that could not be asked about: its lanes go by what was seen last."""

    topic: str
    reason: str

    @property
    def change(self) -> None:
        """Nothing is changed."""


class LookAtTarget:
    """The duty that asks again.

    Args:
        sides: what it works with.
        facts: takes the answers.
    """

    name = "target facts"

    def __init__(self, sides: Sides, facts: Facts) -> None:
        flow = sides.flow
        self.interval_s: float | None = min(LOOK_SECONDS, flow.refresh_topics_interval_s)
        self._target = sides.target
        self._timeout_ms = min(ASK_MS, flow.admin_timeout_ms)
        self._facts = facts

    def look(self) -> tuple[Unseen, ...]:
        """Asks; gives what could not be seen. A topic that is gone is its lanes' affair.

        Raises:
            LinkError: the target cannot be asked.
        """
        asked = self._facts.ask(self._target, sorted(self._facts.topics), self._timeout_ms)
        self._facts.ask_brokers(self._target, self._timeout_ms)
        return tuple(
            Unseen(topic=topic, reason=str(failure)) for topic, failure in asked.failed.items() if not _is_gone(failure)
        )

    def apply(self, actions: Sequence[Unseen]) -> tuple[Result, ...]:
        """Says of each that it failed."""
        return tuple(Result(action=action, failure=action.reason) for action in actions)


def _is_gone(failure: BrokerError | LinkError) -> bool:
    return isinstance(failure, BrokerError) and failure.code in GONE
