"""Holders of one partition against a plain model: lanes that stop, lose answers and go on publishing, in every order.

The lanes, what they publish, the state read from it and the takeover are the real ones; the target's log is a list.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sparkmirror.copy.outgoing import Outgoing
from sparkmirror.flow.settled import settled_in
from sparkmirror.model import NO_RECORD, Writer
from sparkmirror.offsets.tail import Tail, TailBatch
from sparkmirror.offsets.takeover import Begin, Observed, Resume, decide
from tests.batches.building import Written
from tests.copy.lanes import OneLane, Topic, loop
from tests.copy.making import LARGE, SOURCE, WRITER, batch, partition

NOT_ENOUGH_REPLICAS, NETWORK_EXCEPTION = 19, 13
WHAT_WAS_LAST = NO_RECORD

__all__ = ["loop"]  # a fixture

_sizes = st.lists(st.tuples(st.integers(1, 3), st.integers(0, 2)), min_size=3, max_size=10)
"""Of batches: how many records, and how many offsets without a record come behind them."""

_turns = st.lists(
    st.sampled_from(["bring", "send", "send", "take", "take", "refuse", "lose", "publish", "former", "go on"]),
    max_size=60,
)


def written(sizes: Sequence[tuple[int, int]]) -> list[Written]:
    found, offset = [], 0
    for records, hole in sizes:
        found.append(batch(offset, records, size=LARGE // records))
        offset += records + hole
    return found


@dataclass
class Partition:
    """One partition: the source's batches, the target's log, and all lanes that ever had it, the holder last."""

    topic: Topic
    source: list[Written]
    lanes: list[OneLane] = field(default_factory=list)
    log: list[tuple[TailBatch, range]] = field(default_factory=list)
    in_flight: list[Outgoing] = field(default_factory=list)
    writer: Writer = WRITER

    def __post_init__(self) -> None:
        self._hold(0)

    @property
    def holder(self) -> OneLane:
        return self.lanes[-1]

    @property
    def end(self) -> int:
        return self.log[-1][0].last_offset + 1 if self.log else 0

    @property
    def arrived(self) -> list[int]:
        return [source for _, sources in self.log for source in sources]

    def turn(self, name: str, data: Any) -> None:
        match name:
            case "bring":
                self.bring(data.draw(st.integers(1, 3), label="batches"))
            case "send":
                self.send()
            case "take":
                self.take()
            case "refuse":
                self.refuse()
            case "lose":
                self.lose(data.draw(st.integers(0, len(self.in_flight)), label="appended"))
            case "publish":
                self.holder.publish()
            case "former":
                if formers := self.lanes[:-1]:
                    lane = data.draw(st.sampled_from(formers), label="former holder")
                    lane.publish(final=data.draw(st.booleans(), label="its shift ends"))
            case "go on":
                self.go_on()

    def bring(self, count: int) -> None:
        if not self.holder.copy.error:
            new = [each for each in self.source if each.base_offset >= self.holder.copy.fetch_offset]
            self.holder.bring(*new[:count])

    def send(self) -> None:
        if (out := self.holder.copy.next_batch()) is not None:
            self.in_flight.append(out)

    def take(self) -> None:
        """The oldest batch in flight is appended and acknowledged."""
        if self.in_flight:
            out = self.in_flight.pop(0)
            self.holder.copy.acknowledged(out, self._append(out))

    def refuse(self) -> None:
        """All that is in flight is refused."""
        for out in self.in_flight:
            self.holder.copy.refused(out, NOT_ENOUGH_REPLICAS, "")
        self.in_flight = []

    def lose(self, appended: int) -> None:
        """All answers are lost; so many of the oldest batches are in the log nevertheless."""
        for number, out in enumerate(self.in_flight):
            if number < appended:
                self._append(out)
            self.holder.copy.refused(out, NETWORK_EXCEPTION, "")
        self.in_flight = []

    def go_on(self) -> None:
        """A driver gives a partition that stopped to another lane, once its holder has released it."""
        if not self.holder.copy.error:
            return
        self.holder.publish()
        progress = self.topic.progress
        if not progress.released:
            return
        where = settled_in(progress)
        if where is None:
            self._take_over()
        else:
            self._hold(where.position, sequence=where.sequence, opened=where.opened, anew=where.anew)

    def _hold(self, position: int, *, sequence: int = 0, opened: bool = False, anew: bool = False) -> None:
        copy = partition(opened=False, writer=self.writer, anew=anew)
        copy.patience_s = -1
        copy.begin(position, sequence, WHAT_WAS_LAST, opened=opened)
        self.lanes.append(OneLane(self.topic, f"lane-{len(self.lanes)}.0", copy))

    def _append(self, out: Outgoing) -> int:
        base, sources = self.end, range(out.source, out.last_source + 1)
        assert len(sources) == out.count
        header = TailBatch(
            base,
            base + out.count - 1,
            self.writer.producer_id,
            self.writer.epoch,
            out.sequence,
            count=out.count,
            control=False,
            newest_ms=1,
        )
        self.log.append((header, sources))
        return base

    def _take_over(self) -> None:
        self.writer = replace(self.writer, epoch=self.writer.epoch + 1)
        marker = TailBatch(
            self.end, self.end, self.writer.producer_id, self.writer.epoch, -1, count=1, control=True, newest_ms=1
        )
        self.log.append((marker, range(0)))
        state = self.topic.state
        decision = decide(
            Observed(
                partition=SOURCE,
                progress=state.progress.get(SOURCE),
                map=state.map_of(SOURCE),
                ids=(WRITER.producer_id,),
                tail=Tail(start=0, high_watermark=self.end, batches=tuple(header for header, _ in self.log), since=0),
                start=0,
                fence=self.writer,
            )
        )
        assert isinstance(decision, Resume | Begin)
        assert decision.event is None
        if isinstance(decision, Resume):
            self.topic.log += [(targets.key, targets.value()) for targets in decision.targets]
            self.topic.log += [(key, None) for key in decision.void]
        self._hold(decision.position, anew=decision.anew)


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(sizes=_sizes, turns=_turns, data=st.data())
def test_whoever_held_a_partition_before_changes_nothing(loop, sizes, turns, data):
    world = Partition(Topic(loop), written(sizes))
    records = [each.base_offset + n for each, (count, _) in zip(world.source, sizes, strict=True) for n in range(count)]
    for name in turns:
        world.turn(name, data)
    world.refuse()
    world.go_on()
    while world.holder.copy.position < world.source[-1].base_offset + sizes[-1][0]:
        world.bring(len(sizes))
        world.send()
        world.take()
    for lane in data.draw(st.permutations(world.lanes), label="the last publications"):
        lane.publish(final=True)
    assert world.arrived == records
    assert (world.topic.progress.lane, world.topic.progress.position) == (world.holder.name, records[-1] + 1)
    mapped = world.topic.map
    there = {
        source: header.base_offset + number for header, sources in world.log for number, source in enumerate(sources)
    }
    assert {source: mapped.source_to_target(source) for source in records} == there
