"""What a driver takes from its lanes and gives to them, and its look at a flow with one part of the look failing."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import replace
from threading import Event
from types import SimpleNamespace
from typing import Any, NoReturn

import pytest

from sparkmirror.config import ClientSettings, Endpoint, FlowConfig
from sparkmirror.copy.control import RUN_KEY, Announced, run_value, told_run
from sparkmirror.copy.plan import PartitionPlan
from sparkmirror.copy.receipt import Outcome, Receipt
from sparkmirror.errors import FencedError, LinkError
from sparkmirror.flow.copying import Copying
from sparkmirror.flow.desk import Desk
from sparkmirror.flow.facts import Facts
from sparkmirror.flow.identities import Identities
from sparkmirror.flow.opening import Opened, open_flow
from sparkmirror.flow.positions import Resumed
from sparkmirror.flow.room import Room
from sparkmirror.kafka.cluster import Cluster
from sparkmirror.kafka.journal import Journal
from sparkmirror.model import Alias, FlowName, LastRecord, TopicPartition, Writer
from sparkmirror.naming import control_topic
from sparkmirror.offsets.records import Happened, Life, Progress, Stopped
from sparkmirror.offsets.state import JournalState
from tests.flow.running import until


def looked(copying: Copying, condition: Callable[[], bool], what: str) -> None:
    def look() -> bool:
        copying.tick()
        return condition()

    until(look, what, 15)


HERE, THERE = TopicPartition("orders", 0), TopicPartition("orders", 1)
WRITER = Writer(producer_id=1, epoch=2)
STOPPED = Receipt(
    source=HERE, outcome=Outcome.STOPPED, position=500, sequence=77, writer=WRITER, settled=True, error="refused"
)


class OneLane:
    """A driver with one lane of two partitions, whose shift lasts until `hand_back`; no cluster is there."""

    def __init__(self, pool: ThreadPoolExecutor) -> None:
        client = ClientSettings(bootstrap_servers=("localhost:1",))
        ends = [Endpoint(alias=Alias(a), consumer=client, producer=client, admin=client) for a in ("a", "b")]
        flow = FlowConfig(name=FlowName(source=Alias("a"), target=Alias("b")), source=ends[0], target=ends[1])
        self.state = JournalState()
        self._receipts: Future[tuple[Receipt, ...]] = Future()
        opened: Any = SimpleNamespace(
            generation=1,
            driver=WRITER,
            source_id="A",
            target_id="B",
            first=(WRITER,) * 8,
            facts=Facts({}),
            lost_runs=False,
            before=(),
            tells_writers=False,
            store=SimpleNamespace(state=self.state, write=lambda *_, **__: None),
            control=SimpleNamespace(append=lambda _: None),
            writers=SimpleNamespace(carried=lambda _: ()),
            signs=SimpleNamespace(haunted=False, expect=lambda *_: None, forget=lambda _: None),
            is_mine=lambda _: True,
        )
        desk = Desk(
            run="run",
            opening=0,
            once=False,
            room=lambda: Room(lanes=1, most=1),
            run_shift=lambda _: self._receipts.result(60),
            cancel_shift=lambda _: None,
            pool=pool,
        )
        nobody: Any = None
        self.copying = Copying(flow, opened, nobody, nobody, desk, lambda _: None)
        lanes = self.copying._lanes
        lanes._control_end = lambda: 0
        self.copying._start(
            [PartitionPlan(source=p, target_topic="t", topic_id="", position=0, writer=WRITER) for p in (HERE, THERE)]
        )
        (self.lane,) = lanes

    def read(self, **change: Any) -> None:
        """The driver reads progress of `HERE`."""
        known = Progress(
            partition=HERE, writer=WRITER, generation=1, position=500, next_sequence=77, sequence=76, settled=True
        )
        self.state.take(replace(known, lane=self.lane.current.plan.shift, **change))
        self.copying._take_progress(time.monotonic())

    def hand_back(self, *receipts: Receipt) -> None:
        """The shift ends."""
        self._receipts.set_result(receipts)
        wait([self.lane.current.job], 60)
        for ended in self.copying._lanes.ended():
            self.copying._settle(ended, time.monotonic())


@pytest.fixture
def driver() -> Iterator[OneLane]:
    with ThreadPoolExecutor(1) as pool:
        made = OneLane(pool)
        yield made
        if not made._receipts.done():
            made._receipts.set_result(())


def test_a_stopped_partition_is_given_to_another_lane_only_when_its_own_has_released_it(driver: OneLane) -> None:
    resting = driver.copying._resting
    driver.read(error="refused")
    assert (driver.lane.partitions, len(resting)) == ({HERE, THERE}, 0)
    driver.read(error="refused", released=True)
    assert (driver.lane.partitions, resting.errors()) == ({THERE}, {HERE: "refused"})
    assert resting.settled(HERE) == Resumed(
        position=500, writer=WRITER, sequence=77, opened=True, last=LastRecord(sequence=76)
    )


def test_what_was_released_is_not_taken_back_at_the_end_of_the_shift(driver: OneLane) -> None:
    """Another lane may have gone on with it since."""
    driver.read(error="refused", released=True)
    resting = driver.copying._resting
    assert resting.take_due(math.inf) == (HERE,)
    driver.hand_back(STOPPED)
    assert len(resting) == 0


def test_what_stopped_unreleased_rests_when_its_shift_has_ended(driver: OneLane) -> None:
    driver.read(error="refused")
    driver.hand_back(STOPPED)
    assert driver.copying._resting.errors() == {HERE: "refused"}
    assert driver.lane.partitions == {THERE}


@pytest.mark.parametrize("fails", [False, True])
def test_a_run_ends_cleanly_only_if_its_topic_has_again_what_it_had_lost(driver: OneLane, fails: bool) -> None:
    store: Any = driver.copying._opened.store
    opened: Any = driver.copying._opened
    written: list[object] = []

    def left(_: float) -> JournalState:
        if fails:
            raise LinkError(cluster="b", address="", reason="no answer")
        return JournalState()

    def write(records: Sequence[object], *_: object, **__: object) -> None:
        written.extend(records)

    def restored() -> None:
        store.lacks = False

    more: dict[str, Any] = {"lacks": True, "place": "cluster b, t-0", "follow": lambda: None}
    vars(store).update(more, left=left, write=write, restored=restored)
    opened.writers.ids, opened.signs.point = (WRITER.producer_id,), lambda _: None
    opened.stopped = lambda: Stopped(generation=1, time_ms=0, exact_after=0, writers=())
    done = Receipt(source=HERE, outcome=Outcome.DONE, position=9, sequence=9, writer=WRITER, settled=True)
    driver.hand_back(done, replace(done, source=THERE))
    driver.copying.end(0.0)
    told = [one.event.text for one in written if isinstance(one, Happened)]
    assert ["no clean end" in text for text in told] == [True] * fails
    assert any(isinstance(one, Stopped) for one in written) is not fails
    assert [one.state for one in written if isinstance(one, Life)] == ["failed" if fails else "stopped"]


class TwoRuns:
    """One flow without topics on real clusters, and the copying of its first run."""

    def __init__(self, flow: FlowConfig, source: Cluster, target: Cluster, pool: ThreadPoolExecutor) -> None:
        self._clusters = flow, source, target
        self.over, self.told = Event(), list[str]()
        desk = Desk(
            run="first",
            opening=0,
            once=False,
            room=lambda: Room(lanes=1, most=1),
            run_shift=self._copies_nothing,
            cancel_shift=lambda _: self.over.set(),
            pool=pool,
        )
        self.first = self.opened("first")
        self.copying = Copying(flow, self.first, source, target, desk, self.told.append)

    def opened(self, run: str) -> Opened:
        return open_flow(*self._clusters, "mm2.properties", run, Identities("mm2.properties"))

    def _copies_nothing(self, *_: object) -> tuple[Receipt, ...]:
        self.over.wait(60)
        return ()


@pytest.fixture
def runs(lab_flow: FlowConfig, lab_cluster: Callable[[str], Cluster], topic: Callable[[str], str]) -> Iterator[TwoRuns]:
    alias = Alias(topic("orders-fail"))
    flow = replace(lab_flow, name=FlowName(source=alias, target=Alias("B")), topics=(str(alias),))
    with ThreadPoolExecutor(1) as pool:
        found = TwoRuns(flow, lab_cluster("A"), lab_cluster("B"), pool)
        yield found
        found.over.set()


@pytest.mark.kafka
def test_a_run_that_cannot_order_its_lanes_hears_all_the_same_that_another_has_the_flow(
    runs: TwoRuns, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object) -> NoReturn:
        raise LinkError(cluster="B", address="", reason="no orders today")

    copying = runs.copying
    monkeypatch.setattr(copying._ordering, "follow", fails)
    copying.begin()
    looked(copying, lambda: bool(runs.told), "the look fails")
    assert "no orders today" in runs.told[0]
    assert not copying.finished
    runs.opened("second")
    looked(copying, lambda: copying.finished, "the first run hears of the second")
    assert "has taken the flow over" in copying.superseded


@pytest.mark.kafka
def test_a_late_word_of_a_driver_that_died_ends_nobody_and_a_later_run_does(
    runs: TwoRuns, lab_cluster: Callable[[str], Cluster]
) -> None:
    copying, cluster = runs.copying, lab_cluster("B")
    journal = Journal(cluster, control_topic(copying._config.name))
    word = Announced(run="dead", generation=runs.first.generation, driver=replace(runs.first.driver, epoch=0))

    def has_the_flow() -> str:
        newest, _ = cluster.run(journal.read_all)
        return told_run(newest[RUN_KEY].value or "").run

    copying.begin()
    cluster.run(journal.append, [(RUN_KEY, run_value(word))])
    assert has_the_flow() == "dead"
    looked(copying, lambda: has_the_flow() == "first", "it says once more that it has the flow")
    assert not copying.finished
    runs.opened("second")
    looked(copying, lambda: copying.finished, "the first run hears of the second")
    assert (has_the_flow(), "has taken the flow over" in copying.superseded) == ("second", True)


@pytest.mark.kafka
def test_a_run_that_was_paused_writes_nothing_more_once_another_has_the_flow(
    runs: TwoRuns, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The announcement of the other run is kept from it: a paused run may have read it too late."""
    copying, store = runs.copying, runs.first.store
    monkeypatch.setattr(runs.first.signs, "follow", lambda: None)
    copying.begin()
    second = runs.opened("second")
    assert second.generation == runs.first.generation + 1
    store.follow()
    with pytest.raises(FencedError):
        runs.first.raise_generation()
    looked(copying, lambda: copying.finished, "the first run hears of the second")
    assert "has taken the flow over" in copying.superseded
    copying.end(0.0)
    second.store.follow()
    assert second.store.state.flow is not None
    assert second.store.state.flow.generation == second.generation
    assert second.store.state.life is not None
    store.follow()
    assert store.state.stopped is None


@pytest.mark.kafka
def test_a_run_that_lost_the_flow_before_it_began_ends(runs: TwoRuns) -> None:
    runs.opened("second")
    with pytest.raises(FencedError):
        runs.copying.begin()
    assert runs.copying.finished


@pytest.mark.kafka
def test_a_run_that_ends_after_another_has_taken_the_flow_says_so_and_leaves_no_clean_end(
    runs: TwoRuns, monkeypatch: pytest.MonkeyPatch
) -> None:
    copying = runs.copying
    monkeypatch.setattr(runs.first.signs, "follow", lambda: None)
    copying.begin()
    second = runs.opened("second")
    copying.end(0.0)
    assert "has taken the flow over" in copying.superseded
    second.store.follow()
    assert second.store.state.stopped is None
