"""Faults of brokers: stopped, killed, out of step, out of disk, and elected although they lack data.

Invariant: a cluster is whole again, every replica in step, when a function returns; so one broker is away at a time,
and only the topics that allow it lose data, only in the fault that is about it.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from contextlib import suppress

from confluent_kafka import ElectionType, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, PartitionMetadata

from sparkmirror.errors import LabError
from sparkmirror.lab.broker import Broker
from sparkmirror.lab.chaos.deeds import Tell
from sparkmirror.lab.chaos.schedule import Fault, Kind, Side
from sparkmirror.lab.chaos.site import FRAIL_REPLICAS, SMALL_DISK, Site, until
from sparkmirror.lab.clock import CLOCK, step
from sparkmirror.lab.ports import HOST
from sparkmirror.lab.records import extents

ANSWER_SECONDS = 10.0
HALT_SECONDS = 60.0
LOST_AT_LEAST = 20
WRITTEN_SECONDS = 45.0

Partition = tuple[str, int]


def stop_or_kill(fault: Fault, site: Site, tell: Tell) -> None:
    """One broker goes, cleanly or not, and comes back.

    Raises:
        LabError: it does not come back.
    """
    broker = _victim(fault, site)
    tell(_description(site, fault.side, broker))
    if fault.kind is Kind.KILL_BROKER:
        broker.kill()
    else:
        with suppress(LabError):  # what does not end in time is killed
            broker.stop()
    tell("it is gone")
    time.sleep(fault.lasts_s)
    _bring_back(site, fault.side, broker, tell)


def step_clock(fault: Fault, site: Site, tell: Tell) -> None:
    """One broker's clock goes wrong, is put right, and the broker is killed and started.

    A broker whose clock was set back by many minutes is no good: it waits so long for its own timers, such as that for
    connecting to a broker that was away.
    """
    broker = _victim(fault, site)
    tell(f"{_description(site, fault.side, broker)}; its clock steps by {fault.amount:+.0f} s")
    try:
        step(broker.directory / CLOCK, fault.amount)
        time.sleep(fault.lasts_s)
    finally:
        step(broker.directory / CLOCK, 0)
    broker.kill()
    _bring_back(site, fault.side, broker, tell)


def fill_disk(fault: Fault, site: Site, tell: Tell) -> None:
    """There is no room where one broker of the target has its data; later there is.

    Raises:
        LabError: the broker does not come back.
    """
    assert site.disk is not None
    broker = site.clusters[Side.B].brokers[SMALL_DISK - 1]
    tell(_description(site, Side.B, broker))
    try:
        tell(f"its disk of {site.disk.fill() >> 10:,} KiB is full")
        with suppress(LabError):
            until(lambda: not broker.running, "the broker ends", HALT_SECONDS)
        tell("it goes on without a disk" if broker.running else "it has ended itself")
        time.sleep(fault.lasts_s)
    finally:
        site.disk.empty()
    broker.kill()
    _bring_back(site, Side.B, broker, tell)


def elect_unclean(fault: Fault, site: Site, tell: Tell, meanwhile: Callable[[], None] = lambda: None) -> None:
    """The frail topics of the target get a leader that lacks what was acknowledged last.

    The follower is paused until it is out of step, the leader killed, the follower continued. For `Kind.UNCLEAN` it has
    led nothing before. Otherwise it may have led some partitions, which another takes over cleanly first; then it comes
    back with a log that holds what was never acknowledged, and lacks what the other wrote since, fences too.

    Args:
        fault: which.
        site: where.
        tell: takes what happens.
        meanwhile: done when the leader alone has what was written last, before it is killed.

    Raises:
        LabError: it did not come to the election, or the cluster is not whole afterwards.
    """
    leader, follower = (
        site.clusters[Side.B].brokers[node - 1]
        for node in (FRAIL_REPLICAS if fault.pick < 0.5 else reversed(FRAIL_REPLICAS))
    )
    if fault.kind is Kind.UNCLEAN and follower.node in {elected for elected, _ in _frail_state(site)}:
        with suppress(LabError):  # what does not end in time is killed
            follower.stop()
        _bring_back(site, Side.B, follower, tell)
    tell(f"leader: {_description(site, Side.B, leader)}; follower: broker {follower.node}, pid {follower.pid}")
    paused = follower.pid
    os.kill(paused, signal.SIGSTOP)
    try:
        until(lambda: _frail_state(site) == {(leader.node, (leader.node,))}, "the follower is out of step")
        before = _frail_ends(site)
        tell("the follower is paused and out of step")
        with suppress(LabError):
            until(lambda: _each_grew(_frail_ends(site), before), "more is acknowledged", WRITTEN_SECONDS)
        meanwhile()
        had = _frail_ends(site)
        leader.kill()
    finally:
        os.kill(paused, signal.SIGCONT)
    tell("the leader is killed, the follower continued")
    until(lambda: all(elected == follower.node for elected, _ in _frail_state(site)), "the election")
    has = _frail_ends(site)
    lost = {f"{topic}-{number}": had[topic, number] - has.get((topic, number), 0) for topic, number in had}
    tell(f"elected; offsets that the target lost: {lost}")
    _bring_back(site, Side.B, leader, tell)


def elect_preferred(site: Site, tell: Tell) -> None:
    """Every partition of the frail topics is led by the first of its replicas, which are all in step.

    Raises:
        LabError: it is not.
    """
    partitions = _frail_partitions(site)
    places = [TopicPartition(*place) for place in partitions]
    moved = [f"{name}-{number}" for (name, number), each in partitions.items() if each.leader != each.replicas[0]]
    client = site.client(Side.B)
    try:
        client.elect_leaders(ElectionType.PREFERRED, places).result(ANSWER_SECONDS)
    except KafkaException as failure:
        raise LabError(f"cluster {Side.B}: the preferred leaders cannot be elected: {failure}") from failure

    def led() -> bool:
        now = _frail_partitions(site)
        return bool(now) and all(each.leader == each.replicas[0] for each in now.values())

    until(led, "the preferred leaders lead")
    tell(f"the first of their replicas leads again: {', '.join(moved)}")


def _victim(fault: Fault, site: Site) -> Broker:
    brokers = site.clusters[fault.side].brokers
    return brokers[int(fault.pick * len(brokers))]


def _description(site: Site, side: Side, broker: Broker) -> str:
    state = _metadata(site, side)
    led = sorted(f"{topic}-{number}" for (topic, number), each in state.items() if each.leader == broker.node)
    return f"broker {broker.node} of {side}, pid {broker.pid}, leads {len(led)} of {len(state)}: {', '.join(led)}"


def _bring_back(site: Site, side: Side, broker: Broker, tell: Tell) -> None:
    broker.start()
    _wait_until_whole(site, side, broker.node)
    tell("it is back, and in step")


def _wait_until_whole(site: Site, side: Side, node: int) -> None:
    def whole() -> bool:
        state = _metadata(site, side)
        return bool(state) and all(set(each.isrs) == set(each.replicas) and each.leader > 0 for each in state.values())

    until(whole, f"every replica of cluster {side} is in step after broker {node} came back")


def _metadata(site: Site, side: Side) -> dict[Partition, PartitionMetadata]:
    """The copies and their sources on a cluster, as the first broker that answers knows them; empty when none does.

    Each look has a client of its own, which knows nothing of a broker that is paused and would be waited for.
    """
    names = {copy.topic for copy in site.copies if copy.source is side} | {
        copy.copy for copy in site.copies if copy.target is side
    }
    for broker in reversed(site.clusters[side].brokers):
        client = AdminClient({"bootstrap.servers": f"{HOST}:{broker.port}", "log_level": 0})
        try:
            topics = client.list_topics(timeout=ANSWER_SECONDS).topics
        except KafkaException:
            continue
        return {(name, n): each for name in names & topics.keys() for n, each in topics[name].partitions.items()}
    return {}


def _frail_partitions(site: Site) -> dict[Partition, PartitionMetadata]:
    """The copies of the frail topics."""
    names = {copy.copy for copy in site.frail}
    return {place: each for place, each in _metadata(site, Side.B).items() if place[0] in names}


def _frail_state(site: Site) -> set[tuple[int, tuple[int, ...]]]:
    """Leader and replicas in step of the frail topics' partitions."""
    return {(each.leader, tuple(each.isrs)) for each in _frail_partitions(site).values()}


def _frail_ends(site: Site) -> dict[Partition, int]:
    servers = f"{HOST}:{site.clusters[Side.B].brokers[SMALL_DISK - 1].port}"
    names = [copy.copy for copy in site.frail]
    return {(name, number): each.end for name in names for number, each in extents(servers, name).items()}


def _each_grew(now: dict[Partition, int], before: dict[Partition, int]) -> bool:
    return all(end >= before[place] + LOST_AT_LEAST for place, end in now.items())
