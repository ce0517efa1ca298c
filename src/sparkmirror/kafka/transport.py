"""Connections that move large batches: reads in large pieces, writes without gathering, no copy that is not needed.

kafka-python is made for clients that open records: it reads 4 KiB per system call, joins the pieces, copies an answer
twice before it is decoded, and a request twice before it is sent. Here one buffer is kept for reading, an answer is
decoded where it was assembled, and a request may consist of pieces (see `Pieces`) that go to the socket as they are.

Batches must not leave a process that stood still for long (see ``copy.lease``), and a request waits in several places
on its way: until its connection is set up, while others are in flight, while the socket takes no more. So it is asked
right before each write to a socket whether batches may still go, and if not, the connection is broken off: a broker
drops a request that did not come whole. What remains: a process that is stopped in the microseconds between the
question and the system call, and bytes that lie in the kernel's send buffer when the whole machine is stopped or its
line is gone; the kernel sends them when it is back, if the broker still holds the connection then.

Reference: ``kafka.net.transport``, ``kafka.net.connection``, ``kafka.net.manager`` and ``kafka.protocol.parser`` of
kafka-python 3. Its manager has no hook for the class of a connection, hence `ConnectionManager.get_connection`.
"""

from __future__ import annotations

import logging
import ssl
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

from kafka.cluster import ClusterMetadata
from kafka.net.connection import KafkaConnection, SaslReauthenticator
from kafka.net.inet import create_connection
from kafka.net.manager import KafkaConnectionManager
from kafka.net.transport import KafkaTCPTransport
from kafka.protocol.consumer import FetchRequest
from kafka.protocol.metadata import MetadataRequest, MetadataResponse
from kafka.protocol.parser import KafkaProtocol
from kafka.protocol.sasl import SaslAuthenticateRequest

from kafka import errors as kafka_errors
from sparkmirror.kafka import decoding
from sparkmirror.kafka.causes import cause_of
from sparkmirror.kafka.decoding import Frame
from sparkmirror.kafka.kerberos import Opening
from sparkmirror.kafka.login_errors import login_failure
from sparkmirror.kafka.tls_session import RECORD_BYTES, TlsSession

READ_SIZE = 1 << 20
CHUNK_BYTES = 64 << 10
"""Of TLS that are decrypted before the next are read: few enough to stay in the processor's cache."""

SEALED_BYTES = 128 << 10
"""Encrypted for one system call."""

LOGIN_LIMIT = 1 << 20
"""Bytes of an answer of a broker that has not been asked for anything but its versions and a login."""

OTHERS_LIMIT = 64 << 20
"""Bytes of an answer that brings no batches."""

EPOCHS_HOLD = 9
"""The version of Metadata, of Kafka 2.4, from which on brokers tell no leader epochs of before a reassignment."""

THROTTLE_MS = 60_000
"""The longest pause that one answer may ask for. A broker whose quota is still exceeded then asks again."""
PIECES_PER_CALL = 512
"""Below the least IOV_MAX of Linux and macOS, 1024."""


BOOTSTRAP_TRY_MS, MOST_DOUBLINGS = 3_000, 5

decoding.install()

for _logger in ("kafka.net.connection", "kafka.protocol.parser", "kafka.net.sasl.oauth"):
    # At DEBUG they show whatever is sent, passwords and tokens among it, and what a broker says of a token.
    logging.getLogger(_logger).addFilter(lambda record: record.levelno > logging.DEBUG)


class Pieces(tuple[bytes | bytearray | memoryview, ...]):
    """A request as the pieces that make it up, to be sent one after the other."""

    __slots__ = ()


class _Wide(ABC):
    """Replaces how a kafka-python transport reads and writes."""

    _sock: Any
    _closed: bool
    _close: Callable[[Exception | None], None]
    _write_buffer: Any
    _writing: bool
    _net: Any
    _read_buffer: bytearray | None = None
    _holds_batches = False
    batches_allowed: Callable[[], bool]

    def write(self, data: Any) -> None:
        """Queues bytes, or the pieces of a request."""
        if isinstance(data, Pieces):
            self._holds_batches = True
            self.writelines([memoryview(piece) for piece in data])  # type: ignore[attr-defined]  # of kafka-python
        else:
            super().write(data)  # type: ignore[misc]  # of kafka-python

    def abort(self, error: Exception | None = None) -> None:
        """Closes at once, also a connection that is being closed when what waits has left: that may be never.

        kafka-python would leave it open then, and requests that were sent on it without an answer.
        """
        if self._closed and self._sock is not None:
            self._write_buffer.clear()
            self._close(error)
        else:
            super().abort(error)  # type: ignore[misc]  # of kafka-python

    def _sock_send(self) -> tuple[int, Exception | None]:
        waiting = self._write_buffer
        total = 0
        while waiting:
            if self._sock is None:
                return total, kafka_errors.KafkaConnectionError("the connection was closed while sending")
            if self._holds_batches and not self.batches_allowed():
                return total, kafka_errors.KafkaConnectionError("batches waited too long here, and may not be sent")
            try:
                sent = self._push(waiting)
                _drop(waiting, sent)
            except (BlockingIOError, InterruptedError):
                return total, None
            except OSError as failure:
                return total, kafka_errors.KafkaConnectionError(failure)
            except (AttributeError, IndexError, RuntimeError):
                if not self._closed:
                    raise
                return total, kafka_errors.KafkaConnectionError("another thread closed the connection while sending")
            total += sent
        self._holds_batches = False
        return total, None

    @abstractmethod
    def _push(self, waiting: Any) -> int:
        """Writes what the socket takes at once of a queue that is not empty; the number of bytes."""

    def _sock_recv(self) -> tuple[memoryview, Exception | None]:
        if self._read_buffer is None:
            self._read_buffer = bytearray(READ_SIZE)
        view = memoryview(self._read_buffer)
        filled = 0
        error: Exception | None = None
        while filled < READ_SIZE:
            try:
                count = self._sock.recv_into(view[filled:])
            except (BlockingIOError, InterruptedError):
                break
            except OSError as failure:
                error = kafka_errors.KafkaConnectionError(failure)
                break
            if count == 0:
                error = kafka_errors.KafkaConnectionError("the broker closed the connection")
                break
            filled += count
        # What came before the end is handed out first, such as a refused login; the end is met again at the next read.
        return view[:filled], None if filled else error


class TcpTransport(_Wide, KafkaTCPTransport):  # type: ignore[misc]  # kafka-python carries no types
    """A plain connection; many pieces go in one system call."""

    def _push(self, waiting: Any) -> int:
        return int(self._sock.sendmsg([waiting[i] for i in range(min(len(waiting), PIECES_PER_CALL))]))


def _drop(waiting: Any, sent: int) -> None:
    """Takes ``sent`` bytes off the head of a queue of pieces."""
    while sent:
        head = waiting[0]
        size = len(head)
        if sent < size:
            waiting[0] = memoryview(head)[sent:]
            return
        sent -= size
        waiting.popleft()


class TlsTransport(_Wide, KafkaTCPTransport):  # type: ignore[misc]  # kafka-python carries no types
    """An encrypted connection. Where `CHUNK_BYTES` of TLS bring no data, the loop has its turn before the next ones."""

    def __init__(self, net: Any, sock: Any, host: str | None, context: ssl.SSLContext) -> None:
        super().__init__(net, sock, host=host)
        self._tls = TlsSession(context, host)
        self._came = memoryview(bytearray(CHUNK_BYTES))
        self._sealed, self._sealed_of = memoryview(b""), 0

    async def shake_hands(self, timeout_at: float | None) -> None:
        """Agrees with the broker on keys; kafka-python's own would wait without end for one that hangs.

        Args:
            timeout_at: the deadline, of the monotonic clock.

        Raises:
            KafkaTimeoutError: the broker has not said all of its part in time.
            KafkaConnectionError: what it says of its part has no end.
            ssl.SSLError: it says what cannot be understood or trusted.
        """
        over = self._tls.shake_hands()
        await self._send_leaving(timeout_at)
        while not over:
            await self._net.wait_read(self._sock, timeout_at)
            try:
                count = self._sock.recv_into(self._came)
            except (BlockingIOError, InterruptedError):
                continue
            if count == 0:
                self._tls.end()
            try:
                over = self._tls.shake_hands(self._came[:count])
            except ssl.SSLError:
                with suppress(OSError):
                    self._sock.send(self._tls.leaving())  # the alert that says why
                raise
            await self._send_leaving(timeout_at)

    async def _send_leaving(self, timeout_at: float | None) -> None:
        rest = memoryview(self._tls.leaving())
        while rest:
            try:
                rest = rest[self._sock.send(rest) :]
            except (BlockingIOError, InterruptedError):
                await self._net.wait_write(self._sock, timeout_at)

    def _push(self, waiting: Any) -> int:
        """Writes what the socket takes; bytes stay in the queue until all that was encrypted with them has gone."""
        if not self._sealed:
            self._sealed_of = self._tls.seal(waiting, SEALED_BYTES)
            self._sealed = memoryview(self._tls.leaving())
        self._sealed = self._sealed[self._sock.send(self._sealed) :]
        return 0 if self._sealed else self._sealed_of

    def _sock_recv(self) -> tuple[memoryview, Exception | None]:
        if self._read_buffer is None:
            self._read_buffer = bytearray(READ_SIZE + CHUNK_BYTES + RECORD_BYTES)
        view = memoryview(self._read_buffer)
        filled = 0
        error: Exception | None = None
        try:
            while filled < READ_SIZE:
                count = self._sock.recv_into(self._came)
                if count == 0:
                    error = kafka_errors.KafkaConnectionError("the broker closed the connection")
                    break
                opened = self._tls.open(self._came[:count], view[filled:])
                filled += opened
                if opened < count // 2:
                    break
        except (BlockingIOError, InterruptedError):
            pass
        except ssl.SSLZeroReturnError:
            error = kafka_errors.KafkaConnectionError("the broker closed the connection")
        except OSError as failure:
            error = kafka_errors.KafkaConnectionError(failure)
        except kafka_errors.KafkaConnectionError as failure:
            error = failure
        return view[:filled], None if filled else error


class Protocol(KafkaProtocol):  # type: ignore[misc]  # kafka-python carries no types
    """Frames of one connection; answers are decoded where they lie.

    Attributes:
        limit: longer answers are not read.
    """

    bytes_to_send: list[Any]

    def __init__(self, *, limit: int, **config: Any) -> None:
        super().__init__(**config)
        self.limit = limit
        self._incoming = _Incoming()
        self._topics: dict[int, int] = {}

    def send_request(self, request: Any, correlation_id: int | None = None) -> int:
        """Queues a request; one that knows its pieces is not encoded as a whole."""
        pieces = getattr(request, "pieces", None)
        if pieces is None:
            sent = int(super().send_request(request, correlation_id))
            if isinstance(request, MetadataRequest) and request.topics is not None:
                self._topics[sent] = len(request.topics)
            return sent
        number = self._next_correlation_id() if correlation_id is None else correlation_id
        request.with_header(correlation_id=number, client_id=self._client_id)
        self.bytes_to_send.append(pieces())
        self.in_flight_requests.append(request.header)
        return int(number)

    def send_bytes(self) -> Any:
        """What is queued: bytes, or pieces where a request has them."""
        queued, self.bytes_to_send = self.bytes_to_send, []
        if not queued:
            return b""
        if len(queued) == 1:
            return queued[0]
        if not any(isinstance(one, Pieces) for one in queued):
            return b"".join(queued)
        return Pieces(piece for one in queued for piece in (one if isinstance(one, Pieces) else (one,)))

    def receive_bytes(self, data: Any) -> list[tuple[int, Any]]:
        """Takes what came from the socket: the answers that are whole by now, each with its correlation id.

        Raises:
            KafkaProtocolError: it is no answer to the request that waits for one.
        """
        answers = []
        view = memoryview(data)
        while view:
            view = view[self._incoming.take(view, self._longest) :]
            if self._incoming.whole:
                body, self._incoming = self._incoming.body, _Incoming()
                answers.append(self._process_response(body))
        return answers

    @property
    def _longest(self) -> int:
        """How long the next answer may be."""
        waiting = self.in_flight_requests
        brings_batches = bool(waiting) and waiting[0].request_api_key == FetchRequest.API_KEY
        return self.limit if brings_batches else min(self.limit, OTHERS_LIMIT)

    def _process_response(self, read_buffer: Any) -> tuple[int, Any]:
        """Decodes an answer from a view of its buffer, which kafka-python would copy twice, and log if it is bad."""
        if not self.in_flight_requests:
            raise kafka_errors.CorrelationIdError("the broker answers where nothing was asked")
        header, frame = self.in_flight_requests.popleft(), Frame(read_buffer)
        kind = header.get_response_class()
        topics = self._topics.pop(header.correlation_id, None)
        try:
            came = kind.parse_header(frame).correlation_id
            if came != header.correlation_id:
                raise kafka_errors.CorrelationIdError("the broker answers another request than the one that waits")
            return came, decoding.decode(kind, frame, topics)
        except kafka_errors.KafkaProtocolError:
            raise
        except Exception as failure:
            reason = f"the broker's answer is no {kind.name} of version {header.request_api_version}"
            raise kafka_errors.KafkaProtocolError(f"{reason}: {failure}") from failure


class _Incoming:
    """A frame on its way: four bytes with the length of the body, then the body.

    The memory for a body grows with what has come of it: a length alone is not believed.
    """

    __slots__ = ("_head", "_length", "body")

    def __init__(self) -> None:
        self._head = bytearray()
        self._length = -1
        self.body = bytearray()

    @property
    def whole(self) -> bool:
        """Whether nothing of it is missing."""
        return len(self.body) == self._length

    def take(self, view: memoryview, limit: int) -> int:
        """Takes what belongs to this frame; how many bytes that is.

        Raises:
            InvalidReceiveError: it is longer than ``limit``, or its length is none.
        """
        if self._length < 0:
            part = view[: 4 - len(self._head)]
            self._head += part
            if len(self._head) == 4:
                self._begin(int.from_bytes(self._head, signed=True), limit)
            return len(part)
        part = view[: self._length - len(self.body)]
        self.body += part
        return len(part)

    def _begin(self, length: int, limit: int) -> None:
        if not 0 <= length <= limit:
            raise kafka_errors.InvalidReceiveError(
                f"an answer of {length} bytes is announced; at most {limit} are read"
            )
        self._length = length


class Connection(KafkaConnection):  # type: ignore[misc]  # kafka-python carries no types
    """A connection with the protocol above.

    Attributes:
        round_trip: seconds that the quickest answer took, the handshake among them; None before there was one. Requests
            that wait behind others only make it later, so the least of all is how far away the broker is.
        prepared: whether there is all that the next login needs.
        on_answer: called at each answer.
        throttled: told of each answer by which the broker holds us back: the broker, milliseconds, the kind of answer.
    """

    parser: Any
    round_trip: float | None = None
    _opening: Opening | None = None
    _shown: Sequence[bytes] = ()
    prepared = False
    throttled: Callable[[int | str, int, str], None] | None = None

    def connection_made(self, transport: Any) -> None:
        """Called when the socket is there."""
        super().connection_made(transport)
        limit = min(LOGIN_LIMIT, self.config["receive_message_max_bytes"])
        self.parser = Protocol(client_id=self.config["client_id"], ident=self.parser._ident, limit=limit)

    def _init_complete(self) -> None:
        if self.parser is not None:
            self.parser.limit = self.config["receive_message_max_bytes"]
        super()._init_complete()

    def send_request(self, request: Any, request_timeout_ms: float | None = None) -> Any:
        """Sends it, or has it wait until the connection is ready: no longer than the answer is waited for."""
        answer = super().send_request(request, request_timeout_ms=request_timeout_ms)
        if self._request_buffer and self._request_buffer[-1][1] is answer:
            timer = self.net.call_at(self._request_buffer[-1][2], lambda: self._give_up(answer))
            answer.add_both(lambda _: self.net.cancel(timer))
        return answer

    def _give_up(self, answer: Any) -> None:
        waiting = [each for each in self._request_buffer if each[1] is answer]
        for each in waiting:
            self._request_buffer.remove(each)
            answer.failure(
                kafka_errors.RequestTimedOutError(f"broker {self.node_id} is not ready for requests in time")
            )

    def _send_request(self, request: Any, future: Any = None, timeout_at: float | None = None) -> Any:
        if isinstance(request, SaslAuthenticateRequest):
            self._shown = [*self._shown, bytes(request.auth_bytes)]
        sent = time.monotonic()
        answer = super()._send_request(request, future=future, timeout_at=timeout_at)
        answer.add_callback(lambda _: self._took(time.monotonic() - sent))
        return answer

    def _maybe_throttle(self, response: Any) -> None:
        throttle_ms = getattr(response, "throttle_time_ms", 0)
        if throttle_ms > THROTTLE_MS:
            response.throttle_time_ms = throttle_ms = THROTTLE_MS
        if throttle_ms and self.throttled is not None:
            self.throttled(self.node_id, throttle_ms, type(response).__name__)
        super()._maybe_throttle(response)

    async def _sasl_authenticate(self, timeout_at: float | None = None) -> None:
        """Logs in, with a token or a ticket that was got beside the loop where the mechanism wants one."""
        if timeout_at is None:
            timeout_at = self._timeout_at()
        if not self.prepared:
            await self.ready_to_log_in(timeout_at)
        self.prepared = False
        tickets, opening = self.config["sasl_kerberos_name"], self._opening
        if opening is not None:
            self.config["sasl_kerberos_name"], self._opening = opening, None
        try:
            await super()._sasl_authenticate(timeout_at)
        except Exception as failure:  # noqa: BLE001 - nothing that a broker says of a login leaves here unread
            raise login_failure(
                failure, self.config["sasl_mechanism"], self._shown, self.config["sasl_plain_password"]
            ) from None
        finally:
            self.config["sasl_kerberos_name"], self._shown = tickets, []

    async def ready_to_log_in(self, timeout_at: float) -> None:
        """Returns when there is all that a login needs."""
        tokens, tickets = self.config["sasl_oauth_token_provider"], self.config["sasl_kerberos_name"]
        if tokens is not None:
            await tokens.ready(self.net, timeout_at)
        if tickets is not None and self._opening is None:
            self._opening = await tickets.opening(self.net, self.transport.host, timeout_at)

    def _took(self, seconds: float) -> None:
        self.on_answer()
        self.round_trip = seconds if self.round_trip is None else min(seconds, self.round_trip)


class Reauthenticator(SaslReauthenticator):  # type: ignore[misc]  # kafka-python carries no types
    """Logs in again on a connection whose session is about to end (KIP-368).

    Requests wait while that is going on, so a new token is there before it begins.
    """

    async def _do_reauth(self) -> None:
        await self._conn.ready_to_log_in(self._conn._timeout_at())
        self._conn.prepared = True
        await super()._do_reauth()


class KnownBrokers(ClusterMetadata):  # type: ignore[misc]  # kafka-python carries no types
    """The brokers and their addresses. Topics are not kept here: who asks about them takes them from the answer."""

    def update_metadata(self, metadata: Any) -> None:
        """Takes the brokers of an answer, and the leader epochs out of it where they may be old (KAFKA-9212)."""
        if metadata.API_VERSION < EPOCHS_HOLD:
            for partition in (partition for topic in metadata.topics for partition in topic.partitions):
                partition.leader_epoch = -1
        super().update_metadata(
            MetadataResponse(
                version=metadata.API_VERSION,
                brokers=metadata.brokers,
                cluster_id=metadata.cluster_id,
                controller_id=metadata.controller_id,
                topics=[],
            )
        )

    def failed_update(self, exception: Exception) -> None:
        """Keeps why there are no brokers where an answer is to blame; a connection that failed has told that itself."""
        if isinstance(exception, kafka_errors.KafkaProtocolError):
            self._manager.last_failure = exception
        super().failed_update(exception)


def more_telling(known: Exception | None, failure: Exception, *, cut_short: bool) -> Exception:
    """Which of two failures of connections says more of why there is none: the newer one, with two exceptions.

    Args:
        known: the one before.
        failure: the newer one.
        cut_short: whether the deadline of a call left it less time than an attempt has at least. That its time was up
            says nothing then: the last attempt before a deadline may have a millisecond.
    """
    if known is None or cause_of(failure).lasting:
        return failure
    late = isinstance(failure, kafka_errors.RequestTimedOutError) or (cut_short and _ran_out_of_time(failure))
    return known if late or cause_of(known).lasting else failure


def _ran_out_of_time(failure: Exception) -> bool:
    """Whether a deadline ended it; kafka-python gives that as a failure to connect, with the context."""
    return any(isinstance(each, kafka_errors.KafkaTimeoutError) for each in (failure, failure.__context__))


class ConnectionManager(KafkaConnectionManager):  # type: ignore[misc]  # kafka-python carries no types
    """kafka-python's connections, on the classes above.

    Attributes:
        last_failure: why a connection could not be made, the newest reason that tells more than that time was up;
            while it bootstraps, kafka-python only logs it.
        batches_allowed: asked right before batches go to a socket.
        throttled: as for `Connection`.
    """

    last_failure: Exception | None = None

    def __init__(self, *given: Any, **options: Any) -> None:
        super().__init__(*given, **options)
        self.cluster.__class__ = KnownBrokers
        self.batches_allowed: Callable[[], bool] = lambda: True
        self.throttled: Callable[[int | str, int, str], None] | None = None
        self._turned_away: dict[Any, Exception] = {}

    def get_connection(self, node_id: Any, **options: Any) -> Any:
        """The connection to a broker, made if there is none.

        Raises:
            KafkaError: among others, one side turned the other down a moment ago, for credentials or a certificate:
                told once, since a time-out spent with trying again would hide it. Whoever asks later tries again.
        """
        if node_id in self._turned_away and not self._others_may_do(node_id):
            raise self._turned_away.pop(node_id)
        left_ms, cut_short = options.get("timeout_ms"), False
        if self.cluster.is_bootstrap(node_id) and left_ms is not None:
            options["timeout_ms"] = min(left_ms, self._bootstrap_ms(node_id))
            cut_short = left_ms < BOOTSTRAP_TRY_MS
        connection = super().get_connection(node_id, **options)
        if connection.__class__ is not Connection:
            connection.__class__ = Connection
            connection.throttled = self.throttled
            connection._reauth = Reauthenticator(connection)
            connection.on_answer = self._hear
            connection.init_future.add_errback(lambda failure: self._remember(node_id, failure, cut_short))
            connection.init_future.add_callback(lambda _: self._turned_away.pop(node_id, None))
        return connection

    def takes_at_once(self, node_id: Any) -> bool:
        """Whether a request to a broker would go to its socket now, and not wait for a connection or behind others."""
        known = self._conns.get(node_id)
        if known is None or known.initializing or known.paused or not known.connected:
            return False
        return not known._reauth.is_reauthenticating and not known.transport._write_buffer

    def _hear(self) -> None:
        self.heard = True

    def _others_may_do(self, node_id: Any) -> bool:
        """Whether there are bootstrap servers that have not failed, such as one with a newer certificate."""
        brokers = self.cluster.bootstrap_brokers() if self.cluster.is_bootstrap(node_id) else ()
        return any(
            broker.node_id not in self._turned_away and broker.node_id not in self._backoff for broker in brokers
        )

    def _bootstrap_ms(self, node_id: Any) -> int:
        """How long one bootstrap server may take before another one is tried; longer each time that it was too slow.

        kafka-python would give the first one all the time there is, and a broker that hangs takes connections too.
        """
        failures = self._backoff.get(node_id, (0,))[0]
        return int(BOOTSTRAP_TRY_MS * 2 ** min(failures, MOST_DOUBLINGS))

    def _batches_allowed_now(self) -> bool:
        return self.batches_allowed()

    def _remember(self, node_id: Any, failure: Exception, cut_short: bool) -> None:
        if cause_of(failure).lasting:
            self._turned_away[node_id] = failure
        self.last_failure = more_telling(self.last_failure, failure, cut_short=cut_short)

    async def _build_transport(self, node: Any, timeout_at: float | None = None) -> Any:
        try:
            sock = await create_connection(
                self._net,
                node.host,
                node.port,
                self.config["socket_options"],
                proxy_url=self.config["proxy_url"],
                timeout_at=timeout_at,
            )
        except (ValueError, OverflowError) as failure:  # a name or a port that is none
            raise kafka_errors.KafkaConnectionError(f"the address of broker {node.node_id}: {failure}") from failure
        if self.ssl_enabled:
            transport: Any = TlsTransport(self._net, sock, host=node.host, context=self.config["ssl_context"])
            await self._shake_hands(transport, timeout_at)
        else:
            transport = TcpTransport(self._net, sock, host=node.host)
        transport.batches_allowed = self._batches_allowed_now
        return transport

    async def _shake_hands(self, transport: TlsTransport, timeout_at: float | None) -> None:
        try:
            await transport.shake_hands(timeout_at)
        except Exception as failure:
            transport.abort(failure)  # nobody else knows of its socket yet
            late = isinstance(failure, kafka_errors.KafkaTimeoutError)
            reason = "the broker does not go on with it" if late else failure
            raise kafka_errors.KafkaConnectionError(f"TLS handshake failed: {reason}") from failure
