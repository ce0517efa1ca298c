"""Lanes of one partition that publish to a list in the place of the internal topic: every order can be tried."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest

from sparkmirror.copy.arrivals import Ticket
from sparkmirror.copy.partition import PartitionCopy
from sparkmirror.copy.plan import ShiftPlan
from sparkmirror.copy.progress import Publisher
from sparkmirror.kafka.cluster import new_loop
from sparkmirror.offsets.map import OffsetMap
from sparkmirror.offsets.records import Progress, parse
from sparkmirror.offsets.state import JournalState
from tests.batches.building import Written
from tests.copy.making import LARGE, SOURCE, WRITER, answer, batch


@pytest.fixture(scope="module")
def loop() -> Iterator[Any]:
    made = new_loop("release")
    made.start()
    yield made
    made.stop(5_000)
    made.close()


@dataclass
class Topic:
    """The internal topic as a list."""

    loop: Any
    log: list[tuple[str, str | None]] = field(default_factory=list)

    async def append(self, entries: Sequence[tuple[str, str | None]], timeout_ms: int = 0) -> int:  # noqa: ARG002 - as of any journal
        self.log.extend(entries)
        return len(self.log)

    @property
    def cluster(self) -> Any:
        return self  # what a publisher wants of it is the loop

    @property
    def state(self) -> JournalState:
        state = JournalState()
        for key, value in (entry for entry in self.log if entry[0] != "control"):
            if value is None:
                state.forget(key)
                continue
            record = parse(key, value)
            assert record is not None
            state.take(record)
        return state

    @property
    def progress(self) -> Progress:
        return self.state.progress[SOURCE]

    @property
    def map(self) -> OffsetMap:
        state = self.state
        return state.map_of(SOURCE).offsets(state.progress[SOURCE], (WRITER.producer_id,))


@dataclass
class OneLane:
    """What a lane does with the journal."""

    topic: Topic
    name: str
    copy: PartitionCopy

    def __post_init__(self) -> None:
        shift = ShiftPlan(flow="A->B", run="r", shift=self.name, generation=1, partitions=())
        self.publisher = Publisher(self.topic, shift, lambda _: -1)  # type: ignore[arg-type]  # as much of one as is used

    def bring(self, *written: Written) -> None:
        """An answer comes; its segments go on record."""
        new = [each for each in written if each.base_offset >= self.copy.fetch_offset]
        came = answer(new, self.copy.place())
        self.copy.take(came, Ticket(acknowledged=True))
        self.topic.loop.run(self.publisher.write_ahead, [] if came.segments is None else [came.segments])

    def publish(self, *, final: bool = False) -> None:
        async def publish() -> None:
            await self.publisher.publish([self.copy], final=final)

        self.topic.loop.run(publish)

    def acknowledge_all(self, at: int) -> int:
        """The target takes all that waits, from an offset on; gives the offset behind it."""
        while (out := self.copy.next_batch()) is not None:
            self.copy.acknowledged(out, at)
            at += out.count
        return at


def with_holes(number: int) -> list[Written]:
    """Every second offset is the marker of a transaction."""
    return [batch(2 * each, 1, size=LARGE) for each in range(number)]
