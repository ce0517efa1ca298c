"""Groups of real clusters: listed with kind and state, read many at once, committed for where nobody is."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from typing import Any

import confluent_kafka
import pytest
from kafka.errors import KafkaConnectionError
from kafka.future import Future
from kafka.protocol.admin import ListGroupsRequest
from kafka.protocol.consumer import OffsetCommitRequest

from sparkmirror.config import ClientSettings
from sparkmirror.errors import BrokerError, FencedError, LinkError
from sparkmirror.kafka.cluster import Cluster
from sparkmirror.kafka.groups import (
    HAS_MEMBERS,
    SENT_AT_ONCE,
    ChangedError,
    Committed,
    GroupKind,
    GroupListing,
    Offsets,
    commit_offsets,
    describe_groups,
    fetch_offsets,
    list_groups,
)
from sparkmirror.lab.cluster import LabCluster, start
from sparkmirror.lab.jars import OLDEST_KAFKA_VERSION, jars
from sparkmirror.model import TopicPartition
from sparkmirror.spark.gateway import Gateway
from tests.flow.running import commit, create_topic, until

pytestmark = pytest.mark.kafka

_STRINGS = "org.apache.kafka.common.serialization.StringDeserializer"


@contextmanager
def connected(lab: LabCluster) -> Iterator[Cluster]:
    settings = ClientSettings(bootstrap_servers=tuple(lab.bootstrap_servers.split(",")))
    with closing(Cluster("A", settings, role="groups")) as cluster:
        yield cluster


@contextmanager
def member(lab: LabCluster, group: str, topic: str, protocol: str) -> Iterator[None]:
    """A consumer that is in the group."""
    settings: dict[str, str | int | float | bool] = {
        "bootstrap.servers": lab.bootstrap_servers,
        "group.id": group,
        "group.protocol": protocol,
        "enable.auto.commit": False,
        "log_level": 3,
    }
    consumer = confluent_kafka.Consumer(settings)
    try:
        consumer.subscribe([topic])
        until(lambda: (consumer.poll(0.1), consumer.assignment())[1], f"{group} is joined", 30)
        yield
    finally:
        consumer.close()


@contextmanager
def share_member(lab: LabCluster, group: str, topic: str) -> Iterator[None]:
    """A share consumer, which only Kafka's own client has."""
    with Gateway(jars(), options=("-Xmx128m",)) as gateway:
        settings = gateway.jvm.java.util.Properties()
        told = {"bootstrap.servers": lab.bootstrap_servers, "group.id": group}
        for key, value in (told | {"key.deserializer": _STRINGS, "value.deserializer": _STRINGS}).items():
            settings.setProperty(key, value)
        consumer = gateway.jvm.org.apache.kafka.clients.consumer.KafkaShareConsumer(settings)
        consumer.subscribe(gateway.jvm.java.util.List.of(topic))
        consumer.poll(gateway.jvm.java.time.Duration.ofMillis(100))
        yield
        consumer.close()


def settled(cluster: Cluster, *groups: str) -> dict[str, GroupListing]:
    """The listings of groups, as soon as each has members or none."""

    def look() -> dict[str, GroupListing]:
        found = {name: each for name, each in list_groups(cluster).items() if name in groups}
        passing = ("assigning", "reconciling", "preparingrebalance", "completingrebalance")
        quiet = all(each.state.lower() not in passing for each in found.values())
        return found if len(found) == len(groups) and quiet else {}

    return until(look, "the groups are listed", 30)


def described(cluster: Cluster, group: str) -> tuple[str, bool]:
    one = describe_groups(cluster, [group]).complete()[group]
    return one.state, one.active


def test_offsets_are_committed_for_empty_groups_and_for_none_that_has_members(
    cluster_a: LabCluster, topic: Callable[..., str]
) -> None:
    name = topic("groups")
    create_topic(cluster_a, name, 3)
    free, classic, modern, share = (topic(kind) for kind in ("free", "classic", "modern", "share"))
    places = [TopicPartition(name, number) for number in range(3)]
    offsets: Offsets = {places[0]: Committed(5, "from A"), places[2]: Committed(0)}
    with (
        connected(cluster_a) as cluster,
        member(cluster_a, classic, name, "classic"),
        member(cluster_a, modern, name, "consumer"),
        share_member(cluster_a, share, name),
    ):
        found = settled(cluster, classic, modern, share)
        assert [(found[group].kind, found[group].active) for group in (classic, modern, share)] == [
            (GroupKind.CLASSIC, True),
            (GroupKind.CONSUMER, True),
            (GroupKind.SHARE, True),
        ]
        members = describe_groups(cluster, [classic, "nobody"]).complete()
        (one,) = members[classic].members
        assert members[classic].settled
        assert name.encode() in one.metadata
        assert name.encode() in one.assignment
        assert (members["nobody"].settled, members["nobody"].members) == (True, ())
        done = commit_offsets(cluster, dict.fromkeys((classic, free, modern, share), offsets))
        assert set(done.found) == {free}
        codes = {group: failure.code for group, failure in done.failed.items() if isinstance(failure, BrokerError)}
        assert codes[classic] in HAS_MEMBERS
        assert codes[modern] in HAS_MEMBERS
        assert codes[share] == 69
        assert f"for group {share} (69): it is there as a group of another kind" in str(done.failed[share])
        read = fetch_offsets(cluster, [free, classic, modern, "nobody"])
        assert read.found == {free: offsets, classic: {}, modern: {}, "nobody": {}}
        assert not read.failed
    with connected(cluster_a) as cluster:
        found = settled(cluster, free, modern)
        assert found[free] == GroupListing(name=free, protocol="", state="Empty")
        assert not found[modern].active
        commit_offsets(cluster, {modern: offsets, free: {places[0]: Committed(4)}}).complete()
        assert fetch_offsets(cluster, [modern, free]).complete() == {
            modern: offsets,
            free: {places[0]: Committed(4), places[2]: Committed(0)},
        }
        refused = commit_offsets(cluster, {free: {TopicPartition("nowhere", 0): Committed(1)}, modern: offsets})
        assert "nowhere-0 is not there" in str(refused.failed[free])
        assert set(refused.found) == {modern}


def test_a_group_that_has_been_given_another_offset_since_it_was_looked_at_is_left_alone(
    cluster_a: LabCluster, topic: Callable[..., str]
) -> None:
    name, used, fresh, level = (topic(each) for each in ("changed", "used", "fresh", "level"))
    create_topic(cluster_a, name, 2)
    here, other = TopicPartition(name, 0), TopicPartition(name, 1)
    wanted: dict[TopicPartition, Committed] = {here: Committed(3)}
    many = {topic("many"): wanted for _ in range(20)}
    with connected(cluster_a) as cluster:
        commit_offsets(cluster, {used: {here: Committed(7)}, level: wanted, fresh: {other: Committed(9)}}).complete()
        there = {used: {here: Committed(2)}, level: {here: Committed(1)}}
        done = commit_offsets(cluster, dict.fromkeys((used, fresh, level, *many), wanted), there=there)
        assert set(done.found) == {fresh, *many}
        assert [type(done.failed[group]) for group in (used, level)] == [ChangedError, ChangedError]
        assert (
            fetch_offsets(cluster, [used, fresh, *many]).complete()
            == {
                used: {here: Committed(7)},
                fresh: wanted | {other: Committed(9)},
            }
            | many
        )
        commit_offsets(cluster, {used: wanted}, there={used: {here: Committed(7)}}).complete()
        assert fetch_offsets(cluster, [used]).complete() == {used: wanted}


def test_a_group_that_is_asked_about_by_name_is_dead_where_there_is_none(
    cluster_a: LabCluster, topic: Callable[..., str]
) -> None:
    name, group = topic(), topic("described")
    create_topic(cluster_a, name)
    with connected(cluster_a) as cluster:
        assert described(cluster, group) == ("Dead", False)
        commit_offsets(cluster, {group: {TopicPartition(name, 0): Committed(0)}}).complete()
        assert described(cluster, group) == ("Empty", False)


def test_many_groups_are_read_and_written(cluster_a: LabCluster, topic: Callable[..., str]) -> None:
    name = topic("groups")
    create_topic(cluster_a, name)
    wanted: dict[str, Offsets] = {topic("many"): {TopicPartition(name, 0): Committed(number)} for number in range(120)}
    with connected(cluster_a) as cluster:
        commit_offsets(cluster, wanted).complete()
        assert fetch_offsets(cluster, list(wanted)).complete() == wanted
        assert set(wanted) <= set(list_groups(cluster))


def test_offsets_of_a_group_that_do_not_fit_into_one_batch_are_committed_in_portions(cluster_a, topic) -> None:
    """1.2 MB, of which a coordinator would take 1 MB at once."""
    name, group = topic("fat"), topic("fat-group")
    create_topic(cluster_a, name, 300)
    offsets = {TopicPartition(name, number): Committed(number, f"{number}-" + "x" * 4_000) for number in range(300)}
    with connected(cluster_a) as cluster:
        assert commit_offsets(cluster, {group: offsets}, there={group: {}}).failed == {}
        assert fetch_offsets(cluster, [group]).complete() == {group: offsets}


@pytest.mark.slow
def test_brokers_that_know_no_batched_requests_are_asked_one_by_one(topic: Callable[..., str]) -> None:
    with start("oldest", version=OLDEST_KAFKA_VERSION) as oldest, connected(oldest) as cluster:
        name, groups = topic("groups"), [topic("group") for _ in range(3)]
        create_topic(oldest, name)
        wanted: dict[str, Offsets] = {
            group: {TopicPartition(name, 0): Committed(number, "m")} for number, group in enumerate(groups)
        }
        commit_offsets(cluster, wanted).complete()
        assert fetch_offsets(cluster, [*groups, "nobody"]).complete() == wanted | {"nobody": {}}
        assert described(cluster, groups[0]) == ("Empty", False)
        with member(oldest, groups[0], name, "classic"):
            found = settled(cluster, *groups)
            assert described(cluster, groups[0])[1]
            assert [found[group].active for group in groups] == [True, False, False]
            done = commit_offsets(cluster, wanted)
            assert set(done.failed) == {groups[0]}
        done = commit_offsets(
            cluster,
            {group: {TopicPartition(name, 0): Committed(5)} for group in groups},
            there={groups[1]: wanted[groups[1]]},
        )
        assert set(done.found) == {groups[1]}
        assert list_groups(cluster)[groups[1]].kind is GroupKind.UNTOLD


def test_a_transaction_that_commits_offsets_is_waited_for_where_it_is_asked_for(cluster_a, topic):
    name, group = topic("pending"), "group-pending"
    create_topic(cluster_a, name, 1)
    place = TopicPartition(name, 0)
    servers = {"bootstrap.servers": cluster_a.bootstrap_servers}
    producer = confluent_kafka.Producer(servers | {"transactional.id": name})
    producer.init_transactions(60)
    consumer = confluent_kafka.Consumer(servers | {"group.id": group, "enable.auto.commit": False})
    with connected(cluster_a) as a:
        try:
            assert commit_offsets(a, {group: {place: Committed(3)}}).complete() == {group: None}
            producer.begin_transaction()
            next_ones = [confluent_kafka.TopicPartition(name, 0, 9)]
            producer.send_offsets_to_transaction(next_ones, consumer.consumer_group_metadata(), 60)
            assert fetch_offsets(a, [group]).complete() == {group: {place: Committed(3)}}
            (late,) = commit_offsets(
                a, {group: {place: Committed(5)}}, there={group: {place: Committed(3)}}
            ).failed.values()
            assert isinstance(late, ChangedError)
            (failure,) = fetch_offsets(a, [group], 2_000, stable=True).failed.values()
            assert "UNSTABLE_OFFSET_COMMIT for group group-pending" in str(failure)
            assert "has to end it" in str(failure)
            producer.commit_transaction(60)
            assert fetch_offsets(a, [group], stable=True).complete() == {group: {place: Committed(9)}}
        finally:
            consumer.close()


def test_a_group_whose_first_offset_a_transaction_commits_just_now_is_left_alone(cluster_a, topic):
    """Who asks for all that the group has is not told of a partition where it has nothing yet."""
    name, group = topic("first"), "group-first"
    create_topic(cluster_a, name, 2)
    pending, free = TopicPartition(name, 0), TopicPartition(name, 1)
    servers = {"bootstrap.servers": cluster_a.bootstrap_servers}
    producer = confluent_kafka.Producer(servers | {"transactional.id": name})
    producer.init_transactions(60)
    producer.begin_transaction()
    consumer = confluent_kafka.Consumer(servers | {"group.id": group, "enable.auto.commit": False})
    next_ones = [confluent_kafka.TopicPartition(name, 0, 9)]
    producer.send_offsets_to_transaction(next_ones, consumer.consumer_group_metadata(), 60)
    consumer.close()
    with connected(cluster_a) as a:
        (late,) = commit_offsets(a, {group: {pending: Committed(5)}}, there={}).failed.values()
        assert isinstance(late, ChangedError)
        assert commit_offsets(a, {group: {free: Committed(5)}}, there={}).complete() == {group: None}
        producer.commit_transaction(60)
        wanted = {group: {pending: Committed(9), free: Committed(5)}}
        until(lambda: fetch_offsets(a, [group], stable=True).complete() == wanted, "both are there", 30)


def test_a_commit_whose_answer_is_lost_is_not_sent_again_before_another_look(cluster_a, topic, monkeypatch):
    """The connection breaks when the broker has taken it, and a consumer goes on at once."""
    name, group = topic("lost"), topic("group-lost")
    create_topic(cluster_a, name, 1)
    place, sent = TopicPartition(name, 0), []
    with connected(cluster_a) as a:
        send = a.connections.send

        def breaks(request: Any, *args: Any, **named: Any) -> Any:
            answer = send(request, *args, **named)
            if not isinstance(request, OffsetCommitRequest):
                return answer
            sent.append(request)
            lost = Future()
            answer.add_callback(lambda _: commit(cluster_a, group, name, {0: 15}))
            answer.add_callback(lambda _: lost.failure(KafkaConnectionError("broken")))
            return lost

        monkeypatch.setattr(a.connections, "send", breaks)
        (failure,) = commit_offsets(a, {group: {place: Committed(10)}}, there={}).failed.values()
        assert isinstance(failure, ChangedError)
        assert (failure.tried, len(sent)) == (True, 1)
        assert fetch_offsets(a, [group]).complete()[group][place].offset == 15


def test_a_request_that_may_not_leave_late_waits_for_no_connection(cluster_a):
    node = cluster_a.brokers[0].node
    with connected(cluster_a) as a:
        requests = [ListGroupsRequest(states_filter=[], types_filter=[]) for _ in range(SENT_AT_ONCE)]
        refused = a.run(a.exchange_once, requests, node, 10_000, lambda: False)
        assert all("may not leave late was not sent" in str(failure) for failure in refused)
        answers = a.run(a.exchange_once, requests, node, 10_000)
        assert [answer.error_code for answer in answers] == [0] * SENT_AT_ONCE


def test_commits_for_many_groups_leave_without_a_pause(cluster_a, topic, monkeypatch):
    """None is held up by those that leave with it: each goes once, and no round has to begin again."""
    name, groups = topic(), [topic(f"many{number}") for number in range(100)]
    create_topic(cluster_a, name)
    place, sent = TopicPartition(name, 0), []
    with connected(cluster_a) as a:
        send = a.connections.send

        def counted(request: Any, *args: Any, **named: Any) -> Any:
            sent.append(isinstance(request, OffsetCommitRequest))
            return send(request, *args, **named)

        monkeypatch.setattr(a.connections, "send", counted)
        wanted = {group: {place: Committed(1)} for group in groups}
        assert commit_offsets(a, wanted, there={}).complete().keys() == set(groups)
        assert sent.count(True) == len(groups)


def _unanswered() -> None:
    raise LinkError(cluster="A", address="nowhere", reason="the broker has ended")


def _refused() -> None:
    raise BrokerError(code=56, name="KAFKA_STORAGE_ERROR", cluster="A")


def _outdated() -> None:
    raise LinkError(cluster="A", address="nowhere", reason="it may not any more", lasting=True)


@pytest.mark.parametrize("prove", [_unanswered, _refused, _outdated])
def test_without_an_answer_to_the_proof_the_groups_that_are_left_fail_and_those_before_are_told(
    cluster_a, topic, prove
):
    name, groups = topic(), [topic(f"g{number}") for number in range(SENT_AT_ONCE + 2)]
    create_topic(cluster_a, name)
    place, proofs = TopicPartition(name, 0), iter((lambda: None,))

    def prove_once() -> None:
        next(proofs, prove)()

    with connected(cluster_a) as cluster:
        wanted = {group: {place: Committed(1)} for group in groups}
        done = commit_offsets(cluster, wanted, 1_000, prove=prove_once)
        there = fetch_offsets(cluster, groups).complete()
    assert [group for group in groups if there[group]] == list(done.found)
    assert 1 <= len(done.found) <= SENT_AT_ONCE
    assert {type(failure) for failure in done.failed.values()} == {LinkError}
    assert done.failed.keys() == set(groups) - set(done.found)


def test_nothing_is_committed_by_who_may_not_any_more(cluster_a, topic):
    name, group = topic(), topic("g")
    create_topic(cluster_a, name)

    def outdated() -> None:
        raise FencedError(code=90, name="PRODUCER_FENCED", cluster="A")

    with connected(cluster_a) as cluster:
        with pytest.raises(FencedError):
            commit_offsets(cluster, {group: {TopicPartition(name, 0): Committed(1)}}, 1_000, prove=outdated)
        assert fetch_offsets(cluster, [group]).complete() == {group: {}}
