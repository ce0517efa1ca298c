"""One Kafka cluster as seen by one role: its connections, and requests to its brokers.

A driver calls from threads: the cluster then has a thread of its own for input and output. A lane runs one loop for
its source and its target and passes that loop in. Either way every wait has a deadline, and exceptions of kafka-python
end here: callers see `LinkError` and `BrokerError` only.

Reference: ``kafka.net`` of kafka-python 3 (``KafkaConnectionManager``, ``NetworkSelector``).
"""

from __future__ import annotations

import logging
import socket
import time
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from typing import Any, TypeVar, TypeVarTuple, cast

from kafka.net.selector import NetworkSelector
from kafka.protocol.metadata import ApiVersionsRequest, MetadataRequest

from kafka import errors as kafka_errors
from sparkmirror.config.settings import ClientSettings
from sparkmirror.errors import LinkError, SparkmirrorError
from sparkmirror.kafka.backoff import Backoff
from sparkmirror.kafka.causes import NOT_REACHED, Cause, cause_of
from sparkmirror.kafka.login_errors import shortened
from sparkmirror.kafka.said import secrets_in, shown
from sparkmirror.kafka.security import connection_options
from sparkmirror.kafka.throttling import Once, Throttling
from sparkmirror.kafka.transport import ConnectionManager

log = logging.getLogger(__name__)

CALL_MS = 30_000
CLOSE_MS = 5_000
"""How long a loop may take to close its connections and end."""
IN_FLIGHT = 5
"""Produce requests with batches that a broker may owe an answer."""
BESIDE = 3
"""Further requests on the same connection, such as those that look after a lane."""
FRAME_LIMIT = 256 << 20
CLOSED = "the connections to it were closed by another thread"
ANY_MS = 3_000
"""How long a broker that stands for any other may think, the first time."""
T = TypeVar("T")
Ts = TypeVarTuple("Ts")
_PASSING = (kafka_errors.NodeNotReadyError, kafka_errors.KafkaConnectionError, ConnectionError)


def new_loop(name: str) -> Any:
    """A network loop for one lane: every cluster of the lane shares it."""
    return NetworkSelector(client_id=name, slow_task_threshold_secs=0)


class Cluster:
    """The connections to one cluster.

    Args:
        alias: the cluster's name in the configuration.
        settings: the client settings of the role.
        role: what it is used for; ends up in the client id, so that quotas and logs of the broker can tell.
        loop: a loop from `new_loop`, or None for a loop on a thread of its own.

    Attributes:
        backoff: the pauses before something is tried again that failed in passing.
        throttling: how long its brokers held this client back.
        notice: takes what an operator is to know at once of brokers that hold a driver, a duty or a command back.
    """

    def __init__(self, alias: str, settings: ClientSettings, *, role: str, loop: Any = None) -> None:
        self.alias = alias
        self.settings = settings
        self.backoff = Backoff.of(settings)
        self._secrets = secrets_in(settings)
        self._closing = False
        self._owns_loop = loop is None
        client_id = settings.client_id or f"sparkmirror-{alias}-{role}"
        self.loop = loop or new_loop(client_id)
        self.connections = ConnectionManager(
            self.loop,
            bootstrap_servers=list(settings.bootstrap_servers),
            client_id=client_id,
            client_software_name="sparkmirror",
            receive_message_max_bytes=FRAME_LIMIT,
            max_in_flight_requests_per_connection=IN_FLIGHT + BESIDE,
            **_timings(settings),
            **connection_options(settings, alias),
        )
        self.throttling, self._held = Throttling(alias), Once()
        self.notice: Callable[[str], None] = log.warning
        self.connections.throttled = self._throttled
        if self._owns_loop:
            self.loop.start()
        self._thread = self.loop._io_thread

    @property
    def address(self) -> str:
        """The bootstrap servers, as written."""
        return ",".join(self.settings.bootstrap_servers)

    def call(self, request: Any, node: int | None = None, timeout_ms: int = CALL_MS, patience_ms: int = ANY_MS) -> Any:
        """Sends one request and returns its answer; for threads of a driver.

        Args:
            request: a message of ``kafka.protocol``.
            node: the broker's id; None for any, maybe for several in turn.
            timeout_ms: milliseconds to the deadline, connecting included.
            patience_ms: how long one that stands for any may take at first; what must not be done twice needs all the
                time there is.

        Raises:
            LinkError: no connection, a broken one, or no answer in time.
        """
        return self.run(self.exchange, request, node, timeout_ms, patience_ms)

    async def exchange(
        self, request: Any, node: int | None = None, timeout_ms: int = CALL_MS, patience_ms: int = ANY_MS
    ) -> Any:
        """Like `call`, for coroutines on the loop."""
        deadline = time.monotonic() + timeout_ms / 1000
        looked = False
        while True:
            left_ms = int((deadline - time.monotonic()) * 1000)
            try:
                await self.bootstrap(max(1, left_ms), timeout_ms)
                left_ms = max(1, int((deadline - time.monotonic()) * 1000))
                if node is None:  # whoever is asked may hang: then another one is, which is why any may be
                    chosen, left_ms = self.connections.least_loaded_node(), min(left_ms, patience_ms)
                else:
                    chosen = node
                return await self.connections.send(request, chosen, request_timeout_ms=left_ms)
            except _PASSING as failure:
                self._doubt_brokers(failure)
                if time.monotonic() + 0.05 > deadline or cause_of(failure).lasting:
                    away = isinstance(failure, kafka_errors.NodeNotReadyError)  # which never says why
                    raise (self._not_reached(failure, timeout_ms) if away else self.link_error(failure)) from failure
                await self.loop.sleep(0.05)
            except kafka_errors.RequestTimedOutError as failure:
                if node is not None or time.monotonic() + 0.05 > deadline:
                    raise self.link_error(failure) from failure
                self._doubt_brokers(failure)
                patience_ms *= 2
            except kafka_errors.UnknownBrokerIdError as failure:
                if looked or time.monotonic() + 0.05 > deadline:
                    raise self.link_error(failure) from failure
                looked = True
                await self._find_brokers(int((deadline - time.monotonic()) * 1000))
            except Exception as failure:
                raise self.link_error(failure) from failure

    def _throttled(self, node: int | str, throttle_ms: int, answer: str) -> None:
        """Notes it; a lane tells of it with its partitions, everybody else at once."""
        now = time.monotonic()
        self.throttling.note(node, throttle_ms, answer, now)
        for held in self._held.new(self.throttling.long(now)) if self._owns_loop else ():
            self.notice(self.throttling.text(held))

    async def exchange_once(
        self, requests: Sequence[Any], node: int, timeout_ms: int, allowed: Callable[[], bool] = lambda: True
    ) -> list[Any]:
        """Like `exchange` for several requests to one broker: they leave together, at most once, and never wait.

        Args:
            requests: for what a broker must not get late, or twice; few, since a connection takes few at a time.
            node: the broker.
            timeout_ms: milliseconds for the answers, and before that for a connection.
            allowed: asked right before they leave.

        Returns:
            The answers in order; in the place of one that has none a `LinkError`: it was not allowed any more, no
            connection, a broken one, or no answer in time.
        """
        if not self.connections.takes_at_once(node):
            try:
                await self.ping(node, timeout_ms)
            except LinkError as failure:
                return [failure] * len(requests)
        if not self.connections.takes_at_once(node) or not allowed():
            reason = f"a request that may not leave late was not sent to broker {node}: no connection was ready in time"
            return [LinkError(cluster=self.alias, address=self.address, reason=reason)] * len(requests)
        # All in one turn of the loop: nothing of others comes between, and the broker works on one while others travel.
        under_way = [self.connections.send(request, node, request_timeout_ms=timeout_ms) for request in requests]
        answers: list[Any] = []
        for future in under_way:
            try:
                answers.append(await future)
            except Exception as failure:  # noqa: BLE001 - whatever it is, it is one of the link
                answers.append(self.link_error(failure))
        return answers

    async def _find_brokers(self, timeout_ms: int) -> None:
        """Asks for the brokers: one may have come back since the metadata was read."""
        answer = await self.exchange(MetadataRequest(topics=[], allow_auto_topic_creation=False), None, timeout_ms)
        self.connections.cluster.update_metadata(answer)

    def _doubt_brokers(self, failure: Exception) -> None:
        """Has the next exchange begin with the bootstrap servers again where none of the known brokers can be reached.

        The addresses may be of brokers that are gone, or what a broker that is broken gave out. A broker alone that
        waits for its next attempt (`NodeNotReadyError`) is no reason to ask again.
        """
        known, waiting = self.connections.cluster.brokers(), self.connections._backoff
        away = not isinstance(failure, kafka_errors.NodeNotReadyError)
        if away and self.connections.bootstrapped and all(broker.node_id in waiting for broker in known):
            self.connections._bootstrap_future = None

    async def bootstrap(self, left_ms: int, timeout_ms: int | None = None) -> None:
        """Connects for the first time, and does nothing later.

        Args:
            left_ms: milliseconds to the deadline.
            timeout_ms: how many there were, if more: what a failure says is the same however many are left.
        """
        if self.connections.bootstrapped:
            return
        future = self.connections.bootstrap_async(left_ms, refresh=False)
        if future.is_done and future.exception is not None:
            future = self.connections.bootstrap_async(left_ms)
        try:
            await self.connections.wait_for(future, left_ms)
        except kafka_errors.KafkaTimeoutError as late:
            raise self._not_reached(late, timeout_ms or left_ms) from self.connections.last_failure or late

    def batches_only_while(self, allowed: Callable[[], bool]) -> None:
        """From here on batches go to a socket only while ``allowed`` says so; see ``kafka.transport``."""
        self.connections.batches_allowed = allowed

    def can_send(self, node: int) -> bool:
        """Whether a request would go out now: not while the broker throttles us, or after a failed connection."""
        connection = self.connections._conns.get(node)
        if connection is not None and connection.paused:
            return False
        return not self.connections.connection_delay(node)

    def knows(self, node: int) -> bool:
        """Whether the metadata that was read last has the address of a broker."""
        return self.connections.cluster.broker_metadata(node) is not None

    async def ping(self, node: int, timeout_ms: int = CALL_MS) -> None:
        """Asks a broker for nothing that matters; its `round_trip` is the better known for it.

        Raises:
            LinkError: it does not answer.
        """
        names = {"client_software_name": "sparkmirror", "client_software_version": "1"}
        await self.exchange(ApiVersionsRequest(**names), node, timeout_ms)

    def round_trip(self, node: int) -> float:
        """Seconds to a broker and back; of the nearest one that is known while this one never answered, or 0."""
        own = self.connections._conns.get(node)
        if own is not None and own.round_trip is not None:
            return float(own.round_trip)
        known = (connection.round_trip for connection in self.connections._conns.values())
        return min((seconds for seconds in known if seconds is not None), default=0.0)

    def send(self, request: Any, node: int, done: Callable[[Any], None], timeout_ms: int | None = None) -> None:
        """Sends without waiting: ``done`` gets the answer, or the exception. On the loop's thread only."""
        try:
            future = self.connections.send(request, node, request_timeout_ms=timeout_ms)
        except (kafka_errors.KafkaError, OSError) as failure:
            done(self.link_error(failure))
            return
        future.add_callback(done)
        future.add_errback(lambda failure: done(self.link_error(failure)))

    def run(self, work: Callable[[*Ts], Coroutine[Any, Any, T]], *args: *Ts) -> T:
        """Runs a coroutine function on the loop and returns its result.

        Raises:
            LinkError: another thread has closed the connections, maybe meanwhile.
        """
        if self._closing:
            raise self._link_error(CLOSED, Cause())
        try:
            return cast("T", self.loop.run(work, *args))
        except SparkmirrorError:
            raise
        except (Exception, GeneratorExit) as failure:
            if self._closing:
                raise self._link_error(CLOSED, Cause()) from failure
            raise

    def link_error(self, failure: BaseException) -> LinkError:
        """Maps what kafka-python raised to the error that tells a person."""
        if isinstance(failure, LinkError):
            return failure
        cause = cause_of(failure, self.settings.security.mechanism)
        return self._link_error(str(failure) or type(failure).__name__, cause if cause.hint else self._held_back())

    def _not_reached(self, late: Exception, timeout_ms: float) -> LinkError:
        """There is no connection: the newest one that failed knows why."""
        failure = self.connections.last_failure or late
        reason = f"no connection within {round(timeout_ms / 1000, 1):g} s: {str(failure) or type(failure).__name__}"
        cause = cause_of(failure, self.settings.security.mechanism)
        held = self._held_back()
        return self._link_error(reason, cause if cause.hint else held if held.hint else NOT_REACHED)

    def told(self, words: str | None) -> str:
        """What a broker says of an error in its own words, as it may be shown; "" where it says nothing."""
        return shown(words, self._secrets) if words else ""

    def _held_back(self) -> Cause:
        """What is known of a failure while a quota holds this client back."""
        held = self.throttling.lately(time.monotonic())
        if held is None:
            return Cause()
        return Cause(
            hint=f"broker {held.node} holds {' and '.join(held.doing)} back because of a quota: raise {held.quotas} of "
            f"this user or client id on cluster {self.alias}"
        )

    def _link_error(self, reason: str, cause: Cause) -> LinkError:
        return LinkError(
            cluster=self.alias,
            address=self.address,
            reason=shortened(reason),
            hint=cause.hint,
            setting=cause.setting,
            lasting=cause.lasting,
        )

    def close(self) -> None:
        """Closes every connection; a loop of its own ends too.

        The thread of the loop closes them: from another thread, it would take a socket away while the loop reads from
        it, writes to it or waits for it. A loop that is held for longer than `CLOSE_MS` closes them when it goes on.
        Calls of other threads that wait, or come now, fail.
        """
        self._closing = True
        if self._owns_loop and not self._end_loop():
            log.warning("cluster %s: the network loop did not end within %d ms", self.alias, CLOSE_MS)
            return
        self.connections.close()
        if self._owns_loop:
            self.loop.close()
            # A call may have come between the end of the loop and its closing: kafka-python would leave it waiting.
            self.loop._fail_pending_waiters(kafka_errors.KafkaConnectionError(CLOSED))

    def _end_loop(self) -> bool:
        """Has the loop's thread close the connections and end; whether it has ended."""
        with suppress(Exception):  # of a loop that was closed before, or has crashed
            self.loop.call_soon_threadsafe(self.connections.close)
        self.loop.stop(CLOSE_MS)
        return not self._thread.is_alive()


def _timings(settings: ClientSettings) -> dict[str, Any]:
    given = {
        "request_timeout_ms": settings.request_timeout_ms,
        "reconnect_backoff_ms": settings.reconnect_backoff_ms,
        "reconnect_backoff_max_ms": settings.reconnect_backoff_max_ms,
        "connections_max_idle_ms": settings.connections_max_idle_ms,
        "metadata_max_age_ms": settings.metadata_max_age_ms,
        "socket_connection_setup_timeout_ms": settings.socket_connection_setup_timeout_ms,
        "socket_connection_setup_timeout_max_ms": settings.socket_connection_setup_timeout_max_ms,
        "socket_options": _socket_options(settings),
        "client_dns_lookup": settings.client_dns_lookup,
    }
    return {key: value for key, value in given.items() if value is not None}


def _socket_options(settings: ClientSettings) -> list[tuple[int, int, int]]:
    """What is set on each socket before it connects; a buffer of -1 bytes is left to the system, which adapts it."""
    buffers = ((socket.SO_RCVBUF, settings.receive_buffer_bytes), (socket.SO_SNDBUF, settings.send_buffer_bytes))
    return [
        (socket.IPPROTO_TCP, socket.TCP_NODELAY, 1),
        (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
        *((socket.SOL_SOCKET, name, size) for name, size in buffers if size >= 0),
    ]
