"""What an operator orders of flows from outside: written to their internal topics, obeyed by whoever runs them.

Invariants: an order for a topic that the flow does not copy, or for a flow that was never started, is refused with what
to do; nothing here waits for the flow, which may not run now: it obeys when it does.
"""

from __future__ import annotations

import getpass
import socket
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from sparkmirror.config import FlowConfig, MirrorConfig, Side
from sparkmirror.errors import ConfigError, SparkmirrorError
from sparkmirror.events import now_ms
from sparkmirror.flow.sides import connected, record
from sparkmirror.flow.status import seen_to_live
from sparkmirror.kafka.store import Store
from sparkmirror.naming import internal_topic, policy_for, should_replicate, topic_filter
from sparkmirror.offsets.orders import RATE_KEY, DiscoverOrder, RateOrder, TopicOrder, topic_key


@dataclass(frozen=True, slots=True, kw_only=True)
class Ordered:
    """An order that is on record.

    Attributes:
        flow: ``source->target``.
        what: what was ordered.
        runs: whether a driver runs the flow, which then obeys within seconds.
    """

    flow: str
    what: str
    runs: bool


def pause(config: MirrorConfig, topics: Iterable[str]) -> tuple[Ordered, ...]:
    """Orders that topics are not copied until `resume`, in every flow of the configuration that copies them.

    Raises:
        ConfigError: no flow copies one of them, or a flow was never started.
        SparkmirrorError: a target cannot be written to.
    """
    return _order_topics(config, topics, paused=True)


def resume(config: MirrorConfig, topics: Iterable[str]) -> tuple[Ordered, ...]:
    """Takes `pause` back.

    Raises:
        ConfigError: no flow copies one of them, or a flow was never started.
        SparkmirrorError: a target cannot be written to.
    """
    return _order_topics(config, topics, paused=False)


def limit(config: MirrorConfig, bytes_per_s: int | None, *, as_configured: bool = False) -> tuple[Ordered, ...]:
    """Orders how fast each flow of the configuration may copy.

    Args:
        config: names the flows.
        bytes_per_s: None for no limit.
        as_configured: take an earlier order back: what the configuration says holds again.

    Raises:
        ConfigError: a flow was never started.
        SparkmirrorError: a target cannot be written to.
    """
    found = []
    for flow in config.flows:
        with _orders(flow, config.file) as store:
            if as_configured:
                store.write([], tombstones=[RATE_KEY])
                what = "as fast as max.bytes.per.second says"
            else:
                store.write([RateOrder(bytes_per_s=bytes_per_s, time_ms=now_ms(), by=who())])
                what = "no limit" if bytes_per_s is None else f"at most {bytes_per_s} bytes per second"
            found.append(Ordered(flow=str(flow.name), what=what, runs=_runs(store)))
    return tuple(found)


def discover(store: Store) -> None:
    """Orders that the flow looks for topics and partitions at once, where it runs.

    Args:
        store: its internal topic.

    Raises:
        SparkmirrorError: the target cannot be written to.
    """
    store.write([DiscoverOrder(time_ms=now_ms(), by=who())])


def _order_topics(config: MirrorConfig, topics: Iterable[str], *, paused: bool) -> tuple[Ordered, ...]:
    chosen = {topic: [flow for flow in config.flows if _copies(flow, topic)] for topic in topics}
    for topic, flows in chosen.items():
        if not flows:
            raise ConfigError(
                file=config.file,
                key="topics",
                reason=f"no flow of {', '.join(str(flow.name) for flow in config.flows)} copies a topic named {topic}",
                remedy=f"give the name that it has on the source; sparkmirror explain --topic {topic} tells more",
            )
    found = []
    for topic, flows in chosen.items():
        for flow in flows:
            with _orders(flow, config.file) as store:
                if paused:
                    store.write([TopicOrder(topic=topic, time_ms=now_ms(), by=who())])
                else:
                    store.write([], tombstones=[topic_key(topic)])
                what = f"{topic} is {'paused' if paused else 'copied again'}"
                found.append(Ordered(flow=str(flow.name), what=what, runs=_runs(store)))
    return tuple(found)


def _copies(flow: FlowConfig, topic: str) -> bool:
    policy = policy_for(flow.policy, flow.source.alias)
    return should_replicate(topic, flow, policy, topic_filter(flow)).read


@contextmanager
def _orders(flow: FlowConfig, file: str) -> Iterator[Store]:
    """The flow's internal topic, read to its end."""
    with connected(flow, role="orders", needs=[Side.TARGET]) as sides:
        known, store = record(sides), sides.store
        if known is None or store is None:
            raise ConfigError(
                file=file,
                key=str(flow.name),
                reason="was never started, so nothing can be ordered of it",
                remedy="start it with sparkmirror run, or leave the topic out with topics.exclude",
            )
        if known.flow is None:
            raise SparkmirrorError(f"{internal_topic(flow.name)} on cluster {flow.target.alias} names no flow")
        yield store


def _runs(store: Store) -> bool:
    return not store.state.is_stopped and seen_to_live(store).alive


def who() -> str:
    """Who orders, for people: user and host."""
    try:
        name = getpass.getuser()
    except (KeyError, OSError):
        name = "somebody"
    return f"{name}@{socket.gethostname()}"
