"""How long nothing arrived: the ends of the target's partitions, watched while faults are made.

Every partition is written to all the time, so one whose end does not grow for seconds stands still, for whatever
reason: a lane is gone, its target has no leader, its source is away. What is measured is what a reader of the target
would see; the look itself takes place twice a second.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from confluent_kafka import KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from sparkmirror.lab.chaos.schedule import Side
from sparkmirror.lab.chaos.site import Site

LOOK_SECONDS = 0.5
ANSWER_SECONDS = 3.0
SHORTEST_S = 1.5
"""Below it, a partition was not looked at often enough to say that it stood still."""

Place: TypeAlias = tuple[str, int]
"""Topic and partition."""

_LATEST: Any = OffsetSpec.latest()  # type: ignore[no-untyped-call]  # confluent-kafka left its type out


@dataclass(frozen=True, slots=True, kw_only=True)
class Standstill:
    """A stretch of time in which a partition of the target did not grow; in seconds of the monotonic clock."""

    topic: str
    partition: int
    began: float
    ended: float

    @property
    def seconds(self) -> float:
        """Its length."""
        return self.ended - self.began


def longest(standstills: Iterable[Standstill], began: float, ended: float) -> float:
    """The longest standstill that falls into this time, in seconds; 0 when nothing stood still.

    One counts that began before the end and ended after the beginning, since its cause may show late or heal late.
    """
    found = (each.seconds for each in standstills if each.began <= ended and each.ended >= began)
    return max(found, default=0.0)


class Lookout:
    """Watches the copies on both clusters from threads of its own, until it is stopped."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self._grew: dict[Place, tuple[int, float]] = {}
        self._found: list[Standstill] = []
        self._stopping = threading.Event()
        self._threads = [threading.Thread(target=self._watch, args=(side,), daemon=True) for side in Side]

    def start(self) -> None:
        """Begins to watch."""
        for thread in self._threads:
            thread.start()

    def stop(self) -> list[Standstill]:
        """Ends, and gives what it has seen, stretches that have not ended among it."""
        self._stopping.set()
        for thread in self._threads:
            thread.join()
        now = time.monotonic()
        for place in tuple(self._grew):
            self._note(place, now)
        return self._found

    def still(self, moment: float) -> list[str]:
        """The partitions that have not grown since a moment of the monotonic clock."""
        places = [(copy.copy, number) for copy in self._site.copies for number in range(copy.partitions)]
        grew = {place: self._grew.get(place, (0, 0.0))[1] for place in places}
        return [f"{topic}-{number}" for (topic, number), when in grew.items() if when <= moment]

    def _watch(self, side: Side) -> None:
        copies = [copy for copy in self._site.copies if copy.target is side]
        places = [TopicPartition(copy.copy, number) for copy in copies for number in range(copy.partitions)]
        client = self._site.client(side)
        while not self._stopping.wait(LOOK_SECONDS):
            ends = _ends(client, places)
            if len(ends) < len(places):
                client = self._site.client(side)  # one that has missed a topic once keeps missing it
            for place, end in ends.items():
                before, _ = self._grew.get(place, (0, 0.0))
                if end != before:  # less is a sign of life too: the target has lost its tail
                    now = time.monotonic()
                    self._note(place, now)
                    self._grew[place] = end, now

    def _note(self, place: Place, now: float) -> None:
        before = self._grew.get(place)
        if before is not None and now - before[1] >= SHORTEST_S:
            self._found.append(Standstill(topic=place[0], partition=place[1], began=before[1], ended=now))


def _ends(admin: AdminClient, places: list[TopicPartition]) -> Mapping[Place, int]:
    """The ends of those whose leaders answer."""
    found: dict[Place, int] = {}
    try:
        futures = admin.list_offsets(dict.fromkeys(places, _LATEST), request_timeout=ANSWER_SECONDS)
    except KafkaException:
        return found
    for place, future in futures.items():
        try:
            found[place.topic, place.partition] = int(future.result(ANSWER_SECONDS + 1).offset)
        except (KafkaException, TimeoutError):
            continue
    return found
