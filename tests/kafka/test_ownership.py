"""Who owns a topic: renewals of its transactional id, and what an owner may still write that stood still for long."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest
from kafka.protocol.admin import DescribeProducersRequest

from sparkmirror.config import ClientSettings
from sparkmirror.errors import FencedError
from sparkmirror.kafka import ownership
from sparkmirror.kafka.cluster import Cluster
from sparkmirror.kafka.idempotent_journal import IdempotentJournal
from sparkmirror.kafka.ownership import PROOF_SECONDS, Moment, Ownership
from sparkmirror.kafka.producer_ids import NOBODY, acquire_writer
from sparkmirror.kafka.store import SURE_SECONDS, Store
from sparkmirror.lab.cluster import LabCluster, start
from sparkmirror.model import Writer
from sparkmirror.offsets.orders import RateOrder
from sparkmirror.offsets.writers import LAST_EPOCH, ROTATE_FROM
from tests.flow.running import until
from tests.flow.test_writers import is_forgotten
from tests.kafka.test_idempotent_journal import all_values, create, many, newest

FORGET_SECONDS = 6


@dataclass
class Clock:
    """Goes as the real one does, until somebody lets time pass."""

    boot: float = 0.0
    wall: float = 0.0

    def __call__(self) -> Moment:
        now = time.monotonic()
        return Moment(now + self.boot, now + self.wall)


@dataclass
class Coordinator:
    """As Kafka's: one producer id, whose epochs end; another one when it has forgotten the name.

    Attributes:
        asked: the writers that were named, in order.
    """

    newest: Writer
    asked: list[Writer] = field(default_factory=list)

    async def next_writer(self, _cluster: Any, _name: str, held: Writer, _timeout_ms: int) -> Writer:
        self.asked.append(held)
        spent = self.newest.epoch == LAST_EPOCH
        self.newest = Writer(producer_id=self.newest.producer_id + spent, epoch=0 if spent else self.newest.epoch + 1)
        return self.newest

    def forgets(self) -> None:
        self.newest = Writer(producer_id=self.newest.producer_id + 1, epoch=-1)


@pytest.fixture
def coordinator(monkeypatch: pytest.MonkeyPatch) -> Coordinator:
    made = Coordinator(Writer(producer_id=5, epoch=7))
    monkeypatch.setattr(ownership, "next_writer", made.next_writer)
    return made


def answer(asking: Any) -> Writer:
    """Of a coroutine that waits for nothing."""
    with pytest.raises(StopIteration) as ended:
        asking.send(None)
    writer: Writer = ended.value.value
    return writer


CLUSTER: Any = type("Alias", (), {"alias": "b"})()


def owner(coordinator: Coordinator, clock: Clock, renew_seconds: float = 100.0) -> tuple[Ownership, Writer]:
    made = Ownership("sparkmirror.a->b.driver", renew_seconds, clock)
    return made, answer(made.take(CLUSTER, 1_000))


def test_an_owner_takes_the_id_whoever_had_it_and_renews_what_it_holds(coordinator: Coordinator) -> None:
    subject, held = owner(coordinator, Clock())
    assert (held, coordinator.asked) == (Writer(producer_id=5, epoch=8), [NOBODY])
    assert answer(subject.renew(CLUSTER, held, 1_000)).epoch == 9
    assert coordinator.asked[-1] == held


@pytest.mark.parametrize(
    ("passed", "acknowledged", "sequence", "due"),
    [
        (0, False, 1, False),
        (PROOF_SECONDS + 1, False, 1, True),
        (PROOF_SECONDS + 1, False, 0, True),
        (PROOF_SECONDS + 1, True, 1, False),
        (101, True, 1, True),
        (101, True, 0, False),
    ],
)
@pytest.mark.parametrize("jumps", ["boot", "wall"])
def test_the_coordinator_is_asked_every_few_hours_and_by_an_owner_that_stood_still(
    coordinator: Coordinator, passed: float, acknowledged: bool, sequence: int, due: bool, jumps: str
) -> None:
    clock = Clock()
    subject, held = owner(coordinator, clock)
    setattr(clock, jumps, passed)
    if acknowledged:
        subject.acknowledged(clock())
    assert subject.must_renew(held, sequence) == due


def test_a_wall_clock_that_is_set_back_makes_nothing_newer(coordinator: Coordinator) -> None:
    clock = Clock()
    subject, held = owner(coordinator, clock)
    clock.wall, clock.boot = -10_000, PROOF_SECONDS + 1
    assert subject.must_renew(held, 1)


def test_an_answer_that_comes_late_proves_the_moment_of_its_request(coordinator: Coordinator) -> None:
    clock = Clock()
    subject, held = owner(coordinator, clock)
    sent = clock()
    clock.boot += PROOF_SECONDS + 1
    subject.acknowledged(sent)
    assert subject.must_renew(held, 1)


@pytest.mark.parametrize("appended", [False, True])
def test_an_id_that_the_coordinator_had_forgotten_is_lost(coordinator: Coordinator, appended: bool) -> None:
    """Another driver may have come and gone."""
    subject, held = owner(coordinator, Clock())
    subject.has_appended = appended
    coordinator.forgets()
    with pytest.raises(FencedError, match=r"INVALID_PRODUCER_ID_MAPPING .* has forgotten the id"):
        subject.renew(CLUSTER, held, 1_000).send(None)


def test_an_owner_that_has_shut_out_the_former_ones_spends_the_last_epochs(coordinator: Coordinator) -> None:
    coordinator.newest = Writer(producer_id=5, epoch=ROTATE_FROM - 1)
    subject, held = owner(coordinator, Clock())
    assert not subject.must_renew(held, 0), "first its epoch has to come into the log"
    assert answer(subject.renew(CLUSTER, held, 1_000)).epoch == ROTATE_FROM + 1
    subject.acknowledged(subject.clock())
    assert subject.must_renew(coordinator.newest, 1)
    assert answer(subject.renew(CLUSTER, coordinator.newest, 1_000)) == Writer(producer_id=6, epoch=0)
    assert not subject.must_renew(coordinator.newest, 1)


def test_the_last_epoch_of_an_owner_that_has_shut_out_nobody_is_its_end(coordinator: Coordinator) -> None:
    coordinator.newest = Writer(producer_id=5, epoch=LAST_EPOCH - 1)
    subject, held = owner(coordinator, Clock())
    with pytest.raises(FencedError):
        subject.renew(CLUSTER, held, 1_000).send(None)


# -------------------------------------------------------------------------------------------------------- real brokers


def journals(cluster: Cluster, name: str, number: int) -> list[tuple[IdempotentJournal, Clock]]:
    """Owners of one topic, each of which took it from the one before; not one has appended yet."""
    found = []
    for _ in range(number):
        clock = Clock()
        journal = IdempotentJournal(cluster, name)
        cluster.run(journal.own, Ownership(name, clock=clock))
        found.append((journal, clock))
    return found


@pytest.mark.kafka
def test_an_owner_that_was_followed_is_refused_its_renewal_and_shuts_nobody_out(
    lab_cluster: Callable[[str], Cluster], topic_name: str
) -> None:
    cluster = lab_cluster("A")
    create(cluster, topic_name)
    ((former, clock),) = journals(cluster, topic_name, 1)
    cluster.run(former.append, [("k", "mine")])
    ((successor, _),) = journals(cluster, topic_name, 1)
    clock.boot += PROOF_SECONDS + 1
    for _ in range(2):
        with pytest.raises(FencedError, match="another driver"):
            cluster.run(former.append, [("k", "late")])
    cluster.run(successor.append, [("k", "my successor's")])
    held = successor._writer
    with pytest.raises(FencedError):
        cluster.run(former.append, [("k", "later")])
    cluster.run(successor.append, [("other", "my successor's")])
    assert held is not None
    assert successor._writer == held, "no refusal has cost it its epoch"
    assert newest(former) == {"k": "my successor's", "other": "my successor's"}
    assert acquire_writer(cluster, topic_name, 20_000).epoch == held.epoch + 1


@pytest.mark.kafka
def test_appends_side_by_side_lie_in_order_while_the_id_is_renewed(
    lab_cluster: Callable[[str], Cluster], topic_name: str
) -> None:
    """What is in flight under the epoch before is waited for."""
    cluster = lab_cluster("A")
    create(cluster, topic_name)
    journal = IdempotentJournal(cluster, topic_name)
    cluster.run(journal.own, Ownership(topic_name, renew_seconds=0.0))
    cluster.run(journal.append, [("k", "first")])
    before = journal._writer
    with many(cluster, journal, 30) as results:
        cluster.run(journal.append, [("end", "")], 60_000)
    assert results == list(range(30))
    values = [int(value) for value in all_values(journal) if value and value.isdigit()]
    assert values == [place for place in range(30) for _ in range(2)]
    assert before is not None
    assert journal._writer == Writer(producer_id=before.producer_id, epoch=before.epoch + 31)


@pytest.mark.kafka
def test_an_owner_proves_it_by_a_write_only_where_it_has_written_nothing_for_a_while(
    lab_cluster: Callable[[str], Cluster], topic_name: str
) -> None:
    cluster = lab_cluster("A")
    create(cluster, topic_name)
    store, clock = Store(cluster, topic_name, 30_000), Clock()
    store.own(topic_name)
    assert store._ownership is not None
    store._ownership.clock = clock
    store.write([RateOrder(bytes_per_s=1, time_ms=1, by="the owner")])

    def written() -> int:
        return len(all_values(store._journal))

    before = written()
    store.prove()
    assert written() == before
    clock.wall += SURE_SECONDS + 1
    store.prove()
    assert written() == before + 1
    store.prove()
    assert written() == before + 1
    Store(cluster, topic_name, 30_000).own(topic_name)
    clock.wall += SURE_SECONDS + 1
    for _ in range(2):
        with pytest.raises(FencedError):
            store.prove()
    assert store.lost


@pytest.fixture(scope="module")
def forgetful() -> Iterator[LabCluster]:
    """A broker that forgets transactional ids and producers soon."""
    config = {
        "transactional.id.expiration.ms": str(FORGET_SECONDS * 1_000),
        "transaction.remove.expired.transaction.cleanup.interval.ms": "500",
        "producer.id.expiration.ms": "2000",
        "producer.id.expiration.check.interval.ms": "500",
    }
    with start("forgetful", config=config) as lab:
        yield lab


@pytest.fixture
def target(forgetful: LabCluster) -> Iterator[Cluster]:
    cluster = Cluster("b", ClientSettings(bootstrap_servers=(forgetful.bootstrap_servers,)), role="test")
    yield cluster
    cluster.close()


def producers(cluster: Cluster, name: str) -> int:
    """How many producers the leader remembers."""
    wire = DescribeProducersRequest.TopicRequest
    found = cluster.call(DescribeProducersRequest(topics=[wire(name=name, partition_indexes=[0])]))
    return len(found.topics[0].partitions[0].active_producers)


@pytest.mark.kafka
def test_an_owner_that_renews_its_id_is_shut_out_by_the_next_however_long_it_has_owned_the_topic(
    target: Cluster, topic_name: str
) -> None:
    create(target, topic_name)
    first, second = Store(target, topic_name, 20_000), Store(target, topic_name, 20_000)
    first.own(topic_name, renew_seconds=1.0)
    deadline = time.monotonic() + 3 * FORGET_SECONDS
    while time.monotonic() < deadline:
        first.write([RateOrder(bytes_per_s=1, time_ms=1, by="the first")])
        assert not is_forgotten(target, topic_name)
        time.sleep(0.3)
    second.own(topic_name)
    with pytest.raises(FencedError, match="another driver"):
        first.write([RateOrder(bytes_per_s=2, time_ms=2, by="the first, late")])
    assert first.lost
    second.follow()
    assert second.state.rate == RateOrder(bytes_per_s=1, time_ms=1, by="the first")


@pytest.mark.kafka
def test_an_owner_whose_id_was_forgotten_writes_nothing_more(target: Cluster, topic_name: str) -> None:
    """The coordinator gives another producer id to who names the one before: not as if nothing had happened."""
    create(target, topic_name)
    ((journal, clock),) = journals(target, topic_name, 1)
    target.run(journal.append, [("k", "mine")])
    until(lambda: is_forgotten(target, topic_name), "the transactional id expires", FORGET_SECONDS + 60)
    target.run(journal.append, [("k", "mine, and nobody can know better")])
    clock.boot += PROOF_SECONDS + 1
    for match in ("has forgotten the id", "another driver"):
        with pytest.raises(FencedError, match=match):
            target.run(journal.append, [("k", "late")])
    assert newest(journal) == {"k": "mine, and nobody can know better"}


@pytest.mark.kafka
@pytest.mark.parametrize("stood_still", [True, False])
def test_an_owner_that_stood_still_asks_first_since_the_leader_may_have_forgotten_its_successor(
    target: Cluster, topic_name: str, stood_still: bool
) -> None:
    """The second case shows what the first one tests: the leader takes what comes with the older epoch."""
    create(target, topic_name)
    ((former, clock),) = journals(target, topic_name, 1)
    target.run(former.append, [("k", "mine")])
    ((successor, _),) = journals(target, topic_name, 1)
    target.run(successor.append, [("k", "my successor's")])
    until(lambda: producers(target, topic_name) == 0, "the leader forgets its producers", 60)
    if stood_still:
        clock.wall += PROOF_SECONDS + 1
        with pytest.raises(FencedError):
            target.run(former.append, [("k", "late")])
    else:
        target.run(former.append, [("k", "late")])
    assert newest(former) == {"k": "my successor's" if stood_still else "late"}
